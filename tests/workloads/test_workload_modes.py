"""Every query of the corpus equals DuckDB under inserts, deletes and updates of all its tables.

`make test` runs the lengths `REDUCED`, `make soak` the lengths `FULL` (`workload_streams`).
"""

from __future__ import annotations

import pytest
from workload_compare import DATA_SETS, MODES, Comparison, queries_of, run, settled
from workload_streams import FULL, REDUCED, Stream

from everfresh.datasets import orderbook

EMPTY = {"tpch_q17", "thesis_q17"}
"""Queries that give NULL on all of the data: no part of its brand and container has a line so small."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_reduced(data_set: str, mode: str) -> None:
    done = run(data_set, mode, REDUCED)
    assert set(done.compared) == {query.view for query in queries_of(data_set)}
    assert min(done.compared.values()) > 1
    if mode == "all_at_once":
        assert set(done.compared) - done.filled == EMPTY & set(done.compared)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_full(data_set: str, mode: str) -> None:
    run(data_set, mode, FULL, compile="background")


def test_ties_of_a_limit() -> None:
    assert settled("SELECT a FROM t") == "SELECT a FROM t"
    text = settled("SELECT a, sum(b) FROM t GROUP BY a ORDER BY 2 DESC LIMIT 3")
    assert text == "SELECT a, SUM(b) FROM t GROUP BY a ORDER BY 2 DESC, 1 ASC, 2 ASC LIMIT 3"


@pytest.mark.parametrize("wrong", ["a row is lost", "a row comes twice", "a value changes"])
def test_a_difference_is_found(wrong: str) -> None:
    comparison = Comparison("finance")
    try:
        comparison.create_views()
        batch = Stream(comparison.schemas, orderbook.orders(40), 3).preload()
        bids = batch["bids"].inserts
        comparison.apply(batch, "loaded")
        if wrong == "a row is lost":
            comparison.oracle.change("bids", bids.slice(0, 0), bids.slice(3, 1))
        elif wrong == "a row comes twice":
            comparison.oracle.change("bids", bids.slice(3, 1), bids.slice(0, 0))
        else:
            comparison.oracle._con.execute("UPDATE bids SET volume = volume + 1 WHERE id = 6")
        comparison.stale.update(comparison.expected)
        with pytest.raises(AssertionError, match=r"finance_.* with a difference differs"):
            comparison.apply({}, "with a difference")
    finally:
        comparison.close()
