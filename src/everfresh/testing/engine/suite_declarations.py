"""What tables and views are declared as: their names, and what their columns take."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

import everfresh as ef
from everfresh import Code
from everfresh.database import Database
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

    def test_checks(self, tmp_path: Path) -> None:
        folder = tmp_path / "db"
        with self.connect(folder) as db:
            db.sql(
                """Create Table t (k BIGINT Primary Key, a INTEGER Check (t.A > 0), b INTEGER,
                CONSTRAINT "in order" CHECK (a < b), c VARCHAR CHECK (length(c) < 4) NOT NULL);
                CREATE TABLE bag (a DOUBLE CHECK (a <> 0 OR a IS NULL), b DATE);
                CREATE MATERIALIZED VIEW v AS SELECT c, SUM(a) AS s FROM t GROUP BY c"""
            )
            db.apply(
                t=[(1, 1, 2, "x"), (2, None, None, "y"), (3, 5, None, "x")], bag=[(1.5, None), (None, None)]
            )
            state = state_of(db)
            for change in (
                {"t": [(4, 1, 2, "x"), (5, 0, 2, "x")]},
                {"t": pa.table({"k": [6], "a": [3], "b": [3], "c": ["x"]})},
                {"t": [{"k": 7, "c": "long"}]},
                {"t": ef.Delta(updates=[{"k": 3, "b": 5}])},
                {"t": ef.Delta(updates=[{"k": 3, "b": 6}, {"k": 1, "b": 1}])},
                {"t": [(8, 1, 2, "x")], "bag": [(0.0, None)]},
                {"bag": ef.Delta(deletes=[(1.5, None)], inserts=[(-0.0, None)])},
            ):
                with refused(Code.CHECK, "constraint", "row ("):
                    db.apply(change)
            (tmp_path / "rows.csv").write_text("k,c,a,b\n9,x,1,2\n10,x,3,2\n")
            for text in (
                "INSERT INTO t VALUES (4, 1, 2, 'x'), (5, 0, 2, 'x')",
                "insert into t select k + 10, a, b - 1, c from t",
                "UPDATE t SET a = 2 WHERE k = 1",
                "UPDATE t SET a = 0 - x.z FROM (SELECT 1 AS z) AS x WHERE t.a IS NOT NULL",
                "INSERT INTO t VALUES (1, 7, 8, 'y') ON CONFLICT DO UPDATE SET a = excluded.a",
                "INSERT OR REPLACE INTO t VALUES (2, 7, 7, 'y')",
                "MERGE INTO t USING (SELECT 1 AS i) AS s ON t.k = s.i WHEN MATCHED THEN UPDATE SET b = 1",
                f"COPY t FROM '{tmp_path / 'rows.csv'}'",
                "BEGIN; INSERT INTO t VALUES (4, 1, 2, 'x'); UPDATE t SET b = 1 WHERE k = 4; COMMIT",
            ):
                with refused(Code.CHECK, "'t'", "row ("):
                    db.sql(text)
            assert_state(db, state)
            with refused(Code.CHECK, "'in order', CHECK (a < b)", "a=2, b=1"):
                db.apply(t=[(11, 2, 1, "x")])
            for text, code in (
                ("ALTER TABLE t DROP COLUMN a", Code.DEPENDENCY),
                ("ALTER TABLE t ADD CONSTRAINT more CHECK (b IS NOT NULL)", Code.VALUE),
                ('ALTER TABLE t ADD CONSTRAINT "IN ORDER" CHECK (a < b)', Code.EXISTS),
                ("ALTER TABLE t DROP CONSTRAINT nothing", Code.NOT_FOUND),
                ("ALTER TABLE t ADD UNIQUE (a)", Code.UNSUPPORTED),
                ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES bag (a)", Code.UNSUPPORTED),
            ):
                with refused(code):
                    db.sql(text)
            db.sql("ALTER TABLE t RENAME b TO \"B 2\"; alter table bag Add Check (b > DATE '2020-01-01')")
            db.sql("ALTER TABLE bag RENAME TO sack; ALTER TABLE t ADD CONSTRAINT small CHECK (k < 100)")
        with self.connect(folder) as db:
            for change in ({"t": [(200, 1, 2, "x")]}, {"t": [(20, 2, 1, "x")]}):
                with refused(Code.CHECK):
                    db.apply(change)
            with refused(Code.CHECK, "2019"):
                db.sql("INSERT INTO sack VALUES (1, '2020-01-02'), (2, '2019-01-01')")
            db.sql("ALTER TABLE t DROP CONSTRAINT Small; alter table t drop constraint if exists none")
            db.apply(t=[(200, 1, 2, "x")])
            db.sql('ALTER TABLE t DROP CONSTRAINT "in order"; UPDATE t SET "B 2" = 1 WHERE a = 5')
            assert_rows(db.view("v"), ("x", 7), ("y", None))
            assert db.view("v").verify().num_rows == 0

    def test_generated_columns(self, tmp_path: Path) -> None:
        folder, mirror = tmp_path / "db", duckdb.connect()
        tables = (
            """CREATE TABLE t (k BIGINT PRIMARY KEY, total AS (twice + a),
            name VARCHAR GENERATED ALWAYS AS (upper(c) || '-' || a) VIRTUAL, a INTEGER, c VARCHAR,
            twice INTEGER Generated Always As (a * 2))""",
            "CREATE TABLE bag (a INTEGER, b as (a / 2), d DECIMAL(9,2))",
        )

        def both(db: Database, text: str) -> None:
            db.sql(text)
            mirror.execute(text)
            for table in ("t", "bag"):
                assert_rows(db.table(table), *mirror.execute(f"FROM {table}").fetchall())

        with self.connect(folder) as db:
            both(db, "; ".join(tables))
            types = [r["column_type"] for r in answer(db, "DESCRIBE t")]
            assert types == [row[1] for row in mirror.execute("DESCRIBE t").fetchall()]
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT name, SUM(total) AS s FROM t GROUP BY name")
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT b, COUNT(*) AS n FROM bag GROUP BY b")
            both(db, "INSERT INTO t VALUES (1, 10, 'x'), (2, NULL, 'y'), (3, 7, NULL)")
            both(db, "INSERT INTO bag VALUES (1, 1.5), (1, 1.5), (NULL, NULL), (4, 0)")
            both(db, "UPDATE t SET a = a + 1, c = 'z' WHERE twice = 14 OR k = 1")
            both(db, "INSERT INTO t SELECT k + 10, total, name FROM t")
            both(db, "INSERT INTO t (c, k) VALUES ('q', 1) ON CONFLICT DO UPDATE SET c = excluded.c, a = 3")
            both(db, "DELETE FROM t WHERE total > 20")
            both(db, "UPDATE bag SET a = a + 2, d = 1 WHERE b > 0")
            both(db, "INSERT INTO t SELECT 100 + r, r, 'many' FROM (VALUES (1), (2), (3)) AS x(r)")
            (tmp_path / "rows.csv").write_text("c,k,a\nfile,30,3\n")
            mirror.execute("INSERT INTO t VALUES (30, 3, 'file')")
            db.sql(f"COPY t FROM '{tmp_path / 'rows.csv'}'")
            both(db, "DELETE FROM bag WHERE d = 0")
            gone = [row for row in db.table("bag").to_pylist() if row["a"] == 3][:1]
            db.apply(
                t=ef.Delta(inserts=[{"k": 40, "a": 4}], updates=[{"k": 30, "a": 9}], deletes=[{"k": 2}]),
                bag=ef.Delta(inserts=pa.table({"a": [6], "d": [None]}), deletes=gone),
            )
            mirror.execute("INSERT INTO t VALUES (40, 4, NULL); UPDATE t SET a = 9 WHERE k = 30")
            mirror.execute("DELETE FROM t WHERE k = 2; INSERT INTO bag VALUES (6, NULL)")
            mirror.execute("DELETE FROM bag WHERE rowid = (SELECT MIN(rowid) FROM bag WHERE a = 3)")
            both(db, "UPDATE t SET c = 'end' WHERE k = 40")
            returned = db.sql("INSERT INTO t VALUES (50, 5, 'r') RETURNING *")
            assert_rows(returned, *mirror.execute("INSERT INTO t VALUES (50, 5, 'r') RETURNING *").fetchall())
            with db.transaction():
                db.sql("UPDATE t SET a = 6 WHERE k = 50")
                assert_rows(db.sql("SELECT total FROM t WHERE k = 50"), (18,))
            state = state_of(db)
            for change in ({"t": [{"k": 60, "twice": 4}]}, {"t": ef.Delta(updates=[{"k": 50, "total": 1}])}):
                with refused(Code.ARGUMENT, "is generated"):
                    db.apply(change)
            for text in (
                "INSERT INTO t (k, twice) VALUES (60, 1)",
                "UPDATE t SET total = 1",
                "MERGE INTO t USING (SELECT 1 AS i) AS s ON k = i WHEN MATCHED THEN UPDATE SET name = 'x'",
                "INSERT INTO t VALUES (1, 1, 'x') ON CONFLICT DO UPDATE SET name = 'x'",
            ):
                with refused(Code.ARGUMENT, "is generated"):
                    db.sql(text)
            with refused(Code.DEPENDENCY, "generated column"):
                db.sql("ALTER TABLE t DROP COLUMN a")
            with refused(Code.OVERFLOW, "generated column"):
                db.apply(t=[(61, 2**31 - 1, "x")])
            assert_state(db, state)
            db.sql('ALTER TABLE bag RENAME a TO "a 1"; ALTER TABLE t RENAME c TO "C c"')
            db.sql("ALTER TABLE t ADD COLUMN late INTEGER DEFAULT 5; ALTER TABLE bag ADD COLUMN late INTEGER")
            db.sql("INSERT INTO t VALUES (70, 1, 'l', 2); INSERT INTO bag VALUES (8, 1, 1)")
            state = state_of(db)
        with self.connect(folder) as db:
            assert_state(db, state)
            db.sql('UPDATE t SET "C c" = \'again\' WHERE k = 70; UPDATE bag SET "a 1" = 10 WHERE b = 4')
            assert_rows(db.sql("SELECT name, total, late FROM t WHERE k = 70"), ("AGAIN-1", 3, 2))
            assert_rows(db.sql("SELECT b, late FROM bag WHERE late = 1"), (5.0, 1))
            assert all(db.view(name).verify().num_rows == 0 for name in db.views)

    def test_comments(self, tmp_path: Path) -> None:
        folder = tmp_path / "db"
        with self.connect(folder) as db:
            db.sql(_TABLES)
            db.sql("Comment On Table T Is 'it''s what comes'; COMMENT ON COLUMN t.\"b C\" IS 'a name'")
            db.sql("comment on materialized view v is 'counts'; COMMENT ON VIEW q IS 'more'")
            db.sql("COMMENT ON COLUMN v.c IS 'how many'; COMMENT ON COLUMN bag.b IS 'gone soon'")
            assert (db.table("t").comment, db.view("v").comment) == ("it's what comes", "counts")
            assert (db.view("q").comment, db.table("bag").comment) == ("more", None)
            epoch = db.epoch
            for text, code in (
                ("COMMENT ON TABLE nothing IS 'x'", Code.NOT_FOUND),
                ("COMMENT ON TABLE v IS 'x'", Code.NOT_FOUND),
                ("COMMENT ON COLUMN t.z IS 'x'", Code.NOT_FOUND),
                ("COMMENT ON TABLE t IS 3", Code.SYNTAX),
                ("COMMENT ON INDEX t IS 'x'", Code.UNSUPPORTED),
                ("BEGIN; COMMENT ON TABLE t IS 'x'; COMMIT", Code.UNSUPPORTED),
            ):
                with refused(code):
                    db.sql(text)
            assert db.epoch == epoch
            db.sql('ALTER TABLE t RENAME "B c" TO d; ALTER VIEW v RENAME TO w; COMMENT ON VIEW q IS NULL')
            db.sql("DROP VIEW q; ALTER TABLE bag DROP COLUMN b; ALTER TABLE bag ADD COLUMN b INTEGER")
            assert db.sql("Checkpoint") == db.epoch
            with refused(Code.UNSUPPORTED, "transaction"), db.transaction():
                db.sql("CHECKPOINT")
        with self.connect(folder) as db:
            assert [r["comment"] for r in answer(db, "DESCRIBE t")] == [None, None, "a name", None]
            assert [r["comment"] for r in answer(db, "DESCRIBE w")] == [None, "how many"]
            assert [r["comment"] for r in answer(db, "DESCRIBE bag")] == [None, None]
            assert (db.table("t").comment, db.view("w").comment) == ("it's what comes", "counts")

    def test_prepared_statements(self, db: Database) -> None:
        db.sql(_TABLES)
        db.sql('Prepare "Put" AS INSERT INTO bag VALUES (?, $2); PREPARE ask AS SELECT $a + 1 AS x, $b AS y')
        db.sql("EXECUTE put(7, 1 + 7); execute PUT(NULL, -1)")
        assert_rows(db.table("bag"), (1, 2), (1, 2), (3, 4), (7, 8), (None, -1))
        assert_rows(db.sql("EXECUTE ask(b := 'x, )', a := (2))"), (3, "x, )"))
        assert_rows(db.sql("EXECUTE ask(a := ?, b := ?)", [5, None]), (6, None))
        state = state_of(db)
        for text, code in (
            ("EXECUTE put(1)", Code.ARGUMENT),
            ("EXECUTE put(1, 2, 3)", Code.ARGUMENT),
            ("EXECUTE ask(1, 2)", Code.ARGUMENT),
            ("EXECUTE ask(1, b := 2)", Code.SYNTAX),
            ("EXECUTE put(a, 1)", Code.NOT_FOUND),
            ("EXECUTE nothing", Code.NOT_FOUND),
            ("PREPARE x AS SELEC 1", Code.SYNTAX),
            ("PREPARE x SELECT 1", Code.SYNTAX),
            ("PREPARE x AS PREPARE y AS SELECT 1", Code.SYNTAX),
            ("PREPARE x AS COMMIT", Code.SYNTAX),
            ("BEGIN; EXECUTE put(1, 1); EXECUTE nothing; COMMIT", Code.NOT_FOUND),
        ):
            with refused(code):
                db.sql(text)
        assert_state(db, state)
        assert_rows(
            db.sql("BEGIN; EXECUTE put(9, 9); PREPARE n AS SELECT COUNT(*) FROM bag; EXECUTE n"), (6,)
        )
        db.sql("ROLLBACK")
        assert_state(db, state)
        db.sql("PREPARE n AS SELECT 2 * COUNT(*) FROM bag; DEALLOCATE PREPARE ask; Deallocate nothing")
        assert_rows(db.sql("execute n()"), (10,))
        with refused(Code.NOT_FOUND, "'ask'"):
            db.sql("EXECUTE ask(a := 1, b := 2)")
