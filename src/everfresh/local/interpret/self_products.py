"""Products of a change with itself, taken apart for large batches.

    ΔR(x, b) * ΔR(y, b) * [x > y] * ⟨f(x) - g(y)⟩

joins every row of a batch with every other one that agrees with it. Summed by what the rest of the product
reads of it, the second factor is much smaller, and has prefix sums for its inequalities; values fall apart as
they do between maps (`polynomial`), the count goes with the first monomial alone. The product as it stands is
the slow twin, and the faster one for a few rows.

A product of a large change with ranges of a map can be *turned*, too: instead of the entries in the range of
each row, the rows in the range of each entry, of which sums will do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from everfresh.calculus import Cond, MapRef, Query, Rel, Sum, Value, inputs, outputs, product
from everfresh.compiler import Monomial, polynomial
from everfresh.expr import Const, Expr, Var, build, variables
from everfresh.types import BIGINT

_ONE, _ZERO = Const(1, BIGINT), Const(0, BIGINT)


@dataclass(frozen=True, slots=True)
class Apart:
    """One of the products whose sum it is; `counted`: whether its count counts, or only its values."""

    factors: tuple[Query, ...]
    counted: bool


def apart(
    factors: Sequence[Query], keys: Collection[str], turned: Rel | MapRef | None = None
) -> tuple[Apart, ...]:
    """A product that is summed to the variables `keys`, with all changes but the first summed by themselves;
    none if it has one change only, or if nothing is gained. With `turned`, one of its atoms, all changes are
    summed, and that atom comes first."""
    changes = [f for f in factors if isinstance(f, Rel) and f.delta]
    values = [f for f in factors if isinstance(f, Value)]
    if not changes:
        return ()
    first: Rel | MapRef = changes[0] if turned is None else turned
    summed = changes[1:] if turned is None else changes
    if not summed or len(values) > 1:
        return ()
    lead = _named(first)
    owner = {name: i for i, f in enumerate(summed, 1) for name in _named(f) if name not in lead}
    if len(owner) < sum(len(_named(f) - lead) for f in summed):  # joined with each other
        return ()
    items = values[0].items if values else ()
    polynomials = [polynomial(item, owner.get) for item in items]
    if any(p is None for p in polynomials):
        return ()
    rest = [f for f in factors if f not in changes and f not in values and f is not first]
    local = {i: _local(rest, _named(f)) for i, f in enumerate(summed, 1)}
    taken = {id(c) for found in local.values() for c in found}
    rest = [f for f in rest if id(f) not in taken]
    read = set(keys) | lead
    for f in rest:
        read |= {v.name for v in (*inputs(f), *_outputs(f))}
    if turned is None and all(_named(f) <= read for f in summed):
        return ()
    count = max((len(p) for p in polynomials if p is not None), default=1)
    found = []
    for t in range(max(count, 1)):
        chosen = [p[t] if p is not None and t < len(p) else None for p in polynomials]
        made: list[Query] = [first, *rest]
        for i, change in enumerate(summed, 1):
            group = tuple(v for v in dict.fromkeys(change.vars) if v.name in read)
            part = [Value(tuple(_part(m, i) for m in chosen))] if items else []
            made.append(Sum(group, product(change, *local[i], *part)))
        own = tuple(_own(m) for m in chosen)
        found.append(Apart((*made, *([Value(own)] if items else [])), t == 0))
    return tuple(found)


def _part(monomial: Monomial | None, part: int) -> Expr:
    return _ONE if monomial is None else dict(monomial.factors).get(part, _ONE)


def _own(monomial: Monomial | None) -> Expr:
    """What belongs to the first change, and the coefficient."""
    if monomial is None:
        return _ZERO
    expr = dict(monomial.factors).get(None)
    coefficient = Const(monomial.coefficient, BIGINT)
    if expr is None:
        return coefficient
    return expr if monomial.coefficient == 1 else build.call("*", coefficient, expr)


def _local(rest: Sequence[Query], names: set[str]) -> list[Query]:
    """Conditions over the variables of one change alone."""
    found = []
    for f in rest:
        used = {v.name for v in variables(f.condition)} if isinstance(f, Cond) else set()
        if used and used <= names:
            found.append(f)
    return found


def _named(atom: Rel | MapRef) -> set[str]:
    return {v.name for v in (atom.vars if isinstance(atom, Rel) else atom.keys)}


def _outputs(f: Query) -> tuple[Var, ...]:
    return f.keys if isinstance(f, MapRef) else outputs(f)
