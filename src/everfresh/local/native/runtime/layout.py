"""What a generated function works on: pools, slices, buffers, columns, each at a place of one array of words.

The generator asks for places (`Layout`); before a call the runner writes addresses there (`binding`). The
text of a function has only places in it, so that it can be kept and used by another database.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from everfresh.expr import Expr
from everfresh.local.interpret.atoms import Pooled
from everfresh.local.native.runtime.helpers import POOL_SIZE, SLICE_SIZE
from everfresh.local.native.runtime.indexes import INDEX_SIZE
from everfresh.local.order.read_orders import Order
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Layout as Components

ROW, POOL, NEED, AGAIN, VISITED = 0, 1, 2, 3, 4
"""The row that was reached; which pool or buffer was full there, and for how many rows; what was full when
the row had changed something already, so that the call has to be made again; then counters."""

NO_POOL, NO_BUFFER, NO_DELTA = 1, 2, 3
"""What may be full then."""

CHANGE_WORDS, CHANGE_ROWS, CHANGE_WEIGHTS, CHANGE_SIZE = 0, 1, 2, 3
COLUMN_WORDS, COLUMN_VALID, COLUMN_SIZE = 0, 1, 2
BUFFER_WORDS, BUFFER_FLOATS, BUFFER_CAP, BUFFER_COUNT, BUFFER_SIZE = 0, 1, 2, 3, 4
BEFORE_SLOTS, BEFORE_COUNT, BEFORE_N, BEFORE_INTS, BEFORE_FLOATS, BEFORE_SIZE = 0, 1, 2, 3, 4, 5

DONE, BAD, FULL_POOL, FULL_BUFFER = 0, 1, 2, 3
"""What a call returns: all rows are done; an error, or a number that is too large here; no room."""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """A pool that is read or (`target`) changed."""

    place: int
    number: int
    stored: Pooled


@dataclass(frozen=True, slots=True)
class SliceUse:
    """A slice that is read."""

    place: int
    number: int
    stored: Pooled
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BufferUse:
    """Rows that a statement makes: its number, words of the key, components."""

    place: int
    number: int
    statement: int
    words: int
    components: Components


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column of the change that is computed before the call."""

    place: int
    number: int
    expr: Expr


@dataclass(frozen=True, slots=True)
class BeforeUse:
    """The values of a map before its change in this batch."""

    place: int
    number: int
    map: str


@dataclass(frozen=True, slots=True)
class BandUse:
    """The entries of a map in an order."""

    place: int
    number: int
    stored: EntryStore
    order: Order


@dataclass(frozen=True, slots=True)
class SumUse:
    """Words of a result that is kept while nothing changes it."""

    place: int
    number: int


@dataclass(frozen=True, slots=True)
class NumberUse:
    """A number that is handed to the function: a constant, the place of a column in the change."""

    place: int
    number: int
    value: float


@dataclass
class Places:
    """All of them, in the order in which they were asked for."""

    statements: int
    size: int = 0
    change: int = 0
    targets: set[int] = field(default_factory=set)
    pools: dict[int, PoolUse] = field(default_factory=dict)
    slices: dict[Hashable, SliceUse] = field(default_factory=dict)
    buffers: dict[int, BufferUse] = field(default_factory=dict)
    columns: dict[Expr, ColumnUse] = field(default_factory=dict)
    befores: dict[str, BeforeUse] = field(default_factory=dict)
    bands: dict[Hashable, BandUse] = field(default_factory=dict)
    followed: dict[Hashable, BandUse] = field(default_factory=dict)
    """Indexes that the function does not read, and keeps up while there are such."""
    deltas: dict[int, BufferUse] = field(default_factory=dict)
    """The changes of relations that are stepped, by the number of their stage."""
    kept: dict[Hashable, SumUse] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, float]] = field(default_factory=list)
    """Numbers by kind that were asked for."""
    numbers: list[NumberUse] = field(default_factory=list)
    """Those that are used."""

    def __post_init__(self) -> None:
        self._asked: dict[tuple[str, str], int] = {}
        self.change = VISITED + self.statements
        self.size = self.change + CHANGE_SIZE

    def _take(self, size: int) -> int:
        self.size += size
        return self.size - size

    def pool(self, stored: Pooled) -> PoolUse:
        """A pool."""
        found = self.pools.get(id(stored))
        if found is None:
            found = self.pools[id(stored)] = PoolUse(self._take(POOL_SIZE), len(self.pools), stored)
        return found

    def slice(self, stored: Pooled, names: tuple[str, ...]) -> SliceUse:
        """A slice of a pool."""
        key = id(stored), names
        found = self.slices.get(key)
        if found is None:
            found = SliceUse(self._take(SLICE_SIZE), len(self.slices), stored, names)
            self.slices[key] = found
        return found

    def buffer(self, statement: int, words: int, components: Components) -> BufferUse:
        """The buffer of a statement."""
        found = self.buffers.get(statement)
        if found is None:
            place = self._take(BUFFER_SIZE)
            found = BufferUse(place, len(self.buffers), statement, words, components)
            self.buffers[statement] = found
        return found

    def column(self, expr: Expr) -> ColumnUse:
        """A column that is computed beforehand."""
        found = self.columns.get(expr)
        if found is None:
            found = self.columns[expr] = ColumnUse(self._take(COLUMN_SIZE), len(self.columns), expr)
        return found

    def before(self, name: str) -> BeforeUse:
        """A map as it was before."""
        found = self.befores.get(name)
        if found is None:
            found = self.befores[name] = BeforeUse(self._take(BEFORE_SIZE), len(self.befores), name)
        return found

    def band(self, stored: EntryStore, order: Order) -> BandUse:
        """Entries in order, that are read."""
        return self._band(self.bands, stored, order)

    def follow(self, stored: EntryStore, order: Order) -> BandUse:
        """Entries in order, that others read."""
        return self._band(self.followed, stored, order)

    def _band(self, among: dict[Hashable, BandUse], stored: EntryStore, order: Order) -> BandUse:
        key = id(stored), order
        found = among.get(key)
        if found is None:
            found = among[key] = BandUse(self._take(INDEX_SIZE), len(among), stored, order)
        return found

    def delta(self, stage: int, words: int) -> BufferUse:
        """The change of a relation that is stepped."""
        found = self.deltas.get(stage)
        if found is None:
            place = self._take(BUFFER_SIZE)
            found = self.deltas[stage] = BufferUse(place, len(self.deltas), -1, words, Components())
        return found

    def keep(self, key: Hashable, words: int) -> SumUse:
        """Words that are kept under a name."""
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = SumUse(self._take(words), len(self.kept))
        return found

    def given(self, kind: str, value: float) -> int:
        """Which of the numbers that are asked for one of some kind is: those of different kinds are never the
        same."""
        key = kind, repr(value)
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = len(self.asked)
            self.asked.append((kind, value))
        return found

    def number(self, asked: int) -> NumberUse:
        """A place for a number that was asked for."""
        use = NumberUse(self._take(1), len(self.numbers), self.asked[asked][1])
        self.numbers.append(use)
        return use

    def text(self, value: str) -> int:
        """The place of the number of a string."""
        if value not in self.texts:
            self.texts[value] = self._take(1)
        return self.texts[value]
