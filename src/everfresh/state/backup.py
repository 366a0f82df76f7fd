"""A copy of a database at its last committed epoch, while it is being written.

A backup is a folder like any other, with an id of its own: the newest snapshot at or below its epoch, the
records from there on, and the files that these name. All of them are immutable, so that they are copied
beside a writer, without its lock; what it removes meanwhile, since a newer snapshot stands for it, makes the
copy begin again from that.

Invariant: a folder of the name that was asked for is whole, with everything on the disk, or is not there.
Until then it is called `NAME.unfinished`, and is no database: its FORMAT comes last. What a process that died
has left there is removed by the next backup of the name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from everfresh.errors import Code, EverfreshError
from everfresh.state.environment import told
from everfresh.state.faults import crash
from everfresh.state.files import create_file, sync_folder
from everfresh.state.folder import PARTITION_HASH, PARTITION_SEED, Format, StateFolder, epoch_of_part
from everfresh.state.frames import make_frame
from everfresh.state.lock import WriterLock
from everfresh.state.stores import is_url, local_path

UNFINISHED = ".unfinished"
"""What the name of a backup ends with that is not whole."""
_NOT_COPIED = ("FORMAT", "WRITER", "REACHED")
_OF_WRITER = ("inbox/", "terms/", "log/", "commits/", "snaps/")
_TRIES = 4
"""How often a copy begins; the last time nothing is removed meanwhile."""


class _Gone(Exception):
    """A file of the database was removed while it was being copied."""


@contextlib.contextmanager
def making(target: str | Path) -> Iterator[Path]:
    """A folder to be filled, which takes the name `target` when the block ends, or is removed."""
    if is_url(target):
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"a backup to '{target}' is not supported",
            hint="back up to a folder, and copy that",
        )
    path = local_path(target).absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise EverfreshError(
            Code.EXISTS, f"{path} is there already", hint="give the path of a new folder for the backup"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + UNFINISHED)
    unfinished.mkdir(exist_ok=True)
    lock = WriterLock(unfinished / "WRITER")
    try:
        _cleared(unfinished)
        yield unfinished
        sync_folder(unfinished)
        lock.release()
        os.rename(unfinished, path)
        sync_folder(path.parent)
    except BaseException:
        lock.release()
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _cleared(folder: Path) -> None:
    """Remove what another backup of the name has left."""
    for item in folder.iterdir():
        if item.name == "WRITER":
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()


def back_up(
    folder: StateFolder,
    target: str | Path,
    last: Callable[[], int],
    still: Callable[[], AbstractContextManager[object]],
    fault: str | None = None,
) -> int:
    """Copy a database; its epoch. `last` says which epoch is committed, `still` holds off whoever removes
    files, where that can be done."""
    if folder.root == str(target):
        raise EverfreshError(Code.EXISTS, f"{target} is the database itself")
    with told(f"{target} was not written"), making(target) as path:
        for attempt in range(1, _TRIES + 1):
            with still() if attempt == _TRIES else nullcontext():
                epoch = last()
                try:
                    _copied(folder, epoch, path, fault)
                    break
                except _Gone as gone:
                    if attempt == _TRIES:
                        raise EverfreshError(
                            Code.INTERRUPTED,
                            f"{folder.root} was not copied: its writer removed {gone} meanwhile",
                            hint="try again, or back up by the process that writes the database",
                        ) from None
                    _cleared(path)
        write_format(path, folder.engine, folder.workers)
    return epoch


def write_format(path: Path, engine: str, workers: int) -> None:
    """Say what a folder is: a database with an id of its own."""
    new = Format(engine, workers, str(uuid.uuid4()), PARTITION_HASH, PARTITION_SEED)
    create_file(path / "FORMAT", new.text(), True)


def _copied(folder: StateFolder, epoch: int, path: Path, fault: str | None) -> None:
    """Copy what an epoch needs."""
    store = folder.store
    names = store.names("")  # before anything is copied: what comes later is of later epochs
    snapshots = [e for e in folder.snapshots.list() if e <= epoch]
    first = folder.commits.first()
    start = snapshots[-1] if snapshots else 0
    if first > start + 1:
        raise _Gone(f"the record of epoch {start + 1}")
    if folder.engine == "local":
        first = start + 1
    for name in names:
        part = epoch_of_part(name.rpartition("/")[2]) if name.startswith("parts/") else None
        if (
            name in _NOT_COPIED
            or name.startswith(_OF_WRITER)
            or name.endswith((".tmp", ".torn"))
            or (part is not None and part > epoch)
        ):
            continue
        _one(folder, name, path)
        crash("mid-backup", fault, scratch=folder.scratch)
    if snapshots:
        _one(folder, f"snaps/{start:010d}", path)
    _records(folder, first, epoch, path)
    crash("mid-backup", fault, scratch=folder.scratch)


def _one(folder: StateFolder, name: str, path: Path) -> None:
    try:
        data = folder.store.view(name)
    except FileNotFoundError:
        raise _Gone(name) from None
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    create_file(path / name, data, True)


def _records(folder: StateFolder, first: int, epoch: int, path: Path) -> None:
    """The records of some epochs, as the engine keeps them."""
    if folder.engine != "local":
        (path / "commits").mkdir(exist_ok=True)
        for number in range(first, epoch + 1):
            create_file(path / "commits" / f"{number:010d}", _record(folder, number), True)
        return
    write_log(path, first, (_record(folder, number) for number in range(first, epoch + 1)))


def write_log(path: Path, first: int, records: Iterable[bytes]) -> None:
    """Write the log of the local engine with the records of an epoch and those after it."""
    (path / "log").mkdir(exist_ok=True)
    with open(path / "log" / f"{first:010d}.log", "wb") as file:
        for number, data in enumerate(records, first):
            file.write(make_frame(number, len(data)) + data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path / "log")


def _record(folder: StateFolder, epoch: int) -> bytes:
    data = folder.commits.read(epoch)
    if data is None:
        raise _Gone(f"the record of epoch {epoch}")
    return data
