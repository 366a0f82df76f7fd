"""The invariants of plans: a variable is defined once, before it is used, with one type and NULLability."""

from __future__ import annotations

from collections import Counter

from everfresh.expr.nodes import Expr, Var
from everfresh.sql.logical import plan as p


def check(plan: p.Plan) -> None:
    """Assert that a statement's plan is well formed."""
    _scoped(plan, {})
    outermost = _outermost(plan)
    defined = Counter(name for name in _definitions(plan, outermost))
    assert all(n == 1 for n in defined.values()), [name for name, n in defined.items() if n > 1]


def _outermost(plan: p.Plan) -> list[p.Plan]:
    """The nodes that give the result its names: they are the user's, and may repeat a variable's."""
    found = [plan]
    while isinstance(found[-1], (p.Sort, p.Limit, p.Distinct, p.Project)):
        found.append(found[-1].input)
    return found


def _definitions(plan: p.Plan, outermost: list[p.Plan]) -> list[str]:
    """The variables that nodes introduce, rather than pass on."""
    found: list[str] = []
    for node in plan.walk():
        match node:
            case p.Scan():
                found += [v.name for v in node.vars]
            case p.Project() if not any(node is o for o in outermost):
                found += _computed(node.items, node.input)
            case p.Aggregate():
                found += _computed(node.keys, node.input) + [n for n, _ in node.aggregates]
            case p.Window() | p.Unnest():
                found += [n for n, _ in node.items]
    return found


def _computed(items: tuple[p.Named, ...], below: p.Plan) -> list[str]:
    passed = {v.name for v in below.variables}
    return [n for n, e in items if not (isinstance(e, Var) and e.name == n and n in passed)]


def _scoped(plan: p.Plan, around: dict[str, Var]) -> None:
    """Expressions use only variables of the inputs, and those around a subquery, as these declare them."""
    names = [v.name for v in plan.variables]
    assert len(set(names)) == len(names), names
    seen = dict(around)
    for below in plan.inputs:
        for var in below.variables:
            assert var.name not in around, var
            seen[var.name] = var
    if isinstance(plan, p.Join):  # the condition sees rows that are not padded yet
        assert not {v.name for v in plan.left.variables} & {v.name for v in plan.right.variables}
    if isinstance(plan, p.SetOperation):
        assert [v.type for v in plan.left.variables] == [v.type for v in plan.right.variables]
    for child in plan.children:
        if isinstance(child, p.Plan):
            beside = plan.left.variables if isinstance(plan, p.Join) and child is plan.right else ()
            _scoped(child, {**around, **{v.name: v for v in beside}})
        elif not isinstance(plan, p.Scan):
            _used(child, seen)  # type: ignore[arg-type]


def _used(expr: Expr, seen: dict[str, Var]) -> None:
    if isinstance(expr, Var):
        assert seen.get(expr.name) == expr, (expr, seen.get(expr.name))
    if isinstance(expr, p.QuantifiedSubquery):
        assert [a.type for a in expr.args] == [v.type for v in expr.plan.variables]
    for child in expr.children:
        if isinstance(child, p.Plan):
            _scoped(child, seen)
        else:
            _used(child, seen)  # type: ignore[arg-type]
