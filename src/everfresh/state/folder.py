"""The folder of a database: what makes it one, who may write it, and what in it is garbage.

Implements "Files of a folder" of docs/design/state.md:

    FORMAT      what the folder is: version, engine, workers, partition hash, database id; created once
    WRITER      the writer's lock
    REACHED     an epoch that was acknowledged
    log/ or commits/, snaps/, parts/, inbox/, sources/

Invariant: nothing is written into a folder that is not an everfresh folder, of this version and this engine,
by the holder of its lock. What garbage collection removes, no committed epoch names and no running task of
this writer needs.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state.commits import CommitStore, FileCommits, LogCommits
from everfresh.state.faults import FLAG, crash
from everfresh.state.files import create_file, live_temporaries, sync_folder
from everfresh.state.lock import WriterLock
from everfresh.state.reached import Reached
from everfresh.state.snapshots import SnapshotStore
from everfresh.state.stores import Store, is_url, local_path, scratch_of, store_of

FORMAT_VERSION = 1
PARTITION_HASH = "ef1"
PARTITION_SEED = 0
ENGINES = ("local", "spark")

_PART = re.compile(r"[sc]-(\d{10})-")
_TEMPORARY = re.compile(r"\.\d+\.[0-9a-f]+\.tmp$")


@dataclass(frozen=True, slots=True)
class Format:
    """The contents of FORMAT."""

    engine: str
    workers: int
    id: str
    hash: str
    seed: int

    def text(self) -> bytes:
        """As the file has it."""
        fields: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "min_reader": FORMAT_VERSION,
            "engine": self.engine,
            "workers": self.workers,
            "id": self.id,
            "hash": self.hash,
            "seed": self.seed,
        }
        return (json.dumps({**fields, "digest": _digest(fields)}, indent=2) + "\n").encode()

    @staticmethod
    def read(data: bytes, name: str, root: str, read_only: bool) -> Format:
        """Read and judge FORMAT: a newer version is refused before anything else is made of it."""
        try:
            fields = json.loads(data)
            version, least = int(fields["format"]), int(fields["min_reader"])
        except (ValueError, KeyError, TypeError):
            raise _damaged(name) from None
        if least > FORMAT_VERSION or (version > FORMAT_VERSION and not read_only):
            raise EverfreshError(
                Code.FORMAT,
                f"{root} is of format {version}, and this release writes format {FORMAT_VERSION}",
                hint="upgrade everfresh" + (" or open it read_only" if least <= FORMAT_VERSION else ""),
            )
        if fields.pop("digest", "") != _digest(fields):
            raise _damaged(name)
        return Format(fields["engine"], fields["workers"], fields["id"], fields["hash"], fields["seed"])

    def require(self, engine: str, root: str) -> None:
        """Refuse a database of another engine."""
        if self.engine != engine:
            raise EverfreshError(
                Code.FORMAT,
                f"{root} was made by the engine '{self.engine}', not '{engine}'",
                hint=f'open it with engine="{self.engine}"',
            )


class StateFolder:
    """The state of one database; made by `StateFolder.open`."""

    def __init__(
        self,
        root: str,
        stored: Format,
        *,
        commits: CommitStore,
        snapshots: SnapshotStore,
        options: Options,
        lock: WriterLock | None,
    ) -> None:
        self.root = root
        self.id = stored.id
        self.engine = stored.engine
        self.workers = stored.workers
        self.partition_hash = stored.hash
        self.partition_seed = stored.seed
        self.commits = commits
        self.snapshots = snapshots
        self.read_only = lock is None
        self._options = options
        self._lock = lock

    @staticmethod
    def open(
        path: str | Path, *, engine: str, workers: int, options: Options, read_only: bool
    ) -> StateFolder:
        """Open or create a folder; an existing one keeps its number of workers, and must be of that engine.

        >>> import tempfile
        >>> folder = StateFolder.open(
        ...     tempfile.mkdtemp(), engine="local", workers=1, options=Options(), read_only=False)
        >>> folder.commits.last(), folder.snapshots.list()
        (0, [])
        >>> folder.close()
        """
        if engine not in ENGINES:
            raise EverfreshError(
                Code.ARGUMENT, f"there is no engine '{engine}'", hint="engines are: " + ", ".join(ENGINES)
            )
        if is_url(path):
            from everfresh.state.remote import RemoteFolder

            return RemoteFolder.open_at(
                str(path).rstrip("/"), engine=engine, workers=workers, options=options, read_only=read_only
            )
        path = local_path(path).absolute()
        _require_ours(path, read_only)
        lock = None if read_only else _lock(path, options.durable)
        try:
            file = path / "FORMAT"
            if lock is not None and not file.exists():
                new = Format(engine, workers, str(uuid.uuid4()), PARTITION_HASH, PARTITION_SEED)
                create_file(file, new.text(), options.durable)
            stored = Format.read(file.read_bytes(), str(file), str(path), read_only)
            stored.require(engine, str(path))
            commits = _commits(path, engine, options, writer=lock is not None)
            snapshots = SnapshotStore(path, options.durable, options.fault)
            return StateFolder(
                str(path), stored, commits=commits, snapshots=snapshots, options=options, lock=lock
            )
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.root)

    @property
    def store(self) -> Store:
        """The files."""
        return store_of(self.root)

    @property
    def scratch(self) -> Path:
        """Where the flags of injected faults are."""
        return scratch_of(self.root)

    def check_writer(self) -> None:
        """Raise if another writer has begun; the lock sees to it that none has."""

    @property
    def inbox(self) -> Path:
        """Where descriptors and deltas of running jobs lie."""
        folder = self.path / "inbox"
        if not self.read_only:
            folder.mkdir(exist_ok=True)
        return folder

    @property
    def parts(self) -> Path:
        """Where tasks write the files of their units, in a folder for each partition."""
        return self.path / "parts"

    @property
    def sources(self) -> Path:
        """Where streams keep how far they have read, in a folder for each."""
        return self.path / "sources"

    def remove_garbage(
        self, referenced: Set[str] = frozenset(), last_epoch: int | None = None, new_term: bool = False
    ) -> list[str]:
        """Remove what no committed epoch names; returns the paths removed, relative to the folder.

        Temporaries of the writer go unless this process is writing them. With `last_epoch`, files in `parts/`
        go that are not `referenced` (by name, or by path below `parts/`) and are of an epoch up to that one,
        which can never name them. Files of later epochs may belong to the job that is running; with
        `new_term`, when a writer has just opened the folder, there is none, and they and the inbox go too.
        Nothing goes by age.
        """
        if self._lock is None:
            raise EverfreshError(Code.READ_ONLY, "only the writer of a database removes garbage")
        removed = []
        for path in list(self._garbage(referenced, last_epoch, new_term)):
            crash("mid-gc", self._options.fault, scratch=self.path / "inbox")
            path.unlink(missing_ok=True)
            removed.append(str(path.relative_to(self.path)))
        return removed

    def _garbage(self, referenced: Set[str], last_epoch: int | None, new_term: bool) -> Iterator[Path]:
        for folder in (self.path, *(self.path / name for name in ("commits", "log", "snaps", "inbox"))):
            seen = list(folder.glob("*.tmp"))
            live = live_temporaries()  # asked after: a temporary is known before it is there
            yield from (path for path in seen if str(path) not in live)
        if new_term:
            yield from (
                path
                for path in (self.path / "inbox").glob("*")
                if path.is_file() and path.suffix != ".tmp" and not path.name.startswith(FLAG)
            )
        if last_epoch is None:
            return
        for path in self.parts.glob("*/*"):
            epoch = epoch_of_part(path.name)
            name = path.name if new_term else _TEMPORARY.sub("", path.name)  # a task may be writing it
            named = name in referenced or f"{path.parent.name}/{name}" in referenced
            if epoch is not None and not named and (new_term or epoch <= last_epoch):
                yield path

    def close(self) -> None:
        """Let go of files and of the lock; a second call does nothing."""
        self.commits.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def epoch_of_part(name: str) -> int | None:
    """The epoch of a file of a unit, by its name; None if it is no such file.

    >>> epoch_of_part("s-0000000042-base-0.seg"), epoch_of_part("readme")
    (42, None)
    """
    match = _PART.match(name)
    return int(match[1]) if match else None


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=16).hexdigest()


def _damaged(name: str) -> EverfreshError:
    return EverfreshError(
        Code.DAMAGED,
        f"{name} is damaged: it does not say what the folder holds",
        hint="restore the file from a backup of the folder",
    )


def _require_ours(path: Path, read_only: bool) -> None:
    """Refuse what is not an everfresh folder and could not become one, before anything is written to it."""
    if (path / "FORMAT").exists():
        return
    if path.exists() and not path.is_dir():
        raise EverfreshError(Code.FORMAT, f"{path} is not a folder", hint="give the path of a new folder")
    if read_only:
        raise EverfreshError(
            Code.NOT_FOUND, f"there is no database at {path}", hint="open it without read_only to create one"
        )
    # A writer that died while it created the folder leaves its lock's file and a temporary.
    if path.exists() and any(item.name != "WRITER" and item.suffix != ".tmp" for item in path.iterdir()):
        raise EverfreshError(
            Code.FORMAT,
            f"{path} is not empty, and is not a folder of everfresh",
            hint="give the path of a new folder",
        )


def _lock(path: Path, durable: bool) -> WriterLock:
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        if durable:
            sync_folder(path.parent)
    return WriterLock(path / "WRITER")


def _commits(path: Path, engine: str, options: Options, writer: bool) -> CommitStore:
    reached = Reached(store_of(str(path)), options.durable)  # before the records: they may grow meanwhile
    if engine == "local":
        return LogCommits(path, options.durable, writer, options.fault, reached)
    commits = FileCommits(path, options.durable, writer, options.fault, reached)
    if writer:
        commits.recover()
    return commits
