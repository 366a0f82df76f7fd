"""What a batch on Spark says about itself: jobs, stages, exchanges, blocks and workers."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.spark.session import observe

pytestmark = pytest.mark.spark


def opened(spark: Any, path: Path, **options: Any) -> ef.Database:
    chosen = ef.Options(workers=2, durable=False, **options)
    return ef.connect(path, engine="spark", spark=spark, options=chosen)


def test_a_batch_tells_jobs_stages_and_what_was_exchanged(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(spark, tmp_path, whole_bytes=0) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, x BIGINT NOT NULL)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s FROM t GROUP BY k")
        rows = [(i, i % 100, i) for i in range(1000)]
        with caplog.at_level(logging.DEBUG, "everfresh.batches"):
            db.apply(t=spark.createDataFrame(rows, "id long, k long, x long"))
        lines = [r.getMessage() for r in caplog.records if r.name == "everfresh.batches"]
        (line,) = [line for line in lines if line.startswith("epoch")]
        assert line.startswith("epoch 3: 1000 rows, ")
        assert lines[0] == "rows that are not counted: incremental"
        last = db.statistics()["last batch"]
        assert last["jobs"] >= 1
        assert last["stages"] == len(last["blocks"]) >= 2
        assert [block["block"] for block in last["blocks"]][:2] == [observe.BEFORE, "base"]
        for block in last["blocks"][1:]:
            assert set(block["ms"]) == {"0", "1"}
            assert 1 <= block["skew"] <= 2
        assert last["exchanged"]["rows"] >= 1100  # each row to its owner, each group to the driver
        assert last["exchanged"]["bytes"] > 0
        assert last["exchanged"]["skew"] >= 1
        db.apply(t=[(5000, 1, 1)])
        last = db.statistics()["last batch"]
        assert last["jobs"] == 1
        travels = last["form"] != "whole" or "driver" in last  # else every task reads it and keeps its part
        assert last["exchanged"]["rows"] == (1 if travels else 0)
        units = {name: unit for name, unit in last.items() if "/" in name}
        assert sum(unit["rows"] for name, unit in units.items() if name.startswith("base/")) == 1


def test_marks_are_taken_off(spark: Any, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        with pytest.raises(ef.EverfreshError):
            db.apply(t=[(1,), (1,)])
        assert not [tag for tag in spark.sparkContext.getJobTags() if tag.startswith("everfresh")]


def asleep(batches: Any) -> Any:
    time.sleep(300)
    yield from batches


def test_what_is_cancelled_before_spark_knows_of_it_ends(spark: Any) -> None:
    observer = observe.Observer(spark)
    sleeping = spark.range(1).mapInArrow(asleep, "id long")

    def run() -> None:
        with observer.job("nonce", "base"):
            observer.cancel()  # nothing runs yet
            sleeping.collect()

    with pytest.raises(Exception, match=r"(?i)cancel"):
        run()
    with pytest.raises(observe.Ended), observer.job("other", "base"):
        raise AssertionError("it has begun")
    observer.batch()
    with observer.job("third", "base"):
        assert spark.range(3).count() == 3
