"""Maps that may be larger than the tables they are made of: those with an entry for each pair of rows.

The keys of most maps are columns of one relation of each product, or follow from them: by the primary key of
a table that is joined by it, by the keys of a derived relation, by a binding. Such a map has no more entries
than that relation has rows. All others may have one for each combination of rows of several relations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from everfresh.calculus import Bind, Prod, Query, Rel, Sum, inputs, outputs
from everfresh.compiler.viewlet.map_registry import products
from everfresh.expr import Var
from everfresh.program import Program, View

Keys = Mapping[str, Collection[int]]
"""The places of the columns of primary keys, by table."""


def paired(program: Program[Query], keys: Keys, but: str = "") -> dict[str, tuple[str, ...]]:
    """The maps, all but one, that may have an entry for each combination of rows of some relations: these."""
    derived = {r.name: r for r in program.relations}
    known = dict(keys)
    for name, r in derived.items():
        if isinstance(r, View) and (places := _places(r, program)) is not None:
            known[name] = places
    found: dict[str, tuple[str, ...]] = {}
    for m in program.maps:
        if m.name == but or not isinstance(m.definition, Query):
            continue
        wanted = {v.name for v in m.keys}
        for term in products(m.definition):
            cover = _cover(wanted, term, known, {n for n, r in derived.items() if _always(r)})
            if len(cover) > 1:
                found[m.name] = max(found.get(m.name, ()), cover, key=len)
    return found


def _always(relation: object) -> bool:
    return isinstance(relation, View) and relation.always


def _places(view: View, program: Program[Query]) -> tuple[int, ...] | None:
    """The columns of a relation by which it has one row at most."""
    names = [e.name if isinstance(e, Var) else "" for e in view.outputs]
    held = [v.name for v in program.map(view.map).keys]
    return tuple(names.index(name) for name in held) if set(held) <= set(names) else None


def _cover(wanted: set[str], term: Query, keys: Keys, looked_up: Collection[str]) -> tuple[str, ...]:
    """The relations of a product whose rows, taken together, give all that is wanted: as few as are found."""
    factors = term.factors if isinstance(term, Prod) else (term,)
    atoms = [f for f in factors if isinstance(f, Rel | Sum)]
    found: list[str] = []
    had = _closed(set(), factors, keys)
    while not wanted <= had and atoms:
        gains = [_closed(had | _names(f), factors, keys) for f in atoms]
        best = max(range(len(atoms)), key=lambda i: len(gains[i] & wanted))
        if gains[best] & wanted <= had & wanted:
            break
        had = gains[best]
        found += [n for n in _relations(atoms.pop(best)) if n not in looked_up]
    return tuple(found)


def _closed(names: set[str], factors: Collection[Query], keys: Keys) -> set[str]:
    """All that follows from some variables."""
    while True:
        before = len(names)
        for f in factors:
            if isinstance(f, Bind) and {v.name for v in inputs(f)} <= names:
                names = names | {f.var.name}
            elif isinstance(f, Rel) and f.name in keys:
                key = f.names(keys[f.name])
                if key is not None and key <= names:
                    names = names | _names(f)
        if len(names) == before:
            return names


def _names(f: Query) -> set[str]:
    return {v.name for v in outputs(f)}


def _relations(f: Query) -> Iterator[str]:
    return (n.name for n in f.walk() if isinstance(n, Rel))
