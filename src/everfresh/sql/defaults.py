"""DEFAULT of columns: kept as text, and bound in each statement that leaves a column out.

So a default may be the time of the statement. Invariant: the text is DuckDB's, of an expression without
columns that has been bound once for its column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp, parse_one

from everfresh.expr import evaluate
from everfresh.expr.nodes import Const
from everfresh.sql.expressions import Binder
from everfresh.sql.scope import Scope
from everfresh.sql.source import Source, moment
from everfresh.types import Column, TableSchema


def declared(source: Source, column: Column, tree: Any) -> tuple[str, Const]:
    """The text of a DEFAULT, and its value now; raises if it is none for the column."""
    now = replace(source, now=moment())
    bound = Binder(Scope(now), "DEFAULT").fitting(tree, column.type)
    return tree.sql("duckdb"), Const(evaluate(bound, {}), column.type)


def default_of(schema: TableSchema, name: str) -> Any:
    """What a column is that is left out, as a tree that stands nowhere in the user's text."""
    text = dict(schema.defaults).get(name)
    if text is None:
        return exp.Null()
    tree = parse_one(text, dialect="duckdb")
    for node in tree.walk():
        node.meta.clear()
    return tree


def is_default(tree: Any) -> bool:
    """Whether a value is the word DEFAULT."""
    if isinstance(tree, exp.Column):
        return not tree.table and not tree.this.args.get("quoted") and tree.name.upper() == "DEFAULT"
    return isinstance(tree, exp.Var) and tree.name.upper() == "DEFAULT"
