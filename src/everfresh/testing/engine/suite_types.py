"""Types beside numbers, text and dates: as columns, keys, groups, in expressions, in and out."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from everfresh import Code, Delta
from everfresh.database import Database
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import Column, TableSchema, parse_type

_UTC = dt.UTC
_MANY: dict[str, tuple[str, list[Any]]] = {
    "ut": ("UTINYINT", [0, 255]),
    "us": ("USMALLINT", [65535, 1]),
    "ui": ("UINTEGER", [2**32 - 1, 0]),
    "ub": ("UBIGINT", [2**64 - 1, 2**63]),
    "bl": ("BLOB", [b"", b"\x00\xff'"]),
    "uu": ("UUID", [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
    "tm": ("TIME", [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "tz": (
        "TIMESTAMP WITH TIME ZONE",
        [dt.datetime(1969, 12, 31, 23, tzinfo=_UTC), dt.datetime(2024, 2, 29, tzinfo=_UTC)],
    ),
    "js": ("JSON", ['{"a": [1, "x"]}', "null"]),
    "li": ("INTEGER[]", [[], [1, None, -5]]),
    "ll": ("VARCHAR[][]", [[["a", "it's"], None], [[]]]),
    "st": (
        'STRUCT("a b" DECIMAL(9,2), b UUID)',
        [{"a b": None, "b": uuid.UUID(int=7)}, {"a b": 1, "b": None}],
    ),
    "mp": ("MAP(VARCHAR, DOUBLE)", [{"k": 1.5, "": None}, {}]),
    "en": ("ENUM('low', 'it''s', 'high', '')", ["it's", "high"]),
    "le": ("STRUCT(e ENUM('b', 'a'))[]", [[{"e": "a"}, {"e": None}], [{"e": "b"}]]),
}  # fmt: skip


def _schema(name: str) -> TableSchema:
    columns = (Column(n, parse_type(sql)) for n, (sql, _) in _MANY.items())
    return TableSchema(name, (Column("id", parse_type("INTEGER"), False), *columns), ("id",))


def _rows() -> list[tuple[Any, ...]]:
    columns = [values for _, values in _MANY.values()]
    first, second = ([values[i] for values in columns] for i in (0, 1))
    mixed = [values[i % 2] for i, values in enumerate(columns)]
    return [(i, *values) for i, values in enumerate([first, second, first, mixed, [None] * len(columns)], 1)]


class TypeSuite(SuiteBase):
    """Values of every type are DuckDB's, and stay so."""

    def _filled(self, db: Database) -> DuckOracle:
        schema, rows = _schema("t"), _rows()
        db.sql(schema.ddl)
        db.apply(t=rows)
        oracle = DuckOracle()
        oracle.create(schema)
        oracle.apply("t", inserts=rows)
        return oracle

    def _changed(self, db: Database, oracle: DuckOracle) -> None:
        rows = _rows()
        added = [(9, *rows[1][1:]), (10, *rows[3][1:])]
        db.apply(t=Delta(inserts=added, deletes=[(1,), (4,)]))
        oracle.apply("t", inserts=added, deletes=[rows[0], rows[3]])

    def test_every_type_is_a_key_of_groups_joins_and_extremes(self, db: Database) -> None:
        oracle = self._filled(db)
        queries = {f"g_{c}": f"SELECT {c}, COUNT(*) AS n FROM t GROUP BY {c}" for c in _MANY}
        ordered = [c for c in _MANY if c != "mp"]
        queries["extremes"] = "SELECT " + ", ".join(
            f"MIN({c}) AS least_{c}, MAX({c}) AS most_{c}, COUNT(DISTINCT {c}) AS n_{c}" for c in ordered
        ) + " FROM t"  # fmt: skip
        pairs = " OR ".join(f"(a.{c} = b.{c} AND a.id < b.id)" for c in _MANY)
        queries["pairs"] = f"SELECT a.id AS x, b.id AS y FROM t AS a JOIN t AS b ON {pairs}"
        queries["joined"] = (
            "SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.li = b.li AND a.uu = b.uu"
        )
        queries["firsts"] = "SELECT id, st, ll FROM t ORDER BY ll DESC NULLS LAST, id LIMIT 2"
        for name, query in queries.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for _ in range(2):
            for name, query in queries.items():
                assert_same(oracle.query(query), db.view(name).to_arrow(), name)
            self._changed(db, oracle) if _ == 0 else None
        for name in ("g_li", "extremes", "joined"):
            assert db.view(name).verify().num_rows == 0
        oracle.close()

    def test_a_type_with_a_name(self, tmp_path: Path) -> None:
        path = tmp_path / "db"
        with self.connect(path) as db:
            db.sql("CREATE TYPE Level AS ENUM ('low', 'it''s', 'high')")
            for code, text in (
                (Code.EXISTS, "CREATE TYPE level AS ENUM ('x')"),
                (Code.TYPE, "CREATE TYPE twice AS ENUM ('x', 'x')"),
                (Code.NOT_FOUND, "DROP TYPE nothing"),
            ):
                with refused(code):
                    db.sql(text)
            db.sql("CREATE TYPE IF NOT EXISTS LEVEL AS ENUM ('x'); DROP TYPE IF EXISTS nothing")
            db.sql("CREATE TABLE t (id INT PRIMARY KEY, e LEVEL, l level[])")
            some = "SELECT e, COUNT(*) AS n FROM t WHERE e > 'low'::level GROUP BY e"
            ends = "SELECT MIN(e) AS a, MAX(e) AS b, enum_range(MAX(e)) AS c FROM t"
            db.sql(f"CREATE MATERIALIZED VIEW v AS {some}; CREATE MATERIALIZED VIEW w AS {ends}")
            db.sql("INSERT INTO t VALUES (1, 'high', ['low']), (2, 'it''s', NULL), (3, 'low', [])")
            db.sql("INSERT INTO t VALUES (4, NULL, NULL)")
            with refused(Code.VALUE):
                db.sql("INSERT INTO t VALUES (5, 'other', NULL)")
            with refused(Code.VALUE):
                db.apply(t=[(5, "other", None)])
            with refused(Code.DEPENDENCY):
                db.sql("DROP TYPE level")
        with self.connect(path) as db:
            labels = pa.array(["high"]).dictionary_encode()
            db.apply(t=pa.table({"id": [6], "e": labels, "l": [["it's", None]]}))
            db.sql("DELETE FROM t WHERE e = 'it''s'")
            assert db.view("v").fetchall() == [("high", 2)]
            assert db.view("w").fetchall() == [("low", "high", ["low", "it's", "high"])]
            db.sql("DROP MATERIALIZED VIEW v; DROP TYPE level")
            with refused(Code.UNSUPPORTED):
                db.sql("SELECT 'low'::level")
        with self.connect(path) as db:
            rows = sorted(db.table("t").fetchall())
            assert rows == [
                (1, "high", ["low"]),
                (3, "low", []),
                (4, None, None),
                (6, "high", ["it's", None]),
            ]
            assert str(db.table("t").to_pandas()["e"].dtype) == "category"

    def test_expressions_of_every_type(self, db: Database) -> None:
        oracle = self._filled(db)
        query = """
            SELECT id, ut + 1::INTEGER AS a, ub // 2 AS b, ui - 1::BIGINT AS c, CAST(us AS VARCHAR) AS d,
                CAST(bl AS VARCHAR) AS e, CAST(uu AS VARCHAR) AS f, HOUR(tm) AS g, CAST(tz AS TIMESTAMP) AS h,
                DATE_TRUNC('month', tz) AS i, js->>'$.a[1]' AS j, js->'a' AS k, li[1] AS l, li[-1] AS m,
                LEN(ll) AS n, ll[1][2] AS o, st."a b" AS p, st['b'] AS q, mp['k'] AS r, li[2:] AS s,
                LIST_CONTAINS(li, 1) AS t, [id, NULL] AS u, {'x': li, 'y': id} AS v,
                CAST(li AS VARCHAR[]) AS w, CAST(st AS VARCHAR) AS x, LIST_SUM(li) AS y,
                COALESCE(li, [id]) AS z, li || [id] AS aa,
                en = 'high' AS ea, en > 'h' AS eb, en || '!' AS ec, UPPER(en) AS eg, le[1].e AS ef,
                CASE WHEN id > 1 THEN en ELSE 'x' END AS ed, [en, 'z'] AS ek,
                en < CAST('high' AS ENUM('low', 'it''s', 'high', '')) AS ee,
                COALESCE(en, CAST('high' AS ENUM('high', 'low'))) AS eh, TRY_CAST(js AS ENUM('null')) AS ej,
                CAST(CAST(en AS VARCHAR) AS ENUM('high', 'it''s', 'low')) AS ei,
                tm < TIME '12:00:00' AS ab, MAP_KEYS(mp) AS ac, TRY_CAST(js AS INTEGER) AS ad
            FROM t"""
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        db.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT li[1] AS x, COUNT(*) AS n, SUM(ub) AS s FROM t GROUP BY ALL"
        )
        grouped = "SELECT li[1] AS x, COUNT(*) AS n, SUM(ub) AS s FROM t GROUP BY ALL"
        for step in range(2):
            assert_same(oracle.query(query), db.view("v").to_arrow(), "v")
            assert_same(oracle.query(grouped), db.view("w").to_arrow(), "w")
            if step == 0:
                self._changed(db, oracle)
        assert_same(oracle.query(query), _asked(db, query), "asked")
        assert db.view("v").verify().num_rows == db.view("w").verify().num_rows == 0
        oracle.close()

    def test_every_type_comes_in_and_goes_out_in_every_form(self, db: Database) -> None:
        self._filled(db).close()
        table = db.table("t")
        frames = {
            "arrow": table.to_arrow(),
            "polars": table.to_polars(),
            "dicts": table.to_pylist(),
            "texts": [{n: _text(v) for n, v in row.items()} for row in table.to_pylist()],
        }
        for name, rows in frames.items():
            db.sql(_schema(name).ddl)
            db.apply(**{name: rows})
            assert_same(table.to_arrow(), db.table(name).to_arrow(), name)
        assert_same(table.to_arrow(), _asked(db, "SELECT * FROM t"), "asked")

    def test_values_are_changed_by_statements(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (k INTEGER PRIMARY KEY, l INTEGER[], s STRUCT(a INTEGER, u UUID), z TIMESTAMPTZ)"
        )
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT l, s.a AS a, COUNT(*) AS n FROM t GROUP BY ALL")
        db.sql(
            "INSERT INTO t VALUES (1, [1, 2], {'a': 1, 'u': NULL}, '2024-01-01 00:00:00+02'), "
            "(2, '[3]', NULL, NULL)"
        )
        db.sql(
            "UPDATE t SET l = l || [k], s = {'a': 7, 'u': '00000000-0000-0000-0000-000000000001'} WHERE k = 2"
        )
        assert sorted(db.view("v").fetchall()) == [([1, 2], 1, 1), ([3, 2], 7, 1)]
        db.sql("DELETE FROM t WHERE l[1] = 1")
        assert db.view("v").fetchall() == [([3, 2], 7, 1)]
        db.sql("INSERT INTO t SELECT k + 10, l, s, z FROM t")
        assert db.view("v").fetchall() == [([3, 2], 7, 2)]


def _asked(db: Database, query: str) -> pa.Table:
    result: Any = db.sql(query)
    return result.to_arrow()


def _text(value: Any) -> Any:
    """A value as text that reads back, where there is one."""
    return str(value) if isinstance(value, (int, uuid.UUID, dt.time, dt.datetime)) else value
