"""What a view's maps hold before its program is given the rows of its tables: what they hold over none.

Over empty tables most maps are empty. One over relations with a row for every key is not: COUNT(*) of nothing
is a row, and a query over it may have rows, too. Those entries are where the placement puts them before the
first statement runs, and what the statements see change from there on is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from everfresh.distributed.plan.tags import Dist, Local
from everfresh.distributed.worker.execute import Site
from everfresh.distributed.worker.routing import owners
from everfresh.distributed.worker.wire import Held
from everfresh.local.batch.journal import Journal
from everfresh.local.batch.loading import load
from everfresh.local.batch.steps import Stepper
from everfresh.local.interpret.interpreter import PoolDelta
from everfresh.local.state import LocalState
from everfresh.local.store.entries import EntryStore

Ints = NDArray[np.int64]
Run = Callable[[], tuple[Journal, dict[str, Held]]]


def filled(
    site: Site, view: str, run: Run, before: Mapping[str, PoolDelta]
) -> tuple[Journal, dict[str, Held]]:
    """Add `before` to a place's maps (what takes out what is in them), put in what they hold over no rows,
    then run; all of it as one."""
    journal = Journal()
    try:
        add(site, before, journal)
        add(site, initial(site, view), journal)
        later, held = run()
    except BaseException:
        journal.rollback()
        raise
    return journal.then(later), held


def add(site: Site, deltas: Mapping[str, PoolDelta], journal: Journal) -> None:
    """Add to maps of a place beside a program; the change of a view that is a relation is noted."""
    _Filler(site.state.wiring, journal).run(deltas)


class _Filler(Stepper):
    def run(self, deltas: Mapping[str, PoolDelta]) -> None:
        self._pending = {name: [delta] for name, delta in deltas.items()}
        for unit in self._wiring.units:
            if unit.is_view:
                self._step(unit)
            else:
                self._plain(unit.maps)
        self._plain(deltas)

    def _plain(self, names: Iterable[str]) -> None:
        for name in names:
            for delta in self._pending.pop(name, ()):
                self._before[name] = self._add(self._wiring.stores(name), delta)


def initial(site: Site, view: str) -> dict[str, PoolDelta]:
    """What the maps of a view that are at a place hold while all tables are empty."""
    catalog = site.state.catalog
    program = catalog.views[view].compiled.program
    if not program.relations:  # products of tables
        return {}
    state = LocalState.blank(catalog, site.state.interner)
    load(state.wiring, view, program, None)  # type: ignore[arg-type]
    found = {}
    for m in program.maps:
        store = state._store(m.name)
        slots = _mine(site, m.name, store)
        if len(slots):
            found[m.name] = PoolDelta(store.words(slots), store.pool.gather(slots))
    return found


def _mine(site: Site, name: str, store: EntryStore) -> Ints:
    """The entries that belong to a place."""
    slots, tag = store.slots(), site.placement.maps[name]
    if isinstance(tag, Local) != (site.number < 0):
        return slots[:0]
    if not isinstance(tag, Dist):
        return slots
    vectors = store.codec.vectors(store.words(slots), tag.columns)
    mine: Ints = slots[owners([vectors[c] for c in tag.columns], len(slots), site.workers) == site.number]
    return mine
