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
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.compiler import Catalog, Effect
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.program.domain import Domain, sections_of
from everfresh.spark.jobs import DRIVER, Base, Link, World
from everfresh.spark.programs import no_catalog, replayed
from everfresh.spark.units import snapshot_file, worker_of
from everfresh.state import Commit, Snapshot, StateFolder, crash, environment, read_commit

ROLES = ("base", "maps", "results")
_KEYS_KEPT = 10_000
_FIELDS = ("unit", "tag_in", "tag", "file", "snapshot", "rows", "bytes", "sizes")


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a snapshot began."""

    epoch: int
    log_bytes: int


class Ledger:
    """The committed state of a database on Spark, by name."""

    catalog: Catalog
    bases: dict[str, Base]
    stale: bool
    """Whether files are still there that a manifest has replaced."""

    def __init__(self, folder: StateFolder, options: Options, domains: Sequence[Domain] = ()) -> None:
        self.folder = folder
        self.options = options
        self.domains = tuple(domains)
        self.lock = threading.RLock()
        self._sweeping = threading.Lock()
        self._taking: set[str] = set()
        """Files of a snapshot in the making: nobody names them yet."""
        self.whole = False
        """Whether what is known is that of one epoch: not while it moves to the next, or if that was
        interrupted."""
        self.refresh()

    def _reset(self) -> None:
        before: Catalog | None = getattr(self, "catalog", None)
        self.epoch = 0
        self.digest = ""
        self._start()
        self.ids: dict[str, str] = {}
        self.sizes: dict[str, dict[str, int]] = {}
        """How many different rows of tables the units have, by unit and identity."""
        self.keys: OrderedDict[str, int] = OrderedDict()
        self.sources: dict[str, int] = {}
        self.snapshot_epoch = self._manifest_epoch = 0
        self.log_bytes = self.snapshot_bytes = 0
        self.stale = self.with_domains = False
        manifest = self._loaded()
        if manifest is None:
            return
        meta = manifest.meta
        self.epoch = self.snapshot_epoch = self._manifest_epoch = manifest.epoch
        self.with_domains = any(sections_of(domain, manifest.sections) for domain in self.domains)
        self.digest = meta["digest"]
        if before is not None and [text for _, text in before.ddl] == meta["ddl"]:
            self.catalog = before
        else:
            for entry in meta["ddl"]:
                self.catalog, _ = replayed(self.catalog, entry)
        self.ids = dict(meta["ids"])
        self.sizes = {unit: dict(known) for unit, known in meta["sizes"].items()}
        self.keys = OrderedDict((key, epoch) for key, epoch in meta["keys"])
        self.sources = dict(meta.get("sources", {}))
        self.snapshot_bytes = meta["bytes"]
        self.bases = {base.unit: base for base in map(Base.from_json, meta["bases"])}

    def _start(self) -> None:
        """Nothing yet."""
        self.catalog = no_catalog()
        units = [f"{role}/{worker}" for role in ROLES for worker in range(self.folder.workers)]
        self.bases = {unit: Base(unit) for unit in (*units, DRIVER)}

    def _loaded(self) -> Snapshot | None:
        """The newest manifest, taken by all domains. One that a writer replaces meanwhile may name files that
        are gone: then the one in its place is taken."""
        manifest = self.folder.snapshots.latest()
        while True:
            try:
                for domain in self.domains:
                    domain.load(sections_of(domain, manifest.sections) if manifest is not None else {})
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
            with self.lock:
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
        restarted = False
        last = self.folder.commits.last()
        if self.epoch < last and self._manifest_epoch < max(self.folder.snapshots.list(), default=0):
            self._reset()
        if self.folder.commits.last() < self.epoch:
            raise EverfreshError(
                Code.DAMAGED,
                f"the commit records of {self.folder.root} end before the manifest of epoch {self.epoch}",
                hint="restore the folder from a backup",
            )
        while self.epoch < last:
            commit = read_commit(self.folder.commits, self.epoch + 1)
            if commit is not None and commit.parent == self.digest:
                for domain in self.domains:
                    if own := sections_of(domain, commit.sections):
                        domain.replay(own)
                self._advance(commit)
                continue
            stuck, before = self.epoch, self.snapshot_epoch
            self._reset()
            if restarted and self.snapshot_epoch == before:
                raise EverfreshError(
                    Code.DAMAGED,
                    f"there is no commit record that takes epoch {stuck} to the next",
                    hint="restore the folder from a backup",
                )
            restarted = True

    def _advance(self, commit: Commit, made: tuple[Catalog, Effect] | None = None) -> None:
        """Take up a record; `made` is what its DDL statement does, where that is known."""
        for entry in commit.ddl:
            if made is None:
                made = replayed(self.catalog, entry)
            self.catalog, self.ids = made[0], self.ids_after(made[1], commit.epoch)
            made = None
        for part in commit.meta.get("parts", ()):
            self.bases[part["unit"]] = after(self.bases[part["unit"]], commit.epoch, part)
            self.log_bytes += part.get("bytes", 0)
            self.sizes.setdefault(part["unit"], {}).update(part.get("sizes", {}))
        for domain in self.domains:
            own = sections_of(domain, commit.sections)
            self.log_bytes += sum(memoryview(section).nbytes for section in own.values())
            self.with_domains |= bool(own)
        self.epoch, self.digest = commit.epoch, commit.digest
        self.sources.update(commit.sources)
        for key in commit.keys:
            self.keys[key] = commit.epoch
            if len(self.keys) > _KEYS_KEPT:
                self.keys.popitem(last=False)

    def ids_after(self, effect: Effect, epoch: int) -> dict[str, str]:
        """Identities after a DDL statement: what is created gets one with its epoch."""
        ids = {n: i for n, i in self.ids.items() if n not in (*effect.drop_tables, *effect.drop_views)}
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

    def commit(
        self,
        draft: Draft,
        *,
        keys: Sequence[str] = (),
        ddl: Sequence[str] = (),
        sources: Mapping[str, int] | None = None,
        made: tuple[Catalog, Effect] | None = None,
    ) -> int:
        """Make the next epoch: one record, created only if absent. Whoever loses that race stops."""
        record = Commit(
            draft.epoch,
            self.digest,
            keys=tuple(keys),
            ddl=tuple(ddl),
            sources=sources or {},
            meta={"parts": draft.parts},
            sections=draft.sections,
        )
        fault, scratch = self.options.fault, self.folder.scratch
        crash("before-commit", fault, scratch=scratch)
        self.whole = False
        try:
            if not self.folder.commits.create(record.epoch, record.encode()):
                raise EverfreshError(
                    Code.FENCED,
                    f"epoch {record.epoch} was committed by another writer",
                    hint="this handle is out of date: close it and open the database again",
                )
            # A record that was trimmed while this process slept could be made again.
            self.folder.check_writer()
        except EverfreshError:
            self.whole = True  # it stays where it is
            raise
        except OSError as error:  # whether the record is there is looked up before anything else is done
            raise environment(error, f"epoch {record.epoch} was not written") from error
        crash("after-commit", fault, scratch=scratch)
        with self.lock:
            self._advance(record, made)
        self.whole = True
        return self.epoch

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot_due(self) -> bool:
        """Whether replaying the log has become dearer than loading a snapshot."""
        many = self.epoch - self.snapshot_epoch >= self.options.snapshot_epochs
        return many or self.log_bytes > max(self.options.snapshot_bytes, self.snapshot_bytes // 3)

    def mark(self) -> Mark:
        """A snapshot begins."""
        with self.lock:
            return Mark(self.epoch, self.log_bytes)

    def to_take(self, workers: Iterable[int], driver: bool = False) -> tuple[World, dict[str, Base]]:
        """What a snapshot writes of some workers' units, or of the driver's: those that have changed since
        their last, as they are committed now. Their files are no garbage until the snapshot is abandoned."""
        wanted = set(workers)
        with self._sweeping, self.lock:
            found = {
                unit: base
                for unit, base in self.bases.items()
                if (driver if unit == DRIVER else worker_of(unit) in wanted) and _moved(base)
            }
            self._taking |= {snapshot_file(unit, base.version) for unit, base in found.items()}
            return self.world(self.epoch), found

    def abandon(self) -> None:
        """No manifest will name the files of the snapshot that was begun."""
        with self.lock:
            self._taking.clear()

    def take_manifest(self, taken: Mapping[str, Link], since: Mark) -> None:
        """Name the units' new snapshots. What they replace is `stale`; `collect` removes it."""
        with self.lock:
            epoch, bases = self.epoch, self._compacted(taken, self.epoch)
            meta: dict[str, Any] = {
                "ddl": [text for _, text in self.catalog.ddl],
                "ids": dict(self.ids),
                "keys": list(self.keys.items()),
                "sources": dict(self.sources),
                "digest": self.digest,
                "sizes": {unit: self._known(known) for unit, known in self.sizes.items()},
            }
        files = [base.snapshot.file for base in bases.values() if base.snapshot is not None]
        meta["bases"] = [base.to_json() for base in bases.values()]
        meta["bytes"] = size = sum(map(self._size, files))
        crash("before-manifest", self.options.fault, scratch=self.folder.scratch)
        sections: dict[str, Any] = {}
        for domain in self.domains if self.with_domains else ():
            sections.update(domain.to_sections())
        self.folder.check_writer()
        self.folder.snapshots.write(epoch, sections, meta)
        crash("after-manifest", self.options.fault, scratch=self.folder.scratch)
        with self.lock:
            self.bases = self._compacted(taken, epoch)  # batches may have come meanwhile
            self.snapshot_epoch, self._manifest_epoch, self.snapshot_bytes = since.epoch, epoch, size
            self.log_bytes -= since.log_bytes
            self.stale = True

    def _size(self, file: str) -> int:
        size = self.folder.store.size(f"parts/{file}")
        if size is None:
            raise FileNotFoundError(f"{self.folder.root}/parts/{file}")
        return size

    def _compacted(self, taken: Mapping[str, Link], epoch: int) -> dict[str, Base]:
        """The versions now, from new snapshots on and with what the history of `epoch` needs before, which is
        the manifest's: what it names must stay. A unit that was written anew since keeps its snapshot."""
        oldest = epoch - self.options.history
        found = {}
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


class Draft:
    """An epoch in the making: the versions its jobs have reached, and what its commit record will name."""

    def __init__(self, ledger: Ledger) -> None:
        self.epoch = ledger.epoch + 1
        self.bases = dict(ledger.bases)
        self.parts: list[dict[str, Any]] = []
        self.sections: dict[str, Any] = {}

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
