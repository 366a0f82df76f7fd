"""The entries of a pool in the order of a value: which lie in a range, what they add up to, which a moving
threshold passes.

Implements "Ranges of a value" and "Thresholds" of docs/design/sql.md. A `Band` follows a pool (see
`followers`) in an ordered index: its keys are the words of some columns (`groups`), those of the value, and
the slot; with each entry go its count and its exact components, so that a range has prefix sums. What comes,
goes or changes is noted and entered when a question is asked: only a question may find that a value cannot be
computed, and a slot that changes often inside a batch is entered once.

Invariant: at a question the index holds exactly the live slots of the pool that have a value (NULL stands
nowhere), under the words they have now, with the values that the pool has now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.expr import Vector
from everfresh.local.interpret.weights import Number, from_words
from everfresh.local.kernels.ordered_blocks import Ints
from everfresh.local.order.ordered_index import OrderedIndex
from everfresh.local.order.ranking import Ranks, encode
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import pieces
from everfresh.local.store.pool import Layout, Pool
from everfresh.local.store.strings import Alive
from everfresh.types import Column, SqlType

Mask = NDArray[np.bool_]
Limit = tuple[str, Vector]
"""`value op limit`, row by row."""
Asked = Sequence[Sequence[Sequence[Limit]]]
"""All of these: any of those: all of these limits."""
Spans = list[tuple[Ints, Ints]]
"""Ranges of ranks, `(starts, stops)`, row by row; those of one row do not overlap."""

# Per operator: the qualifying part of the order, between marks 0 (start), 1 (before the values equal to the
# limit), 2 (behind them) and 3 (end).
_PART = {"<": (0, 1), "<=": (0, 2), ">": (2, 3), ">=": (1, 3), "=": (1, 2)}


class Band:
    """Entries by `value(slots, words)`, of type `type_`, among those that agree on `groups`."""

    def __init__(
        self,
        pool: Pool,
        codec: Codec,
        value: Callable[[Ints, Ints], Vector],
        type_: SqlType,
        groups: Sequence[Column] = (),
        ranks: Ranks | None = None,
    ) -> None:
        self._pool, self._codec, self._read, self._type, self._ranks = pool, codec, value, type_, ranks
        self.groups = Codec(groups, codec.interner)
        kinds = (Kind.COUNT, *(kind for kind in pool.layout.kinds if kind != Kind.FLOAT))
        self._ints = [i for i, kind in enumerate(pool.layout.kinds) if kind != Kind.FLOAT]
        words = self.groups.words + (2 if type_.is_wide else 1)
        self._index = OrderedIndex(words + 1, Layout(kinds))
        self._stored = np.zeros((words, 16), np.int64)
        self._in = np.zeros(16, np.bool_)
        self._marked = np.zeros(16, np.bool_)
        self._due: list[Ints] = []
        self._version = self._labels()
        self._reach: tuple[int, int] | None = None

    def __len__(self) -> int:
        self._settle()
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of the index and of what is known by slot."""
        return self._index.nbytes + self._stored.nbytes + self._in.nbytes + self._marked.nbytes

    # -- as a follower -----------------------------------------------------------------------------

    def add(self, slots: Ints, words: Ints) -> None:
        """Entries have come."""
        self.touch(slots, words)

    def touch(self, slots: Ints, words: Ints) -> None:
        """The values of entries have changed."""
        if len(slots):
            self._cover(int(slots.max()))
            self._marked[slots] = True
            self._due.append(slots)

    def remove(self, slots: Ints, words: Ints) -> None:
        """Take some slots out, wherever they stand."""
        if len(slots):
            if self._due:
                self._cover(int(slots.max()))
                self._marked[slots] = False
            self._index.take_out(slots, self._stored, self._in)

    def mark(self, alive: Alive) -> None:
        """The strings that values are, which need not be those of the entries: they are known by labels."""
        if self._ranks is not None and self._type.is_text and self._version == self._labels():
            labels = self._stored[self.groups.words, np.flatnonzero(self._in)]
            alive[self._ranks.codes(labels)] = True

    def kept_up(self, slots: Ints) -> None:
        """Somebody has entered these slots, and has followed all changes of others."""
        if len(slots):
            self._widen(self._stored[self.groups.words :, slots])

    def _cover(self, slot: int) -> None:
        if slot >= len(self._in):
            size = 2 * slot
            grown = np.zeros((len(self._stored), size), np.int64)
            grown[:, : self._stored.shape[1]] = self._stored
            self._stored = grown
            self._in = np.concatenate([self._in, np.zeros(size - len(self._in), np.bool_)])
            self._marked = np.concatenate([self._marked, np.zeros(size - len(self._marked), np.bool_)])

    def _labels(self) -> int:
        return self._ranks.version if self._ranks is not None and self._type.is_text else 0

    def _settle(self) -> None:
        """Enter or move what is due; everything, if strings have new labels."""
        if self._version != self._labels():
            self._due = [np.flatnonzero(self._in | self._marked)]
            self._marked[self._due[0]] = True
        if not self._due:
            return
        slots = self._due[0] if len(self._due) == 1 else np.concatenate(self._due)
        slots = np.unique(slots[self._marked[slots]])
        keys, able = self._encoded(slots)
        if self._version != self._labels():  # labels of strings were given anew just now
            slots = np.flatnonzero(self._in | self._marked)
            keys, able = self._encoded(slots)
            self._index.clear()
            self._in[:] = False
            self._version = self._labels()
        moved = self._in[slots] & (~able | (self._stored[:, slots] != keys).any(axis=0))
        self._index.take_out(slots[moved], self._stored, self._in)
        some = slots[able]
        self._stored[:, some] = keys[:, able]
        self._in[some] = True
        self._index.put(np.concatenate([keys[:, able], some[None]]), some, self._sums_of(some))
        self._widen(keys[self.groups.words :, able])
        self._marked[slots] = False
        self._due.clear()

    def _widen(self, words: Ints) -> None:
        if not len(self._index):
            self._reach = None
        elif words.shape[1]:
            low, high = int(words[0].min()), int(words[0].max())
            if self._type.is_wide:
                low, high = low << 64, ((high + 1) << 64) - 1
            known = self._reach or (low, high)
            self._reach = min(low, known[0]), max(high, known[1])

    def _encoded(self, slots: Ints) -> tuple[Ints, Mask]:
        """The words of slots in the index, and which have some."""
        parts = [self._encoded_some(some) for some in pieces(slots)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([keys for keys, _ in parts], axis=1), np.concatenate(
            [able for _, able in parts]
        )

    def _encoded_some(self, slots: Ints) -> tuple[Ints, Mask]:
        words = self._pool.keys_at(slots)
        vector = self._checked(self._read(slots, words))
        keys = np.concatenate(
            [self._codec.project(words, self.groups), encode(vector, ranks=self._ranks)[1:]]
        )
        return keys, np.ones(len(slots), np.bool_) if vector.valid is None else vector.valid

    def _sums_of(self, slots: Ints) -> Ints:
        pool = self._pool
        rows = [pool.component_at(-1, slots)[0]]
        for i in self._ints:
            rows += list(pool.component_at(i, slots))
        return np.stack(rows)

    def _checked(self, vector: Vector) -> Vector:
        if vector.type != self._type:
            raise ValueError(f"a {vector.type} is compared with values of type {self._type}: cast it first")
        return vector

    # -- questions ---------------------------------------------------------------------------------

    @property
    def reach(self) -> tuple[int, int] | None:
        """Two integers between which all exact values are, and all that were entered since there were none;
        None if there are none."""
        self._settle()
        return self._reach

    def spans(self, asked: Asked, groups: Ints) -> Spans:
        """Where the entries of each group stand that satisfy what is asked, for columns of `groups`."""
        limits = [limit for clause in asked for some in clause for _, limit in some]
        if self._type.is_text:  # a new label may change the others: make all, then read them
            for limit in limits:
                encode(self._checked(limit), ranks=self._ranks)
        self._settle()
        low, high = self._whole(groups)
        found: Spans = [(low, high)]
        for clause in asked:
            options = [self._within(some, groups, low, high) for some in clause]
            found = [(np.maximum(a, c), np.minimum(b, d)) for a, b in found for c, d in options]
        return _apart(found)

    def _whole(self, groups: Ints) -> tuple[Ints, Ints]:
        if len(groups):
            return self._index.span(groups)
        rows = groups.shape[1]
        return np.zeros(rows, np.int64), np.full(rows, len(self._index))

    def _within(self, limits: Sequence[Limit], groups: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        start, stop = low, high
        for op, limit in limits:
            keys = np.concatenate([groups, encode(self._checked(limit), ranks=self._ranks)[1:]])
            first, last = _PART[op]
            if first:
                start = np.maximum(start, self._index.rank(keys, after=first == 2))
            if last < 3:
                stop = np.minimum(stop, self._index.rank(keys, after=last == 2))
            if limit.valid is not None:  # no row qualifies
                stop = np.where(limit.valid, stop, low)
        return start, stop

    def entries(self, spans: Spans) -> tuple[Ints, Ints]:
        """The entries of ranges: pairs of row number and slot, by rows."""
        if len(spans) == 1:
            return self._index.between(*spans[0])
        rows = len(spans[0][0])
        at, slots = self._index.between(*(np.concatenate(edges) for edges in zip(*spans, strict=True)))
        at %= max(rows, 1)
        order = np.argsort(at, kind="stable")
        return at[order], slots[order]

    def slots_at(self, ranks: Ints) -> Ints:
        """The entries of these ranks, which `spans` has found."""
        return self._index.slots_at(ranks)

    def ranks_of(self, slots: Ints) -> Ints:
        """The ranks of some slots, -1 for those without a value."""
        self._settle()
        out = np.full(len(slots), -1, np.int64)
        some = np.flatnonzero(slots < len(self._in))
        some = some[self._in[slots[some]]]
        held = slots[some]
        out[some] = self._index.rank(np.concatenate([self._stored[:, held], held[None]]))
        return out

    def rows_before(self, ranks: Ints) -> Ints:
        """How many rows the first entries are, `ranks[i]` of them."""
        found: Ints = self._index.sums_before(ranks)[0]
        return found

    def reaching(self, starts: Ints, rows: Ints) -> Ints:
        """The ranks, from `starts` on, of the entries where so many rows are reached."""
        return self._index.find(0, rows, start=starts)

    def sums(self, spans: Spans) -> Ints:
        """Count and exact components, as words, over the ranges of each row."""
        total: Ints | None = None
        for starts, stops in spans:
            found = self._index.sums_between(starts, np.maximum(starts, stops))
            total = found if total is None else _added(total, found, self._index.layout)
        assert total is not None
        return total

    def numbers(self, spans: Spans, components: Sequence[int]) -> tuple[Number, ...]:
        """The sums of some components: 0 is the count, -1 is zero, i the i-th of the pool."""
        sums = self.sums(spans)
        layout = self._index.layout
        found: list[Number] = []
        for c in components:
            if c < 0:
                found.append(np.zeros(sums.shape[1], np.int64))
                continue
            place = self._place(c)
            kind, at = layout.kinds[place], layout.offsets[place]
            found.append(from_words(kind, tuple(sums[at : at + (2 if kind == Kind.WIDE else 1)])))
        return tuple(found)

    def summable(self, components: Sequence[int]) -> bool:
        """Whether these components have prefix sums: doubles have none."""
        return all(c <= 0 or c - 1 in self._ints for c in components)

    # -- running sums ------------------------------------------------------------------------------

    def monotone(self, component: int) -> bool:
        """Whether no entry is negative in a component (0 is the count), so that sums grow with the order."""
        self._settle()
        return self.summable([component]) and self._index.grows(self._place(component))

    def _place(self, component: int) -> int:
        return 0 if component == 0 else 1 + self._ints.index(component - 1)

    def total(self, component: int) -> int:
        """The sum over all entries."""
        every = [(np.array([0]), np.array([len(self)]))]
        found: Any = self.numbers(every, (component,))[0]
        return int(found[0])

    def reaches(self, component: int, value: int) -> int:
        """How many entries it takes, from the first, until their sum reaches a value; one more than there
        are if all do not."""
        if value <= 0:
            return 0
        if value > self.total(component):
            return len(self) + 1
        return int(self._index.find(self._place(component), [value])[0]) + 1

    def value_at(self, rank: int) -> int:
        """The exact value of the entry of a rank."""
        words = self._index.keys_at(np.array([rank]))[self.groups.words : -1, 0].tolist()
        if not self._type.is_wide:
            return int(words[0])
        return int((words[0] << 64) | ((words[1] ^ -(1 << 63)) & ((1 << 64) - 1)))

    def crossed(self, asked: Asked, weights: Ints) -> tuple[Ints, Ints, Ints]:
        """The sum of `weights[i]` over the rows i for which an entry satisfies what is asked, where it is
        not zero: the sums, and pairs of the number of a sum and a slot.

        With -1 for an old threshold and 1 for the new one these are the entries that flip.
        """
        spans = self.spans(asked, np.zeros((0, len(weights)), np.int64))
        edges = np.concatenate([edge for span in spans for edge in span])
        marks, place = np.unique(edges, return_inverse=True)
        steps = np.zeros(len(marks), np.int64)
        np.add.at(steps, place, np.concatenate([weights, -weights] * len(spans)))
        sums = np.cumsum(steps)[:-1]
        some = np.flatnonzero(sums)
        return sums[some], *self._index.between(marks[some], marks[some + 1])


def _apart(spans: Spans) -> Spans:
    """The same ranks, each in one range: ranges in order, each from where the others have come to."""
    if len(spans) == 1:
        return [(spans[0][0], np.maximum(spans[0][0], spans[0][1]))]
    starts, stops = (np.stack(edges) for edges in zip(*spans, strict=True))
    order = np.argsort(starts, axis=0, kind="stable")
    starts, stops = np.take_along_axis(starts, order, 0), np.take_along_axis(stops, order, 0)
    reached = np.maximum.accumulate(stops, axis=0)
    starts[1:] = np.maximum(starts[1:], reached[:-1])
    return list(zip(starts, np.maximum(starts, stops), strict=True))


def _added(a: Ints, b: Ints, layout: Layout) -> Ints:
    """The sums of two ranges."""
    out = a + b
    for kind, at in zip(layout.kinds, layout.offsets, strict=True):
        if kind == Kind.WIDE:
            out[at] += out[at + 1].view(np.uint64) < a[at + 1].view(np.uint64)
    return out
