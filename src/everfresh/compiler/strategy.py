"""What a statement costs, in a word, and why: what `explain` says of it."""

from __future__ import annotations

from everfresh.calculus import (
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
)
from everfresh.compiler.crossing import Ordered, crossing
from everfresh.compiler.rows import atom_vars, names


def strategy_of(expr: Query, base: str, ordered: Ordered) -> tuple[str, str]:
    """What a statement costs, and why: proportional to the change and what agrees with it, or more."""
    scanned: list[str] = []
    read: list[str] = []
    between: list[str] = []
    for term in expr.terms if isinstance(expr, Plus) else (expr,):
        body = term.body if isinstance(term, Neg) else term
        bound: set[str] = set()
        if isinstance(body, Sum):
            factors = body.body.factors if isinstance(body.body, Prod) else (body.body,)
            crossed = crossing(factors, {v.name for v in body.group}, ordered)
            if crossed is not None:
                between.append(crossed.atom.name)
                bound = {v.name for v in atom_vars(crossed.atom)}
        _scan(body, bound, scanned, read)
    scanned = [name for name in dict.fromkeys(scanned) if name not in ordered.single]
    if scanned:
        return "re-evaluated", "reads all of " + ", ".join(scanned)
    if between:
        entries = ", ".join(dict.fromkeys(between))
        return "incremental", f"reads the entries of {entries} between the old and the new {base}"
    if read:
        return "incremental", "joins the change with " + ", ".join(dict.fromkeys(read))
    return "incremental", f"reads only the change of {base}"


def _scan(query: Query, bound: set[str], scanned: list[str], read: list[str]) -> set[str]:
    match query:
        case Sum(group, body):
            _scan(body, set(bound), scanned, read)
            return bound | {v.name for v in group}
        case Prod(factors):
            for factor in factors:
                bound = _scan(factor, bound, scanned, read)
            return bound
        case Rel(_, _, True):
            return bound | names([query])
        case Rel() | MapRef():
            vars_ = {v.name for v in atom_vars(query)}
            read.append(query.name)
            if vars_ and not vars_ & bound:
                scanned.append(query.name)
            return bound | vars_
        case _:
            return bound | names([query])


# -- one product -------------------------------------------------------------------------------------
