"""Temporaries on one worker, and on their way between workers: cut by owner, packed as Arrow.

`Held` are rows as words of this process's strings, with counts and values; between processes keys travel as
values. Equal rows are added up before they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.distributed.plan.ir import Temp
from everfresh.distributed.plan.tags import Dist
from everfresh.distributed.worker.routing import owners
from everfresh.local.interpret.atoms import Picked, Pooled, Rows
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Layout, Pool, Values
from everfresh.local.store.strings import Interner

Ints = NDArray[np.int64]
_N = "_n"


@dataclass(frozen=True, slots=True)
class Held:
    """The part of a temporary that is in one place."""

    temp: Temp
    codec: Codec
    words: Ints
    values: Values

    def __len__(self) -> int:
        return len(self.values)

    def rows(self) -> Rows:
        """As a change that statements read."""
        return Rows(self.codec, self.words, self.values.n)

    def picked(self, components: tuple[int, ...]) -> Picked:
        """As a map that statements read."""
        pool = Pool(self.codec.words, Layout(self.temp.kinds))
        pool.add(self.words, self.values)
        return Picked(Pooled(self.codec, pool), components)

    def take(self, index: Ints | NDArray[np.bool_]) -> Held:
        """Some of the rows."""
        words = np.ascontiguousarray(self.words[:, index])
        return Held(self.temp, self.codec, words, self.values.take(index))

    def owners(self, columns: Sequence[str], workers: int) -> Ints:
        """The worker of each row, by some columns."""
        vectors = self.codec.vectors(self.words, columns)
        return owners([vectors[c] for c in columns], len(self), workers)

    def aggregated(self, temp: Temp) -> Held:
        """As the temporary that it is sent as: fewer columns perhaps, equal rows added up."""
        names = [c.name for c in temp.columns]
        codec, words = self.codec, self.words
        if names != [c.name for c in codec.columns]:
            codec = Codec(temp.columns, codec.interner)
            words = self.codec.project(words, codec)
        pool = Pool(codec.words, Layout(temp.kinds))
        slots = pool.add(words, self.values).slots
        values = pool.gather(slots)
        there = (values.n != 0) | values.ints.any(axis=0) | values.floats.any(axis=0)
        return Held(temp, codec, pool.keys_at(slots[there]), values.take(there))


def empty(temp: Temp, interner: Interner) -> Held:
    """A temporary of which nothing is here."""
    codec = Codec(temp.columns, interner)
    return Held(temp, codec, np.zeros((codec.words, 0), np.int64), Values.zeros(Layout(temp.kinds), 0))


def kept(held: Held, temp: Temp, worker: int, workers: int) -> Held:
    """Of a temporary that is everywhere, what belongs to one worker."""
    assert isinstance(temp.tag, Dist)
    mine = held.take(held.owners(temp.tag.columns, workers) == worker)
    return Held(temp, mine.codec, mine.words, mine.values)


def routed(held: Held, temp: Temp, workers: int) -> Iterator[tuple[int, Held]]:
    """What goes to which worker: everything to all, or each row to its owner."""
    sent = held.aggregated(temp)
    if not isinstance(temp.tag, Dist):
        yield from ((worker, sent) for worker in range(workers))
        return
    to = sent.owners(temp.tag.columns, workers)
    for worker in range(workers):
        index = np.flatnonzero(to == worker)
        if len(index):
            yield worker, sent.take(index)


def packed(held: Held) -> pa.Table:
    """A temporary as Arrow."""
    return entries_table(held.codec, held.words, held.values)


def unpacked(temp: Temp, tables: list[pa.Table], interner: Interner) -> Held:
    """What came of a temporary, from all places together. The list is emptied: each table goes when its
    entries are known."""
    codec, layout = Codec(temp.columns, interner), Layout(temp.kinds)
    if len(tables) == 1:
        return Held(temp, codec, *entries_values(codec, layout, tables.pop()))
    count, at = sum(table.num_rows for table in tables), 0
    words, values = np.empty((codec.words, count), np.int64), Values.empty(layout, count)
    while tables:
        some, theirs = entries_values(codec, layout, tables.pop(0))
        here = slice(at, at + len(theirs))
        words[:, here] = some
        values.n[here], values.ints[:, here], values.floats[:, here] = theirs.n, theirs.ints, theirs.floats
        at = here.stop
    return Held(temp, codec, words, values)


def entries_table(codec: Codec, words: Ints, values: Values) -> pa.Table:
    """Entries as Arrow: keys as values, the count, and the raw rows of the components."""
    table = codec.decode(words) if codec.columns else None
    arrays = list(table.columns) if table is not None else []
    names = list(table.column_names) if table is not None else []
    for prefix, matrix in (("_i", values.ints), ("_f", values.floats)):
        for i, row in enumerate(matrix):
            arrays.append(pa.array(row))
            names.append(f"{prefix}{i}")
    return pa.Table.from_arrays([*arrays, pa.array(values.n)], names=[*names, _N])


def entries_values(codec: Codec, layout: Layout, table: pa.Table) -> tuple[Ints, Values]:
    """The inverse of `entries_table`: key words and values."""
    values = Values.zeros(layout, table.num_rows)
    place = table.num_columns - 1 - layout.int_rows - layout.float_rows
    values.n[:] = table.column(table.num_columns - 1).to_numpy()
    for i in range(layout.int_rows):
        values.ints[i] = table.column(place + i).to_numpy()
    for i in range(layout.float_rows):
        values.floats[i] = table.column(place + layout.int_rows + i).to_numpy()
    if not codec.columns:
        return np.zeros((0, table.num_rows), np.int64), values
    return codec.encode(table.select(list(range(place)))), values
