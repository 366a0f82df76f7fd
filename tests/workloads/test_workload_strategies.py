"""How each query of the corpus is maintained: none is wholly re-evaluated."""

from __future__ import annotations

import pytest

from everfresh.workloads import WORKLOADS, Query
from everfresh.workloads.strategies import strategies

QUERIES = [query for workload in WORKLOADS.values() for query in workload.queries]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.view)
def test_not_wholly_reevaluated(query: Query) -> None:
    assert not strategies(query).reevaluated
