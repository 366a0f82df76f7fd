"""Values: types end to end, NULL, groups that vanish and come back, exact sums, floats without a trace."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from everfresh import Code, Delta
from everfresh.database import Database
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import assert_rows, assert_same

NAN, INF = float("nan"), float("inf")

TYPES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "bo": ("BOOLEAN", pa.bool_(), [True, False]),
    "ti": ("TINYINT", pa.int8(), [-128, 127]),
    "si": ("SMALLINT", pa.int16(), [-32768, 32767]),
    "i": ("INTEGER", pa.int32(), [-(2**31), 2**31 - 1]),
    "bi": ("BIGINT", pa.int64(), [-(2**63), 2**63 - 1]),
    "hu": ("HUGEINT", pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    "r": ("REAL", pa.float32(), [0.5, -3.0000000054977558e38]),
    "d": ("DOUBLE", pa.float64(), [0.1, 1.7976931348623157e308]),
    "m": ("DECIMAL(9,2)", pa.decimal128(9, 2), [Decimal("9999999.99"), Decimal("-0.01")]),
    "w": (
        "DECIMAL(38,10)",
        pa.decimal128(38, 10),
        [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")],
    ),
    "s": ("VARCHAR", pa.string(), ["", "grüße, 'ß' \U0001f40d\n\"x\""]),
    "c": ("CHAR(3)", pa.string(), ["abc", "x"]),
    "te": ("TEXT", pa.string(), ["long " * 50, "a\tb"]),
    "da": ("DATE", pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "ts": (
        "TIMESTAMP",
        pa.timestamp("us"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31)],
    ),
}


class ValueSuite(SuiteBase):
    """What comes out for what went in."""

    # -- types -----------------------------------------------------------------------------------------------

    def test_types_and_nulls_come_back_as_they_were(self, db: Database) -> None:
        columns = ", ".join(f"{name} {sql}" for name, (sql, _, _) in TYPES.items())
        schema = pa.schema([(name, arrow) for name, (_, arrow, _) in TYPES.items()])
        rows = pa.table({name: [*values, None] for name, (_, _, values) in TYPES.items()}, schema)
        db.sql(f"CREATE TABLE t ({columns})")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        keys = ", ".join(TYPES)
        db.sql(f"CREATE MATERIALIZED VIEW grouped AS SELECT {keys}, COUNT(*) AS n FROM t GROUP BY {keys}")
        db.apply(t=rows)
        db.apply(t=rows.slice(1))
        twice = pa.concat_tables([rows, rows.slice(1)])
        assert_same(twice, db.table("t").to_arrow(), "the table", tolerance=0)
        assert_same(twice, db.view("v").to_arrow(), "the view", tolerance=0)
        assert_same(
            rows.append_column("n", pa.array([1, 2, 2])),
            db.view("grouped").to_arrow(),
            "the groups",
            tolerance=0,
        )
        db.apply(t=Delta(deletes=twice))
        assert len(db.view("v")) == len(db.view("grouped")) == 0

    def test_sums_have_the_types_of_duckdb(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (b BOOLEAN, s SMALLINT, i BIGINT, h HUGEINT, r REAL, d DOUBLE, m "
            "DECIMAL(9,2), w DECIMAL(30,4))"
        )
        db.sql("""
            CREATE MATERIALIZED VIEW v AS SELECT SUM(b) AS b, SUM(s) AS s, SUM(i) AS i, SUM(h) AS h, SUM(r)
            AS r, SUM(d) AS d,
            SUM(m) AS m, SUM(w) AS w, AVG(s) AS a, AVG(m) AS am, COUNT(i) AS c FROM t
        """)
        big = 2**63 - 1
        db.apply(
            t=[(True, 1, big, 10**30, 0.5, 0.25, "1.10", "0.0001"), (True, 2, big, 1, 0.5, 0.25, "1.15", "2")]
        )
        assert [str(t) for t in db.view("v").to_arrow().schema.types] == [
            "decimal128(38, 0)",
            "decimal128(38, 0)",
            "decimal128(38, 0)",
            "decimal128(38, 0)",
            "double",
            "double",
            "decimal128(38, 2)",
            "decimal128(38, 4)",
            "double",
            "double",
            "int64",
        ]
        assert_rows(
            db.view("v"),
            (2, 3, 2 * big, 10**30 + 1, 1.0, 0.5, Decimal("2.25"), Decimal("2.0001"), 1.5, 1.125, 2),
        )

    def test_names_stay_as_written(self, db: Database) -> None:
        db.sql('CREATE TABLE "My Table" ("Key" BIGINT PRIMARY KEY, "select" VARCHAR, "ä ö" DOUBLE)')
        db.sql(
            'CREATE MATERIALIZED VIEW "The View" AS SELECT "select" AS "From", SUM("ä ö") AS "Sum of ä" '
            'FROM "My Table" GROUP BY "select"'
        )
        db.apply({"My Table": [{"Key": 1, "select": "x", "ä ö": 0.5}]})
        assert db.view("The View").to_arrow().column_names == ["From", "Sum of ä"]
        assert_rows(db.view("The View"), ("x", 0.5))

    # -- groups ----------------------------------------------------------------------------------------------

    def test_groups_vanish_and_come_back(self, db: Database) -> None:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x BIGINT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, AVG(x) AS a, COUNT(x) AS c, COUNT(*) AS "
            "n FROM t GROUP BY g"
        )
        view = db.view("v")
        db.apply(t=[(1, "a", 5), (2, "a", -5), (3, "b", None), (4, None, 7)])
        assert_rows(view, ("a", 0, 0.0, 2, 2), ("b", None, None, 0, 1), (None, 7, 7.0, 1, 1))
        db.apply(t=Delta(deletes=[{"k": 1}, {"k": 4}]))
        assert_rows(view, ("a", -5, -5.0, 1, 1), ("b", None, None, 0, 1))
        db.apply(t=Delta(deletes=[{"k": 2}]))
        assert_rows(view, ("b", None, None, 0, 1))
        db.apply(t=Delta(updates=[{"k": 3, "x": 3}]))
        assert_rows(view, ("b", 3, 3.0, 1, 1))
        db.apply(t=Delta(updates=[{"k": 3, "x": None, "g": "a"}]))
        assert_rows(view, ("a", None, None, 0, 1))
        db.apply(t=Delta(deletes=[{"k": 3}]))
        assert len(view) == 0
        db.apply(t=[(1, "a", 5)])
        assert_rows(view, ("a", 5, 5.0, 1, 1))

    def test_aggregates_without_groups(self, db: Database) -> None:
        db.sql("CREATE TABLE t (x BIGINT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s, AVG(x) AS a, COUNT(x) AS c, COUNT(*) AS n "
            "FROM t WHERE x IS NULL OR x > 0"
        )
        db.sql("CREATE MATERIALIZED VIEW h AS SELECT COUNT(*) AS n FROM t HAVING COUNT(*) > 1")
        view = db.view("v")
        assert_rows(view, (None, None, 0, 0))
        assert len(db.view("h")) == 0
        db.apply(t=[(-1,)])
        assert_rows(view, (None, None, 0, 0))
        db.apply(t=[(None,), (3,)])
        assert_rows(view, (3, 3.0, 1, 2))
        assert_rows(db.view("h"), (3,))
        db.apply(t=Delta(deletes=[(3,)]))
        assert_rows(view, (None, None, 0, 1))
        db.sql("DELETE FROM t")
        assert_rows(view, (None, None, 0, 0))
        assert len(db.view("h")) == 0
        assert view.verify().num_rows == 0

    def test_filter_and_having(self, db: Database) -> None:
        db.sql("CREATE TABLE t (g VARCHAR, x INTEGER, ok BOOLEAN)")
        db.sql("""
            CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) FILTER (WHERE ok) AS s, COUNT(*) FILTER (WHERE x >
            1) AS c
            FROM t GROUP BY g HAVING COUNT(*) > 1
        """)
        view = db.view("v")
        db.apply(t=[("a", 1, True), ("b", 2, None)])
        assert len(view) == 0
        db.apply(t=[("a", 2, False), ("b", None, True)])
        assert_rows(view, ("a", 1, 1), ("b", None, 1))
        db.apply(t=Delta(deletes=[("a", 1, True)], inserts=[("a", 1, False)]))
        assert_rows(view, ("a", None, 1), ("b", None, 1))
        db.apply(t=Delta(deletes=[("b", 2, None)]))
        assert_rows(view, ("a", None, 1))

    def test_conditions_with_null(self, db: Database) -> None:
        db.sql("CREATE TABLE t (a BIGINT, b BIGINT)")
        views: dict[str, tuple[str, set[tuple[Any, ...]]]] = {
            "eq": ("a = b", {(1, 1)}),
            "ne": ("a <> b", {(1, 2)}),
            "nn": ("NOT (a = b)", {(1, 2)}),
            "isn": ("a IS NULL", {(None, 1), (None, None)}),
            "dist": ("a IS DISTINCT FROM b", {(1, 2), (None, 1), (1, None)}),
            "inn": ("a IN (1, NULL)", {(1, 1), (1, 2), (1, None)}),
            "nin": ("a NOT IN (2, NULL)", set()),
            "orr": ("a = 1 OR b = 1", {(1, 1), (1, 2), (None, 1), (1, None)}),
        }
        for name, (condition, _) in views.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT a, b FROM t WHERE {condition}")
        db.apply(t=[(1, 1), (1, 2), (None, 1), (1, None), (None, None)])
        for name, (_, rows) in views.items():
            assert_rows(db.view(name), *rows)

    # -- floats ----------------------------------------------------------------------------------------------

    def test_a_spike_leaves_no_trace(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (g VARCHAR, x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, "
            "AVG(x) AS a FROM t GROUP BY g"
        )
        view = db.view("v")
        db.apply(t=[("a", 0.1), ("a", 0.2), ("b", 1e17)])
        for _ in range(3):
            db.apply(t=[("a", 1e17), ("a", -3.3)])
            db.apply(t=Delta(deletes=[("a", -3.3), ("a", 1e17), *([("b", 1e17)] if len(view) == 2 else [])]))
        (row,) = view.to_pylist()
        assert row["g"] == "a"
        assert row["s"] == math.fsum([0.1, 0.2])
        db.apply(t=Delta(deletes=[("a", 0.1), ("a", 0.2)]))
        assert len(view) == 0
        db.apply(t=[("a", 0.1)])
        assert_rows(view, ("a", 0.1, 0.1))

    def test_float_sums_do_not_drift(self, db: Database) -> None:
        db.sql("CREATE TABLE t (i BIGINT, x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
        rows = [(i, (-1) ** i * 10.0 ** (i % 33 - 16) / 3) for i in range(200)]
        db.apply(t=rows)
        assert math.isclose(db.view("v").to_pylist()[0]["s"], math.fsum(x for _, x in rows), rel_tol=1e-15)
        db.apply(t=Delta(deletes=rows[1:]))
        assert db.view("v").to_pylist()[0]["s"] == rows[0][1]

    def test_nan_and_infinity_come_and_go(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s, COUNT(x) AS n "
            "FROM t"
        )
        db.sql("CREATE MATERIALIZED VIEW g AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
        view = db.view("v")
        steps: list[tuple[list[float], list[float], float]] = [
            ([1.5, INF], [], INF),
            ([INF], [], INF),
            ([-INF], [], NAN),
            ([], [INF, INF], -INF),
            ([NAN, NAN], [-INF], NAN),
            ([], [NAN], NAN),
            ([], [NAN], 1.5),
            ([0.0, -0.0], [], 1.5),
        ]
        live: list[float] = []
        for inserts, deletes, expected in steps:
            db.apply(t=Delta(inserts=[(x,) for x in inserts], deletes=[(x,) for x in deletes]))
            live += inserts
            for x in deletes:
                live.remove(next(y for y in live if y == x or (x != x and y != y)))
            assert_rows(view, (expected, len(live)))
        assert_rows(db.view("g"), (1.5, 1), (0.0, 2))
        db.apply(t=Delta(deletes=[(0.0,), (0.0,)]))
        assert_rows(db.view("g"), (1.5, 1))

    def test_real_is_single_precision(self, db: Database) -> None:
        db.sql("CREATE TABLE t (x REAL); CREATE MATERIALIZED VIEW v AS SELECT x, x + x AS y FROM t")
        db.apply(t=[(0.1,), (16777217.0,)])
        values: list[Any] = db.view("v").to_arrow().column("x").to_pylist()
        assert sorted(values) == [0.10000000149011612, 16777216.0]
        assert str(db.view("v").to_arrow().schema.field("y").type) == "float"
        db.apply(t=Delta(deletes=[(0.1,)]))
        assert len(db.view("v")) == 1

    # -- sums ------------------------------------------------------------------------------------------------

    def test_exact_sums_near_the_limit(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (w DECIMAL(38,2)); CREATE MATERIALIZED VIEW v AS SELECT SUM(w) AS s, AVG(w) "
            "AS a FROM t"
        )
        most, least = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")
        db.apply(t=[(most,)])
        db.apply(t=[(Decimal(0),), (least,), (Decimal("0.01"),)])
        assert_rows(db.sql("SELECT s FROM v"), (Decimal("0.01"),))
        db.apply(t=Delta(deletes=[(least,), (Decimal("0.01"),)]))
        assert_rows(db.sql("SELECT s FROM v"), (most,))
        with refused(Code.OVERFLOW, "v"):
            db.apply(t=[(Decimal("0.01"),)])
        with refused(Code.OVERFLOW):
            db.apply(t=[(most,), (most,)])
        assert_rows(db.sql("SELECT s FROM v"), (most,))
        db.apply(t=Delta(deletes=[(most,)]))
        assert_rows(db.view("v"), (0, 0.0))

    def test_average_with_deletes(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (g BIGINT, m DECIMAL(9,2), i BIGINT); CREATE MATERIALIZED VIEW v AS SELECT g, "
            "AVG(m) AS m, AVG(i) AS i FROM t GROUP BY g"
        )
        db.apply(t=[(1, "0.10", 1), (1, "0.20", 2), (1, "0.40", 2**62), (1, None, None)])
        db.apply(t=Delta(deletes=[(1, "0.40", 2**62)]))
        assert_rows(db.view("v"), (1, 0.15, 1.5))
        db.apply(t=Delta(deletes=[(1, "0.10", 1), (1, "0.20", 2)]))
        assert_rows(db.view("v"), (1, None, None))

    def test_multiplicities(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (g BIGINT, x BIGINT); CREATE MATERIALIZED VIEW p AS SELECT x + 1 AS y FROM t "
            "WHERE g > 0"
        )
        db.sql("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
        db.apply(t=[(1, 5)] * 3 + [(2, 5)] + [(0, 5)])
        assert_rows(db.view("p"), *[(6,)] * 4)
        change = db.view("p").changes(db.epoch - 1)
        assert change.select(["y", "_weight"]).to_pylist() == [{"y": 6, "_weight": 4}]
        db.apply(t=Delta(deletes=[(1, 5)] * 2))
        assert_rows(db.view("p"), (6,), (6,))
        assert_rows(db.view("s"), (1, 5, 1), (2, 5, 1), (0, 5, 1))
