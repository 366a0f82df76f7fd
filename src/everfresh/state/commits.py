"""Where commit records are kept: the protocol, and the store with one file per epoch.

Implements "Files of a folder" of docs/design/state.md. `FileCommits` serves databases on Spark, whose
tasks read records by themselves; `LogCommits` (`everfresh.state.log`) serves the local engine, where one
write to an open file is all that a commit may cost. `StoreCommits` (`everfresh.state.remote`) keeps them in
an object store: `create` is a conditional put there.

Invariant: epochs are numbered densely; an epoch is committed when its record is there, whole, and a record
that was created never changes. Whoever loses the race for an epoch is told so by `create`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from everfresh.errors import Code, EverfreshError
from everfresh.state.faults import crash
from everfresh.state.files import create_file, is_cut_short, sync_folder
from everfresh.state.log import LogCommits
from everfresh.state.reached import Reached
from everfresh.state.record import Commit

__all__ = ["CommitStore", "EpochFiles", "FileCommits", "LogCommits", "read_commit"]

_NAME = re.compile(r"\d{10}")
_PREFIX_BYTES = 64  # more than the fixed part of a sealed file


class CommitStore(Protocol):
    """The records of the committed epochs of one database."""

    def create(self, epoch: int, data: bytes) -> bool:
        """Commit an epoch by its sealed record, atomically; False when that epoch was committed before."""
        ...

    def create_all(self, first: int, records: Sequence[bytes]) -> bool:
        """Commit `first` and the epochs after it together: all of them, or none."""
        ...

    def read(self, epoch: int) -> bytes | None:
        """The record of an epoch; None when it is not committed or no longer kept."""
        ...

    def name(self, epoch: int) -> str:
        """Where the record of an epoch is kept, for messages."""
        ...

    def last(self) -> int:
        """The last committed epoch, 0 for none. Sees those of other processes; cheap enough to poll."""
        ...

    def first(self) -> int:
        """The lowest epoch whose record is kept; one more than `last()` when none is."""
        ...

    def rotate(self) -> None:
        """A snapshot was taken: keep the records from here on apart, so that those before can be trimmed."""
        ...

    def trim(self, below: int) -> None:
        """Forget records of epochs below that one, as far as the store can; `last()` stays known."""
        ...

    def reopen(self) -> None:
        """Forget what is known of the records, and look again."""
        ...

    def close(self) -> None:
        """Let go of open files."""
        ...


def read_commit(store: CommitStore, epoch: int) -> Commit | None:
    """The decoded record of an epoch; a record of another epoch under its name is damage."""
    data = store.read(epoch)
    if data is None:
        return None
    commit = Commit.decode(data, store.name(epoch))
    if commit.epoch != epoch:
        raise EverfreshError(
            Code.DAMAGED,
            f"{store.name(epoch)} holds the record of epoch {commit.epoch}, not {epoch}",
            hint="restore the file from a backup of the folder",
        )
    return commit


class EpochFiles:
    """Records that are one file each, created if absent; more than one process may try. Where the files are
    is said by a subclass."""

    def __init__(self, where: str | Path, writer: bool, reached: Reached | None) -> None:
        self._where = where
        self._writer = writer
        self._lock = threading.Lock()
        self._last: int | None = None  # None: not listed yet
        self._reached = reached
        if reached is not None:
            reached.check(self.last())

    # -- what a subclass says ----------------------------------------------------------------------

    def _put(self, epoch: int, data: bytes) -> bool:
        """Create a record's file; False if there was one."""
        raise NotImplementedError

    def _there(self, epoch: int) -> bool:
        """Whether there is a file of an epoch."""
        raise NotImplementedError

    def _is_whole(self, epoch: int) -> bool:
        """Whether there is one, and it was not cut short."""
        return self._there(epoch)

    def _numbers(self) -> list[int]:
        """The epochs that have files, in order."""
        raise NotImplementedError

    def _remove(self, epochs: Iterable[int]) -> None:
        """Remove the files of these epochs, one after the other."""
        raise NotImplementedError

    # -- records -----------------------------------------------------------------------------------

    def create(self, epoch: int, data: bytes) -> bool:
        """Create the record's file; whoever is first has the epoch."""
        self._require_writer()
        last = self.last()
        if epoch <= last:
            return False
        if epoch != last + 1:
            raise ValueError(f"epoch {epoch} cannot follow epoch {last}: epochs are dense")
        created = self._put(epoch, data)
        if created and self._reached is not None:
            self._reached.passed(epoch)
        return created

    def create_all(self, first: int, records: Sequence[bytes]) -> bool:
        """One at a time: there is no way to take two names at once."""
        if len(records) != 1:
            raise ValueError("epochs in files of their own are committed one at a time")
        return self.create(first, records[0])

    def last(self) -> int:
        """Probe for the number after the last one known; list the files only at first."""
        with self._lock:
            # Nobody trims the last record, so one that is gone means that this process slept through many.
            if self._last is None or (self._last and not self._there(self._last)):
                self._last = self._listed()[1]
            while self._is_whole(self._last + 1):
                self._last += 1
            return self._last

    def first(self) -> int:
        """List the files."""
        return self._listed()[0]

    def rotate(self) -> None:
        """Nothing to do: every record is apart."""

    def trim(self, below: int) -> None:
        """Remove files upwards from the lowest, so that what is left is dense at every moment."""
        self._require_writer()
        first, last = self._listed()
        self._remove(range(first, min(below, last)))

    def reopen(self) -> None:
        """List the files again."""
        with self._lock:
            self._last = None

    def close(self) -> None:
        """Nothing is held open."""
        if self._writer and self._reached is not None:
            self._reached.write(self.last())

    def _require_writer(self) -> None:
        if not self._writer:
            raise EverfreshError(Code.READ_ONLY, "the database is open for reading only")

    def _listed(self) -> tuple[int, int]:
        """The first and the last epoch there is a whole record of."""
        while True:
            found = self._numbers()
            if not found:
                return 1, 0  # a reader may come before the first commit
            first, last = found[0], found[-1]
            missing = sorted(set(range(first, last)).difference(found))
            if not missing:
                return first, last if self._is_whole(last) else last - 1
            # A listing that overlaps with a trim has holes. Trims go upwards: none runs if the lowest stays.
            if self._there(first):
                raise EverfreshError(
                    Code.DAMAGED,
                    f"commit records are missing in {self._where}: {', '.join(map(str, missing[:10]))}",
                    hint="restore them from a backup of the folder",
                )


class FileCommits(EpochFiles):
    """Records in files of a folder: `commits/0000000042`."""

    def __init__(
        self,
        folder: Path,
        durable: bool,
        writer: bool = True,
        fault: str | None = None,
        reached: Reached | None = None,
    ) -> None:
        self._folder = folder / "commits"
        self._durable, self._fault = durable, fault
        if writer:
            self._folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self._folder, writer, reached)

    def read(self, epoch: int) -> bytes | None:
        """Read the record's file; a last one that was cut short is absent, as `recover` says."""
        try:
            data = self._path(epoch).read_bytes()
        except FileNotFoundError:
            return None
        return None if is_cut_short(data, len(data)) and epoch > self.last() else data

    def name(self, epoch: int) -> str:
        """The path of the record."""
        return str(self._path(epoch))

    def reopen(self) -> None:
        """List the folder again."""
        super().reopen()
        if self._writer:
            self.recover()

    def recover(self) -> None:
        """Move a last record that was cut short out of the way; only the holder of the writer's lock may.

        Such a record was never acknowledged. File systems that refuse links leave them, when a writer dies.
        """
        self._require_writer()
        torn = self._path(self.last() + 1)
        if torn.exists():
            torn.rename(torn.with_name(f"{torn.name}.{os.urandom(4).hex()}.torn"))

    def _path(self, epoch: int) -> Path:
        return self._folder / f"{epoch:010d}"

    def _put(self, epoch: int, data: bytes) -> bool:
        return create_file(self._path(epoch), data, self._durable, before_publish=self._crash)

    def _crash(self) -> None:
        crash("mid-commit", self._fault, scratch=self._folder.parent / "inbox")

    def _there(self, epoch: int) -> bool:
        return self._path(epoch).exists()

    def _is_whole(self, epoch: int) -> bool:
        try:
            with open(self._path(epoch), "rb") as file:
                start = file.read(_PREFIX_BYTES)
                return not is_cut_short(start, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return False

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self._folder) if _NAME.fullmatch(name))
        except FileNotFoundError:
            return []

    def _remove(self, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            self._path(epoch).unlink(missing_ok=True)
        if self._durable:
            sync_folder(self._folder)
