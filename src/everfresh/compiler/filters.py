"""Maps of a table that are held only for the rows that another table lets pass.

In `Δr(k, v) * [σ F(k)] * B(k, x)` the change binds k, so F and B fall into two components: a map of the few
keys that pass the conditions on F, and a map of B with an entry for each k and x, whatever F says of k. Held
joined, the second has entries for the keys that pass alone. What remains is the change of F, which asks for
rows of B by the key of F: it reads the table of B, through a slice that a map would need as well.

A *filter* is an atom over a table whose primary key the change binds, with conditions of its own, of which
nothing else is read. Whether a pair of a filter and a table is held joined is a choice (`FILTERED` and what
`form` says of the two), made by cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from everfresh.calculus import Bind, Cond, MapRef, Neg, Plus, Prod, Query, Rel, Sum, inputs, outputs
from everfresh.compiler.held import Choices, over, products
from everfresh.compiler.placing import form, guard, read_by
from everfresh.compiler.rows import names
from everfresh.program import MapDef, Program

FILTERED = "+"
"""What the choice to hold a pair joined begins with."""
Keyed = Mapping[str, frozenset[int]]


def with_filters(
    choices: Choices, parts: Iterable[list[Rel]], rest: Sequence[Query], bound: set[str], read: set[str]
) -> list[list[Rel]]:
    """Components of one table together with their filters, where that is chosen; none whose columns are in
    `read`."""
    found = list(parts)
    if not any(choice.startswith(FILTERED) for choice in choices.split):
        return found
    for part in list(found):
        atom = part[0]
        elsewhere = read.union(*(names(p) for p in found if p is not part))
        if len(part) > 1 or not _filters(choices.keyed, atom, rest, bound, elsewhere):
            continue
        for other in found:
            if len(other) == 1 and _chosen(choices, atom, other[0]):
                found = [[*other, atom] if p is other else p for p in found if p is not part]
                break
    return found


def read_by_filter(choices: Choices, changes: Iterable[Rel], atom: Rel) -> bool:
    """Whether rows of a table are asked for by a change of its filter alone."""
    return any(_chosen(choices, replace(change, delta=False), atom) for change in changes)


def _chosen(choices: Choices, filter_: Rel, atom: Rel) -> bool:
    key = {filter_.vars[i].name for i in choices.keyed.get(filter_.name, ())}
    return (
        bool(key)
        and key <= names([atom])
        and filter_.name != atom.name
        and FILTERED + form([filter_, atom]) in choices.split
    )


def _filters(keyed: Keyed, atom: Rel, rest: Sequence[Query], bound: set[str], read: set[str]) -> bool:
    """Whether an atom has one row at most, of which nothing is read but by conditions of its own."""
    all_, own = names([atom]), names([atom]) - bound
    users = [f for f in rest if read_by(f) & own]
    return (
        atom.name in keyed
        and {atom.vars[i].name for i in keyed[atom.name]} <= bound
        and not own & read
        and all(isinstance(f, Cond) and read_by(f) <= all_ for f in users)
        and not any(isinstance(f, Bind) and f.var.name in own for f in rest)
    )


# -- what could be chosen ------------------------------------------------------------------------------


def filterable(program: Program[Query], keyed: Keyed) -> Iterator[str]:
    """The pairs that could be held joined, by what the choice is known by: a statement reads a filter by its
    key, and entries of the other map that the filter's key does not determine."""
    maps = {m.name: m for m in program.maps}
    seen = set()
    for trigger in program.triggers:
        for statement in trigger.statements:
            for factors in _products(statement.expr):
                refs = [f for f in factors if isinstance(f, MapRef) and f.name in maps]
                for ref in refs:
                    held = _table(maps[ref.name], ref, keyed)
                    if held is None or not _sliced(ref, factors):
                        continue
                    for other in refs:
                        filter_ = _table(maps[other.name], other, keyed)
                        if filter_ is None or filter_.name == held.name or not _selects(maps[other.name]):
                            continue
                        key = {filter_.vars[i].name for i in keyed[filter_.name]}
                        asked = {v.name for v in other.keys}
                        if set(other.components) == {0} and key <= asked <= {v.name for v in ref.keys}:
                            choice = FILTERED + form([filter_, held])
                            if choice not in seen:
                                seen.add(choice)
                                yield choice


def _products(expr: Query) -> Iterator[tuple[Query, ...]]:
    match expr:
        case Plus(terms):
            for term in terms:
                yield from _products(term)
        case Neg(body) | Sum(_, body):
            yield from _products(body)
        case Prod(factors):
            yield factors
        case _:
            yield (expr,)


def _table(held: MapDef[Query], ref: MapRef, keyed: Keyed) -> Rel | None:
    """The one table that a map is over, as a reader of it would write the atom."""
    if len(products(held.definition)) != 1:
        return None
    atoms = [f for f in over(held, ref.keys) if isinstance(f, Rel)]
    return atoms[0] if len(atoms) == 1 and atoms[0].name in keyed else None


def _sliced(ref: MapRef, factors: Collection[Query]) -> bool:
    """Whether some keys of a map that is read are given by nothing else, and some are."""
    others = {v.name for f in factors if f is not ref for v in outputs(f)}
    keys = {v.name for v in ref.keys}
    return bool(keys & others) and bool(keys - others)


def _selects(held: MapDef[Query]) -> bool:
    """Whether a map has conditions that not all rows of its table pass."""
    (body,) = products(held.definition)
    factors = body.factors if isinstance(body, Prod) else (body,)
    return any(isinstance(f, Cond) and inputs(f) and not guard(f) for f in factors)
