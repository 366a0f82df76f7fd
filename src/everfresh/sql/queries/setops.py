"""UNION, INTERSECT and EXCEPT, VALUES, and ORDER BY and LIMIT over them.

Columns are brought to one type by casts on both sides: as DuckDB, to VARCHAR if either is one. Literals do
not bend to the other side here, since each side is a query of its own.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build, coerce
from everfresh.expr.nodes import Const, Expr, Var
from everfresh.sql.context import Context
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.plan import Limit, Plan, Project, SetOperation, Single, Sort, projected
from everfresh.sql.logical.row_calls import SortKey
from everfresh.sql.naming.column_names import output_name
from everfresh.sql.queries.clauses import Query, limited, refuse_clauses, sort_items
from everfresh.sql.scope import Relation, Scope
from everfresh.types import NULL, VARCHAR, SqlType, distinct_names, fold

_OPERATIONS: dict[type[Any], str] = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}
_BOUND = {"this", "expression", "distinct", "order", "limit", "offset", "with_", "by_name"}


def bind_set_operation(tree: Any, context: Context, outer: Binder | None, alias: str, top: bool) -> Query:
    """Two queries under a set operation."""
    source = context.source
    op = _OPERATIONS[type(tree)]
    refuse_clauses(source, tree, _BOUND)
    left = context.bind(tree.this, outer, alias)
    right = context.bind(tree.expression, outer)
    if tree.args.get("by_name"):
        if op != "union":
            raise source.unsupported(f"{op.upper()} BY NAME", tree.expression)
        left, right = _by_name(left, right, context)
    if len(left.names) != len(right.names):
        raise source.error(
            Code.TYPE,
            f"{op.upper()} needs as many columns on both sides, not {len(left.names)} and {len(right.names)}",
            tree.expression,
        )
    types = []
    for name, a, b in zip(left.names, left.plan.variables, right.plan.variables, strict=True):
        found = _common(a.type, b.type)
        if found is None:
            raise source.error(
                Code.TYPE,
                f"cannot mix {a.type} and {b.type} in column '{name}' of {op.upper()}",
                tree.expression,
                hint="cast one of them explicitly",
            )
        types.append(found)
    distinct = bool(tree.args.get("distinct"))
    plan = SetOperation(op, not distinct, _cast(left.plan, types, context), _cast(right.plan, types, context))
    return ordered(Query(plan, left.names), tree, context, outer, top, other=right.names)


def _by_name(left: Query, right: Query, context: Context) -> tuple[Query, Query]:
    """Both sides with the columns of either, the left ones first, NULL for those that a side lacks."""
    ours, theirs = ({fold(n): (n, v) for n, v in side.columns} for side in (left, right))
    names = dict.fromkeys((*ours, *theirs))
    shown = tuple((ours.get(n) or theirs[n])[0] for n in names)

    def padded(query: Query, own: dict[str, tuple[str, Var]], other: dict[str, tuple[str, Var]]) -> Query:
        items: list[tuple[str, Expr]] = []
        for n in names:
            if n in own:
                items.append((own[n][1].name, own[n][1]))
            else:
                items.append((context.names.fresh(n), Const(None, other[n][1].type)))
        return Query(projected(query.plan, items), shown)

    return padded(left, ours, theirs), padded(right, theirs, ours)


def _common(a: SqlType, b: SqlType) -> SqlType | None:
    if VARCHAR in (a, b):
        return VARCHAR
    return coerce.common([Var("left", a), Var("right", b)])


def _cast(plan: Plan, types: list[SqlType], context: Context) -> Plan:
    """The plan with its columns cast, itself if they have the types."""
    items: list[tuple[str, Expr]] = []
    for var, to in zip(plan.variables, types, strict=True):
        same = var.type == to
        items.append((var.name if same else context.names.fresh(var.name), build.cast(var, to)))
    return projected(plan, items)


# -- VALUES ----------------------------------------------------------------------------------------------


def bind_values(tree: Any, context: Context, outer: Binder | None, alias: str) -> Query:
    """VALUES (...), (...): a union of rows."""
    source = context.source
    refuse_clauses(source, tree, {"expressions", "alias", "order", "limit", "offset", "with_", "joins"})
    binder = Binder(Scope(source, context=context, outer=outer), "VALUES")
    trees = [r.expressions if isinstance(r, exp.Tuple) else [r] for r in tree.expressions]
    if not trees or not trees[0]:
        raise source.error(Code.SYNTAX, "VALUES has no values", tree)
    for row, parts in zip(tree.expressions, trees, strict=True):
        if len(parts) != len(trees[0]):
            raise source.error(
                Code.VALUE, f"a row of VALUES has {len(parts)} values, the first {len(trees[0])}", row
            )
    columns = []
    for parts in zip(*trees, strict=True):
        bound = [binder.bind(p) for p in parts]
        to = _values_type(bound)
        if to is None:
            raise source.error(Code.TYPE, "a column of VALUES mixes types that do not mix", parts[0])
        columns.append([binder.converted(e, to, p) for e, p in zip(bound, parts, strict=True)])
    names = tuple(f"col{i}" for i in range(len(columns)))
    fresh = context.names.fresh
    rows: list[Plan] = [
        Project(Single(), tuple((fresh(n, alias), e) for n, e in zip(names, row, strict=True)))
        for row in zip(*columns, strict=True)
    ]
    return Query(all_rows(rows), names)


def _values_type(exprs: list[Expr]) -> SqlType | None:
    """The type of a column of VALUES: strings bend to the others, numbers do not."""
    found: SqlType | None = NULL
    for expr in exprs:
        if found is not None and not coerce.is_string_literal(expr):
            found = coerce.common([Var("above", found), Var("here", expr.type)])
    strings = any(coerce.is_string_literal(e) for e in exprs)
    return VARCHAR if found == NULL and strings else found


def all_rows(plans: list[Plan]) -> Plan:
    """All rows, as a balanced tree: lists may be long."""
    if len(plans) == 1:
        return plans[0]
    half = len(plans) // 2
    return SetOperation("union", True, all_rows(plans[:half]), all_rows(plans[half:]))


# -- ORDER BY, LIMIT -------------------------------------------------------------------------------------


def ordered(
    query: Query, tree: Any, context: Context, outer: Binder | None, top: bool, other: tuple[str, ...] = ()
) -> Query:
    """A query with ORDER BY, LIMIT and OFFSET on top; it sorts by its columns and expressions over them."""
    source = context.source
    shown = distinct_names(list(query.names))
    columns = tuple(zip(shown, query.plan.variables, strict=True))
    scope = Scope(source, (Relation("", columns),), context=context, outer=outer)
    keys: list[SortKey] = []
    for entry, ascending, nulls_first in sort_items(source, tree.args.get("order"), len(shown)):
        i = entry if isinstance(entry, int) else _column_index(entry, query.names, other, context)
        key: Expr = query.plan.variables[i] if i is not None else Binder(scope, "ORDER BY").bind(entry)
        keys.append((key, ascending, nulls_first))
    plan = query.plan
    cut = limited(source, tree, Sort(plan, tuple(keys)) if keys else plan)
    if not top and not isinstance(cut, Limit):  # inside of a query, an order without a limit is nothing
        return query
    return Query(cut, query.names)


def _column_index(tree: Any, names: tuple[str, ...], other: tuple[str, ...], context: Context) -> int | None:
    """The column that a sort key names: by its name on either side, or as the whole expression."""
    if isinstance(tree, exp.Column) and (tree.table or isinstance(tree.this, exp.Star)):
        return None
    try:
        shown = fold(output_name(tree, context.source))
    except EverfreshError:
        return None
    for listed in (names, other):
        if shown in (lowered := [fold(n) for n in listed]):
            return lowered.index(shown)
    return None
