"""The slow twin of `everfresh.local.order.ordered_index.OrderedIndex`: a sorted Python list.

The same operations with the same results, one entry at a time, sums as Python integers taken afresh.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Any

import numpy as np

from everfresh.algebra import Kind
from everfresh.local.kernels.ordered_blocks import Ints
from everfresh.local.store.components import wide_from_python, wide_to_python
from everfresh.local.store.pool import Layout


class SortedList:
    """Entries `(key, slot, sums)` in a list sorted by key."""

    def __init__(self, words: int, layout: Layout | None = None) -> None:
        self.words, self.layout = words, layout or Layout()
        self.entries: list[tuple[tuple[int, ...], int, list[int]]] = []

    def __len__(self) -> int:
        return len(self.entries)

    def clear(self) -> None:
        """Remove all entries."""
        self.entries.clear()

    # -- sums between pool rows and Python integers ------------------------------------------------

    def _from_rows(self, sums: Ints | None, m: int) -> list[list[int]]:
        if sums is None:
            return [[0] * len(self.layout.kinds) for _ in range(m)]
        columns = []
        for kind, row in zip(self.layout.kinds, self.layout.offsets, strict=True):
            wide = kind == Kind.WIDE
            columns.append(wide_to_python(sums[row], sums[row + 1]) if wide else sums[row].tolist())
        return [list(values) for values in zip(*columns, strict=True)] if columns else [[] for _ in range(m)]

    def _to_rows(self, sums: Sequence[Sequence[int]]) -> Ints:
        rows: list[Any] = []
        for component, kind in enumerate(self.layout.kinds):
            values = [s[component] for s in sums]
            rows.extend(wide_from_python(values) if kind == Kind.WIDE else [np.array(values, np.int64)])
        return np.array(rows, np.int64).reshape(self.layout.int_rows, len(sums))

    def _sum(self, start: int, stop: int) -> list[int]:
        found = [sums for _, _, sums in self.entries[start:stop]]
        return [sum(s[c] for s in found) for c in range(len(self.layout.kinds))]

    # -- change ------------------------------------------------------------------------------------

    def apply(self, ops: Ints, keys: Ints, slots: Ints, sums: Ints | None = None) -> Ints:
        """Enter (1), remove (-1) or add to (0) keys in order; the slot each had before, or -1."""
        out = []
        given = self._from_rows(sums, len(ops))
        for op, key, slot, delta in zip(
            ops.tolist(), map(tuple, keys.T.tolist()), slots.tolist(), given, strict=True
        ):
            at = bisect_left(self.entries, (key,))
            found = at < len(self.entries) and self.entries[at][0] == key
            out.append(self.entries[at][1] if found else -1)
            if found and op < 0:
                del self.entries[at]
            elif found and op == 0:
                old = self.entries[at]
                self.entries[at] = (*old[:2], [a + b for a, b in zip(old[2], delta, strict=True)])
            elif not found and op > 0:
                insort(self.entries, (key, slot, delta))
        return np.array(out, np.int64)

    def insert(self, keys: Ints, slots: Ints, sums: Ints | None = None) -> Ints:
        """Enter keys."""
        return self.apply(np.ones(len(slots), np.int64), keys, slots, sums)

    def build(self, keys: Ints, slots: Ints, sums: Ints | None = None) -> None:
        """Hold exactly these entries."""
        self.clear()
        self.insert(keys, slots, sums)

    def remove(self, keys: Ints) -> Ints:
        """Remove keys."""
        m = keys.shape[1]
        return self.apply(np.full(m, -1), keys, np.zeros(m, np.int64))

    def add(self, keys: Ints, sums: Ints) -> Ints:
        """Add to the sums of keys."""
        m = keys.shape[1]
        return self.apply(np.zeros(m, np.int64), keys, np.zeros(m, np.int64), sums)

    # -- questions ---------------------------------------------------------------------------------

    def rank(self, keys: Ints, after: bool = False) -> Ints:
        """How many entries sort before each key or prefix (or agree with it)."""
        side = bisect_right if after else bisect_left
        cut = [key[: len(keys)] for key, _, _ in self.entries]
        return np.array([side(cut, tuple(key)) for key in keys.T.tolist()], np.int64)

    def range(
        self, low: Ints, high: Ints, low_open: bool = False, high_open: bool = False
    ) -> tuple[Ints, Ints]:
        """The ranks between bounds."""
        starts, stops = [], []
        for a, b in zip(low.T.tolist(), high.T.tolist(), strict=True):
            inside = [
                i
                for i, (key, _, _) in enumerate(self.entries)
                if (list(key[: len(a)]) > a if low_open else list(key[: len(a)]) >= a)
                and (list(key[: len(b)]) < b if high_open else list(key[: len(b)]) <= b)
            ]
            first = int(self.rank(np.array([a]).T, after=low_open)[0])
            starts.append(inside[0] if inside else first)
            stops.append(inside[-1] + 1 if inside else first)
        return np.array(starts, np.int64), np.array(stops, np.int64)

    def find(
        self, component: int, values: Sequence[int] | Ints, strict: bool = False, start: Any = 0
    ) -> Ints:
        """The first rank where the sum of a component passes each value."""
        out = []
        starts = np.broadcast_to(np.asarray(start), len(values)).tolist()
        for value, first in zip(values, starts, strict=True):
            found, total = len(self), 0
            for i in range(max(first, 0), len(self)):
                total += self.entries[i][2][component]
                if total > value or (total == value and not strict):
                    found = i
                    break
            out.append(found)
        return np.array(out, np.int64)

    def _at(self, rank: int) -> tuple[tuple[int, ...], int]:
        return self.entries[rank][:2] if 0 <= rank < len(self) else ((-1,) * self.words, -1)

    def slots_at(self, ranks: Ints) -> Ints:
        """The slots of entries by rank."""
        return np.array([self._at(r)[1] for r in ranks.tolist()], np.int64)

    def keys_at(self, ranks: Ints) -> Ints:
        """The keys of entries by rank."""
        return np.array([self._at(r)[0] for r in ranks.tolist()], np.int64).reshape(len(ranks), self.words).T

    def nth(self, prefixes: Ints, k: int) -> Ints:
        """The slot of the k-th entry that starts with each prefix."""
        out = []
        for prefix in prefixes.T.tolist():
            found = [slot for key, slot, _ in self.entries if list(key[: len(prefix)]) == prefix]
            out.append(found[k] if -len(found) <= k < len(found) else -1)
        return np.array(out, np.int64)

    def first(self, prefixes: Ints) -> Ints:
        """The first entry of each prefix."""
        return self.nth(prefixes, 0)

    def last(self, prefixes: Ints) -> Ints:
        """The last entry of each prefix."""
        return self.nth(prefixes, -1)

    def between(self, starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
        """Pairs of range number and slot."""
        pairs = [
            (i, slot)
            for i, (a, b) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True))
            for _, slot, _ in self.entries[max(a, 0) : max(b, 0)]
        ]
        return np.array([i for i, _ in pairs], np.int64), np.array([s for _, s in pairs], np.int64)

    def slots(self, prefix: Sequence[int] = (), k: int | None = None, descending: bool = False) -> Ints:
        """The slots of the entries that start with a prefix, in order."""
        found = [slot for key, slot, _ in self.entries if key[: len(prefix)] == tuple(prefix)]
        found = found[::-1] if descending else found
        return np.array(found if k is None else found[: max(k, 0)], np.int64)

    def prefix(self, keys: Ints, after: bool = False) -> Ints:
        """The sums over the entries before each key or prefix (or that agree with it)."""
        return self.sums_before(self.rank(keys, after))

    def sums_before(self, ranks: Ints) -> Ints:
        """The sums over the first entries."""
        return self._to_rows([self._sum(0, max(r, 0)) for r in ranks.tolist()])

    def sums_between(self, starts: Ints, stops: Ints) -> Ints:
        """The sums over ranges of ranks."""
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        return self._to_rows([self._sum(a, b) for a, b in pairs])

    def total(self) -> Ints:
        """The sums over all entries."""
        return self.sums_before(np.array([len(self)]))[:, 0]
