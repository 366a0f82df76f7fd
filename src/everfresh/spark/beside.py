"""Rows that a query reads beside tables and views, on Spark: variables of its caller, and files.

A DataFrame of Spark stays one, and large Parquet files are scanned by the tasks; what is in this process
becomes a relation that lasts as long as the query is being written. Invariant: such a relation has the types
in which queries hold values (`everfresh.spark.sql.forms`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.delta.coerce import coerce_column
from everfresh.delta.files import parquet_files
from everfresh.delta.given import Given, given
from everfresh.delta.given_files import FileOptions, given_files
from everfresh.options import Options
from everfresh.spark.session.failures import translated
from everfresh.spark.session.sessions import is_connect
from everfresh.spark.sql.forms import HELD, held
from everfresh.spark.sql.text import spark_schema, spark_type
from everfresh.spark.state.reading import given_block
from everfresh.state import pack_table
from everfresh.types import Column, arrow_schema, distinct_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = 1 << 16
_GLOBAL = "spark.sql.globalTempDatabase"


def given_on(session: SparkSession) -> Callable[[Any, str], Given]:
    """How an engine on a session takes rows. A client of Connect joins no DataFrames of two sessions: it
    fetches them."""

    def read(value: Any, name: str) -> Given:
        with translated():
            return given(value, name, on_spark=not (is_connect(session) or is_connect(value)))

    return read


def given_files_on(
    session: SparkSession, options: Options
) -> Callable[[tuple[str, ...], str, FileOptions, str], Given]:
    """How an engine on a session takes files: Parquet files that are large stay with Spark."""

    def read(paths: tuple[str, ...], kind: str, how: FileOptions, what: str) -> Given:
        local = given_files(paths, kind, how, what)
        if kind != "parquet" or how != FileOptions() or is_connect(session):
            return local
        files = [file for path in paths for file in parquet_files(path, what)]
        if sum(Path(file).stat().st_size for file in files) <= options.read_bytes:
            return local
        with translated():
            frame = session.read.parquet(*(str(Path(file).absolute()) for file in files))
            found = given(frame, what, on_spark=True)
        return found if found.columns == local.columns else local

    return read


@contextmanager
def relations(session: SparkSession) -> Iterator[Callable[[Any], str]]:
    """What names given rows for Spark SQL while a query is written. Spark resolves names when it is given the
    text, Connect when the query runs: there they last as long as the session."""
    known: dict[int, str] = {}

    def name_of(rows: Given) -> str:
        if id(rows) not in known:
            known[id(rows)] = alias = f"everfresh_{uuid.uuid4().hex}"
            _relation(session, rows).createOrReplaceTempView(alias)
        return known[id(rows)]

    try:
        yield name_of
    finally:
        if not is_connect(session):
            for alias in known.values():
                session.catalog.dropTempView(alias)


def _relation(session: SparkSession, rows: Given) -> DataFrame:
    names = distinct_names([c.name for c in rows.columns])
    columns = tuple(Column(name, c.type) for name, c in zip(names, rows.columns, strict=True))
    if rows.frame is not None:
        return _as_held(_here(session, rows.frame), columns)
    table = held(rows.arrow().rename_columns(names), columns)
    packed = pack_table(table)
    return session.range(0, 1, 1, 1).mapInArrow(partial(given_block, packed, _CHUNK), spark_schema(columns))


def _here(session: SparkSession, frame: DataFrame) -> DataFrame:
    """A DataFrame of another session of the same cluster, in ours; its columns are c0, c1, ..."""
    alias = f"everfresh_{uuid.uuid4().hex}"
    frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).createGlobalTempView(alias)
    try:
        return session.table(f"{session.conf.get(_GLOBAL, 'global_temp')}.{alias}")
    finally:
        session.catalog.dropGlobalTempView(alias)


def _as_held(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
    """A DataFrame of a user's in the types in which queries hold values."""
    if all(c.type.name == "TIMESTAMPTZ" or c.type.name not in HELD for c in columns):
        casts = (f"CAST(c{i} AS {spark_type(c.type)}) AS c{i}" for i, c in enumerate(columns))
        return frame.selectExpr(*casts)
    return frame.mapInArrow(partial(_held_block, columns), spark_schema(columns))


def _held_block(columns: tuple[Column, ...], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [
            coerce_column(values, column, what="a DataFrame")
            for values, column in zip(batch.columns, columns, strict=True)
        ]
        yield from held(pa.Table.from_arrays(arrays, schema=arrow_schema(columns)), columns).to_batches()
