"""The next and the previous value: a least or greatest value on one side of a key (docs/design/sql.md).

    SELECT a.k, (SELECT MIN(b.x) FROM t b WHERE b.g = a.g AND b.x > a.x) FROM t a

A map of the values that qualify for each (g, x) that occurs has an entry for every pair of rows. The rows of
`t` by g and x alone, kept in order, answer it: the value is the one behind x. So the extreme is read off

    L(g, x): D[g, x], and of M[g, y] the least y with y > x

where D are the keys that occur and M the values, each as large as its table (`Side.than`). When a value comes
or goes, only the keys between it and its neighbours see another one. EXISTS asks whether there is such a
value. It applies to a subquery that is tied to the outer query by equalities and by one inequality between
columns, and of which the extreme of that very column is asked for, or only whether it is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from everfresh.calculus import Cond, Prod, Query, Rel, Sum, Value, inputs, outputs, product, rename, union
from everfresh.compiler.lowering.lower import Lowered
from everfresh.compiler.lowering.products import Fresh, arrange, not_null
from everfresh.compiler.viewlet.map_registry import products
from everfresh.compiler.viewlet.ranges import MIRRORED
from everfresh.expr import Call, Const, Expr, Made, Var, build, variables
from everfresh.program import MapDef, Side, View, component, side_component
from everfresh.types import BIGINT

_ORDER = frozenset({"<", "<=", ">", ">="})
_COUNT = Var(component(0), BIGINT, False)


@dataclass(frozen=True, slots=True)
class _Tied:
    """A product over a domain: its atom, `column op key`, and the factors beside them."""

    domain: Rel
    key: Var
    column: Var
    op: str
    rest: tuple[Query, ...]


def with_nearest(lowered: Lowered) -> Lowered:
    """The view with next values in place of maps of all that qualify, where that can be."""
    for relation in lowered.relations:
        if isinstance(relation, View) and (found := _replaced(relation, lowered)) is not None:
            return with_nearest(found)
    return lowered


def _replaced(view: View, lowered: Lowered) -> Lowered | None:
    """The view with one relation read in order; None if it cannot be."""
    maps = {m.name: m for m in lowered.maps}
    if view.weight is not None or view.bag or any(s.how not in ("min", "max") or s.than for s in view.sides):
        return None
    if _shared(view, lowered) or (tied := _tied(maps[view.map], lowered)) is None:
        return None
    sides = _sides(view, tied, maps, lowered)
    if sides is None:
        return None
    extremes = [Var(side_component(j, "x"), tied.column.type, True) for j, _ in enumerate(sides, 1)]
    exprs = [_over(e, not_null(extremes[0])) for e in (*view.outputs, view.having) if e is not None]
    if any(_is_component(v) for e in exprs for v in variables(e)):
        return None
    having = exprs.pop() if view.having is not None else None
    if not view.always:
        there = not_null(extremes[0])
        having = there if having is None else build.conjunction([there, having])
    new = replace(
        view,
        outputs=tuple(exprs),
        having=having,
        sides=tuple(Side(m.name, how, tied.op, tied.key.name) for how, m in sides),
    )
    keys = maps[view.map].keys
    made = {m.name: m for _, m in sides}
    made[view.map] = MapDef(view.map, keys, (), _domain(tied.domain, keys, lowered))
    order = [*maps, *(name for name in made if name not in maps)]
    known = [made.get(name) or maps[name] for name in order]
    return replace(
        lowered,
        maps=(*(m for m in known if m.name != lowered.view.map), maps[lowered.view.map]),
        relations=tuple(new if r is view else r for r in lowered.relations),
    )


def _shared(view: View, lowered: Lowered) -> bool:
    """Whether something else is read off one of its maps."""
    others: list[str] = [*lowered.view.maps]
    for r in lowered.relations:
        others += [] if r is view else r.maps
    return not set(others).isdisjoint(view.maps)


def _tied(target: MapDef[Query], lowered: Lowered) -> _Tied | None:
    """A map of one product over a domain, tied to it by equalities and one inequality."""
    terms = products(target.definition)
    if len(terms) != 1 or not isinstance(terms[0], Prod):
        return None
    factors = terms[0].factors
    keys = {v.name for v in target.keys}
    occurring = {r.name for r in lowered.relations if isinstance(r, View) and not r.always}
    domains = [f for f in factors if isinstance(f, Rel) and f.name in occurring and _set(f) == keys]
    if len(domains) != 1 or len(domains[0].vars) != len(keys):
        return None
    rest = [f for f in factors if f is not domains[0]]
    bound = {v.name for f in rest for v in outputs(f)}
    alone = [v for v in target.keys if v.name not in bound]
    if len(alone) != 1:
        return None
    ties = [f for f in rest if alone[0].name in {v.name for v in inputs(f)}]
    if len(ties) != 1 or (found := _comparison(ties[0], alone[0], bound)) is None:
        return None
    if found[0] in target.keys:  # what is compared is a key that is equated: there is nothing to look for
        return None
    rest = [f for f in rest if f is not ties[0]]
    if not {v.name for f in rest for v in inputs(f)} <= bound:
        return None
    return _Tied(domains[0], alone[0], *found, tuple(rest))


def _set(atom: Rel) -> set[str]:
    return {v.name for v in atom.vars}


def _comparison(tie: Query, key: Var, bound: set[str]) -> tuple[Var, str] | None:
    """`column op key`."""
    expr = tie.condition if isinstance(tie, Cond) else None
    if not isinstance(expr, Call) or expr.op not in _ORDER:
        return None
    left, right = expr.args
    column, op = (left, expr.op) if right == key else (right, MIRRORED[expr.op])
    if not isinstance(column, Var) or column.name not in bound or column.type != key.type:
        return None
    return None if column.type.name == "INTERVAL" else (column, op)


def _sides(
    view: View, tied: _Tied, maps: Mapping[str, MapDef[Query]], lowered: Lowered
) -> list[tuple[str, MapDef[Query]]] | None:
    """The maps of values, in order: which extreme of each, and what it is; None if one is of another
    column."""
    keys = [v for v in maps[view.map].keys if v != tied.key]
    always = {r.name: len(maps[r.map].keys) for r in lowered.relations if isinstance(r, View) and r.always}
    if not view.sides:  # whether there is any
        if not _worth(tied, maps, lowered):
            return None
        name = _new_name(view.map, maps)
        near = "min" if tied.op in (">", ">=") else "max"
        return [(near, _values(name, keys, tied, tied.rest, always))]
    found = []
    for side in view.sides:
        target = maps[side.map]
        own = _tied(replace(target, keys=target.keys[:-1]), lowered)
        if own is None or target.keys[-1] != tied.column or replace(own, rest=()) != replace(tied, rest=()):
            return None
        found.append((side.how, _values(side.map, keys, own, own.rest, always)))
    return found


def _worth(tied: _Tied, maps: Mapping[str, MapDef[Query]], lowered: Lowered) -> bool:
    """Whether the values take no more entries than counts of those that qualify, one for each key that
    occurs: rows of one table, and all rows of another that ask."""
    domain = next(r for r in lowered.relations if r.name == tied.domain.name)
    terms = products(maps[domain.map].definition)
    asking = terms[0].factors if isinstance(terms[0], Prod) else (terms[0],)
    if len(terms) > 1 or sum(isinstance(f, Rel) for f in tied.rest) != 1:
        return False
    return [type(f) for f in asking if not _guard(f)] == [Rel]


def _guard(factor: Query) -> bool:
    """Whether a factor only keeps NULL out of a column."""
    if not isinstance(factor, Cond):
        return False
    return any(factor.condition == not_null(v) for v in variables(factor.condition))


def _values(
    name: str, keys: Sequence[Var], tied: _Tied, rest: Sequence[Query], always: Mapping[str, int]
) -> MapDef[Query]:
    """The values of the compared column by the keys that are equated."""
    held = (*keys, tied.column)
    there = Cond(not_null(tied.column))
    factors = [f for f in rest if not isinstance(f, Value) and f != there]
    factors = arrange([*factors, *([there] if tied.column.nullable else [])], dict(always))
    return MapDef(name, held, (), Sum(held, product(*factors)))


def _new_name(map_: str, maps: Mapping[str, MapDef[Query]]) -> str:
    """A name for one more map, as they are numbered."""
    prefix = map_.rsplit("#", 1)[0]
    return next(name for i in range(len(maps) + 1) if (name := Made(f"{prefix}#{i}")) not in maps)


def _domain(atom: Rel, keys: tuple[Var, ...], lowered: Lowered) -> Query:
    """The keys that occur: as the domain's own map has them if it is read as it is, else read off it."""
    view = next(r for r in lowered.relations if r.name == atom.name)
    assert isinstance(view, View)
    held = next(m for m in lowered.maps if m.name == view.map)
    plain = not view.sides and not view.bag and view.having is None and view.weight is None
    if not plain or held.kinds or set(view.outputs) != set(held.keys):
        return Sum(keys, atom)
    body = held.definition
    assert isinstance(body, Query)
    new = dict(zip((e.name for e in view.outputs if isinstance(e, Var)), atom.vars, strict=True))
    used = {n.name: n for n in body.walk() if isinstance(n, Var)}
    fresh = Fresh({*used, *(v.name for v in keys)})
    taken = {v.name for v in atom.vars}
    apart = {
        n: Var(fresh.name(n), v.type, v.nullable) for n, v in used.items() if n in taken and n not in new
    }
    return union(*(Sum(keys, term) for term in products(rename(body, {**apart, **new}))))


def _over(expr: Expr, there: Expr) -> Expr:
    """An expression with the question whether there is an entry asked of the extreme."""
    if isinstance(expr, Call) and len(expr.args) == 2 and expr.args == (_COUNT, Const(0, BIGINT)):
        if expr.op in (">", "<>"):
            return there
        if expr.op == "=":
            return build.call("not", there)
    return expr.map_children(lambda e: _over(e, there) if isinstance(e, Expr) else e)


def _is_component(v: Var) -> bool:
    return isinstance(v.name, Made) and v.name.startswith("#") and "." not in v.name
