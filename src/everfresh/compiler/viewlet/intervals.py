"""Conditions on a running sum as intervals ("Running sums", docs/design/sql.md: VWAP, MST, Q15).

    R(x, ...) * L(x, v) * [c(v, t)] * D(t)      with  L(x, v): v is a sum over the entries of M[k] with k op x

L has to be kept for every x that occurs, and one change of M changes it for as many as lie on one side. But
the condition holds, over the values of x in order, in a few intervals, in one if it is monotone; and where
they begin and end changes little. So the lookup and its condition become

    R(x, ...) * B(lo, hi) * [lo <= x] * [x <= hi]

where B is read off the map M and what the condition compares with (`Intervals`). It applies to a subquery
that is tied to the outer query by one inequality between columns of an exact type that are never NULL, and
whose value is read by one condition alone, over nothing else but aggregates without GROUP BY.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from everfresh.calculus import Cond, Prod, Query, Rel, Sum, Value, inputs, outputs, product, union
from everfresh.compiler.lowering.lower import Lowered, Relation
from everfresh.compiler.lowering.products import Fresh, arrange
from everfresh.compiler.viewlet.map_registry import products
from everfresh.compiler.viewlet.ranges import MIRRORED
from everfresh.expr import Call, Const, Expr, Made, Var, build, substitute, variables
from everfresh.program import Intervals, MapDef, Side, View, beside, component
from everfresh.types import BIGINT, Column

_ORDER = frozenset({"<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class _Running:
    """A lookup of a running sum: the map to be kept instead of its own, and `k op x`."""

    view: View
    levels: MapDef[Query]
    op: str


def with_intervals(lowered: Lowered) -> Lowered:
    """The view with intervals in place of lookups where that can be."""
    for relation in lowered.relations:
        if isinstance(relation, View) and (running := _running(relation, lowered)) is not None:
            found = _replaced(lowered, running)
            if found is not None:
                return with_intervals(found)
    return lowered


def _running(view: View, lowered: Lowered) -> _Running | None:
    """A relation that looks up a sum over the entries on one side of its key."""
    target = next(m for m in lowered.maps if m.name == view.map)
    terms = products(target.definition)
    filtered = view.having is not None and not view.always and len(view.outputs) == 1
    if (
        view.sides
        or view.weight is not None
        or view.bag
        or not (filtered or (view.always and view.having is None))
    ):
        return None
    if len(target.keys) != 1 or len(terms) != 1 or not isinstance(terms[0], Prod):
        return None
    key = target.keys[0]
    if view.outputs[0] != key or not key.type.is_exact:
        return None
    derived = {r.name for r in lowered.relations}
    factors = list(terms[0].factors)
    domain = [f for f in factors if isinstance(f, Rel) and f.name in derived and _names(f.vars) == {key.name}]
    ties = [f for f in factors if f not in domain and key.name in _used(f)]
    if len(domain) != 1 or len(domain[0].vars) != 1 or len(ties) != 1 or not isinstance(ties[0], Cond):
        return None
    tie = ties[0].condition
    if not isinstance(tie, Call) or tie.op not in _ORDER or not all(isinstance(e, Var) for e in tie.args):
        return None
    column, op = (tie.args[0], tie.op) if tie.args[1] == key else (tie.args[1], MIRRORED[tie.op])
    rest = [f for f in factors if f not in domain and f not in ties]
    bound = [v for f in rest for v in outputs(f)]
    if not isinstance(column, Var) or column.type != key.type or column not in bound:
        return None
    if _nullable(column, rest, {r.name: r.columns for r in lowered.relations}):
        return None
    return _Running(view, MapDef(target.name, (column,), target.kinds, Sum((column,), product(*rest))), op)


def _replaced(lowered: Lowered, running: _Running) -> Lowered | None:
    """The view without a lookup; None if something reads it in another way."""
    single = {
        r.name: r
        for r in lowered.relations
        if isinstance(r, View) and r.always and r.having is None and r.weight is None and not r.sides
        if not next(m for m in lowered.maps if m.name == r.map).keys
    }
    always = {r.name: len(next(m for m in lowered.maps if m.name == r.map).keys) for r in _always(lowered)}
    always.pop(running.view.name, None)
    columns = {r.name: r.columns for r in lowered.relations}
    made: dict[tuple[Expr, tuple[Side, ...]], Intervals] = {}
    maps = []
    for m in lowered.maps:
        if m.name == running.levels.name:
            maps.append(running.levels)
            continue
        terms = []
        for term in products(m.definition):
            factors = list(term.factors if isinstance(term, Prod) else (term,))
            for atom in [f for f in factors if isinstance(f, Rel) and f.name == running.view.name]:
                found = _asked(factors, atom, running, single, {v.name for v in m.keys}, columns)
                if found is None:
                    return None
                having, sides, factors = found
                relation = made.setdefault((having, sides), _relation(running, having, sides, len(made)))
                factors += _within(relation, atom.vars[0], Fresh(_all_names(factors)))
                values = [f for f in factors if isinstance(f, Value)]
                factors = [*arrange([f for f in factors if f not in values], always), *values]
            terms.append(Sum(m.keys, product(*factors)))
        maps.append(replace(m, definition=union(*terms)) if terms else m)
    if not made:
        return None
    relations: list[Relation] = []
    for r in lowered.relations:
        relations += [r] if r is not running.view else list(made.values())
    return replace(lowered, maps=tuple(maps), relations=tuple(relations))


def _always(lowered: Lowered) -> list[View]:
    return [r for r in lowered.relations if isinstance(r, View) and r.always]


def _asked(
    factors: Sequence[Query],
    atom: Rel,
    running: _Running,
    single: dict[str, View],
    keys: set[str],
    columns: Mapping[str, tuple[Column, ...]],
) -> tuple[Expr, tuple[Side, ...], list[Query]] | None:
    """The condition that reads a lookup, over running sums and sides, these sides, and the other factors."""
    x, values = atom.vars[0], {v.name: i for i, v in enumerate(atom.vars) if i}
    others = [f for f in factors if f is not atom]
    if sum(f == atom for f in factors) > 1 or _nullable(x, others, columns):
        return None
    if running.view.having is not None:
        return _not_empty(running.view.having), (), others
    users = [f for f in others if values.keys() & (_used(f) | _names(outputs(f)))]
    if len(users) != 1 or not isinstance(users[0], Cond) or values.keys() & keys:
        return None
    condition = users[0].condition
    by: dict[str, Expr] = {v.name: running.view.outputs[i] for i, v in enumerate(atom.vars) if i}
    left = [f for f in others if f is not users[0]]
    sides: list[Side] = []
    for rel in [f for f in others if isinstance(f, Rel) and f.name in single]:
        if not _names(rel.vars) & _names(variables(condition)):
            continue
        view = single[rel.name]
        sides.append(Side(view.map))
        for var, expr in zip(rel.vars, view.outputs, strict=True):
            by[var.name] = _of_side(expr, len(sides))
        read = keys.union(
            *(_used(f) for f in left if f is not rel), *(_names(outputs(f)) for f in left if f is not rel)
        )
        if not _names(rel.vars) & read:
            left.remove(rel)
    if not _names(variables(condition)) <= by.keys():
        return None
    return substitute(condition, by), tuple(sides), left


def _not_empty(having: Expr) -> Expr:
    """A filter on sums as a condition that does not hold over no entry."""
    count = Var(component(0), BIGINT, False)
    empty = build.call("=", count, Const(0, BIGINT))
    if not (isinstance(having, Call) and having.op in _ORDER):
        return build.conjunction([build.call("not", empty), having])
    sums = {v.name: build.case([(empty, Const(None, v.type))], v) for v in variables(having)}
    return substitute(having, dict(sums))


def _nullable(x: Var, factors: Sequence[Query], columns: Mapping[str, tuple[Column, ...]]) -> bool:
    """Whether a variable may be NULL where it is looked up: it may not where one relation has no NULL."""
    for atom in (f for f in factors if isinstance(f, Rel)):
        for i, v in enumerate(atom.vars):
            known = atom.name in columns and not columns[atom.name][i].nullable
            if v.name == x.name and (known or not v.nullable):
                return False
    return True


def _of_side(expr: Expr, side: int) -> Expr:
    return substitute(expr, {v.name: Var(beside(v.name, side), v.type, v.nullable) for v in variables(expr)})


def _relation(running: _Running, having: Expr, sides: tuple[Side, ...], number: int) -> Intervals:
    type_ = running.levels.keys[0].type
    columns = Column("lo", type_, False), Column("hi", type_, False)
    name = Made(running.view.name + "x" * number)
    return Intervals(name, running.levels.name, columns, running.op, having, sides)


def _within(relation: Intervals, x: Var, fresh: Fresh) -> list[Query]:
    low, high = (Var(fresh.name(c.name), c.type, False) for c in relation.columns)
    return [
        Rel(relation.name, (low, high)),
        Cond(build.call("<=", low, x)),
        Cond(build.call("<=", x, high)),
    ]


def _used(f: Query) -> set[str]:
    return _names(inputs(f))


def _names(vars_: Sequence[Var]) -> set[str]:
    return {v.name for v in vars_}


def _all_names(factors: Sequence[Query]) -> set[str]:
    return {n.name for f in factors for n in f.walk() if isinstance(n, Var)}
