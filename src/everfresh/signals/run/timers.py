"""Which groups have something to do when time passes: slots in buckets of time, opened as time reaches them.

A slot stands in one bucket or in none; one whose deadline has moved to later is put where it belongs when its
old bucket is opened. So time passes without a look at groups that wait for nothing.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from everfresh.signals.run.flow import NEVER, Array


class Timers:
    """Deadlines by slot.

    >>> timers = Timers()
    >>> timers.grow(3)
    >>> timers.set(np.array([0, 2]), np.array([10, 500]))
    >>> timers.passed(10).tolist(), timers.passed(10_000).tolist()
    ([0], [2])
    """

    def __init__(self, width: int = 1) -> None:
        self.width = max(1, width)
        self._due = np.full(0, NEVER, np.int64)
        self._queued = np.full(0, NEVER, np.int64)
        self._buckets: dict[int, list[Array]] = {}
        self._heap: list[int] = []

    def grow(self, count: int) -> None:
        """Have room for so many slots."""
        if len(self._due) < count:
            more = np.full(max(count, 3 * len(self._due) // 2) - len(self._due), NEVER, np.int64)
            self._due = np.concatenate([self._due, more])
            self._queued = np.concatenate([self._queued, more])

    def of(self, slots: Array) -> Array:
        """The deadlines of slots."""
        found: Array = self._due[slots]
        return found

    def set(self, slots: Array, due: Array) -> None:
        """Give slots other deadlines; `NEVER` is none."""
        self._due[slots] = due
        waiting = due < NEVER
        if not waiting.any():
            return
        slots, due = slots[waiting], due[waiting]
        buckets = due // self.width
        moved = buckets < self._queued[slots]
        if moved.any():
            self._queue(slots[moved], buckets[moved])

    def _queue(self, slots: Array, buckets: Array) -> None:
        self._queued[slots] = buckets
        if len(slots) == 1 or buckets.min() == buckets.max():
            self._put(int(buckets[0]), slots)
            return
        order = np.argsort(buckets, kind="stable")
        slots, buckets = slots[order], buckets[order]
        cuts = np.flatnonzero(np.diff(buckets)) + 1
        for part, bucket in zip(np.split(slots, cuts), buckets[np.r_[0, cuts]].tolist(), strict=True):
            self._put(bucket, part)

    def _put(self, bucket: int, slots: Array) -> None:
        if bucket not in self._buckets:
            self._buckets[bucket] = []
            heapq.heappush(self._heap, bucket)
        self._buckets[bucket].append(slots)

    def passed(self, time: int) -> Array:
        """The slots whose deadlines are reached; they are waited for no more until they are `set` again."""
        found = []
        again = []
        while self._heap and self._heap[0] * self.width <= time:
            bucket = heapq.heappop(self._heap)
            slots = np.unique(np.concatenate(self._buckets.pop(bucket)))
            slots = slots[self._queued[slots] == bucket]
            reached = self._due[slots] <= time
            found.append(slots[reached])
            again.append(slots[~reached & (self._due[slots] < NEVER)])
            self._queued[slots] = NEVER
        if again:
            later = np.concatenate(again)
            if len(later):
                self._queue(later, self._due[later] // self.width)
        if not found:
            return np.zeros(0, np.int64)
        return np.sort(np.concatenate(found))  # however they were queued

    def encode(self) -> dict[str, Any]:
        """The deadlines."""
        slots = np.flatnonzero(self._due < NEVER)
        return {"slots": slots, "due": self._due[slots], "count": np.array([len(self._due)])}

    def decode(self, arrays: dict[str, Array]) -> None:
        """The inverse of `encode`."""
        self.__init__(self.width)  # type: ignore[misc]
        self.grow(int(arrays["count"][0]))
        self.set(arrays["slots"], arrays["due"])

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        waiting = sum(part.nbytes for parts in self._buckets.values() for part in parts)
        return self._due.nbytes + self._queued.nbytes + waiting
