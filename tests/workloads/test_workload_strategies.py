"""How each query of the corpus is maintained: none is wholly re-evaluated."""

from __future__ import annotations

import json

import pytest

import everfresh
from everfresh.expr import told
from everfresh.workloads import WORKLOADS, Query, compile_all, strategies

QUERIES = [query for workload in WORKLOADS.values() for query in workload.queries]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.view)
def test_not_wholly_reevaluated(query: Query) -> None:
    assert not strategies(query).reevaluated


@pytest.mark.parametrize("query", WORKLOADS["finance"].queries, ids=lambda query: query.name)
def test_explain_says_the_same(query: Query) -> None:
    with everfresh.connect(engine="local") as db:
        for ddl in WORKLOADS["finance"].tables.values():
            db.sql(ddl)
        db.sql(query.ddl)
        triggers = json.loads(db.view(query.view).explain("json"))["triggers"]
    found = strategies(query)
    said = {t["base"]: tuple(dict.fromkeys(s["strategy"] for s in t["statements"])) for t in triggers}
    assert said == {told(base): some for base, some in found.by_base.items()}
    assert set(found.all) == {strategy for some in said.values() for strategy in some}
    assert bool(found.reasons) == ("re-evaluated" in found.all)


def test_each_query_is_compiled_and_timed() -> None:
    seconds = compile_all(("tpch", "finance"))
    assert list(seconds) == [q.view for name in ("tpch", "finance") for q in WORKLOADS[name].queries]
    assert all(taken > 0 for taken in seconds.values())
