"""Binding a query of any kind: SELECT, set operations, VALUES, parentheses, and WITH around them.

A common table expression is bound anew at each reference, with variables of its own; one that nobody refers
to is not bound at all, as in DuckDB.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.sql import refusals
from everfresh.sql.context import Context, Cte
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.inlining import inlined
from everfresh.sql.logical.plan import Project, Scan
from everfresh.sql.queries.clauses import Query, refuse_clauses
from everfresh.sql.queries.select import bind_select
from everfresh.sql.queries.setops import bind_set_operation, bind_values, ordered
from everfresh.sql.scope import Catalog
from everfresh.sql.source import Source
from everfresh.types import fold


def bind_query(tree: Any, catalog: Catalog, source: Source) -> Query:
    """The plan of a whole query, with those of plain views in it; its columns have the names that the user
    sees."""
    query = bind_tree(tree, Context(catalog, source), None, top=True)
    columns, plan = query.columns, query.plan
    through: tuple[str, ...] = ()
    if catalog.plain:
        read = dict.fromkeys(node.table for node in plan.walk() if isinstance(node, Scan))
        through = tuple(name for name in read if name in catalog.plain)
        plan = inlined(plan, catalog.plain)
    if all(name == var.name for name, var in columns):
        return Query(plan, query.names, through)
    return Query(Project(plan, columns), query.names, through)


def bind_tree(
    tree: Any, context: Context, outer: Binder | None, *, top: bool = False, alias: str = ""
) -> Query:
    """A query inside of a statement; `alias` is the name under which FROM knows it, for its variables."""
    context = _with(tree, context, outer)
    match tree:
        case exp.Select():
            return bind_select(tree, context, outer, alias, top)
        case exp.Union() | exp.Intersect() | exp.Except():
            return bind_set_operation(tree, context, outer, alias, top)
        case exp.Values():
            return ordered(bind_values(tree, context, outer, alias), tree, context, outer, top)
        case exp.Subquery():
            refuse_clauses(
                context.source, tree, {"this", "alias", "order", "limit", "offset", "with_", "joins"}
            )
            plain = not any(tree.args.get(k) for k in ("order", "limit", "offset"))
            inner = bind_tree(tree.this, context, outer, top=top and plain, alias=alias)
            return inner if plain else ordered(inner, tree, context, outer, top)
    raise refusals.refuse(context.source, tree)


def _with(tree: Any, context: Context, outer: Binder | None) -> Context:
    """The context with the common table expressions of a tree."""
    clause = tree.args.get("with_")
    if clause is None:
        return context
    source = context.source
    if clause.args.get("recursive"):
        raise source.unsupported(
            "WITH RECURSIVE",
            clause,
            keyword="WITH",
            hint="a change would have to be followed through all steps: numbers are RANGE(...), fixed depths "
            "are as many joins",
        )
    refuse_clauses(source, clause, {"expressions"})
    mine: set[str] = set()
    for part in clause.expressions:
        refuse_clauses(source, part, {"this", "alias", "materialized"})
        name = fold(part.alias)
        if name in mine:
            raise source.error(Code.EXISTS, f"'{part.alias}' is defined twice in WITH", part.args["alias"])
        mine.add(name)
        columns = tuple(c.name for c in part.args["alias"].args.get("columns") or [])
        cte = Cte(part.this, columns, context, outer)
        context = replace(context, ctes={**context.ctes, name: cte})
    return context
