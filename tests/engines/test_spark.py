"""The Spark engine satisfies the suite, and its state lives with the partitions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import everfresh as ef
from everfresh.testing.engine.suite_feeds import History, feed
from everfresh.testing.engine.suite_inputs import EXPECTED, TABLE, VIEW
from everfresh.testing.engine_suite import EngineSuite
from everfresh.testing.oracle import assert_rows, assert_same

pytestmark = pytest.mark.spark


class TestSpark(EngineSuite):
    engine = "spark"
    other_process = False
    passing_tables = False
    single_changes = 1
    histories = 2
    history_size = 25
    history_views = 4
    language_views = 6
    language_batches = 3
    time_views = 3
    time_batches = 3
    feed_batches = 3
    feed_forms = ("dicts", "Parquet", "CSV")
    session: Any = None

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _session(cls, spark: Any) -> None:
        cls.session = spark

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="spark", spark=self.session, **{"options": self.options(), **kwargs})

    def options(self, **changes: Any) -> ef.Options:
        return ef.Options(workers=2).with_(**changes)

    # -- what only Spark has ---------------------------------------------------------------------------------

    def test_spark_frames_go_in_and_come_out(self, db: ef.Database) -> None:
        db.sql(f"{TABLE}; {VIEW}")
        frame = self.session.createDataFrame(EXPECTED)
        db.apply(t=frame)
        assert_same(EXPECTED, db.table("t").to_arrow(), "the table")
        view = db.view("v")
        assert_same(view.to_arrow(), view.to_spark().toArrow().cast(view.to_arrow().schema), "to_spark")
        assert_same(EXPECTED, db.table("t").to_spark().toArrow().cast(EXPECTED.schema), "the table, to_spark")
        fixed, epoch = view.to_spark(), db.epoch
        before = view.to_arrow()
        db.apply(t=ef.Delta(deletes=frame.limit(2)))
        assert len(db.table("t")) == 2
        assert_same(before, view.to_spark(at=epoch).toArrow().cast(before.schema), "at an earlier epoch")
        assert_same(before, fixed.toArrow().cast(before.schema), "a frame stays at its epoch")

    def test_a_change_feed_in_a_spark_frame(self, db: ef.Database) -> None:
        db.sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x INTEGER NOT NULL); "
            "CREATE TABLE b (x INTEGER); "
            "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s FROM t GROUP BY g"
        )
        history = History(3)
        for preimages in (True, False):
            rows = feed(*history.changes(12, preimages)).drop_columns(["_commit_timestamp"])
            db.apply(t=self.session.createDataFrame(rows).repartition(3))
            assert_rows(db.table("t"), *((k, g, x) for k, (g, x) in history.rows.items()))
        assert db.view("v").verify().num_rows == 0
        frame = self.session.createDataFrame([(1, "insert"), (1, "change")], "x INT, _change_type STRING")
        with pytest.raises(ef.EverfreshError, match="'change' in column '_change_type'"):
            db.apply(b=frame)
        frame = self.session.createDataFrame([(1, "update_postimage")], "x INT, _change_type STRING")
        with pytest.raises(ef.EverfreshError, match="no primary key"):
            db.apply(b=frame)
        db.apply(b=frame.selectExpr("x", "'insert' AS _CHANGE_TYPE"))
        assert_rows(db.table("b"), (1,))

    def test_bad_rows_in_a_spark_frame(self, db: ef.Database) -> None:
        db.sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v SMALLINT); CREATE MATERIALIZED VIEW s AS SELECT "
            "SUM(v) AS v FROM t"
        )
        db.apply(t=[(1, 1)])
        for rows, code in [
            ([(2, 70000)], ef.Code.OVERFLOW),
            ([(None, 1)], ef.Code.NULL),
            ([(1, 1)], ef.Code.DUPLICATE_KEY),
        ]:
            epoch = db.epoch
            with pytest.raises(ef.EverfreshError) as caught:
                db.apply(t=self.session.createDataFrame(rows, "k BIGINT, v INT"))
            assert caught.value.code == code
            assert db.epoch == epoch
        assert_rows(db.view("s"), (1,))

    def test_a_result_is_a_spark_frame_too(self, shop: ef.Database) -> None:
        result: Any = shop.sql("SELECT name, n FROM totals WHERE name IS NOT NULL")
        assert {tuple(row) for row in result.to_spark().collect()} == {("ink", 2), ("pen", 1)}


def test_a_distributed_map_cannot_be_opened_in_the_driver() -> None:
    from everfresh.spark.state import chain

    class Base:
        unit = "maps/0"

    with pytest.raises(AssertionError, match="driver"):
        chain.bring_to(Base(), None)  # type: ignore[arg-type]


def test_the_check_of_the_driver_is_what_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from everfresh.spark.state import chain

    monkeypatch.setattr(chain, "_never_in_driver", lambda unit: None)

    class Base:
        unit = "maps/0"

    with pytest.raises(AttributeError):
        chain.bring_to(Base(), None)  # type: ignore[arg-type]


_DRIVER = """
import sys
import everfresh as ef

folder, rows, state = sys.argv[1:4]
with ef.connect(state, engine="spark", options=ef.Options(workers=2)) as db:
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, name VARCHAR, x DOUBLE)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW per_name AS SELECT name, COUNT(*) AS n FROM t GROUP BY name")
    db.apply(t=folder)
    db.apply(t=[(-1, 5, "x", 0.5)])
    db.sql("CREATE MATERIALIZED VIEW late AS SELECT k, x FROM t WHERE x < 0.001")
    assert db.sql("SELECT SUM(n) AS n FROM v").to_pylist()[0]["n"] == int(rows) + 1
# Not ru_maxrss: it starts from what the process had before it became this one, the memory of pytest.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print("peak", status["VmHWM"].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_the_driver_does_not_grow_with_the_base(tmp_path: Path) -> None:
    peaks = {}
    for rows in (200_000, 2_000_000):
        folder, part = tmp_path / str(rows), rows // 4
        folder.mkdir()
        for number in range(4):
            i = np.arange(part)
            names = pa.array([f"name {n}" for n in range(20_000)])
            pyarrow.parquet.write_table(
                pa.table(
                    {"k": i + number * part, "g": i % 97, "name": names.take(i % 20_000), "x": i / part}
                ),
                folder / f"{number}.parquet",
            )
        command = [sys.executable, "-c", _DRIVER, str(folder), str(rows), str(tmp_path / f"db-{rows}")]
        # a session of its own, wherever the one of this process is
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environ)
        assert done.returncode == 0, done.stderr[-3000:]
        peaks[rows] = int(done.stdout.split("peak")[1])
    assert peaks[2_000_000] < 1.10 * peaks[200_000], f"peak resident memory of the driver in KiB: {peaks}"
