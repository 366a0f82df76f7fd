"""Rows of a statement in this process: fetched from where they are, and what an upsert does to them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from everfresh.delta import SparkRows
from everfresh.expr import evaluate
from everfresh.program import OnConflict
from everfresh.types import TableSchema, to_logical, to_physical

Row = dict[str, Any]


def fetched(rows: Any, schema: TableSchema) -> pa.Table:
    """Rows of a part in this process; they may have some of the table's columns only."""
    if not isinstance(rows, SparkRows):
        return rows
    names = [name for name, _ in rows.names]
    columns = (f"`{there.replace('`', '``')}`" for _, there in rows.names)
    table = rows.df.select(*columns).toArrow().rename_columns(names)
    return table.cast(pa.schema([schema.arrow.field(name) for name in names]))


def plain_rows(schema: TableSchema, rows: list[Row]) -> pa.Table:
    """Rows of Python as a table."""
    return pa.Table.from_pylist(rows, schema=schema.arrow)


def upserted(
    schema: TableSchema, there: pa.Table, rows: pa.Table, action: OnConflict
) -> tuple[list[Row], list[Row]]:
    """The rows that an upsert into a table takes away, and those that it leaves, in their place or new. What
    it refuses is not looked at."""
    known = {tuple(row[name] for name in schema.key): row for row in there.to_pylist()}
    gone: dict[tuple[Any, ...], Row] = {}
    come: dict[tuple[Any, ...], Row] = {}
    for row in rows.to_pylist():
        key = tuple(row[name] for name in schema.key)
        before = come.get(key) or known.get(key)
        if before is None:
            come[key] = row
        elif not action.ignore:
            env = _physical(schema, before)
            env |= {f"excluded.{name}": value for name, value in _physical(schema, row).items()}
            if action.where is None or evaluate(action.where, env) is True:
                new = {
                    name: to_logical(evaluate(expr, env), schema.column(name).type)
                    for name, expr in action.assignments
                }
                if key in known:
                    gone[key] = known[key]
                come[key] = {**before, **new}
    return list(gone.values()), list(come.values())


def _physical(schema: TableSchema, row: Row) -> Row:
    return {c.name: to_physical(row[c.name], c.type) for c in schema.columns}
