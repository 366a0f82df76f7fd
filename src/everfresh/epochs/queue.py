"""Batches that wait to be committed: whoever has the lock commits all that have queued meanwhile.

Threads that apply small batches at the same time share the cost of a commit (group commit): one write and one
sync for several epochs. Each batch stays atomic, with an epoch and a key of its own, in the order in which
they came; one that is refused is refused alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.program.engine import Batch

ROWS = 1 << 17
"""A group ends with the batch that brings it to this many rows."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A batch on its way, the catalog that its rows were read by, and what came of it."""

    batch: Batch
    catalog: Any
    result: int | Exception | None = None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(int(part.rows.num_rows) for part in self.batch.parts)

    def check(self, catalog: Any) -> None:
        """Raise if a table is no longer what it was when the rows were read."""
        if catalog is self.catalog:
            return
        for name in {part.table for part in self.batch.parts}:
            if catalog.expect_table(name) != self.catalog.tables[name]:
                raise EverfreshError(
                    Code.DEPENDENCY,
                    f"table '{name}' was altered while a batch for it was on its way",
                    hint="send the batch again",
                )


def chosen(
    ready: Sequence[Waiting], committed: Callable[[str], int | None]
) -> tuple[list[Waiting], list[Waiting]]:
    """What to apply now, and what to look at again after it: batches with the key of one before them. One
    whose key was committed has its result."""
    now: list[Waiting] = []
    later: list[Waiting] = []
    keys: set[str] = set()
    for waiting in ready:
        key = waiting.batch.key
        if key is not None:
            waiting.result = committed(key)
            if waiting.result is not None:
                continue
            if key in keys:
                later.append(waiting)
                continue
            keys.add(key)
        now.append(waiting)
    return now, later


class Queue:
    """What waits, in order."""

    def __init__(self, commit: Callable[[Sequence[Waiting]], None]) -> None:
        self._commit = commit
        self._waiting: deque[Waiting] = deque()

    def commit(self, batch: Batch, catalog: Any, lock: AbstractContextManager[Any]) -> int:
        """Commit a batch with those that wait when the lock is free; returns its epoch."""
        mine = Waiting(batch, catalog)
        try:
            self._waiting.append(mine)
            with lock:
                while mine.result is None:
                    self._commit_group()
        except BaseException:  # interrupted: what nobody has begun with is not to be committed
            with suppress(ValueError):
                self._waiting.remove(mine)
            raise
        if isinstance(mine.result, Exception):
            raise mine.result
        return mine.result

    def _commit_group(self) -> None:
        group: list[Waiting] = []
        rows = 0
        try:
            while self._waiting and rows < ROWS:
                group.append(self._waiting[0])
                self._waiting.popleft()
                if self._waiting:
                    rows += group[-1].rows
            self._commit(group)
        except Exception as error:  # none of them was committed, unless it has an epoch already
            for waiting in group:
                if waiting.result is None:
                    waiting.result = error
        except BaseException:
            for waiting in group:
                if waiting.result is None:
                    waiting.result = _interrupted()
            raise


def _interrupted() -> EverfreshError:
    return EverfreshError(
        Code.INTERRUPTED,
        "a thread was interrupted while it committed this batch together with its own",
        hint="it is committed whole or not at all; with a key it can be sent again in any case",
    )
