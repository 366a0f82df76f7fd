"""Folders as streams, on the local engine: each file is one epoch, whatever happens in between."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from stream_inbox import FLAT, JOIN, Inbox

import everfresh as ef
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.oracle import assert_rows

DDL = FLAT + JOIN
BASE = 4


def connect(path: Path | None = None, **options: Any) -> ef.Database:
    return ef.connect(path, engine="local", options=ef.Options(durable=False, **options))


def test_files_become_epochs_in_their_order(inbox: Inbox) -> None:
    with connect() as db:
        db.sql(DDL)
        for _ in range(3):
            inbox.put()
        stream = db.stream("t", inbox.folder, interval=0.01)
        assert stream.name == "t"
        assert db.streams == {"t": stream}
        assert "running" in repr(stream)
        stream.process_all()
        assert db.epoch == BASE + 3
        inbox.check(db)
        for _ in range(4):
            inbox.put()
        stream.process_all()
        assert (db.epoch, stream.last) == (BASE + 7, 6)
        inbox.check(db)
        stream.stop()
        stream.stop()
        inbox.put()
        stream.process_all()
        assert db.epoch == BASE + 7
        assert not stream.active
        assert db.statistics()["streams"] == {"t": 6}


def test_a_stream_goes_on_where_it_was(tmp_path: Path, inbox: Inbox) -> None:
    with connect(tmp_path / "db", snapshot_epochs=2) as db:
        db.sql(DDL)
    for number in range(3):  # started again twice, after a close that stops it
        with connect(tmp_path / "db", snapshot_epochs=2) as db:
            inbox.put()
            inbox.put()
            stream = db.stream("t", inbox.folder, name="feed", interval=60)
            stream.process_all()
            assert db.epoch == BASE + 2 * (number + 1)
            inbox.check(db)
        assert not stream.active
        assert stream.exception is None
    with connect(tmp_path / "db") as db:
        assert db.stream("t", inbox.folder, name="feed", available_now=True).wait()
        assert db.epoch == BASE + 6
        inbox.check(db)


def test_a_bad_file_ends_the_stream_and_nothing_else(tmp_path: Path, inbox: Inbox) -> None:
    with connect(tmp_path / "db") as db:
        db.sql(DDL)
        inbox.put()
        bad = inbox.put("k,g,x\n100,a,1\n101,a,many\n")
        with refused(ef.Code.VALUE, "many", "row 1", bad.name, "stream 't'"):
            db.stream("t", inbox.folder, interval=60).process_all()
        stream = db.streams["t"]
        assert not stream.active
        assert "failed" in repr(stream)
        assert stream.exception is not None
        with refused(ef.Code.VALUE):
            stream.wait()
        assert db.epoch == BASE + 1
        inbox.check(db)
        # Again, and it is refused again; without the file it goes on.
        with refused(ef.Code.VALUE):
            db.stream("t", inbox.folder).process_all()
        bad.unlink()
        inbox.put()
        db.stream("t", inbox.folder).process_all()
        assert db.epoch == BASE + 2
        inbox.check(db)


@pytest.mark.parametrize("point", ["mid-commit", "before-checkpoint"])
def test_a_crash_around_the_commit_loses_nothing_and_doubles_nothing(
    tmp_path: Path, inbox: Inbox, point: str
) -> None:
    with connect(tmp_path / "db") as db:
        db.sql(DDL)
    inbox.put()
    inbox.put()
    with connect(tmp_path / "db", fault=f"{point}:raise:*:1") as db:
        with refused(ef.Code.STREAM, point):
            db.stream("t", inbox.folder).process_all()
        assert db.epoch == BASE + (point == "before-checkpoint")
    for _ in range(2):
        with connect(tmp_path / "db") as db:
            db.stream("t", inbox.folder).process_all()
            assert (db.epoch, db.statistics()["streams"]) == (BASE + 2, {"t": 1})
            inbox.check(db)


CHILD = """
import sys
import everfresh as ef
path, inbox, fault = sys.argv[1:]
with ef.connect(path, engine="local", options=ef.Options(durable=False, fault=fault)) as db:
    print("ready", flush=True)
    db.stream("t", inbox).process_all()
"""


def test_a_process_killed_between_commit_and_log(tmp_path: Path, inbox: Inbox) -> None:
    with connect(tmp_path / "db") as db:
        db.sql(DDL)
    for _ in range(3):
        inbox.put()
    for number, point in enumerate(["before-checkpoint", "mid-commit"], start=1):
        command = [sys.executable, "-c", CHILD, str(tmp_path / "db"), str(inbox.folder), f"{point}:kill"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        with connect(tmp_path / "db") as db:
            assert db.epoch == BASE + number  # in both cases the record is whole
            assert db.view("v").verify().num_rows == 0
    with connect(tmp_path / "db") as db:
        db.stream("t", inbox.folder).process_all()
        assert db.epoch == BASE + 3
        inbox.check(db)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_at_random(tmp_path: Path, seed: int) -> None:
    rng, inbox = Random(seed), Inbox(tmp_path / "in", seed)
    with connect(tmp_path / "db") as db:
        db.sql(DDL)
    for _ in range(8):
        for _ in range(rng.randint(1, 30)):
            inbox.put()
        command = [sys.executable, "-c", CHILD, str(tmp_path / "db"), str(inbox.folder), "never:kill"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.wait(120)
        with connect(tmp_path / "db") as db:
            assert db.epoch == BASE + 1 + db.statistics()["streams"].get("t", -1)
            assert all(view.verify().num_rows == 0 for view in db.views.values())
    with connect(tmp_path / "db") as db:
        db.stream("t", inbox.folder).process_all()
        assert db.epoch == BASE + inbox.count
        inbox.check(db)


def test_two_streams_and_direct_batches(tmp_path: Path, inbox: Inbox) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with connect(tmp_path / "db") as db:
        db.sql(DDL)
        streams = [
            db.stream("t", inbox.folder, interval=0.001),
            db.stream("u", other, name="lines", format="csv", interval=0.001),
        ]
        for number in range(10):
            inbox.put()
            (other / f"{number}.tmp").write_text(f"x\n{number}\n")
            (other / f"{number}.tmp").rename(other / f"{number}.csv")
            (other / f"{number}.parquet").write_bytes(b"not looked at")
            db.apply(u=[(1000,)], key=f"key-{number}")
        for stream in streams:
            stream.process_all()
        assert db.epoch == BASE + 30
        assert db.statistics()["streams"] == {"t": 9, "lines": 9}
        assert_rows(db.table("u"), *[(n,) for n in range(10)], *[(1000,)] * 10)
        inbox.check(db)
    with connect(tmp_path / "db") as db:
        assert db.epoch == BASE + 30
        assert db.statistics()["streams"] == {"t": 9, "lines": 9}
        inbox.check(db)


def test_a_stream_of_spark_connect_is_refused() -> None:
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "isStreaming": True})
    with connect() as db:
        db.sql(DDL)
        with refused(ef.Code.UNSUPPORTED, "Spark Connect", "another process"):
            db.stream("t", kind())


def test_what_cannot_be_streamed(tmp_path: Path, inbox: Inbox) -> None:
    with connect(tmp_path / "db") as db:
        db.sql(
            DDL + "CREATE STATIC TABLE s (a BIGINT); CREATE MATERIALIZED VIEW z AS SELECT SUM(a) AS a FROM s;"
        )
        with refused(ef.Code.NOT_FOUND, "nothing"):
            db.stream("nothing", inbox.folder)
        with refused(ef.Code.NOT_FOUND, "no folder"):
            db.stream("t", tmp_path / "none")
        with refused(ef.Code.DEPENDENCY, "static"):
            db.stream("s", inbox.folder)
        with refused(ef.Code.ARGUMENT, "json"):
            db.stream("t", inbox.folder, format="json")
        with refused(ef.Code.ARGUMENT, "name"):
            db.stream("t", inbox.folder, name="../t")
        with refused(ef.Code.ARGUMENT, "list is not a stream"):
            db.stream("t", [(1, "a", 1)])  # type: ignore[arg-type]
        with refused(ef.Code.UNSUPPORTED, "local folder"):
            db.stream("t", "s3://bucket/changes")
        with refused(ef.Code.ARGUMENT, "seconds"):
            db.stream("t", inbox.folder, interval=-1)
        inbox.put()
        with db.stream("t", inbox.folder, name="one") as stream:
            stream.process_all()
            with refused(ef.Code.ARGUMENT, "is running"):
                db.stream("t", inbox.folder, name="one")
        with refused(ef.Code.ARGUMENT, "table 't'"):
            db.stream("u", inbox.folder, name="one")
        with refused(ef.Code.ARGUMENT, "folder"):
            db.stream("t", tmp_path, name="one")
    with ef.connect(tmp_path / "db", engine="local", read_only=True) as db, refused(ef.Code.READ_ONLY):
        db.stream("t", inbox.folder)


@pytest.mark.parametrize("damage", ["folder", "log", "line"])
def test_a_stream_whose_folder_is_damaged_is_refused(tmp_path: Path, inbox: Inbox, damage: str) -> None:
    with connect(tmp_path / "db") as db:
        db.sql(DDL)
        inbox.put()
        inbox.put()
        db.stream("t", inbox.folder).process_all()
    home = tmp_path / "db" / "sources" / "t"
    if damage == "folder":
        home.rename(tmp_path / "elsewhere")
    elif damage == "log":
        (home / "files").unlink()
    else:
        (home / "files").write_bytes((home / "files").read_bytes().splitlines()[0] + b"\n")
    with connect(tmp_path / "db") as db:
        with refused(ef.Code.DAMAGED):
            db.stream("t", inbox.folder)
        inbox.check(db)
        inbox.put()
        if damage == "folder":
            (tmp_path / "elsewhere").rename(home)
            db.stream("t", inbox.folder).process_all()
            inbox.check(db)


def test_a_stream_is_stopped_from_wherever(inbox: Inbox) -> None:
    with connect() as db:
        db.sql(DDL)
        inbox.put()
        stream = db.stream("t", inbox.folder, interval=0.001)
        stream.process_all()
        # By a listener of its own batch.
        heard = threading.Event()

        def hear(_: pa.Table) -> None:
            stream.stop()
            heard.set()

        end = db.view("v").on_change(hear)
        inbox.put()
        assert heard.wait(120)
        assert stream.wait(120)
        end()
        # By a listener of another batch, while the stream waits for the database.
        stream = db.stream("t", inbox.folder, interval=0.001)
        end = db.view("v").on_change(lambda _: (inbox.put(), stream.stop()))
        db.apply(t=[(100, "a", 1)])
        assert not stream.active
        end()
        db.sql("DELETE FROM t WHERE k = 100")
        db.stream("t", inbox.folder).process_all()
        inbox.check(db)
    assert all(not stream.active for stream in db._streams.values())


def test_a_dropped_table_ends_its_stream(inbox: Inbox) -> None:
    with connect() as db:
        db.sql(DDL)
        stream = db.stream("t", inbox.folder, interval=60)
        db.sql("DROP TABLE t CASCADE")
        inbox.put()
        with refused(ef.Code.NOT_FOUND, "'t'"):
            stream.process_all()
