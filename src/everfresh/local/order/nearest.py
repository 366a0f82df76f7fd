"""The least or greatest value of a map's last key on one side of a key: the next event, the previous one.

Both maps are kept in order (`bands`), that of the values and that of the keys that are asked for. A question
is one descent. Which keys a change of values concerns follows from the order, too: a value y that comes or
goes is the next one only of keys that have no other value between them and y. The values that change cut the
keys into pieces, so that no key is looked at for two of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from everfresh.compiler import MIRRORED
from everfresh.expr import Var, Vector
from everfresh.local.adhoc.frame import take
from everfresh.local.adhoc.keys import codes
from everfresh.local.interpret.frame_columns import Cells, assemble, column_cells
from everfresh.local.order.value_index import Asked, Band
from everfresh.local.store.entries import Before, EntryStore
from everfresh.program import Side
from everfresh.types import Column

Ints = NDArray[np.int64]
_WITH_EQUAL = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
"""Whether a key that equals the value before is on this side of it: exactly if it would not count that."""


class Nearest:
    """Answers for a side of a relation whose own map is `base`."""

    def __init__(self, side: Side, values: EntryStore, base: EntryStore) -> None:
        self._side, self._values, self._base = side, values, base
        self._value = values.columns[-1]
        self._key = next(c for c in base.columns if c.name == side.key)
        names = [c.name for c in values.columns[:-1]]
        self._groups = values.columns[:-1]
        self._base_groups = tuple(c for c in base.columns if c.name in names)
        self._up = side.than in (">", ">=")
        """Whether values above a key count."""
        self._near = self._up == (side.how == "min")
        """Whether the value next to the key is asked for, and not the farthest."""
        self.visited = 0

    def at(self, groups: Sequence[Cells], key: Cells, rows: int, before: Before) -> Vector:
        """The value for each row, given the keys that the maps share and the one to compare with; NULL where
        there is none."""
        band = band_of(self._values, self._value, self._groups)
        slots = np.full(rows, -1, np.int64)
        able, words = _words(band, groups, rows)
        limit = key.vector if able is None else key.vector.take(able)
        found = self._first(band, [[[(self._side.than, limit)]]], words, self._side.how == "min", before)
        slots[slice(None) if able is None else able] = found
        there = np.flatnonzero(slots >= 0)
        place = np.full(rows, -1, np.int64)
        place[there] = np.arange(len(there))
        return take(self._values.cells(self._value, slots[there]).vector, place)

    def _first(self, band: Band, asked: Asked, groups: Ints, least: bool, before: Before) -> Ints:
        """The slots of the least or greatest value that is asked for and counts; -1 where there is none."""
        ((starts, stops),) = band.spans(asked, groups)
        ranks, step = (starts.copy(), 1) if least else (stops - 1, -1)
        out = np.full(len(ranks), -1, np.int64)
        open_ = np.flatnonzero(starts < stops)
        while len(open_):  # more than once only where a count is zero
            slots = band.slots_at(ranks[open_])
            self.visited += len(slots)
            counted = self._values.entries(slots, before).n != 0
            out[open_[counted]] = slots[counted]
            open_ = open_[~counted]
            ranks[open_] += step
            open_ = open_[(starts[open_] <= ranks[open_]) & (ranks[open_] < stops[open_])]
        return out

    # -- changes -----------------------------------------------------------------------------------

    def touched(self, words: Ints) -> Ints:
        """The keys of the relation's map for which entries of the values, given by their keys, may be the
        answer, or may have been."""
        store = self._values
        cells = [column_cells(store.codec, c, words) for c in store.columns]
        value = cells.pop().vector
        rows = np.arange(words.shape[1]) if value.valid is None else np.flatnonzero(value.valid)
        if not len(rows):
            return self._joined([])
        group = store.codec.project(words, band_of(store, self._value, self._groups).groups)
        rank = codes(value)
        rows = rows[np.lexsort((rank[rows], *group[:, rows]))]
        if not self._up:
            rows = rows[::-1]  # what lies between a value and the keys that it concerns comes before it
        same = np.ones(max(len(rows) - 1, 0), np.bool_)
        for word in group:
            same &= word[rows][1:] == word[rows][:-1]
        again = same & (rank[rows][1:] == rank[rows][:-1])
        keep = np.r_[True, ~again][: len(rows)]
        same = np.r_[False, same][: len(rows)][keep]
        rows = rows[keep]
        groups = [c.take(rows) for c in cells]
        changed = value.take(rows)
        return self._between(groups, changed, same) if self._near else self._behind(groups, changed, same)

    def _between(self, groups: Sequence[Cells], changed: Vector, same: NDArray[np.bool_]) -> Ints:
        """Near values: keys from each value to the one before it, another that changes or one that stays.
        `same`: whether the value in front of it in the order is of its group."""
        toward = "<" if self._up else ">"
        other = MIRRORED[toward]
        parts = []
        for some in (np.flatnonzero(same), np.flatnonzero(~same)):
            if not len(some):
                continue
            bounded = bool(same[some[0]])
            value, own = changed.take(some), [c.take(some) for c in groups]
            last = changed.take(some - 1) if bounded else None
            band = band_of(self._values, self._value, self._groups)
            able, words = _words(band, own, len(some))
            assert able is None, "a key of a map is a key of its index"
            limits = [(toward, value), *([(other, last)] if last is not None else [])]
            found = self._first(band, [[limits]], words, not self._up, {})
            stays = np.flatnonzero(found >= 0)
            edge = self._values.cells(self._value, found[stays]).vector
            parts.append(self._keys([c.take(stays) for c in own], value.take(stays), edge))
            rest = np.flatnonzero(found < 0)
            edges = None if last is None else last.take(rest)
            parts.append(self._keys([c.take(rest) for c in own], value.take(rest), edges))
        return self._joined(parts)

    def _behind(self, groups: Sequence[Cells], changed: Vector, same: NDArray[np.bool_]) -> Ints:
        """Far values: all keys that count the farthest value of a group that changes, unless one that stays
        is farther."""
        rows = np.flatnonzero(~np.r_[same[1:], False])  # the last of each group is the farthest
        value, own = changed.take(rows), [c.take(rows) for c in groups]
        band = band_of(self._values, self._value, self._groups)
        _, words = _words(band, own, len(rows))
        farther = self._first(band, [[[(">" if self._up else "<", value)]]], words, not self._up, {})
        rows = np.flatnonzero(farther < 0)
        return self._keys([c.take(rows) for c in own], value.take(rows), None)

    def _keys(self, groups: Sequence[Cells], value: Vector, edge: Vector | None) -> Ints:
        """The keys that count a value, as far as another one that they do not, or that is as good."""
        base = self._base
        band = band_of(base, self._key, self._base_groups)
        by_name = dict(zip((c.name for c in self._groups), groups, strict=True))
        able, words = _words(band, [by_name[c.name] for c in self._base_groups], len(value))
        limits = [(MIRRORED[self._side.than], value)]
        if edge is not None:
            limits.append((_WITH_EQUAL[self._side.than], edge))
        if able is not None:
            limits = [(op, limit.take(able)) for op, limit in limits]
        _, slots = band.entries(band.spans([[limits]], words))
        self.visited += len(slots)
        return base.words(slots)

    def _joined(self, parts: Sequence[Ints]) -> Ints:
        return np.concatenate(parts, axis=1) if parts else np.zeros((self._base.codec.words, 0), np.int64)


def band_of(store: EntryStore, column: Column, groups: Sequence[Column]) -> Band:
    """The entries of a map in the order of a column among those that agree on others; it follows the map."""
    place = store.columns.index(column)
    name = "band", "", Var(str(place), column.type, column.nullable), tuple(c.name for c in groups)

    def values(slots: Ints, words: Ints) -> Vector:
        return store.cells(column, slots).vector

    return store.follower(
        name, lambda: Band(store.pool, store.codec, values, column.type, groups, store.ranks)
    )


def _words(band: Band, groups: Sequence[Cells], rows: int) -> tuple[Ints | None, Ints]:
    """By which words of its groups a band is asked, and for which rows: None stands for all."""
    words, able = assemble(band.groups, groups, rows)
    return able, words
