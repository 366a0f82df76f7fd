"""The methods of `Database` for streams."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.delta.rows import match_columns
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch, Engine, Part
from everfresh.sources import folder as folders
from everfresh.sources.handle import Stream
from everfresh.sources.home import check_name, open_home
from everfresh.types import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("everfresh")
_POLL = 1.0
_FORMATS = ("parquet", "csv")


class StreamMethods:
    """The methods of `Database` that are about streams."""

    _lock: threading.RLock
    _streams: dict[str, Stream]
    _scratch: str | None = None  # for the streams of a database without a folder

    def _writable(self) -> Engine:
        raise NotImplementedError

    def _parts(self, schema: TableSchema, rows: Any) -> Sequence[Part]:
        raise NotImplementedError

    def _commit(self, batch: Batch) -> int:
        raise NotImplementedError

    def _check_static(self, name: str) -> None:
        raise NotImplementedError

    def stream(
        self,
        table: str,
        source: DataFrame | str | os.PathLike[str],
        *,
        name: str | None = None,
        format: str | None = None,
        interval: float | None = None,
        available_now: bool = False,
    ) -> Stream:
        """Apply what comes out of `source` to a table, each batch exactly once, until the stream is stopped.

        `source` is a streaming DataFrame of Spark, or a folder: each Parquet or CSV file that appears in it
        becomes an epoch. Rows are inserted; rows of a change feed, with a column `_change_type`, say
        themselves what happened to them.

        `name`, the table's name unless given, is what a stream goes on by: one that is started again under
        its name, in this process or another, continues after the last batch that was committed. `format`
        ("parquet" or "csv") takes only files of that kind. `interval` is the time in seconds between two
        looks at the source. With `available_now` the stream ends once everything that is there is applied;
        `wait()` waits for that.

        >>> import everfresh as ef, pathlib, tempfile
        >>> inbox = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (inbox / "monday.csv").write_text("k,v\\n1,10\\n2,20\\n")
        >>> with ef.connect(engine="local") as db:
        ...     _ = db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        ...     _ = db.stream("t", inbox, available_now=True).wait()
        ...     len(db.table("t"))
        2
        """
        with self._lock:
            engine = self._writable()
            schema = engine.catalog.expect_table(table)
            self._check_static(schema.name)
            name = schema.name if name is None else name
            check_name(name)
            _check_settings(format, interval, source)
            if name in self._streams and self._streams[name].active:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"stream '{name}' is running",
                    hint="stop it first, or give another name: db.stream(table, source, name='other')",
                )
            stream = self._start(engine, schema, source, name, format, interval, available_now)
            self._streams[name] = stream
            return stream

    def _start(
        self,
        engine: Engine,
        schema: TableSchema,
        source: Any,
        name: str,
        format: str | None,
        interval: float | None,
        once: bool,
    ) -> Stream:
        session = engine.session
        if isinstance(source, str | os.PathLike):
            folder = _local(source)
            about = {"table": schema.name, "source": f"the folder {folder}", "format": format or "any"}
            interval = _POLL if interval is None else interval
            if session is None or _connect(session):
                home = self._home(engine, name, {**about, "reader": "everfresh"}, folders.has_read)
                return folders.FolderStream(
                    self,
                    name,
                    schema.name,
                    folder=folder,
                    home=home,
                    format=format,
                    interval=interval,
                    once=once,
                )
            from everfresh.sources import spark

            frame = spark.listing(session, folder, format, name)
            rows: Callable[[Any], Any] = spark.listed
        else:
            from everfresh.sources import spark

            _check_frame(source, schema, name)
            about = {"table": schema.name, "source": "a streaming DataFrame"}
            frame, rows = source, _as_it_is
        home = self._home(engine, name, {**about, "reader": "Spark"}, spark.has_read)
        return spark.SparkStream(
            self, name, schema.name, frame=frame, rows=rows, home=home, interval=interval, once=once
        )

    def _home(self, engine: Engine, name: str, about: Mapping[str, str], has_read: Any) -> Path:
        if engine.folder is not None:
            root = engine.folder.sources
        else:
            self._scratch = self._scratch or tempfile.mkdtemp(prefix="everfresh-streams-")
            root = Path(self._scratch)
        return open_home(root, name, about, engine.sources.get(name), engine.options.durable, has_read)

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams that were started here, by name."""
        with self._lock:
            return dict(self._streams)

    def _take(self, stream: str, number: int, table: str, rows: Any) -> None:
        """Commit a batch of a stream. The lock is held."""
        schema = self._writable().catalog.expect_table(table)
        self._commit(Batch(tuple(self._parts(schema, rows)), source=(stream, number)))

    def _stop_streams(self) -> None:
        """Before the database closes. The lock is not held: a stream may need it to finish."""
        for stream in list(self._streams.values()):
            try:
                stream.stop()
            except Exception:  # its session may be gone; the database closes all the same
                _log.exception("stream '%s' could not be stopped", stream.name)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


def _as_it_is(frame: Any) -> Any:
    return frame


def _connect(session: Any) -> bool:
    from everfresh.spark.session.sessions import is_connect

    return is_connect(session)


def _local(source: str | os.PathLike[str]) -> Path:
    text = os.fspath(source)
    if "://" in text:
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"'{text}' is not a local folder",
            hint="read it as a stream of Spark: db.stream(table, spark.readStream.schema(...).parquet(...))",
        )
    return Path(text).expanduser().absolute()


def _check_settings(format: str | None, interval: float | None, source: Any) -> None:
    if format is not None and format not in _FORMATS:
        raise EverfreshError(
            Code.ARGUMENT, f"there is no format '{format}'", hint="formats are: " + ", ".join(_FORMATS)
        )
    if format is not None and not isinstance(source, str | os.PathLike):
        raise EverfreshError(Code.ARGUMENT, "a format belongs to a folder", hint="leave it out")
    if interval is not None and interval < 0:
        raise EverfreshError(Code.ARGUMENT, "an interval is a time in seconds, from 0 on")


def _check_frame(source: Any, schema: TableSchema, name: str) -> None:
    """Refuse at once what every batch would be refused for."""
    streaming = getattr(source, "isStreaming", None)
    if not isinstance(streaming, bool):
        raise EverfreshError(
            Code.ARGUMENT,
            f"a {type(source).__name__} is not a stream",
            hint="a stream is a streaming DataFrame (spark.readStream...), or the path of a folder",
        )
    if not streaming:
        raise EverfreshError(
            Code.ARGUMENT, "the DataFrame is one batch of rows", hint=f"use db.apply({schema.name}=df)"
        )
    if _connect(source):
        raise EverfreshError(
            Code.UNSUPPORTED,
            "streams of Spark Connect are not supported: their batches are handed to another process, which "
            "does not have this database",
            hint="use a classic session, or give a folder of files to watch",
        )
    match_columns(source.columns, schema, what=f"stream '{name}'", op="insert")
