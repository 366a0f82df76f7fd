"""Streaming DataFrames and folders through Structured Streaming: each batch is one epoch, whatever fails."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stream_inbox import FLAT, JOIN, Inbox

import everfresh as ef
from everfresh.sources import methods
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.oracle import assert_rows

pytestmark = pytest.mark.spark

BASE = 3
COLUMNS = "k BIGINT, g STRING, x INT, _change_type STRING, _commit_version BIGINT"


def frame(spark: Any, inbox: Inbox) -> Any:
    """The Parquet files of a folder as a streaming DataFrame, one in each batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(inbox.folder))


def connect(spark: Any, path: Path | None, **options: Any) -> ef.Database:
    return ef.connect(path, spark=spark, options=ef.Options(**options))


def test_a_streaming_frame_and_a_crash_after_the_commit(
    spark: Any, tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(spark, tmp_path / "db", fault="before-checkpoint:raise:*:1") as db:
        db.sql(FLAT)
        inbox.put(suffix="parquet")
        inbox.put(suffix="parquet")
        with refused(ef.Code.STREAM, "before-checkpoint"):
            db.stream("t", frame(spark, inbox)).process_all()
        assert db.epoch == BASE + 1  # committed, and Spark does not know
        given: list[Any] = []
        monkeypatch.setattr(methods, "_as_it_is", lambda batch: given.append(batch) or batch)
        stream = db.stream("t", frame(spark, inbox))
        stream.process_all()
        assert len(given) == 1, "the batch that is committed is not looked at again"
        assert (db.epoch, stream.last) == (BASE + 2, 1)
        inbox.check(db)
    assert not stream.active
    # Started again, from the files alone; direct batches in between.
    with connect(spark, tmp_path / "db") as db:
        db.sql(JOIN)
        db.apply(u=[(1,)])
        inbox.put(suffix="parquet")
        stream = db.stream("t", frame(spark, inbox), available_now=True)
        assert stream.wait()
        assert (db.epoch, stream.last) == (BASE + 5, 2)
        inbox.check(db)
        with refused(ef.Code.ARGUMENT, "db.apply"):
            db.stream("t", spark.range(3), name="fixed")
        with refused(ef.Code.NOT_FOUND, "'timestamp'"):
            db.stream("t", spark.readStream.format("rate").load(), name="rate")
        # A name without its checkpoint would begin with batch 0 again.
        shutil.rmtree(tmp_path / "db" / "sources" / "t" / "checkpoint")
        with refused(ef.Code.DAMAGED, "batch 2", "'t'"):
            db.stream("t", frame(spark, inbox))


def test_two_streams_a_bad_file_and_direct_batches(spark: Any, tmp_path: Path, inbox: Inbox) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with connect(spark, tmp_path / "db") as db:
        db.sql(FLAT)
        changes = db.stream("t", inbox.folder, interval=0.01)
        lines = db.stream("u", other, name="lines", format="csv", interval=0.01)
        for number in range(2):
            inbox.put()
            (other / f"line {number}.csv").write_text(f"x\n{number}\n")
            db.apply(u=[(1000 + number,)])
        changes.process_all()
        lines.process_all()
        assert db.epoch == BASE + 6
        assert db.statistics()["streams"] == {"t": 1, "lines": 1}
        inbox.check(db)
        (other / "bad.csv").write_text("x\n7\neight\n")
        with refused(ef.Code.VALUE, "eight", "row 1", "bad.csv", "stream 'lines'"):
            lines.process_all()
        assert not lines.active
        assert changes.active
        with refused(ef.Code.VALUE):
            lines.wait()
        assert_rows(db.table("u"), (0,), (1,), (1000,), (1001,))
        (other / "bad.csv").write_text("x\n7\n8\n")
        db.stream("u", other, name="lines", format="csv").process_all()
        assert_rows(db.table("u"), (0,), (1,), (7,), (8,), (1000,), (1001,))
        # A listener may stop the stream whose batch it is told of.
        end = db.view("v").on_change(lambda _: changes.stop())
        inbox.put()
        assert changes.wait(60)
        end()
        assert changes.exception is None
        inbox.check(db)


def test_a_streaming_frame_into_the_local_engine(spark: Any, tmp_path: Path, inbox: Inbox) -> None:
    inbox.put(suffix="parquet")
    for path in (None, tmp_path / "db", tmp_path / "db"):
        with ef.connect(path, engine="local") as db:
            if not db.tables:
                db.sql(FLAT)
            assert db.stream("t", frame(spark, inbox), available_now=True).wait()
            assert db.epoch == BASE + inbox.count
            inbox.check(db)


CHILD = """
import sys
import everfresh as ef
path, inbox, fault = sys.argv[1:]
with ef.connect(path, options=ef.Options(durable=False, fault=fault)) as db:
    db.stream("t", inbox).process_all()
"""


@pytest.mark.slow
def test_a_driver_killed_between_the_commits(spark: Any, tmp_path: Path, inbox: Inbox) -> None:
    with connect(spark, tmp_path / "db") as db:
        db.sql(FLAT)
    inbox.put()
    inbox.put()
    command = [sys.executable, "-c", CHILD, str(tmp_path / "db"), str(inbox.folder), "before-checkpoint:kill"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with connect(spark, tmp_path / "db") as db:
        assert db.epoch == BASE + 1
        assert db.view("v").verify().num_rows == 0
        db.stream("t", inbox.folder).process_all()
        assert (db.epoch, db.statistics()["streams"]) == (BASE + 2, {"t": 1})
        inbox.check(db)
