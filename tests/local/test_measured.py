"""EXPLAIN ANALYZE: what statements have cost over the last batches."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import everfresh as ef
from everfresh.errors import EverfreshError
from everfresh.local.measured import KEPT

VIEWS = {
    "s": "SELECT c.region, SUM(t.v) AS v, COUNT(*) AS n FROM t JOIN c ON t.k = c.k GROUP BY ALL",
    "top": "SELECT k, MAX(v) AS m FROM t GROUP BY k",
    "part": "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM t",
    "over": "SELECT n, COUNT(*) AS m FROM s GROUP BY n",
}


@pytest.fixture(params=["off", "now"])
def db(request: pytest.FixtureRequest) -> Iterator[ef.Database]:
    with ef.connect(engine="local", options=ef.Options(compile=request.param)) as db:
        db.sql("CREATE TABLE t (k BIGINT, v BIGINT); CREATE TABLE c (k BIGINT PRIMARY KEY, region VARCHAR)")
        db.apply(c=[(k, f"r{k % 2}") for k in range(4)])
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.sql("CREATE MATERIALIZED VIEW again WITH (strategy = 're-evaluate') AS SELECT SUM(v) AS s FROM t")
        yield db


def _numbers(text: str, of: str) -> list[float]:
    """The numbers in front of the first line that has a text."""
    line = next(line for line in text.splitlines() if of in line)
    return [float(number) for number in line.split()[:5]]


def test_statements_have_their_time_and_rows(db: ef.Database) -> None:
    for name in (*VIEWS, "again"):
        assert "no batch was measured" in str(db.sql(f"EXPLAIN ANALYZE {name}"))
    for i in range(6):
        db.apply(t=[(i % 4, i), (1, 10 * i)])
    with pytest.raises(EverfreshError):
        db.apply(t=ef.Delta(deletes=[(99, 99)]))
    for name in VIEWS:
        text = str(db.sql(f"explain Analyze materialized view {name}"))
        assert f"ANALYZE {name}: the last 6 batches" in text
        assert not db.view(name).verify().num_rows
    text = str(db.sql("EXPLAIN ANALYZE s"))
    trigger = text[text.index("ON t") :].splitlines()[1]
    ms, runs, rows, visited, _ = (float(number) for number in trigger.split()[:5])
    assert ms > 0
    assert (runs, rows) == (6, 12)
    assert visited >= 12
    assert _numbers(str(db.sql("EXPLAIN ANALYZE again")), "computed anew")[:2][1] == 6
    made = str(db.sql("EXPLAIN ANALYZE part"))
    assert any(float(line.split()[4]) >= 12 for line in made.splitlines() if re.match(r" +\d+\.\d{3} ", line))


def test_only_the_last_batches_are_kept(db: ef.Database) -> None:
    db.sql("EXPLAIN ANALYZE s")
    for i in range(KEPT + 5):
        db.apply(t=[(0, i)])
    assert f"the last {KEPT} batches" in str(db.sql("EXPLAIN ANALYZE s"))


def test_nothing_is_measured_before_it_is_asked(db: ef.Database) -> None:
    db.apply(t=[(1, 1)])
    assert db._engine._state.measured is None  # type: ignore[attr-defined]


def test_a_query_says_what_it_took(db: ef.Database) -> None:
    db.apply(t=[(1, 1), (2, 2)])
    text = str(db.sql("EXPLAIN ANALYZE SELECT k FROM t WHERE v > 1"))
    assert re.match(r"1 rows, 8 bytes in \d+\.\d{3} ms\n\nProject k", text)
    assert str(db.sql("EXPLAIN SELECT k FROM t")).startswith("Project k")


def test_what_would_change_something_is_not_carried_out(db: ef.Database) -> None:
    for statement in ("DELETE FROM t", "INSERT INTO t VALUES (1, 1)", "nothing", "t", "BACKUP TO 'x'"):
        with pytest.raises(EverfreshError):
            db.sql(f"EXPLAIN ANALYZE {statement}")
    assert not len(db.table("t"))
