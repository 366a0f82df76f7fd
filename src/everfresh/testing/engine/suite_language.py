"""Views of the whole language: whatever a view's query, it equals DuckDB's answer after every batch.

The tables are small and full of NULLs, so that joins hit and miss, groups empty and refill, and the sets
under NOT IN are empty, have NULLs, or neither. Views that are not flat are re-evaluated; `explain` must say
so.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from everfresh.database import Database
from everfresh.delta.bags import EPOCH, net, weigh
from everfresh.delta.changes import Delta
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import quoted

TABLES = """
CREATE TABLE r (a INTEGER, b INTEGER);
CREATE TABLE s (b INTEGER, c DECIMAL(9,2));
CREATE TABLE u (k BIGINT PRIMARY KEY, name VARCHAR, b INTEGER);
"""

_QUERIES = {
    "equi_join": "SELECT r.a, SUM(s.c) AS t, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "inequality": "SELECT r.a, s.c FROM r JOIN s ON r.b < s.b WHERE s.c > 1",
    "left_join": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.b = s.b AND s.c > 2",
    "full_join": "SELECT r.a, s.c, u.name FROM r FULL JOIN s USING (b) LEFT JOIN u ON u.b = s.b",
    "self_join": "SELECT x.a AS x, y.a AS y, COUNT(*) AS n FROM r x JOIN r y ON x.b = y.b GROUP BY 1, 2",
    "extremes": "SELECT b, MIN(c) AS lo, MAX(c) AS hi, COUNT(DISTINCT c) AS d FROM s GROUP BY b",
    "variance": "SELECT b, VAR_POP(c) AS v, STDDEV_SAMP(c) AS d FROM s GROUP BY b",
    "not_in": "SELECT a, b FROM r WHERE b NOT IN (SELECT b FROM s)",
    "in_some": "SELECT a FROM r WHERE b IN (SELECT b FROM s WHERE c > 2) OR a >= ALL (SELECT b FROM u)",
    "exists": "SELECT name FROM u WHERE EXISTS (SELECT 1 FROM r WHERE r.b = u.b AND r.a > 0)",
    "not_exists": "SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b = u.b)",
    "scalar": "SELECT a, (SELECT SUM(c) FROM s WHERE s.b = r.b) AS t FROM r",
    "count_bug": "SELECT k FROM u WHERE 0 = (SELECT COUNT(*) FROM r WHERE r.b = u.b)",
    "above_average": "SELECT b, c FROM s WHERE c > (SELECT AVG(c) FROM s)",
    "union_all": "SELECT a AS x FROM r UNION ALL SELECT b FROM s",
    "union": "SELECT b FROM r UNION SELECT b FROM s",
    "except_all": "SELECT b FROM r EXCEPT ALL SELECT b FROM s",
    "intersect": "SELECT b FROM r INTERSECT SELECT b FROM s",
    "having": "SELECT b, COUNT(*) AS n FROM r GROUP BY b HAVING COUNT(*) > (SELECT COUNT(*) FROM u) - 3",
    "top": "SELECT a, b FROM r ORDER BY a DESC NULLS LAST, b NULLS LAST LIMIT 3",
    "ranks": "SELECT b, c, RANK() OVER (PARTITION BY b ORDER BY c) AS k, SUM(c) OVER w AS t "
    "FROM s WINDOW w AS (PARTITION BY b)",
    "rollup": "SELECT r.a, s.b, SUM(s.c) AS t, COUNT(*) AS n, GROUPING(r.a, s.b) AS g "
    "FROM r JOIN s ON r.b = s.b GROUP BY ROLLUP (r.a, s.b)",
    "cube": "SELECT a + 1 AS x, b, MIN(a) AS m, COUNT(DISTINCT b) AS d FROM r GROUP BY CUBE (a, b)",
    "sets": "SELECT name, b, COUNT(*) AS n FROM u GROUP BY GROUPING SETS ((name, b), name, (), ()) "
    "HAVING GROUPING(b) = 1 OR COUNT(*) > 1",
    "first_of_each": "SELECT DISTINCT ON (b) b, name, k FROM u ORDER BY b, name DESC NULLS LAST, k",
    "with_cte": "WITH big AS (SELECT b, SUM(c) AS t FROM s GROUP BY b) "
    "SELECT name, t FROM u JOIN big USING (b)",
    "lateral": "SELECT r.a, t.c FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b) t",
    "lateral_sums": "SELECT r.a, t.n, t.c FROM r LEFT JOIN LATERAL "
    "(SELECT COUNT(*) AS n, SUM(c) AS c FROM s WHERE s.b >= r.b) t ON t.n > 1",
    "lateral_top": "SELECT u.k, t.c FROM u LEFT JOIN (SELECT c FROM s WHERE s.b = u.b "
    "ORDER BY c DESC NULLS LAST LIMIT 2) t ON TRUE",
    "lateral_of_lateral": "SELECT r.a, v.y FROM r, LATERAL (SELECT r.a + r.b AS x) t, "
    "LATERAL (SELECT DISTINCT name AS y FROM u WHERE u.b < t.x) v",
    "unnest": "SELECT r.a, x.v, x.o FROM r LEFT JOIN UNNEST(CASE WHEN b > 0 THEN [a, b, NULL] END) "
    "WITH ORDINALITY x(v, o) ON TRUE",
    "unnest_join": "SELECT x.v, SUM(s.c) AS t, COUNT(*) AS n FROM r, UNNEST([a, b]) AS x(v) "
    "JOIN s ON s.b = x.v GROUP BY x.v",
    "unnest_items": "SELECT UNNEST([a, b]) AS x, UNNEST(RANGE(b)) AS y, a FROM r",
    "unnest_groups": "SELECT UNNEST([a, b]) AS x, COUNT(*) AS n, MAX(b) AS m FROM r GROUP BY x",
    "unnest_asked": "SELECT k, (SELECT SUM(v) FROM UNNEST([b, k, 1]) x(v) WHERE v > 1) AS t FROM u "
    "WHERE k NOT IN (SELECT UNNEST([a, b]) FROM r WHERE a > 1 AND b > 1)",
    "series": "SELECT g.n, COUNT(r.a) AS k FROM RANGE(5) g(n) LEFT JOIN r ON r.b = g.n GROUP BY g.n",
    "pivot": "SELECT * FROM u PIVOT (SUM(k) AS t, COUNT(*) AS n FOR b IN (1, 2 AS two) GROUP BY name)",
    "pivot_join": "SELECT p.*, s.c FROM (PIVOT r ON b IN (1, 2), a IN (1, 2) USING COUNT(*)) p, "
    "s WHERE s.b = 1",
    "unpivot": "SELECT n, v, COUNT(*) AS k FROM r UNPIVOT INCLUDE NULLS (v FOR n IN (a, b AS bee)) "
    "GROUP BY n, v",
    "asked_by_a_window": "SELECT a, RANK() OVER (ORDER BY (SELECT SUM(c) FROM s WHERE s.b = r.b)) AS k "
    "FROM r",
    "asked_by_wide_rows": "SELECT a FROM r WHERE (a, b, a, b, a) NOT IN (SELECT k, b, b, b, k FROM u)",
    "derived": "SELECT n, COUNT(*) AS k FROM (SELECT b, COUNT(*) AS n FROM r GROUP BY b) AS g GROUP BY n",
}
VIEWS = {f"v_{name}": query for name, query in _QUERIES.items()}  # some of the names are keywords
OVER = {
    "of_a_join": "SELECT n, SUM(t) AS t FROM v_equi_join GROUP BY n",
    "of_both": "SELECT e.a, m.hi FROM v_equi_join e JOIN v_extremes m ON m.b = e.n",
    "of_that": "SELECT COUNT(*) AS k FROM of_a_join",
}


class LanguageSuite(SuiteBase):
    """Joins, subqueries, set operations, windows, and views over views."""

    language_views: int | None = None
    """How many of `VIEWS` to try (None: all); a slow engine takes every n-th of them."""

    language_batches = 8

    def test_every_view_follows_its_tables(self, db: Database) -> None:
        db.sql(TABLES)
        oracle = DuckOracle()
        for schema in db.catalog.tables.values():
            oracle.create(schema)
        chosen = self._chosen()
        early = [name for i, name in enumerate(chosen) if i % 2 == 0]
        for name in early:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        seen: dict[str, pa.Table] = {}
        for number, batch in enumerate(_history(self.language_batches)):
            epoch = db.apply({t: Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
            for table, (come, go) in batch.items():
                oracle.apply(table, come, go)
            if number == self.language_batches // 2:
                for name in chosen:
                    if name not in early:
                        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
            for name in db.views:
                rows = db.view(name).to_arrow()
                assert_same(oracle.query(VIEWS[name]).cast(rows.schema), rows, f"{name} after batch {number}")
                if name in seen and number != self.language_batches // 2:
                    change = db.view(name).changes(epoch - 1).drop_columns([EPOCH])
                    before = net(pa.concat_tables([weigh(seen[name]), change.cast(weigh(rows).schema)]))
                    assert_same(
                        net(weigh(rows)), before, f"{name}: old rows and their change, batch {number}"
                    )
                seen[name] = rows
        for name in db.views:
            assert db.view(name).verify().num_rows == 0
        oracle.close()

    def _chosen(self) -> list[str]:
        step = 1 if self.language_views is None else max(1, len(VIEWS) // self.language_views)
        return list(VIEWS)[::step]

    def test_views_over_views(self, db: Database) -> None:
        db.sql(TABLES)
        for name in ("v_equi_join", "v_extremes"):
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        for name, query in OVER.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for batch in _history(3):
            db.apply({t: Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
        for name in db.views:
            assert db.view(name).verify().num_rows == 0, name
        with refused("dependency", "of_a_join"):
            db.sql("DROP MATERIALIZED VIEW v_equi_join")
        with refused("dependency", "of_a_join"):
            db.sql("CREATE OR REPLACE MATERIALIZED VIEW v_equi_join AS SELECT a, b FROM r")
        with refused("dependency", "v_equi_join"):
            db.sql("DROP TABLE r")
        db.sql("DROP MATERIALIZED VIEW v_equi_join CASCADE")
        assert set(db.views) == {"v_extremes"}

    def test_explain_says_what_is_re_evaluated_and_why(self, db: Database) -> None:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW j WITH (strategy = 're-evaluate') AS {_ANEW}")
        db.sql("CREATE MATERIALIZED VIEW f AS SELECT a, COUNT(*) AS n FROM r GROUP BY a")
        explained = db.view("j").explain()
        assert explained.startswith("Re-evaluated")
        assert "re-evaluated: its strategy asks for it" in explained
        assert "incremental" in db.view("f").explain()
        statements: Any = json.loads(db.view("j").explain("json"))["triggers"]
        assert [(t["base"], t["statements"][0]["strategy"]) for t in statements] == [
            ("r", "re-evaluated"),
            ("s", "re-evaluated"),
        ]
        assert '"r" -> ' in db.view("j").explain("dot")

    def test_limit_without_order_takes_the_first_rows_by_all_columns(self, db: Database) -> None:
        db.sql(TABLES)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM r LIMIT 2")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT a FROM r WHERE b = (SELECT b FROM r LIMIT 1 OFFSET 1)")
        for batch in ([(3, 1), (2, 9), (None, 0)], [(1, 5), (2, 4)]):
            db.apply(r=batch)
            for view, query in (
                ("v", "SELECT a, b FROM r ORDER BY ALL LIMIT 2"),
                ("w", "SELECT a FROM r WHERE b = (SELECT b FROM r ORDER BY ALL LIMIT 1 OFFSET 1)"),
            ):
                assert db.view(view).to_arrow().sort_by("a") == db.sql(query).to_arrow().sort_by("a")  # type: ignore[union-attr]
                assert not db.view(view).verify().num_rows
                assert "ORDER BY ALL" in db.view(view).explain()

    def test_columns_of_one_name_get_numbers(self, db: Database) -> None:
        db.sql(TABLES)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, a AS B, b AS b_1, * FROM r")
        db.apply(r=[(1, 2)])
        assert db.view("v").to_pylist() == [{"b": 2, "B_1": 1, "b_1_1": 2, "a": 1, "b_2": 2}]
        assert not db.view("v").verify().num_rows
        found = db.sql("SELECT b_2 + 1 AS c FROM (SELECT b, b, b FROM r) AS q")
        assert found.to_pylist() == [{"c": 3}]  # type: ignore[union-attr]

    def test_columns_that_changes_have_are_refused_in_a_view(self, db: Database) -> None:
        db.sql("CREATE TABLE w (a INTEGER, _weight INTEGER, _epoch INTEGER)")
        with refused("exists", "'_Weight'", "AS Weight"):
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, _weight AS _Weight FROM w")
        with refused("exists", "'_epoch'"):
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT * EXCLUDE (_weight) FROM w")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, RANK() OVER (ORDER BY _weight) AS n FROM w")
        db.apply(w=[(1, 2, 3), (2, 1, 3)])
        db.sql("DELETE FROM w WHERE _weight = 2")
        assert db.table("w").to_pylist() == [{"a": 2, "_weight": 1, "_epoch": 3}]
        assert db.view("v").to_pylist() == [{"a": 2, "n": 1}]

    def test_names_of_users_are_never_those_of_the_compiler(self, db: Database) -> None:
        """Columns like components, tables and views like maps and derived relations of the view `v`."""
        db.sql(
            """CREATE TABLE "v$0" ("#0" INTEGER PRIMARY KEY, "#1" INTEGER, "$x" VARCHAR);
            CREATE TABLE "table:v" ("#1.x" INTEGER, "a~" INTEGER, "new\nline" INTEGER)"""
        )
        queries = {
            "v": """SELECT a."#1", SUM(b."a~") AS "#0", MAX(b."a~") AS "#1.x" FROM "v$0" a JOIN "table:v" b
                ON a."#1" = b."#1.x" GROUP BY a."#1\"""",
            "v#1": """SELECT a."#0", b."new\nline" FROM "v$0" a
                LEFT JOIN "table:v" b ON a."#1" = b."#1.x\"""",
            'q"q\n@1': """SELECT "#0", "$x" FROM "v$0" a
                WHERE "#1" >= (SELECT AVG("a~") FROM "table:v" WHERE "#1.x" = a."#1")""",
            "#0": """SELECT "$x", COUNT(*) AS "#1", COUNT(DISTINCT "#1") AS "#2" FROM "v$0" GROUP BY "$x\"""",
        }
        for name, query in queries.items():
            db.sql(f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query}")
        db.apply({"V$0": [(1, 1, "a"), (2, 1, None), (3, 2, "a")], "table:v": [(1, 0, 7), (1, 2, 8)]})
        delta = Delta(deletes=[(1, 1, "a")], inserts=[(4, 1, "b")])
        db.apply({"v$0": delta, "table:v": [(2, 2, 9)]})
        for name, query in queries.items():
            assert_same(db.sql(query).to_arrow(), db.view(name).to_arrow(), name)  # type: ignore[union-attr]
            assert not db.view(name).verify().num_rows, name
            assert db.view(name).explain()

    def test_every_construct_is_maintained_by_every_strategy(self, db: Database) -> None:
        """Nothing of the language is computed anew because a strategy does not know it."""
        db.sql(TABLES)
        for strategy in ("higher-order", "first-order"):
            db.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {_ANEW}")
            db.apply(r=[(1, 1)], s=[(1, "2.50"), (2, "1.00")])
            assert "is not maintained incrementally" not in db.view("v").explain()
            assert_same(db.sql(_ANEW).to_arrow(), db.view("v").to_arrow(), strategy)  # type: ignore[union-attr]
            db.sql("DROP VIEW v")

    def test_a_batch_that_a_view_cannot_take_is_refused_whole(self, db: Database) -> None:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW one AS {_SEVERAL}")
        epoch = db.apply(r=[(1, 1)], s=[(1, "2.50"), (2, "1.00")])
        with refused("value"):
            db.apply(s=[(1, "7.00")])
        assert db.epoch == epoch
        assert db.view("one").to_pylist() == [{"a": 1, "c": db.table("s").to_pylist()[0]["c"]}]
        assert len(db.table("s")) == 2

    def test_a_scalar_subquery_has_one_row_for_whoever_asks(self, db: Database) -> None:
        """Rows that ask count, as they are after the batch; one that is not correlated is always asked."""
        db.sql(TABLES)
        db.apply(u=[(9, "nobody", 9)])
        for name, query in _ASKED.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            assert db.view(name).explain().startswith("Incremental"), name
        db.apply(r=[(1, 1), (2, 2), (3, None)], s=[(1, "2.50"), (2, None)])
        epoch = db.apply(s=[(7, "1.00"), (7, "2.00"), (None, "1.00"), (None, "2.00")])  # nobody asks for them
        for batch in (
            {"s": [(1, "7.00")]},
            {"r": [(4, 7)]},
            {"r": [(4, 8)], "s": [(8, "1.00"), (8, None)]},  # NULL is a row, too
            {"u": [(1, "a", 1), (2, "b", 1)]},
        ):
            with refused("value"):
                db.apply(batch)
            assert db.epoch == epoch
        # Two rows of a key for which nobody asks any more, or of which one goes, are none.
        db.apply(r=Delta(deletes=[(1, 1)]), s=[(1, "7.00")])
        db.apply(s=Delta(deletes=[(7, "1.00")]))
        db.apply(r=[(4, 7)], u=[(1, "a", 1)])
        for name, query in _ASKED.items():
            assert_same(db.sql(query).to_arrow(), db.view(name).to_arrow(), name)  # type: ignore[union-attr]
            assert not db.view(name).verify().num_rows, name
        with refused("value"):
            db.sql("CREATE MATERIALIZED VIEW more AS SELECT a, (SELECT c FROM s) AS c FROM r")
        assert "more" not in db.views

    def test_lateral_joins_and_what_is_asked_below(self, db: Database) -> None:
        db.sql(TABLES)
        chosen = [name for name in VIEWS if name.startswith(("v_lateral", "v_asked"))]
        for name in chosen:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
            assert db.view(name).explain().startswith("Incremental"), name
        for batch in _history(3):
            db.apply({t: Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
        for name in chosen:
            assert_same(db.sql(VIEWS[name]).to_arrow(), db.view(name).to_arrow(), name)  # type: ignore[union-attr]
            assert not db.view(name).verify().num_rows, name


_ANEW = "SELECT r.a, (SELECT MEDIAN(c) FROM s) AS d FROM r"
_ASKED = {
    "shown": "SELECT a, (SELECT c FROM s WHERE s.b = r.b) AS c FROM r",
    "kept": "SELECT a FROM r WHERE a <> 5 AND (SELECT c FROM s WHERE s.b = r.b) > 1",
    "cased": "SELECT a, CASE WHEN b > 0 THEN (SELECT c FROM s WHERE s.b = r.b) END AS c FROM r",
    "grouped": "SELECT b, COUNT(*) AS n FROM r GROUP BY b HAVING (SELECT c FROM s WHERE s.b = r.b) > 1",
    "alone": "SELECT a, (SELECT name FROM u WHERE k < 3) AS d FROM r",
}
_SEVERAL = "SELECT a, (SELECT c FROM s WHERE s.b = r.b) AS c FROM r"


def _history(batches: int) -> list[dict[str, tuple[list[Any], list[Any]]]]:
    """Batches of rows that come and go, the same each time."""
    random = Random(7)
    live: dict[str, list[Any]] = {"r": [], "s": [], "u": []}
    key = 0
    history = []
    for number in range(batches):
        batch: dict[str, tuple[list[Any], list[Any]]] = {}
        for table, there in live.items():
            go = [row for row in there if random.random() < (1.0 if number == batches - 2 else 0.35)]
            come: list[Any] = []
            for _ in range(random.randrange(2, 7)):
                b = random.choice([None, 1, 2, 3, 4])
                if table == "r":
                    come.append((random.choice([None, 0, 1, 2]), b))
                elif table == "s":
                    come.append((b, random.choice([None, Decimal("1.00"), Decimal("2.50"), Decimal("4.00")])))
                else:
                    key += 1
                    come.append((key, random.choice([None, "x", "y"]), b))
            there[:] = [*(Counter(there) - Counter(go)).elements(), *come]
            batch[table] = (come, go)
        history.append(batch)
    return history
