"""Batches in DataFrames whose rows are laid down for all tasks: as if they had been given otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everfresh as ef

pytestmark = pytest.mark.spark

DDL = """
CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, x DECIMAL(10, 2));
CREATE TABLE names (k BIGINT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE MATERIALIZED VIEW v AS
    SELECT name, SUM(x) AS s, COUNT(*) AS n FROM t JOIN names ON t.k = names.k GROUP BY name
"""


def opened(spark: Any, path: Path, **options: Any) -> ef.Database:
    chosen = ef.Options(workers=2, durable=False, **options)
    db = ef.connect(path, engine="spark", spark=spark, options=chosen)
    db.sql(DDL)
    db.apply(names=[(k, f"name {k % 3}") for k in range(10)])
    return db


def frame(spark: Any, ids: range, parts: int = 3) -> Any:
    """Rows (id, id % 10, id)."""
    found = spark.range(ids.start, ids.stop, 1, parts)
    return found.selectExpr("id", "id % 10 AS k", "CAST(id AS DECIMAL(10, 2)) AS x")


def expected(ids: range) -> set[tuple[Any, ...]]:
    found: dict[str, tuple[int, int]] = {}
    for i in ids:
        name = f"name {i % 10 % 3}"
        s, n = found.get(name, (0, 0))
        found[name] = s + i, n + 1
    return {(name, s, n) for name, (s, n) in found.items()}


def shown(db: ef.Database) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in db.view("v").to_arrow().to_pylist()}


def laid(path: Path) -> list[Path]:
    return [file for file in path.rglob("*.rows") if file.is_file()]


def test_small_frames_are_read_by_every_task(spark: Any, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as db:
        db.apply(t=frame(spark, range(500)), names=[(99, "nobody")])
        assert db.statistics()["last batch"]["form"] == "whole"
        assert shown(db) == expected(range(500))
        db.apply(t=ef.Delta(inserts=frame(spark, range(500, 700)), deletes=frame(spark, range(100), parts=1)))
        assert db.statistics()["last batch"]["form"] == "whole"
        assert shown(db) == expected(range(100, 700))
        db.apply(t=frame(spark, range(0)))
        assert shown(db) == expected(range(100, 700))
        assert laid(tmp_path) == []


def test_large_frames_are_routed(spark: Any, tmp_path: Path) -> None:
    with opened(spark, tmp_path, whole_bytes=4096) as db:
        for start in (0, 1000):
            db.apply(t=frame(spark, range(start, start + 1000)))
            assert db.statistics()["last batch"]["form"] == "staged"
        assert shown(db) == expected(range(2000))
        assert laid(tmp_path) == []


def test_a_bad_row_is_refused_whole(spark: Any, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as db:
        db.apply(t=frame(spark, range(10)))
        epoch = db.epoch
        null = spark.createDataFrame(
            [(20, 1, None), (21, None, None), (22, 2, None)], "id long, k long, x decimal(10, 2)"
        ).repartition(3)
        for bad, code in ((frame(spark, range(5, 15)), "duplicate-key"), (null, "null")):
            with pytest.raises(ef.EverfreshError) as refused:
                db.apply(t=bad)
            assert refused.value.code == code
        assert db.epoch == epoch
        assert shown(db) == expected(range(10))
        assert laid(tmp_path) == []
        db.apply(t=pa.table({"id": [10], "k": [0], "x": pa.array([10], pa.decimal128(10, 2))}))
        assert shown(db) == expected(range(11))
