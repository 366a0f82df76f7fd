"""Query trees that print as SQL: what the generator makes, and what the shrinker takes apart.

An expression is a template over its parts and the kind of value it gives; a query or a source has its clauses
as fields. Aliases are unique in a tree, so a column means the same wherever its expression is moved within
the scope of its alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

Columns = tuple[tuple[str, str], ...]
"""Names and kinds: "number", "ratio" (a mean: a double that only compares), "text", "date", "truth"."""

LITERALS: dict[str, tuple[str, ...]] = {
    "number": ("1", "0", "2", "1.50", "3", "-1", "CAST(NULL AS INTEGER)"),
    "ratio": ("0.5e0", "1e0", "CAST(NULL AS DOUBLE)"),
    "text": ("'a'", "'b'", "''", "CAST(NULL AS VARCHAR)"),
    "date": ("DATE '2024-01-31'", "DATE '2024-02-29'", "CAST(NULL AS DATE)"),
    "truth": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
}


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression; `template` has a place for each part."""

    production: str
    kind: str
    template: str
    parts: tuple[Expr | Query, ...] = ()

    def sql(self) -> str:
        """As text."""
        return self.template.format(*(part.sql() for part in self.parts))


@dataclass(frozen=True, slots=True)
class Base:
    """A table, a view or a common table expression under an alias."""

    name: str
    alias: str
    columns: Columns

    def sql(self) -> str:
        """As text."""
        return f"{self.name} AS {self.alias}"


@dataclass(frozen=True, slots=True)
class Derived:
    """A query under an alias; its columns are renamed."""

    query: Query
    alias: str
    columns: Columns

    def sql(self) -> str:
        """As text."""
        return f"({self.query.sql()}) AS {self.alias} ({', '.join(name for name, _ in self.columns)})"


@dataclass(frozen=True, slots=True)
class Listed:
    """The values of a list under an alias."""

    call: Expr
    alias: str
    columns: Columns
    ordinality: bool = False

    def sql(self) -> str:
        """As text."""
        names = ", ".join(name for name, _ in self.columns)
        return f"{self.call.sql()}{' WITH ORDINALITY' if self.ordinality else ''} AS {self.alias} ({names})"


@dataclass(frozen=True, slots=True)
class Pivoted:
    """A table under PIVOT or UNPIVOT; its columns are renamed around it, as DuckDB mixes up the columns of an
    UNPIVOT that its own alias renames."""

    table: Base
    clause: str
    alias: str
    columns: Columns

    def sql(self) -> str:
        """As text."""
        names = ", ".join(n for n, _ in self.columns)
        return f"(SELECT * FROM {self.table.name} {self.clause}) AS {self.alias} ({names})"


@dataclass(frozen=True, slots=True)
class Join:
    """Two sources, joined by ON, USING, names, or nothing."""

    kind: str
    left: Source
    right: Source
    on: Expr | None = None
    using: tuple[str, ...] = ()

    def sql(self) -> str:
        """As text."""
        how = f" ON {self.on.sql()}" if self.on is not None else ""
        how += f" USING ({', '.join(self.using)})" if self.using else ""
        return f"{self.left.sql()} {self.kind} {self.right.sql()}{how}"


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT with its clauses; `order` are the words after each position, all of which are ordered by."""

    items: tuple[tuple[str, Expr], ...]
    source: Source
    where: Expr | None = None
    keys: tuple[Expr, ...] = ()
    having: Expr | None = None
    positions: bool = False
    """Whether GROUP BY names the keys by position; they are the first items then."""
    distinct: bool = False
    order: tuple[str, ...] = ()
    limit: int | None = None
    offset: int = 0
    sets: str = ""
    """ROLLUP or CUBE, if rows are grouped by more than one set of keys."""

    def sql(self) -> str:
        """As text."""
        items = ", ".join(f"{expr.sql()} AS {name}" for name, expr in self.items)
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{items} FROM {self.source.sql()}"
        if self.where is not None:
            text += f" WHERE {self.where.sql()}"
        if self.keys:
            by = [str(i + 1) if self.positions else key.sql() for i, key in enumerate(self.keys)]
            text += f" GROUP BY {self.sets} ({', '.join(by)})" if self.sets else f" GROUP BY {', '.join(by)}"
        if self.having is not None:
            text += f" HAVING {self.having.sql()}"
        if self.limit is not None:
            by = [f"{i + 1}{word}" for i, word in enumerate(self.order)]
            text += f" ORDER BY {', '.join(by)} LIMIT {self.limit}"
            text += f" OFFSET {self.offset}" if self.offset else ""
        return text


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION, INTERSECT, EXCEPT, each with or without ALL."""

    op: str
    left: Query
    right: Query

    def sql(self) -> str:
        """As text."""
        return f"({self.left.sql()}) {self.op} ({self.right.sql()})"


@dataclass(frozen=True, slots=True)
class With:
    """A common table expression and the query that reads it."""

    name: str
    columns: tuple[str, ...]
    bound: Query
    body: Query

    def sql(self) -> str:
        """As text."""
        return f"WITH {self.name} ({', '.join(self.columns)}) AS ({self.bound.sql()}) {self.body.sql()}"


Query: TypeAlias = Select | SetOperation | With
Source: TypeAlias = Base | Derived | Listed | Pivoted | Join
Tree: TypeAlias = Expr | Query | Source
_NODES = (Expr, Base, Derived, Listed, Pivoted, Join, Select, SetOperation, With)


def column(alias: str, name: str, kind: str, table: bool = False) -> Expr:
    """A column of the source `alias`; a table's own values are small enough to multiply."""
    return Expr("table column" if table else "column", kind, f"{alias}.{name}")


def nodes(value: Any) -> Iterator[Any]:
    """All nodes of a tree, the root first."""
    if isinstance(value, _NODES):
        yield value
        for field in fields(value):
            yield from nodes(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from nodes(item)


def rebuilt(value: Any, visit: Callable[[Any], Any]) -> Any:
    """A tree whose every node was given to `visit`, the leaves first."""
    if isinstance(value, _NODES):
        parts = {f.name: rebuilt(getattr(value, f.name), visit) for f in fields(value)}
        return visit(replace(value, **parts))
    return tuple(rebuilt(item, visit) for item in value) if isinstance(value, tuple) else value


def variants(value: Any, smaller: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """All trees with exactly one node replaced by one of its `smaller` forms, the root first."""
    if isinstance(value, _NODES):
        yield from smaller(value)
        for field in fields(value):
            for other in variants(getattr(value, field.name), smaller):
                yield replace(value, **{field.name: other})
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            for other in variants(item, smaller):
                yield (*value[:i], other, *value[i + 1 :])
