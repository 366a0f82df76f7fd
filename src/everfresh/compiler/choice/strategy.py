"""What a statement costs, in a word, and why: what `explain` says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from everfresh.calculus import (
    Cond,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    inputs,
)
from everfresh.compiler.lowering.products import atom_vars, names
from everfresh.compiler.viewlet.crossing import Ordered, crossing
from everfresh.compiler.viewlet.ranges import range_of


@dataclass(slots=True)
class _Seen:
    """What a statement reads: maps and relations as a whole, joined, in a range, or only the sums of one."""

    scanned: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)


def strategy_of(expr: Query, base: str, ordered: Ordered) -> tuple[str, str]:
    """What a statement costs, and why: proportional to the change and what agrees with it, or more."""
    seen = _Seen()
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
        _scan(body, bound, set(), seen, ordered)
    scanned = [name for name in dict.fromkeys(seen.scanned) if name not in ordered.single]
    if scanned:
        return "re-evaluated", "reads all of " + ", ".join(scanned)
    if between:
        entries = ", ".join(dict.fromkeys(between))
        return "incremental", f"reads the entries of {entries} between the old and the new {base}"
    parts = []
    if joined := [n for n in dict.fromkeys(seen.read) if n not in (*seen.ranges, *seen.sums)]:
        parts.append("joins the change with " + ", ".join(joined))
    if seen.ranges:
        parts.append("reads ranges of " + _indexes(seen.ranges))
    if seen.sums:
        parts.append("adds up ranges of " + _indexes(seen.sums))
    return "incremental", "; ".join(parts) or f"reads only the change of {base}"


def _indexes(found: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(found))


def _scan(query: Query, bound: set[str], later: set[str], seen: _Seen, ordered: Ordered) -> set[str]:
    match query:
        case Sum(group, body):
            _scan(body, set(bound), {v.name for v in group}, seen, ordered)
            return bound | {v.name for v in group}
        case Prod(factors):
            for i, factor in enumerate(factors):
                if isinstance(factor, Rel | MapRef | Sum) and not (isinstance(factor, Rel) and factor.delta):
                    _place(factor, factors[i + 1 :], bound, later, seen, ordered)
                bound = bound | names([factor])
                if isinstance(factor, MapRef):
                    bound = bound | {v.name for v in factor.keys}
            return bound
        case Rel(_, _, True):
            return bound | names([query])
        case Rel() | MapRef():
            _place(query, (), bound, later, seen, ordered)
            return bound | {v.name for v in atom_vars(query)}
        case _:
            return bound | names([query])


def _place(
    atom: Rel | MapRef | Sum,
    behind: Sequence[Query],
    bound: set[str],
    later: set[str],
    seen: _Seen,
    ordered: Ordered,
) -> None:
    """How an atom is found, given what is bound before it and what comes behind."""
    if isinstance(atom, Sum):
        _scan(atom, set(bound), set(), seen, ordered)
        return
    vars_ = {v.name for v in atom_vars(atom)}
    seen.read.append(atom.name)
    conditions = [f for f in behind if isinstance(f, Cond)]
    known = isinstance(atom, MapRef) or atom.name in ordered.plain
    range_ = range_of(atom_vars(atom), bound, conditions) if known and vars_ - bound else None
    if range_ is not None:
        wanted = later.union(
            *(names([f]) | {v.name for v in inputs(f)} for f in behind if f not in range_.conditions)
        )
        summed = isinstance(atom, MapRef) and not (vars_ - bound) & wanted
        keys = [v.name for v in atom_vars(atom) if v.name in bound]
        index = f"{atom.name} by an ordered index on {', '.join([*keys, str(range_.value)])}"
        (seen.sums if summed else seen.ranges).append(index)
        seen.read.remove(atom.name)
    elif vars_ and not vars_ & bound:
        seen.scanned.append(atom.name)
