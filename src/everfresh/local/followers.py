"""What follows a pool in order: extremes per group, the first rows of a bag, entries between thresholds.

Implements 1.9 and 6.3 of the notes on SQL: like a slice (`slices`), a follower enters slots when they are
created (`add`) and lets them go when they are removed (`remove`), with the words of their entries; the pool
must still hold an entry when its slot is removed. Counts are not copied: they are read from the pool when a
question is asked, so that inside a batch an entry whose count has come to zero is passed over.

Invariant: between batches a follower holds exactly the live slots of its pool that were announced to it and
have an order (rows without a value, NULL, stand nowhere), each under the words of its entry. When the labels
of strings are given anew, it is filled again from the pool before the next use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from everfresh.expr import Vector
from everfresh.local.codec import Codec
from everfresh.local.ordered import OrderedIndex
from everfresh.local.ordered_kernels import Ints
from everfresh.local.pool import Pool
from everfresh.local.ranking import Ordering, Ranks, SortKey, encode
from everfresh.types import Column, SqlType

Counts = Callable[[Ints], Ints]
"""The counts of some slots."""


class _Follower:
    """Slots of a pool in an ordered index whose last key word is the slot, so that keys differ."""

    def __init__(self, pool: Pool, words: int) -> None:
        self._pool = pool
        self._index = OrderedIndex(words + 1)
        self._version = self._labels()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of the index."""
        return self._index.nbytes

    def _labels(self) -> int:
        """The version of the labels that stand in the keys."""
        raise NotImplementedError

    def _encode(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        """Those of the slots that have an order, and their keys but for the slot."""
        raise NotImplementedError

    def _keys(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        """The slots to enter or remove and their keys, after the index has been brought to these labels."""
        slots, keys = self._encode(slots, words)
        self._refresh()
        return slots, np.concatenate([keys, slots[None]])

    def _refresh(self) -> None:
        """Take all keys again if labels have been given anew."""
        if self._version != self._labels():
            slots, keys = self._encode(*self._held())
            self._version = self._labels()
            self._index.build(np.concatenate([keys, slots[None]]), slots)

    def _counts(self, slots: Ints) -> Ints:
        return self._pool.gather(slots).n

    def _held(self) -> tuple[Ints, Ints]:
        slots = self._index.slots()
        return slots, self._pool.keys_at(slots)

    def add(self, slots: Ints, words: Ints) -> None:
        """Enter some slots with the words of their entries."""
        slots, keys = self._keys(slots, words)
        self._index.insert(keys, slots)

    def touch(self, slots: Ints, words: Ints) -> None:
        """Notice that the values of some slots have changed: here they do not matter."""

    def remove(self, slots: Ints, words: Ints) -> None:
        """Take some slots out; those that are not there any more stay so."""
        self._index.remove(self._keys(slots, words)[1])


class Extremes(_Follower):
    """The least and the greatest `value` per group of a map with the columns `groups` and `value` in its key.

    NULL is no value: it is neither. An entry counts while its count in the pool is not zero; a question may
    bring counts of its own, those of a state whose entries are all still there.
    """

    def __init__(
        self, pool: Pool, codec: Codec, groups: Sequence[Column], value: Column, ranks: Ranks | None = None
    ) -> None:
        self._codec, self._value = codec, value
        self._groups = Codec(groups, codec.interner)
        self._ordering = Ordering(codec, [SortKey(value.name)], ranks)
        super().__init__(pool, self._groups.words + self._ordering.words - value.nullable)
        self.visited = 0
        """How many entries have been looked at."""

    def _labels(self) -> int:
        return self._ordering.version

    def _encode(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        valid = self._codec.column_words(words, self._value)[1]
        if valid is not None:
            slots, words = slots[valid], words[:, valid]
        groups = self._codec.project(words, self._groups)
        order = self._ordering.encode(words)[int(self._value.nullable) :]  # no NULL: no null word
        return slots, np.concatenate([groups, order])

    def first(self, groups: Ints, counts: Counts | None = None) -> Ints:
        """The slots of the least values of groups (`group_words`); -1 where there is none."""
        return self._end(groups, 1, counts or self._counts)

    def last(self, groups: Ints, counts: Counts | None = None) -> Ints:
        """The slots of the greatest values."""
        return self._end(groups, -1, counts or self._counts)

    def group_words(self, vectors: Sequence[Vector], rows: int) -> Ints:
        """The words by which to ask for groups."""
        return self._groups.encode_vectors(vectors, rows)

    def _end(self, groups: Ints, step: int, counts: Counts) -> Ints:
        self._refresh()
        starts, stops = self._index.span(groups)
        ranks = starts.copy() if step > 0 else stops - 1
        out = np.full(len(ranks), -1)
        open_ = np.flatnonzero(starts < stops)
        while len(open_):  # more than once only where a count is zero
            slots = self._index.slots_at(ranks[open_])
            self.visited += len(slots)
            counted = counts(slots) != 0
            out[open_[counted]] = slots[counted]
            open_ = open_[~counted]
            ranks[open_] += step
            open_ = open_[(starts[open_] <= ranks[open_]) & (ranks[open_] < stops[open_])]
        return out


@dataclass(frozen=True, slots=True)
class Rows:
    """Entries in order, with how many rows of each."""

    slots: Ints
    counts: Ints


class TopRows(_Follower):
    """Rows `offset` to `offset + limit` of a bag, ordered by `keys` and then by all other columns.

    The other columns make the order total (ascending, NULLs last), so that ties do not depend on history. A
    tuple may be cut inside its multiplicity. The first `offset + limit` rows are walked, and only when
    something that sorts before the end of the last answer was added, removed or touched.
    """

    def __init__(
        self,
        pool: Pool,
        codec: Codec,
        keys: Sequence[SortKey],
        limit: int,
        offset: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        if limit < 0 or offset < 0:
            raise ValueError("a limit and an offset are not negative")
        named = {key.name for key in keys}
        rest = [SortKey(c.name) for c in codec.columns if c.name not in named]
        self._ordering = Ordering(codec, [*keys, *rest], ranks)
        self._limit, self._offset = limit, offset
        self._rows: Rows | None = None
        self.visited = 0
        """How many entries have been walked over."""
        self._end: Ints | None = None  # the last key that the answer depends on; None: on all of them
        super().__init__(pool, self._ordering.words)

    def _labels(self) -> int:
        return self._ordering.version

    def _encode(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        return slots, self._ordering.encode(words)

    def _refresh(self) -> None:
        if self._version != self._labels():
            self._rows = None
        super()._refresh()

    def add(self, slots: Ints, words: Ints) -> None:
        """Enter the slots of new tuples."""
        slots, keys = self._keys(slots, words)
        self._index.insert(keys, slots)
        self._look(keys)

    def remove(self, slots: Ints, words: Ints) -> None:
        """Take out the slots of tuples that go."""
        keys = self._keys(slots, words)[1]
        self._index.remove(keys)
        self._look(keys)

    def touch(self, slots: Ints, words: Ints) -> None:
        """Notice that the counts of some tuples have changed."""
        self._look(self._keys(slots, words)[1])

    def _look(self, keys: Ints) -> None:
        """Forget the answer if one of these keys does not sort behind it."""
        if self._limit > 0 and keys.shape[1] and (self._end is None or _any_at_most(keys, self._end)):
            self._rows = None

    @property
    def current(self) -> bool:
        """Whether the last answer still holds, so that `rows` walks nothing."""
        return self._rows is not None and self._version == self._labels()

    def rows(self) -> Rows:
        """The rows now; the same object as long as nothing before their end was changed."""
        self._refresh()
        if self._rows is None:
            self._rows, self._end = self._walk(self._counts)
        return self._rows

    def rows_by(self, counts: Counts) -> Rows:
        """The rows of a state with these counts, whose entries are all still there."""
        self._refresh()
        return self._walk(counts)[0]

    def _walk(self, count: Counts) -> tuple[Rows, Ints | None]:
        """The rows, and the last key that they depend on (None: all of them)."""
        wanted = self._offset + self._limit
        slots, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        covered, reached, take = 0, 0, wanted  # enough, unless some have no count
        while covered < wanted and reached < len(self._index):
            found = self._index.between(np.array([reached]), np.array([reached + take]))[1]
            n = np.maximum(count(found), 0)
            slots, counts = np.concatenate([slots, found]), np.concatenate([counts, n])
            covered, reached, take = covered + int(n.sum()), reached + len(found), 2 * take
        self.visited += reached
        ends = np.cumsum(counts)
        shown = np.clip(ends, self._offset, wanted) - np.clip(ends - counts, self._offset, wanted)
        end = None
        if covered >= wanted:
            end = self._index.keys_at(np.searchsorted(ends, [wanted]))[:, 0]
        some = shown > 0
        return Rows(slots[some], shown[some]), end


def _any_at_most(keys: Ints, bound: Ints) -> bool:
    """Whether a column of `keys` does not sort behind `bound`."""
    less, equal = np.zeros(keys.shape[1], np.bool_), np.ones(keys.shape[1], np.bool_)
    for row, word in zip(keys, bound, strict=True):
        less |= equal & (row < word)
        equal &= row == word
    return bool((less | equal).any())


@dataclass(frozen=True, slots=True)
class Flips:
    """Entries whose condition changed: pairs of the number of the threshold and slot."""

    to_true: tuple[Ints, Ints]
    to_false: tuple[Ints, Ints]


# Per operator: the qualifying parts of the order, between marks 0 (start), 1 (before the values equal to the
# threshold), 2 (behind them) and 3 (end).
_PARTS = {
    "<": ((0, 1),),
    "<=": ((0, 2),),
    ">": ((2, 3),),
    ">=": ((1, 3),),
    "=": ((1, 2),),
    "<>": ((0, 1), (2, 3)),
}


class Band(_Follower):
    """Entries by a value that is compared with a threshold: which ones flip when the threshold moves.

    `value(slots, words)` reads the values, of type `type_`, from the words or from the pool's components;
    when those change, `touch` moves the slots (the key that a slot had is stored). Values are read when
    a question is asked, so that only a question may find that one cannot be computed. The condition is
    `value op threshold`, true for no row where either is NULL. With `groups`, each has its own threshold.
    """

    def __init__(
        self,
        pool: Pool,
        codec: Codec,
        value: Callable[[Ints, Ints], Vector],
        type_: SqlType,
        op: str,
        groups: Sequence[Column] = (),
        ranks: Ranks | None = None,
    ) -> None:
        self._codec, self._read, self._type = codec, value, type_
        self._parts, self._ranks = _PARTS[op], ranks
        self._groups = Codec(groups, codec.interner)
        words = self._groups.words + (2 if type_.is_wide else 1)
        self._stored = np.zeros((words, 16), np.int64)
        self._due: set[int] = set()
        super().__init__(pool, words)

    def _labels(self) -> int:
        return self._ranks.version if self._ranks is not None and self._type.name == "VARCHAR" else 0

    def _encode(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        vector = self._checked(self._read(slots, words))
        order, groups = encode(vector, ranks=self._ranks)[1:], self._codec.project(words, self._groups)
        keys = np.concatenate([groups, order])
        return (slots, keys) if vector.valid is None else (slots[vector.valid], keys[:, vector.valid])

    def _checked(self, vector: Vector) -> Vector:
        if vector.type != self._type:
            raise ValueError(f"a {vector.type} is compared with values of type {self._type}: cast it first")
        return vector

    def _refresh(self) -> None:
        if self._version != self._labels():
            super()._refresh()
            every = np.arange(len(self._index))
            self._stored[:, self._index.slots_at(every)] = self._index.keys_at(every)[:-1]

    def add(self, slots: Ints, words: Ints) -> None:
        """Enter some slots, or move those that are there to the values that they have now."""
        self._due.update(slots.tolist())

    def touch(self, slots: Ints, words: Ints) -> None:
        """Move some slots to the values that they have now."""
        self._due.update(slots.tolist())

    def _settle(self) -> None:
        """Enter or move what is due."""
        if not self._due:
            return
        slots = np.array(sorted(self._due), np.int64)
        some, keys = self._keys(slots, self._pool.keys_at(slots))
        self._take_out(slots)
        if len(some) and some.max() >= self._stored.shape[1]:
            grown = np.zeros((len(self._stored), 2 * int(some.max())), np.int64)
            grown[:, : self._stored.shape[1]] = self._stored
            self._stored = grown
        self._stored[:, some] = keys[:-1]
        self._index.insert(keys, some)
        self._due.clear()

    def remove(self, slots: Ints, words: Ints) -> None:
        """Take some slots out, wherever they stand."""
        self._take_out(slots)
        self._due.difference_update(slots.tolist())

    def _take_out(self, slots: Ints) -> None:
        known = slots[slots < self._stored.shape[1]]
        self._index.remove(np.concatenate([self._stored[:, known], known[None]]))

    def flips(self, old: Vector, new: Vector, groups: Ints | None = None) -> Flips:
        """The entries whose condition changes when thresholds go from `old` to `new`, pair by pair.

        `groups[words, m]` says whose thresholds they are; without it they are those of the whole map.
        """
        self._settle()
        m = len(new)
        groups = np.zeros((self._groups.words, m), np.int64) if groups is None else groups
        if self._type.name == "VARCHAR":  # a new label may change the others: make all, then read them
            for vector in (old, new):
                encode(self._checked(vector), ranks=self._ranks)
        before, after = self._qualifying(old, groups), self._qualifying(new, groups)
        return Flips(self._pairs(after, before, groups, m), self._pairs(before, after, groups, m))

    def crossed(self, thresholds: Vector, weights: Ints) -> tuple[Ints, Ints, Ints]:
        """The sum of `weights[i]` over the thresholds i for which an entry's condition is true, where it is
        not zero: the sums, and pairs of the number of a sum and a slot.

        With -1 for the old threshold and 1 for the new one these are the entries that flip.
        """
        self._settle()
        parts = self._qualifying(thresholds, np.zeros((0, len(thresholds)), np.int64))
        edges = np.concatenate([edge for part in parts for edge in part])
        marks, place = np.unique(edges, return_inverse=True)
        steps = np.zeros(len(marks), np.int64)
        np.add.at(steps, place, np.concatenate([weights, -weights] * len(parts)))
        sums = np.cumsum(steps)[:-1]
        some = np.flatnonzero(sums)
        return sums[some], *self._index.between(marks[some], marks[some + 1])

    def _qualifying(self, threshold: Vector, groups: Ints) -> list[tuple[Ints, Ints]]:
        """The ranges of ranks where the condition is true."""
        keys = np.concatenate([groups, encode(self._checked(threshold), ranks=self._ranks)[1:]])
        self._refresh()
        low, high = self._index.span(groups)
        marks = [low, *self._index.span(keys), high]
        if threshold.valid is not None:  # no row qualifies
            marks = [np.where(threshold.valid, mark, low) for mark in marks]
        return [(marks[start], marks[stop]) for start, stop in self._parts]

    def _pairs(
        self, inside: list[tuple[Ints, Ints]], outside: list[tuple[Ints, Ints]], groups: Ints, m: int
    ) -> tuple[Ints, Ints]:
        """The entries of ranges that are in none of the others."""
        low, high = self._index.span(groups)
        edges = [low, *(edge for part in outside for edge in part), high]
        starts, stops = [], []
        for start, stop in inside:
            for left, right in zip(edges[::2], edges[1::2], strict=True):
                starts.append(np.maximum(start, left))
                stops.append(np.minimum(stop, right))
        at, slots = self._index.between(np.concatenate(starts), np.concatenate(stops))
        order = np.argsort(at % max(m, 1), kind="stable")
        return (at % max(m, 1))[order], slots[order]
