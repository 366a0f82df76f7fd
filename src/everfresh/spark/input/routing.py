"""Rows of DataFrames on their way to the workers that own them, or into files that every task reads."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from everfresh.delta import SparkRows
from everfresh.errors import EverfreshError
from everfresh.spark.input.laying import LaidRows, laid_rows, lay_block, removed
from everfresh.spark.jobs.job import EXCHANGE, ROWS, PartSpec, World
from everfresh.spark.jobs.row_tasks import route_block
from everfresh.spark.jobs.runner import Runner
from everfresh.spark.session.failures import translated
from everfresh.spark.sql.text import name as quoted
from everfresh.types import TIMESTAMPTZ, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def routed(world: World, frames: Mapping[int, SparkRows], specs: Sequence[PartSpec]) -> DataFrame | None:
    """The rows of the parts that are in DataFrames as messages, checked and cut where they are; None without
    any."""
    found: DataFrame | None = None
    for index, rows in frames.items():
        one = _own(world, specs[index], rows).mapInArrow(
            partial(route_block, world, index, specs[index]), EXCHANGE
        )
        found = one if found is None else found.union(one)
    return found


def lay(
    runner: Runner, world: World, frames: Mapping[int, SparkRows], specs: Mapping[int, PartSpec], limit: int
) -> dict[int, LaidRows]:
    """Lay the rows of DataFrames down in the inbox, if they have no more bytes than the limit."""
    laying: DataFrame | None = None
    for index, rows in frames.items():
        block = partial(lay_block, world, index, specs[index], limit)
        one = _own(world, specs[index], rows).mapInArrow(block, EXCHANGE)
        laying = one if laying is None else laying.union(one)
    assert laying is not None
    with translated(), runner.observer.job(uuid.uuid4().hex, "lay"):
        found: Sequence[Any] = laying.collect()
    columns = {index: tuple(name for name, _ in rows.names) for index, rows in frames.items()}
    laid = laid_rows(columns, [bytes(row["payload"]) for row in found if row["kind"] == ROWS])
    try:
        runner.raise_errors(found)
    except EverfreshError:
        for done in laid.values():
            removed(world, done)
        raise
    return laid


def _own(world: World, spec: PartSpec, rows: SparkRows) -> DataFrame:
    return selected(rows, world.catalog.tables[spec.table])


def selected(rows: SparkRows, schema: TableSchema | None = None) -> DataFrame:
    """The table's columns of a user's DataFrame, under the table's names. One that has them already is taken
    as it is: to select them one by one takes Python longer than Spark takes for a small batch."""
    from pyspark.sql.types import TimestampType

    types = {field.name: field.dataType for field in rows.df.schema.fields}
    # wall-clock time in the session's zone, as Spark shows it, but where the table has a zone, too
    moments = {c.name for c in (schema.columns if schema is not None else ()) if c.type == TIMESTAMPTZ}
    given_as = {given: name for name, given in rows.names}
    zoned = {
        given
        for given, type_ in types.items()
        if isinstance(type_, TimestampType) and given_as.get(given) not in moments
    }
    if [name for name, _ in rows.names] == list(types) and not zoned:
        return rows.df
    texts = []
    for name, given in rows.names:
        column = quoted(given)
        texts.append(f"{f'CAST({column} AS TIMESTAMP_NTZ)' if given in zoned else column} AS {quoted(name)}")
    return rows.df.selectExpr(*texts)
