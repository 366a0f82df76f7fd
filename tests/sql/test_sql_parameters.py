"""Values beside a statement's text: what takes them, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import everfresh as ef


@pytest.fixture
def db() -> Iterator[Any]:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(9,2), day DATE)")
        db.apply(t=[(1, "ink", "4.50", "2024-05-06"), (2, "pen", "1.25", None), (3, "o'x; --", None, None)])
        yield db


@pytest.mark.parametrize(
    ("query", "given", "rows"),
    [
        ("SELECT k FROM t WHERE name = ?", ["o'x; --"], [(3,)]),
        ("SELECT k FROM t WHERE k > ? AND k < ? ORDER BY k", (1, 4), [(2,), (3,)]),
        ("SELECT k FROM t WHERE k < $2 AND k > $1", [1, 3], [(2,)]),
        ("SELECT k FROM t WHERE k = $key OR price = $key", {"key": 1}, [(1,)]),
        ("SELECT k FROM t WHERE day = ?", [dt.date(2024, 5, 6)], [(1,)]),
        ("SELECT k FROM t WHERE price = ?", [Decimal("1.25")], [(2,)]),
        ("SELECT k FROM t WHERE k = ?", [np.int64(2)], [(2,)]),
        ("SELECT k FROM t WHERE name IS NOT DISTINCT FROM ?", [None], []),
        ("SELECT k FROM t ORDER BY k LIMIT ? OFFSET ?", [1, 1], [(2,)]),
        ("SELECT ? AS a, '?' AS b, $2 || 'x' AS c", [1.5, "y"], [(1.5, "?", "yx")]),
        ("SELECT COUNT(*) AS n FROM t WHERE k IN (?, ?)", [1, 3], [(2,)]),
    ],
)
def test_a_value_stands_for_a_literal(db: Any, query: str, given: Any, rows: list[Any]) -> None:
    assert [tuple(row) for row in db.sql(query, given).fetchall()] == rows


def test_changes_take_parameters(db: Any) -> None:
    db.sql("INSERT INTO t (k, name) VALUES (?, ?)", [4, "'); DROP TABLE t; --"])
    db.sql("UPDATE t SET price = ? WHERE k = ?", ["7.5", 4])
    assert db.sql("SELECT name, price FROM t WHERE k = ?", [4]).fetchone() == (
        "'); DROP TABLE t; --",
        Decimal("7.50"),
    )
    db.sql("DELETE FROM t WHERE k = $k", {"k": 4})
    assert len(db.table("t")) == 3


@pytest.mark.parametrize(
    ("statement", "given", "says"),
    [
        ("SELECT k FROM t WHERE k = ?", None, "a value for parameter $1 is missing"),
        ("SELECT k FROM t WHERE k = ? AND k < ?", [1], "a value for parameter $2 is missing"),
        ("SELECT k FROM t WHERE k = ?", [1, 2], "the statement has no parameter $2"),
        ("SELECT k FROM t WHERE k = $a", {"b": 1}, "a value for parameter $a is missing"),
        ("SELECT k FROM t WHERE k = ?", "spark", "parameters are a list, or a dict by name, not str"),
        ("SELECT k FROM t WHERE k = ?", [object()], "a object is not a SQL value"),
        ("SELECT 1; SELECT ?", [1], "parameters are for one statement, not for 2"),
        ("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE k = ?", [1], "a parameter in what is kept"),
        ("SELECT k FROM ?", ["t"], "a table function is not supported"),
    ],
)  # fmt: skip
def test_what_is_refused(db: Any, statement: str, given: Any, says: str) -> None:
    with pytest.raises(ef.EverfreshError, match=says.replace("$", r"\$")):
        db.sql(statement, given)


def test_truncate(db: Any) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    db.sql("TRUNCATE TABLE t")
    assert (len(db.table("t")), db.view("v").fetchone()) == (0, (0,))
    with pytest.raises(ef.EverfreshError, match="TRUNCATE of anything but one table"):
        db.sql("TRUNCATE t, v")


def test_a_long_number_keeps_its_digits(db: Any) -> None:
    long = Decimal("396140812571321687967719751.68")
    assert db.sql("SELECT ? AS x", [long]).fetchone() == (long,)
