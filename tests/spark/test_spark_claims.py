"""Tasks of a job claim the workers that they serve: all are served, each by one, whoever asks, and however
often."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.spark.jobs.claims import _CLAIM, _name, claimed, forget
from everfresh.spark.jobs.job import Job, World


def job(root: Path, workers: int, nonce: str = "n") -> Job:
    world = World(str(root), "d", workers, (), {}, frozenset(), 1, 0, False)
    return Job(nonce, "batch", world, {})


def nothing(_: int) -> int:
    return 0


def test_a_partition_gets_its_own_worker_where_nothing_is_held(tmp_path: Path) -> None:
    asked = job(tmp_path, 3)
    assert [claimed(asked, p, range(3), nothing) for p in (2, 0, 1)] == [2, 0, 1]


def test_a_process_gets_the_worker_whose_state_it_has(tmp_path: Path) -> None:
    asked = job(tmp_path, 3)
    held = {0: {2: 10}, 1: {0: 5, 2: 50}, 2: {}}
    assert claimed(asked, 1, range(3), lambda w: held[1].get(w, 0)) == 2
    assert claimed(asked, 0, range(3), lambda w: held[0].get(w, 0)) == 0  # 2 is taken
    assert claimed(asked, 2, range(3), lambda w: held[2].get(w, 0)) == 1


def test_a_task_that_is_run_again_finds_its_worker(tmp_path: Path) -> None:
    asked = job(tmp_path, 2)
    assert claimed(asked, 0, range(2), lambda w: w) == 1
    assert claimed(asked, 0, range(2), lambda w: -w) == 1
    assert claimed(asked, 1, range(2), lambda w: w) == 0


def test_some_workers_only(tmp_path: Path) -> None:
    asked = job(tmp_path, 9)
    assert {claimed(asked, p, (4, 7), lambda w: w) for p in range(2)} == {4, 7}


def test_jobs_do_not_see_each_other_and_leave_nothing(tmp_path: Path) -> None:
    one, other = job(tmp_path, 2, "one"), job(tmp_path, 2, "other")
    for asked in (one, other):
        assert {claimed(asked, p, range(2), lambda w: w) for p in range(2)} == {0, 1}
        forget(asked, 2)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_claim_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    asked = job(tmp_path, 2)
    path = tmp_path / _name(asked, 0)
    path.parent.mkdir()
    path.write_bytes(b"\0")  # as on a file system without links
    timer = threading.Timer(0.05, lambda: path.write_bytes(_CLAIM.pack(1, 0)))
    timer.start()
    assert claimed(asked, 0, range(2), nothing) == 1
    timer.join()


@pytest.mark.parametrize("seed", range(5))
def test_all_workers_are_served_once_by_tasks_at_the_same_time(tmp_path: Path, seed: int) -> None:
    """Every partition is asked for twice, as by speculation, in threads that start together."""
    workers, rng = 6, random.Random(seed)
    asked = job(tmp_path, workers)
    start = threading.Barrier(2 * workers)
    got: list[tuple[int, int]] = []

    def task(partition: int, sizes: Sequence[int]) -> None:
        start.wait()
        got.append((partition, claimed(asked, partition, range(workers), sizes.__getitem__)))

    threads = [
        threading.Thread(target=task, args=(p, [rng.randrange(3) for _ in range(workers)]))
        for p in itertools.chain(range(workers), range(workers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = dict(got)
    assert len(got) == 2 * workers
    assert all(found[partition] == worker for partition, worker in got)
    assert sorted(found.values()) == list(range(workers))


@pytest.mark.parametrize("claim", [(1, 9), (0, 0)])
def test_what_no_task_claimed_is_refused(tmp_path: Path, claim: tuple[int, int]) -> None:
    asked = job(tmp_path, 2)
    assert claimed(asked, 0, range(2), nothing) == 0
    asked.world.store.replace(_name(asked, 1), _CLAIM.pack(*claim), durable=False)
    with pytest.raises(EverfreshError) as refused:
        claimed(asked, 1, range(2), nothing)
    assert refused.value.code == Code.DAMAGED
