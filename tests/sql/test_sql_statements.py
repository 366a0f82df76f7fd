"""DDL, DML and scripts: what a statement is bound to."""

# ruff: noqa: E501  (tables of SQL, one statement per line)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sql_support import DictCatalog, T, bind_all, bind_one, connect, duck_type, physical_rows

from everfresh import types as ty
from everfresh.errors import Code, EverfreshError
from everfresh.expr import evaluate
from everfresh.expr.nodes import Const, Var
from everfresh.sql import (
    AddColumn,
    Copy,
    CreateTable,
    CreateView,
    Delete,
    Drop,
    DropColumn,
    Explain,
    Insert,
    Select,
    Show,
    Update,
    parse_and_bind,
)
from everfresh.types import Column, TableSchema


def test_create_table() -> None:
    s = bind_one("CREATE TABLE o (a BIGINT PRIMARY KEY, b DECIMAL(15,2) NOT NULL, c VARCHAR(3) NULL)")
    assert isinstance(s, CreateTable)
    assert s.schema == TableSchema(
        "o",
        (Column("a", ty.BIGINT, False), Column("b", ty.DECIMAL(15, 2), False), Column("c", ty.VARCHAR)),
        ("a",),
    )
    assert (s.or_replace, s.if_not_exists, s.options) == (False, False, {})
    assert s.text.startswith("CREATE TABLE o (")
    assert s.place == "line 1, column 1"


def test_create_table_forms() -> None:
    s = bind_one("CREATE STATIC TABLE IF NOT EXISTS n (A INT, b INT, PRIMARY KEY (B, a))")
    assert s.schema.static
    assert s.if_not_exists
    assert s.schema.key == ("b", "A")
    assert all(not c.nullable for c in s.schema.columns)
    s = bind_one("CREATE OR REPLACE TABLE n (a INT, CONSTRAINT pk PRIMARY KEY (a)) WITH (retain = false)")
    assert (s.or_replace, s.options, s.schema.key) == (True, {"retain": False}, ("a",))


DDL_TYPES = """BOOLEAN BOOL TINYINT INT1 SMALLINT INT2 SHORT INTEGER INT INT4 SIGNED BIGINT INT8 LONG HUGEINT INT128 REAL
FLOAT4 FLOAT DOUBLE FLOAT8 DECIMAL NUMERIC DEC(3,1) DECIMAL(7) NUMERIC(38,10) VARCHAR CHAR TEXT STRING BPCHAR VARCHAR(10)
CHAR(5) TEXT(3) DATE TIMESTAMP DATETIME""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", DDL_TYPES)
def test_types_are_duckdbs(name: str) -> None:
    con = connect()
    con.execute(f"CREATE TABLE x (a {name})")
    ((_, expected, *_),) = con.execute("DESCRIBE x").fetchall()
    assert str(bind_one(f"CREATE TABLE x (a {name})").schema.columns[0].type) == duck_type(expected)


def test_create_view() -> None:
    s = bind_one(
        "CREATE OR REPLACE MATERIALIZED VIEW w WITH (strategy = 'first-order') AS SELECT g, total AS x FROM V"
    )
    assert isinstance(s, CreateView)
    assert (s.name, s.or_replace, s.options) == ("w", True, {"strategy": "first-order"})
    assert [c.name for c in s.columns] == ["g", "x"]
    assert s.plan.inputs[0].table == "v"  # spelled as in the catalog
    s = bind_one(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS w (a, b) WITH (strategy = auto) AS (SELECT g, g FROM v)"
    )
    assert [c.name for c in s.columns] == ["a", "b"]
    assert s.if_not_exists
    assert s.options == {"strategy": "auto"}


def test_drop_and_alter() -> None:
    s = bind_one("DROP TABLE T CASCADE")
    assert isinstance(s, Drop)
    assert (s.kind, s.name, s.if_exists, s.cascade) == ("table", "t", False, True)
    assert bind_one("DROP MATERIALIZED VIEW v").kind == "view"
    assert bind_one("DROP VIEW IF EXISTS nothing").if_exists
    s = bind_one("ALTER TABLE t ADD COLUMN c DECIMAL(5,2) DEFAULT 1.5")
    assert isinstance(s, AddColumn)
    assert (s.table, s.column, s.default) == (
        "t",
        Column("c", ty.DECIMAL(5, 2)),
        Const(150, ty.DECIMAL(5, 2)),
    )
    assert bind_one("ALTER TABLE t ADD c INT").default is None
    for text in ("ALTER TABLE t DROP COLUMN MIXED", "ALTER TABLE t DROP mixed"):
        s = bind_one(text)
        assert isinstance(s, DropColumn)
        assert (s.table, s.column) == ("t", "MixEd")


def test_insert_values() -> None:
    s = bind_one("INSERT INTO K (v, A, b) VALUES ('1.5', 2, 'x'), (NULL, 1 + 1, upper('y')), (3, '4', 5)")
    assert isinstance(s, Insert)
    assert (s.table, s.columns, s.plan, s.conflict) == ("k", ("v", "a", "b"), None, None)
    assert s.rows is not None
    assert [[evaluate(e, {}) for e in row] for row in s.rows] == [
        [150, 2, "x"],
        [None, 2, "Y"],
        [300, 4, "5"],
    ]
    assert all([e.type for e in row] == [ty.DECIMAL(10, 2), ty.INTEGER, ty.VARCHAR] for row in s.rows)


def test_insert_select() -> None:
    s = bind_one("INSERT INTO k SELECT i, s, i FROM t WHERE i IS NOT NULL")
    assert s.rows is None
    assert [(c.name, c.type) for c in s.plan.columns] == [
        ("a", ty.INTEGER),
        ("b", ty.VARCHAR),
        ("v", ty.DECIMAL(10, 2)),
    ]
    assert physical_rows(s.plan)[0] == {"a": 1, "b": "apple", "v": 100}


def test_insert_conflict() -> None:
    s = bind_one(
        "INSERT INTO k VALUES (1, 'x', 2) ON CONFLICT (b, a) DO UPDATE SET v = excluded.v + k.v WHERE v > 0"
    )
    conflict = s.conflict
    assert (conflict.keys, conflict.action) == (("a", "b"), "update")
    ((column, expr),) = conflict.assignments
    assert column == "v"
    assert evaluate(expr, {"v": 100, "excluded.v": 250}) == 350
    assert expr.type == ty.DECIMAL(10, 2)
    assert evaluate(conflict.where, {"v": 100}) is True
    for text in (
        "INSERT OR IGNORE INTO k VALUES (1, 'x', 2)",
        "INSERT INTO k VALUES (1, 'x', 2) ON CONFLICT DO NOTHING",
    ):
        assert bind_one(text).conflict.action == "nothing"
    replaced = bind_one("INSERT OR REPLACE INTO k VALUES (1, 'x', 2)").conflict
    assert replaced.assignments == (("v", Var("excluded.v", ty.DECIMAL(10, 2), True)),)
    assert bind_one(
        "INSERT INTO k AS z VALUES (1, 'x', 2) ON CONFLICT DO UPDATE SET v = z.v"
    ).conflict.keys == ("a", "b")


def test_update_delete() -> None:
    s = bind_one("UPDATE t SET i = i + 1, DC = '7' WHERE s LIKE 'a%'")
    assert isinstance(s, Update)
    values = {n: (e.type, evaluate(e, {"i": 1})) for n, e in s.assignments}
    assert values == {"i": (ty.INTEGER, 2), "dc": (ty.DECIMAL(15, 2), 700)}
    assert evaluate(s.where, {"s": "apple"}) is True
    s = bind_one("DELETE FROM t AS x WHERE x.i = 1")
    assert isinstance(s, Delete)
    assert evaluate(s.where, {"i": 2}) is False
    assert bind_one("DELETE FROM t").where is None


def test_copy() -> None:
    s = bind_one("COPY t FROM 'x.csv' (FORMAT csv, HEADER, DELIMITER '|', SKIP 2, QUOTE 'q')")
    assert isinstance(s, Copy)
    assert (s.table, s.path, s.format) == ("t", "x.csv", "csv")
    assert s.options == {"header": True, "delimiter": "|", "skip": 2, "quote": "q"}
    assert bind_one("COPY t FROM 'x.parquet'").format is None
    assert bind_one("COPY t FROM 'x' WITH (FORMAT 'parquet', HEADER false)").options == {"header": False}


def test_explain_show_describe() -> None:
    for text in ("EXPLAIN v", "EXPLAIN VIEW V", "explain materialized view v"):
        s = bind_one(text)
        assert isinstance(s, Explain)
        assert (s.view, s.statement) == ("v", None)
    s = bind_one("EXPLAIN SELECT ';', i FROM t")
    assert isinstance(s.statement, Select)
    assert isinstance(bind_one("EXPLAIN CREATE MATERIALIZED VIEW w AS SELECT 1 AS a").statement, CreateView)
    assert isinstance(bind_one("SHOW TABLES"), Show)
    assert (bind_one("SHOW VIEWS").kind, bind_one("show materialized views").kind) == ("views", "views")
    assert (bind_one("DESCRIBE T").kind, bind_one('DESC "v"').name) == ("describe", "v")


def test_scripts() -> None:
    statements = bind_all("SELECT 1; -- nothing\n;;\n  DELETE FROM t; /* ; */ SELECT ';'")
    assert [s.text for s in statements] == ["SELECT 1", "DELETE FROM t", "SELECT ';'"]
    assert [s.place for s in statements] == ["line 1, column 1", "line 3, column 3", "line 3, column 26"]
    assert bind_all("") == []
    assert bind_all(" ; -- c") == []


def test_binding_is_lazy_and_parsing_is_not() -> None:
    catalog = DictCatalog({}, {})
    statements: Iterator[Any] = parse_and_bind("CREATE TABLE x (a INT); INSERT INTO x VALUES (1)", catalog)
    created = next(statements)
    catalog.tables["x"] = created.schema
    assert next(statements).table == "x"
    with pytest.raises(EverfreshError) as error:
        parse_and_bind("SELECT 1; SELEC 2", catalog)
    assert (error.value.code, error.value.place) == (Code.SYNTAX, "line 1, column 11")


def test_names_keep_their_spelling() -> None:
    schema = TableSchema("Orders", (Column("OrderKey", ty.INTEGER), Column("group", ty.INTEGER)))
    catalog = DictCatalog({"Orders": schema}, {})
    s = bind_one('SELECT orderkey, "GROUP" AS G, o.* FROM ORDERS o', catalog)
    assert [c.name for c in s.plan.columns] == ["OrderKey", "G", "OrderKey_1", "group"]
    assert s.plan.inputs[0].line() == "Scan Orders AS o (OrderKey, group)"


def test_nullability() -> None:
    s = bind_one("SELECT a, v, count(*) AS n, sum(a) AS s FROM k GROUP BY ALL")
    assert [c.nullable for c in s.plan.columns] == [False, True, False, True]


# -- dialects --------------------------------------------------------------------------------------------------

SPARK = [
    (
        "CREATE TABLE x (a STRING, b FLOAT, c TIMESTAMP, d DECIMAL(5,1))",
        "VARCHAR REAL TIMESTAMP DECIMAL(5,1)",
    ),
    (
        'SELECT `My Col`, CAST(i AS STRING), year(dt), i DIV 2, "text" FROM t',
        "INTEGER VARCHAR BIGINT INTEGER VARCHAR",
    ),
    (
        "SELECT nvl(i, 0), length(s), if(b, 1, 2), date(ts), i <=> 1 FROM t",
        "INTEGER BIGINT INTEGER DATE BOOLEAN",
    ),
]
POSTGRES = [
    ("CREATE TABLE x (a text, b float, c real, d numeric(5,1), e timestamp)", "VARCHAR DOUBLE REAL DECIMAL(5,1) TIMESTAMP"),
    ("SELECT i::float8, \"My Col\"::text, extract(year from dt), date_part('year', dt), i ^ 2 FROM t",
     "DOUBLE VARCHAR BIGINT BIGINT DOUBLE"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "types"), [("spark", *c) for c in SPARK] + [("postgres", *c) for c in POSTGRES]
)
def test_dialects(dialect: str, text: str, types: str) -> None:
    s = bind_one(text, dialect=dialect)
    columns = s.schema.columns if isinstance(s, CreateTable) else s.plan.columns
    assert " ".join(str(c.type) for c in columns) == types
    assert s.dialect == dialect


def test_dialect_semantics_that_sqlglot_marks() -> None:
    (spark,) = bind_one("SELECT concat(s, NULL) AS x FROM t", dialect="spark").plan.items
    assert evaluate(spark[1], {"s": "a"}) is None  # DuckDB's concat would skip the NULL
    spark_sort = bind_one("SELECT i FROM t ORDER BY i", dialect="spark").plan
    assert spark_sort.keys[0][2] is True
    assert bind_one("SELECT i FROM t ORDER BY i").plan.keys[0][2] is False
    assert bind_one(
        "CREATE MATERIALIZED VIEW w WITH (strategy = 'auto') AS SELECT i FROM t", dialect="spark"
    ).options
    assert bind_one("CREATE STATIC TABLE w (a INT)", dialect="postgres").schema.static


def test_all_columns_are_scanned() -> None:
    plan = bind_one("SELECT i FROM t").plan
    assert plan.inputs[0].vars == tuple(Var(c.name, c.type, c.nullable) for c in T.columns)
