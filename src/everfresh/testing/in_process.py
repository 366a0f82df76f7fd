"""Distributed programs in one process: W workers and a driver, each with a state of its own, exchanges in
memory.

The slow twin of the transport on Spark: temporaries travel as Arrow, so that nothing is shared but what was
sent. `gathered` puts the parts together again, `misplaced` says what lies where its placement does not put
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.compiler import Catalog
from everfresh.delta.bags import WEIGHT, expand, net, weigh
from everfresh.distributed.plan.compile import ALL, Passes, best, distributed
from everfresh.distributed.plan.ir import DRIVER, WORKERS, Block, DistributedProgram, Send, Temp
from everfresh.distributed.plan.placement import Limits, Placement
from everfresh.distributed.plan.tags import LOCAL, REPLICATED, Dist, Local, Replicated, Tag
from everfresh.distributed.worker.execute import Journal, Site, run_block
from everfresh.distributed.worker.routing import owners
from everfresh.distributed.worker.wire import (
    Held,
    empty,
    entries_table,
    entries_values,
    packed,
    routed,
    unpacked,
)
from everfresh.local import adhoc
from everfresh.local.state import LocalState
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Layout, Values
from everfresh.local.store.table import Net, Table
from everfresh.sql.logical import plan as p

Change = tuple[pa.Table, NDArray[np.int64]]
"""Rows of a table, and a weight for each."""


@dataclass
class Traffic:
    """What one batch sent: rows and temporaries between workers, to and from the driver; and how many of its
    statements ran as compiled code, and how many did not."""

    rows: int = 0
    sends: list[tuple[str, str, int]] = field(default_factory=list)
    stages: int = 0
    jobs: int = 0
    compiled: int = 0
    interpreted: int = 0


class InProcess:
    """The state of a catalog on W workers and a driver."""

    def __init__(
        self,
        workers: int,
        passes: Passes = ALL,
        given: Tag = REPLICATED,
        sizes: Mapping[str, int] | None = None,
        limits: Limits = Limits(),  # noqa: B008
        compile: str = "off",
    ) -> None:
        self.workers, self.passes, self.given, self.sizes = workers, passes, given, sizes
        self.limits, self.compile = limits, compile
        self.catalog = Catalog(joins=True)
        self.placement = Placement()
        self.sites: list[Site] = []
        self.traffic = Traffic()
        self.changes: dict[str, pa.Table] = {}
        """The changes that the last batch made to views, with `_weight`."""
        self._programs: dict[tuple[str, ...], DistributedProgram] = {}

    # -- the state as a whole ----------------------------------------------------------------------

    def scatter(self, whole: LocalState, by: Mapping[str, str] | None = None) -> None:
        """Take over the tables, views and maps of a state, each where it belongs."""
        self.catalog, self._programs = whole.catalog, {}
        sizes = {**whole.sizes(), **(self.sizes or {})}
        kept = Placement(
            {n: t for n, t in self.placement.tables.items() if n in whole.catalog.tables}, self.placement.maps
        )
        self.placement = best(self.catalog, sizes, by=by, kept=kept, limits=self.limits)
        self.sites = [
            Site(LocalState.blank(self.catalog), w, self.workers, self.placement, compile=self.compile)
            for w in (*range(self.workers), -1)
        ]
        for name, table in whole.tables.items():
            rows, counts = table.rows()
            names, tag = table.schema.names, self.placement.tables[name]
            for site, index in self._parts(
                tag, names, table.codec.vectors(table.codec.encode(rows)), len(counts)
            ):
                other = site.state.tables[name]
                other.commit(other.apply(Net(other.codec.encode(rows.take(index)), counts[index])))
        for name, store in whole.stores().items():
            slots = store.slots()
            words, values = store.words(slots), store.pool.gather(slots)
            keys, tag = [c.name for c in store.columns], self.placement.maps[name]
            packed_ = entries_table(store.codec, words, values)
            for site, index in self._parts(tag, keys, store.codec.vectors(words), len(slots)):
                other_ = site.state.stores()[name]
                other_.pool.put(*entries_values(other_.codec, other_.layout, packed_.take(pa.array(index))))
        for site in self.sites:
            site.state.created = dict(whole.created)

    def _parts(
        self, tag: Tag, names: Sequence[str], vectors: Mapping[str, object], rows: int
    ) -> Iterator[tuple[Site, NDArray[np.int64]]]:
        if isinstance(tag, Local):
            yield self.driver, np.arange(rows)
        elif isinstance(tag, Replicated):
            yield from ((site, np.arange(rows)) for site in self.sites[:-1])
        else:
            assert isinstance(tag, Dist)
            to = owners([vectors[c] for c in tag.columns], rows, self.workers)  # type: ignore[misc]
            yield from ((self.sites[w], np.flatnonzero(to == w)) for w in range(self.workers))

    @property
    def driver(self) -> Site:
        """The site of the driver."""
        return self.sites[-1]

    def gathered(self) -> LocalState:
        """All parts in one state."""
        whole = LocalState.blank(self.catalog)
        for name, tag in self.placement.tables.items():
            for site in self._having(tag):
                table, target = site.state.tables[name], whole.tables[name]
                rows, counts = table.rows()
                if len(counts):
                    target.commit(target.apply(Net(target.codec.encode(rows), counts)))
        stores = whole.stores()
        for name, tag in self.placement.maps.items():
            for site in self._having(tag):
                found = _entries(site.state.stores()[name])
                stores[name].pool.put(*entries_values(stores[name].codec, stores[name].layout, found))
        return whole

    def _having(self, tag: Tag) -> list[Site]:
        """The sites that together have what is at `tag`, each entry once."""
        if isinstance(tag, Local):
            return [self.driver]
        return self.sites[:1] if isinstance(tag, Replicated) else self.sites[:-1]

    def misplaced(self) -> list[str]:
        """What lies on a site that its placement does not put there, or differs where it should be alike."""
        found = []
        holders: list[tuple[str, Tag, list[Table | EntryStore]]] = [
            (n, tag, [s.state.tables[n] for s in self.sites]) for n, tag in self.placement.tables.items()
        ]
        holders += [
            (n, tag, [s.state.stores()[n] for s in self.sites]) for n, tag in self.placement.maps.items()
        ]
        for name, tag, parts in holders:
            if isinstance(tag, Local):
                found += [f"{name} on worker {w}" for w, part in enumerate(parts[:-1]) if len(part.pool)]
                continue
            if len(parts[-1].pool):
                found.append(f"{name} on the driver")
            if isinstance(tag, Replicated):
                found += [
                    f"{name} differs on worker {w}"
                    for w, part in enumerate(parts[1:-1], 1)
                    if not _same(parts[0], part)
                ]
                continue
            assert isinstance(tag, Dist)
            for w, part in enumerate(parts[:-1]):
                words = part.pool.keys_at(part.pool.live())
                vectors = part.codec.vectors(words, tag.columns)
                to = owners([vectors[c] for c in tag.columns], words.shape[1], self.workers)
                if (to != w).any():
                    found.append(f"{name} on worker {w}")
        return found

    # -- batches -----------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Change]) -> None:
        """Change tables by net changes that are known to be possible."""
        self.traffic, self.changes = Traffic(), {}
        journals: list[tuple[Site, Journal]] = []
        try:
            self._run(tuple(changes), changes, journals)
            done = dict.fromkeys(changes)
            for view in self.catalog.affected_by(changes):
                if view.compiled.reevaluated and done.keys() & set(view.compiled.bases):
                    if self._reevaluate(view.name, journals):
                        done[view.name] = None
                elif not view.compiled.reevaluated:
                    self._publish(view.name, journals)
                    if view.name in self.changes:
                        done[view.name] = None
        except BaseException:
            for _, journal in reversed(journals):
                journal.rollback()
            raise
        for _, journal in journals:
            journal.commit()
        for site in self.sites:
            site.state.reclaim()

    def program(self, changed: tuple[str, ...]) -> DistributedProgram:
        """The program of a batch that changes these tables."""
        if changed not in self._programs:
            self._programs[changed] = distributed(
                self.catalog, self.placement, changed, self.given, self.passes
            )
        return self._programs[changed]

    def _reevaluate(self, name: str, journals: list[tuple[Site, Journal]]) -> bool:
        """A view that is computed anew, on the driver; whether it has changed."""
        whole = self.gathered()
        definition = whole.maps[name].compiled.map.definition
        assert isinstance(definition, p.Plan)
        new, old = adhoc.execute(definition, whole.rows), expand(whole.maps[name].rows())
        change = net(pa.concat_tables([weigh(new), weigh(old, -1)]))
        weights = change.column(WEIGHT).to_numpy()
        if not len(weights):
            return False
        self._run((name,), {name: (change.drop_columns([WEIGHT]), weights)}, journals)
        self.changes[name] = change
        return True

    def _run(
        self, changed: tuple[str, ...], changes: Mapping[str, Change], journals: list[tuple[Site, Journal]]
    ) -> None:
        program = self.program(changed)
        self.traffic.stages += program.stages
        self.traffic.jobs += program.jobs
        there: list[dict[str, Held]] = [{} for _ in self.sites]
        before: list[dict[tuple[int, str], pa.Table]] = [{} for _ in self.sites]
        for name, temp in program.given:
            self._give(temp, *changes[name], there)
        for block in program.blocks:
            if block.mode in (WORKERS, DRIVER):
                for at, site in enumerate(self.sites):
                    if (site is self.driver) == (block.mode == DRIVER):
                        self._block(site, block, there[at], before[at], journals)
            else:
                for send in block.instructions:
                    assert isinstance(send, Send)
                    self._send(send, there)

    def _give(
        self, temp: Temp, rows: pa.Table, weights: NDArray[np.int64], there: list[dict[str, Held]]
    ) -> None:
        """A change as it arrives: all of it on every worker, or dealt out in turn."""
        for w, site in enumerate(self.sites[:-1]):
            index = np.arange(len(weights))
            if not isinstance(temp.tag, Replicated):
                index = index[index % self.workers == w]
            held = empty(temp, site.state.interner)
            words = held.codec.encode(rows.take(pa.array(index)))
            values = Values.zeros(Layout(()), len(index))
            values.n[:] = weights[index]
            there[w][temp.name] = Held(temp, held.codec, words, values)

    def _block(
        self,
        site: Site,
        block: Block,
        there: dict[str, Held],
        before: dict[tuple[int, str], pa.Table],
        journals: list[tuple[Site, Journal]],
    ) -> None:
        outputs, journal = run_block(site, block, {t.name: there[t.name] for t in block.inputs}, before)
        journals.append((site, journal))
        self.traffic.compiled += journal.compiled
        self.traffic.interpreted += journal.interpreted
        there.update(outputs)
        before.update(journal.handed)

    def _send(self, send: Send, there: list[dict[str, Held]]) -> None:
        source, target = send.source, send.target
        senders = [there[-1]] if isinstance(source.tag, Local) else there[:-1]
        senders = senders[:1] if isinstance(source.tag, Replicated) else senders
        pieces: list[list[pa.Table]] = [[] for _ in self.sites]
        for sender in senders:
            held = sender[source.name]
            if target.tag == LOCAL:
                parts = [(len(self.sites) - 1, held.aggregated(target))]
            else:
                parts = list(routed(held, target, self.workers))
            for to, part in parts:
                if len(part):
                    pieces[to].append(packed(part))
        total = sum(piece.num_rows for some in pieces for piece in some)
        self.traffic.rows += total
        self.traffic.sends.append((send.how, source.name, total))
        for at, site in enumerate(self.sites):
            if (site is self.driver) == (target.tag == LOCAL):
                there[at][target.name] = unpacked(target, pieces[at], site.state.interner)

    # -- reading -----------------------------------------------------------------------------------

    def _publish(self, name: str, journals: Sequence[tuple[Site, Journal]]) -> None:
        compiled = self.catalog.views[name].compiled
        target = compiled.map.name
        tables = []
        for site in self._having(self.placement.maps[target]):
            journal = Journal()
            for s, other in journals:
                if s is site:
                    journal.then(other)
            change = journal.published(site.state.maps[name], site.state.wiring.under)
            tables += [change.table] if change is not None else []
        found = [t for t in tables if t.num_rows]
        if found:
            self.changes[name] = pa.concat_tables(found)

    def rows(self, name: str) -> pa.Table:
        """The rows of a view, each as often as it is there."""
        target = self.catalog.views[name].compiled.map.name
        sites = self._having(self.placement.maps[target])
        if self.placement.maps[target] == Dist(()):
            sites = sites[:1]
        return pa.concat_tables([expand(site.state.maps[name].rows()) for site in sites])


def _entries(store: EntryStore) -> pa.Table:
    slots = store.slots()
    return entries_table(store.codec, store.words(slots), store.pool.gather(slots))


def _same(a: Table | EntryStore, b: Table | EntryStore) -> bool:
    def rows(x: Table | EntryStore) -> list[tuple[object, ...]]:
        slots = x.pool.live()
        table = entries_table(x.codec, x.pool.keys_at(slots), x.pool.gather(slots))
        return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)

    return rows(a) == rows(b)
