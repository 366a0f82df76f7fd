"""Threads for large batches: work on different maps goes side by side.

Kernels and compiled triggers let go of the interpreter while they run (`jit`). What goes side by side shares
no map and no table that it reads, and each piece is the same as without threads: results are equal bit for
bit.

Invariant: when `run` returns or raises, nothing is at work any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final, TypeVar

from everfresh.errors import EverfreshError

T = TypeVar("T")
ENOUGH: Final = 10_000
"""Rows of a change from which threads pay."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Up to `count` threads, started when they are first needed; with one there are none.

    >>> workers = Workers(2)
    >>> workers.run([lambda: 1, lambda: 2])
    [1, 2]
    >>> workers.close()
    """

    def __init__(self, count: int = 1, enough: int = ENOUGH) -> None:
        self._count, self._enough = count, enough
        self._pool: ThreadPoolExecutor | None = None

    def pays(self, rows: int) -> bool:
        """Whether work on so many rows is worth sharing out."""
        return self._count > 1 and rows >= self._enough

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """What the tasks return, in their order; an error of one that fails, after all have ended."""
        if len(tasks) < 2 or self._count < 2:
            return [task() for task in tasks]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="everfresh")
        futures: list[Future[T]] = []
        try:
            for task in tasks:
                futures.append(self._pool.submit(task))
            wait(futures)
        except BaseException:
            while not all(future.done() for future in futures):
                with suppress(BaseException):  # the first is raised, when all have ended
                    wait(futures)
            raise
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, EverfreshError)):
            raise error  # a refusal is no news beside what nobody foresaw
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
