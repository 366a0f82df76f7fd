"""Values that maps take apart: a batch is refused exactly if SELECT over the tables after it is.

Mutations that these catch: a value of two relations that is not watched, a column whose reach is not kept up
(at a first load, after a reopening, after a refused batch), a check that looks at too few rows, and one that
refuses what SELECT computes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh.errors import Code, EverfreshError

TABLES = """
CREATE TABLE a (g INTEGER, x INTEGER, s SMALLINT, d DECIMAL(10,2));
CREATE TABLE b (g INTEGER, y INTEGER, t TINYINT, e DECIMAL(10,2));
CREATE TABLE c (g INTEGER, z BIGINT)
"""
OFF = ef.Options(compile="off")
JOINED = "a JOIN b ON a.g = b.g"
QUERIES = [
    f"SELECT SUM(a.x * b.y) AS p FROM {JOINED}",
    f"SELECT a.g, SUM(a.x + b.y) AS p, COUNT(*) AS n FROM {JOINED} GROUP BY a.g",
    f"SELECT AVG(a.x - b.y) AS p FROM {JOINED}",
    f"SELECT SUM(a.s * b.t) AS p FROM {JOINED}",
    f"SELECT SUM(CAST(a.x + b.y AS SMALLINT)) AS p FROM {JOINED}",
    f"SELECT SUM(a.d * b.e * b.e) AS p FROM {JOINED}",
    f"SELECT SUM(a.x * b.y) AS p FROM {JOINED} WHERE a.s < b.t",
    f"SELECT SUM(a.x * b.y) FILTER (WHERE a.s = 1) AS p FROM {JOINED}",
    f"SELECT SUM(CASE WHEN a.s = 1 THEN a.x * b.y ELSE 0 END) AS p FROM {JOINED}",
    f"SELECT SUM(a.x * b.y * a.s) AS p FROM {JOINED}",
    f"SELECT SUM(a.x * b.y * c.z) AS p FROM {JOINED} JOIN c ON b.g = c.g",
    "SELECT SUM(p.x * q.x) AS p FROM a p JOIN a q ON p.g = q.g",
    "SELECT SUM(a.x * b.y) AS p FROM a, b",
    "SELECT SUM(w.m * b.y) AS p FROM (SELECT g, MAX(x) AS m FROM a GROUP BY g) w JOIN b ON w.g = b.g",
    "SELECT SUM(w.n * b.t) AS p FROM (SELECT g, SUM(s) AS n FROM a GROUP BY g) w JOIN b ON w.g = b.g",
    "SELECT SUM(a.x * b.y) AS p FROM a LEFT JOIN b ON a.g = b.g",
    f"SELECT g, MAX(p) AS m FROM (SELECT a.g AS g, a.x * b.y AS p FROM {JOINED}) GROUP BY g",
]
_NUMBER = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([46_340, 46_341, -46_341, 100_000, 2**31 - 1])
)
_SMALL = st.one_of(st.none(), st.sampled_from([0, 1, 1, 2, 100, 127, -128]))
_DECIMAL = st.one_of(st.none(), st.sampled_from(["1.00", "0.50", "99999999.99", "-30000.00"]))
_ROWS = {
    "a": st.tuples(st.integers(0, 2), _NUMBER, st.one_of(_SMALL, st.just(300)), _DECIMAL),
    "b": st.tuples(st.integers(0, 2), _NUMBER, _SMALL, _DECIMAL),
    "c": st.tuples(st.integers(0, 2), st.one_of(_NUMBER, st.just(2**40))),
}
_BATCH = st.fixed_dictionaries(
    {}, optional={t: st.lists(rows, min_size=1, max_size=2) for t, rows in _ROWS.items()}
)


def _selected(db: ef.Database, query: str) -> list[dict[str, Any]] | None:
    """The rows of a query; None if a value in it is outside its type."""
    try:
        return db.sql(query).to_pylist()
    except EverfreshError as error:
        if error.code != Code.OVERFLOW:
            raise
        return None


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=3)
@given(batches=st.lists(_BATCH, min_size=1, max_size=6), first=st.integers(0, 2))
def test_a_view_takes_what_its_query_takes(query: str, batches: list[dict[str, Any]], first: int) -> None:
    with ef.connect(engine="local", options=OFF) as db, ef.connect(engine="local", options=OFF) as tables:
        for other in (db, tables):
            other.sql(TABLES)
        made = False
        for i, batch in enumerate(batches):
            if i == first:
                made = _made(db, tables, query)
            tables.apply(batch)
            expected = _selected(tables, query)
            if made and expected is None:
                with pytest.raises(EverfreshError) as refused:
                    db.apply(batch)
                assert refused.value.code == Code.OVERFLOW
                tables.apply({t: ef.Delta(deletes=rows) for t, rows in batch.items()})
                continue
            db.apply(batch)
            if made:
                assert expected is not None
                assert _sorted(db.view("v").to_pylist()) == _sorted(expected)


def _made(db: ef.Database, tables: ef.Database, query: str) -> bool:
    """A view over the rows that are there, unless they are none for it."""
    if _selected(tables, query) is not None:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        return True
    with pytest.raises(EverfreshError):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    return False


VIEW = f"CREATE MATERIALIZED VIEW v AS SELECT SUM(a.x * b.y) AS p FROM {JOINED}"
LARGE = 100_000


def _count_checks(db: ef.Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from everfresh.local.batch.overflow import Unsplit

    seen: list[str] = []
    compute = Unsplit._compute
    monkeypatch.setattr(
        Unsplit, "_compute", lambda self, view, *a: (seen.append(view.name), compute(self, view, *a))
    )
    return seen


def test_only_batches_near_the_edge_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.connect(engine="local") as db:
        db.sql(f"{TABLES}; {VIEW}")
        seen = _count_checks(db, monkeypatch)
        db.apply(a=[(1, 10_000, 0, 0)], b=[(1, 10_000, 0, 0)])
        db.apply(a=[(1, 20_000, 0, 0)], c=[(1, 2**40)])
        assert seen == []
        db.apply(a=[(2, LARGE, 0, 0)])  # with 10,000 of b it is still well
        assert seen == []
        with pytest.raises(EverfreshError, match="view 'v'"):
            db.apply(b=[(2, LARGE, 0, 0)])
        assert seen == ["v"]
        db.apply(b=[(1, 1, 0, 0)])  # what was refused reaches nowhere
        assert seen == ["v"]
        db.apply(b=[(3, LARGE, 0, 0)])
        assert seen == ["v", "v"]
        db.apply(b=ef.Delta(deletes=[(3, LARGE, 0, 0)]))
        db.apply(b=[(1, 2, 0, 0)])  # what has gone reaches nowhere
        db.apply(b=[(1, 3, 0, 0)])
        assert seen == ["v", "v", "v"]
        assert db.view("v").verify().num_rows == 0


def test_rows_from_before_count(tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql(TABLES)
        db.apply(a=[(1, LARGE, 0, 0)])
        db.sql(VIEW)
        with pytest.raises(EverfreshError, match="outside INTEGER"):
            db.apply(b=[(1, LARGE, 0, 0)])
    with ef.connect(tmp_path / "db", engine="local") as db:
        with pytest.raises(EverfreshError, match="outside INTEGER"):
            db.apply(b=[(1, LARGE, 0, 0)])
        db.apply(b=[(2, LARGE, 0, 0)])
        assert db.view("v").to_pylist() == [{"p": None}]


def test_rows_that_pass_are_not_taken_apart() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (g INTEGER, x INTEGER) WITH (retain = false)")
        db.sql("CREATE TABLE b (g INTEGER, y INTEGER)")
        db.sql(VIEW)
        db.apply(a=[(1, LARGE)])
        with pytest.raises(EverfreshError, match="outside INTEGER"):
            db.apply(b=[(1, LARGE)])
        db.apply(b=[(2, LARGE), (1, 7)])
        assert db.view("v").to_pylist() == [{"p": 7 * LARGE}]
