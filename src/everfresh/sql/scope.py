"""Which names an expression may use: the relations of FROM, and the aliases of the SELECT list.

Names are compared without case and kept as the catalog or the alias spells them. Invariant: a column name
means one variable; where two relations have it, it must be qualified.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from everfresh.errors import Code
from everfresh.expr.nodes import Var
from everfresh.sql.source import Source, near
from everfresh.types import Column, TableSchema


class Catalog(Protocol):
    """What the binder asks about the database; names may come in any case."""

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        """The kind ('table' or 'view') and the columns of a relation, or None."""

    def table(self, name: str) -> TableSchema | None:
        """The schema of a base table, or None."""

    def names(self) -> list[str]:
        """All relations, spelled as they were created."""


@dataclass(frozen=True)
class Relation:
    """One relation of FROM: the name it goes by, and its columns as `(name, variable)`."""

    alias: str
    columns: tuple[tuple[str, Var], ...]

    def find(self, name: str) -> tuple[str, Var] | None:
        """The column called `name`, spelled as declared."""
        lowered = name.lower()
        return next(((n, v) for n, v in self.columns if n.lower() == lowered), None)


@dataclass(frozen=True)
class Scope:
    """The relations that an expression sees."""

    source: Source
    relations: tuple[Relation, ...] = ()
    qualified: frozenset[str] = field(
        default_factory=frozenset
    )  # aliases that are only reached as alias.column

    def resolve(self, node: Any) -> tuple[str, Var] | None:
        """The column that a Column node names, or None if there is none and it has no qualifier."""
        name = node.name
        if node.args.get("db") or node.args.get("catalog"):
            raise self.source.unsupported(
                f"the qualified name '{node.sql('duckdb')}'",
                node,
                hint="write table.column; there are no schemas and no structs",
            )
        table = node.table
        if table:
            relation = self.relation(table, node)
            found = relation.find(name)
            if found is None:
                names = [n for n, _ in relation.columns]
                raise self.source.error(
                    Code.NOT_FOUND,
                    f"'{relation.alias}' has no column '{name}'",
                    node.this,
                    hint=near(name, names, "columns"),
                )
            return found
        hits = [(r, f) for r in self.relations if r.alias not in self.qualified and (f := r.find(name))]
        if len(hits) > 1:
            either = " or ".join(f"{r.alias}.{f[0]}" for r, f in hits)
            raise self.source.error(
                Code.NOT_FOUND, f"column '{name}' is ambiguous", node, hint=f"write {either}"
            )
        return hits[0][1] if hits else None

    def relation(self, alias: str, node: Any) -> Relation:
        """The relation that goes by `alias`."""
        for relation in self.relations:
            if relation.alias.lower() == alias.lower():
                return relation
        raise self.source.error(
            Code.NOT_FOUND,
            f"there is no table '{alias}' in FROM",
            node,
            hint=near(alias, [r.alias for r in self.relations], "tables in FROM"),
        )

    def missing(self, node: Any, extra: list[str]) -> Exception:
        """The error for a column that is nowhere."""
        if not self.relations:
            return self.source.error(
                Code.NOT_FOUND, f"there is no column '{node.name}' here", node, hint="there is no FROM clause"
            )
        names = [n for r in self.relations for n, _ in r.columns] + extra
        return self.source.error(
            Code.NOT_FOUND, f"there is no column '{node.name}'", node, hint=near(node.name, names, "columns")
        )


def relation_columns(catalog: Catalog, source: Source, node: Any) -> tuple[str, str, tuple[Column, ...]]:
    """The name as the catalog spells it, the kind and the columns of the relation that a Table node names."""
    name = table_name(source, node)
    found = catalog.relation(name)
    if found is None:
        raise source.error(
            Code.NOT_FOUND,
            f"there is no table or view '{name}'",
            node,
            hint=near(name, catalog.names(), "tables and views"),
        )
    return spelled(catalog, name), *found


def spelled(catalog: Catalog, name: str) -> str:
    """A relation's name as it was created."""
    return next((n for n in catalog.names() if n.lower() == name.lower()), name)


def table_name(source: Source, node: Any) -> str:
    """The plain name in a Table node."""
    if node.args.get("db") or node.args.get("catalog"):
        raise source.unsupported(
            f"the qualified name '{node.sql('duckdb')[:60]}'",
            node,
            hint="there are no schemas: write the name alone",
        )
    name: str = node.name
    if not name:
        raise source.error(Code.SYNTAX, "a name is missing", node)
    return name
