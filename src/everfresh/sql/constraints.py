"""CHECK and generated columns: kept as text with their table, bound to its columns where rows come.

The text is DuckDB's; that it says what was written is seen by binding both. Invariant: an expression here
reads the columns of one row and nothing else, and has the same value whenever it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, evaluate_vector
from everfresh.expr.nodes import Expr, Var
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.renaming import renamed as with_names
from everfresh.sql.parse import split
from everfresh.sql.scope import Relation, Scope
from everfresh.sql.source import Source
from everfresh.types import NULL, Column, SqlType, TableSchema, fold


@dataclass(frozen=True)
class Check:
    """A CHECK: its name, if it has one, what it says, and the condition that is not FALSE for any row."""

    name: str
    text: str
    condition: Expr

    def __str__(self) -> str:
        return f"CHECK ({self.text})" if not self.name else f"'{self.name}', CHECK ({self.text})"

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return columns_of(self.condition)


def columns_of(expr: Expr) -> frozenset[str]:
    """The columns that an expression reads."""
    return frozenset(node.name for node in expr.walk() if isinstance(node, Var))


# -- what is kept of what is written ---------------------------------------------------------------------


def check_text(source: Source, table: str, columns: Sequence[Column], tree: Any) -> str:
    """The text of a CHECK that is written in a statement."""
    return _kept(_binder(source, table, columns, "CHECK"), tree, table, columns, None)


def generated_text(
    source: Source, table: str, columns: Sequence[Column], tree: Any, to: SqlType | None
) -> tuple[str, SqlType]:
    """The text of a generated column, and its type."""
    binder = _binder(source, table, columns, "a generated column")
    bound = binder.fitting(tree, to) if to is not None else binder.bind(tree)
    if bound.type == NULL:
        raise source.error(Code.TYPE, "a generated column needs a type, or a value that has one", tree)
    return _kept(binder, tree, table, columns, bound.type), bound.type


def _kept(binder: Binder, tree: Any, table: str, columns: Sequence[Column], to: SqlType | None) -> str:
    bound = _bound(binder, tree, to)
    plain = tree.copy()
    for node in plain.find_all(exp.Column):
        if node.table and not node.args.get("db") and fold(node.table) == fold(table):
            node.set("table", None)
    for one in (plain, tree):
        text: str = one.sql("duckdb")
        if _same(text, table, columns, to, bound):
            return text
    raise binder.scope.source.unsupported(
        "this expression in a constraint", tree, hint="write it more plainly"
    )


def _same(text: str, table: str, columns: Sequence[Column], to: SqlType | None, bound: Expr) -> bool:
    try:
        return _read(text, table, columns, to) == bound
    except EverfreshError:
        return False


def _bound(binder: Binder, tree: Any, to: SqlType | None) -> Expr:
    return binder.condition(tree) if to is None else binder.fitting(tree, to)


def _binder(source: Source, table: str, columns: Sequence[Column], clause: str) -> Binder:
    pairs = tuple((c.name, Var(c.name, c.type, c.nullable)) for c in columns)
    return Binder(Scope(replace(source, now=None), (Relation(table, pairs),)), clause)


def _read(text: str, table: str, columns: Sequence[Column], to: SqlType | None) -> Expr:
    (parsed,) = split(f"SELECT {text}")
    return _bound(_binder(parsed.source, table, columns, "CHECK"), parsed.tree.expressions[0], to)


def in_order(
    source: Source, table: str, columns: Sequence[Column], written: Mapping[str, tuple[Any, SqlType | None]]
) -> tuple[list[Column], tuple[tuple[str, str], ...]]:
    """The columns of a table with the types of those that are generated, and their texts, each after those
    that it reads. `written` has their trees and the types that are declared."""
    left, known = dict(written), [c for c in columns if c.name not in written]
    texts: list[tuple[str, str]] = []
    types: dict[str, SqlType] = {}
    while left:
        name = next((n for n, (tree, _) in left.items() if not _reads_any(tree, table, left)), None)
        if name is None:
            raise source.error(
                Code.DEPENDENCY, f"the generated columns {', '.join(left)} are computed from one another"
            )
        tree, to = left.pop(name)
        text, types[name] = generated_text(source, table, known, tree, to)
        known.append(Column(name, types[name]))
        texts.append((name, text))
    return [replace(c, type=types.get(c.name, c.type)) for c in columns], tuple(texts)


def _reads_any(tree: Any, table: str, names: Mapping[str, Any]) -> bool:
    """Whether an expression may read one of these columns."""
    wanted = {fold(name) for name in names}
    for node in tree.find_all(exp.Column):
        parts = [fold(part.name) for part in node.parts]
        if parts[0] in wanted or (parts[0] == fold(table) and len(parts) > 1 and parts[1] in wanted):
            return True
    return False


# -- what rows are judged by -----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def checks_of(schema: TableSchema) -> tuple[Check, ...]:
    """The CHECKs of a table."""
    return tuple(
        Check(name, text, _read(text, schema.name, schema.columns, None)) for name, text in schema.checks
    )


@lru_cache(maxsize=256)
def generated_of(schema: TableSchema) -> tuple[tuple[str, Expr], ...]:
    """The columns of a table that are computed, each after those that it reads."""
    return tuple(
        (name, _read(text, schema.name, schema.columns, schema.column(name).type))
        for name, text in schema.generated
    )


def computed(schema: TableSchema, env: dict[str, Vector], rows: int) -> dict[str, Vector]:
    """The generated columns of some rows, of which `env` has the others."""
    env, found = dict(env), {}
    for name, expr in generated_of(schema):
        try:
            found[name] = env[name] = evaluate_vector(expr, env, rows)
        except EverfreshError as error:
            raise error.at(f"the generated column '{name}' of '{schema.name}'") from error
    return found


def filled(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Rows with the generated columns of their table, if they have all others: in its order, and behind them
    what else they have."""
    if not schema.generated or not set(schema.given) <= set(rows.column_names):
        return rows
    env = {}
    for name in schema.given:
        column = rows.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        env[name] = Vector.from_arrow(column, schema.column(name).type)
    new = {name: vector.to_arrow() for name, vector in computed(schema, env, rows.num_rows).items()}
    names = [*schema.names, *(name for name in rows.column_names if name not in schema.names)]
    columns = [new[name] if name in new else rows.column(name) for name in names]
    return pa.Table.from_arrays(
        [c.cast(schema.arrow.field(n).type) if n in new else c for n, c in zip(names, columns, strict=True)],
        names=names,
    )


def broken(schema: TableSchema, check: Check) -> str:
    """What is wrong with a row for which a CHECK is FALSE."""
    return f"a row of '{schema.name}' does not satisfy the constraint {check}"


# -- other names -----------------------------------------------------------------------------------------


def using(schema: TableSchema, name: str) -> list[str]:
    """What a table computes or checks by a column."""
    found = [str(check) for check in checks_of(schema) if name in check.columns]
    found += [f"the generated column '{own}'" for own, e in generated_of(schema) if name in columns_of(e)]
    return found


def renamed(old: TableSchema, new: TableSchema, name: str, to: str) -> TableSchema:
    """A table with a column that goes by another name, in its texts, too."""
    checks = [
        (check.name, _renamed(check.text, old, new, name, to, None, check.condition))
        for check in checks_of(old)
    ]
    generated = []
    for (own, expr), (_, text) in zip(generated_of(old), old.generated, strict=True):
        known = to if own == name else own
        generated.append((known, _renamed(text, old, new, name, to, old.column(own).type, expr)))
    return replace(new, checks=tuple(checks), generated=tuple(generated))


def _renamed(
    text: str, old: TableSchema, new: TableSchema, name: str, to: str, of: SqlType | None, expr: Expr
) -> str:
    (parsed,) = split(f"SELECT {text}")
    for node in parsed.tree.find_all(exp.Column):
        first = node.parts[0]
        if fold(first.name) == fold(name):
            first.replace(exp.to_identifier(to, quoted=True))
    found: str = parsed.tree.expressions[0].sql("duckdb")
    expected = with_names(expr, {name: to})
    if not _same(found, new.name, new.columns, of, expected):
        raise EverfreshError(
            Code.DEPENDENCY,
            f"column '{name}' of '{old.name}' is used by: {text}",
            hint="drop the constraint first, and add it again",
        )
    return found
