"""One product of a delta over maps: what a statement reads, and what each value becomes (section 3.2.2).

The value of a product falls apart with the product (`polynomial`): each component map holds the factors that
belong to it, as components of its own, and the statement multiplies what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from everfresh.algebra import Kind
from everfresh.calculus import (
    Bind,
    Each,
    MapRef,
    Neg,
    Prod,
    Query,
    Rel,
    SpecError,
    Sum,
    Value,
    inputs,
    product,
)
from everfresh.compiler.lowering.products import arrange, atom_vars, names
from everfresh.compiler.overflow import Together, fits
from everfresh.compiler.viewlet.decompose import (
    Component,
    bindable,
    held_by,
    kept,
    keys_of,
    own_variables,
    placed,
    read_by,
    readable,
    row_by_row,
    take_local,
    with_thresholds,
)
from everfresh.compiler.viewlet.filtered_maps import read_by_filter, with_filters
from everfresh.compiler.viewlet.map_registry import MapDraft, Transform
from everfresh.compiler.viewlet.polynomial import NARROW, Monomial, polynomial
from everfresh.compiler.viewlet.rows_for_maps import left_out
from everfresh.expr import Call, Const, Expr, Var, build, substitute, variables
from everfresh.types import BIGINT

_ONE = Const(1, BIGINT)


def term_over_maps(work: Transform, term: Query, target: MapDraft, index: int) -> list[Query]:
    """One product of a delta over maps: several, if values fall into sums."""
    sign = 1
    while isinstance(term, Neg):
        sign, term = -sign, term.body
    factors = list(term.factors if isinstance(term, Prod) else (term,))
    work.spend(len(factors))
    changes = [f for f in factors if isinstance(f, Rel) and f.delta]
    still = [f for f in factors if isinstance(f, Rel) and not f.delta]
    rest = [f for f in factors if not isinstance(f, Rel)]
    changed = {f.name for f in changes}
    bound = names(changes)
    bound |= bindable(rest, bound)
    looked: list[Rel] = []
    progress = True
    while progress:
        progress = False
        for atom in still:
            if atom.name in work.keys and atom.name not in changed and keys_of(work, atom) <= bound:
                looked.append(atom)
                still.remove(atom)
                bound |= names([atom])
                bound |= bindable(rest, bound)
                progress = True
                break
    values = [row[index] for row in target.values]
    parts, late = placed(work, still, rest, bound)
    keys = {v.name for v in target.keys}
    parts = with_thresholds(work, looked, rest, parts, keys, keys.union(*map(_read_in, values)))
    bound = names([*changes, *looked])
    bound |= bindable(rest, bound)
    read = keys.union(names(late), *map(_read_in, values))
    parts = with_filters(work.choices, kept(work, parts, bound), rest, bound, read)
    plans = [Component(part) for part in parts]
    for plan in plans:
        plan.virtual = len(plan.atoms) == 1 and readable(work, plan.atoms[0], bound, changed)
    for plan in plans:
        if not plan.virtual:
            take_local(plan, rest, bound)
    held = Counter(name for plan in plans for name in names([*plan.atoms, *plan.local]) - bound)
    joining = {name for name, count in held.items() if count > 1}
    asked = bound | joining | {v.name for v in target.keys} | {v.name for f in rest for v in inputs(f)}
    for plan in plans:
        atom = plan.atoms[0]
        chosen = read_by_filter(work.choices, changes, atom) or left_out(
            work.choices, atom, plan.local, asked
        )
        if not plan.virtual and row_by_row(work, plan, asked, changed, values, chosen):
            plan.virtual = True
            rest += plan.local
    part_of: dict[str, int] = {}
    for i, plan in enumerate(plans):
        if not plan.virtual:
            inside = names([*plan.atoms, *plan.local]) - bound - joining
            part_of.update(dict.fromkeys(inside, i))
    together: Together = lambda names: len({part_of.get(name) for name in names}) < 2  # noqa: E731
    polynomials = [
        polynomial(v, part_of.get) if not work.choices.exact or fits(v, together) else None for v in values
    ]
    whole = {
        v.name
        for value, poly in zip(values, polynomials, strict=True)
        if poly is None
        for v in variables(value)
    }
    outside = asked | whole
    outside |= names(f for f in rest if isinstance(f, Bind | Each)) | names(late)
    outside |= {v.name for plan in plans if plan.virtual for v in plan.atoms[0].vars}
    for plan in plans:
        plan.held = held_by(work, plan, outside, target)
    count = max((len(p) for p in polynomials if p is not None), default=1)
    which: Sequence[int | None] = [None] if work.choices.merge or not plans else range(len(values) + 1)
    made = (
        product_over_maps(work, [*changes, *looked, *late], rest, plans, values, polynomials, t, target, only)
        for only in which
        for t in range(max(count, 1))
    )
    return [Neg(m) if sign < 0 else m for m in made if m is not None]


def _read_in(value: Expr) -> set[str]:
    return {v.name for v in variables(value)}


def _kind(expr: Expr) -> Kind:
    if expr.type.is_float:
        return Kind.FLOAT
    zero_one = isinstance(expr, Call) and expr.op in (
        "truth",
        "not_null01",
        "is_nan01",
        "is_pinf01",
        "is_ninf01",
    )
    return Kind.COUNT if zero_one else Kind.WIDE


def product_over_maps(
    work: Transform,
    direct: list[Rel],
    rest: list[Query],
    plans: list[Component],
    values: list[Expr],
    polynomials: list[list[Monomial] | None],
    t: int,
    target: MapDraft,
    only: int | None,
) -> Query | None:
    """The t-th product: each value contributes its t-th monomial, the count only to the first.

    `only` leaves all others out: 0 the values, i all but the i-th. None if nothing contributes.
    """
    counted = t == 0 and only in (None, 0)
    chosen = [
        _monomial(value, monomials, t) if only in (None, j) else None
        for j, (value, monomials) in enumerate(zip(values, polynomials, strict=True), 1)
    ]
    if not counted and not any(chosen):
        return None
    components: list[list[int]] = [[0 if counted else -1] for _ in plans]
    holders: list[tuple[MapDraft | None, dict[str, Var]]] = [(plan.held, plan.by) for plan in plans]
    own: list[Expr] = []
    for value, monomial in zip(values, chosen, strict=True):
        if monomial is None:
            for found in components:
                found.append(-1)
            own.append(Const(0.0, value.type) if value.type.is_float else Const(0, BIGINT))
            continue
        factors = dict(monomial.factors)
        for i, plan in enumerate(plans):
            expr = factors.pop(i, None)
            held, by = holders[i]
            if expr is None or held is None:
                components[i].append(0)
            else:
                if not work.choices.merge:
                    held, by = holders[i] = work.part(plan.body, plan.keys, expr)
                components[i].append(held.component(_kind(expr), (substitute(expr, dict(by)),)))
        own.append(_own(tuple(factors.values()), monomial.coefficient))
    atoms_: list[Query] = [*direct]
    for plan, (held, by), found in zip(plans, holders, components, strict=True):
        atoms_.append(plan.atoms[0] if held is None else _read(plan, held, by, found))
    if t > 0 and not any(isinstance(a, MapRef) for a in atoms_):
        raise SpecError(f"a sum of values over no map: {values}")
    ordered = arrange([*atoms_, *rest], work.always)
    needed = {v.name for v in target.keys} | {v.name for e in own for v in variables(e)}
    summed = _summed(ordered, needed)
    if values and any(e != _ONE for e in own):
        summed.append(Value(tuple(own)))
    return product(*summed)


def _monomial(value: Expr, monomials: list[Monomial] | None, t: int) -> Monomial | None:
    if monomials is None:
        return Monomial(1, ((None, value),)) if t == 0 else None
    return monomials[t] if t < len(monomials) else None


def _own(factors: tuple[Expr, ...], coefficient: int) -> Expr:
    """What a statement itself multiplies a value by."""
    assert len(factors) <= 1
    if not factors:
        return Const(coefficient, BIGINT)
    if coefficient == 1:
        return factors[0]
    factor = build.cast(factors[0], BIGINT) if factors[0].type.name in NARROW else factors[0]
    return (
        build.call("neg", factor)
        if coefficient == -1
        else build.call("*", Const(coefficient, BIGINT), factor)
    )


def _read(plan: Component, held: MapDraft, by: dict[str, Var], components: list[int]) -> MapRef:
    """The map of a component, read by the component's own variables."""
    ours = {theirs.name: name for name, theirs in by.items()}
    by_name = {v.name: v for v in plan.keys}
    keys = tuple(by_name[ours[v.name]] for v in held.keys)
    return MapRef(held.name, keys, (0,) if set(components) == {0} else tuple(components))


def _summed(factors: list[Query], needed: set[str]) -> list[Query]:
    """Parts of a product that share no variable with its change, summed by themselves before they meet it."""
    groups: list[tuple[set[str], list[Query]]] = []
    for f in factors:
        used = names([f]) | read_by(f)
        members = [f]
        for g in [g for g in groups if g[0] & used]:
            used, members = used | g[0], [*g[1], *members]
            groups.remove(g)
        groups.append((used, members))
    plain: list[Query] = []
    sums: list[Query] = []
    for used, members in groups:
        members.sort(key=factors.index)
        changes = any(isinstance(f, Rel) and f.delta for f in members)
        if (
            changes
            or not any(isinstance(f, Rel | MapRef) and atom_vars(f) for f in members)
            or used <= needed
        ):
            plain += members
        else:
            group = {v.name: v for f in members for v in _all_outputs_of(f) if v.name in needed}
            sums.append(Sum(tuple(group.values()), product(*members)))
    plain.sort(key=factors.index)
    return [*plain, *sums]


def _all_outputs_of(f: Query) -> tuple[Var, ...]:
    return f.keys if isinstance(f, MapRef) else own_variables(f)
