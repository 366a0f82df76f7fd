"""Files side by side: results in their order, errors where they belong, and nothing at work afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from everfresh.raw.ahead import ahead


def ours() -> int:
    return sum(thread.name.startswith("everfresh-files") for thread in threading.enumerate())


def steps(name: int, pause: float = 0.0, fails: bool = False) -> Iterator[tuple[int, int]]:
    for step in range(3):
        time.sleep(pause)
        yield name, step
    if fails:
        raise ValueError(f"{name} is damaged")


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_order_and_errors_alone(threads: int) -> None:
    tasks = [lambda k=k: steps(k, 0.002 * (7 - k), k == 3) for k in range(7)]  # type: ignore[misc]
    found = []
    with closing(ahead(tasks, threads)) as results:
        for result in results:
            try:
                found.append(result())
            except ValueError as error:
                found.append(str(error))  # type: ignore[arg-type]
    assert found == [(0, 2), (1, 2), (2, 2), "3 is damaged", (4, 2), (5, 2), (6, 2)]
    assert not ours()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_who_leaves_has_nothing_at_work(error: type[BaseException]) -> None:
    """What is at work ends with its next step, what waits is never begun."""
    begun, steps_done = [], []

    def endless(name: int) -> Iterator[int]:
        begun.append(name)
        for step in range(10_000):
            time.sleep(0.001)
            steps_done.append(step)
            yield step

    tasks = [lambda: iter([1]), *[lambda k=k: endless(k) for k in range(9)]]  # type: ignore[misc]

    def leave() -> None:
        with closing(ahead(tasks, 2)) as some:
            assert next(some)() == 1
            raise error

    with pytest.raises(error):
        leave()
    assert not ours()
    assert len(begun) < 5
    assert len(steps_done) < 5_000


def test_few_files_are_read_no_sooner_than_asked_for() -> None:
    read: list[int] = []

    def task(name: int) -> Iterator[int]:
        read.append(name)
        yield name

    with closing(ahead([lambda k=k: task(k) for k in range(3)], 1)) as results:  # type: ignore[misc]
        assert next(results)() == 0
    assert read == [0]
