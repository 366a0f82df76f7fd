"""SQL that says what there is: tables made of queries, and plain views."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from everfresh import Code
from everfresh.database import Database
from everfresh.testing.engine.suite_base import SuiteBase, answer, assert_state, refused, state_of
from everfresh.testing.oracle import assert_rows

_SALES = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, "Who" VARCHAR, amount DECIMAL(9,2));
INSERT INTO sales VALUES (1, 'ann', 1.50), (2, 'bob', 2.50), (3, NULL, NULL), (4, 'ann', 9.00)"""


class DefinitionSuite(SuiteBase):
    """What `CREATE`, `ALTER` and `DROP` make of queries."""

    @pytest.fixture
    def sales(self, db: Database) -> Database:
        """A table of four rows. Epoch 2."""
        db.sql(_SALES)
        return db

    def test_a_table_of_a_query(self, sales: Database, tmp_path: Path) -> None:
        epoch = sales.epoch
        made = sales.sql(
            'CREATE TABLE "Big ones" AS SELECT id + 1 AS id, amount * 2 AS "a b", NULL AS n FROM Sales'
        )
        assert made == epoch + 1
        rows = [
            (2, Decimal("3.00"), None),
            (3, Decimal("5.00"), None),
            (4, None, None),
            (5, Decimal(18), None),
        ]
        assert_rows(sales.table("big ONES"), *rows)
        assert [str(c.type) for c in sales.table("big ones").columns] == [
            "BIGINT",
            "DECIMAL(18,2)",
            "INTEGER",
        ]
        sales.sql('CREATE MATERIALIZED VIEW s AS SELECT SUM("a b") AS s FROM "Big ones"')
        sales.sql('INSERT INTO "Big ones" VALUES (9, 1, 1)')
        assert_rows(sales.view("s"), (Decimal("27.00"),))
        assert sales.sql("CREATE TABLE IF NOT EXISTS sales AS SELECT 1 AS x") == sales.epoch
        sales.sql("CREATE TABLE names (w) AS SELECT DISTINCT who FROM sales WHERE id > ?", [1])
        assert_rows(sales.table("names"), ("bob",), (None,), ("ann",))
        sales.sql("CREATE OR REPLACE TABLE names AS SELECT 7 AS seven WITH NO DATA")
        assert sales.table("names").to_pylist() == []
        state = state_of(sales)
        with refused(Code.EXISTS, "sales"):
            sales.sql("CREATE TABLE sales AS SELECT 1 AS x")
        with refused(Code.DIVISION_BY_ZERO):
            sales.sql("CREATE TABLE bad AS SELECT id // 0 AS x FROM sales")
        with refused(Code.DEPENDENCY, "s"):
            sales.sql('CREATE OR REPLACE TABLE "Big ones" AS SELECT 1 AS x')
        assert_state(sales, state)

    def test_a_plain_view(self, sales: Database) -> None:
        sales.sql('CREATE VIEW q (w, "A") AS SELECT who, amount FROM sales WHERE amount > 1')
        sales.sql("CREATE VIEW pairs AS SELECT x.w, y.a FROM Q x JOIN q y ON x.w = y.W")
        sales.sql("CREATE MATERIALIZED VIEW m AS SELECT w, SUM(a) AS s, COUNT(*) AS n FROM pairs GROUP BY w")
        sales.sql("CREATE VIEW over AS SELECT * FROM m")
        ann, bob = ("ann", Decimal("21.00"), 4), ("bob", Decimal("2.50"), 1)
        assert_rows(sales.view("m"), ann, bob)
        sales.sql("DELETE FROM sales WHERE id = 1")
        assert_rows(sales.view("OVER"), ("ann", Decimal("9.00"), 1), bob)
        assert_rows(sales.sql("SELECT w, (SELECT MAX(a) FROM q AS o WHERE o.w = q.w) FROM q"),
                    ("bob", Decimal("2.50")), ("ann", Decimal("9.00")))  # fmt: skip
        assert sales.view("m").verify().num_rows == 0
        assert answer(sales, "SHOW VIEWS") == [{"name": n} for n in ("m", "q", "pairs", "over")]
        assert [r["column_name"] for r in answer(sales, "DESCRIBE q")] == ["w", "A"]
        assert "Scan sales" in repr(sales.sql("EXPLAIN q"))

    def test_a_plain_view_keeps_its_columns(self, sales: Database) -> None:
        sales.sql("CREATE VIEW every AS SELECT * FROM sales a, (SELECT id AS other FROM sales) b")
        sales.sql("ALTER TABLE sales ADD COLUMN more INTEGER DEFAULT 3")
        assert sales.view("every").to_arrow().column_names == ["id", "Who", "amount", "other"]
        with refused(Code.DEPENDENCY, "amount", "every"):
            sales.sql("ALTER TABLE sales DROP COLUMN amount")
        sales.sql("ALTER TABLE sales DROP COLUMN more")
        assert len(sales.view("every")) == 16

    def test_what_a_plain_view_reads_is_protected(self, sales: Database) -> None:
        sales.sql("CREATE VIEW q AS SELECT who FROM sales; CREATE VIEW q2 AS SELECT * FROM q")
        sales.sql("CREATE MATERIALIZED VIEW m AS SELECT who, COUNT(*) AS n FROM q2 GROUP BY who")
        state = state_of(sales)
        for text, code, named in (
            ("DROP VIEW q", Code.DEPENDENCY, "q2"),
            ("DROP VIEW q2", Code.DEPENDENCY, "m"),
            ("DROP TABLE sales", Code.DEPENDENCY, "q"),
            ("CREATE OR REPLACE VIEW q AS SELECT 1 AS who", Code.DEPENDENCY, "q2"),
            ("CREATE OR REPLACE VIEW q2 AS SELECT * FROM q2", Code.DEPENDENCY, "itself"),
            ("DROP MATERIALIZED VIEW q", Code.NOT_FOUND, "not materialized"),
            ("CREATE TABLE q (a INT)", Code.EXISTS, "q"),
            ("CREATE MATERIALIZED VIEW Q AS SELECT 1 AS a FROM sales", Code.EXISTS, "q"),
            ("INSERT INTO q VALUES ('x')", Code.UNSUPPORTED, "q"),
            ("CREATE VIEW e AS SELECT nope FROM q", Code.NOT_FOUND, "nope"),
        ):
            with refused(code, named):
                sales.sql(text)
        for call in ("changes", "verify"):
            assert not hasattr(sales.view("q"), call)
        assert_state(sales, state)
        sales.sql("DROP VIEW Q CASCADE")
        assert answer(sales, "SHOW VIEWS") == []
        sales.sql("DROP TABLE sales")

    def test_definitions_are_kept(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            db.sql(_SALES)
            db.sql('CREATE VIEW "a view" AS SELECT * FROM sales WHERE id > 1')
            db.sql('CREATE TABLE copied AS SELECT * FROM "a view"')
            db.sql('CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS n FROM "A VIEW"')
            db.sql("ALTER TABLE sales ADD COLUMN more INTEGER")
            db.sql("CREATE VIEW gone AS SELECT 1 AS x; DROP VIEW gone")
        with self.connect(tmp_path / "db") as db:
            assert db.view("a view").to_arrow().column_names == ["id", "Who", "amount"]
            assert len(db.table("copied")) == 3
            db.sql("DELETE FROM sales WHERE id = 4")
            assert_rows(db.view("m"), (2,))
            with refused(Code.DEPENDENCY, "m"):
                db.sql('DROP VIEW "a view"')
            assert answer(db, "SHOW VIEWS") == [{"name": "m"}, {"name": "a view"}]

    def test_defaults(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            db.sql("""CREATE TABLE t (k BIGINT PRIMARY KEY, "a b" VARCHAR DEFAULT 'it''s "x"', n INT NOT NULL
                DEFAULT (1 + 2), at TIMESTAMP Default NOW(), d DATE DEFAULT current_date)""")
            db.sql("INSERT INTO t (k) VALUES (1)")
            db.sql("INSERT INTO t VALUES (2, default, 7, NULL, DATE '2020-01-01')")
            db.sql("INSERT INTO t (k, n) SELECT k + 10, n * 2 FROM t")
            db.sql('UPDATE t SET n = DEFAULT, "a b" = NULL WHERE k = 2')
            db.sql("ALTER TABLE t ADD COLUMN z INT DEFAULT 5")
        with self.connect(tmp_path / "db") as db:
            db.sql(
                "MERGE INTO t USING (SELECT 9 AS k) q USING (k) WHEN NOT MATCHED THEN INSERT (k) VALUES (q.k)"
            )
            recent = (
                "at > TIMESTAMP '2024-01-01' AND at <= now() AND d >= CAST(at AS DATE) AND d <= CURRENT_DATE"
            )
            assert_rows(
                db.sql(f'SELECT k, "a b", n, {recent}, z FROM t'),
                (1, 'it\'s "x"', 3, True, 5),
                (2, None, 3, None, 5),
                (11, 'it\'s "x"', 6, True, 5),
                (12, 'it\'s "x"', 14, True, 5),
                (9, 'it\'s "x"', 3, True, 5),
            )
            db.sql("ALTER TABLE t DROP COLUMN z")
            db.sql("CREATE TABLE one (a INT DEFAULT 1); INSERT INTO one DEFAULT VALUES")
            assert_rows(db.sql("INSERT INTO one VALUES (DEFAULT), (4) RETURNING a"), (1,), (4,))

    def test_copies_to_files(self, db: Database, tmp_path: Path) -> None:
        import duckdb

        ddl = """CREATE TABLE v (i INTEGER, d DECIMAL(9,2), s VARCHAR, dt DATE, ts TIMESTAMP, b BOOLEAN,
            f DOUBLE, h HUGEINT, r REAL)"""
        rows = """INSERT INTO v VALUES (1, 1.50, 'x,"y', DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05.5',
            true, 1e20, 12345678901234567890123, 1.5),
            (2, NULL, '', NULL, TIMESTAMP '2020-01-02 00:00:00', false, 0.1, -1, 0.1),
            (3, -0.05, 'line\nbreak é', NULL, NULL, NULL, NULL, NULL, NULL)"""
        con = duckdb.connect()
        for text in (ddl, rows):
            db.sql(text)
            con.execute(text)
        query = "SELECT * FROM v WHERE i <= 3 ORDER BY i"
        for name, options in (
            ("a.csv", ""),
            ("b.tsv", ""),
            ("c.txt", "(FORMAT csv, HEADER false, DELIMITER '|')"),
        ):
            ours, theirs = tmp_path / name, tmp_path / f"theirs-{name}"
            delimiter = "(DELIMITER '\t', FORMAT csv)" if name == "b.tsv" else options
            assert answer(db, f"COPY ({query}) TO '{ours}' {options}") == [{"Count": 3}]
            con.execute(f"COPY ({query}) TO '{theirs}' {delimiter}")
            assert ours.read_text() == theirs.read_text()
        db.sql(f"Copy v TO '{tmp_path / 'v.parquet'}'")
        db.sql(f"COPY v (s, i) TO '{tmp_path / 'v.json'}'")
        for file, columns in (("v.parquet", "*"), ("v.json", "s, i")):
            found = con.execute(f"SELECT {columns} FROM '{tmp_path / file}'").fetchall()
            assert sorted(found, key=repr) == sorted(
                con.execute(f"SELECT {columns} FROM v").fetchall(), key=repr
            )
        with refused(Code.ENVIRONMENT, "nowhere"):
            db.sql(f"COPY v TO '{tmp_path / 'nowhere' / 'v.csv'}'")
        with refused(Code.ARGUMENT, "FORMAT"):
            db.sql(f"COPY v TO '{tmp_path / 'v.xyz'}'")
        with refused(Code.DIVISION_BY_ZERO):
            db.sql(f"COPY (SELECT 1 // (i - 1) FROM v) TO '{tmp_path / 'a.csv'}'")
        assert (tmp_path / "a.csv").read_text().startswith("i,d,s")
        assert not list(tmp_path.glob(".*"))
