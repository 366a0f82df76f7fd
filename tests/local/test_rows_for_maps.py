"""Statements read the rows of a table where a map would have an entry for each: same results, fewer maps.

Catches: a table read in the state after its own change; a map left out that has fewer entries than the table,
or that holds what functions of strings give; a map with entries for rows that its filter drops, or without
those of a row that a filter lets pass later; a sum beside rows that are read anyway, or one that is read by
itself and not held; rows that are missing in a slice which is read after they came,
or that stay in it; a view that gets other maps when the database is opened again.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

import everfresh as ef
from everfresh.calculus import Rel, relations
from everfresh.expr import stored
from everfresh.testing.oracle import DuckOracle, assert_same

TABLES = """
CREATE TABLE customer (c BIGINT PRIMARY KEY, nation BIGINT, name VARCHAR);
CREATE TABLE orders (o BIGINT PRIMARY KEY, c BIGINT, day BIGINT, price DECIMAL(9,2));
CREATE TABLE line (o BIGINT, l BIGINT, qty BIGINT, PRIMARY KEY (o, l));
CREATE TABLE calendar (day BIGINT PRIMARY KEY, year BIGINT);
CREATE TABLE sale (o BIGINT, l BIGINT, c BIGINT, day BIGINT, qty BIGINT, PRIMARY KEY (o, l));
"""
VIEWS = {
    "by_nation": "SELECT nation, SUM(qty * price) AS s, COUNT(*) AS n FROM customer "
    "JOIN orders ON customer.c = orders.c JOIN line ON orders.o = line.o GROUP BY nation",
    "joined": "SELECT name, day, l, qty FROM customer JOIN orders ON customer.c = orders.c "
    "JOIN line ON orders.o = line.o WHERE qty > 2",
    "twice": "SELECT a.c, COUNT(*) AS n FROM orders a JOIN orders b ON a.c = b.c AND a.day = b.day "
    "GROUP BY a.c",
    "named": "SELECT SUM(CASE WHEN name LIKE 'a%' THEN qty ELSE 0 END) AS s FROM customer "
    "JOIN orders ON customer.c = orders.c JOIN line ON orders.o = line.o",
    "largest": "SELECT o, price FROM orders WHERE price = "
    "(SELECT MAX(price) FROM orders b WHERE b.c = orders.c)",
    "small": "SELECT SUM(qty) AS s, COUNT(*) AS n FROM orders JOIN line ON orders.o = line.o "
    "WHERE day = 1 AND qty < (SELECT AVG(qty) FROM line b WHERE b.o = orders.o)",
    "shares": "SELECT l, SUM(qty) AS s FROM orders JOIN line ON orders.o = line.o WHERE day = 1 GROUP BY l "
    "HAVING SUM(qty) > (SELECT SUM(qty) * 0.3 FROM orders JOIN line ON orders.o = line.o WHERE day = 1)",
    "both": "SELECT price, COUNT(*) AS n FROM orders JOIN customer ON customer.c = orders.c "
    "JOIN calendar ON calendar.day = orders.day WHERE nation = 1 AND year = 0 GROUP BY price",
    "sold": "SELECT nation, SUM(qty * price) AS s FROM orders JOIN sale ON orders.o = sale.o "
    "JOIN customer ON customer.c = sale.c JOIN calendar ON calendar.day = sale.day GROUP BY nation",
    "later": "SELECT a.c, SUM(b.qty) AS s FROM orders a JOIN sale b ON a.c = b.c AND a.o = b.o "
    "WHERE a.day < b.day GROUP BY a.c",
}


def tables_read(db: ef.Database, view: str) -> set[str]:
    program = db.catalog.views[view].compiled.program
    statements = (s for t in program.triggers for s in t.statements)
    return {n.name for s in statements for n in s.expr.walk() if isinstance(n, Rel) and not n.delta}


def maps_of(db: ef.Database, view: str) -> list[str]:
    return [m.name for m in db.catalog.views[view].compiled.program.maps]


def test_a_map_with_an_entry_per_row_is_the_table() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        query = VIEWS["joined"]
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        db.sql(f"CREATE MATERIALIZED VIEW w WITH (strategy = 'higher-order') AS {query}")
        assert {"customer", "orders"} <= tables_read(db, "v")
        assert tables_read(db, "w") == set()
        assert len(maps_of(db, "v")) < len(maps_of(db, "w"))


def test_sums_by_a_part_of_the_key_and_functions_of_strings_stay_in_maps() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['by_nation']}")
        assert "line" not in tables_read(db, "v")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(CASE WHEN name LIKE 'a%' THEN day END) AS s "
               "FROM customer JOIN orders ON customer.c = orders.c")  # fmt: skip
        assert "customer" not in tables_read(db, "w")


def test_a_map_has_entries_for_what_its_filter_lets_pass() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['small']}")
        db.sql(f"CREATE MATERIALIZED VIEW w WITH (strategy = 'higher-order') AS {VIEWS['small']}")
        assert tables_read(db, "v") & {*db.catalog.tables} == {"line"}
        assert not tables_read(db, "w") & {*db.catalog.tables}
        db.apply(orders=[(o, 0, o % 10, "1.00") for o in range(100)])
        db.apply(line=[(o, number, number) for o in range(100) for number in range(5)])
        known = db.statistics()["maps beside them"]
        entries = {
            view: max(known[stored(name)]["entries"] for name in maps_of(db, view)[2:]) for view in "vw"
        }
        assert entries == {"v": 50, "w": 500}


def test_only_changes_of_filters_read_the_table_that_they_filter() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['both']}")
        assert tables_read(db, "v") == {"orders"}
        for m in db.catalog.views["v"].compiled.program.maps[1:]:
            assert "orders" not in relations(m.definition)


def test_a_sum_is_taken_of_rows_that_are_read_anyway() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['shares']}")
        db.sql(
            "CREATE MATERIALIZED VIEW alone AS SELECT SUM(qty) AS s FROM orders "
            "JOIN line ON orders.o = line.o WHERE day = 1"
        )
        over = {
            view: [relations(m.definition) for m in db.catalog.views[view].compiled.program.maps]
            for view in ("v", "alone")
        }
        assert "line" in tables_read(db, "v")
        assert ("line",) not in map(tuple, over["v"])
        assert "line" not in tables_read(db, "alone")
        assert ("line",) in map(tuple, over["alone"])


def test_a_map_with_nearly_an_entry_per_row_is_the_table_unless_ranges_of_it_are_summed() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        for name in ("sold", "later"):
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        assert "sale" in tables_read(db, "sold")
        assert "sale" not in tables_read(db, "later")
        for m in db.catalog.views["sold"].compiled.program.maps[1:]:
            assert "sale" not in relations(m.definition)


def test_rows_enter_slices_when_these_are_read() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['small']}")
        rows = db._engine._state.wiring.tables["line"]  # type: ignore[attr-defined]
        db.apply(orders=[(1, 0, 1, "1.00"), (2, 0, 0, "1.00")])
        for number, qty in enumerate([1, 2, 30, 40]):
            db.apply(line=[(number % 2 + 1, number, qty)])
        assert len(rows._slices) == 1
        assert rows._waiting == 4
        db.apply(line=ef.Delta(deletes=[(1, 0)]))
        db.apply(line=[(1, 7, 3), (1, 8, 4)])
        assert rows._waiting == 2
        db.apply(orders=ef.Delta(updates=[(1, 0, 0, "1.00"), (2, 0, 1, "1.00")]))
        assert rows._waiting == 0
        assert db.view("v").to_pylist() == [{"s": 2, "n": 1}]
        db.apply(orders=ef.Delta(updates=[(1, 0, 1, "1.00")]))
        assert db.view("v").to_pylist() == [{"s": 9, "n": 3}]
        assert db.view("v").verify().num_rows == 0


def test_a_slice_takes_what_has_come_when_it_is_read_and_others_later() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
        rows = db._engine._state.wiring.tables["t"]  # type: ignore[attr-defined]
        a, b = rows.slice(("a",)), rows.slice(("b",))
        db.apply(t=[(1, 1, 1), (2, 2, 1)])
        assert (len(rows.slice(("a",))), len(b), rows._waiting) == (2, 0, 2)
        db.apply(t=[(3, 3, 2)])
        assert (len(a), len(b)) == (2, 0)
        assert len(rows.slice(("a", "b"))) == 3
        assert len(rows.slice(("b",))) == 2
        assert (len(a), rows._waiting) == (2, 3)
        assert (len(rows.slice(("a",))), rows._waiting) == (3, 0)
        db.apply(t=[(4, 4, 4)])
        assert len(rows.slice(("b",))) == 3
        db.apply(t=ef.Delta(deletes=[(1,), (4,)]))
        assert (len(a), len(b), rows._waiting) == (2, 2, 0)


@pytest.mark.parametrize("compile", [pytest.param("now", marks=pytest.mark.soak), "off"])
@pytest.mark.parametrize("seed", range(3))
def test_results_are_those_of_maps_and_of_duckdb(tmp_path: Path, seed: int, compile: str) -> None:
    random = Random(seed)
    options = ef.Options(compile=compile)
    db = ef.connect(tmp_path / "db", engine="local", options=options)
    oracle = DuckOracle()
    db.sql(TABLES)
    for schema in db.catalog.tables.values():
        oracle.create(schema)
    names = [*VIEWS]
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.sql(f"CREATE MATERIALIZED VIEW {name}_maps WITH (strategy = 'higher-order') AS {query}")
    there: dict[str, dict[tuple[int, ...], tuple[object, ...]]] = {name: {} for name in db.catalog.tables}
    for step in range(8):
        batch = {}
        for name, rows in there.items():
            gone = [rows.pop(key) for key in random.sample(sorted(rows), min(len(rows), random.randrange(6)))]
            made = [_row(random, name) for _ in range(random.choice([1, 5, 90]))]
            come = {row[: 2 if name in ("line", "sale") else 1]: row for row in made}
            come = {key: row for key, row in come.items() if key not in rows}
            rows.update(come)
            batch[name] = ef.Delta(inserts=[*come.values()] or None, deletes=gone or None)
            oracle.apply(name, inserts=[*come.values()], deletes=gone)
        db.apply(batch)
        maps = {name: maps_of(db, name) for name in names}
        if step == 4:
            db.close()
            db = ef.connect(tmp_path / "db", engine="local", options=options)
            assert maps == {name: maps_of(db, name) for name in names}
    for name, query in VIEWS.items():
        expected = oracle.query(query)
        assert_same(db.view(name).to_arrow(), expected)
        assert_same(db.view(f"{name}_maps").to_arrow(), expected)
        assert db.view(name).verify().num_rows == 0
    db.close()
    oracle.close()


def _row(random: Random, name: str) -> tuple[object, ...]:
    number = random.randrange(60)
    if name == "customer":
        return number, random.randrange(4), random.choice(["ann", "bob", "al"])
    if name == "orders":
        return number, random.randrange(60), random.randrange(3), Decimal(random.randrange(900))
    if name == "calendar":
        return random.randrange(3), random.randrange(2)
    if name == "sale":
        return number, random.randrange(4), random.randrange(60), random.randrange(3), random.randrange(6)
    return number, random.randrange(4), random.randrange(6)
