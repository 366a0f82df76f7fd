"""A folder of files as a stream, found by polling in a thread: for engines without Structured Streaming.

Each file is a batch. Files are taken in the order in which they were last changed, then by path; those whose
names begin with '.' or '_', or that are in such folders, are passed over. Before a file is applied its name
goes into `files` of the stream's folder, with the number of its batch; it was applied if commits name that
number. Invariant: a name stands for a batch that is committed, but for the last one, which is forgotten when
the stream starts again if its batch is not.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from everfresh.delta.files import kind_of
from everfresh.errors import Code, EverfreshError
from everfresh.sources.handle import Stopped, Stream, Target, require_folder
from everfresh.state import replace_file

_LOG = "files"


def has_read(home: Path) -> bool:
    """Whether the folder of a stream knows of files."""
    return (home / _LOG).exists()


def is_of(name: str, format: str | None) -> bool:
    """Whether a file is one that a stream of this format takes."""
    kind = kind_of(name)
    return kind is not None and (format is None or (kind == "parquet") == (format == "parquet"))


def found(folder: Path, format: str | None) -> Iterator[tuple[int, str]]:
    """The time of the last change and the path below the folder of each data file in it."""
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            if not name.startswith((".", "_")) and is_of(name, format):
                file = Path(path, name)
                with suppress(FileNotFoundError):  # gone again
                    yield file.stat().st_mtime_ns, str(file.relative_to(folder))


class FileLog:
    """The files that were taken, by the number of their batch: a line for each."""

    def __init__(self, home: Path, last: int, durable: bool) -> None:
        self._path = home / _LOG
        self._durable = durable
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        self.names = [_name(line) for line in lines[: last + 1]]
        if len(self.names) <= last or None in self.names:
            raise EverfreshError(
                Code.DAMAGED,
                f"{self._path} does not name the files of all {last + 1} batches that were committed",
                hint="restore it from a backup of the folder",
            )
        replace_file(self._path, b"".join(line + b"\n" for line in lines[: last + 1]), durable)

    def add(self, name: str) -> int:
        """Note the next file; returns the number of its batch."""
        with self._path.open("ab") as file:
            file.write(json.dumps(name).encode() + b"\n")
            file.flush()
            if self._durable:
                os.fsync(file.fileno())
        self.names.append(name)
        return len(self.names) - 1


def _name(line: bytes) -> str | None:
    try:
        name = json.loads(line)
    except ValueError:
        return None
    return name if isinstance(name, str) else None


class FolderStream(Stream):
    """A folder that is watched by a thread of this process."""

    def __init__(
        self,
        db: Target,
        name: str,
        table: str,
        *,
        folder: Path,
        home: Path,
        format: str | None,
        interval: float,
        once: bool,
    ) -> None:
        super().__init__(db, name, table)
        require_folder(folder, name)
        engine = db._writable()
        self._log = FileLog(home, engine.sources.get(name, -1), engine.options.durable)
        self._taken = set(self._log.names)
        self._folder, self._format = folder, format
        self._interval, self._once = interval, once
        self._state = threading.Condition()
        self._asked = self._answered = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"everfresh stream {name}", daemon=True)
        self._thread.start()

    @property
    def active(self) -> bool:
        """Whether the stream is running."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def process_all(self) -> None:
        """Wait until all files that are there by now are committed."""
        with self._state:
            self._asked += 1
            mine = self._asked
            self._state.notify_all()
            self._state.wait_for(lambda: self._ended or self._answered >= mine)
        self._raise()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends."""
        self._thread.join(timeout)
        self._raise()
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the stream, after the file it is in."""
        self._stopping.set()
        with self._state:
            self._state.notify_all()
        if self._taking != threading.get_ident():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                asked = self._asked
                self._poll()
                with self._state:
                    self._answered = max(self._answered, asked)
                    self._state.notify_all()
                    if self._once:
                        return
                    self._state.wait_for(
                        lambda: self._asked > self._answered or self._stopping.is_set(), self._interval
                    )
        except Stopped:
            pass
        except BaseException as problem:  # kept for whoever asks; a batch has noted its own
            self._note(problem)
        finally:
            with self._state:
                self._ended = True  # nobody waits for what has ended
                self._state.notify_all()

    def _poll(self) -> None:
        for _, name in sorted(
            item for item in found(self._folder, self._format) if item[1] not in self._taken
        ):
            if self._stopping.is_set():
                return
            number = self._log.add(name)
            path = str(self._folder / name)
            self._apply(number, lambda path=path: path, path)  # type: ignore[misc]
            self._taken.add(name)
