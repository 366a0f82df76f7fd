"""Changes of views made when they are asked for equal those made at once; what might fail is made at once.

Mutations that these catch: values captured by reference and changed by a later batch, codes of strings read
after they were renumbered, a sum outside its type found only when somebody reads it.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh
from everfresh.algebra import Kind
from everfresh.delta.values import limits
from everfresh.errors import Code, EverfreshError
from everfresh.local.relations.publishing import Change, fits
from everfresh.local.store.components import wide_from_python
from everfresh.local.store.pool import Layout, Values
from everfresh.types import BIGINT, DECIMAL, HUGEINT, SqlType

TABLES = """
CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x DECIMAL(18,2), d DOUBLE);
CREATE MATERIALIZED VIEW sums AS
    SELECT g, SUM(x) AS s, AVG(x) AS a, COUNT(*) AS n, SUM(d) AS f FROM t GROUP BY g HAVING COUNT(*) > 1;
CREATE MATERIALIZED VIEW least AS SELECT g, MIN(x) AS m FROM t GROUP BY g;
CREATE MATERIALIZED VIEW rows_of AS SELECT g || '!' AS h, x FROM t WHERE x IS NOT NULL;
CREATE MATERIALIZED VIEW top AS SELECT g, s FROM sums ORDER BY s DESC, g LIMIT 2;
CREATE MATERIALIZED VIEW total AS SELECT SUM(x) AS s FROM t;
"""
VIEWS = ("sums", "least", "rows_of", "top", "total")
ROW = st.tuples(
    st.integers(0, 9),
    st.sampled_from([None, "", "a", "b", "a long name of a group"]),
    st.sampled_from([None, "0.00", "12.50", "-3.25"]),
    st.sampled_from([None, 0.5, -0.25]),
)


def batch(rows: list[Any], there: set[int]) -> everfresh.Delta:
    chosen = {row[0]: row for row in rows}
    return everfresh.Delta(
        deletes=[{"k": k} for k in chosen if k in there] or None,
        inserts=[row for k, row in chosen.items() if k not in there] or None,
    )


def made(db: everfresh.Database, view: str, since: int) -> list[str]:
    return sorted(map(str, db.view(view).changes(since).to_pylist()))


@settings(max_examples=max(12, settings().max_examples // 4), deadline=None)
@given(st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=1, max_size=6))
def test_changes_asked_for_late_are_those_asked_for_at_once(batches: list[list[Any]]) -> None:
    options = everfresh.Options(compile="off")
    with (
        everfresh.connect(engine="local", options=options) as late,
        everfresh.connect(engine="local", options=options) as early,
    ):
        there: set[int] = set()
        for db in (late, early):
            db.sql(TABLES)
        first = late.epoch
        found: dict[str, list[str]] = {view: [] for view in VIEWS}
        for rows in batches:
            for db in (late, early):
                db.apply(t=batch(rows, there))
            there ^= {row[0] for row in rows}
            for view in VIEWS:
                found[view] += made(early, view, early.epoch - 1)
        for view in VIEWS:
            assert made(late, view, first) == sorted(found[view])
            at = late.view(view).to_arrow(at=first)
            assert at.num_rows == (1 if view == "total" else 0)


def test_a_sum_outside_its_type_is_refused_by_the_batch() -> None:
    with everfresh.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, x HUGEINT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
        most = 10**38 - 1
        db.apply(t=[(1, most)])
        epoch = db.epoch
        with pytest.raises(EverfreshError) as caught:
            db.apply(t=[(2, most)])
        assert caught.value.code == Code.OVERFLOW
        assert db.epoch == epoch
        assert db.view("v").to_arrow().to_pylist() == [{"s": most}]
        db.apply(t=[(3, -most)])
        assert [row["s"] for row in db.view("v").changes(epoch).to_pylist()] == [most, 0]


def test_renumbered_strings_do_not_reach_changes(tmp_path: Path) -> None:
    """A reader, and a writer after recovery, hold changes that are not made when strings are compacted."""
    options = everfresh.Options(snapshot_epochs=1000)
    with everfresh.connect(tmp_path / "db", engine="local", options=options) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
        start = db.epoch
        for i in range(20):
            db.apply(t=everfresh.Delta(inserts=[(i, f"group {i}")], deletes=[{"k": i - 1}] if i else None))
        expected = made(db, "v", start)
    with everfresh.connect(tmp_path / "db", engine="local", options=options) as db:
        db._engine.snapshot()  # type: ignore[attr-defined]
        assert db.statistics()["strings"]["distinct"] == 1
        assert made(db, "v", start) == expected


@settings(max_examples=max(150, settings().max_examples))
@given(
    st.sampled_from([BIGINT, HUGEINT, DECIMAL(18, 2), DECIMAL(25, 2), DECIMAL(38, 4)]),
    st.lists(st.integers(-3, 3), max_size=12),
    st.data(),
)
def test_sums_that_are_said_to_fit_do(type_: SqlType, near: list[int], data: Any) -> None:
    least, most = limits(type_)
    edges = st.sampled_from([least, 0, most, 1 << 63, -(1 << 63), 1 << 64])
    sums = [data.draw(edges) + step for step in near]
    values = Values.zeros(Layout((Kind.WIDE,)), len(sums))
    values.ints[0], values.ints[1] = wide_from_python(sums)
    said = fits(values, 0, least, most)
    assert not said or all(least <= value <= most for value in sums)
    assert said or any(abs(value) >= min(most, 1 << 62) for value in sums)  # it does not always say no


def test_a_change_is_made_once() -> None:
    calls = []

    def make() -> pa.Table:
        calls.append(1)
        return pa.table({"x": np.arange(3)})

    change = Change(make, ())
    assert not calls
    assert change.table is change.table
    assert calls == [1]
    assert Change.of(change.table).table is change.table


EXACT = """
CREATE TABLE e (k BIGINT PRIMARY KEY, x DECIMAL(18,2), y DECIMAL(18,2));
CREATE MATERIALIZED VIEW shares AS
    SELECT 100.00 * SUM(x) / SUM(y) AS share, SUM(x) * SUM(y) AS product, SUM(x) - SUM(y) AS less FROM e;
"""


@pytest.mark.parametrize("large", [False, True])
def test_products_of_sums_are_made_late_while_they_surely_fit(large: bool) -> None:
    with everfresh.connect(engine="local") as db:
        db.sql(EXACT)
        promise = db._engine._state.maps["shares"]._promise
        assert promise.possible
        db.apply(e=[(1, "2.50", "3.00"), (2, "-1.25", "4.00")])
        values = db._engine._state.maps["shares"].pool.gather(np.array([0]))
        assert promise.holds(values)
        assert db.view("shares").to_pylist() == [
            {"share": pytest.approx(100 * 1.25 / 7), "product": Decimal("8.7500"), "less": Decimal("-5.75")}
        ]
        if large:
            before = db.view("shares").to_pylist()
            with pytest.raises(EverfreshError) as caught:
                db.apply(e=[(10 + i, "9999999999999999.99", "9999999999999999.99") for i in range(200)])
            assert caught.value.code == Code.OVERFLOW
            assert db.view("shares").to_pylist() == before
