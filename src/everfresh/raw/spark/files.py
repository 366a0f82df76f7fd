"""Where a worker's pieces lie on its host: in memory that all of its processes share.

Pieces that are kept are Arrow files in a folder of the host's memory (`/dev/shm`; the folder for temporary
files where there is none), which every process of the host maps: none has a copy of its own. What a query
reads and may not keep lies on the disk until the next query. Both folders are those of one user, database and
session; nothing in them is truth: a file that is gone is made again from the raw file.

Invariant: a file is whole under its name, and never changes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from everfresh.errors import Code, EverfreshError

_SHARED = Path("/dev/shm")
_OLD = 24 * 3600.0
"""Seconds after which the folder of a session that nobody has touched is taken for left behind."""


@dataclass(frozen=True)
class HostFiles:
    """The files of one worker; `place` names the database and the session."""

    place: str
    worker: int

    @property
    def memory(self) -> Path:
        """The folder of what is kept."""
        return memory_root() / self.place / f"w{self.worker}"

    @property
    def scratch(self) -> Path:
        """The folder of what was read and is not kept, shared by the workers of the host."""
        return scratch_root() / self.place

    def path(self, name: str) -> Path:
        """Where a file is: names of what is not kept begin with `~`."""
        return (self.scratch if name.startswith("~") else self.memory) / name

    @contextmanager
    def writing(self, name: str, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchStreamWriter]:
        """Write a file, which is there when the block ends well."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
        try:
            with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
                yield writer
            os.replace(draft, path)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise

    def write(self, name: str, table: pa.Table) -> int:
        """Write a file whole; its bytes."""
        with self.writing(name, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        return self.size(name) or 0

    def read(self, name: str) -> pa.Table | None:
        """The rows of a file, mapped; None if it is not there, or damaged."""
        try:
            with pa.memory_map(str(self.path(name))) as source:
                found: pa.Table = pa.ipc.open_stream(source).read_all()
                return found
        except (OSError, pa.ArrowInvalid):
            return None

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if it is not there."""
        try:
            return self.path(name).stat().st_size
        except OSError:
            return None

    def remove(self, names: Collection[str]) -> None:
        """Remove files."""
        for name in names:
            with suppress(OSError):
                self.path(name).unlink()

    def kept(self) -> list[str]:
        """The names of what is kept."""
        try:
            return sorted(os.listdir(self.memory))
        except OSError:
            return []


def serialized(table: pa.Table) -> int:
    """The bytes of a file with these rows."""
    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    size: int = sink.size()
    return size


@lru_cache(maxsize=256)
def head_of(schema: pa.Schema) -> int:
    """The bytes of a file beside those of its rows, at most: columns are padded."""
    row = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    return serialized(row) + 64 * len(schema)


def memory_root() -> Path:
    """The folder of this user in the memory of the host."""
    return _own(_SHARED if os.access(_SHARED, os.W_OK) else Path(tempfile.gettempdir()), "cache")


def scratch_root() -> Path:
    """The folder of this user for what passes."""
    return _own(Path(tempfile.gettempdir()), "scratch")


def _own(where: Path, what: str) -> Path:
    """A folder that nobody else can write."""
    path = where / f"everfresh-{what}-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or path.is_symlink():
        raise EverfreshError(
            Code.ENVIRONMENT,
            f"{path} is not a folder of this user alone",
            hint="remove it: everfresh keeps pieces of raw files there",
        )
    return path


def sweep_scratch(place: str, kept: str) -> None:
    """Remove what earlier queries of a session left on the disk: all but names that begin with `kept`."""
    folder = scratch_root() / place
    with suppress(OSError):
        for name in os.listdir(folder):
            if not name.startswith(kept):
                with suppress(OSError):
                    (folder / name).unlink()


def sweep_sessions(place: str) -> None:
    """Remove what sessions of the same database left behind that are long over; and say that this one is
    not."""
    for root in (memory_root(), scratch_root()):
        own = root / place
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(own)
        for other in own.parent.iterdir():
            with suppress(OSError):
                if other != own and time.time() - other.stat().st_mtime > _OLD:
                    shutil.rmtree(other)


def forget_session(place: str) -> None:
    """Remove all files of a session on this host."""
    for root in (memory_root(), scratch_root()):
        shutil.rmtree(root / place, ignore_errors=True)
        with suppress(OSError):  # another session has files
            (root / place).parent.rmdir()
