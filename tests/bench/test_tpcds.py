"""The benchmark of TPC-DS over a few rows: what it measures is there, and a view that is wrong is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everfresh.bench import Settings, load, options
from everfresh.bench.parts.make_views import KEYS
from everfresh.bench.tpcds import data as data_module
from everfresh.bench.tpcds import plan
from everfresh.bench.tpcds.data import FACTS, Data, Mirror
from everfresh.errors import EverfreshError

TEXTS = {
    3: "SELECT i_item_sk, SUM(store_sales.quantity) AS s FROM item JOIN store_sales ON ss_item_sk = i_item_sk"
    " GROUP BY i_item_sk ORDER BY s DESC LIMIT 3",
    5: "SELECT COUNT(*) AS n, AVG(quantity) AS a FROM inventory WHERE quantity > 3 LIMIT 100",
    7: "SELECT i_item_sk FROM item POSITIONAL JOIN store_sales",
    9: "SELECT i_item_sk FROM item ORDER BY 1",
}


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables with a few rows, their keys and a quantity."""
    tables = {}
    for name, key in KEYS.items():
        rows = 300 if name in FACTS else 5
        columns = {column: [k % 5 if at == 0 else k for k in range(rows)] for at, column in enumerate(key)}
        if name not in FACTS:
            columns = {key[0]: list(range(rows))}
        columns["quantity"] = [k % 7 for k in range(rows)]
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        tables[name] = [[column, "BIGINT"] for column in columns]
    index = {"tables": tables, "queries": {str(n): {"text": text} for n, text in TEXTS.items()}}
    monkeypatch.setattr(data_module, "tpcds_everything", lambda *_: (tmp_path, index))


def ran(**asked: str) -> Any:
    benchmark = load("tpcds")
    given = options(benchmark, [f"{name}={value}" for name, value in asked.items()])
    return benchmark.run(Settings(quick=True, options=given))


def test_views_are_refreshed_and_compared(few: None) -> None:
    report = ran(queries="3,5,7,9", how="apart,together", share="4", clock="processor")
    rows = {row["what"]: row for row in report.rows}
    assert {"Q3, local", "Q5, local", "Q9, local", "all, local", "3 views together, local"} == {*rows}
    assert all(rows[f"Q{n}, local"]["right"] and rows[f"Q{n}, local"]["incremental"] for n in (3, 5, 9))
    assert rows["Q3, local"]["refresh_ms"] > 0
    assert rows["Q9, local"]["times"] is None  # it reads no facts
    assert rows["3 views together, local"]["right"] == 3
    assert [skip.what for skip in report.skipped] == ["Q7, local"]
    assert report.holds


def test_a_wrong_view_is_found(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mirror, "apply", lambda *_: None)
    report = ran(queries="3", how="apart", share="20")
    assert not report.holds
    assert not report.rows[0]["right"]


def test_batches_keep_tables_their_size(few: None) -> None:
    data = Data(0.01)
    before = data.rows("web_sales").num_rows
    seen = set()
    for _ in range(20):
        batch = data.batch(["web_sales"], 2.0)["web_sales"]
        assert batch.inserts.num_rows == batch.deletes.num_rows == 3
        assert not {*map(str, batch.inserts.to_pylist())} & {*map(str, batch.deletes.to_pylist())}
        seen |= {*map(str, batch.inserts.to_pylist())}
        assert data.rows("web_sales").num_rows == before
    assert len(seen) > 6  # rows that went come again


@pytest.mark.parametrize("text", ["x", "0", "100", "3-", "-3", "3,,4"])
def test_numbers_of_queries(text: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        plan._numbers(text)
    assert caught.value.place == "queries"
