"""Unification of join equalities (section 3.2.1): `[x = y]` over two relations makes x and y one variable.

SQL's `=` is unknown on NULL, while a shared variable compares by identity. So a guard `[x IS NOT NULL]`
remains, unless neither can be NULL; the variable that is kept is one that can, since every relation that
holds it must be able to. A variable is never shared within one relation atom: there the condition stays.
"""

from __future__ import annotations

from everfresh.calculus import Cond, Query, Rel
from everfresh.compiler.passes.unify import rename
from everfresh.expr import Call, Expr, Var, build, substitute


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that all have to hold."""
    if isinstance(condition, Call) and condition.op == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def unified(
    factors: tuple[Query, ...], columns: dict[str, Expr]
) -> tuple[tuple[Query, ...], dict[str, Expr]]:
    """The same product with equalities between relations turned into shared variables."""
    parts: list[Query] = []
    for factor in factors:
        parts += (
            [Cond(part) for part in conjuncts(factor.condition)] if isinstance(factor, Cond) else [factor]
        )
    index = 0
    while index < len(parts):
        pair = _equality(parts[index], [f for f in parts if isinstance(f, Rel)])
        if pair is None:
            index += 1
            continue
        keep, gone = pair
        parts = [rename(f, {gone.name: keep}) for f in parts[:index] + parts[index + 1 :]]
        if keep.nullable:
            parts.append(Cond(build.call("not", build.call("is_null", keep))))
        columns = {name: substitute(expr, {gone.name: keep}) for name, expr in columns.items()}
        index = 0
    return tuple(parts), columns


def _equality(factor: Query, relations: list[Rel]) -> tuple[Var, Var] | None:
    """The variable to keep and the one to replace, if a condition equates variables of two relations."""
    if not (isinstance(factor, Cond) and isinstance(factor.condition, Call) and factor.condition.op == "="):
        return None
    x, y = factor.condition.args
    if not (isinstance(x, Var) and isinstance(y, Var)) or x.type != y.type or x.name == y.name:
        return None
    holders = {
        v: [i for i, r in enumerate(relations) if any(w.name == v.name for w in r.vars)] for v in (x, y)
    }
    if not all(holders.values()) or set(holders[x]) & set(holders[y]):
        return None
    return (x, y) if x.nullable or not y.nullable else (y, x)
