"""What a view of joined arrays is: its sources, the joins between them, its cells and what they hold.

Made of a query by SQL's binder: the plan of the query over the pairs says what is aggregated and how the
results are made of aggregates, the keys of its groups say which dimensions of which source the view has.

Invariant: expressions mention the variables of the sources' scans, and each source's are in the order of its
columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.arrays import aql
from everfresh.arrays.evaluate import mapping_of
from everfresh.arrays.mapping import Mapping
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.shape import Shape
from everfresh.arrays.views.cells import Numbering
from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Call, Expr, Var
from everfresh.sql.logical.plan import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    Subquery,
    Window,
)
from everfresh.sql.scalars import bind_select
from everfresh.types import Column, SqlType

GROUPS = "\0groups"  # no relation of a user has this name
_AGGREGATES = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True)
class Argument:
    """A value that is aggregated, over the pairs for which `filter` is TRUE."""

    expr: Expr
    filter: Expr | None
    summed: bool
    ordered: bool

    @property
    def type(self) -> SqlType:
        """The type of the values."""
        return self.expr.type


@dataclass(frozen=True)
class Hop:
    """A join of a source with the next one."""

    mapping: Mapping
    shape: Shape


@dataclass(frozen=True)
class Definition:
    """A view of a chain of similarity joins, grouped by dimensions."""

    schema: ArraySchema
    numbering: Numbering
    sources: tuple[ArraySchema, ...]
    scans: tuple[Scan, ...]
    hops: tuple[Hop, ...]
    where: tuple[Expr, ...]
    keys: tuple[tuple[int, int], ...]
    """For each dimension of the view the source, and the dimension of it."""
    arguments: tuple[Argument, ...]
    aggregates: tuple[tuple[AggregateCall, int], ...]
    """The calls, and the argument of each; -1 where pairs are counted."""
    groups: Scan
    """The keys and the aggregates as a relation."""
    top: Plan
    """What is shown, over that relation: the dimensions, then the attributes."""
    select: Plan
    """What the query itself selects, over that relation."""
    plain: tuple[int, ...] | None
    """Which of the relation's columns are shown, if that is all that `top` does."""

    def sources_of(self, expr: Expr) -> frozenset[int]:
        """The sources whose columns an expression reads."""
        owner = {v.name: k for k, scan in enumerate(self.scans) for v in scan.vars}
        return frozenset(owner[v.name] for v in variables_of(expr))


def variables_of(expr: Expr) -> Iterator[Var]:
    """The variables in an expression."""
    if isinstance(expr, Var):
        yield expr
    for child in expr.children:
        if isinstance(child, Expr):
            yield from variables_of(child)


def define(
    name: str, query: aql.Query, given: Sequence[ArraySchema], dimensions: tuple[Dimension, ...] = ()
) -> Definition:
    """The definition of a view by a query over arrays of these schemas.

    >>> from everfresh.arrays.aql_parser import parse
    >>> a = parse("CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,4]").schema
    >>> query = parse("SELECT AVG(y.v) AS m FROM a x SIMILARITY JOIN a y ON (y.i = x.i AND y.j = x.j) "
    ...               "WITH SHAPE L1(1) GROUP BY x.i, x.j")
    >>> print(define("w", query, [a, a]).schema.ddl)
    CREATE UNIQUE ARRAY w <m: DOUBLE> [i=1,8,2; j=1,8,4]
    """
    joins = [join for join in (query.join, *query.more) if join is not None]
    aliases = [query.left.alias, *(join.right.alias for join in joins)]
    if len({alias.lower() for alias in aliases}) != len(aliases):
        raise EverfreshError(
            Code.EXISTS,
            "two arrays of FROM have the same name",
            place=f"array view '{name}'",
            hint=f"FROM {aliases[0]} AS a1 SIMILARITY JOIN {aliases[0]} AS a2",
        )
    hops = []
    for k, join in enumerate(joins):
        if not isinstance(join, aql.SimilarityJoin):
            raise _no(name, "a join by equality", "WITH SHAPE L0 joins cells with equal indices")
        pair = given[k], given[k + 1]
        join.shape.check_ndim(pair[1].ndim)
        hops.append(Hop(mapping_of(join, *pair, (aliases[k], aliases[k + 1])), join.shape))
    if not query.group:
        raise _no(name, "a query without GROUP BY", "GROUP BY the dimensions of the left array")
    plan = bind_select(query.sql, {a: s.columns for a, s in zip(aliases, given, strict=True)}, kept=True)
    check_rows(name, plan)
    return _defined(name, plan, given, tuple(hops), dimensions)


def check_rows(name: str, plan: Plan) -> None:
    """Raise for what looks at other rows than those of a cell or a group, which change on their own."""
    for node in plan.walk():
        if isinstance(node, Subquery):
            raise _no(name, "a query with a subquery", "make a view of what it asks, and join it")
        if isinstance(node, Window):
            raise _no(name, "a query with a window", "make a SQL view over the array view")


def _no(name: str, what: str, hint: str) -> EverfreshError:
    return EverfreshError(
        Code.UNSUPPORTED, f"{what} is no array view", place=f"array view '{name}'", hint=hint
    )


def _defined(
    name: str,
    plan: Plan,
    given: Sequence[ArraySchema],
    hops: tuple[Hop, ...],
    dimensions: tuple[Dimension, ...],
) -> Definition:
    items: tuple[tuple[str, Expr], ...] = tuple((v.name, v) for v in plan.variables)
    inner = plan
    if isinstance(inner, Project):
        items, inner = inner.items, inner.input
    having: Expr | None = None
    if isinstance(inner, Filter) and isinstance(inner.input, Aggregate):
        having, inner = inner.condition, inner.input
    if not isinstance(inner, Aggregate):
        raise _no(name, "this query", "SELECT aggregates ... GROUP BY dimensions")
    scans, where = _below(name, inner.input)
    keys, shown = _keys(name, inner, scans, given, items)
    arguments, aggregates = _aggregates(name, inner)
    groups = Scan(GROUPS, GROUPS, inner.variables)
    attributes = [(n, e) for n, e in items if not (isinstance(e, Var) and e.name in dict(inner.keys))]
    ordered: list[tuple[str, Expr]] = [
        (shown[k][0], Var(n, e.type, e.nullable)) for k, (n, e) in enumerate(inner.keys)
    ]
    ordered += attributes
    rest = tuple(Column(n, e.type, e.nullable) for n, e in attributes)
    schema = ArraySchema(name, _dimensions(name, shown, dimensions), rest, True)
    top: Plan = groups if having is None else Filter(groups, having)
    places = {v.name: k for k, v in enumerate(groups.vars)}
    plain = None
    if having is None and all(isinstance(e, Var) for _, e in attributes):
        plain = tuple(places[str(getattr(e, "name", ""))] for _, e in ordered)
    return Definition(
        schema, Numbering(schema), tuple(given), scans, hops, where, keys, arguments, aggregates, groups,
        Project(top, tuple(ordered)), _selected(plan, inner, groups), plain,
    )  # fmt: skip


def _selected(plan: Plan, aggregate: Plan, groups: Scan) -> Plan:
    """A query over the groups in place of what they are made of."""

    def change(node: Any) -> Any:
        return groups if node is aggregate else node.map_children(change) if isinstance(node, Plan) else node

    found: Plan = change(plan)
    return found


def _below(name: str, plan: Plan) -> tuple[tuple[Scan, ...], tuple[Expr, ...]]:
    """The scans of what is aggregated, and the conditions on pairs."""
    where: tuple[Expr, ...] = ()
    while isinstance(plan, Filter):
        where, plan = (*_conjuncts(plan.condition), *where), plan.input
    found: list[Scan] = []

    def visit(one: Plan) -> None:
        if isinstance(one, Scan):
            found.append(one)
        elif isinstance(one, Join) and one.kind == "inner" and one.condition is None:
            visit(one.left)
            visit(one.right)
        else:
            raise _no(name, f"a query with '{one.line()}'", "leave subqueries and windows out")

    visit(plan)
    return tuple(found), where


def _conjuncts(condition: Expr) -> tuple[Expr, ...]:
    if isinstance(condition, Call) and condition.op == "and":
        return tuple(part for arg in condition.args for part in _conjuncts(arg))
    return (condition,)


def _keys(
    name: str,
    aggregate: Aggregate,
    scans: tuple[Scan, ...],
    given: Sequence[ArraySchema],
    items: tuple[tuple[str, Expr], ...],
) -> tuple[tuple[tuple[int, int], ...], list[tuple[str, Dimension]]]:
    """Where the view's dimensions come from; and by what name, of which dimension."""
    places = {v.name: (k, at) for k, scan in enumerate(scans) for at, v in enumerate(scan.vars)}
    keys: list[tuple[int, int]] = []
    shown: list[tuple[str, Dimension]] = []
    taken = {n.lower() for n, _ in items}
    for key, expr in aggregate.keys:
        at = places.get(expr.name) if isinstance(expr, Var) else None
        if at is None or at[1] >= given[at[0]].ndim:
            raise _no(name, f"a query that groups by '{expr}'", "GROUP BY dimensions of the arrays")
        dimension = given[at[0]].dimensions[at[1]]
        chosen = [n for n, e in items if isinstance(e, Var) and e.name == key]
        called = chosen[0] if chosen else dimension.name
        if not chosen and called.lower() in taken:
            called = f"{scans[at[0]].alias}_{called}"
        taken.add(called.lower())
        keys.append(at)
        shown.append((called, dimension))
    return tuple(keys), shown


def _dimensions(
    name: str, shown: list[tuple[str, Dimension]], chosen: tuple[Dimension, ...]
) -> tuple[Dimension, ...]:
    """The view's dimensions: as they were chosen, or as they are where they come from."""
    inherited = tuple(Dimension(called, d.lo, d.hi, d.chunk) for called, d in shown)
    if not chosen:
        return inherited
    for mine, own in zip(chosen, inherited, strict=False):
        if mine.name.lower() != own.name.lower() or mine.lo > own.lo or mine.hi < own.hi:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the dimension '{mine}' does not hold the cells of '{own}'",
                place=f"array view '{name}'",
                hint="dimensions are those of GROUP BY in their order; a chunk may have any length",
            )
    if len(chosen) != len(inherited):
        raise EverfreshError(
            Code.ARGUMENT,
            f"{len(chosen)} dimensions are given, and the query groups by {len(inherited)}",
            place=f"array view '{name}'",
            hint="; ".join(map(str, inherited)),
        )
    return chosen


def _aggregates(
    name: str, aggregate: Aggregate
) -> tuple[tuple[Argument, ...], tuple[tuple[AggregateCall, int], ...]]:
    wanted: dict[tuple[Expr, Expr | None], list[str]] = {}
    calls: list[tuple[AggregateCall, tuple[Expr, Expr | None] | None]] = []
    for _, call in aggregate.aggregates:
        if call.fn not in _AGGREGATES or call.distinct or len(call.args) > 1:
            raise _no(name, f"a query with '{call}'", "COUNT, SUM, AVG, MIN and MAX are kept up to date")
        if call.fn in ("min", "max") and call.args[0].type.name == "INTERVAL":
            raise _no(name, f"a query with '{call}'", "cast it to a number")
        if not call.args and call.filter is None:
            calls.append((call, None))
            continue
        expr = call.args[0] if call.args else call.filter
        assert expr is not None
        wanted.setdefault((expr, call.filter), []).append(call.fn)
        calls.append((call, (expr, call.filter)))
    arguments = tuple(
        Argument(expr, kept, not {"sum", "avg"}.isdisjoint(fns), not {"min", "max"}.isdisjoint(fns))
        for (expr, kept), fns in wanted.items()
    )
    places = {key: k for k, key in enumerate(wanted)}
    return arguments, tuple((call, -1 if key is None else places[key]) for call, key in calls)
