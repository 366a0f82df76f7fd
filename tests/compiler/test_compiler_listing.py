"""Programs of whole workloads as text and back, exactly: maps, relations, plans of partitions, statements."""

from __future__ import annotations

import pytest
from compiler_support import joined_catalog

from everfresh.compiler import CompiledView
from everfresh.compiler.compile import STRATEGIES
from everfresh.compiler.listing import listing, parse_listing
from everfresh.types import Column
from everfresh.workloads import WORKLOADS, Query, compiled
from everfresh.workloads.strategies import catalog_of

CATALOGS = {name: catalog_of(w.tables.values()) for name, w in WORKLOADS.items()}
QUERIES = [query for workload in WORKLOADS.values() for query in workload.queries]


def round_trip(view: CompiledView, schemas: dict[str, tuple[Column, ...]]) -> None:
    text = listing(view)
    again = parse_listing(text, schemas)
    assert again == view.program
    assert again.to_text(str) == view.program.to_text(str)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.view)
def test_workloads(query: Query) -> None:
    catalog = CATALOGS[query.workload]
    round_trip(compiled(query, catalog), {n: schema.columns for n, schema in catalog.tables.items()})


T = 'CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x INTEGER, "it\'s" BIGINT NOT NULL)'


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT g, MIN(x) AS lo, MAX(x) AS hi, COUNT(DISTINCT x) AS n FROM t GROUP BY g",
        "SELECT g FROM t EXCEPT ALL SELECT g FROM t WHERE x > 1",
        "SELECT g, x, SUM(x) OVER (PARTITION BY g ORDER BY k ROWS 2 PRECEDING) AS s FROM t",
        "SELECT g FROM t WHERE x NOT IN (SELECT u.x FROM t AS u WHERE u.g = t.g)",
        'SELECT a.g AS "SELECT" FROM t AS a LEFT JOIN t AS b ON a."it\'s" = b.k AND b.g <> \'two\n  lines\'',
        'SELECT g FROM t WHERE x > ANY (SELECT "it\'s" FROM t) ORDER BY g DESC LIMIT 3',
    ],
)
def test_all_kinds(query: str, strategy: str) -> None:
    catalog = joined_catalog(T, f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {query}")
    round_trip(catalog.views["v"].compiled, {"t": catalog.tables["t"].columns})
