"""How each query of the corpus is maintained: none is wholly re-evaluated, but those in `NOT_YET`."""

from __future__ import annotations

import json

import pytest

import everfresh
from everfresh.workloads import WORKLOADS, Query, compile_all, strategies

NOT_YET: dict[str, str] = {
    "a subquery": """
        tpch_q02 tpch_q04 tpch_q11 tpch_q15 tpch_q16 tpch_q17 tpch_q18 tpch_q20 tpch_q21 tpch_q22
        thesis_q02 thesis_q04 thesis_q11 thesis_q15 thesis_q16 thesis_q17 thesis_q18 thesis_q20
        thesis_q21 thesis_q22 finance_mst finance_psp finance_vwap condensed_psp condensed_q18
    """,
    "LIMIT": """
        tpch_q03 tpch_q10 tpcds_q03 tpcds_q07 tpcds_q19 tpcds_q27 tpcds_q42 tpcds_q43 tpcds_q46
        tpcds_q52 tpcds_q55 tpcds_q68 tpcds_q79
    """,
    "an aggregate over an aggregate": """
        tpch_q13 thesis_q13
    """,
    "an outer join": """
        tpcds_q34 tpcds_q73
    """,
}
"""Queries that are wholly re-evaluated, by the reason. A query that no longer is fails its test until it is
taken out here."""

QUERIES = [query for workload in WORKLOADS.values() for query in workload.queries]
REASONS = {view: reason for reason, views in NOT_YET.items() for view in views.split()}


def marked(query: Query) -> object:
    reason = REASONS.get(query.view)
    marks = () if reason is None else (pytest.mark.xfail(strict=True, reason=f"{reason} is re-evaluated"),)
    return pytest.param(query, id=query.view, marks=marks)


@pytest.mark.parametrize("query", [marked(query) for query in QUERIES])
def test_not_wholly_reevaluated(query: Query) -> None:
    assert not strategies(query).reevaluated


def test_the_list_names_queries() -> None:
    assert set(REASONS) <= {query.view for query in QUERIES}
    assert sum(len(views.split()) for views in NOT_YET.values()) == len(REASONS)


@pytest.mark.parametrize("query", WORKLOADS["finance"].queries, ids=lambda query: query.name)
def test_explain_says_the_same(query: Query) -> None:
    with everfresh.connect(engine="local") as db:
        for ddl in WORKLOADS["finance"].tables.values():
            db.sql(ddl)
        db.sql(query.ddl)
        triggers = json.loads(db.view(query.view).explain("json"))["triggers"]
    found = strategies(query)
    said = {t["base"]: tuple(dict.fromkeys(s["strategy"] for s in t["statements"])) for t in triggers}
    assert said == found.by_base
    assert set(found.all) == {strategy for some in said.values() for strategy in some}
    assert bool(found.reasons) == ("re-evaluated" in found.all)


def test_each_query_is_compiled_and_timed() -> None:
    seconds = compile_all(("tpch", "finance"))
    assert list(seconds) == [q.view for name in ("tpch", "finance") for q in WORKLOADS[name].queries]
    assert all(taken > 0 for taken in seconds.values())
