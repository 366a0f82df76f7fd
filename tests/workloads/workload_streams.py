"""Histories over the tables of a data set: every row comes, and on the way rows go, come again and change.

Rows come table by table in turn (thesis, 4.3.1), each table in an order of its own. A row that is changed
keeps its key and takes its other columns from another row. Invariant: a history is a function of data and
seed, and each single change is possible where it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everfresh.datasets import Batch
from everfresh.types import TableSchema

FILLING, FILLED = 0.3, 0.5
"""How often, per row that comes, a row that is there goes or changes, or one that went comes again: from
empty, and after a preload."""
TINY = 30
"""Tables with fewer rows than this are never held back, and their rows come again soon after they went: joins
would be empty."""

Change = tuple[str, int, int]
"""A table, a weight (1 or -1), and which of the table's rows."""
Batches = dict[str, Batch]


class Source:
    """A table's rows, numbered: row i of the data, and as number n + i the same key with other values."""

    def __init__(self, schema: TableSchema, rows: pa.Table, random: np.random.Generator) -> None:
        self.count = rows.num_rows
        other = rows.take(random.permutation(self.count))
        columns = [rows[name] if name in schema.key else other[name] for name in rows.column_names]
        changed = pa.Table.from_arrays(columns, schema=rows.schema)
        self.rows = pa.concat_tables([rows, changed]).combine_chunks()
        self.order = random.permutation(self.count).tolist()
        self.there: list[int] = []
        """Numbers of the rows that are there, in no order; `at` says where a number stands."""
        self.at: dict[int, int] = {}
        self.gone: list[int] = []

    def add(self, number: int) -> None:
        self.at[number] = len(self.there)
        self.there.append(number)

    def remove(self, number: int) -> None:
        place, last = self.at.pop(number), self.there.pop()
        if last != number:
            self.there[place] = last
            self.at[last] = place


class Stream:
    """The history of a data set. `hold_back` rows of all tables are kept for the end (`tail`)."""

    def __init__(
        self, schemas: Mapping[str, TableSchema], data: Mapping[str, pa.Table], seed: int, hold_back: int = 0
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.sources = {name: Source(schemas[name], rows, self.random) for name, rows in data.items()}
        sizes = np.sqrt([source.count for source in self.sources.values()])
        self.shares = sizes / sizes.sum()
        self.names = list(self.sources)
        self.held = {
            name: 0 if source.count < TINY else min(round(hold_back * share), source.count // 2)
            for (name, source), share in zip(self.sources.items(), self.shares, strict=True)
        }
        self.due: list[tuple[int, str, int]] = []
        """When which row of a tiny table comes again."""
        self.made = self.churned = 0

    # -- what a mode asks for ----------------------------------------------------------------------

    def everything(self) -> Iterator[Batches]:
        """All rows at once; then half of every table goes and a tenth changes; then all that is left goes."""
        yield self.preload()
        some: list[Change] = []
        for name, source in self.sources.items():
            numbers = self.random.permutation(source.there).tolist()
            half, tenth = len(numbers) // 2, len(numbers) // 10
            for number in numbers[:half]:
                some.append(self._delete(name, number, soon=False))
            for number in numbers[half : half + tenth]:
                some += self._update(name, number)
        yield self.batch(some)
        yield self.batch(
            self._delete(name, number, soon=False)
            for name, source in self.sources.items()
            for number in list(source.there)
        )

    def preload(self) -> Batches:
        """The rows that are not held back, in one batch."""
        changes = [
            self._insert(name, number)
            for name, source in self.sources.items()
            for number in source.order[: source.count - self.held[name]]
        ]
        return self.batch(changes)

    def rows_in_turn(self) -> Iterator[Change]:
        """From empty: the tables' rows in turn, and changes of what is there in between."""
        for turn in range(max(source.count for source in self.sources.values())):
            for name, source in self.sources.items():
                if turn < source.count:
                    yield self._insert(name, source.order[turn])
                    yield from self._churn(FILLING)

    def tail(self) -> Iterator[Change]:
        """After `preload`: the rows that were held back, in random order, and changes in between."""
        rest = [
            (name, number)
            for name, source in self.sources.items()
            for number in source.order[source.count - self.held[name] :]
        ]
        for i in self.random.permutation(len(rest)):
            yield self._insert(*rest[i])
            yield from self._churn(FILLED)

    def batches(self, changes: Iterable[Change], size: int) -> Iterator[Batches]:
        """The changes in batches of `size`."""
        some: list[Change] = []
        for change in changes:
            some.append(change)
            if len(some) == size:
                yield self.batch(some)
                some = []
        if some:
            yield self.batch(some)

    def batch(self, changes: Iterable[Change]) -> Batches:
        """The net effect of changes, as Arrow tables."""
        weights: Counter[tuple[str, int]] = Counter()
        for name, weight, number in changes:
            weights[name, number] += weight
        found: dict[str, tuple[list[int], list[int]]] = {}
        for (name, number), weight in weights.items():
            if weight:
                found.setdefault(name, ([], []))[weight < 0].append(number)
        return {
            name: Batch(self._take(name, come), self._take(name, go)) for name, (come, go) in found.items()
        }

    def _take(self, name: str, numbers: list[int]) -> pa.Table:
        return self.sources[name].rows.take(pa.array(numbers, pa.int64()))

    # -- single changes ----------------------------------------------------------------------------

    def _insert(self, name: str, number: int) -> Change:
        self.made += 1
        self.sources[name].add(number)
        return name, 1, number

    def _delete(self, name: str, number: int, soon: bool = True) -> Change:
        self.made += 1
        source = self.sources[name]
        source.remove(number)
        if soon and source.count < TINY:
            self.due.append((self.made + int(self.random.integers(2, 9)), name, number))
        elif soon:
            source.gone.append(number)
        return name, -1, number

    def _update(self, name: str, number: int) -> tuple[Change, Change]:
        count = self.sources[name].count
        return self._delete(name, number, soon=False), self._insert(name, (number + count) % (2 * count))

    def _churn(self, often: float) -> Iterator[Change]:
        """Changes of what is there, of one table after another; of large tables more often."""
        while self.due and self.due[0][0] <= self.made:
            _, name, number = self.due.pop(0)
            yield self._insert(name, number)
        if self.random.random() >= often:
            return
        self.churned += 1
        if self.churned % 2:
            name = self.names[self.churned // 2 % len(self.names)]
        else:
            name = self.names[self.random.choice(len(self.names), p=self.shares)]
        source, kind = self.sources[name], self.random.random()
        if source.gone and kind < 0.3:
            yield self._insert(name, source.gone.pop(int(self.random.integers(len(source.gone)))))
        elif source.there:
            number = source.there[int(self.random.integers(len(source.there)))]
            if kind < 0.7:
                yield self._delete(name, number)
            else:
                yield from self._update(name, number)


# -- lengths ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """How much of each mode is run; None is all of it."""

    thousands: int | None
    """Batches of 1,000 from empty."""
    compared: int
    """Every how many of them all views are compared."""
    sevens: int | None
    """Batches of 7 after a preload, over the last 2,000 rows."""
    singles: int
    """Single changes after a preload."""
    sampled: int
    """Of how many comparisons one also checks that old rows + changes() = new rows."""
    orders: int
    """Orders of each side of an order book."""


REDUCED = Lengths(thousands=16, compared=6, sevens=40, singles=60, sampled=3, orders=800)
"""`make test`."""
FULL = Lengths(thousands=None, compared=1, sevens=None, singles=200, sampled=1, orders=2500)
"""`make soak`, as the definition of the workloads asks."""
HELD_BACK = 2000
