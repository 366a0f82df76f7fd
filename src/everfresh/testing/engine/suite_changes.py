"""SQL that changes rows by others: UPDATE ... FROM, DELETE ... USING, MERGE, subqueries, and RETURNING."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import random
from typing import Any

import pytest

from everfresh import Code, Delta, EverfreshError
from everfresh.database import Database
from everfresh.relations import Result
from everfresh.testing.engine.suite_base import SuiteBase, assert_state, refused, state_of
from everfresh.testing.letter_case import recased
from everfresh.testing.oracle import assert_rows

_TABLES = """
CREATE TABLE t (k INTEGER PRIMARY KEY, "the v" INTEGER); CREATE TABLE b (x INTEGER, y VARCHAR);
CREATE TABLE s (k INTEGER, v INTEGER)"""
_VIEWS = """
CREATE MATERIALIZED VIEW per_y AS SELECT y, COUNT(*) AS n, SUM(x) AS x FROM b GROUP BY y;
CREATE MATERIALIZED VIEW joined AS SELECT t.k, "the v" + v AS v FROM t JOIN s ON t.k = s.k"""
_STATEMENTS = """
INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40) RETURNING *, k + 1 AS kk
INSERT INTO b VALUES (1, 'a'), (1, 'a'), (2, 'b'), (NULL, 'c'); INSERT INTO s VALUES (1, 11), (3, 31), (5, 51)
UPDATE t SET "the v" = s.v + "the v" FROM s WHERE t.k = s.k RETURNING *
UPDATE b AS z SET y = z.y || s.v FROM s WHERE z.x = s.k
UPDATE t SET "the v" = (SELECT MAX(v) FROM s) WHERE k IN (SELECT k FROM s) RETURNING "the v", k
DELETE FROM b USING s, t WHERE b.x = s.k AND s.k = t.k RETURNING *
INSERT INTO b VALUES (1, 'a'), (1, 'a'), (NULL, 'n')
DELETE FROM t WHERE "the v" > (SELECT AVG("the v") FROM t) RETURNING k
INSERT INTO t VALUES (2, 5), (9, 9) ON CONFLICT DO NOTHING RETURNING *
INSERT INTO t VALUES (9, 5), (7, 7) ON CONFLICT DO UPDATE SET "the v" = excluded."the v" + 1 WHERE t."the v" <> 3 RETURNING *, k + 1 AS kk
UPDATE t SET (k, "the v") = (k + 100, "the v" + 1) WHERE k = 7 RETURNING *
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET "the v" = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v) RETURNING merge_action, *
MERGE INTO t USING (SELECT 9 AS k UNION ALL SELECT 77) AS q USING (k) WHEN MATCHED AND t."the v" > 5 THEN DELETE WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED BY SOURCE AND t.k = 5 THEN UPDATE SET "the v" = -1 WHEN NOT MATCHED THEN INSERT (k) VALUES (q.k) RETURNING *
MERGE INTO b AS bb USING s ON bb.x = s.k WHEN MATCHED THEN UPDATE SET y = 'm' WHEN NOT MATCHED THEN INSERT (y, x) VALUES ('n', s.k)
WITH w AS (SELECT 5 AS k) UPDATE t SET "the v" = 555 FROM w WHERE w.k = t.k RETURNING "the v"
UPDATE t SET "the v" = s.v FROM s JOIN b ON b.x = s.k LEFT JOIN t t2 ON t2.k = 99 WHERE t.k = s.k RETURNING *
DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k) RETURNING *
DELETE FROM b RETURNING y || '!' AS e
"""  # noqa: E501
_TRANSACTION = """
Begin; INSERT INTO t VALUES (1,10),(2,20),(3,30); UPDATE t SET "the v" = "the v" + 1 WHERE k > 1;
INSERT INTO b SELECT "the v", 'x' FROM t; INSERT INTO b VALUES (1,'q'),(1,'q'); DELETE FROM b WHERE y = 'q' AND x = 1;
INSERT INTO b VALUES (1, 'q');
INSERT INTO t VALUES (2, 0), (7, 7) ON CONFLICT DO UPDATE SET "the v" = excluded."the v" + t."the v";
MERGE INTO t USING b ON t."the v" = b.x WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (b.x + 100, b.x);
COMMIT"""  # noqa: E501
_REFUSED = """
MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 1) q USING (k) WHEN MATCHED THEN UPDATE SET "the v" = 3
MERGE INTO b USING (VALUES (1), (1)) q(x) ON b.x = q.x WHEN MATCHED THEN DELETE
UPDATE t SET "the v" = nope FROM s
UPDATE t SET k = s.k FROM s WHERE k = 1
DELETE FROM t USING s WHERE t.nope = 1
DELETE FROM t RETURNING count(*)
UPDATE t SET k = 1 FROM s RETURNING s.v
INSERT INTO t VALUES (1, 2), (50, 1) RETURNING k
UPDATE t SET k = (SELECT k FROM s)
"""


class ChangeSuite(SuiteBase):
    """DML that reads more than the rows it changes, beside DuckDB."""

    @pytest.fixture
    def small(self, db: Database) -> Database:
        """Three tables, and views over them."""
        db.sql(f"{_TABLES}; {_VIEWS}")
        return db

    def test_changes_beside_duckdb(self, small: Database) -> None:
        import duckdb

        oracle = duckdb.connect()
        for ddl in _TABLES.split(";"):
            oracle.execute(ddl)
        rng = random.Random(7)
        for text in filter(None, _STATEMENTS.split("\n")):
            for one in text.split("; "):
                expected = oracle.execute(one).fetchall()
                found = small.sql(recased(one, lambda w: rng.choice((w.upper(), w.lower(), w.title()))))
                if "RETURNING" in one:
                    assert isinstance(found, Result)
                    assert _sorted(found.fetchall()) == _sorted(expected), one
            for name in ("t", "b"):
                theirs = oracle.execute(f"FROM {name}").fetchall()
                assert _sorted(small.table(name).fetchall()) == _sorted(theirs), text
        for view in small.views.values():
            assert view.verify().num_rows == 0

    def test_changes_that_are_refused_change_nothing(self, small: Database) -> None:
        small.sql("INSERT INTO t VALUES (1, 10), (2, 20); INSERT INTO s VALUES (1, 11), (3, 31)")
        small.sql("INSERT INTO b VALUES (1, 'a'), (1, 'a')")
        state = state_of(small)
        for text in filter(None, _REFUSED.split("\n")):
            with pytest.raises(EverfreshError):
                small.sql(text)
            assert_state(small, state)
        with refused(Code.DUPLICATE_KEY, "several rows", "k = 1"):
            small.sql(
                'MERGE INTO t USING (VALUES (1), (1)) q(k) USING (k) WHEN MATCHED THEN UPDATE SET "the v" = 3'
            )

    def test_changes_take_parameters(self, small: Database) -> None:
        small.sql("INSERT INTO s VALUES (1, 11), (3, 31); INSERT INTO t VALUES (1, 10), (2, 20)")
        text = 'UPDATE t SET "the v" = s.v + $more FROM s WHERE t.k = s.k AND s.k = $key RETURNING *'
        found = small.sql(text, {"more": 5, "key": 1})
        assert isinstance(found, Result)
        assert found.fetchall() == [(1, 16)]
        small.sql(
            "MERGE INTO t USING (SELECT ? AS k) q USING (k) WHEN NOT MATCHED THEN INSERT VALUES (q.k, ?)",
            [8, 9],
        )
        small.sql("DELETE FROM t WHERE k IN (SELECT k + ? FROM s)", [1])
        assert_rows(small.table("t"), (1, 16), (8, 9))

    def test_a_transaction_beside_duckdb(self, small: Database) -> None:
        import duckdb

        oracle = duckdb.connect()
        for ddl in _TABLES.split(";"):
            oracle.execute(ddl)
        small.sql("CREATE MATERIALIZED VIEW all_y AS SELECT SUM(n) AS n FROM per_y")
        epoch = small.epoch
        told: list[Any] = []
        small.view("per_y").on_change(told.append)
        assert small.sql(_TRANSACTION) == epoch + 1
        oracle.execute(_TRANSACTION)
        for name in ("t", "b"):
            theirs = oracle.execute(f"FROM {name}").fetchall()
            assert _sorted(small.table(name).fetchall()) == _sorted(theirs)
        with small.transaction():
            small.apply(b=[(5, "w")], t=Delta(updates=[{"k": 7, "the v": 70}], deletes=[{"k": 101}]))
            assert_rows(small.sql("SELECT n FROM all_y"), (5,))
            assert_rows(small.sql('SELECT k, "the v" FROM t'), (7, 70))
            assert_rows(small.view("all_y"), (4,))  # as it was committed
        assert small.epoch == epoch + 2
        assert len(told) == 2
        assert_rows(small.view("all_y"), (5,))
        for view in small.views.values():
            assert view.verify().num_rows == 0

    def test_a_transaction_is_whole_or_nothing(self, small: Database) -> None:
        small.sql("INSERT INTO t VALUES (1, 10)")
        state = state_of(small)
        for text, code in (
            ("BEGIN; INSERT INTO t VALUES (9, 1); INSERT INTO t VALUES (9, 2); COMMIT", Code.DUPLICATE_KEY),
            ("BEGIN; INSERT INTO t VALUES (1, 1); COMMIT", Code.DUPLICATE_KEY),
            (
                "BEGIN; INSERT INTO t VALUES (9, 1); INSERT INTO t SELECT 8, 1 // (k - k) FROM t; COMMIT",
                Code.DIVISION_BY_ZERO,
            ),
            ("BEGIN; INSERT INTO t VALUES (9, 1); CREATE TABLE z (a INT); COMMIT", Code.UNSUPPORTED),
            ("BEGIN; BEGIN; COMMIT", Code.EXISTS),
            ("COMMIT", Code.NOT_FOUND),
        ):
            with refused(code):
                small.sql(text)
            assert_state(small, state)
        small.sql("BEGIN; DELETE FROM t; Rollback Transaction; START TRANSACTION; COMMIT")
        small.sql("BEGIN")
        small.sql("DELETE FROM t")
        assert_rows(small.sql("SELECT COUNT(*) FROM t"), (0,))
        with refused(Code.NOT_FOUND, "nope"):
            small.sql("SELECT nope FROM t")
        with refused(Code.INTERRUPTED, "refused"):
            small.sql("SELECT 1")
        with refused(Code.INTERRUPTED, "rolled back"):
            small.sql("COMMIT")
        with pytest.raises(KeyError), small.transaction():
            raise KeyError(small.apply(t=[(2, 2)]))
        assert_state(small, state)


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)
