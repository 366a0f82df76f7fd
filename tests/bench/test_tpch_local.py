"""The benchmark of the local engine: its streams, its options, and a whole run on very little data."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh import bench
from everfresh.bench import Settings
from everfresh.bench.tpch_local import bars, events, published
from everfresh.bench.tpch_local.cells import Cell, DuckDB, Everfresh, measure
from everfresh.bench.tpch_local.plan import MODES, plan_of
from everfresh.datasets import orderbook, tpch
from everfresh.delta.bags import difference
from everfresh.errors import EverfreshError
from everfresh.workloads import WORKLOADS
from everfresh.workloads.strategies import catalog_of

SF = 0.001
PARENTS = {
    "nation": [("region", "n_regionkey", "r_regionkey")],
    "supplier": [("nation", "s_nationkey", "n_nationkey")],
    "customer": [("nation", "c_nationkey", "n_nationkey")],
    "partsupp": [("part", "ps_partkey", "p_partkey"), ("supplier", "ps_suppkey", "s_suppkey")],
    "orders": [("customer", "o_custkey", "c_custkey")],
    "lineitem": [
        ("orders", "l_orderkey", "o_orderkey"),
        ("part", "l_partkey", "p_partkey"),
        ("supplier", "l_suppkey", "s_suppkey"),
    ],
}


@pytest.fixture(scope="module")
def data() -> dict[str, pa.Table]:
    return tpch.read(SF)


# -- streams ---------------------------------------------------------------------------------------


def test_every_row_comes_once_and_in_turn(data: dict[str, pa.Table]) -> None:
    stream = events.in_turn(data)
    assert len(stream) == sum(rows.num_rows for rows in data.values())
    assert set(zip(stream.which.tolist(), stream.row.tolist(), strict=True)) == {
        (number, row) for number, rows in enumerate(data.values()) for row in range(rows.num_rows)
    }
    assert stream.which[: len(data)].tolist() == list(range(len(data)))
    assert stream.only(["lineitem", "orders"]).which[:4].tolist() == [0, 1, 0, 1]


def test_churn_keeps_references_and_its_size(data: dict[str, pa.Table]) -> None:
    stream = events.churn(data, live=100)
    columns = {
        name: {
            key: rows[key].to_pylist()
            for parents in PARENTS.values()
            for _, *keys in parents
            for key in keys
            if key in rows.column_names
        }
        for name, rows in data.items()
    }
    there: dict[str, Counter[Any]] = {key: Counter() for name in columns for key in columns[name]}
    live: Counter[str] = Counter()
    names = list(data)
    most = 0
    for which, sign, row in zip(stream.which, stream.sign, stream.row, strict=True):
        name = names[which]
        live[name] += int(sign)
        most = max(most, live["orders"])
        for key, values in columns[name].items():
            there[key][values[row]] += int(sign)
            assert there[key][values[row]] >= 0
        for _, foreign, key in PARENTS.get(name, []) if sign > 0 else ():
            assert there[key][columns[name][foreign][row]] > 0
        if name == "orders" and sign < 0:
            assert there["l_orderkey"][columns[name]["o_orderkey"][row]] == 0
    assert live["orders"] == 100
    assert most == 101  # an order comes before the one that it makes go
    assert {name: live[name] for name in names if name not in ("orders", "lineitem")} == {
        name: data[name].num_rows for name in names if name not in ("orders", "lineitem")
    }


def test_the_book_stays_full() -> None:
    stream = events.book(orderbook.orders(500), live=50)
    for number in range(2):
        there = np.cumsum(stream.sign[stream.which == number])
        assert there.max() == 51
        assert there[-1] == 50
    gone = {(w, r) for w, s, r in zip(stream.which, stream.sign, stream.row, strict=True) if s < 0}
    assert len(gone) == 2 * 450


# -- cells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [7, 1000])
def test_a_cell_runs_its_whole_stream_and_all_ways_agree(data: dict[str, pa.Table], size: int) -> None:
    query = WORKLOADS["tpch"].query("q12")
    stream = events.churn(data, live=300).only(["orders", "lineitem"])
    schemas = dict(catalog_of(WORKLOADS["tpch"].tables.values()).tables)
    ours = Everfresh(query, stream.tables, "auto").create()
    theirs = DuckDB(query.text, stream.tables, schemas)
    try:
        cell = measure(Cell(query.view, "churn", "auto", size), ours, stream, 0.05, 1e9)
        other = measure(Cell(query.view, "churn", "DuckDB", size), theirs, stream, 0.05, 1e9)
        assert cell.reached == other.reached == 1
        assert 0 < cell.tuples <= len(stream)
        assert cell.batches == -(-cell.tuples // size) or cell.tuples < len(stream)
        assert sum(cell.phases.values()) <= cell.seconds
        assert cell.cpu > 0
        assert cell.inside > cell.upkeep > cell.rate > 0
        assert cell.sizes["bytes"] > cell.sizes["maps"] > 0
        rows = theirs.con.sql(query.text).to_arrow_table()
        mine = ours.db.view(query.view).to_arrow()
        assert rows.num_rows > 0
        assert difference(rows.cast(mine.schema), mine).num_rows == 0
    finally:
        ours.close()
        theirs.close()


def test_a_cell_gives_up() -> None:
    rows = orderbook.orders(200)
    stream = events.book(rows, live=50)
    subject = Everfresh(WORKLOADS["finance"].query("bsv"), rows, "auto").create()
    try:
        cell = measure(Cell("finance_bsv", "book", "auto", 1), subject, stream, 1e-9, 1.0)
    finally:
        subject.close()
    assert cell.batches == 1
    assert 0 < cell.reached < 1


# -- a run -----------------------------------------------------------------------------------------


def test_a_quick_run(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    asked = {"queries": "tpch_q03,finance_bsv", "sizes": "100", "how": "auto,first-order,duckdb"}
    settings = Settings(quick=True, sf=SF, json=file, options=asked)
    report = bench.load("tpch-local").run(settings)
    report.to_json()
    cells = json.loads((tmp_path / "report.cells.json").read_text("utf-8"))
    ways = {(cell["query"], cell["stream"], cell["how"]) for cell in cells}
    assert ways == {
        ("tpch_q03", "inserts", "auto"),
        ("tpch_q03", "inserts", "first-order"),
        ("tpch_q03", "inserts", "DuckDB, one thread"),
        ("finance_bsv", "book", "auto"),
        ("finance_bsv", "book", "first-order"),
        ("finance_bsv", "book", "DuckDB, one thread"),
        ("tpch_q03", "churn", "auto"),
        ("tpch_q03", "churn", "DuckDB, one thread"),
    }
    assert all(cell["rate"] > 0 and cell["tuples"] > 0 for cell in cells)
    measured = {(row["query"], row.get("where")) for row in report.rows if "ms" in row}
    assert {("tpch_q03", "make the view"), ("tpch_q03", "its call"), ("join + sum", "db.apply")} <= measured
    assert any("the default against the best strategy" in bar.what for bar in report.bars)
    thesis = [row for row in report.rows if row["stream"] == published.MARK and row["how"] == "DBToaster"]
    assert thesis[0]["100"] == 4401315


def test_strategies_in_turns() -> None:
    asked = {"queries": "tpch_q03,tpch_q06", "sizes": "500", "sections": "strategies"}
    asked |= {"how": "auto,first-order,first-order-projected", "patience": "10000"}
    report = bench.load("tpch-local").run(Settings(quick=True, sf=SF, options=asked))
    shown = {(row["query"], row["how"], row["where"]): row for row in report.rows}
    assert set(shown) == {
        ("tpch_q03", "auto", "time / default's"),
        ("tpch_q03", "first-order", "time / default's"),
        ("tpch_q03", "first-order-projected", "the program of auto"),
        ("tpch_q03", "auto", "time / the best's"),
        ("tpch_q06", "auto", "time / default's"),
        ("tpch_q06", "first-order", "the program of auto"),
        ("tpch_q06", "first-order-projected", "the program of auto"),
        ("tpch_q06", "auto", "time / the best's"),
    }
    other = shown["tpch_q03", "first-order", "time / default's"]["500"]
    assert shown["tpch_q03", "auto", "time / the best's"]["500"] == pytest.approx(max(1.0, 1 / other))
    assert shown["tpch_q06", "auto", "time / the best's"]["500"] == 1.0
    (bar,) = report.bars
    assert bar.what.startswith("the default against the best strategy, in turns, worst of 2")
    assert [skip.reason for skip in report.skipped] == [
        "needs all 22 queries to their end; of 2 it holds for 2"
    ]


def test_bars() -> None:
    def cell(query: str, how: str, inside: float, size: int = 10_000) -> Cell:
        spent = {"statements": 1.0 / inside, "resolve": 1.0 / inside}
        sizes = {"bytes": 10, "number of maps": 1}
        return Cell(query, "inserts", how, size, 1, 1, 2.0 / inside, 2.0 / inside, 1.0, 0.0, spent, sizes)

    plan = plan_of(Settings(sf=1.0))
    names = [query.view for query in WORKLOADS["tpch"].queries]
    cells = [cell(name, mode, 4e6 if mode == "auto" else 1e6) for name in names for mode in MODES]
    report = bench.Report("x", machine={})
    bars.add_bars(report, plan, cells, set(names))
    found = {bar.what: bar for bar in report.bars}
    assert found["batch 10,000, TPC-H, geometric mean of 22, inside"].value == pytest.approx(4e6)
    assert found["batch 10,000, TPC-H, geometric mean of 22, db.apply"].value == pytest.approx(2e6)
    assert found["tpch_q05 at scale factor 1, batch 10,000, above the thesis"].holds
    assert found["memory at most that of first-order with projection, of 22 queries"].holds
    assert report.holds
    report = bench.Report("x", machine={})
    bars.add_bars(report, plan, [cell("tpch_q01", "auto", 1e6), cell("tpch_q01", "higher-order", 2e6)], set())
    (worst,) = [bar for bar in report.bars if "best strategy" in bar.what]
    assert worst.value == pytest.approx(2.0)
    assert not worst.holds


@pytest.mark.parametrize(
    "asked", [{"queries": "tpch_q99"}, {"sizes": "0"}, {"how": "magic"}, {"seconds": "-1"}, {"sections": "x"}]
)
def test_what_cannot_be_asked_for(asked: dict[str, str]) -> None:
    with pytest.raises(EverfreshError):
        plan_of(Settings(options=asked))


def test_options_of_the_command() -> None:
    found = bench.load("tpch-local")
    assert bench.options(found, ["sizes=1,10", "queries=tpch"]) == {"sizes": "1,10", "queries": "tpch"}
    with pytest.raises(EverfreshError, match="no option of tpch-local"):
        bench.options(found, ["size=1"])
    with pytest.raises(EverfreshError, match="no option of start"):
        bench.options(bench.load("start"), ["sizes=1"])
