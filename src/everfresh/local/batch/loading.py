"""Filling the maps of a new view in bulk, by the code that runs its statements.

Maps come in the order of their dependence: one whose definition reads a derived relation after the maps of
that relation, one whose statements read a map after that map. Of the ways in which a map can be filled
(`ways`) the one is taken that visits the fewest rows, as far as samples of tables and maps tell. A term
starts from one relation, piece by piece, and finds the entries of the others through indexes. Indexes of
tables made for a load go with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import ZERO, MapRef, Query, Rel, Sum, relations
from everfresh.compiler import Crossing, Ordered
from everfresh.local.batch.fill_choices import Choice, Way, choices, cost
from everfresh.local.batch.linked_programs import StatementNames, Wiring
from everfresh.local.interpret.atoms import Atom, Only, Pooled, Stored, part
from everfresh.local.interpret.fanout import fanout
from everfresh.local.interpret.interpreter import run_terms
from everfresh.local.interpret.join_order import Term, ordered
from everfresh.local.relations.view_reader import ViewReader
from everfresh.local.store.entries import EntryStore
from everfresh.program import Intervals, MapDef, Program, Progress

Ints = NDArray[np.int64]
_PIECE = 1 << 17


class Loading(StatementNames):
    """The scope of a load: whole tables and relations, also for what stands for a change; one of them cut to
    a piece."""

    lead: Rel | None = None
    piece: Stored | None = None

    def atom(self, factor: Rel | MapRef) -> Atom:
        """The piece for the atom that leads the term, else the whole."""
        if factor is self.lead and self.piece is not None:
            return part(self.piece, factor)
        if isinstance(factor, Rel) and factor.delta:
            return part(self.whole(factor.name), factor)
        return super().atom(factor)

    def whole(self, name: str) -> Stored:
        """All rows of a table or of a relation."""
        found = self.wiring.tables.get(name)
        if found is None:
            return self.wiring.reader(self.view, name)[0].all().atom()
        return found

    @property
    def many(self) -> bool:
        """Products of a relation with itself are taken apart."""
        return True

    def between(self, crossing: Crossing) -> None:
        """A threshold over nothing is not passed: all entries are looked at."""
        return

    def fanout(self, atom: Query, places: Sequence[int]) -> float:
        """About how many rows or entries of an atom agree on the columns at some places."""
        if not isinstance(atom, Rel | MapRef):  # a sum over a change, by what is asked of it
            return 1.0
        if (key := self.keyed(atom)) and set(key) <= set(places):
            return 1.0
        if isinstance(atom, MapRef):
            return _agree(self.wiring.stores(atom.name), places)
        if atom.name in self.wiring.tables:
            return _agree(self.wiring.tables[atom.name], [atom.places[i] for i in places])
        reader: Any = self.wiring.reader(self.view, atom.name)[0]
        if not isinstance(reader, ViewReader):
            return (
                1.0
                if isinstance(getattr(reader, "relation", None), Intervals)
                else _guess(reader.store, places)
            )
        keys = {place for i in places if (place := reader.key_of[i]) is not None}
        if len(keys) == len(reader.store.columns):
            return 1.0
        return _agree(reader.store, sorted(keys)) if keys else _guess(reader.store, places)


def _agree(stored: Pooled, places: Sequence[int]) -> float:
    if not places:
        return float(len(stored.pool))
    return 1.0 if len(set(places)) == len(stored.columns) else fanout(stored, places)


def _guess(stored: Pooled, places: Sequence[int]) -> float:
    """Columns that are computed: nobody knows how many rows agree on them."""
    size = float(len(stored.pool))
    return math.sqrt(size) if places else size


def load(
    wiring: Wiring,
    view: str,
    program: Program[Query],
    progress: Progress | None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Fill the empty maps of a view's program; `check` is called between pieces, and may raise."""
    done = {m.name for m in program.shared}
    relations_of = {r.name: r for r in program.relations}
    read = _read(program)

    def ready(m: MapDef[Query]) -> bool:
        used = [relations_of[n] for n in relations(m.definition) if n in relations_of]
        return all(name in done for r in used for name in r.maps)

    left = list(program.maps)
    while left:
        able = [m for m in left if ready(m)]
        if not able:
            raise TypeError(f"the maps {[m.name for m in left]} depend on each other")
        chosen = next((m for m in able if read[m.name] <= done), able[0])
        _Filling(wiring, view, program, chosen, done, check).run(progress)
        done.add(chosen.name)
        left.remove(chosen)


def _read(program: Program[Query]) -> dict[str, set[str]]:
    """The maps that the statements on each map read."""
    found: dict[str, set[str]] = {m.name: set() for m in program.maps}
    for trigger in program.triggers:
        for statement in trigger.statements:
            if statement.target in found:
                found[statement.target] |= {n.name for n in statement.expr.walk() if isinstance(n, MapRef)}
    return found


class _Filling:
    """One map: how it is filled, and that it is."""

    def __init__(
        self,
        wiring: Wiring,
        view: str,
        program: Program[Query],
        target: MapDef[Query],
        done: set[str],
        check: Callable[[], None],
    ) -> None:
        self._wiring, self._view, self._program = wiring, view, program
        self._target, self._done, self._check = target, done, check
        self._store: EntryStore = wiring.stores(target.name)
        self._names = Loading(wiring, view, {})
        self._kept = Ordered.of(program)
        exact = Kind.FLOAT not in self._store.layout.kinds  # doubles are added entry by entry
        self._summable = self._names.summable if exact else None

    def run(self, progress: Progress | None) -> None:
        """Fill the map."""
        growth = self._store.growth
        if growth is not None:
            growth.at_once = True
        left, gone = self._target.definition, set[str]()
        while left != ZERO:
            terms, choice = self._cheapest(left, gone)
            for term in terms:
                self._term(term, progress)
            left = choice.left
            gone.add(choice.way.last or "")
        if growth is not None:
            growth.at_once = False
        self._store.settle()  # only now: terms and pieces may cancel each other in the count alone

    def _cheapest(self, left: Query, gone: set[str]) -> tuple[tuple[Term, ...], Choice]:
        """What to do next."""
        found = choices(self._target, left, gone, self._program, self._done)
        found = [c for c in found if c.way.last is None or self._whole(c.way.last)]
        made = [self._terms(c.way) for c in found]
        if len(found) == 1:
            return made[0], found[0]
        costs = [cost(terms, self._names.fanout) for terms in made]
        for i, choice in enumerate(found):
            if choice.left != ZERO:
                costs[i] += cost(self._terms(Way(choice.left)), self._names.fanout)
        best = min(range(len(found)), key=costs.__getitem__)
        return made[best], found[best]

    def _whole(self, name: str) -> bool:
        """Whether all rows of a relation can be had: one with a row for every key can only be looked up."""
        return self._names.needs(Rel(name, ())) is None

    def _terms(self, way: Way) -> tuple[Term, ...]:
        lead = None if way.last else self._largest
        return ordered(
            way.expr,
            self._target.keys,
            self._names.needs,
            lead,
            self._kept,
            self._summable,
            self._names.keyed,
            self._names.fanout,
        )

    def _largest(self, atoms: Sequence[Query]) -> int:
        def size(atom: Query) -> int:
            if not isinstance(atom, Rel):
                return -1
            return len(self._wiring.tables[atom.name].pool) if atom.name in self._wiring.tables else 0

        return max(range(len(atoms)), key=lambda i: size(atoms[i]))

    def _term(self, term: Term, progress: Progress | None) -> None:
        """Add what a term makes, from one piece after the other of what it starts from."""
        names = self._names
        for one in term.many or (term,):
            self._check()
            lead = _lead(one)
            if lead is None or names.needs(lead) is not None or any(step.inner for step in one.steps):
                self._add(one)
                continue
            first = names.whole(lead.name)
            names.lead = lead
            for slots, shown in _pieces(first.slots(), self._view, progress):
                names.piece = Only(first, slots)
                self._add(one)
                shown()
                self._check()
            names.lead = names.piece = None

    def _add(self, term: Term) -> None:
        store = self._store
        delta = run_terms((term,), store.target.keys, store.codec, store.layout, self._names)
        store.add_words(delta.words, delta.values)


def _lead(term: Term) -> Rel | None:
    """The atom that a term starts from."""
    first = next((s.factor for s in term.steps if isinstance(s.factor, Rel | MapRef | Sum)), None)
    return first if isinstance(first, Rel) else None


def _pieces(slots: Ints, view: str, progress: Progress | None) -> Iterator[tuple[Ints, Callable[[], None]]]:
    """Slots in pieces, each with what to call when it is done."""
    for start in range(0, len(slots), _PIECE):
        piece = slots[start : start + _PIECE]

        def shown(done: int = start + len(piece)) -> None:
            if progress is not None:
                progress(f"loading {view}", done, len(slots))

        yield piece, shown
