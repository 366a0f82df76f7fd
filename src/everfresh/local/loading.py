"""Filling the maps of a new view in bulk, by the code that runs its statements.

Maps come in the order of their dependence: one whose definition reads a derived relation after the maps of
that relation. A term starts from its largest table, piece by piece, and finds the entries of the others
through indexes: work is linear in what is joined. Indexes made for a load go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from everfresh.calculus import MapRef, Query, Rel, Sum, relations
from everfresh.local.atoms import Atom, Only, Stored
from everfresh.local.entries import EntryStore
from everfresh.local.joined import run_terms
from everfresh.local.ordering import Term, ordered
from everfresh.local.wiring import Names, Wiring
from everfresh.program import Program, Progress

Ints = NDArray[np.int64]
_PIECE = 1 << 17


class Loading(Names):
    """The scope of definitions: whole tables and relations, one of them cut to a piece."""

    lead: Rel | None = None
    piece: Atom | None = None

    def atom(self, factor: Rel | MapRef) -> Atom:
        """The piece for the atom that leads the term, else the whole."""
        if factor is self.lead and self.piece is not None:
            return self.piece
        return super().atom(factor)


def load(
    wiring: Wiring,
    view: str,
    program: Program[Query],
    progress: Progress | None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Fill the empty maps of a view's program; `check` is called between pieces, and may raise."""
    done: set[str] = set()
    relations_of = {r.name: r for r in program.relations}

    def ready(definition: Query) -> bool:
        used = [relations_of[n] for n in relations(definition) if n in relations_of]
        return all(m in done for r in used for m in _maps(r))

    left = list(program.maps)
    while left:
        chosen = next((m for m in left if ready(m.definition)), None)
        if chosen is None:
            raise TypeError(f"the maps {[m.name for m in left]} depend on each other")
        _fill(wiring, view, wiring.stores(chosen.name), progress, check)
        done.add(chosen.name)
        left.remove(chosen)


def _maps(relation: object) -> tuple[str, ...]:
    maps = getattr(relation, "maps", None)
    return maps if maps is not None else (relation.map,)  # type: ignore[attr-defined]


def _fill(
    wiring: Wiring, view: str, store: EntryStore, progress: Progress | None, check: Callable[[], None]
) -> None:
    definition = store.target.definition
    names = Loading(wiring, view, {})

    def size(atom: Query) -> int:
        if not isinstance(atom, Rel):
            return -1
        return len(wiring.tables[atom.name].pool) if atom.name in wiring.tables else 0

    lead = lambda atoms: max(range(len(atoms)), key=lambda i: size(atoms[i]))  # noqa: E731
    for term in ordered(definition, store.target.keys, names.needs, lead, keyed=names.keyed):
        check()
        names.lead, first = _lead(term), _first(term, names)
        if first is None:
            _run(term, store, names)
            continue
        for slots, shown in _pieces(first.slots(), view, progress):
            names.piece = Only(first, slots)
            _run(term, store, names)
            shown()
            check()
        names.lead = names.piece = None
    store.settle()  # only now: terms and pieces may cancel each other in the count alone


def _run(term: Term, store: EntryStore, names: Loading) -> None:
    delta = run_terms((term,), store.target.keys, store.codec, store.layout, names)
    store.add_words(delta.words, delta.values)


def _lead(term: Term) -> Rel | None:
    """The atom that a term starts from."""
    first = next((s.factor for s in term.steps if isinstance(s.factor, Rel | MapRef | Sum)), None)
    return first if isinstance(first, Rel) else None


def _first(term: Term, names: Loading) -> Stored | None:
    """The entries that a term starts from; None if they cannot be cut."""
    atom = _lead(term)
    if atom is None or names.needs(atom) is not None:
        return None
    found = names.wiring.tables.get(atom.name)
    if found is not None:
        return found
    return names.wiring.reader(names.view, atom.name)[0].all().atom()


def _pieces(slots: Ints, view: str, progress: Progress | None) -> Iterator[tuple[Ints, Callable[[], None]]]:
    """Slots in pieces, each with what to call when it is done."""
    for start in range(0, len(slots), _PIECE):
        piece = slots[start : start + _PIECE]

        def shown(done: int = start + len(piece)) -> None:
            if progress is not None:
                progress(f"loading {view}", done, len(slots))

        yield piece, shown
