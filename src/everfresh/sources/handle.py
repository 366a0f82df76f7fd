"""A running stream, and how one of its batches is taken.

Invariant: a batch either becomes one epoch, which names it, or raises, and then the stream ends: the source
must not forget it. A stream that is asked to stop finishes the batch it is in, unless that batch is still
waiting for the database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from everfresh.errors import Code, EverfreshError
from everfresh.program import Engine
from everfresh.state import crash

_PATIENCE = 0.05


class Stopped(Exception):
    """The stream was asked to stop before this batch was taken."""


class Target(Protocol):
    """What a stream needs of a database."""

    _lock: threading.RLock

    def _writable(self) -> Engine: ...

    def _take(self, stream: str, number: int, table: str, rows: Any) -> None: ...


class Stream:
    """A stream into a table; made by `db.stream`. It runs until `stop()`, `db.close()` or an error.

    An error that a batch raises, or its source, ends the stream; what came before stays. It is
    `exception`, and `process_all()` and `wait()` raise it. After the cause is gone, `db.stream` with the same
    name goes on with that batch.
    """

    def __init__(self, db: Target, name: str, table: str) -> None:
        self._db = db
        self.name = name
        self.table = table
        self._stopping = threading.Event()
        self._turn = threading.RLock()
        self._taking: int | None = None  # the thread that is in a batch
        self._failure: EverfreshError | None = None

    # -- what a user asks --------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether the stream is running."""
        raise NotImplementedError

    @property
    def exception(self) -> EverfreshError | None:
        """What ended the stream, if it was an error."""
        return self._failure

    @property
    def last(self) -> int | None:
        """The number of the last batch that was committed; None if there is none yet."""
        with self._db._lock:
            return self._db._writable().sources.get(self.name)

    def process_all(self) -> None:
        """Wait until everything that the source has by now is committed; raises what ended the stream."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends, at most `timeout` seconds; whether it has. Raises what ended it."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the stream, after the batch it is in. What is committed stays; stopping twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.active else "failed" if self.exception is not None else "stopped"
        return f"<everfresh stream '{self.name}' into table '{self.table}', {state}>"

    # -- what a source does ------------------------------------------------------------------------

    def _apply(self, number: int, rows: Callable[[], Any], file: str | None = None) -> None:
        """Take batch `number`; `rows` are asked for only if it was not taken before. They are those of
        `file`, if that is given."""
        with self._turn:
            self._taking = threading.get_ident()
            try:
                self._patiently(self._applied, number, rows)
            except Exception as problem:
                if file is not None and isinstance(problem, EverfreshError):
                    problem = problem.at(f"file '{file}'").with_traceback(problem.__traceback__)
                self._note(problem)
                raise
            finally:
                self._taking = None

    def _applied(self, number: int, rows: Callable[[], Any]) -> None:
        engine = self._db._writable()
        if self._is_new(number, engine.sources.get(self.name, -1)):
            self._db._take(self.name, number, self.table, rows())
            scratch = engine.folder.inbox if engine.folder is not None else None
            crash("before-checkpoint", engine.options.fault, scratch=scratch)

    def _patiently(self, work: Callable[..., None], *args: Any) -> None:
        """Do something with the database's lock, or give up when the stream is stopped: who stops it may hold
        the lock."""
        lock: Any = self._db._lock
        if lock._is_owned():  # as here, and let go of elsewhere
            work(*args)
            return
        try:
            while not lock.acquire(timeout=_PATIENCE):
                if self._stopping.is_set():
                    raise Stopped(self.name)
            if self._stopping.is_set():
                raise Stopped(self.name)
            work(*args)
        finally:
            if lock._is_owned():  # unless an exception came before it was taken
                lock.release()

    def _is_new(self, number: int, last: int) -> bool:
        if number > last + 1:
            raise EverfreshError(
                Code.DAMAGED,
                f"stream '{self.name}' goes on with batch {number}, and the last one in the database is "
                f"{last}: the batches between are lost",
                place=f"stream '{self.name}'",
                hint="restore the folder from a backup, with its sources/",
            )
        return number > last

    def _note(self, problem: BaseException) -> None:
        """Keep what ended the stream, as an error of everfresh."""
        if self._failure is not None or isinstance(problem, Stopped):
            return
        place = f"stream '{self.name}'"
        if isinstance(problem, EverfreshError):
            self._failure = problem.at(place)
        else:
            first = (str(problem) or type(problem).__name__).strip().splitlines()[0]
            self._failure = EverfreshError(Code.STREAM, f"the stream failed: {first}", place=place)
        self._failure.__cause__ = problem

    def _raise(self) -> None:
        error = self.exception
        if error is not None:
            raise error


def require_folder(path: Path, name: str) -> None:
    """Refuse to watch what is not a folder."""
    if not path.is_dir():
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no folder '{path}'",
            place=f"stream '{name}'",
            hint="make it before it is watched",
        )
