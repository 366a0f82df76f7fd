"""The table of bad input: each batch is refused whole, with the right code, and changes nothing.

All cases share one database: that is the point of them. A last batch shows that it still works.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import pytest

from everfresh import Code, Delta
from everfresh.database import Database
from everfresh.testing.engine.suite_base import State, SuiteBase, assert_state, refused, state_of
from everfresh.testing.oracle import assert_rows

GOOD = (10, "g", 1, "1.00", "1", 0.5)


@dataclass(frozen=True)
class Bad:
    """A batch that must be refused: what it is, the code, and texts the message must hold."""

    name: str
    code: str
    batch: Callable[[], dict[str, Any]]
    texts: tuple[str, ...] = ()


def _t(name: str, code: str, rows: Any, *texts: str) -> Bad:
    return Bad(name, code, lambda: {"t": rows}, texts)


def _row(**changes: Any) -> dict[str, Any]:
    return dict(zip(("k", "g", "v", "m", "w", "x"), GOOD, strict=True)) | changes


CASES = [
    # types and columns
    _t("wrong type", Code.VALUE, [_row(), _row(k=11, v="zwei")], "row 1", "'v'", "zwei"),
    _t("number for a text", Code.TYPE, [_row(g=5)], "row 0", "'g'"),
    _t("fraction for an integer", Code.VALUE, [_row(), _row(k=11), _row(k=12, v=1.5)], "row 2", "'v'"),
    _t("unknown column", Code.NOT_FOUND, [_row(nope=1)], "nope"),
    _t("too few values", Code.ARGUMENT, [(1, 2)], "columns"),
    _t("key column left out", Code.NULL, [{"g": "a", "x": 1.0}], "'k'"),
    Bad("unknown table", Code.NOT_FOUND, lambda: {"nope": []}, ("nope",)),
    # NULL
    _t("NULL in the primary key", Code.NULL, [_row(), _row(k=None)], "row 1", "'k'"),
    _t("NULL in a NOT NULL column", Code.NULL, [_row(), _row(k=11, x=None)], "row 1", "'x'"),
    _t("update to NULL", Code.NULL, Delta(updates=[{"k": 1, "x": None}]), "row 0", "'x'"),
    # keys
    _t("duplicate key within the batch", Code.DUPLICATE_KEY, [_row(), _row(k=11), _row(g="other")], "k=10"),
    _t("the same row twice", Code.DUPLICATE_KEY, [_row(), _row()], "k=10"),
    _t("duplicate key against the table", Code.DUPLICATE_KEY, [_row(), _row(k=2)], "k=2", "row 1"),
    _t(
        "update of a missing row",
        Code.MISSING_ROW,
        Delta(updates=[{"k": 1, "g": "z"}, {"k": 99, "g": "z"}]),
        "k=99",
        "row 1",
    ),
    _t(
        "update of one row twice",
        Code.DUPLICATE_KEY,
        Delta(updates=[{"k": 1, "g": "z"}, {"k": 1, "g": "y"}]),
        "k=1",
    ),
    # deletes
    _t(
        "delete of a missing key",
        Code.MISSING_ROW,
        Delta(deletes=[{"k": 1}, {"k": 99}], inserts=[_row()]),
        "k=99",
        "row 1",
    ),
    _t(
        "delete of a row that is stored otherwise",
        Code.MISSING_ROW,
        Delta(deletes=[(1, "a", 9, "1.00", "1", 0.5)]),
        "k=1",
        "v",
    ),
    _t("delete of one key twice", Code.DUPLICATE_KEY, Delta(deletes=[{"k": 1}, {"k": 1}]), "k=1"),
    Bad(
        "delete of a missing row of a bag",
        Code.MISSING_ROW,
        lambda: {"bag": Delta(deletes=[(1, "a"), (1, "b")])},
        ("row 1",),
    ),
    Bad(
        "delete of more copies than there are",
        Code.MISSING_ROW,
        lambda: {"bag": Delta(deletes=[(1, "a")] * 3)},
        ("3", "2"),
    ),
    Bad("delete from a bag by some columns", Code.ARGUMENT, lambda: {"bag": Delta(deletes=[{"a": 1}])}, ()),
    Bad(
        "update without a key", Code.ARGUMENT, lambda: {"bag": Delta(updates=[{"a": 1, "b": "z"}])}, ("key",)
    ),
    # overflow
    _t("overflow of a column's type", Code.OVERFLOW, [_row(), _row(k=11, v=40000)], "row 1", "'v'", "40000"),
    _t("overflow of a decimal's digits", Code.OVERFLOW, [_row(m="123456789.00")], "row 0", "'m'"),
    _t("overflow in a view's expression", Code.OVERFLOW, [_row(), _row(k=11, v=1000)], "squares", "11"),
    _t("overflow of a sum", Code.OVERFLOW, [_row(w=str(10**37)), _row(k=11, w="9" * 38)], "wide"),
    # expressions
    _t("division by zero in a view", Code.DIVISION_BY_ZERO, [_row(), _row(k=11, v=-7)], "squares", "11"),
    _t("a text that a view cannot cast", Code.VALUE, [_row(g="num:x")], "numbers"),
    # several tables
    Bad(
        "a bad row in the second table",
        Code.VALUE,
        lambda: {"t": [_row()], "bag": [(1, "a"), ("x", "b")]},
        ("bag", "row 1"),
    ),
    Bad(
        "a bad row in the first table",
        Code.NULL,
        lambda: {"t": [_row(k=None)], "bag": [(1, "a")]},
        ("row 0",),
    ),
]


class BadInputSuite(SuiteBase):
    """Refused whole."""

    _states: ClassVar[WeakKeyDictionary[Database, State]] = WeakKeyDictionary()

    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls) -> Iterator[Database]:
        """One database for all cases; each must leave it as it was."""
        with cls().connect() as db:
            db.sql("""
                CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, v SMALLINT, m DECIMAL(9,2), w DECIMAL(38,0),
                x DOUBLE NOT NULL);
                CREATE TABLE bag (a BIGINT, b VARCHAR);
                CREATE MATERIALIZED VIEW by_g AS SELECT g, SUM(v) AS v, SUM(x) AS x, COUNT(*) AS n FROM t
                GROUP BY g;
                CREATE MATERIALIZED VIEW squares AS SELECT k, v * v AS sq, 100 // (v + 7) AS q FROM t;
                CREATE MATERIALIZED VIEW wide AS SELECT SUM(w) AS w FROM t;
                CREATE MATERIALIZED VIEW numbers AS SELECT CAST(SUBSTRING(g, 5) AS BIGINT) AS i FROM t WHERE
                g LIKE 'num:%';
                CREATE MATERIALIZED VIEW bags AS SELECT b, COUNT(*) AS n FROM bag GROUP BY b
            """)
            db.apply(
                t=[
                    (1, "a", 1, "1.00", "1", 0.5),
                    (2, "num:4", 2, None, None, 1.5),
                    (3, None, None, "2.50", "5", -1.0),
                ],
                bag=[(1, "a"), (1, "a"), (2, None)],
            )
            yield db

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_bad_batches_change_nothing(self, guarded: Database, case: Bad) -> None:
        before = self.known_state(guarded)
        with refused(case.code, *case.texts):
            guarded.apply(case.batch())
        assert_state(guarded, before)

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("INSERT INTO t VALUES (10, 'g', 40000, 1, 1, 1)", Code.OVERFLOW),
            ("INSERT INTO t (k, g) VALUES (10, 'g')", Code.NULL),
            ("INSERT INTO t VALUES (10, 'g', 1, 1, 1, 1), (10, 'h', 1, 1, 1, 1)", Code.DUPLICATE_KEY),
            ("INSERT INTO t SELECT k, g, v, m, w, x FROM t", Code.DUPLICATE_KEY),
            ("INSERT INTO t SELECT k + 100, g, 1000, m, w, x FROM t", Code.OVERFLOW),
            ("UPDATE t SET v = v * 1000", Code.OVERFLOW),
            ("UPDATE t SET v = -7 WHERE k = 1", Code.DIVISION_BY_ZERO),
            ("UPDATE t SET x = NULL WHERE k = 1", Code.NULL),
            ("UPDATE t SET k = 1", Code.DUPLICATE_KEY),
            ("DELETE FROM t WHERE 1 // (k - 1) = 1", Code.DIVISION_BY_ZERO),
            (
                "INSERT INTO t VALUES (1, 'g', 1000, 1, 1, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
                Code.OVERFLOW,
            ),
            ("CREATE MATERIALIZED VIEW broken AS SELECT 1 // (v - 1) AS q FROM t", Code.DIVISION_BY_ZERO),
            (
                "CREATE MATERIALIZED VIEW broken AS SELECT SUM(w * (v - 1 + 30000)) AS q, SUM(CAST(g AS "
                "BIGINT)) AS z FROM t",
                Code.VALUE,
            ),
            ("SELECT 1 // (v - 1) FROM t", Code.DIVISION_BY_ZERO),
        ],
    )
    def test_bad_statements_change_nothing(self, guarded: Database, text: str, code: str) -> None:
        before = self.known_state(guarded)
        with refused(code):
            result: Any = guarded.sql(text)
            if hasattr(result, "to_arrow"):  # a result may be computed when it is read
                result.to_arrow()
        assert_state(guarded, before)

    def known_state(self, db: Database) -> State:
        """The state of the database; read anew only if a test has changed it."""
        if db not in self._states or self._states[db][0] != db.epoch:
            self._states[db] = state_of(db)
        return self._states[db]

    def test_after_all_that_the_database_works(self, guarded: Database) -> None:
        with refused(Code.DUPLICATE_KEY):
            guarded.apply({"t": [_row(), _row()]}, key="again")
        before = guarded.epoch
        assert guarded.apply({"t": [_row(g="a")]}, key="again") == before + 1
        assert_rows(guarded.view("by_g"), ("a", 2, 1.0, 2), ("num:4", 2, 1.5, 1), (None, None, -1.0, 1))
        assert_rows(guarded.view("numbers"), (4,))
        for view in guarded.views.values():
            assert view.verify().num_rows == 0
        guarded.apply(t=Delta(deletes=[{"k": 10}]))
