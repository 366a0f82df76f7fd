"""Dead columns and dead relations (section 3.2): what no map reads is not derived.

A column of a derived relation that no atom's product reads is dropped: the relation then changes only when
something that is read does. A relation in no product goes, and with it the maps that it alone was read off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from everfresh.calculus import Prod, Query, Rel
from everfresh.compiler.lowering.lower import Lowered, Relation
from everfresh.compiler.viewlet.map_registry import products
from everfresh.expr import Var
from everfresh.program import MapDef, View


def pruned(lowered: Lowered) -> Lowered:
    """The view without what nothing reads."""
    while True:
        lowered, before = _columns(_relations(_asked(lowered))), lowered
        if lowered == before:
            return lowered


def _asked(lowered: Lowered) -> Lowered:
    """Without the counts of several rows of subqueries whose values nothing reads."""
    held = {m.name: len(m.keys) for m in lowered.maps}
    valued = {r.name for r in lowered.relations if len(r.columns) > held[r.map]}
    return replace(lowered, several=tuple(each for each in lowered.several if each[1] in valued))


def _relations(lowered: Lowered) -> Lowered:
    """Without relations that are in no definition, and without maps under none of the others."""
    used = {n.name for m in lowered.maps for n in m.definition.walk() if isinstance(n, Rel)}
    relations = tuple(r for r in lowered.relations if r.name in used)
    needed = {*lowered.view.maps, *(name for name, _ in lowered.several)}
    for r in relations:
        needed |= set(r.maps)
    return replace(lowered, relations=relations, maps=tuple(m for m in lowered.maps if m.name in needed))


def _columns(lowered: Lowered) -> Lowered:
    read: dict[str, set[int]] = {r.name: set() for r in lowered.relations}
    for m in lowered.maps:
        for term in products(m.definition):
            for atom in _atoms(term):
                if atom.name in read:
                    read[atom.name] |= _positions(atom, term, m)
    keep = {}
    for r in lowered.relations:
        if isinstance(r, View) and len(read[r.name]) < len(r.columns):
            held = len(next(m for m in lowered.maps if m.name == r.map).keys) if r.always else 0
            positions = sorted(read[r.name] | set(range(held)))
            if len(positions) < len(r.columns):
                keep[r.name] = positions
    if not keep:
        return lowered
    return replace(
        lowered,
        maps=tuple(replace(m, definition=_narrow(m.definition, keep)) for m in lowered.maps),
        relations=tuple(_narrowed(r, keep) for r in lowered.relations),
    )


def _narrowed(relation: Relation, keep: dict[str, list[int]]) -> Relation:
    if not isinstance(relation, View) or relation.name not in keep:
        return relation
    positions = keep[relation.name]
    return replace(
        relation,
        columns=tuple(relation.columns[i] for i in positions),
        outputs=tuple(relation.outputs[i] for i in positions),
    )


def _narrow(query: Query, keep: dict[str, list[int]]) -> Query:
    if isinstance(query, Rel):
        if query.name not in keep:
            return query
        return replace(query, vars=tuple(query.vars[i] for i in keep[query.name]))
    return query.map_children(lambda c: _narrow(c, keep) if isinstance(c, Query) else c)


def _atoms(term: Query) -> Iterable[Rel]:
    factors = term.factors if isinstance(term, Prod) else (term,)
    return [f for f in factors if isinstance(f, Rel)]


def _positions(atom: Rel, term: Query, m: MapDef[Query]) -> set[int]:
    """The columns of an atom that something else in its product, or the map's keys, mention."""
    factors = term.factors if isinstance(term, Prod) else (term,)
    mentioned = {v.name for v in m.keys}
    seen = False
    for factor in factors:
        if factor is atom and not seen:
            seen = True
            continue
        mentioned |= {n.name for n in factor.walk() if isinstance(n, Var)}
    own = [v.name for v in atom.vars]
    return {i for i, name in enumerate(own) if name in mentioned or own.count(name) > 1}
