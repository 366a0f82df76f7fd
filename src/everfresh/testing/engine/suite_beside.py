"""What queries read beside tables and views: DataFrames, registered rows, files."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from everfresh import Code
from everfresh.database import Database
from everfresh.errors import EverfreshError
from everfresh.relations import Result
from everfresh.testing.engine.suite_base import SuiteBase, assert_state, refused, state_of
from everfresh.testing.engine.suite_inputs import EXPECTED
from everfresh.testing.oracle import assert_same


class BesideSuite(SuiteBase):
    """Rows that a statement reads where they are."""

    def test_a_query_reads_a_variable_of_its_caller(self, shop: Database) -> None:
        here = pa.table({"id": [1, 3, 9], "Id": ["a", None, "c"], "n b": [0.5, float("nan"), None]})
        query = 'SELECT i.id, h.Id_1, h."n b" FROM items i JOIN here h ON i.id = h.id ORDER BY ALL'
        expected = [{"id": 1, "Id_1": "a", "n b": 0.5}, {"id": 3, "Id_1": None, "n b": float("nan")}]
        assert str(_rows(shop.sql(query))) == str(expected)
        assert _rows(shop.sql("SELECT COUNT(*) AS n FROM here a, (FROM here) b WHERE a.id = b.id")) == [
            {"n": 3}
        ]
        asked = "SELECT id FROM items WHERE id IN (SELECT id FROM here) AND EXISTS (FROM HERE LIMIT 1)"
        with refused(Code.NOT_FOUND, "HERE"):  # variables are told apart by case
            shop.sql(asked)
        assert _rows(shop.sql(asked.replace("HERE", "here") + " ORDER BY 1")) == [{"id": 1}, {"id": 3}]
        items = here  # noqa: F841 - a table's name is the table's
        assert _rows(shop.sql("SELECT COUNT(*) AS n FROM items")) == [{"n": 4}]
        found = _rows(shop.sql("WITH here AS (SELECT 7 AS x) FROM here"))
        assert found == [{"x": 7}]
        assert here.num_rows == 3

    def test_statements_change_tables_by_given_rows(self, shop: Database) -> None:
        new = [{"id": 1, "qty": 20}, {"id": 7, "qty": 70}]
        shop.sql("INSERT INTO items (id, qty) SELECT id, qty FROM new WHERE id = 7")
        shop.sql("UPDATE items SET qty = new.qty + 1 FROM new WHERE items.id = new.id")
        assert _rows(shop.sql("SELECT id, qty FROM items WHERE id IN (1, 7) ORDER BY id")) == [
            {"id": 1, "qty": 21},
            {"id": 7, "qty": 71},
        ]
        shop.sql("""MERGE INTO items USING new USING (id) WHEN MATCHED AND new.id = 1 THEN DELETE
            WHEN MATCHED THEN UPDATE SET qty = new.qty""")
        shop.sql("CREATE TABLE copied AS SELECT id, qty FROM new")
        shop.sql("DELETE FROM items USING new WHERE items.id = new.id")
        assert _rows(shop.sql("SELECT id FROM items ORDER BY id")) == [{"id": 2}, {"id": 3}, {"id": 4}]
        assert _rows(shop.sql("FROM copied ORDER BY id")) == new
        assert not shop.view("totals").verify().num_rows
        with shop.transaction():
            shop.sql("INSERT INTO items (id, qty) SELECT id, qty FROM new")
            assert _rows(shop.sql("SELECT COUNT(*) AS n FROM items JOIN new USING (id)")) == [{"n": 2}]
        assert not shop.view("totals").verify().num_rows

    def test_registered_rows_are_read_anew_by_each_statement(self, shop: Database) -> None:
        rows = [{"k": 1}]
        shop.register("Extra", rows)
        assert _rows(shop.sql("SELECT SUM(k) AS s FROM extra")) == [{"s": 1}]
        rows.append({"k": 2})
        assert _rows(shop.sql("SELECT SUM(k) AS s FROM EXTRA")) == [{"s": 3}]
        extra = pa.table({"k": [100]})  # what is registered comes first
        assert _rows(shop.sql("SELECT SUM(k) AS s FROM extra")) == [{"s": 3}]
        shop.unregister("EXTRA")
        assert _rows(shop.sql("SELECT SUM(k) AS s FROM extra")) == [{"s": extra["k"][0].as_py()}]
        with refused(Code.EXISTS, "items"):
            shop.register("items", extra)
        with refused(Code.ARGUMENT, "columns with names"):
            shop.register("x", 7)

    def test_a_script_reads_rows_anew_in_each_statement(self, shop: Database) -> None:
        here, reader = shop.table("items"), pa.table({"id": [1, 2]}).to_reader()
        found = shop.sql("""CREATE TABLE a AS SELECT COUNT(*) AS n FROM here; DELETE FROM items WHERE id = 1;
            CREATE TABLE b AS SELECT COUNT(*) AS n FROM here;
            CREATE TABLE c AS SELECT COUNT(*) AS n FROM reader;
            SELECT a.n AS a, b.n AS b, c.n AS c, (SELECT COUNT(*) FROM reader) AS d FROM a, b, c""")
        assert _rows(found) == [{"a": 4, "b": 3, "c": 2, "d": 2}]
        assert len(here) == 3
        assert reader is not None

    def test_files_are_read_where_they_lie(self, shop: Database, tmp_path: Path) -> None:
        for day in (1, 2):
            (tmp_path / f"day={day}").mkdir()
            pyarrow.parquet.write_table(EXPECTED, tmp_path / f"day={day}" / "part.parquet")
        pyarrow.csv.write_csv(EXPECTED, tmp_path / "rows.csv")
        parquet = tmp_path / "day=1" / "part.parquet"
        assert_same(EXPECTED, _arrow(shop.sql(f"SELECT * FROM '{parquet}'")), "Parquet", tolerance=0)
        found = _arrow(
            shop.sql(f"SELECT COUNT(*) AS n, SUM(part.ratio) AS r FROM '{parquet}' JOIN items USING (id)")
        )
        assert found.to_pylist() == [{"n": 3, "r": -0.75}]
        both = f"SELECT id, count(*) AS n FROM read_parquet(['{parquet}', '{parquet}']) GROUP BY id"
        assert {row["n"] for row in _rows(shop.sql(both))} == {2}
        days = f"SELECT DISTINCT a.name FROM '{tmp_path}/*/*.parquet' a WHERE ratio < 0"
        assert _rows(shop.sql(days)) == [{"name": None}]
        text = f"FROM '{tmp_path / 'rows.csv'}'"
        assert_same(duckdb.sql(text).to_arrow_table(), _arrow(shop.sql(text)), "CSV", tolerance=0)
        wanted = {"id": 7, "tags": ["x", "y"], "at": {"day": "x"}}
        (tmp_path / "rows.json").write_text('{"id": 7, "tags": ["x", "y"], "at": {"day": "x"}}\n')
        assert _rows(shop.sql(f"FROM read_json('{tmp_path / 'rows.json'}')")) == [wanted]
        with refused(Code.NOT_FOUND, "no.parquet"):
            shop.sql(f"FROM '{tmp_path / 'no.parquet'}'")

    def test_what_is_not_kept_is_refused_in_a_view(self, shop: Database, tmp_path: Path) -> None:
        pyarrow.csv.write_csv(pa.table({"a": [1]}), tmp_path / "a.csv")
        here = pa.table({"a": [1]})
        before = state_of(shop)
        sources = ["here", f"'{tmp_path / 'a.csv'}'", f"read_csv('{tmp_path / 'a.csv'}')", "(FROM here) x"]
        for source in sources:
            for kind in ("VIEW", "MATERIALIZED VIEW"):
                with refused(Code.UNSUPPORTED, "in a view", "CREATE TABLE"):
                    shop.sql(f"CREATE {kind} v AS SELECT a FROM {source}")
        assert_state(shop, before)
        assert here.num_rows == 1

    def test_nothing_is_looked_up_that_may_not_be(self) -> None:
        here = pa.table({"a": [1]})
        with self.connect(options=self.options(replacement_scans=False)) as db:
            with refused(Code.NOT_FOUND, "here"):
                db.sql("FROM here")
            db.register("here", here)
            assert _rows(db.sql("FROM here")) == [{"a": 1}]

    @pytest.mark.parametrize("value", [7, "a.csv", [1, 2], {"a": 1}, [], None])
    def test_a_variable_without_columns_is_no_relation(self, db: Database, value: Any) -> None:
        with pytest.raises(EverfreshError) as caught:
            db.sql("SELECT * FROM value")
        assert caught.value.code == Code.NOT_FOUND

    def test_types_are_kept(self, db: Database) -> None:
        exotic = db.sql("""SELECT CAST('00112233-4455-6677-8899-aabbccddeeff' AS UUID) AS u, [1, NULL] AS l,
            TIMESTAMPTZ '2024-01-02 03:04:05+00' AS z, TIME '03:04:05' AS t, CAST('x' AS BLOB) AS b,
            {'a': 1, 'b': 'x'} AS s, MAP {'k': 1.5} AS m, CAST(1 AS UTINYINT) AS n, CAST(1 AS HUGEINT) AS h,
            CAST('[1]' AS JSON) AS j, CAST(NULL AS DATE) AS d, 'ü' AS v, 1.25 AS dec, true AS ok""")
        assert str(_rows(exotic)) == str(_rows(db.sql("FROM exotic")))
        assert _arrow(db.sql("SELECT * FROM exotic WHERE n = 1 AND u IS NOT NULL")).num_rows == 1
        empty = pa.table({"a": pa.array([], pa.int8()), "none": pa.nulls(0)})
        assert _rows(db.sql("SELECT COUNT(*) AS n, MAX(a) AS a FROM empty")) == [{"n": 0, "a": None}]
        assert empty.num_rows == 0


def _arrow(found: Any) -> pa.Table:
    assert isinstance(found, Result)
    return found.to_arrow()


def _rows(found: Any) -> list[dict[str, Any]]:
    assert isinstance(found, Result)
    return found.to_pylist()
