"""ASOF joins and windows in time: after every batch a view equals a query of DuckDB's that says it in
other words.

Times are few and repeat, some are NULL, and so are keys; events come and go so that sessions merge and split.
What DuckDB lacks, or leaves open (rows that tie), is asked of it by a lateral join, by `generate_series` and
by sums over gaps.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import datetime as dt
from collections import Counter
from random import Random
from typing import Any

from everfresh.database import Database
from everfresh.delta.changes import Delta
from everfresh.testing.engine.suite_base import SuiteBase
from everfresh.testing.oracle import DuckOracle, assert_same

TABLES = """
CREATE TABLE trade (id BIGINT PRIMARY KEY, k VARCHAR, t TIMESTAMP);
CREATE TABLE quote (k VARCHAR, t TIMESTAMP, price INTEGER);
CREATE TABLE tick (k INTEGER, n INTEGER);
"""
_NEAREST = (
    "SELECT l.*, r.t AS rt, r.price FROM trade l {kind} JOIN LATERAL (SELECT * FROM quote r "
    "WHERE r.k = l.k AND r.t {op} l.t ORDER BY r.t {way}, price NULLS LAST LIMIT 1) r ON TRUE"
)
_ISLANDS = """
WITH a AS (
    SELECT *, {time} - LAG({time}) OVER w > {gap} AS gap FROM {table}
    WHERE {time} IS NOT NULL WINDOW w AS (PARTITION BY k ORDER BY {time})
),
b AS (SELECT *, SUM(CASE WHEN gap THEN 1 ELSE 0 END) OVER (PARTITION BY k ORDER BY {time}) AS island FROM a)
SELECT * EXCLUDE (gap, island), MIN({time}) OVER w AS window_start, MAX({time}) OVER w + {gap} AS window_end
FROM b WINDOW w AS (PARTITION BY k, island)"""

_BY_USING = (
    "SELECT id, k, t, price FROM trade ASOF LEFT JOIN "
    "(SELECT k, t, MAX(price) AS price FROM quote GROUP BY ALL) USING (k, t)"
)

VIEWS = {
    "last_quote": (
        "SELECT l.*, r.t AS rt, r.price FROM trade l ASOF LEFT JOIN quote r ON l.k = r.k AND l.t >= r.t",
        _NEAREST.format(kind="LEFT", op="<=", way="DESC"),
    ),
    "sessions": (
        "SELECT * FROM SESSION(quote, t, INTERVAL '7 minutes', k)",
        _ISLANDS.format(table="quote", time="t", gap="INTERVAL '7 minutes'"),
    ),
    "hops": (
        "SELECT h.k, window_start, window_end, COUNT(*) AS n FROM "
        "HOP(quote, t, INTERVAL 4 MINUTE, INTERVAL 10 MINUTE) h GROUP BY ALL",
        "SELECT k, s AS window_start, s + INTERVAL 10 MINUTE AS window_end, COUNT(*) AS n FROM (SELECT k, t, "
        "time_bucket(INTERVAL 4 MINUTE, t) - to_minutes(4 * unnest(range(3))) AS s FROM quote) "
        "WHERE t < s + INTERVAL 10 MINUTE GROUP BY ALL",
    ),
    "next_quote": (
        "SELECT l.*, r.t AS rt, r.price FROM trade l ASOF JOIN quote r ON l.t < r.t AND r.k = l.k",
        _NEAREST.format(kind="INNER", op=">", way="ASC"),
    ),
    "tumbling": (
        "SELECT tumbled.k, window_start AS s, window_end AS e, SUM(price) AS p FROM "
        "TUMBLE((SELECT * FROM quote WHERE price > 1), t, INTERVAL '5 minutes', INTERVAL '2 minutes') "
        "AS tumbled GROUP BY ALL",
        "SELECT k, time_bucket(INTERVAL 5 MINUTE, t, INTERVAL 2 MINUTE) AS s, s + INTERVAL 5 MINUTE AS e, "
        "SUM(price) AS p FROM quote WHERE price > 1 AND t IS NOT NULL GROUP BY ALL",
    ),
    "numbered": (
        "SELECT k, n, window_start AS s, window_end AS e FROM tumble(tick, n, 10)",
        "SELECT k, n, CAST(floor(n / 10) * 10 AS INTEGER) AS s, s + 10 AS e FROM tick WHERE n IS NOT NULL",
    ),
    "runs": (
        "SELECT * FROM session(tick, n, 3, k)",
        _ISLANDS.format(table="tick", time="n", gap="3"),
    ),
    "by_using": (_BY_USING, _BY_USING),
}


class TimeSuite(SuiteBase):
    """ASOF, TUMBLE, HOP and SESSION."""

    time_views: int | None = None
    """How many of `VIEWS` to try (None: all)."""

    time_batches = 10

    def test_views_in_time_follow_their_tables(self, db: Database) -> None:
        db.sql(TABLES)
        oracle = DuckOracle()
        for schema in db.catalog.tables.values():
            oracle.create(schema)
        chosen = list(VIEWS)[: self.time_views]
        for name in chosen[::2]:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name][0]}")
        for number, batch in enumerate(_history(self.time_batches)):
            db.apply({t: Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
            for table, (come, go) in batch.items():
                oracle.apply(table, come, go)
            if number == self.time_batches // 2:
                for name in chosen[1::2]:
                    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name][0]}")
            for name in db.views:
                rows = db.view(name).to_arrow()
                expected = oracle.query(VIEWS[name][1]).cast(rows.schema)
                assert_same(expected, rows, f"{name} after batch {number}")
        for name in db.views:
            assert db.view(name).verify().num_rows == 0
        oracle.close()


def _history(batches: int) -> list[dict[str, tuple[list[Any], list[Any]]]]:
    """Batches of rows that come and go, the same each time."""
    random = Random(11)
    live: dict[str, list[Any]] = {"trade": [], "quote": [], "tick": []}
    key = 0
    history = []
    for number in range(batches):
        batch: dict[str, tuple[list[Any], list[Any]]] = {}
        for table, there in live.items():
            go = [row for row in there if random.random() < (1.0 if number == batches - 2 else 0.3)]
            come: list[Any] = []
            for _ in range(random.randrange(2, 7)):
                k, t = random.choice([None, "a", "b"]), _time(random)
                if table == "trade":
                    key += 1
                    come.append((key, k, t))
                elif table == "quote":
                    come.append((k, t, random.choice([None, 1, 2, 3])))
                else:
                    come.append((random.choice([None, 1, 2]), random.choice([None, *range(-12, 30)])))
            there[:] = [*(Counter(there) - Counter(go)).elements(), *come]
            batch[table] = (come, go)
        history.append(batch)
    return history


def _time(random: Random) -> dt.datetime | None:
    minute = random.choice([None, *range(-40, 40)])
    return None if minute is None else dt.datetime(2000, 1, 1) + dt.timedelta(minutes=minute)
