"""A view of joined arrays as a stage: its groups, how they change, and what is shown of them.

Invariant: after each step the groups are those of the join of the arrays as they are; an extreme, or a sum
that is no number, that a deletion may have changed is found again from the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import Chunk, coordinates
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.views.cells import Block, Blocks, Step, changed, replaced
from everfresh.arrays.views.definition import GROUPS, Argument, Definition
from everfresh.arrays.views.joins import Source, changes, fresh, physical_kind
from everfresh.arrays.views.slots import ROWS, Changes, Columns, combined
from everfresh.arrays.views.tuples import Boxes, Tuples, batch, tuples_of
from everfresh.delta.bags import WEIGHT, net, weigh
from everfresh.epochs import RowChange
from everfresh.expr.column import Vector
from everfresh.local.adhoc import execute
from everfresh.sql.logical.plan import AggregateCall
from everfresh.types import DOUBLE, arrow_schema, no_rows
from everfresh.types.exchange import arrow_of


@dataclass(frozen=True, eq=False)
class Groups:
    """The state of a view at one epoch: its blocks, and its sources as it saw them."""

    of: Definition
    blocks: Blocks
    sources: tuple[Source, ...]

    @staticmethod
    def over(of: Definition, arrays: Sequence[Array]) -> Groups:
        """The groups of these arrays, from scratch."""
        return Groups(of, from_scratch(of, arrays), tuple(sources_of(of, arrays)))

    def step(
        self, arrays: Sequence[Array], deltas: Sequence[pa.Table | None]
    ) -> tuple[Groups, RowChange | None]:
        """The groups after cells of the sources came and went (with `_weight`), and the rows that changed,
        made when they are asked for; None where no group did."""
        of = self.of
        after = list(self.sources)
        found: list[Changes] = []
        for k, delta in enumerate(deltas):
            if delta is None or not delta.num_rows:
                continue
            after[k] = self._moved(k, arrays[k], delta)
            around = [*after[:k], None, *self.sources[k + 1 :]]
            for weight, rows in by_weight(delta):
                found += changes(of, k, batch(rows, of.sources[k], of.scans[k]), weight, around)
        change = combined(found)
        if change is None:
            return Groups(of, self.blocks, tuple(after)), None
        done = changed(self.blocks, change, of.numbering.volume)
        now, blocks = done.after, done.blocks
        if len(done.dirty):
            now, blocks = _again(of, done, after)
        before = done.before
        if _same(before, now):
            return Groups(of, blocks, tuple(after)), None
        return Groups(of, blocks, tuple(after)), RowChange(lambda: _difference(of, before, now))

    def _moved(self, k: int, array: Array, delta: pa.Table) -> Source:
        schema = self.of.sources[k]
        touched = np.unique(schema.chunk_ids(coordinates(delta, schema.ndim)))
        mapping = self.of.hops[k].mapping if k < len(self.of.hops) else None
        return Source(array, self.sources[k].boxes.changed(array, touched, mapping))

    @cached_property
    def value(self) -> Array:
        """What is shown, as an array."""
        return Shown(self.of.schema, Chunks(self))

    @cached_property
    def changes(self) -> Changes:
        """All groups, in the order of their keys."""
        if not self.blocks:
            return Changes(np.empty(0, np.int64), {})
        parts = [self.blocks[c] for c in sorted(self.blocks)]
        columns = {n: np.concatenate([b.columns[n] for b in parts]) for n in parts[0].columns}
        return Changes(np.concatenate([b.keys for b in parts]), columns)


def from_scratch(of: Definition, arrays: Sequence[Array]) -> Blocks:
    """The blocks of whole arrays."""
    change = combined(list(fresh(of, arrays)))
    if change is None:
        return {}
    columns = {n: c for n, c in change.columns.items() if not n.startswith(("neg", "b"))}
    return replaced({}, change.keys, change.keys, columns, of.numbering.volume)


def sources_of(of: Definition, arrays: Sequence[Array]) -> Iterator[Source]:
    """The sources at one epoch."""
    for k, array in enumerate(arrays):
        yield Source(array, Boxes.of(array, of.hops[k].mapping if k < len(of.hops) else None))


def by_weight(delta: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows with `_weight` by how often they come, without it."""
    weights = delta.column(WEIGHT).to_numpy()
    rows = delta.drop_columns([WEIGHT])
    for weight in np.unique(weights).tolist():
        yield weight, rows.filter(pa.array(weights == weight))


def _again(of: Definition, done: Step, sources: Sequence[Source]) -> tuple[Changes, Blocks]:
    """Groups of which an extreme may have gone are made again from the sources."""
    found = combined(list(_regrouped(of, done.dirty, sources)))
    assert found is not None
    return put(done.after, found), placed(done.blocks, found, of.numbering.volume)


def put(groups: Changes, found: Changes) -> Changes:
    """Groups with some of them as they were found anew."""
    columns = {n: c.copy() for n, c in groups.columns.items()}
    _put(columns, np.searchsorted(groups.keys, found.keys), found)
    return Changes(groups.keys, columns)


def placed(blocks: Blocks, found: Changes, volume: int) -> Blocks:
    """Blocks with some of their groups, which are there, as they were found anew."""
    touched = np.unique(found.keys // volume)
    old = [blocks[int(c)] for c in touched]
    keys = np.concatenate([b.keys for b in old])
    columns = {n: np.concatenate([b.columns[n] for b in old]) for n in old[0].columns}
    _put(columns, np.searchsorted(keys, found.keys), found)
    return replaced(blocks, touched, keys, columns, volume)


def _put(columns: Columns, at: Ints, found: Changes) -> None:
    for name, target in columns.items():
        column = found.columns[name]
        if column.dtype.kind == "O" and target.dtype.kind != "O":
            columns[name] = target = target.astype(object)
        target[at] = column


def _regrouped(of: Definition, keys: Ints, sources: Sequence[Source]) -> Iterator[Changes]:
    """The groups of these keys, from the sources."""
    coords = of.numbering.coords(keys)
    start = max(range(len(sources)), key=lambda k: (sum(s == k for s, _ in of.keys), -k))
    dims = [(v, d) for v, (s, d) in enumerate(of.keys) if s == start]
    rows = _among(sources[start], of, start, [d for _, d in dims], coords[[v for v, _ in dims]])
    around: list[Source | None] = [None if k == start else s for k, s in enumerate(sources)]
    for change in changes(of, start, rows, 1, around):
        keep = np.isin(change.keys, keys, assume_unique=True)
        yield Changes(change.keys[keep], {n: c[keep] for n, c in change.columns.items()})


def _among(source: Source, of: Definition, k: int, dims: list[int], wanted: Ints) -> Tuples:
    """The tuples of a source whose indices in some dimensions are among those wanted."""
    schema, scan = of.sources[k], of.scans[k]
    if not dims:
        return tuples_of(source.array, scan, source.boxes.ids.tolist())
    places = (wanted - schema.lo[dims][:, None]) // schema.lengths[dims][:, None]
    ids = source.boxes.ids
    theirs = np.stack([ids // schema._strides[d] % schema.grid[d] for d in dims])
    rows = tuples_of(source.array, scan, ids[isin_columns(theirs, places)].tolist())
    keep = isin_columns(rows.coords[dims], wanted)
    starts = np.unique(np.concatenate(([0], np.cumsum(keep)))[rows.starts])
    return Tuples(rows.table.filter(pa.array(keep)), rows.ndim, starts, scan)


def isin_columns(columns: Ints, wanted: Ints) -> Any:
    """Which columns are among those wanted."""
    if not columns.shape[1]:
        return np.zeros(0, np.bool_)
    both = np.concatenate([wanted, columns], axis=1)
    _, numbers = np.unique(both, axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    return np.isin(numbers[wanted.shape[1] :], numbers[: wanted.shape[1]])


# -- what is shown ---------------------------------------------------------------------------------------


class Shown(Array):
    """What a view shows: chunks are made of its groups when they are asked for."""

    @cached_property
    def table(self) -> pa.Table:
        """All cells, chunk by chunk."""
        groups = self.chunks.groups  # type: ignore[attr-defined]
        return shown(groups.of, groups.changes)


class Chunks(Mapping[int, Chunk]):
    """The chunks of a view by their numbers; with a condition on groups some may be empty."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups

    def __getitem__(self, number: int) -> Chunk:
        return chunk_of(self.groups.of, self.groups.blocks[number])

    def __iter__(self) -> Iterator[int]:
        plain = self.groups.of.plain is not None
        return (n for n in sorted(self.groups.blocks) if plain or len(self[n]))

    def __contains__(self, number: object) -> bool:
        return number in self.groups.blocks and (self.groups.of.plain is not None or len(self[number]) > 0)  # type: ignore[index]

    def __len__(self) -> int:
        return len(self.groups.blocks) if self.groups.of.plain is not None else sum(1 for _ in self)


def chunk_of(of: Definition, block: Block) -> Chunk:
    """A chunk as it is shown; made once."""
    known: Chunk | None = block.made.get("chunk")
    if known is None:
        known = Chunk.of(shown(of, Changes(block.keys, block.columns)), of.schema.ndim)
        block.made["chunk"] = known
    return known


def no_change(schema: ArraySchema) -> pa.Table:
    """No rows, with `_weight`."""
    return weigh(no_rows(schema.arrow))


def _same(before: Changes, after: Changes) -> bool:
    """Whether nothing of the groups differs."""
    if len(before) != len(after) or (before.keys != after.keys).any():
        return False
    return all(
        a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())
        for a, b in zip(before.columns.values(), after.columns.values(), strict=True)
    )


def _difference(of: Definition, before: Changes, after: Changes) -> pa.Table:
    return net(pa.concat_tables([weigh(shown(of, before), -1), weigh(shown(of, after))]))


def shown(of: Definition, groups: Changes) -> pa.Table:
    """Groups as rows: dimensions, then attributes."""
    schema = of.schema.arrow
    if not len(groups):
        return no_rows(schema)
    columns = relation(of, groups).columns
    if of.plain is not None:
        return pa.Table.from_arrays([columns[k] for k in of.plain], schema=schema)
    table = pa.Table.from_arrays(columns, schema=arrow_schema(of.groups.columns))
    return pa.Table.from_arrays(execute(of.top, {GROUPS: table}.__getitem__).columns, schema=schema)


def relation(of: Definition, groups: Changes) -> pa.Table:
    """Groups as a relation of their keys and aggregates."""
    columns = [pa.array(row) for row in of.numbering.coords(groups.keys)]
    columns += [result(of, call, k, groups.columns) for call, k in of.aggregates]
    return pa.Table.from_arrays(columns, schema=arrow_schema(of.groups.columns))


def result(of: Definition, call: AggregateCall, k: int, columns: Columns) -> pa.Array:
    """An aggregate of groups."""
    if k < 0:
        return pa.array(columns[ROWS])
    argument = of.arguments[k]
    n = columns[f"n{k}"]
    if call.fn == "count":
        return pa.array(n)
    there = n > 0
    if call.fn in ("min", "max"):
        return _extreme(argument, columns[f"{'lo' if call.fn == 'min' else 'hi'}{k}"], there)
    s = columns[f"s{k}"]
    if f"e{k}" in columns:
        s = np.where(np.isfinite(s), s + columns[f"e{k}"], s)
    valid = None if there.all() else there
    if call.fn == "avg":
        scale = 10**argument.type.scale if argument.type.name == "DECIMAL" else 1
        with np.errstate(invalid="ignore", over="ignore"):
            mean = s.astype(np.float64) / scale / np.maximum(n, 1)
        return Vector(DOUBLE, np.where(there, mean, 0.0), valid).to_arrow()
    known = np.where(there, s, 0) if s.dtype.kind != "O" else _zeroed(s, there)
    return Vector(call.type, known, valid).to_arrow()


def _zeroed(values: Any, there: Any) -> Any:
    found = values.copy()
    found[~there] = 0
    return found


def _extreme(argument: Argument, values: Any, there: Any) -> pa.Array:
    kind = argument.type
    if kind.is_text:
        return arrow_of([v if known else None for v, known in zip(values, there, strict=True)], kind)
    valid = None if there.all() else there
    if physical_kind(argument) == "O":
        return Vector(kind, _zeroed(values, there), valid).to_arrow()
    known = np.where(there, values, 0)
    if kind.name == "BOOLEAN":
        known = known.astype(np.bool_)
    if kind.name == "REAL":
        known = known.astype(np.float32)
    return Vector(kind, known, valid).to_arrow()
