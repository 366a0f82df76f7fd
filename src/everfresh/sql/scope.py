"""Which names an expression may use: the relations of FROM, and the aliases of the SELECT list.

Names are compared without case and kept as the catalog or the alias spells them; a name that is not in the
FROM of a subquery is looked up around it. Invariant: a column name means one variable; where two relations of
one FROM have it, it must be qualified, unless USING or NATURAL has merged them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Var
from everfresh.sql.context import Context
from everfresh.sql.logical.plan import Plan
from everfresh.sql.source import Source, near
from everfresh.types import Column, SqlType, TableSchema, fold

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


class Catalog(Protocol):
    """What the binder asks about the database; names may come in any case."""

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        """The kind ('table', 'view' or 'plain view') and the columns of a relation, or None."""

    def table(self, name: str) -> TableSchema | None:
        """The schema of a base table, or None."""

    def names(self) -> list[str]:
        """All relations, spelled as they were created."""

    def other(self, name: str) -> tuple[str, str] | None:
        """The kind ('matrix' or 'matrix view') and the name of what is no relation, or None."""

    @property
    def plain(self) -> Mapping[str, Plan]:
        """The queries of plain views, by name, over tables and materialized views."""

    @property
    def types(self) -> Mapping[str, SqlType]:
        """The types that were given names, by lower-case name."""


@dataclass(frozen=True)
class Relation:
    """One relation of FROM: the name it goes by, and its columns as `(name, variable)`."""

    alias: str
    columns: tuple[tuple[str, Var], ...]
    hidden: tuple[tuple[str, Var], ...] = ()
    """Further names of columns, that `*` does not list."""

    def find(self, name: str) -> tuple[str, Var] | None:
        """The column called `name`, spelled as declared; the first, if there are several."""
        return self._by_name.get(fold(name))

    @cached_property
    def _by_name(self) -> dict[str, tuple[str, Var]]:
        return {fold(n): (n, v) for n, v in reversed((*self.columns, *self.hidden))}


@dataclass(frozen=True)
class Merged:
    """A column of USING or NATURAL: one name for a column of each of several relations."""

    name: str
    var: Var
    members: frozenset[str]  # lower-case aliases


@dataclass(frozen=True)
class Scope:
    """The relations that an expression sees, and what it sees beyond them."""

    source: Source
    relations: tuple[Relation, ...] = ()
    qualified: frozenset[str] = frozenset()  # aliases that are only reached as alias.column
    merged: tuple[Merged, ...] = ()
    context: Context | None = None  # where subqueries are bound; None where they are refused
    outer: Binder | None = None  # what binds a column that is not here
    lateral: bool = False  # the relations stand beside the query in FROM, which may not use them

    def resolve(self, node: Any) -> tuple[str, Var] | None:
        """The column of these relations that a Column node names, or None if there is none."""
        if node.args.get("db") or node.args.get("catalog"):
            raise self.source.unsupported(
                f"the qualified name '{node.sql('duckdb')[:60]}'",
                node,
                hint="write table.column; there are no schemas and no structs",
            )
        if node.table:
            relation = self.relation(node.table)
            found = None if relation is None else relation.find(node.name)
            if found is None and any(v.type.name == "STRUCT" for *_, v in self.unqualified(node.table)):
                return None  # a field of a column
            if relation is not None and found is None:
                names = [n for n, _ in relation.columns]
                raise self.source.error(
                    Code.NOT_FOUND,
                    f"'{relation.alias}' has no column '{node.name}'",
                    node.this,
                    hint=near(node.name, names, "columns"),
                )
            return found
        hits = self.unqualified(node.name)
        if len(hits) > 1:
            either = " or ".join(f"{alias}.{name}" for alias, name, _ in hits if alias)
            raise self.source.error(
                Code.NOT_FOUND, f"column '{node.name}' is ambiguous", node, hint=f"write {either}"
            )
        return hits[0][1:] if hits else None

    def unqualified(self, name: str) -> list[tuple[str, str, Var]]:
        """What a bare name may mean, as in `columns`."""
        return self._by_name.get(fold(name), [])

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[str, str, Var]]]:
        found: dict[str, list[tuple[str, str, Var]]] = {}
        for column in self.columns():
            found.setdefault(fold(column[1]), []).append(column)
        return found

    def columns(self) -> list[tuple[str, str, Var]]:
        """All columns in the order of `*`, as `(alias, name, variable)`; a merged one once, without alias."""
        found: list[tuple[str, str, Var]] = []
        seen: set[int] = set()
        for relation in self.relations:
            for name, var in relation.columns if relation.alias not in self.qualified else ():
                merged = self.merger(relation.alias, name)
                if merged is None:
                    found.append((relation.alias, name, var))
                elif id(merged) not in seen:
                    seen.add(id(merged))
                    found.append(("", merged.name, merged.var))
        return found

    def merger(self, alias: str, name: str) -> Merged | None:
        """The merged column to which a relation's column belongs."""
        return next((m for m in self.merged if fold(m.name) == fold(name) and fold(alias) in m.members), None)

    def relation(self, alias: str) -> Relation | None:
        """The relation that goes by `alias`."""
        return next((r for r in self.relations if fold(r.alias) == fold(alias)), None)

    def owns(self, name: str) -> bool:
        """Whether a variable is a column of these relations."""
        mine = (v.name for r in self.relations for _, v in r.columns)
        return name in mine or name in (m.var.name for m in self.merged)

    def over(self, plan: Plan) -> Scope:
        """The same names for the variables as a plan yields them: an outer join makes some nullable."""
        now = {v.name: v for v in plan.variables}
        relations = tuple(
            Relation(
                r.alias,
                *(tuple((n, now.get(v.name, v)) for n, v in listed) for listed in (r.columns, r.hidden)),
            )
            for r in self.relations
        )
        merged = tuple(replace(m, var=now.get(m.var.name, m.var)) for m in self.merged)
        return replace(self, relations=relations, merged=merged)

    def around(self) -> list[Scope]:
        """This scope and those around it, innermost first."""
        return [self, *(self.outer.scope.around() if self.outer is not None else ())]

    def no_relation(self, alias: str, node: Any) -> EverfreshError:
        """The error for a qualifier that names nothing."""
        known = [r.alias for s in self.around() for r in s.relations]
        return self.source.error(
            Code.NOT_FOUND,
            f"there is no table '{alias}' in FROM",
            node,
            hint=near(alias, known, "tables in FROM"),
        )

    def missing(self, node: Any, extra: list[str]) -> EverfreshError:
        """The error for a column that is nowhere."""
        if node.table:
            return self.no_relation(node.table, node)
        scopes = self.around()
        if not any(s.relations for s in scopes):
            return self.source.error(
                Code.NOT_FOUND, f"there is no column '{node.name}' here", node, hint="there is no FROM clause"
            )
        names = [n for s in scopes for r in s.relations for n, _ in r.columns] + extra
        return self.source.error(
            Code.NOT_FOUND, f"there is no column '{node.name}'", node, hint=near(node.name, names, "columns")
        )


def relation_columns(
    catalog: Catalog, source: Source, node: Any, hint: str | None = None
) -> tuple[str, str, tuple[Column, ...]]:
    """The name as the catalog spells it, the kind and the columns of the relation that a Table node names."""
    name = table_name(source, node)
    found = catalog.relation(name)
    if found is None:
        raise source.error(
            Code.NOT_FOUND,
            f"there is no table or view '{name}'",
            node,
            hint=hint or near(name, catalog.names(), "tables and views"),
        )
    return spelled(catalog, name), *found


def spelled(catalog: Catalog, name: str) -> str:
    """A relation's name as it was created."""
    return next((n for n in catalog.names() if fold(n) == fold(name)), name)


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
