"""What the driver knows: the catalog, and for every state unit the chain of segments that makes its current
version.

Commit records are the truth. A ledger is rebuilt from the newest manifest (a snapshot without contents of
its own: it names the units' files) and the records after it, by a reader and a writer alike. It never opens
a unit.

A snapshot may be taken beside batches. The manifest of epoch m then names, of each unit, a snapshot of some
epoch up to m and the segments since. Batches change the ledger in one thread, snapshots in another: `lock`
is held for what must be seen together, and never while a file is written.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.compiler import Catalog, Effect
from everfresh.epochs import Domain, EpochDraft, EpochSteps, Making, Objects, Timeline
from everfresh.epochs.domain import sections_of, sql_entries
from everfresh.errors import EverfreshError
from everfresh.options import Options
from everfresh.spark.jobs.job import DRIVER, Base, Bases, Job, Link, World
from everfresh.spark.jobs.programs import no_catalog, replayed
from everfresh.spark.jobs.stages import RESULTS
from everfresh.spark.state.chain import snapshot_file
from everfresh.spark.state.content import known, worker_of
from everfresh.spark.state.table_content import TABLE_ROLES
from everfresh.state import Commit, Snapshot, StateFolder, crash, environment

_FIELDS = ("unit", "tag_in", "tag", "file", "snapshot", "rows", "bytes", "sizes")


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a snapshot began."""

    epoch: int
    log_bytes: int


class Ledger:
    """The committed state of a database on Spark, by name."""

    catalog: Catalog
    bases: Bases
    stale: bool
    """Whether files are still there that a manifest has replaced."""

    def __init__(self, folder: StateFolder, options: Options, domains: Sequence[Domain] = ()) -> None:
        self.folder = folder
        self.options = options
        self.objects = Objects(domains)
        self.catalog = no_catalog()
        self.lock = threading.RLock()
        self._sweeping = threading.Lock()
        self.timeline = Timeline()
        self._taking: set[str] = set()
        """Files of a snapshot in the making: nobody names them yet."""
        self.whole = False
        """Whether what is known is that of one epoch: not while it moves to the next, or if that was
        interrupted."""
        self.refresh()

    @property
    def epoch(self) -> int:
        """The last committed epoch that is known."""
        return self.timeline.epoch

    def _reset(self) -> None:
        before = self.catalog
        self.timeline.begin()
        self._start()
        self.ids: dict[str, str] = {}
        self.sizes: dict[str, dict[str, int]] = {}
        """How many different rows of tables the units have, by unit and identity."""
        self._manifest_epoch = 0
        self.stale = False
        manifest = self._loaded()
        if manifest is None:
            return
        meta = manifest.meta
        self.timeline.load(manifest.epoch, meta, meta["bytes"])
        self._manifest_epoch = manifest.epoch
        if [text for _, text in before.ddl] == meta["ddl"]:
            self.catalog = before
        else:
            for entry in meta["ddl"]:
                self.catalog, _ = replayed(self.catalog, entry)
        self.ids = dict(meta["ids"])
        self.sizes = {unit: dict(known) for unit, known in meta["sizes"].items()}
        self.bases.update({base.unit: base for base in map(Base.from_json, meta["bases"])})

    def _start(self) -> None:
        """Nothing yet."""
        self.catalog = no_catalog()
        roles = TABLE_ROLES[: RESULTS + 1]  # of later stages, units are there once they have something
        units = [f"{role.name}/{worker}" for role in roles for worker in range(self.folder.workers)]
        self.bases = Bases({unit: Base(unit) for unit in (*units, DRIVER)})

    def _loaded(self) -> Snapshot | None:
        """The newest manifest, taken by all domains. One that a writer replaces meanwhile may name files that
        are gone: then the one in its place is taken."""
        manifest = self.folder.snapshots.latest()
        while True:
            try:
                for name, domain in self.objects.domains.items():
                    if manifest is None:
                        domain.load({}, 0)
                    else:
                        domain.load(sections_of(name, manifest.sections), manifest.epoch)
                return manifest
            except EverfreshError:
                newest = self.folder.snapshots.latest()
                if newest is None or manifest is None or newest.epoch <= manifest.epoch:
                    raise
                manifest = newest

    def refresh(self) -> None:
        """Follow the commit records. A handle whose next record was trimmed starts again from the newest
        manifest; so does one that sees a new manifest, since what that replaced is about to go."""
        if not self.whole:  # somebody was interrupted in here, or in a change of what domains keep
            with self.objects.still(), self.lock:  # in this order everywhere
                self.folder.check_writer()
                self.folder.commits.reopen()
                self._reset()
                self._follow()
                self.whole = True
        elif self.folder.read_only:
            self.whole = False
            self._follow()
            self.whole = True

    def _follow(self) -> None:
        commits, root, again = self.folder.commits, self.folder.root, False

        def restart() -> bool:
            nonlocal again
            before, tried, again = self.timeline.snapshot_epoch, again, True
            self._reset()
            return not tried or self.timeline.snapshot_epoch != before

        last = commits.last()
        if self.epoch < last and self._manifest_epoch < max(self.folder.snapshots.list(), default=0):
            self._reset()
        self.timeline.check_end(commits.last(), root)
        self.timeline.follow(commits, last, self._replay, restart, root)

    def _replay(self, commit: Commit) -> None:
        """Take up the record of an epoch that this process has not made."""
        with EpochSteps(self.objects, Making(commit.epoch)) as steps:
            steps.again(commit.ddl, commit.sections)
            steps.commit()
        self._advance(commit)

    def _advance(self, commit: Commit, made: tuple[Catalog, Effect] | None = None) -> None:
        """Take up a record; `made` is what its DDL statement does, where that is known."""
        for entry in sql_entries(commit.ddl):
            if made is None:
                made = replayed(self.catalog, entry)
            self.catalog, self.ids = made[0], self.ids_after(made[1], commit.epoch)
            made = None
        named = 0
        for part in commit.meta.get("parts", ()):
            self.bases[part["unit"]] = after(self.bases[part["unit"]], commit.epoch, part)
            self.sizes.setdefault(part["unit"], {}).update(part.get("sizes", {}))
            if part["file"] is not None and not part["file"].startswith("#"):
                named += part["bytes"]
        self.timeline.advance(commit, named)

    def ids_after(self, effect: Effect, epoch: int) -> dict[str, str]:
        """Identities after a DDL statement: what is created gets one with its epoch."""
        ids = {n: i for n, i in self.ids.items() if n not in (*effect.drop_tables, *effect.drop_views)}
        old, new = effect.redeclare or (None, None)
        moved = effect.rename or ((old.name, new.name) if old is not None and new is not None else None)
        if moved is not None and moved[0] in ids:
            ids[moved[1]] = ids.pop(moved[0])
        created = effect.create_table or effect.create_view
        if created is None and effect.alter_table is not None and not effect.alter_table[1].key:
            created = effect.alter_table[
                1
            ]  # rows without a key belong to workers by all their columns: they move
        if created is not None:
            ids[created.name] = f"{created.name}@{epoch}"
        return ids

    def created(self, name: str) -> int:
        """The epoch in which a table or view was created."""
        return int(self.ids[name].rsplit("@", 1)[1])

    def world(
        self, epoch: int, catalog: Catalog | None = None, ids: Mapping[str, str] | None = None
    ) -> World:
        """What tasks are told about the database."""
        catalog = catalog or self.catalog
        ddl = tuple(text for _, text in catalog.ddl)
        options = self.options
        world = World(
            self.folder.root,
            self.folder.id,
            self.folder.workers,
            ddl,
            dict(ids if ids is not None else self.ids),
            frozenset(self.ids.values()),
            epoch,
            options.inline_bytes,
            options.durable,
            options.fault,
            options.compile,
        )
        world.know(catalog)
        return world

    def table_sizes(self) -> dict[str, int]:
        """How many different rows each table has."""
        known = self.sizes.values()
        return {name: sum(of.get(self.ids[name], 0) for of in known) for name in self.catalog.tables}

    # -- commit ------------------------------------------------------------------------------------

    def commit(self, draft: Draft, made: tuple[Catalog, Effect] | None = None) -> int:
        """Make the next epoch: one record, created only if absent. Whoever loses that race stops."""
        draft.ddl = (*draft.ddl, *draft.steps.ddl)
        draft.sections.update(draft.steps.sections())
        fault, scratch = self.options.fault, self.folder.scratch
        crash("before-commit", fault, scratch=scratch)
        self.whole = False
        try:
            (record,) = self.timeline.write(self.folder.commits, [draft])
            # A record that was trimmed while this process slept could be made again.
            self.folder.check_writer()
        except EverfreshError:
            self.whole = True  # it stays where it is
            raise
        except OSError as error:  # whether the record is there is looked up before anything else is done
            raise environment(error, f"epoch {draft.epoch} was not written") from error
        crash("after-commit", fault, scratch=scratch)
        with self.lock:
            draft.steps.commit()
            self._advance(record, made)
        self.whole = True
        return self.epoch

    # -- snapshots ---------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """A snapshot begins."""
        with self.lock:
            return Mark(self.epoch, self.timeline.log_bytes)

    def to_take(self, workers: Iterable[int], driver: bool = False) -> tuple[World, dict[str, Base]]:
        """What a snapshot writes of some workers' units, or of the driver's: those that have changed since
        their last, as they are committed now. Their files are no garbage until the snapshot is abandoned."""
        wanted = set(workers)
        with self._sweeping, self.lock:
            found = {
                unit: base
                for unit, base in self.bases.items()
                if (driver if unit == DRIVER else worker_of(unit) in wanted) and _moved(base) and known(unit)
            }
            self._taking |= {snapshot_file(unit, base.version) for unit, base in found.items()}
            return self.world(self.epoch), found

    def abandon(self) -> None:
        """No manifest will name the files of the snapshot that was begun."""
        with self.lock:
            self._taking.clear()

    def take_manifest(self, taken: Mapping[str, Link], since: Mark) -> None:
        """Name the units' new snapshots. What they replace is `stale`; `collect` removes it."""
        sections: dict[str, Any] = {}
        with self.objects.still():  # what they hold is of the epoch of the manifest
            with self.lock:
                epoch, bases = self.epoch, self._compacted(taken, self.epoch)
                meta: dict[str, Any] = {
                    **self.timeline.to_meta(),
                    "ddl": [text for _, text in self.catalog.ddl],
                    "ids": dict(self.ids),
                    "sizes": {unit: self._known(known) for unit, known in self.sizes.items()},
                }
            for domain in self.objects.domains.values():
                sections.update(domain.to_sections())
        files = [base.snapshot.file for base in bases.values() if base.snapshot is not None]
        meta["bases"] = [base.to_json() for base in bases.values()]
        meta["bytes"] = size = sum(map(self._size, files))
        crash("before-manifest", self.options.fault, scratch=self.folder.scratch)
        self.folder.check_writer()
        self.folder.snapshots.write(epoch, sections, meta)
        crash("after-manifest", self.options.fault, scratch=self.folder.scratch)
        with self.lock:
            self.bases = self._compacted(taken, epoch)  # batches may have come meanwhile
            self.timeline.taken(since.epoch, since.log_bytes, size)
            self._manifest_epoch = epoch
            self.stale = True

    def _size(self, file: str) -> int:
        size = self.folder.store.size(f"parts/{file}")
        if size is None:
            raise FileNotFoundError(f"{self.folder.root}/parts/{file}")
        return size

    def _compacted(self, taken: Mapping[str, Link], epoch: int) -> Bases:
        """The versions now, from new snapshots on and with what the history of `epoch` needs before, which is
        the manifest's: what it names must stay. A unit that was written anew since keeps its snapshot."""
        oldest = epoch - self.options.history
        found = Bases()
        for unit, base in self.bases.items():
            link = taken.get(unit)
            ours = link is not None and base.path_from((link.epoch, link.tag)) is not None
            snapshot = link if ours else base.snapshot
            reach = min(oldest, snapshot.epoch if snapshot is not None else 0)
            found[unit] = Base(unit, snapshot, base.since(reach))
        return found

    def collect(self, new_term: bool = False) -> None:
        """Remove what no version within reach needs: old manifests, records and files. What was read of the
        database before the last commit may need them."""
        with self._sweeping:
            with self.lock:
                epoch, referenced, self.stale = self.epoch, self.referenced(), False
                inlined = [
                    link.epoch for base in self.bases.values() for link in base.links if link.file[0] == "#"
                ]
                below = 1 + min(epoch - self.options.history, self._manifest_epoch)
            try:
                self.folder.check_writer()
                self.folder.snapshots.drop(epoch)
                self.folder.commits.trim(min([below, *inlined]))
                self.folder.remove_garbage(referenced, epoch, new_term)
            except BaseException:
                self.stale = True
                raise

    def nothing_removed(self) -> threading.Lock:
        """What is held while no file may go."""
        return self._sweeping

    def clean(self, epoch: int) -> None:
        """Remove what an epoch that will not be has left."""
        with self._sweeping:
            with self.lock:
                referenced = self.referenced()
            self.folder.remove_garbage(referenced, epoch)

    def _known(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Of sizes, those of tables that are still there."""
        there = set(self.ids.values())
        return {identity: rows for identity, rows in sizes.items() if identity in there}

    def referenced(self) -> set[str]:
        """The files that some version within reach needs, or a snapshot in the making."""
        return self._taking | {
            link.file
            for base in self.bases.values()
            for link in _links(base)
            if not link.file.startswith("#")
        }


class Draft(EpochDraft):
    """An epoch in the making: the versions its jobs have reached, and what its commit record will name."""

    sections: dict[str, Any]

    def __init__(self, ledger: Ledger) -> None:
        self.parts: list[dict[str, Any]] = []
        super().__init__(ledger.epoch + 1, meta={"parts": self.parts}, sections={})
        self.bases = Bases(ledger.bases)
        self.steps = EpochSteps(ledger.objects, Making(self.epoch, weakref.proxy(self)))
        """What other domains do in the epoch. It does not hold the draft: what an epoch was given goes with
        the draft when the epoch is over, and does not wait until cycles are looked for."""
        self._ledger = ledger

    def job(self, kind: str, world: World | None = None, **fields: Any) -> Job:
        """A job from the versions reached so far, in the database as it is or in another world."""
        world = world or self._ledger.world(self.epoch)
        return Job(uuid.uuid4().hex, kind, world.left(), self.bases, **fields)

    def add(self, controls: Iterable[tuple[dict[str, Any], Any]]) -> None:
        """Take up what the tasks of a job reported; small segments go into the record."""
        for header, segment in controls:
            part = {name: header[name] for name in _FIELDS if name in header}
            data = bytes(segment) if segment is not None else None
            if data is not None:
                index = sum(known["unit"] == part["unit"] for known in self.parts)
                part["file"] = f"#{index}"
                self.sections[f"segment/{part['unit']}#{index}"] = data
            self.parts.append(part)
            self.bases[part["unit"]] = after(self.bases[part["unit"]], self.epoch, part, data)


def after(base: Base, epoch: int, part: Mapping[str, Any], data: bytes | None = None) -> Base:
    """The version of a unit after a step that its task reported."""
    if part.get("snapshot") is not None:  # the unit was written anew: its chain starts here
        return Base(base.unit, Link(epoch, part["tag"], part["snapshot"]))
    if part["tag"] == part["tag_in"]:
        return base
    return base.then(Link(epoch, part["tag"], part["file"], data))


def _moved(base: Base) -> bool:
    """Whether a unit is not as its last snapshot has it."""
    last = base.snapshot
    return last is None or base.version != (last.epoch, last.tag)


def _links(base: Base) -> Iterable[Link]:
    return (*base.links, base.snapshot) if base.snapshot is not None else base.links
