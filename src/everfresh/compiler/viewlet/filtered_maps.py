"""Maps of a table that are held only for the rows that another table lets pass.

In `Δr(k, v) * [σ F(k)] * B(k, x)` the change binds k, so F and B fall into two components: a map of the few
keys that pass the conditions on F, and a map of B with an entry for each k and x, whatever F says of k. Held
joined, the second has entries for the keys that pass alone. What remains is the change of F, which asks for
rows of B by the key of F: it reads the table of B, through a slice that a map would need as well.

A *filter* is an atom over a table whose primary key the change binds, with conditions of its own, of which
nothing else is read. Whether a pair of a filter and a table is held joined is decided by cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from everfresh.calculus import Bind, Cond, Each, MapRef, Prod, Query, Rel, inputs, outputs
from everfresh.compiler.lowering.products import names
from everfresh.compiler.viewlet.decisions import Decision, DecisionKind, any_of
from everfresh.compiler.viewlet.decompose import form, guard, read_by
from everfresh.compiler.viewlet.map_registry import Choices, over, products, terms
from everfresh.program import MapDef, Program

Keyed = Mapping[str, frozenset[int]]


def with_filters(
    choices: Choices, parts: Iterable[list[Rel]], rest: Sequence[Query], bound: set[str], read: set[str]
) -> list[list[Rel]]:
    """Components of one table together with their filters, where that is chosen; none whose columns are in
    `read`."""
    found = list(parts)
    if not any_of(DecisionKind.FILTERED, choices.decisions):
        return found
    for atom in [part[0] for part in found if len(part) == 1]:
        others = [part for part in found if part != [atom]]
        elsewhere = read.union(*map(names, others))
        if len(others) == len(found) or not _filters(choices.keyed, atom, rest, bound, elsewhere):
            continue
        home = next((part for part in others if len(part) == 1 and _chosen(choices, atom, part[0])), None)
        if home is not None:
            found = [[*part, atom] if part is home else part for part in others]
    return found


def read_by_filter(choices: Choices, changes: Iterable[Rel], atom: Rel) -> bool:
    """Whether rows of a table are asked for by a change of its filter alone."""
    return any(_chosen(choices, replace(change, delta=False), atom) for change in changes)


def _chosen(choices: Choices, filter_: Rel, atom: Rel) -> bool:
    key = filter_.names(choices.keyed.get(filter_.name, ()))
    return (
        key is not None
        and bool(key)
        and key <= names([atom])
        and filter_.name != atom.name
        and joined([filter_, atom]) in choices.decisions
    )


def joined(pair: Sequence[Rel]) -> Decision:
    """The decision that a filter and a table are held joined."""
    return Decision(DecisionKind.FILTERED, form(pair))


def _filters(keyed: Keyed, atom: Rel, rest: Sequence[Query], bound: set[str], read: set[str]) -> bool:
    """Whether an atom has one row at most, of which nothing is read but by conditions of its own."""
    all_, own = names([atom]), names([atom]) - bound
    users = [f for f in rest if read_by(f) & own]
    key = atom.names(keyed[atom.name]) if atom.name in keyed else None
    return (
        key is not None
        and key <= bound
        and not own & read
        and all(isinstance(f, Cond) and read_by(f) <= all_ for f in users)
        and not any(isinstance(f, Bind | Each) and names([f]) & own for f in rest)
    )


# -- what could be chosen ------------------------------------------------------------------------------


def filterable(program: Program[Query], keyed: Keyed) -> Iterable[Decision]:
    """The pairs that could be held joined."""
    maps = {m.name: m for m in program.maps}
    statements = (s for trigger in program.triggers for s in trigger.statements)
    terms_ = (term for s in statements for term in terms(s.expr))
    products_ = (term.factors if isinstance(term, Prod) else (term,) for term in terms_)
    return dict.fromkeys(joined(pair) for factors in products_ for pair in _pairs(maps, factors, keyed))


def _pairs(maps: Mapping[str, MapDef[Query]], factors: Sequence[Query], keyed: Keyed) -> Iterator[list[Rel]]:
    """A filter that a product reads by its key, and a table of which it reads entries that the filter's key
    does not determine."""
    refs = [f for f in factors if isinstance(f, MapRef) and f.name in maps]
    for ref, other in itertools.permutations(refs, 2):
        held, filter_ = (_table(maps[r.name], r, keyed) for r in (ref, other))
        if held is None or filter_ is None or filter_.name == held.name:
            continue
        key = filter_.names(keyed[filter_.name])
        if key is None:
            continue
        asked = {v.name for v in other.keys}
        counted = set(other.components) == {0} and _selects(maps[other.name])
        if counted and key <= asked <= {v.name for v in ref.keys} and _sliced(ref, factors):
            yield [filter_, held]


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
