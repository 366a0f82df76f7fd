"""A database in a store that is no folder: its commit records, manifests, terms and garbage.

There are no locks in such a store. Whoever opens it to write begins a term; a writer looks after each commit,
before a manifest and before it removes anything whether a later term has begun, and stops if so. Commits do
not rest on that: a record is created if absent, so of two writers one has the epoch and the other is told.

Invariant: nothing is removed that a record of a later epoch could name: the epoch of another writer may be on
its way. So what a writer that died left of such an epoch goes once that epoch has been committed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import uuid
from collections.abc import Iterable, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state.commits import EpochFiles
from everfresh.state.faults import FLAG, crash
from everfresh.state.files import seal
from everfresh.state.folder import PARTITION_HASH, PARTITION_SEED, Format, StateFolder, epoch_of_part
from everfresh.state.reached import Reached
from everfresh.state.snapshots import KIND, Snapshot, SnapshotStore, opened
from everfresh.state.stores import Store, scratch_of, store_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NUMBER = re.compile(r"\w+/(\d{10})")
_FORMAT, _COMMITS, _SNAPS, _TERMS, _INBOX = "FORMAT", "commits", "snaps", "terms", "inbox"


def _numbers(store: Store, folder: str) -> list[int]:
    found = map(_NUMBER.fullmatch, store.names(folder))
    return sorted(int(match[1]) for match in found if match)


_SECONDS = 60.0  # between two marks: a put takes longer than a file


class StoreCommits(EpochFiles):
    """Records in a store that is no folder."""

    def __init__(
        self, store: Store, writer: bool = True, fault: str | None = None, reached: Reached | None = None
    ) -> None:
        self._store, self._fault = store, fault
        super().__init__(store.root, writer, reached)

    def read(self, epoch: int) -> bytes | None:
        """Read the record."""
        try:
            return self._store.read(self._name(epoch))
        except FileNotFoundError:
            return None

    def name(self, epoch: int) -> str:
        """Where the record is."""
        return f"{self._store.root}/{self._name(epoch)}"

    def _name(self, epoch: int) -> str:
        return f"{_COMMITS}/{epoch:010d}"

    def _put(self, epoch: int, data: bytes) -> bool:
        """One that is there and the same is ours, and the answer was lost."""
        crash("mid-commit", self._fault, scratch=scratch_of(self._store.root))
        name = self._name(epoch)
        return self._store.create(name, data) or self._store.read(name) == data

    def _there(self, epoch: int) -> bool:
        return self._store.size(self._name(epoch)) is not None

    def _numbers(self) -> list[int]:
        return _numbers(self._store, _COMMITS)

    def _remove(self, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            self._store.remove(self._name(epoch))


class StoreSnapshots(SnapshotStore):
    """The manifests of a database in a store."""

    def __init__(self, store: Store, fault: str | None = None) -> None:
        super().__init__(Path(_SNAPS), durable=True, fault=fault)
        self._store = store

    def write(self, epoch: int, sections: Mapping[str, Buffer], meta: dict[str, Any]) -> None:
        """Put the manifest of an epoch in place."""
        data = seal(KIND, {"epoch": epoch, "meta": meta}, sections)
        crash("mid-snapshot", self._fault, scratch=scratch_of(self._store.root))
        self._store.replace(f"{_SNAPS}/{epoch:010d}", data)

    def list(self) -> list[int]:
        """The epochs there are manifests of, in order."""
        return _numbers(self._store, _SNAPS)

    def drop(self, below_epoch: int) -> None:
        """Remove what is older than the newest at or below an epoch."""
        for epoch in [epoch for epoch in self.list() if epoch <= below_epoch][:-1]:
            self._store.remove(f"{_SNAPS}/{epoch:010d}")

    def _open(self, epoch: int, older: int | None) -> Snapshot:
        name = f"{_SNAPS}/{epoch:010d}"
        return opened(self._store.read(name), f"{self._store.root}/{name}", epoch, older)


class WriterTerm:
    """The time of one writer; it ends when another begins."""

    def __init__(self, store: Store) -> None:
        self._store = store
        who = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._number = max(_numbers(store, _TERMS), default=0) + 1
        while not store.create(self._name(self._number), json.dumps(who).encode()):
            self._number += 1

    def check(self) -> None:
        """Raise if it has ended."""
        try:
            other = json.loads(self._store.read(self._name(self._number + 1)))
        except FileNotFoundError:
            return
        raise EverfreshError(
            Code.FENCED,
            f"{self._store.root} is being written by process {other['pid']} on host {other['host']} "
            f"since {other['since']}",
            hint="this handle is out of date: close it and open the database again",
        )

    def _name(self, number: int) -> str:
        return f"{_TERMS}/{number:010d}"


class RemoteFolder(StateFolder):
    """The state of one database in a store that is no folder; made by `StateFolder.open`."""

    def __init__(self, store: Store, stored: Format, *, options: Options, term: WriterTerm | None) -> None:
        super().__init__(
            store.root,
            stored,
            commits=StoreCommits(store, term is not None, options.fault, Reached(store, True, _SECONDS)),
            snapshots=StoreSnapshots(store, options.fault),
            options=options,
            lock=None,
        )
        self.read_only = term is None
        self._term = term

    @staticmethod
    def open_at(root: str, *, engine: str, workers: int, options: Options, read_only: bool) -> RemoteFolder:
        """Open or create a database there."""
        store = store_of(root)
        if not (read_only or store.exclusive or options.single_writer):
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"'{root}' cannot hold off a second writer: it has no conditional put",
                hint="if nothing else will ever write it at the same time, say Options(single_writer=True)",
            )
        if store.size(_FORMAT) is None:
            if read_only:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"there is no database at {root}",
                    hint="open it without read_only to create one",
                )
            if store.names(""):
                raise EverfreshError(
                    Code.FORMAT,
                    f"{root} is not empty, and is not a folder of everfresh",
                    hint="give the place of a new one",
                )
            new = Format(engine, workers, str(uuid.uuid4()), PARTITION_HASH, PARTITION_SEED)
            store.create(_FORMAT, new.text())
        stored = Format.read(store.read(_FORMAT), f"{root}/{_FORMAT}", root, read_only)
        stored.require(engine, root)
        return RemoteFolder(store, stored, options=options, term=None if read_only else WriterTerm(store))

    @property
    def path(self) -> Path:
        """There is none."""
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"streams are kept in a folder, and {self.root} is none",
            hint="open a database at a path for them",
        )

    def check_writer(self) -> None:
        """Raise if another writer has begun."""
        if self._term is not None:
            self._term.check()

    def remove_garbage(
        self, referenced: Set[str] = frozenset(), last_epoch: int | None = None, new_term: bool = False
    ) -> list[str]:
        """Remove files in `parts/` of an epoch up to `last_epoch` that nobody names, and (`new_term`) what
        jobs were told."""
        if self._term is None:
            raise EverfreshError(Code.READ_ONLY, "only the writer of a database removes garbage")
        self.check_writer()
        found = []
        for name in self.store.names("parts") if last_epoch is not None else ():
            file = name.removeprefix("parts/")
            epoch = epoch_of_part(file.rpartition("/")[2])
            if epoch is None or epoch > (last_epoch or 0) or file in referenced:
                continue
            if new_term or not name.endswith(".tmp"):  # a task may be writing it
                found.append(name)
        if new_term:
            found += [name for name in self.store.names(_INBOX) if not name.startswith(f"{_INBOX}/{FLAG}")]
        for name in found:
            crash("mid-gc", self._options.fault, scratch=self.scratch)
            self.store.remove(name)
        return found
