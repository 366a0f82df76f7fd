"""What tables and views are declared as: their names, and what their columns take."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from pathlib import Path

import everfresh as ef
from everfresh import Code
from everfresh.testing.engine.suite_base import SuiteBase, answer, assert_state, refused, state_of
from everfresh.testing.oracle import assert_rows

_TABLES = """
CREATE TABLE t (k BIGINT PRIMARY KEY, a VARCHAR, "B c" VARCHAR, n INTEGER DEFAULT 3);
CREATE TABLE bag (a INTEGER, b INTEGER);
INSERT INTO t VALUES (1, 'x', 'one', 10), (2, 'y', NULL, NULL);
INSERT INTO bag VALUES (1, 2), (1, 2), (3, 4);
CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(n) AS c FROM t GROUP BY a;
CREATE VIEW q AS SELECT a + 1 AS a1 FROM bag"""


class DeclarationSuite(SuiteBase):
    """Statements that change what a table or view is called, or declared as."""

    def test_tables_and_views_by_other_names(self, tmp_path: Path) -> None:
        folder = tmp_path / "db"
        with self.connect(folder) as db:
            db.sql(_TABLES)
            state = state_of(db)
            for text, named in (
                ("Alter Table T rename TO u", "v"),
                ("aLTER tABLE t rENAME cOLUMN A tO z", "v"),
                ("ALTER TABLE bag RENAME TO other", "q"),
                ("ALTER TABLE bag RENAME a TO z", "q"),
            ):
                with refused(Code.DEPENDENCY, "is read by " + named):
                    db.sql(text)
            for text, code in (
                ("ALTER TABLE t RENAME TO BAG", Code.EXISTS),
                ("ALTER VIEW v RENAME TO t", Code.EXISTS),
                ('ALTER TABLE t RENAME "B c" TO N', Code.EXISTS),
                ("ALTER TABLE t RENAME x TO y", Code.NOT_FOUND),
                ("ALTER TABLE nothing RENAME TO y", Code.NOT_FOUND),
                ("ALTER TABLE v RENAME TO w", Code.NOT_FOUND),
                ("ALTER VIEW t RENAME TO w", Code.NOT_FOUND),
                ("ALTER TABLE t RENAME TO", Code.SYNTAX),
                ("ALTER TABLE t RENAME a b", Code.SYNTAX),
                ("ALTER TABLE t RENAME TO a b", Code.SYNTAX),
                ("ALTER VIEW v RENAME TO 'w'", Code.SYNTAX),
            ):
                with refused(code):
                    db.sql(text)
            assert_state(db, state)
            assert db.sql("ALTER TABLE IF EXISTS nothing RENAME TO y") == db.epoch
            with refused(Code.UNSUPPORTED, "transaction"), db.transaction():
                db.sql("ALTER VIEW v RENAME TO w")
            db.sql('alter table T rename "b C" to "x y"; ALTER TABLE bag RENAME b TO c')
            db.sql("alter View V reName to W; ALTER VIEW q RENAME TO p")
            db.apply(t=[{"k": 3, "a": "x", "X Y": "three", "n": 1}], bag=ef.Delta(deletes=[(1, 2)]))
            assert_rows(db.view("w"), ("x", 2), ("y", 0))
            assert_rows(db.sql("SELECT * FROM p"), (2,), (4,))
            with refused(Code.NOT_FOUND):
                db.view("v")
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS c FROM t GROUP BY a")
            db.sql('DROP MATERIALIZED VIEW w; DROP MATERIALIZED VIEW v; ALTER TABLE t RENAME TO "t 2"')
            db.sql("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (7)")
            db.sql('ALTER TABLE t RENAME TO s; ALTER TABLE "t 2" RENAME TO t')
            db.sql('CREATE MATERIALIZED VIEW late AS SELECT COUNT("x y") AS n FROM t')
            db.sql("UPDATE t SET \"x y\" = 'two' WHERE k = 2")
            state = state_of(db)
        with self.connect(folder) as db:
            assert_state(db, state)
            assert_rows(db.table("t"), (1, "x", "one", 10), (2, "y", "two", None), (3, "x", "three", 1))
            assert_rows(db.table("bag"), (1, 2), (3, 4))
            assert_rows(db.table("s"), (7,))
            assert_rows(db.view("late"), (3,))
            db.sql("ALTER TABLE bag RENAME c TO d; DELETE FROM t WHERE k = 1; DELETE FROM bag WHERE d = 4")
            assert_rows(db.view("late"), (2,))
            assert_rows(db.table("bag"), (1, 2))
            assert_rows(db.sql("SELECT * FROM p"), (2,))
            assert all(db.view(name).verify().num_rows == 0 for name in db.views)

    def test_defaults_and_not_null_of_columns(self, tmp_path: Path) -> None:
        folder = tmp_path / "db"
        with self.connect(folder) as db:
            db.sql(_TABLES)
            state = state_of(db)
            with refused(Code.VALUE, "column 'n' of 't' has a NULL"):
                db.sql("ALTER TABLE t ALTER n SET NOT NULL")
            with refused(Code.DEPENDENCY, "primary key"):
                db.sql("ALTER TABLE t ALTER k DROP NOT NULL")
            with refused(Code.UNSUPPORTED, "the type of a column", "ADD COLUMN"):
                db.sql("ALTER TABLE t ALTER COLUMN n SET DATA TYPE BIGINT")
            with refused(Code.VALUE):
                db.sql("ALTER TABLE t ALTER n SET DEFAULT 'no number'")
            assert_state(db, state)
            db.sql("alter table t Alter Column N set Default 1 + 1; ALTER TABLE bag ALTER b SET DEFAULT -1")
            db.sql("INSERT INTO t (k) VALUES (3); INSERT INTO bag (a) VALUES (8)")
            db.sql("ALTER TABLE t ALTER n DROP DEFAULT; INSERT INTO t (k) VALUES (4)")
            db.sql("UPDATE t SET a = 'z' WHERE a IS NULL; ALTER TABLE t ALTER a SET NOT NULL")
            with refused(Code.NULL):
                db.apply(t=[{"k": 5}])
            with refused(Code.DEPENDENCY, "v"):
                db.sql("ALTER TABLE t ALTER a DROP NOT NULL")
            db.sql("ALTER TABLE bag ALTER a SET NOT NULL")
            with refused(Code.DEPENDENCY, "q"):
                db.sql("ALTER TABLE bag ALTER a DROP NOT NULL")
            db.sql(
                "DROP VIEW q; ALTER TABLE bag ALTER COLUMN a DROP NOT NULL; INSERT INTO bag VALUES (NULL, 0)"
            )
            state = state_of(db)
        with self.connect(folder) as db:
            assert_state(db, state)
            assert_rows(
                db.table("t"),
                (1, "x", "one", 10),
                (2, "y", None, None),
                (3, "z", None, 2),
                (4, "z", None, None),
            )
            assert_rows(db.table("bag"), (1, 2), (1, 2), (3, 4), (8, -1), (None, 0))
            assert [r["null"] for r in answer(db, "DESCRIBE t")] == ["NO", "NO", "YES", "YES"]
            assert db.view("v").verify().num_rows == 0
