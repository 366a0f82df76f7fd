"""The benchmark of the Spark engine: its files, its options, and a whole run on very little data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everfresh import bench
from everfresh.bench import Settings
from everfresh.bench.tpch_spark import ablation, memory
from everfresh.bench.tpch_spark.data import INSERTS, MIXED, prepared
from everfresh.bench.tpch_spark.plan import plan_of
from everfresh.bench.tpch_spark.published import TABLE_5_1
from everfresh.datasets import tpch
from everfresh.errors import EverfreshError
from everfresh.workloads import WORKLOADS

SF = 0.001


def test_every_row_is_in_one_file_and_an_order_has_its_lineitems(tmp_path: Path) -> None:
    files = prepared(tmp_path, SF, (1.0, 5.0), 2)
    data = tpch.read(SF)
    for table, rows in data.items():
        found = [pq.read_table(file) for file in files.folder.glob(f"*/{table}.parquet")]
        assert len(found) > 1 or table in tpch.FIXED
        order = [(name, "ascending") for name in rows.column_names]
        assert pa.concat_tables(found).sort_by(order).equals(rows.cast(found[0].schema).sort_by(order)), table
    for which in ("come", "next"):
        orders, lines = (
            set(pq.read_table(files.piece(table, 5.0, 1, which))[key].to_pylist())
            for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey"))
        )
        assert orders == lines
    assert files.rows(dict(files.kinds(["orders"], 5.0, 0))[INSERTS]) == 75
    assert files.rows(dict(files.kinds(["orders"], 5.0, 0))[MIXED]) == 150
    assert list(files.kinds(["region"], 5.0, 0)) == [(INSERTS, {}), (MIXED, {})]


@pytest.mark.spark
def test_a_quick_run(spark: Any, tmp_path: Path) -> None:
    asked = {"queries": "thesis_q12", "rounds": "1", "folder": str(tmp_path)}
    asked["sections"] = "refresh,forms,cached,together,fixed"
    report = bench.load("tpch-spark").run(Settings(quick=True, sf=SF, options=asked))
    report.to_json()
    refreshed = [row for row in report.rows if row["section"] == "refresh" and "ms" in row]
    assert {(row["query"], row["batch"], row["given"]) for row in refreshed} == {
        (query, f"{share} %, {kind}", form)
        for query in ("thesis_q12",)
        for share in ("0.1", "1")
        for kind in (INSERTS, MIXED)
        for form in ("Parquet files", "Spark DataFrames", "computed DataFrames", "Arrow on the driver")
    }
    for row in refreshed:
        assert row["rows"] > 0
        assert row["ratio"] == pytest.approx(row["recompute_ms"] / row["ms"])
        assert row["cached_ms"] > 0
        jobs, stages = TABLE_5_1[row["query"].removeprefix("thesis_")]
        if row["given"] == "Parquet files":
            assert row["jobs"] <= jobs
            assert 1 <= row["stages"] <= stages + 1
    means = [row for row in report.rows if row["query"] == "geometric mean of 1"]
    assert len(means) == 16
    assert {row["query"] for row in report.rows if row["section"] == "together"} == {"1 views"}
    assert [bar.what for bar in report.bars] == ["every view equals its recomputation"]
    assert report.holds


def test_passes_left_out() -> None:
    plan = plan_of(Settings(quick=True, options={"queries": "thesis_q03", "sections": "ablation"}))
    report = bench.Report("x", machine={})
    ablation.measure(report, Settings(), plan)
    found = {row["passes"]: row for row in report.rows}
    assert found["all passes"]["stages"] == 2
    assert found["blocks not fused"]["stages"] > found["transformers not pushed down"]["stages"] > 2
    assert found["no common subexpressions"]["messages"] > found["all passes"]["messages"]
    assert all(row["rows"] > 0 for row in found.values())


def test_memory_of_processes() -> None:
    sizes = memory.sizes(1)
    assert sizes["everything"] >= sizes["jvm"] + sizes["tasks"] >= 0
    assert memory.own_peak() > 10_000_000


def test_the_queries_are_those_of_the_thesis() -> None:
    plan = plan_of(Settings())
    assert plan.queries == WORKLOADS["thesis"].queries
    assert {query.name for query in plan.queries} == set(TABLE_5_1)


@pytest.mark.parametrize("asked", [{"queries": "q99"}, {"shares": "0"}, {"rounds": "x"}, {"verify": "maybe"}])
def test_what_cannot_be_asked_for(asked: dict[str, str]) -> None:
    with pytest.raises(EverfreshError):
        plan_of(Settings(options=asked))
