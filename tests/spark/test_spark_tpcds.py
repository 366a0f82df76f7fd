"""The 99 queries of TPC-DS on Spark with the maps where the sizes of scale factor 1 put them, over fewer
rows, on a session that runs its tasks here: after random inserts and deletes of all facts they equal DuckDB's
answers.

Catches: a map that is touched before what it waits for has come; a stage that is not asked for a unit of its
level; a query that is not a program any more.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.bench.tpcds.data import FACTS, Data, Mirror, same_rows
from everfresh.datasets.tpcds import ENVIRONMENT
from everfresh.spark.overflow import UnsplitOnSpark
from everfresh.spark.state.ledger import Ledger

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not ENVIRONMENT.exists(), reason="needs the TPC-DS generator: make .venvs/tpc"),
]

ANEW = {14, 18, 23, 64}
"""Those of which a map waits for itself: they are computed anew by Spark SQL, which this session lacks."""
SIZES = {
    "call_center": 6, "catalog_page": 11_718, "catalog_returns": 144_067, "catalog_sales": 1_441_548,
    "customer": 100_000, "customer_address": 50_000, "customer_demographics": 1_920_800,
    "date_dim": 73_049, "household_demographics": 7_200, "income_band": 20, "inventory": 11_745_000,
    "item": 18_000, "promotion": 300, "reason": 35, "ship_mode": 20, "store": 12, "store_returns": 287_514,
    "store_sales": 2_880_404, "time_dim": 86_400, "warehouse": 5, "web_page": 60, "web_returns": 71_763,
    "web_sales": 719_384, "web_site": 30,
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Data:
    """Of the 1.9 million demographics only those that some row has."""
    found = Data(0.01)
    tables = {name: found.tables[name] for name in (*FACTS, "customer")}
    used = {
        k for t in tables.values() for c in t.column_names if "cdemo" in c for k in t[c].unique().to_pylist()
    }
    all_ = found.tables["customer_demographics"]
    kept = all_.filter(pc.is_in(all_["cd_demo_sk"], pa.array(sorted(used - {None}), pa.int64())))
    found.tables = {**found.tables, "customer_demographics": kept}  # type: ignore[misc]
    return found


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    monkeypatch.setattr(Ledger, "table_sizes", lambda _: SIZES)
    monkeypatch.setattr(UnsplitOnSpark, "asked", lambda *_: ())  # what it would ask Spark SQL
    return install(monkeypatch)


@pytest.mark.parametrize("number", range(1, 100))
def test_a_query_as_a_view(number: int, data: Data, session: FakeSession, tmp_path: Path) -> None:
    text, options = data.texts[number], ef.Options(workers=2, durable=False)
    mirror = Mirror(data)
    with ef.connect(tmp_path, engine="spark", spark=session, options=options) as db:  # type: ignore[arg-type]
        db.sql("; ".join(map(data.ddl, data.columns)))
        db.apply({name: data.rows(name) for name in data.columns if name in text.lower()})
        if number in ANEW:
            pytest.skip("computed anew")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
        view = db.catalog.views["v"].compiled
        assert not view.reevaluated
        facts = [name for name in FACTS if name in view.bases]
        for share in (0.0, 20.0, 1.0, 5.0) if facts else (0.0,):
            batch = data.batch(facts, share) if share else {}
            if batch:
                db.apply({n: ef.Delta(inserts=b.inserts, deletes=b.deletes) for n, b in batch.items()})
                mirror.apply(batch)
            assert same_rows(db.view("v").to_arrow(), mirror.answer(mirror.settled(text)))
    mirror.close()
