"""DataFrames that are scans of Parquet files are read as these files, and all others by Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everfresh as ef
from everfresh.delta import read_rows
from everfresh.spark.input.scans import scanned

pytestmark = pytest.mark.spark

DDL = """
CREATE TABLE t (id BIGINT PRIMARY KEY, k VARCHAR NOT NULL, x DECIMAL(10, 2), d DATE, at TIMESTAMP);
CREATE MATERIALIZED VIEW v AS
    SELECT k, SUM(x) AS s, COUNT(*) AS n, MIN(d) AS d, MAX(at) AS at FROM t GROUP BY k
"""
TYPES = pa.schema(
    {
        "id": pa.int64(),
        "k": pa.string(),
        "x": pa.decimal128(10, 2),
        "d": pa.date32(),
        "at": pa.timestamp("us"),
    }
)


def rows(ids: range) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": i,
                "k": f"k {i % 3}",
                "x": Decimal(i) / 4 if i % 5 else None,
                "d": date(2020, 1, 1 + i % 28),
                "at": datetime(2020, 1, 1, 0, i % 60),
            }
            for i in ids
        ],
        TYPES,
    )


def written(folder: Path, *parts: pa.Table, **more: Any) -> str:
    folder.mkdir()
    for i, part in enumerate(parts):
        pq.write_table(part, folder / f"part {i}.parquet", **more)
    return str(folder)


@pytest.fixture
def db(spark: Any, tmp_path: Path) -> Any:
    options = ef.Options(workers=2, durable=False)
    with ef.connect(tmp_path / "db", engine="spark", spark=spark, options=options) as found:
        found.sql(DDL)
        yield found


def files_of(db: Any, df: Any) -> tuple[str, ...] | None:
    schema = db.catalog.tables["t"]
    found = scanned(read_rows(df, schema, what="t"), schema, 1 << 20)
    return found and tuple(Path(path).name for path in found.paths)


def check(db: Any, had: pa.Table) -> None:
    groups = had.group_by("k").aggregate([("x", "sum"), ([], "count_all"), ("d", "min"), ("at", "max")])
    expected = {tuple(row.values()) for row in groups.to_pylist()}
    assert {tuple(row.values()) for row in db.view("v").to_arrow().to_pylist()} == expected


def test_a_scan_is_read_as_its_files(spark: Any, db: Any, tmp_path: Path) -> None:
    one = written(tmp_path / "a folder", rows(range(100)))
    two = written(tmp_path / "two", rows(range(100, 150)).select(["at", "d", "x", "k", "id"]), rows(range(0)))
    assert files_of(db, spark.read.parquet(one)) == ("part 0.parquet",)
    db.apply(t=spark.read.parquet(one))
    assert db.statistics()["last batch"]["form"] == "whole"
    check(db, rows(range(100)))
    first = spark.read.format("parquet").load(two + "/part 0.parquet")
    first.createOrReplaceTempView("scanned_view")
    assert files_of(db, first) == ("part 0.parquet",)
    db.apply(t=first)
    check(db, rows(range(150)))
    some = written(tmp_path / "some", rows(range(50)), rows(range(50, 60)))
    assert files_of(db, spark.read.parquet(some)) == ("part 0.parquet", "part 1.parquet")
    db.apply(t=ef.Delta(deletes=spark.read.parquet(some)))
    check(db, rows(range(60, 150)))


OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "a condition": lambda _, df: df.where("id >= 0"),
    "a column computed": lambda _, df: df.withColumn("x", df["x"] + 0).selectExpr(
        "id", "k", "CAST(x AS DECIMAL(10, 2)) x", "d", "at"
    ),
    "a name": lambda _, df: df.selectExpr("id AS ID", "k", "x", "d", "at"),
    "rows twice": lambda _, df: df.union(df).distinct(),
    "a part of the rows": lambda _, df: df.limit(1000),
    "rows that are kept": lambda _, df: df.cache(),
    "rows of memory": lambda spark, df: spark.createDataFrame(df.collect(), df.schema),
}


@pytest.mark.parametrize("why", OTHERS)
def test_what_has_something_on_top_is_left_to_spark(spark: Any, db: Any, tmp_path: Path, why: str) -> None:
    scan = spark.read.parquet(written(tmp_path / "in", rows(range(40))))
    assert files_of(db, scan) is not None
    df = OTHERS[why](spark, scan)
    try:
        assert files_of(db, df) is None
        db.apply(t=df)
    finally:
        df.unpersist()
    check(db, rows(range(40)))


def test_files_that_spark_reads_otherwise_are_left_to_it(spark: Any, db: Any, tmp_path: Path) -> None:
    narrow = rows(range(10)).set_column(0, "id", rows(range(10))["id"].cast(pa.int32()))
    zoned = rows(range(10)).set_column(4, "at", rows(range(10))["at"].cast(pa.timestamp("us", "UTC")))
    for i, table in enumerate((narrow, zoned)):
        assert files_of(db, spark.read.parquet(written(tmp_path / f"other {i}", table))) is None
    mixed = written(tmp_path / "mixed", rows(range(10)), rows(range(10)).append_column("more", pa.nulls(10)))
    assert files_of(db, spark.read.parquet(mixed)) is None
    plain = written(tmp_path / "plain", rows(range(10)))
    assert files_of(db, spark.read.option("mergeSchema", "true").parquet(plain)) is None
    nothing = rows(range(10)).drop_columns(["x"])
    schema = spark.read.parquet(plain).schema
    assert files_of(db, spark.read.schema(schema).parquet(written(tmp_path / "less", nothing))) is None
    (tmp_path / "by").mkdir()
    written(tmp_path / "by" / "d=2020-01-01", rows(range(10)).drop_columns(["d"]))
    by = spark.read.parquet(str(tmp_path / "by"))
    assert files_of(db, by) is None
    csv = rows(range(10)).to_pandas()
    csv.to_csv(tmp_path / "rows.csv", index=False)
    assert files_of(db, spark.read.schema(schema).csv(str(tmp_path / "rows.csv"), header=True)) is None
    db.apply(t=spark.read.schema(schema).parquet(str(tmp_path / "less")))
    assert db.view("v").to_arrow()["s"].null_count == 3


def test_dates_of_the_old_calendar_are_left_to_spark(spark: Any, db: Any, tmp_path: Path) -> None:
    early = rows(range(3)).set_column(3, "d", pa.array([date(1500, 1, 1)] * 3))
    said = {"org.apache.spark.version": "3.5.0"}
    new = written(tmp_path / "new", early.replace_schema_metadata(said))
    old = written(
        tmp_path / "old", early.replace_schema_metadata({**said, "org.apache.spark.legacyDateTime": ""})
    )
    assert files_of(db, spark.read.parquet(new)) is not None
    assert files_of(db, spark.read.parquet(old)) is None
    db.apply(t=spark.read.parquet(old))
    assert set(db.view("v").to_arrow()["d"].to_pylist()) == {date(1499, 12, 23)}


def test_a_bad_row_of_a_scan_is_refused_whole(spark: Any, db: Any, tmp_path: Path) -> None:
    bad = pa.concat_tables([rows(range(3)), rows(range(1)).set_column(1, "k", pa.nulls(1, pa.string()))])
    path = written(tmp_path / "bad", bad)
    with pytest.raises(ef.EverfreshError, match="k"):
        db.apply(t=spark.read.parquet(path))
    gone = spark.read.parquet(written(tmp_path / "gone", rows(range(3))))
    next(Path(tmp_path / "gone").iterdir()).unlink()
    with pytest.raises(Exception, match=r"part 0\.parquet|UNABLE_TO_INFER_SCHEMA"):
        db.apply(t=gone)
    check(db, rows(range(0)))


@pytest.mark.parametrize("most", [0, 1 << 20], ids=["routed", "read by every task"])
def test_values_that_spark_has_and_no_table_holds(spark: Any, tmp_path: Path, most: int) -> None:
    options = ef.Options(workers=2, durable=False, whole_bytes=most)
    with ef.connect(tmp_path / "db", engine="spark", spark=spark, options=options) as db:
        db.sql(DDL)
        for values in (
            "CAST(X'636166E9' AS STRING) AS k, NULL AS d",
            "'a' AS k, date_add(DATE'9999-12-31', 1) AS d",
        ):
            frame = spark.sql(f"SELECT 1L AS id, {values}")
            with pytest.raises(ef.EverfreshError, match=r"not UTF-8|outside DATE"):
                db.apply(t=frame)
        check(db, rows(range(0)))
