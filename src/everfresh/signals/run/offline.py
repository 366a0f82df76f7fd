"""A query over rows at hand: the same pipeline, fed with the rows in pieces that stay in the cache.

Watermarks stay down until all rows are in, so that nothing has to be looked for when time passes; what waits
for the end comes at the end. The bits are those of any other cutting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.rewrite import Node
from everfresh.signals.nodes import Reading
from everfresh.signals.run.flow import Array, Flow
from everfresh.signals.run.pipeline import Pipeline

PIECE = 100_000
GROUPS = 20_000


def run(query: Node, rows: Any, options: Options | None = None) -> pa.Table:
    """The rows of the query over these rows, by group in the order in which groups first came, in order of
    time."""
    readings = {each.table: each for each in query.walk() if isinstance(each, Reading)}
    tables = {name: as_table(given) for name, given in tables_of(readings, rows).items()}
    pipeline = Pipeline(query, {name: t.schema for name, t in tables.items()}, options, False, True)
    tables = {name: _by_time(t, readings[name]) for name, t in tables.items()}
    parts = pipeline.gather()
    whole = [t for t in tables.values() if len(t)]
    pieces = -(-max((len(t) for t in whole), default=0) // PIECE)
    in_order = all(_in_order(t, readings[name]) for name, t in tables.items())
    if not in_order and not (
        len(tables) == 1 and all(_by_key(t, readings[name]) for name, t in tables.items())
    ):
        pieces = min(1, pieces)
    for i in range(pieces):
        batch = {name: piece_of(t, readings[name], i, pieces) for name, t in tables.items()}
        pipeline.step(batch)
        pipeline.commit()
    for start in range(0, pipeline.groups, GROUPS):
        slots = np.arange(start, min(start + GROUPS, pipeline.groups))
        pipeline.finish(slots)
    return _ordered(parts, pipeline)


def piece_of(table: pa.Table, reading: Reading, number: int, pieces: int) -> pa.Table:
    """One of so many pieces of a table; all rows of a reference table come first."""
    if not reading.timed:
        return table.slice(0, None if number == 0 else 0)
    start = number * len(table) // pieces
    return table.slice(start, (number + 1) * len(table) // pieces - start)


def tables_of(readings: Iterable[str], rows: Any) -> dict[str, Any]:
    """What was given for each table."""
    readings = list(dict.fromkeys(readings))
    if not isinstance(rows, Mapping) or not set(rows) >= set(readings):
        if len(readings) != 1:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the query reads {len(readings)} tables: {', '.join(readings)}",
                hint="run({name: rows, ...}) gives each its rows",
            )
        rows = {next(iter(readings)): rows}
    return {name: rows[name] for name in readings}


def as_table(rows: Any) -> pa.Table:
    """Rows as an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    if hasattr(rows, "to_arrow"):
        return pa.table(rows.to_arrow())
    if hasattr(rows, "__dataframe__") and hasattr(rows, "iloc"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise EverfreshError(
        Code.ARGUMENT, f"a {type(rows).__name__} is no table", hint="an Arrow table, or a DataFrame"
    )


def _by_key(table: pa.Table, reading: Reading) -> bool:
    """Whether rows are in order of a whole number as key, and those of a key in order of time: then a group's
    are in order of time however they are cut."""
    key = reading.key[0] if len(reading.key) == 1 else ""
    if key not in table.schema.names or not pa.types.is_integer(table.schema.field(key).type):
        return False
    keys, at = table.column(key), table.column(reading.time)
    if reading.overlap or reading.lateness or keys.null_count or at.null_count:
        return False
    numbers, times = (_whole_numbers(column) for column in (keys, at))
    same = numbers[1:] == numbers[:-1]
    return bool((same | (numbers[1:] > numbers[:-1])).all() and (~same | (times[1:] >= times[:-1])).all())


def _whole_numbers(column: pa.ChunkedArray) -> Array:
    column = column if not pa.types.is_date32(column.type) else column.cast(pa.int32())
    found: Array = column.cast(pa.int64()).to_numpy()
    return found


def _in_order(table: pa.Table, reading: Reading) -> bool:
    if len(table) <= PIECE or reading.time not in table.schema.names:
        return True
    values = _whole_numbers(table.column(reading.time).drop_null())
    return bool((values[1:] >= values[:-1]).all())


def _by_time(table: pa.Table, reading: Reading) -> pa.Table:
    """Streams, and what waits in a buffer, are fed in order of time."""
    if not (reading.overlap or reading.lateness) or reading.time not in table.schema.names:
        return table
    return table.take(pc.sort_indices(table, [(reading.time, "ascending")]))


def _ordered(parts: list[tuple[Array, Flow]], pipeline: Pipeline) -> pa.Table:
    """By group; parts of a group are in order of time already, and are laid behind each other."""
    parts = [part for part in parts if part[1].rows]
    if not parts:
        return pipeline.nothing
    offsets = np.zeros(pipeline.groups + 1, np.int64)
    for slots, flow in parts:
        offsets[slots + 1] += np.diff(flow.offsets)
    np.cumsum(offsets, out=offsets)
    if len(parts) == 1 and (parts[0][0][1:] > parts[0][0][:-1]).all():
        return pipeline.rows_of(replace(parts[0][1], offsets=offsets))
    first = parts[0][1]
    rows, to = int(offsets[-1]), offsets[:-1].copy()
    at, end = np.empty(rows, np.int64), None if first.end is None else np.empty(rows, np.int64)
    values = np.empty((len(first.values), rows, *first.values.shape[2:]), first.values.dtype)
    parts.reverse()
    while parts:  # what was laid is let go
        slots, flow = parts.pop()
        _lay(slots, flow, to, at, end, values)
        to[slots] += np.diff(flow.offsets)
    return pipeline.rows_of(Flow(offsets, at, values, offsets[:0], end))


def _lay(slots: Array, flow: Flow, to: Array, at: Array, end: Array | None, values: Array) -> None:
    from everfresh.signals.kernels import grouping

    grouping.lay(slots, flow.offsets, flow.at, to, at)
    if end is not None and flow.end is not None:
        grouping.lay(slots, flow.offsets, flow.end, to, end)
    for given, out in zip(flow.values, values, strict=True):
        laid = grouping.lay if given.ndim == 1 else grouping.lay_frames
        laid(slots, flow.offsets, given, to, out)
