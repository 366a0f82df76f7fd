"""Tables of many columns on Spark: a view's program has the columns that it reads, and is right.

Catches: maps and changes of whole rows; a column that is looked up by its place among those that are read; a
folder whose views were placed with maps of whole rows, and that is opened as if they were narrow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from fake_spark import FakeSession, install
from test_spark_stages import catalog_of

import everfresh as ef
from everfresh.calculus import Rel
from everfresh.compiler import WIDE, Catalog
from everfresh.compiler.ddl_log import record_of
from everfresh.spark.jobs.programs import batch_program, load_program, whole_program
from everfresh.testing.oracle import assert_same

COLUMNS = 200
NAMES = [f"c{i}" for i in range(COLUMNS)]
DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, " + ", ".join(f"{name} INTEGER" for name in NAMES) + ")"
VIEWS = {
    "sums": "SELECT c7, SUM(c9) AS s, COUNT(*) AS n FROM t GROUP BY c7",
    "joined": "SELECT a.id, b.c150 FROM t a JOIN t b ON a.c3 = b.id WHERE b.c4 > 1",
    "outer_joined": "SELECT a.c5, b.c6 FROM t a LEFT JOIN t b ON a.c3 = b.c8",
    "exists_in": "SELECT c1 FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.c2 = a.c1 AND b.c13 > b.c12)",
    "counts": "SELECT a.c1, COUNT(*) AS n FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.c2 = a.c1)"
    " AND NOT EXISTS (SELECT 1 FROM t b WHERE b.c2 = a.c1 AND b.c13 > b.c12) GROUP BY a.c1",
    "counted": "SELECT COUNT(*) AS n FROM t",
    "first": "SELECT id, c10 FROM t ORDER BY c10 DESC, id LIMIT 3",
    "ranked": "SELECT id, RANK() OVER (PARTITION BY c1 ORDER BY c2) AS r FROM t",
    "above": "SELECT s.c7, t.c20 FROM sums s JOIN t ON t.c21 = s.c7",
}


def row(number: int) -> tuple[int | None, ...]:
    return (number, *((None if (number + i) % 11 == 0 else (number * i) % 5) for i in range(COLUMNS)))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def connect(session: FakeSession, path: Path | None = None, **changes: Any) -> ef.Database:
    options = ef.Options(workers=3, durable=False).with_(**changes)
    return ef.connect(path, engine="spark", spark=session, options=options)  # type: ignore[arg-type]


def create(db: ef.Database, *names: str) -> None:
    for name in names or VIEWS:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def widest(catalog: Catalog, view: str) -> int:
    """The most columns that an atom of a table has in a view's program."""
    program = catalog.views[view].compiled.program
    queries: list[Any] = [m.definition for m in program.maps]
    queries += [s.expr for trigger in program.triggers for s in trigger.statements]
    return max(len(n.vars) for query in queries for n in query.walk() if isinstance(n, Rel) and n.name == "t")


@pytest.mark.parametrize("whole_bytes", [0, 1 << 20])
def test_after_every_batch(session: FakeSession, tmp_path: Path, whole_bytes: int) -> None:
    duck = duckdb.connect()
    duck.execute(DDL)
    for name, query in VIEWS.items():
        duck.execute(f"CREATE VIEW {name} AS {query}")

    def compare(db: ef.Database) -> None:
        for name in VIEWS:
            assert_same(duck.sql(f"FROM {name}").to_arrow_table(), db.view(name).to_arrow(), name)

    with connect(session, tmp_path, whole_bytes=whole_bytes) as db:
        db.sql(DDL)
        create(db)
        for batch in (range(1), range(1, 8), range(8, 20)):
            rows = [row(i) for i in batch]
            db.apply(t=rows)
            duck.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (COLUMNS + 1))})", rows)
            compare(db)
        db.apply(t=ef.Delta(deletes=[{"id": 3}, {"id": 9}], updates=[{"id": 4, "c7": 1, "c13": 40}]))
        duck.execute("DELETE FROM t WHERE id IN (3, 9); UPDATE t SET c7 = 1, c13 = 40 WHERE id = 4")
        compare(db)
        assert max(widest(db.catalog, name) for name in VIEWS) <= 5
        db.sql("ALTER TABLE t DROP COLUMN c0; ALTER TABLE t ADD COLUMN extra VARCHAR")
    session.forget()
    with connect(session, tmp_path) as db:
        compare(db)
        db.apply(t=ef.Delta(deletes=[{"id": 5}], updates=[{"id": 2, "c9": 40, "extra": "x"}]))
        duck.execute("DELETE FROM t WHERE id = 5; UPDATE t SET c9 = 40 WHERE id = 2")
        compare(db)


def test_only_what_is_read_is_handed_on() -> None:
    """From the tables' tasks to those of maps, for a batch and for a view that is filled."""
    catalog = catalog_of([DDL, *(f"CREATE MATERIALIZED VIEW {n} AS {q}" for n, q in list(VIEWS.items())[:2])])
    changed = frozenset({"t"})
    programs = [
        batch_program(catalog, changed),
        load_program(catalog, "sums"),
        whole_program(catalog, changed),
    ]
    for program in programs:
        if program is not None:  # the last one: not every batch takes one stage
            assert max(len(temp.columns) for _, temp in program.given) <= 6


def test_views_of_folders_that_say_nothing_keep_whole_rows(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their maps lie where whole rows have a column."""
    with monkeypatch.context() as earlier:
        earlier.setattr("everfresh.spark.jobs.programs.WIDE", None)
        with connect(session, tmp_path) as db:
            db.sql(DDL)
            create(db, "sums", "joined", "above")
            db.apply(t=[row(i) for i in range(12)])
            assert all(not record_of(entry)[1].engine.get("wide") for _, entry in db.catalog.ddl)
    session.forget()
    with connect(session, tmp_path) as db, ef.connect(engine="local") as expected:
        assert widest(db.catalog, "sums") == COLUMNS + 1
        db.sql("CREATE MATERIALIZED VIEW later AS SELECT c7, SUM(c9) AS s FROM t GROUP BY c7")
        assert widest(db.catalog, "later") == 2
        assert record_of(db.catalog.ddl[-1][1])[1].engine["wide"] == WIDE
        expected.sql(DDL)
        create(expected, "sums", "joined", "above")
        expected.sql("CREATE MATERIALIZED VIEW later AS SELECT c7, SUM(c9) AS s FROM t GROUP BY c7")
        expected.apply(t=[row(i) for i in range(12)])
        for one in (db, expected):
            one.apply(t=ef.Delta(inserts=[row(20)], deletes=[{"id": 4}]))
        for name in ("sums", "joined", "above", "later"):
            assert_same(expected.view(name).to_arrow(), db.view(name).to_arrow(), name)
