"""Subqueries as lookups: each becomes a relation that is looked up, or joined, and an expression over it.

| asked | what is kept, per correlated key | value |
|---|---|---|
| scalar aggregate | its map | the aggregate, that over nothing where there is no entry |
| EXISTS | the count n | n > 0 |
| x IN S, x NOT IN S | n, NULLs among S, and a count per value | SQL's three cases (notes, section 1.6) |
| x < ANY S, x < ALL S, ... | n, NULLs, least and greatest value | likewise |

A conjunct of WHERE that is not TRUE over nothing joins with the entries there are (a grouped lift); anywhere
else the relation has a row for every key (a closed lift).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everfresh.calculus import Cond, Query, Rel
from everfresh.compiler.lowering.aggregates import NotFlat, of_all_values
from everfresh.compiler.lowering.decorrelate import (
    SOME,
    Closed,
    CorrelatedKey,
    Factors,
    close,
    tied,
    total,
    within_domain,
)
from everfresh.compiler.lowering.partitions import grouped, partitioned
from everfresh.compiler.lowering.products import MEMBER, Term, not_null, settle
from everfresh.compiler.lowering.quantified import by_existence, many_columns, quantified
from everfresh.expr import FOLD, Const, Expr, Made, Var, build, substitute, variables
from everfresh.program import Side, View, component, side_component, side_of
from everfresh.rewrite import rewrite
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.subqueries import answered, has_subquery, subqueries
from everfresh.types import BIGINT, BOOLEAN

if TYPE_CHECKING:
    from everfresh.compiler.lowering.lower import Lowering, Rows, Scope

_FALSE = Const(False, BOOLEAN)
_SEVERAL = build.call(">", Var(component(0), BIGINT, False), Const(1, BIGINT))


def filtered(lowering: Lowering, rows: Rows, condition: Expr, scope: Scope) -> Rows:
    """The rows for which a condition is TRUE."""
    parts = sorted(conjuncts(condition), key=has_subquery)
    for part in parts:
        if has_subquery(part):
            rows = tuple(t for t in (settle(t, lowering.fresh) for t in rows) if t is not None)
            rows = _kept(lowering, rows, part, scope)
        else:
            rows = tuple(Term((*t.factors, Cond(t.of(part))), t.columns) for t in rows)
    return rows


def resolved(lowering: Lowering, rows: Rows, exprs: Sequence[Expr], scope: Scope) -> tuple[Rows, list[Expr]]:
    """Expressions without subqueries, over rows that have looked their answers up."""
    answers: dict[Expr, Expr] = {}
    out = []
    for expr in exprs:
        for query in subqueries(expr):
            if query not in answers:
                asked = query
                if isinstance(query, p.QuantifiedSubquery):
                    rows, args = resolved(lowering, rows, query.args, scope)
                    asked = p.QuantifiedSubquery(tuple(args), query.op, query.all, query.plan)
                    if lowering.rules and many_columns(asked):
                        rows, (answers[query],) = resolved(lowering, rows, [by_existence(asked)], scope)
                        continue
                factors, answer = _ask(lowering, asked, rows, scope)
                rows = tuple(Term((*t.factors, *factors(t)), t.columns) for t in rows)
                answers[query] = answer
        out.append(answered(expr, answers))
    return rows, out


def unmatched(lowering: Lowering, rows: Rows, other: Rows, condition: Expr, scope: Scope) -> Rows:
    """The rows that have no partner in `other`."""
    pairs = filtered(lowering, other, condition, (*scope, rows))
    partners = tuple(t for t in (settle(t, lowering.fresh) for t in pairs) if t is not None)
    if not partners:
        return rows
    partners, links, gates = close(lowering, partners, (*scope, rows))
    factors, found = _some(lowering, partners, links, gates)
    alone = build.call("not", build.is_true(found))
    return tuple(
        t
        if any(link.misses(t) for link in links)
        else Term((*t.factors, *factors(t), Cond(t.of(alone))), t.columns)
        for t in rows
    )


# -- conjuncts ---------------------------------------------------------------------------------------


def _kept(lowering: Lowering, rows: Rows, part: Expr, scope: Scope) -> Rows:
    """The rows for which one condition with subqueries is TRUE."""
    match part:
        case p.ExistsSubquery(plan):
            inner, links, gates = close(lowering, lowering.rows(_bare(plan), (*scope, rows)), (*scope, rows))
            if links and inner:
                return _joined(lowering, inner, links, gates, rows)
        case p.QuantifiedSubquery(args, "=", False, plan):
            inner, links, gates = close(lowering, lowering.rows(_bare(plan), (*scope, rows)), (*scope, rows))
            if inner:
                members = tuple(
                    CorrelatedKey(Made(f"$m{i}"), v, a)
                    for i, (a, v) in enumerate(zip(args, plan.variables, strict=True))
                )
                if not any(has_subquery(a) for a in args):
                    for v in plan.variables:
                        inner = tuple(
                            Term((*t.factors, Cond(not_null(t.of(v)))), t.columns) if t.of(v).nullable else t
                            for t in inner
                        )
                    return _joined(lowering, inner, (*links, *members), gates, rows)
        case _ if isinstance(query := _only(part), p.ScalarSubquery):
            kept = _lifted(lowering, query, part, rows, scope)
            if kept is not None:
                return kept
    rows, (condition,) = resolved(lowering, rows, [part], scope)
    return tuple(Term((*t.factors, Cond(t.of(condition))), t.columns) for t in rows)


def _joined(
    lowering: Lowering, inner: Rows, links: tuple[CorrelatedKey, ...], gates: tuple[Expr, ...], rows: Rows
) -> Rows:
    """The rows that agree with an entry of a map over `inner`: a semijoin."""
    name, by_name = lowering.define(inner, [(link.name, link.column) for link in links])
    view = lowering.relate(name, [(link.name, by_name[link.name]) for link in links])
    atom, _ = lowering.atom(view, links)
    return tuple(
        Term((*t.factors, *tied(links, atom.vars, t), atom, *(Cond(t.of(g)) for g in gates)), t.columns)
        for t in rows
    )


def _lifted(lowering: Lowering, query: p.ScalarSubquery, part: Expr, rows: Rows, scope: Scope) -> Rows | None:
    """A comparison with a correlated aggregate that fails over nothing: joined with the groups there are."""
    peeled = _peel(query.plan)
    if peeled is None:
        return None
    node, value = peeled
    if of_all_values(node):
        return None
    found = lowering.reading(node, (*scope, rows))
    value = substitute(value, dict(found.values))
    over_nothing = rewrite(answered(part, {query: _empty(value)}), FOLD)
    if not found.links or not isinstance(over_nothing, Const) or over_nothing.value is True:
        lookup, answer = total(lowering, found.map, found.links, found.keys, [value], found.sides)
        condition = answered(part, {query: answer[0]})
        return tuple(Term((*t.factors, *lookup(t), Cond(t.of(condition))), t.columns) for t in rows)
    value = _there(value)
    links = [(link.name, found.keys[link.name]) for link in found.links]
    alone = not {v.name for v in variables(answered(part, {query: Const(None, query.type)}))}
    if alone:
        having = rewrite(answered(part, {query: value}), FOLD)
        view = lowering.relate(found.map, links, having=having, sides=found.sides)
    else:
        view = lowering.relate(found.map, [*links, ("value", value)], sides=found.sides)
    atom, _ = lowering.atom(view, found.links)
    kept = []
    for t in rows:
        factors: tuple[Query, ...] = (*t.factors, *tied(found.links, atom.vars, t), atom)
        if not alone:
            factors = (*factors, Cond(t.of(answered(part, {query: atom.vars[-1]}))))
        kept.append(Term(factors, t.columns))
    return tuple(kept)


def _empty(value: Expr) -> Expr:
    """What an expression over components is where there are none."""
    nothing: dict[str, Expr] = {}
    for v in variables(value):
        if side_of(v.name) is not None:
            nothing[v.name] = Const(None, v.type) if v.name.endswith("x") else Const(0, v.type)
    return rewrite(substitute(value, nothing), FOLD)


def _there(value: Expr) -> Expr:
    """An expression over components where there are some: the count is not 0."""
    nothing = build.call("=", Var(component(0), BIGINT, False), Const(0, BIGINT))

    def visit(e: Expr) -> Expr:
        return _FALSE if e == nothing else e.map_children(visit)

    return rewrite(visit(value), FOLD)


# -- answers -----------------------------------------------------------------------------------------


def _ask(lowering: Lowering, query: p.Subquery, rows: Rows, scope: Scope) -> tuple[Factors, Expr]:
    """What a row looks up for a subquery, and the subquery's value over it."""
    inside = (*scope, rows)
    match query:
        case p.ScalarSubquery(plan):
            peeled = _peel(plan)
            if peeled is None:
                return _single(lowering, plan, inside)
            if of_all_values(peeled[0]):
                return _of_all(lowering, *peeled, inside)
            found = lowering.reading(peeled[0], inside)
            value = substitute(peeled[1], dict(found.values))
            factors, answer = total(lowering, found.map, found.links, found.keys, [value], found.sides)
            return factors, answer[0]
        case p.ExistsSubquery(plan):
            return _exists(lowering, lowering.rows(_bare(plan), inside), rows, scope)
        case p.QuantifiedSubquery():
            return quantified(lowering, query, rows, scope)
    raise NotFlat(f"the subquery {query.kind}")


def _of_all(lowering: Lowering, node: p.Aggregate, value: Expr, scope: Scope) -> tuple[Factors, Expr]:
    """A value over aggregates of all values: those of the group of a correlated key, if it has rows; else
    what they are over nothing."""
    found = grouped(lowering, node, scope)
    atom, _ = lowering.atom(found.relation, found.links)
    links = tuple(
        CorrelatedKey(link.name, var, link.outer, link.strict)
        for link, var in zip(found.links, atom.vars, strict=False)
    )
    group = (Term((atom,), {link.name: link.column for link in links}),)
    linked = [(link.name, link.column) for link in links]
    apart = [name for name, _ in linked]
    name, by_name = lowering.define(group, linked, apart=apart)
    sides, inner = [], []
    for number, var in enumerate(atom.vars[len(links) :], 1):
        there = (Term((atom, Cond(not_null(var))), group[0].columns),)
        beside, _ = lowering.define(there, [*linked, (MEMBER, var)], apart=[*apart, MEMBER])
        sides.append(Side(beside, "min"))
        inner.append(Var(side_component(number, "x"), var.type, True))
    factors, answers = total(lowering, name, links, by_name, inner, tuple(sides))
    by: dict[str, Expr] = {}
    for (n, call), answer in zip(node.aggregates, answers, strict=True):
        if found.gates:
            answer = build.case([(build.conjunction(found.gates), answer)], Const(None, answer.type))
        by[n] = build.call("coalesce", answer, Const(0, BIGINT)) if call.fn == "count" else answer
    return factors, substitute(value, by)


def _exists(lowering: Lowering, inner: Rows, rows: Rows, scope: Scope) -> tuple[Factors, Expr]:
    inner, links, gates = close(lowering, inner, (*scope, rows))
    return _some(lowering, inner, links, gates)


def _some(
    lowering: Lowering, inner: Rows, links: tuple[CorrelatedKey, ...], gates: tuple[Expr, ...]
) -> tuple[Factors, Expr]:
    """Whether rows that are closed over have a partner: what a term looks up, and the answer."""
    if not inner:
        return (lambda term: ()), _FALSE
    linked = [(link.name, link.column) for link in links]
    name, by_name = lowering.define(inner, linked, apart=[n for n, _ in linked])
    factors, (found,) = total(lowering, name, links, by_name, [SOME])
    return factors, build.conjunction([*(build.is_true(g) for g in gates), found])


def _single(lowering: Lowering, plan: p.Plan, scope: Scope) -> tuple[Factors, Expr]:
    """The value of a subquery that is no aggregate; where it may have several rows, they are counted."""
    variable = plan.variables[0]
    first = _first(lowering, plan, scope)
    inner, links, gates = first or close(lowering, lowering.rows(_bare(plan), scope), scope)
    several = first is None and not _at_most_one(lowering, inner, links)
    if several and not lowering.rules:
        raise NotFlat("a scalar subquery that may have several rows")
    linked = [(link.name, link.column) for link in links]
    apart = [n for n, _ in linked]
    name, by_name = lowering.define(inner, linked, apart=apart)
    there = tuple(Term((*t.factors, Cond(not_null(t.of(variable)))), t.columns) for t in inner)
    beside, _ = lowering.define(there, [*linked, (MEMBER, variable)], apart=[*apart, MEMBER])
    value = Var(side_component(1, "x"), variable.type, True)
    factors, (answer,) = total(lowering, name, links, by_name, [value], (Side(beside, "min"),))
    if several:
        valued = lowering.relations[-1].name
        lowering.several.append((_several(lowering, name, by_name, links, gates, scope), valued))
    if gates:
        answer = build.case([(build.conjunction(gates), answer)], Const(None, answer.type))
    return factors, answer


def _several(
    lowering: Lowering,
    name: str,
    by_name: dict[str, Var],
    links: Sequence[CorrelatedKey],
    gates: Sequence[Expr],
    scope: Scope,
) -> str:
    """The map that counts the rows which ask for the value of a subquery that has several; `name` counts
    those of the subquery. One that is not correlated is asked by the query as such, whatever its rows."""
    shown = [(link.name, by_name[link.name]) for link in links]
    relation = lowering.relate(name, shown, having=_SEVERAL)
    atom, _ = lowering.atom(relation, links)
    asking = (Term((), {}),) if not (links or gates) else scope[-1]
    pairs = (
        Term((*t.factors, *tied(links, atom.vars, t), atom, *(Cond(t.of(g)) for g in gates)), t.columns)
        for t in asking
        if not any(link.misses(t) for link in links)
    )
    rows = tuple(t for t in (settle(t, lowering.fresh) for t in pairs) if t is not None)
    _, rows = within_domain(lowering, rows, scope[:-1], exact=True)
    return lowering.define(rows, [])[0]


def _first(lowering: Lowering, plan: p.Plan, scope: Scope) -> Closed | None:
    """The rows of `ORDER BY ... LIMIT 1`: one, or none, for each correlated key."""
    shown: dict[str, Expr] = {v.name: v for v in plan.variables}
    while isinstance(plan, p.Project) and not any(has_subquery(e) for _, e in plan.items):
        shown = {n: substitute(e, dict(plan.items)) for n, e in shown.items()}
        plan = plan.input
    if not isinstance(plan, p.Limit) or plan.count is None or plan.count > 1:
        return None
    own = {v.name for v in plan.variables}
    if any(v.name not in own for e in shown.values() for v in variables(e)):
        return None
    found = partitioned(lowering, plan, scope)
    atom, _ = lowering.atom(found.relation, found.links)
    by: dict[str, Expr] = {}
    for v, var in zip(plan.variables, atom.vars[len(found.links) :], strict=True):
        by[v.name] = var
    columns = {n: substitute(e, by) for n, e in shown.items()}
    linked = zip(found.links, atom.vars, strict=False)
    links = tuple(CorrelatedKey(link.name, var, link.outer) for link, var in linked)
    return (Term((atom,), {**columns, **{link.name: link.column for link in links}}),), links, found.gates


def _at_most_one(lowering: Lowering, rows: Rows, links: Sequence[CorrelatedKey]) -> bool:
    """Whether rows that agree on the links are one: from what is linked, each atom is found by a key."""
    if len(rows) != 1:
        return False
    term = rows[0]
    known = {e.name for link in links if isinstance(e := term.of(link.column), Var)}
    left = [f for f in term.factors if isinstance(f, Rel)]
    while left:
        found = next((a for a in left if any(key <= known for key in _keys(lowering, a))), None)
        if found is None:
            return False
        left.remove(found)
        known |= {v.name for v in found.vars}
    return True


def _keys(lowering: Lowering, atom: Rel) -> list[frozenset[str]]:
    """The sets of variables of an atom of which no two of its rows agree."""
    relation = next((r for r in lowering.relations if r.name == atom.name), None)
    if relation is None:
        keys = map(atom.names, lowering.keys.get(atom.name, ()))
        return [key for key in keys if key is not None]
    if not isinstance(relation, View) or relation.bag or relation.weight is not None:
        return []
    held = {v.name for v in lowering.map(relation.map).keys}
    exposed = {e.name: v.name for e, v in zip(relation.outputs, atom.vars, strict=True) if isinstance(e, Var)}
    return [frozenset(exposed[k] for k in held)] if held <= set(exposed) else []


# -- shapes ------------------------------------------------------------------------------------------


def _bare(plan: p.Plan) -> p.Plan:
    """The plan without an order that nobody sees."""
    return plan.input if isinstance(plan, p.Sort) else plan


def _peel(plan: p.Plan) -> tuple[p.Aggregate, Expr] | None:
    """An aggregate without GROUP BY and the value above it, if nothing but scalars stand between."""
    value: Expr = plan.variables[0]
    node = plan
    having: list[Expr] = []
    while not isinstance(node, p.Aggregate):
        match node:
            case p.Project(child, items) if not any(has_subquery(e) for _, e in items):
                value = substitute(value, dict(items))
                having = [substitute(e, dict(items)) for e in having]
                node = child
            case p.Filter(child, condition) if not has_subquery(condition):
                having.append(condition)
                node = child
            case p.Sort(child, _):
                node = child
            case _:
                return None
    if node.grouped:
        return None
    known = {v.name for v in node.variables}
    if any(v.name not in known for e in [value, *having] for v in variables(e)):
        return None
    if having:
        value = build.case([(build.conjunction(having), value)], Const(None, value.type))
    return node, value


def _only(expr: Expr) -> p.Subquery | None:
    """The subquery that an expression asks, if it asks just one."""
    found = set(subqueries(expr))
    return found.pop() if len(found) == 1 else None
