"""What follows a pool in order: extremes per group, the first rows of a bag.

Implements "Extremes and first rows" of docs/design/sql.md: like a slice (`slices`), a follower enters slots
when they are created (`add`) and lets them go when they are removed (`remove`), with the words of their
entries; the pool must still hold an entry when its slot is removed. Counts are not copied: they are read from
the pool when a question is asked, so that inside a batch an entry whose count has come to zero is passed
over.

Invariant: between batches a follower holds exactly the live slots of its pool that were announced to it and
have an order (rows without a value, NULL, stand nowhere), each under the words of its entry. When the labels
of strings are given anew, it is filled again from the pool before the next use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from everfresh.local.kernels.ordered_blocks import Ints
from everfresh.local.order.ordered_index import OrderedIndex
from everfresh.local.order.ranking import Ordering, Ranks, SortKey
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Pool
from everfresh.local.store.strings import Alive
from everfresh.types import Column

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

    def mark(self, alive: Alive) -> None:
        """Its strings are all of entries that the pool has."""

    def remove(self, slots: Ints, words: Ints) -> None:
        """Take some slots out; those that are not there any more stay so."""
        self._index.remove(self._keys(slots, words)[1])


class Ordered(_Follower):
    """The first and the last entry per group, in the order of some columns, of a map that has these and
    `groups` in its key.

    An entry counts while its count in the pool is not zero; a question may bring counts of its own, those of
    a state whose entries are all still there.
    """

    def __init__(
        self,
        pool: Pool,
        codec: Codec,
        groups: Sequence[Column],
        keys: Sequence[SortKey],
        ranks: Ranks | None = None,
        left_out: int = 0,
    ) -> None:
        self._codec = codec
        self._groups = Codec(groups, codec.interner)
        self._ordering = Ordering(codec, keys, ranks)
        super().__init__(pool, self._groups.words + self._ordering.words - left_out)
        self.visited = 0
        """How many entries have been looked at."""

    def _labels(self) -> int:
        return self._ordering.version

    def _encode(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        groups = self._codec.project(words, self._groups)
        return slots, np.concatenate([groups, self._ordering.encode(words)])

    def first(self, groups: Ints, counts: Counts | None = None) -> Ints:
        """The slots of the least values of groups, given by their words; -1 where there is none."""
        return self._end(groups, 1, counts or self._counts)

    def last(self, groups: Ints, counts: Counts | None = None) -> Ints:
        """The slots of the greatest values."""
        return self._end(groups, -1, counts or self._counts)

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


class Extremes(Ordered):
    """The least and the greatest `value` per group of a map with the columns `groups` and `value` in its key.

    NULL is no value: it is neither.
    """

    def __init__(
        self, pool: Pool, codec: Codec, groups: Sequence[Column], value: Column, ranks: Ranks | None = None
    ) -> None:
        self._value = value
        super().__init__(pool, codec, groups, [SortKey(value.name)], ranks, int(value.nullable))

    def _encode(self, slots: Ints, words: Ints) -> tuple[Ints, Ints]:
        valid = self._codec.column_words(words, self._value)[1]
        if valid is not None:
            slots, words = slots[valid], words[:, valid]
        groups = self._codec.project(words, self._groups)
        order = self._ordering.encode(words)[int(self._value.nullable) :]  # no NULL: no null word
        return slots, np.concatenate([groups, order])


@dataclass(frozen=True, slots=True)
class CountedEntries:
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
        self._rows: CountedEntries | None = None
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

    def rows(self) -> CountedEntries:
        """The rows now; the same object as long as nothing before their end was changed."""
        self._refresh()
        if self._rows is None:
            self._rows, self._end = self._walk(self._counts)
        return self._rows

    def rows_by(self, counts: Counts) -> CountedEntries:
        """The rows of a state with these counts, whose entries are all still there."""
        self._refresh()
        return self._walk(counts)[0]

    def _walk(self, count: Counts) -> tuple[CountedEntries, Ints | None]:
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
        return CountedEntries(slots[some], shown[some]), end


def _any_at_most(keys: Ints, bound: Ints) -> bool:
    """Whether a column of `keys` does not sort behind `bound`."""
    less, equal = np.zeros(keys.shape[1], np.bool_), np.ones(keys.shape[1], np.bool_)
    for row, word in zip(keys, bound, strict=True):
        less |= equal & (row < word)
        equal &= row == word
    return bool((less | equal).any())
