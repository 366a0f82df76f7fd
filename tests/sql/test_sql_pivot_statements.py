"""PIVOT and UNPIVOT behind AS, where what is created is their query; and columns that are called so."""

from __future__ import annotations

import pytest

import everfresh as ef

PIVOT = "PIVOT sales ON year IN (1, 2) USING SUM(euros) GROUP BY shop"
UNPIVOT = "UNPIVOT sales ON year, euros INTO NAME n VALUE v"


@pytest.mark.parametrize("kind", ["MATERIALIZED VIEW", "VIEW", "TABLE", "OR REPLACE MATERIALIZED VIEW"])
@pytest.mark.parametrize("query", [PIVOT, UNPIVOT, "SELECT shop AS pivot, year AS unpivot FROM sales"])
@pytest.mark.parametrize("lower", [False, True])
def test_created_as(kind: str, query: str, lower: bool) -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE sales (shop VARCHAR, year INTEGER, euros INTEGER)")
        db.apply(sales=[("a", 1, 10), ("a", 2, 20), ("b", 2, 5), ("b", 2, None)])
        text = f"CREATE {kind} made AS {query}"
        db.sql(text.lower() if lower else text)
        wanted = db.sql(query).fetchall()  # type: ignore[union-attr]
        assert wanted
        found = db.sql("SELECT * FROM made").fetchall()  # type: ignore[union-attr]
        assert sorted(found, key=str) == sorted(wanted, key=str)
