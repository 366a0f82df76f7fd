"""Static tables: loaded before views read them, part of maps, never waited for.

Catches: a map that is kept only for changes of a static table; a map over static tables that is not filled,
or is lost on reopening; a change of a static table that slips through.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from test_joined import DDL, VIEWS, histories

import everfresh as ef
from everfresh.errors import Code
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.testing.state_check import check_state

ROWS = {
    "r": [(1, 1), (2, 1), (None, 2), (2, 3), (1, None)],
    "s": [(1, 1), (1, 2), (2, 3), (3, 3), (None, 1)],
    "t": [
        (1, Decimal("2.50"), "x"),
        (2, Decimal("1.00"), "y"),
        (3, None, None),
        (None, Decimal("4.00"), "x"),
    ],
}
MORE = {
    **VIEWS,
    "nested": "SELECT r.a, COUNT(*) AS n FROM r WHERE r.a < (SELECT MAX(d) FROM t) GROUP BY r.a",
    "outer": "SELECT s.c, t.e FROM s LEFT JOIN t ON s.c = t.c",
    "only": "SELECT e, SUM(d) AS d FROM t GROUP BY e",
    "first": "SELECT r.a, t.e FROM r JOIN t ON r.b = t.c ORDER BY t.e, r.a LIMIT 2",
}


def opened(path: Path | None, *static: str) -> ef.Database:
    db = ef.connect(path, engine="local", options=ef.Options(snapshot_epochs=4))
    ddl = DDL
    for name in static:
        ddl = ddl.replace(f"CREATE TABLE {name} ", f"CREATE STATIC TABLE {name} ")
    db.sql(ddl)
    for name, rows in ROWS.items():
        db.apply({name: rows})
    return db


@pytest.mark.parametrize("static", [("t",), ("s", "t"), ("r",), ("r", "s", "t")])
def test_views_over_static_tables(static: tuple[str, ...], tmp_path: Path) -> None:
    oracle = DuckOracle()
    db = opened(tmp_path / "db", *static)
    for name, schema in db.catalog.tables.items():
        oracle.create(schema)
        oracle.apply(name, ROWS[name])
    for name, query in MORE.items():
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        program = db.catalog.views[f"v_{name}"].compiled.program
        assert not {t.base for t in program.triggers}.intersection(static)
        shown = db.view(f"v_{name}").explain()
        read = [table for table in static if f" {table}" in query]
        assert set(json.loads(db.view(f"v_{name}").explain("json"))["static"]) <= set(read)
        assert all(f"STATIC {table}" in shown for table in program.static)
        assert set(db.catalog.views[f"v_{name}"].compiled.bases) >= set(read)
    for seed in range(2):
        for batch in histories(seed, 3):
            changes = {
                table: ef.Delta(inserts=come, deletes=go)
                for table, (come, go) in batch.items()
                if table not in static
            }
            db.apply(changes)
            for table in changes:
                oracle.apply(table, *batch[table])
            for name, query in MORE.items():
                actual = db.view(f"v_{name}").to_arrow()
                assert_same(oracle.query(query).cast(actual.schema), actual, name)
            check_state(db)
        db.close()
        db = ef.connect(tmp_path / "db", engine="local")
    check_state(db)
    db.close()
    oracle.close()


def test_no_maps_for_changes_that_do_not_come() -> None:
    """R joined with S: for changes of R a map of S is needed, for changes of S one of R."""
    kept = {}
    for static in ((), ("s",), ("r",), ("r", "s")):
        with opened(None, *static) as db:
            db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['two']}")
            program = db.catalog.views["v"].compiled.program
            kept[static] = [str(m.definition).split("(")[1] for m in program.maps[1:]]
            assert set(program.static) == set(static)
    assert kept == {(): ["s", "r"], ("s",): ["s"], ("r",): ["r"], ("r", "s"): []}


def test_views_over_views_that_never_change() -> None:
    with opened(None, "t") as db:
        db.sql(f"CREATE MATERIALIZED VIEW rates AS {MORE['only']}")
        assert db.catalog.static == {"t", "rates"}
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT r.a, SUM(d) AS d FROM r, rates WHERE e = 'x' GROUP BY r.a"
        )
        program = db.catalog.views["v"].compiled.program
        assert (program.static, [t.base for t in program.triggers]) == (("rates",), ["r"])
        db.apply(r=[(7, 7)])
        assert (7, Decimal("6.50")) in [tuple(row.values()) for row in db.view("v").to_pylist()]
        check_state(db)


def test_a_change_is_refused_and_the_way_out_is_told() -> None:
    with opened(None, "t") as db:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['chain']}")
        for change in ("INSERT INTO t VALUES (1, 1, 'x')", "DELETE FROM t", "UPDATE t SET e = 'z'"):
            with pytest.raises(ef.EverfreshError, match="static table 't' is read by v") as caught:
                db.sql(change)
            assert caught.value.code == Code.DEPENDENCY
            assert "drop" in str(caught.value.hint)
            assert "without STATIC" in str(caught.value.hint)
        db.sql("ALTER TABLE t ADD COLUMN more INTEGER")  # no view sees it
        db.apply(r=[(5, 1)])
        check_state(db)
        db.sql("DROP MATERIALIZED VIEW v; INSERT INTO t VALUES (1, 9, 'z', 1)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['chain']}")
        assert "z" in db.view("v").to_arrow()["e"].to_pylist()


def test_a_re_evaluated_view_does_not_wait_for_a_static_table() -> None:
    with opened(None, "t") as db:
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 're-evaluate') AS {VIEWS['chain']}")
        program = db.catalog.views["v"].compiled.program
        assert (program.static, [t.base for t in program.triggers]) == (("t",), ["r", "s"])
        db.apply(r=[(5, 1)])
        assert 5 in db.view("v").to_arrow()["a"].to_pylist()
