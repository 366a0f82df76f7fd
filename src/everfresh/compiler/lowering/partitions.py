"""Windows, ORDER BY with LIMIT, and aggregates of all values: relations that are recomputed over whole
partitions of a map.

The map holds the rows below as a bag, keyed first by the columns of the partitions: those that all windows
are partitioned by, and the correlated ones, if there are some. A LIMIT in a correlated subquery counts rows
per correlated key; it becomes a condition on ROW_NUMBER.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everfresh.compiler.lowering.aggregates import NotFlat
from everfresh.compiler.lowering.decorrelate import CorrelatedKey, close
from everfresh.compiler.lowering.products import Term
from everfresh.expr import Const, Expr, Made, Var, build, substitute, variables
from everfresh.program import Partitions
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.subqueries import has_subquery
from everfresh.types import BIGINT, Column

if TYPE_CHECKING:
    from everfresh.compiler.lowering.lower import Lowering, Scope

_NUMBER = Var(Made("$row"), BIGINT, False)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A relation by partitions: its first columns are those of `links`; its rows count where `gates`, over
    the outer query alone, hold."""

    relation: Partitions[Any]
    links: tuple[CorrelatedKey, ...]
    gates: tuple[Expr, ...]


def partitioned(lowering: Lowering, plan: p.Window | p.Limit, scope: Scope) -> Partitioned:
    """The relation of a window or of a LIMIT."""
    chain: list[p.Plan] = [plan]
    while not isinstance(chain[-1], p.Window | p.Sort):
        if not isinstance(chain[-1], p.Limit | p.Project):
            raise NotFlat("LIMIT without ORDER BY")
        chain.append(chain[-1].input)
    if any(has_subquery(e) for n in chain for e in n.children if isinstance(e, Expr)):
        raise NotFlat("a subquery in a window or in ORDER BY")
    bottom = chain[-1]
    assert isinstance(bottom, p.Window | p.Sort)
    rows, links, gates = close(lowering, lowering.rows(bottom.input, scope), scope)
    by: list[Expr] = []
    if isinstance(bottom, p.Window):
        shared = [set(call.partition) for _, call in bottom.items]
        by = [e for e in bottom.items[0][1].partition if all(e in s for s in shared)]
    first = [(link.name, link.column) for link in links] + [(Made(f"$p{i}"), e) for i, e in enumerate(by)]
    own = [(v.name, v) for v in bottom.input.variables]
    name, by_name = lowering.define(rows, [*first, *own])
    prefix = len({by_name[n].name for n, _ in first})
    keys = tuple((link.name, by_name[link.name]) for link in links)
    scan = p.Scan(name, name, lowering.map(name).keys)
    new: p.Plan = p.Project(scan, (*keys, *((n, by_name[n]) for n, _ in own)))
    linked = tuple(Var(n, v.type, v.nullable) for n, v in keys)
    for node in reversed(chain):
        new = _as_below(_over(node, new, linked), new)
    columns = (*(Column(v.name, v.type, v.nullable) for v in linked), *plan.columns)
    shown = tuple((v.name, v) for v in (*linked, *plan.variables))
    if links:
        new = p.Project(new, shown)
    relation = Partitions(lowering.relation_name(), name, columns, new, prefix)
    lowering.relations.append(relation)
    return Partitioned(relation, links, gates)


def grouped(lowering: Lowering, plan: p.Aggregate, scope: Scope) -> Partitioned:
    """The relation of aggregates that need all values of a group: the groups are the partitions, with the
    correlated columns before their keys. Without keys there is one group, if there is any row."""
    exprs = [*(e for _, e in plan.keys), *(call for _, call in plan.aggregates)]
    if any(map(has_subquery, exprs)):
        raise NotFlat("a subquery in such an aggregate")
    below = {v.name: v for v in plan.input.variables}
    outer: dict[str, Expr] = {v.name: v for e in exprs for v in variables(e) if v.name not in below}
    rows = lowering.rows(plan.input, scope)
    rows = tuple(Term(t.factors, {**t.columns, **outer}) for t in rows) if outer else rows
    rows, links, gates = close(lowering, rows, scope)
    first = [(link.name, link.column) for link in links]
    first += [(Made(f"$p{i}"), e) for i, (_, e) in enumerate(plan.keys)]
    used = {v.name for _, call in plan.aggregates for v in variables(call)}
    own: list[tuple[str, Expr]] = [(n, v) for n, v in {**below, **outer}.items() if n in used]
    if not (first or own):  # a bag of rows needs a column to be counted by
        own.append((Made("$one"), Const(1, BIGINT)))
    name, by_name = lowering.define(rows, [*first, *own], apart=[n for n, _ in first])
    items = tuple((n, by_name[n]) for n, _ in (*first, *own))
    new: p.Plan = p.Project(p.Scan(name, name, lowering.map(name).keys), items)
    known = {v.name: v for v in new.variables}
    shown = [*(link.name for link in links), *(n for n, _ in plan.keys)]
    keys = tuple((n, known[k]) for n, (k, _) in zip(shown, first, strict=True))
    calls = tuple((n, substitute(call, dict(known))) for n, call in plan.aggregates)
    new = p.Aggregate(new, keys, calls, True)  # type: ignore[arg-type]
    relation = Partitions(lowering.relation_name(), name, new.columns, new, len(first))
    lowering.relations.append(relation)
    return Partitioned(relation, links, gates)


def one_row_always(plan: p.Aggregate) -> p.Plan:
    """An aggregation without keys by the group that there is if there are rows: where there are none, what
    it is over nothing stands for it."""
    fresh = {n: Made(f"$w{i}") for i, (n, _) in enumerate(plan.aggregates)}
    calls = tuple((fresh[n], call) for n, call in plan.aggregates)
    group = p.Aggregate(plan.input, (), calls, True)
    found = p.Join("left", p.Single(), group)
    by = {v.name: v for v in found.variables}
    over_nothing = {n: Const(0, BIGINT) for n, call in plan.aggregates if call.fn == "count"}
    items = tuple(
        (n, build.call("coalesce", by[fresh[n]], over_nothing[n]) if n in over_nothing else by[fresh[n]])
        for n, _ in plan.aggregates
    )
    return p.Project(found, items)


def _as_below(node: p.Plan, child: p.Plan) -> p.Plan:
    """A node whose variables may be NULL in as few cases as those of its input."""
    by: dict[str, Expr] = {v.name: v for v in child.variables}
    return node.map_children(lambda c: c if isinstance(c, p.Plan) else substitute(c, by))


def _over(node: p.Plan, child: p.Plan, linked: Sequence[Var]) -> p.Plan:
    """A node over another input, with the correlated columns passed through."""
    match node:
        case p.Window(_, items):
            return p.Window(child, tuple((n, _within(call, linked)) for n, call in items))
        case p.Sort(_, keys) if linked:
            call = p.WindowCall("row_number", (), tuple(linked), keys, None, BIGINT)
            return p.Window(child, ((_NUMBER.name, call),))
        case p.Sort(_, keys):
            return p.Sort(child, keys)
        case p.Project(_, items):
            known = {v.name for v in child.variables}
            passed = [v for v in (*linked, _NUMBER) if v.name in known]
            return p.Project(child, (*((v.name, v) for v in passed), *items))
        case p.Limit(_, count, offset) if linked:
            first = build.call(">", _NUMBER, Const(offset, BIGINT))
            last = [build.call("<=", _NUMBER, Const(offset + count, BIGINT))] if count is not None else []
            return p.Filter(child, build.conjunction([first, *last]))
        case p.Limit(_, count, offset):
            return p.Limit(child, count, offset)
    raise TypeError(type(node).__name__)


def _within(call: p.WindowCall, linked: Sequence[Var]) -> p.WindowCall:
    return p.WindowCall(call.fn, call.args, (*linked, *call.partition), call.order, call.frame, call.of)
