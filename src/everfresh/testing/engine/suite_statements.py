"""SQL: INSERT and upserts, DELETE, UPDATE, COPY, DDL; and SELECT over tables and views."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from everfresh import Code, Delta
from everfresh.database import Database
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import assert_rows, assert_same


class StatementSuite(SuiteBase):
    """What `db.sql` runs."""

    @pytest.fixture
    def stock(self, db: Database) -> Database:
        """A table with a primary key and a view over it."""
        db.sql("""
            CREATE TABLE stock (sku VARCHAR PRIMARY KEY, place VARCHAR, n INTEGER NOT NULL, price
            DECIMAL(9,2));
            CREATE MATERIALIZED VIEW by_place AS SELECT place, SUM(n) AS n, SUM(n * price) AS worth FROM
            stock GROUP BY place;
            INSERT INTO stock VALUES ('a', 'x', 1, 1.50), ('b', 'x', 2, 2.00), ('c', 'y', 3, NULL), ('d',
            NULL, 4, 0.25)
        """)
        return db

    # -- INSERT ----------------------------------------------------------------------------------------------

    def test_insert(self, stock: Database) -> None:
        stock.sql("INSERT INTO stock (n, sku) VALUES (10, 'e'), (2 + 3, UPPER('f'))")
        stock.sql("INSERT INTO stock SELECT sku || '2', 'z', n * 2, price FROM stock WHERE place = 'x'")
        assert_rows(
            stock.table("stock"),
            ("a", "x", 1, Decimal("1.5")),
            ("b", "x", 2, Decimal(2)),
            ("c", "y", 3, None),
            ("d", None, 4, Decimal("0.25")),
            ("e", None, 10, None),
            ("F", None, 5, None),
            ("a2", "z", 2, Decimal("1.5")),
            ("b2", "z", 4, Decimal(2)),
        )
        assert_rows(
            stock.view("by_place"),
            ("x", 3, Decimal("5.5")),
            ("y", 3, None),
            (None, 19, Decimal(1)),
            ("z", 6, Decimal(11)),
        )

    def test_upsert(self, stock: Database) -> None:
        stock.sql("INSERT INTO stock VALUES ('a', 'q', 7, 1), ('e', 'q', 1, 1) ON CONFLICT DO NOTHING")
        assert_rows(stock.sql("SELECT place, n FROM stock WHERE sku IN ('a', 'e')"), ("x", 1), ("q", 1))
        stock.sql("""
            INSERT INTO stock VALUES ('a', 'y', 7, 1), ('f', 'y', 2, 1)
            ON CONFLICT (sku) DO UPDATE SET place = excluded.place, n = stock.n + excluded.n
        """)
        assert_rows(
            stock.sql("SELECT * FROM stock WHERE sku IN ('a', 'f')"),
            ("a", "y", 8, Decimal("1.5")),
            ("f", "y", 2, Decimal(1)),
        )
        assert_rows(
            stock.view("by_place"),
            ("x", 2, Decimal(4)),
            ("y", 13, Decimal(14)),
            (None, 4, Decimal(1)),
            ("q", 1, Decimal(1)),
        )

    def test_upsert_with_a_condition(self, stock: Database) -> None:
        stock.sql("""
            INSERT INTO stock VALUES ('a', 'y', 5, 9), ('b', 'y', 5, 9), ('g', 'y', 5, 9)
            ON CONFLICT (sku) DO UPDATE SET n = excluded.n, price = excluded.price * 2 WHERE stock.n < 2
        """)
        assert_rows(
            stock.sql("SELECT * FROM stock WHERE sku IN ('a', 'b', 'g')"),
            ("a", "x", 5, Decimal(18)),
            ("b", "x", 2, Decimal(2)),
            ("g", "y", 5, Decimal(9)),
        )
        assert stock.view("by_place").verify().num_rows == 0

    def test_upserts_that_cannot_be(self, stock: Database) -> None:
        epoch = stock.epoch
        with refused(Code.DUPLICATE_KEY, "twice"):
            stock.sql("INSERT INTO stock VALUES ('h', 'x', 1, 1), ('h', 'x', 2, 1) ON CONFLICT DO NOTHING")
        with refused(Code.NULL, "n"):
            stock.sql("INSERT INTO stock VALUES ('a', 'x', 1, 1) ON CONFLICT (sku) DO UPDATE SET n = NULL")
        with refused(Code.DUPLICATE_KEY, "'a'"):
            stock.sql("INSERT INTO stock VALUES ('a', 'x', 1, 1)")
        assert stock.epoch == epoch
        stock.sql("CREATE TABLE bag (a BIGINT)")
        with pytest.raises(Exception, match=r"(?i)key|conflict"):
            stock.sql("INSERT INTO bag VALUES (1) ON CONFLICT DO NOTHING")

    # -- DELETE and UPDATE -----------------------------------------------------------------------------------

    def test_delete(self, stock: Database) -> None:
        stock.sql("DELETE FROM stock WHERE price > 1.5 OR place IS NULL")
        assert_rows(stock.view("by_place"), ("x", 1, Decimal("1.5")), ("y", 3, None))
        epoch = stock.epoch
        assert stock.sql("DELETE FROM stock WHERE n > 100") == epoch + 1
        stock.sql("DELETE FROM stock")
        assert len(stock.table("stock")) == len(stock.view("by_place")) == 0

    def test_delete_of_duplicates_takes_them_all(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE bag (a BIGINT, b VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a FROM bag "
            "WHERE b IS NOT NULL"
        )
        db.sql("INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, 'x'), (2, 'y'), (3, NULL)")
        assert_rows(db.view("v"), (1,), (1,), (2,), (2,))
        db.apply(bag=Delta(deletes=[(1, "x")]))
        assert_rows(db.view("v"), (1,), (2,), (2,))
        db.sql("DELETE FROM bag WHERE b = 'x'")
        assert_rows(db.view("v"), (2,))
        assert_rows(db.table("bag"), (2, "y"), (3, None))

    def test_update(self, stock: Database) -> None:
        stock.sql(
            "UPDATE stock SET n = n + 10, price = CASE WHEN price IS NULL THEN 1 ELSE price END WHERE "
            "place IS NOT NULL"
        )
        assert_rows(
            stock.view("by_place"), ("x", 23, Decimal("40.5")), ("y", 13, Decimal(13)), (None, 4, Decimal(1))
        )
        stock.sql("UPDATE stock SET place = 'y' WHERE place = 'x'")
        assert_rows(stock.view("by_place"), ("y", 36, Decimal("53.5")), (None, 4, Decimal(1)))

    def test_update_of_the_key(self, stock: Database) -> None:
        stock.sql("UPDATE stock SET sku = sku || '!'")
        assert sorted(stock.table("stock").to_arrow().column("sku").to_pylist()) == ["a!", "b!", "c!", "d!"]
        stock.sql("UPDATE stock SET sku = CASE sku WHEN 'a!' THEN 'b!' WHEN 'b!' THEN 'a!' ELSE sku END")
        assert_rows(stock.sql("SELECT sku, n FROM stock WHERE place = 'x'"), ("b!", 1), ("a!", 2))
        epoch = stock.epoch
        with refused(Code.DUPLICATE_KEY):
            stock.sql("UPDATE stock SET sku = 'same'")
        with refused(Code.NULL, "n"):
            stock.sql("UPDATE stock SET n = NULL WHERE sku = 'c!'")
        assert stock.epoch == epoch
        assert stock.view("by_place").verify().num_rows == 0

    # -- COPY ------------------------------------------------------------------------------------------------

    def test_copy(self, stock: Database, tmp_path: Path) -> None:
        import pyarrow.parquet

        more = stock.table("stock").to_arrow().slice(0, 0)
        file = tmp_path / "more.csv"
        file.write_text("sku,n,price,place\ne,5,0.50,x\nf,6,,y\n")
        stock.sql(f"COPY stock FROM '{file}'")
        assert_rows(
            stock.sql("SELECT * FROM stock WHERE sku IN ('e', 'f')"),
            ("e", "x", 5, Decimal("0.5")),
            ("f", "y", 6, None),
        )
        pyarrow.parquet.write_table(more, tmp_path / "none.parquet")
        epoch = stock.epoch
        assert stock.sql(f"COPY stock FROM '{tmp_path / 'none.parquet'}'") == epoch + 1
        with refused(Code.DUPLICATE_KEY, "'e'"):
            stock.sql(f"COPY stock FROM '{file}'")
        with refused(Code.NOT_FOUND, "nope.csv"):
            stock.sql(f"COPY stock FROM '{tmp_path / 'nope.csv'}'")
        assert stock.epoch == epoch + 1

    # -- SELECT ----------------------------------------------------------------------------------------------

    def test_select(self, stock: Database) -> None:
        def ask(text: str) -> list[tuple[Any, ...]]:
            result: Any = stock.sql(text)
            return [tuple(row.values()) for row in result.to_pylist()]

        assert ask("SELECT sku FROM stock ORDER BY n DESC LIMIT 2") == [("d",), ("c",)]
        assert ask("SELECT sku FROM stock ORDER BY place NULLS FIRST, n LIMIT 2 OFFSET 1") == [("a",), ("b",)]
        assert ask("SELECT place, worth FROM by_place ORDER BY n DESC, place") == [
            (None, Decimal("1.00")),
            ("x", Decimal("5.50")),
            ("y", None),
        ]
        assert ask("SELECT COUNT(*) AS c, SUM(n) AS s FROM stock WHERE price IS NOT NULL") == [
            (3, Decimal(7))
        ]
        assert ask("SELECT place, COUNT(*) AS c FROM stock GROUP BY place HAVING COUNT(*) > 1") == [("x", 2)]
        assert ask("SELECT SUM(n) AS s FROM by_place") == [(Decimal(10),)]
        assert ask("SELECT 1/2 AS half, 7 // 2 AS three, DATE '2024-02-28' + INTERVAL 2 DAY AS d") == [
            (0.5, 3, dt.datetime(2024, 3, 1))
        ]
        assert ask("SELECT * FROM stock WHERE sku = 'zz'") == []
        assert ask('SELECT Sku AS "Any Name" FROM STOCK WHERE n = 1') == [("a",)]

    def test_a_dialect_is_only_syntax(self, stock: Database) -> None:
        result: Any = stock.sql("SELECT `sku` FROM `stock` WHERE n = 1", dialect="spark")
        assert result.to_pylist() == [{"sku": "a"}]

    def test_show_describe_and_explain(self, stock: Database) -> None:
        assert_rows(stock.sql("SHOW TABLES"), ("stock",))
        described: Any = stock.sql("DESCRIBE stock")
        assert described.to_arrow().column("column_type").to_pylist() == [
            "VARCHAR",
            "VARCHAR",
            "INTEGER",
            "DECIMAL(9,2)",
        ]
        explained = stock.explain("by_place")
        assert "by_place" in explained

    def test_a_script_stops_at_its_first_error(self, db: Database) -> None:
        with refused(Code.DUPLICATE_KEY):
            db.sql("""
                CREATE TABLE t (a BIGINT PRIMARY KEY);
                INSERT INTO t VALUES (1);
                INSERT INTO t VALUES (1);
                INSERT INTO t VALUES (2)
            """)
        assert_rows(db.table("t"), (1,))

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("SELEC 1", Code.SYNTAX),
            ("SELECT * FROM", Code.SYNTAX),
            ("CREATE MATERIALIZED VIEW v AS SELECT random() AS r FROM stock", Code.UNSUPPORTED),
            ("CREATE MATERIALIZED VIEW v AS SELECT place + n AS x FROM stock", Code.TYPE),
            ("CREATE MATERIALIZED VIEW v AS SELECT nope FROM stock", Code.NOT_FOUND),
            ("CREATE MATERIALIZED VIEW v AS SELECT place, SUM(n) AS s FROM stock GROUP BY sku", None),
            ("CREATE MATERIALIZED VIEW stock AS SELECT n FROM stock", Code.EXISTS),
            ("CREATE TABLE stock (a BIGINT)", Code.EXISTS),
            ("CREATE TABLE t (a NOSUCHTYPE)", None),
            ("DROP TABLE nope", Code.NOT_FOUND),
            ("DROP VIEW stock", Code.NOT_FOUND),
            ("INSERT INTO stock (sku) VALUES ('a', 'b')", None),
            ("UPDATE stock SET nope = 1", Code.NOT_FOUND),
            ("GRANT ALL ON stock TO me", None),
        ],
    )
    def test_statements_that_are_refused(self, refusing: Database, text: str, code: str | None) -> None:
        from everfresh import EverfreshError

        epoch = refusing.epoch
        with pytest.raises(EverfreshError) as caught:
            refusing.sql(text)
        assert code is None or caught.value.code == code, f"{caught.value.code}: {caught.value}"
        assert refusing.epoch == epoch
        assert list(refusing.views) == []

    @pytest.fixture(scope="class")
    @classmethod
    def refusing(cls) -> Any:
        """One database for all statements that must leave it as it is."""
        with cls().connect() as db:
            db.sql("CREATE TABLE stock (sku VARCHAR PRIMARY KEY, place VARCHAR, n INTEGER)")
            yield db

    # -- DDL -------------------------------------------------------------------------------------------------

    def test_replace_and_drop(self, stock: Database) -> None:
        stock.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW by_place AS SELECT place, COUNT(*) AS c FROM stock GROUP "
            "BY place"
        )
        assert_rows(stock.view("by_place"), ("x", 2), ("y", 1), (None, 1))
        stock.sql("INSERT INTO stock VALUES ('e', 'y', 1, 1)")
        assert_rows(stock.view("by_place"), ("x", 2), ("y", 2), (None, 1))
        with refused(Code.DEPENDENCY, "by_place"):
            stock.sql("DROP TABLE stock")
        with refused(Code.DEPENDENCY, "by_place"):
            stock.sql("CREATE OR REPLACE TABLE stock (a BIGINT)")
        stock.sql("DROP TABLE stock CASCADE")
        assert not stock.tables
        assert not stock.views
        epoch = stock.epoch
        assert stock.sql("DROP TABLE IF EXISTS stock") == epoch
        stock.sql("CREATE TABLE stock (a BIGINT); INSERT INTO stock VALUES (1)")
        stock.sql("CREATE OR REPLACE TABLE stock (b VARCHAR); INSERT INTO stock VALUES ('x')")
        assert_rows(stock.table("stock"), ("x",))

    def test_add_column(self, stock: Database) -> None:
        stock.sql("CREATE MATERIALIZED VIEW everything AS SELECT * FROM stock WHERE n > 1")
        columns = stock.view("everything").to_arrow().column_names
        stock.sql("ALTER TABLE stock ADD COLUMN since DATE")
        stock.sql("ALTER TABLE stock ADD COLUMN origin VARCHAR DEFAULT 'home'")
        assert stock.view("everything").to_arrow().column_names == columns
        stock.sql("INSERT INTO stock VALUES ('e', 'x', 9, 1, DATE '2024-05-01', NULL)")
        stock.apply(stock=[{"sku": "f", "place": "x", "n": 1}])
        assert_rows(
            stock.sql("SELECT sku, since, origin FROM stock WHERE sku IN ('a', 'e', 'f')"),
            ("a", None, "home"),
            ("e", dt.date(2024, 5, 1), None),
            ("f", None, None),
        )
        stock.sql(
            "CREATE MATERIALIZED VIEW origins AS SELECT origin, COUNT(*) AS c FROM stock GROUP BY origin"
        )
        stock.sql("UPDATE stock SET origin = 'away' WHERE sku IN ('a', 'f')")
        assert_rows(stock.view("origins"), ("home", 3), ("away", 2), (None, 1))
        assert_rows(stock.view("by_place"), ("x", 13, Decimal("14.5")), ("y", 3, None), (None, 4, Decimal(1)))
        for view in stock.views.values():
            assert view.verify().num_rows == 0
        with refused(Code.EXISTS, "origin"):
            stock.sql("ALTER TABLE stock ADD COLUMN ORIGIN BIGINT")
        with refused(Code.UNSUPPORTED, "NOT NULL"):
            stock.sql("ALTER TABLE stock ADD COLUMN must BIGINT NOT NULL")

    def test_drop_column(self, stock: Database) -> None:
        stock.sql("ALTER TABLE stock ADD COLUMN note VARCHAR DEFAULT 'n'")
        for column in ("price", "sku"):
            with refused(Code.DEPENDENCY, column):
                stock.sql(f"ALTER TABLE stock DROP COLUMN {column}")
        stock.sql("ALTER TABLE stock DROP COLUMN note")
        assert stock.table("stock").to_arrow().column_names == ["sku", "place", "n", "price"]
        stock.sql("INSERT INTO stock VALUES ('e', 'x', 1, 1)")
        assert_rows(stock.view("by_place"), ("x", 4, Decimal("6.5")), ("y", 3, None), (None, 4, Decimal(1)))
        with refused(Code.NOT_FOUND, "note"):
            stock.sql("ALTER TABLE stock DROP COLUMN note")

    def test_altering_a_bag_keeps_its_duplicates(self, db: Database) -> None:
        db.sql("CREATE TABLE bag (a BIGINT, b BIGINT); INSERT INTO bag VALUES (1, 1), (1, 1), (1, 2)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM bag GROUP BY a")
        db.sql("ALTER TABLE bag DROP COLUMN b")
        db.apply(bag=Delta(deletes=[(1,)]))
        assert_rows(db.table("bag"), (1,), (1,))
        assert_rows(db.view("v"), (1, 2))

    def test_a_view_over_existing_rows(self, stock: Database) -> None:
        told: list[tuple[str, int, int]] = []
        stock.on_progress(lambda what, done, total: told.append((what, done, total)))
        stock.sql(
            "CREATE MATERIALIZED VIEW late AS SELECT place, SUM(n) AS n, SUM(n * price) AS worth FROM "
            "stock GROUP BY place"
        )
        assert_same(stock.view("by_place").to_arrow(), stock.view("late").to_arrow(), "a late view")
        assert all(done <= total for _, done, total in told)
        stock.sql("DELETE FROM stock WHERE place = 'x'")
        assert_same(stock.view("by_place").to_arrow(), stock.view("late").to_arrow(), "a late view")

    def test_a_table_that_is_not_retained(self, db: Database) -> None:
        ddl = "CREATE TABLE s (g VARCHAR, x BIGINT) WITH (retain = false)"
        if not self.passing_tables:
            with refused(Code.UNSUPPORTED, "retain"):
                db.sql(ddl)
            assert not db.tables
            return
        db.sql(f"{ddl}; CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM s GROUP BY g")
        db.apply(s=[("a", 1), ("b", 2), ("a", 3)])
        db.apply(s=Delta(deletes=[("b", 2)], inserts=[("c", 4)]))
        assert_rows(db.view("v"), ("a", 4, 2), ("c", 4, 1))
        epoch = db.epoch
        with refused(Code.UNSUPPORTED, "not kept"):
            db.sql("SELECT * FROM s")
        with refused(Code.UNSUPPORTED, "not kept"):
            db.view("v").verify()
        with refused(Code.UNSUPPORTED, "too late"):
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT x FROM s")
        assert db.epoch == epoch

    def test_what_a_view_and_a_query_have_cost(self, shop: Database) -> None:
        shop.sql("EXPLAIN ANALYZE totals")
        shop.apply(items=[(5, "ink", 1, "1.00")])
        shop.apply(items=[(6, "pen", 1, "1.00"), (7, "pen", 2, "2.00")])
        text = str(shop.sql("EXPLAIN ANALYZE totals"))
        assert text.startswith("ANALYZE totals: the last ")
        assert " 2 batches" in text or " 3 batches" in text  # Spark knows those before as well
        assert str(shop.sql("EXPLAIN ANALYZE SELECT id FROM items WHERE id > 5")).startswith("2 rows")
        with refused(Code.UNSUPPORTED, "EXPLAIN ANALYZE"):
            shop.sql("EXPLAIN ANALYZE DELETE FROM items")
        assert len(shop.table("items")) == 7

    def test_a_static_table(self, db: Database) -> None:
        db.sql("CREATE STATIC TABLE rates (c VARCHAR, r DOUBLE)")
        db.apply(rates=[("eur", 1.5)])
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT c, r * 2 AS d FROM rates")
        epoch = db.epoch
        with refused(Code.DEPENDENCY, "rates", "v"):
            db.apply(rates=[("usd", 1.0)])
        with refused(Code.DEPENDENCY, "rates"):
            db.sql("DELETE FROM rates")
        assert db.epoch == epoch
        assert_rows(db.view("v"), ("eur", 3.0))
        db.sql("DROP VIEW v; INSERT INTO rates VALUES ('usd', 1)")
        assert len(db.table("rates")) == 2
