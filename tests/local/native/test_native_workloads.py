"""Compiled triggers on the queries of all workloads: the same entries as the interpreter, in both forms.

The tables are loaded before a view is made; then rows go and come again, some from every table in each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from native_support import entries, forms, opened, run_plain, slices_hold

import everfresh as ef
from everfresh.bench.tpch_local.events import book
from everfresh.datasets import orderbook, tpcds, tpch
from everfresh.workloads import WORKLOADS

BATCHES = 4
BY_ROW, WHOLE = 1 << 40, -1
DATA = {"tpch": "tpch", "thesis": "tpch", "finance": "finance", "tpcds": "tpcds"}


@cache
def tables(name: str) -> Mapping[str, pa.Table]:
    if name == "finance":
        return book(orderbook.orders(300), 100).tables
    data = tpch.read(0.001) if name == "tpch" else tpcds.read(0.01)
    return {n: rows.take(np.arange(0, rows.num_rows, 1 + rows.num_rows // 1500)) for n, rows in data.items()}


def going(data: Mapping[str, pa.Table], seed: int) -> Iterator[dict[str, ef.Delta]]:
    """Rows of every table that go, and those that went before come again."""
    random = np.random.default_rng(seed)
    gone = {name: rows.slice(0, 0) for name, rows in data.items()}
    for _ in range(BATCHES):
        batch, went = {}, {}
        for name, rows in data.items():
            some = random.choice(
                rows.num_rows, min(1 + rows.num_rows // 40, 12, rows.num_rows), replace=False
            )
            batch[name] = ef.Delta(deletes=rows.take(some), inserts=gone[name])
            went[name] = rows.take(some)
            data = {
                **data,
                name: pa.concat_tables([rows.take(np.setdiff1d(np.arange(rows.num_rows), some)), gone[name]]),
            }
        gone = went
        yield batch


@pytest.mark.slow
@pytest.mark.parametrize("small", [WHOLE, BY_ROW], ids=["whole", "by row"])
@pytest.mark.parametrize(
    "workload",
    ["tpch", "finance", *(pytest.param(name, marks=pytest.mark.soak) for name in ("thesis", "tpcds"))],
)
def test_all_queries(workload: str, small: int) -> None:
    data = tables(DATA[workload])
    known = WORKLOADS[workload]
    used = {name for name in known.tables if name in data}
    ready = 0
    with run_plain(), opened("now", small) as compiled, opened("off") as interpreted:
        both = (compiled, interpreted)
        for db in both:
            for name in used:
                db.sql(known.tables[name])
            db.apply({name: data[name] for name in used})
        for number, query in enumerate(known.queries):
            for db in both:
                db.sql(query.ddl)
            bases = {*compiled.catalog.views[query.view].compiled.bases} & used
            for batch in going({name: data[name] for name in bases}, number):
                for db in both:
                    db.apply(batch)
                assert entries(compiled) == entries(interpreted), query.view
                slices_hold(compiled)
            ready += len(forms(compiled))
            for db in both:  # all rows come back
                db.sql(f"DROP VIEW {query.view}")
                for name in bases:
                    db.sql(f"DELETE FROM {name}")
                db.apply({name: data[name] for name in bases})
    assert ready > len(known.queries)
