"""Crossmatches of Spark's DataFrames give a DataFrame with the rows that local tables would."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everfresh as ef
from everfresh.arrays.sky.spark import files, frames
from everfresh.errors import EverfreshError

pytestmark = pytest.mark.spark

COUNT = 1200
RADIUS = 5400.0


def _catalog(seed: int) -> pa.Table:
    """Points all over the sky, at the poles, over the seam, and a crowd of the same place."""
    rng = np.random.default_rng(seed)
    dec = np.rad2deg(np.arcsin(rng.uniform(-1, 1, COUNT)))
    ra = rng.uniform(0, 360, COUNT)
    ra[:200], dec[:200] = rng.normal(0, 2, 200), rng.normal(0, 2, 200)
    dec[200:300] = 90 - np.abs(rng.normal(0, 1, 100))
    dec[300:310] = -90.0
    ra[310:400], dec[310:400] = 150.0, 2.0
    day = datetime.datetime(2026, 1, 1)
    return pa.table(
        {
            "ra": ra,
            "dec": dec,
            "mjd": pa.array([None if k % 50 == 0 else float(k % 11) for k in range(COUNT)]),
            "id": np.arange(COUNT, dtype=np.int32),
            "what's it": [f"{seed}-{k}" for k in range(COUNT)],
            "seen": pa.array(
                [day + datetime.timedelta(hours=k) for k in range(COUNT)], pa.timestamp("us", "UTC")
            ),
        }
    )


@pytest.fixture(autouse=True)
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_FEWEST", 50)
    monkeypatch.setattr(frames, "_MOST", 300)


def _rows(found: Any) -> list[str]:
    table = found.toArrow() if hasattr(found, "toArrow") else found.drop(["left_row", "right_row"])
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize(
    ("how", "find", "within"),
    [("inner", "all", {"mjd": (-3, 0)}), ("left", "best", {}), ("anti", "all", {}), ("outer", "best", {})],
)
def test_frames_match_as_tables_do(spark: Any, how: Any, find: Any, within: Any) -> None:
    a, b = _catalog(1), _catalog(2)
    arguments: dict[str, Any] = {"how": how, "find": find, "within": within}
    found = ef.arrays.crossmatch(spark.createDataFrame(a), spark.createDataFrame(b), RADIUS, **arguments)
    columns = {"left_columns": a.column_names, "right_columns": b.column_names}
    if how == "anti":
        columns["right_columns"] = []
    want = ef.arrays.crossmatch(a, b, RADIUS, **columns, **arguments)
    assert found.rdd.getNumPartitions() > 5
    assert found.columns == want.drop(["left_row", "right_row"]).column_names
    assert _rows(found) == _rows(want)


def test_a_side_may_be_a_local_table_or_files(spark: Any, tmp_path: Path) -> None:
    a, b = _catalog(3), _catalog(4)
    catalog = tmp_path / "catalog" / "dataset"
    for k in range(2):
        place = catalog / "Norder=1" / "Dir=0" / f"Npix={k}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(b.slice(600 * k, 600), place)
    pq.write_table(b.slice(0, 5), catalog / "data_thumbnail.parquet")  # rows that are in the partitions too
    columns: dict[str, Any] = {"left_columns": ["id"], "right_columns": ["id"]}
    want = _rows(ef.arrays.crossmatch(a, b, RADIUS, **columns))
    assert _rows(ef.arrays.crossmatch(a, tmp_path / "catalog", RADIUS, **columns)) == want
    (tmp_path / "catalog").rename(tmp_path / "some")
    (tmp_path / "catalog").mkdir()
    (tmp_path / "some").rename(tmp_path / "catalog" / "some")
    about = tmp_path / "catalog" / "collection.properties"
    about.write_text("obs_collection=catalog\nhats_primary_table_url=some\n")
    pq.write_table(a, tmp_path / "catalog" / "margin.parquet")  # what else a collection has
    frame = spark.createDataFrame(pd.DataFrame({n: a.column(n).to_numpy() for n in ("ra", "dec", "id")}))
    assert _rows(ef.arrays.crossmatch(frame, tmp_path / "catalog", RADIUS, **columns)) == want
    pq.write_table(a, tmp_path / "a.parquet")
    found = ef.arrays.crossmatch(tmp_path / "a.parquet", b, RADIUS, spark=spark, **columns)
    found.write.parquet(str(tmp_path / "found"))
    assert _rows(spark.read.parquet(str(tmp_path / "found"))) == want


def test_files_are_read_and_written_by_the_tasks(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Row groups of files of several sizes, a scan of them, and a folder for the result: the same rows."""
    monkeypatch.setattr(files, "_LEAST", 20_000)
    monkeypatch.setattr(files, "_MOST", 20_000)
    a, b = _catalog(7), _catalog(8)
    for k in range(4):
        (tmp_path / "b").mkdir(exist_ok=True)
        pq.write_table(b.slice(300 * k, 300), tmp_path / "b" / f"{k}.parquet")
    pq.write_table(a, tmp_path / "a.parquet", row_group_size=100)
    assert len(files.Files.of([str(tmp_path / "a.parquet")], "left").splits(2)) > 2
    columns: dict[str, Any] = {"left_columns": ["id", "mjd"], "right_columns": ["what's it", "id"]}
    for number, (how, find) in enumerate([("inner", "all"), ("outer", "best"), ("anti", "all")]):
        wanted = {**columns, "how": how, "find": find, "within": {"mjd": (-3, 0)}}
        if how == "anti":
            wanted["right_columns"] = []
        want = _rows(ef.arrays.crossmatch(a, b, RADIUS, **wanted))
        out = tmp_path / f"out{number}"
        paths = tmp_path / "a.parquet", tmp_path / "b"
        count = ef.arrays.crossmatch(*paths, RADIUS, spark=spark, into=out, **wanted)
        assert count == len(want)
        assert _rows(spark.read.parquet(str(out))) == want
        assert {path.name[:5] for path in out.iterdir()} == {"part-"}
        scan = spark.read.parquet(str(tmp_path / "b"))
        assert frames._files(scan.select("ra", "dec"), "right") is None
        given = a.select(["ra", "dec", "mjd", "id"]), scan
        assert _rows(ef.arrays.crossmatch(*given, RADIUS, spark=spark, **wanted)) == want
    with pytest.raises(EverfreshError, match="no new or empty folder"):
        ef.arrays.crossmatch(a, b, RADIUS, into=out)
    local = tmp_path / "local"
    assert ef.arrays.crossmatch(a, b, RADIUS, into=local) == pq.read_table(local).num_rows
    bad = a.set_column(1, "dec", pa.array([91.0] * COUNT))
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(EverfreshError, match=r"dec = 91.0 is no place on the sky \(left\)"):
        ef.arrays.crossmatch(tmp_path / "bad.parquet", tmp_path / "b", 2, spark=spark, into=tmp_path / "none")


def test_an_empty_side(spark: Any) -> None:
    a = spark.createDataFrame(_catalog(5).slice(0, 3))
    none = a.limit(0)
    found = ef.arrays.crossmatch(a, none, how="outer", left_columns=["id"], right_columns=["id"])
    assert [row.id_left for row in found.collect()] == [0, 1, 2]
    assert ef.arrays.crossmatch(none, none).count() == 0


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"dec": "dec + 90"}, {}, r"dec = .* is no place on the sky \(left\)"),
        ({"ra": "CASE WHEN id <> 7 THEN ra END"}, {}, r"ra = nan is no place on the sky \(left\)"),
        ({"ra": "CAST(ra AS STRING)"}, {}, r"column 'ra' is string, not numbers \(left\)"),
        ({}, {"dec": ("dec", "decl")}, r"no column 'decl' \(right\)"),
        ({}, {"left_columns": ["nothing"]}, "no column 'nothing'"),
    ],
)
def test_bad_input_is_refused(spark: Any, change: Any, arguments: Any, message: str) -> None:
    frame = spark.createDataFrame(_catalog(6).slice(0, 60))
    left = frame.selectExpr(*(f"{change.get(n, f'`{n}`')} AS `{n}`" for n in frame.columns))
    with pytest.raises(EverfreshError, match=message):
        ef.arrays.crossmatch(left, frame, 2, **arguments)
