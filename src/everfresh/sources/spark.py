"""Streaming DataFrames as streams, through `foreachBatch`; and folders, watched by Structured Streaming.

Spark calls the function of `foreachBatch` in this process, with a DataFrame of a session that is a clone of
the user's, at least once for each batch and with the same rows each time: the checkpoint, in the folder of
the stream, sees to that. Jobs on the DataFrame run in the thread of the stream and are interrupted when it is
stopped, so a stop waits for the batch that is running.

A folder is watched for the names of its files only; the files are then read as `db.apply(table=path)` reads
them, on whichever engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.delta.files import suffixes
from everfresh.errors import EverfreshError
from everfresh.sources.handle import Stream, Target, require_folder
from everfresh.state.files import sync_file, sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHECKPOINT = "checkpoint"
_LISTED = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
_FILE = "file:"


def has_read(home: Path) -> bool:
    """Whether the folder of a stream has the checkpoint of batches that were planned."""
    return any((home / _CHECKPOINT / "offsets").glob("[0-9]*"))


def listing(session: SparkSession, folder: Path, format: str | None, name: str) -> DataFrame:
    """The paths of the data files below a folder, one in each batch, as they come."""
    require_folder(folder, name)
    wanted = ",".join(suffixes(format))
    reader = session.readStream.format("binaryFile").schema(_LISTED)
    reader = reader.option("maxFilesPerTrigger", 1).option("recursiveFileLookup", "true")
    return reader.option("pathGlobFilter", f"*{{{wanted}}}").load(f"{_FILE}{folder}").select("path")


def listed(batch: DataFrame) -> Any:
    """The path in a batch of a listing; no rows if it has none."""
    paths = [row["path"].removeprefix(_FILE) for row in batch.collect()]
    return paths[0] if paths else []


class SparkStream(Stream):
    """A streaming query whose batches become epochs."""

    def __init__(
        self,
        db: Target,
        name: str,
        table: str,
        *,
        frame: DataFrame,
        rows: Callable[[DataFrame], Any],
        home: Path,
        interval: float | None,
        once: bool,
    ) -> None:
        super().__init__(db, name, table)
        self._rows = rows
        self._checkpoint = home / _CHECKPOINT
        self._durable = db._writable().options.durable
        writer = frame.writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", f"{_FILE}{self._checkpoint}")
        if once:
            writer = writer.trigger(availableNow=True)
        elif interval is not None:
            writer = writer.trigger(processingTime=f"{max(1, round(interval * 1000))} milliseconds")
        self._query = writer.start()

    def _batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._take(frame, number)
        except Exception:
            raise
        except BaseException as struck:
            # The thread that answers Spark would end without a word, and Spark wait for its answer for good.
            raise RuntimeError(f"interrupted by {type(struck).__name__}") from struck

    def _take(self, frame: DataFrame, number: int) -> None:
        # The clone is this query's own; everfresh's jobs are planned without adaptive execution.
        frame.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
        self._apply(int(number), lambda: self._planned(frame, int(number)))

    def _planned(self, frame: DataFrame, number: int) -> Any:
        """The rows of a batch, once the plan of the batch is on the disk: if it were lost after the commit,
        Spark could put other rows into a batch of that number, which would be taken for the old one."""
        if self._durable:
            for folder in (
                self._checkpoint,
                *self._checkpoint.glob("offsets"),
                *self._checkpoint.glob("sources/*"),
            ):
                for file in (folder / str(number), folder / f"{number}.compact", folder / "metadata"):
                    if file.is_file():
                        sync_file(file)
                sync_folder(folder)
        return self._rows(frame)

    @property
    def active(self) -> bool:
        """Whether the stream is running."""
        return not self._stopping.is_set() and bool(self._query.isActive)

    @property
    def exception(self) -> EverfreshError | None:
        """What ended the stream, if it was an error."""
        if self._failure is None and not self._stopping.is_set():
            problem = self._query.exception()
            if problem is not None:
                self._note(problem)
        return self._failure

    def process_all(self) -> None:
        """Wait until everything that the source has by now is committed."""
        from pyspark.errors import StreamingQueryException

        if not self._stopping.is_set():
            try:
                self._query.processAllAvailable()
            except StreamingQueryException as problem:
                self._note(problem)
        self._raise()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends."""
        from pyspark.errors import StreamingQueryException

        ended = True
        if not self._stopping.is_set():
            try:
                ended = self._query.awaitTermination(timeout) is not False
            except StreamingQueryException as problem:
                self._note(problem)
        self._raise()
        return ended

    def stop(self) -> None:
        """End the stream, after the batch it is in."""
        if self._stopping.is_set():
            return
        _ = self.exception  # what ended it before stays known
        self._stopping.set()
        if self._taking == threading.get_ident():  # a listener of this very batch: Spark waits for its end
            threading.Thread(target=self._query.stop, daemon=True).start()
            return
        with self._turn:
            pass
        self._query.stop()
