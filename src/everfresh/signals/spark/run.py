"""A query over Spark DataFrames: rows go to partitions by key, and each partition is one run of the pipeline
over its groups. One job of two stages for a pipeline of any length, since nothing crosses groups.

In Spark a complex number is two columns, `value_re` and `value_im`; of windows, two arrays. Bits are those of
a run in one process, however the rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.rewrite import Node
from everfresh.signals.nodes import Reading
from everfresh.signals.payload import ComplexType, to_complex
from everfresh.signals.plan import Plan
from everfresh.signals.run.offline import run as run_here
from everfresh.signals.run.pipeline import Pipeline
from everfresh.types import no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TABLE = "of"
_ROWS = 100_000


def run(query: Node, frames: Mapping[str, Any], options: Options | None = None) -> DataFrame:
    """The rows of the query over DataFrames by the names of tables, in no order."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    readings = [each for each in query.walk() if isinstance(each, Reading)]
    schemas = {name: to_arrow_schema(frames[name].schema) for name in {each.table for each in readings}}
    schemas = {name: pa.schema([_plain(field) for field in schema]) for name, schema in schemas.items()}
    columns: dict[str, list[str]] = {}
    for source in Plan(query, schemas, options).sources.values():
        known = columns.setdefault(source.reading.table, [])
        known += [name for name in source.needed if name not in known]
    keys: dict[str, tuple[str, ...]] = {}
    for each in readings:
        if keys.setdefault(each.table, each.key) != each.key:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"table '{each.table}' is read by two keys: {keys[each.table]} and {each.key}",
                hint="on Spark the rows of a table are partitioned by one key; give the frame two names",
            )
    names = list(columns)
    nothing = flat(Pipeline(query, schemas, options).nothing)
    work = _work(
        query, {name: (columns[name], _needed(schemas[name], columns[name])) for name in names}, options
    )
    made = from_arrow_schema(nothing.schema)
    if len(names) == 1:  # rows need no tag, nor keys beside their own
        frame, by = frames[names[0]], keys[names[0]]
        own = frame.select(*(f.col(f"`{name}`").alias(f"c0_{i}") for i, name in enumerate(columns[names[0]])))
        places = [columns[names[0]].index(name) for name in by]
        key = [
            _whole(f.col(f"c0_{i}"), frame.schema[name].dataType) for i, name in zip(places, by, strict=True)
        ]
        return (own.repartition(*key) if key else own.repartition(1)).mapInArrow(work, made)
    parts = [_tagged(f, frames[name], str(i), columns[name], keys[name]) for i, name in enumerate(names)]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part, allowMissingColumns=True)
    key = [f.col(f"k{i}") for i in range(len(readings[0].key))]
    rows = rows.repartition(*key) if key else rows.repartition(1)
    return rows.drop(*(f"k{i}" for i in range(len(key)))).mapInArrow(work, made)


def _plain(field: pa.Field) -> pa.Field:
    """Times of Spark are of one zone: UTC here."""
    if pa.types.is_timestamp(field.type):
        return pa.field(field.name, pa.timestamp("us"))
    return field


def _needed(schema: pa.Schema, columns: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in columns])


def _tagged(f: Any, frame: DataFrame, tag: str, columns: list[str], key: tuple[str, ...]) -> DataFrame:
    """The columns that are read under names of their own, and the keys by which rows are partitioned."""
    key_columns = [
        _whole(f.col(f"`{name}`"), frame.schema[name].dataType).alias(f"k{i}") for i, name in enumerate(key)
    ]
    own = [f.col(f"`{name}`").alias(f"c{tag}_{i}") for i, name in enumerate(columns)]
    return frame.select(f.lit(tag).alias(_TABLE), *key_columns, *own)


def _whole(column: Any, type_: Any) -> Any:
    """Whole numbers of all widths meet in one partition."""
    return column.cast("bigint") if type_.typeName() in ("byte", "short", "integer", "long") else column


def _work(
    query: Node, tables: Mapping[str, tuple[list[str], pa.Schema]], options: Options | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a partition does."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[str, list[pa.Table]] = {str(i): [] for i in range(len(tables))}
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            for tag, found in parts.items():
                mine = rows if len(parts) == 1 else rows.filter(pa.compute.equal(rows.column(_TABLE), tag))
                if len(mine):
                    found.append(mine)
        given = {}
        for number, (name, (columns, schema)) in enumerate(tables.items()):
            named = [f"c{number}_{i}" for i in range(len(columns))]
            some = [part.select(named).rename_columns(columns).cast(schema) for part in parts[str(number)]]
            given[name] = pa.concat_tables([no_rows(schema), *some])
        if any(len(table) for table in given.values()):
            yield from flat(run_here(query, given, options)).to_batches(max_chunksize=_ROWS)

    return work


def flat(rows: pa.Table) -> pa.Table:
    """Rows with types that Spark has.

    >>> from everfresh.signals.payload import complex_array
    >>> import numpy as np
    >>> flat(pa.table({"value": complex_array(np.array([1 + 2j]))})).to_pydict()
    {'value_re': [1.0], 'value_im': [2.0]}
    """
    made: dict[str, Any] = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        whole = column.combine_chunks()
        whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        listed = pa.types.is_fixed_size_list(field.type)
        inner = whole.flatten() if listed else whole
        if isinstance(inner.type, ComplexType):
            numbers = to_complex(inner)
            pieces = {f"{field.name}_re": numbers.real, f"{field.name}_im": numbers.imag}
        else:
            pieces = {field.name: inner}
        for name, piece in pieces.items():
            values = piece if isinstance(piece, pa.Array) else pa.array(piece.copy())
            if listed:
                size = field.type.list_size
                cuts = pa.array(np.arange(len(rows) + 1) * size, pa.int32())
                values = pa.ListArray.from_arrays(cuts, values)
            made[name] = values
    return pa.table(made)
