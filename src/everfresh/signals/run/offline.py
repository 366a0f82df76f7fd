"""A query over rows at hand: the same pipeline, fed with the rows in pieces that stay in the cache.

Watermarks stay down until all rows are in, so that nothing has to be looked for when time passes; what waits
for the end comes at the end. The bits are those of any other cutting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    if not all(_in_order(t, readings[name]) for name, t in tables.items()):
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


def _in_order(table: pa.Table, reading: Reading) -> bool:
    if len(table) <= PIECE or reading.time not in table.schema.names:
        return True
    at = table.column(reading.time).combine_chunks()
    at = at if not pa.types.is_date32(at.type) else at.cast(pa.int32())
    values = at.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False)
    return bool((values[1:] >= values[:-1]).all())


def _by_time(table: pa.Table, reading: Reading) -> pa.Table:
    """Streams, and what waits in a buffer, are fed in order of time."""
    if not (reading.overlap or reading.lateness) or reading.time not in table.schema.names:
        return table
    return table.take(pc.sort_indices(table, [(reading.time, "ascending")]))


def _ordered(parts: list[tuple[Array, Flow]], pipeline: Pipeline) -> pa.Table:
    """By group; parts of a group are in order of time already."""
    from everfresh.signals.kernels import grouping

    parts = [part for part in parts if part[1].rows]
    if not parts:
        return pipeline.nothing
    slots = np.concatenate([np.repeat(slots, np.diff(flow.offsets)) for slots, flow in parts])
    flows = [flow for _, flow in parts]
    at, values = (
        np.concatenate([getattr(flow, name) for flow in flows], axis)
        for name, axis in (("at", 0), ("values", 1))
    )
    end = None if flows[0].end is None else np.concatenate([flow.end for flow in flows])
    offsets = np.zeros(pipeline.groups + 1, np.int64)
    if pipeline.groups > 1 and (slots[1:] < slots[:-1]).any():
        order = np.empty(len(slots), np.int64)
        grouping.arrange(slots, np.arange(pipeline.groups), offsets, order)
        at, values = at[order], values[:, order]
        end = None if end is None else end[order]
    else:
        np.cumsum(np.bincount(slots, minlength=pipeline.groups), out=offsets[1:])
    return pipeline.rows_of(Flow(offsets, at, values, offsets[:0], end))
