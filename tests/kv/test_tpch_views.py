"""The 22 queries of TPC-H as views over a store: after a load, and after orders that go, come and change."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from everfresh.datasets import tpch
from everfresh.kv.store import memory_store
from everfresh.kv.views import Views
from everfresh.workloads.corpus import WORKLOADS

WORKLOAD = next(w for w in WORKLOADS.values() if w.name == "tpch")


@pytest.mark.slow
def test_all_queries_of_tpch_are_views_over_a_store() -> None:
    random, store = Random(1), memory_store(partitions=2)
    views = Views(store)
    tables = tpch.read(0.001)
    held: dict[str, list[dict[str, Any]]] = {}
    for name, table in tables.items():
        views.create_table(WORKLOAD.tables[name])
        rows = held[name] = table.to_pylist()
        if name in ("orders", "lineitem"):
            held[name] = random.sample(rows, len(rows) // 3)
        for row in held[name]:
            views.client.put(name, row)
    for query in WORKLOAD.queries:
        views.create_view(query.ddl)
    for step in range(2):
        views.refresh()
        shown = 0
        for query in WORKLOAD.queries:
            assert views.verify(query.view).num_rows == 0, (step, query.name)
            shown += views.client.read(query.view).num_rows > 0
        assert shown >= 12
        for row in random.sample(held["orders"], 60):
            if random.random() < 0.5:
                views.client.delete("orders", row["o_orderkey"])
            else:
                views.client.put("orders", {**row, "o_custkey": random.choice(held["orders"])["o_custkey"]})
        for row in random.sample(held["lineitem"], 100):
            if random.random() < 0.5:
                views.client.delete("lineitem", row["l_orderkey"], row["l_linenumber"])
            else:
                views.client.put("lineitem", {**row, "l_quantity": 50 - row["l_quantity"]})
