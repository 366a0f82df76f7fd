"""CHECK and generated columns where rows are with the workers: DataFrames and Parquet files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import everfresh as ef
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.oracle import assert_rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("whole_bytes", [0, 1 << 20])
def test_rows_that_come_with_the_workers(spark: SparkSession, tmp_path: Path, whole_bytes: int) -> None:
    with ef.connect(spark=spark, options=ef.Options(whole_bytes=whole_bytes, read_bytes=whole_bytes)) as db:
        db.sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, b AS (a * 2), a INTEGER CHECK (a > 0));"
            "CREATE TABLE bag (a INTEGER, b INTEGER AS (a + 1), CONSTRAINT few CHECK (b < 10));"
            "CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;"
            "CREATE MATERIALIZED VIEW w AS SELECT b, COUNT(*) AS n FROM bag GROUP BY b"
        )
        rows = spark.createDataFrame([(1, 3), (2, 4), (3, None)], "k BIGINT, a INT")
        db.apply(t=rows, bag=spark.createDataFrame([(1,), (1,), (5,)], "a INT"))
        assert_rows(db.view("v"), (6, 1), (8, 1), (None, 1))
        pq.write_table(pa.table({"k": [4, 5], "a": pa.array([3, 9], pa.int32())}), tmp_path / "t.parquet")
        db.apply(t=str(tmp_path / "t.parquet"))
        db.apply(
            t=ef.Delta(updates=spark.createDataFrame([(1, 7)], "k BIGINT, a INT")),
            bag=ef.Delta(deletes=spark.createDataFrame([(1,)], "a INT")),
        )
        epoch = db.epoch
        with refused(ef.Code.CHECK, "a > 0", "k=9"):
            db.apply(t=spark.createDataFrame([(8, 1), (9, 0)], "k BIGINT, a INT"))
        with refused(ef.Code.CHECK, "'few'", "a=9"):
            db.apply(t=rows.selectExpr("k + 20 AS k", "a"), bag=spark.createDataFrame([(9,)], "a INT"))
        with refused(ef.Code.ARGUMENT, "is generated"):
            db.apply(bag=spark.createDataFrame([(9, 1)], "a INT, b INT"))
        db.sql("UPDATE bag SET a = 2 WHERE b = 2; DELETE FROM bag WHERE b = 6")
        assert db.epoch == epoch + 2
        assert_rows(db.table("bag"), (2, 3))
        assert_rows(db.view("w"), (3, 1))
        assert_rows(db.table("t"), (1, 14, 7), (2, 8, 4), (3, None, None), (4, 6, 3), (5, 18, 9))
        assert db.view("v").verify().num_rows == db.view("w").verify().num_rows == 0
