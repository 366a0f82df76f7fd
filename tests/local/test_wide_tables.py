"""Tables of many columns: what a view costs is counted in the columns that it reads."""

from __future__ import annotations

import pytest

import everfresh as ef
from everfresh.calculus import Rel, parse, to_text
from everfresh.compiler import WIDE
from everfresh.rewrite import Node
from everfresh.sql.logical import plan as p
from everfresh.testing.random_sql.drive import drive

COLUMNS = 300
DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, " + ", ".join(f"c{i} INTEGER" for i in range(COLUMNS)) + ")"
VIEWS = {
    "sums": "SELECT c7, SUM(c9) AS s, COUNT(*) AS n FROM t GROUP BY c7",
    "joined": "SELECT a.id, b.c250 FROM t a JOIN t b ON a.c3 = b.id WHERE b.c4 > 1",
    "outer_joined": "SELECT a.c5, b.c6 FROM t a LEFT JOIN t b ON a.c3 = b.c8",
    "exists_in": "SELECT c1 FROM t a WHERE EXISTS (SELECT * FROM t b WHERE b.c2 = a.c1)",
    "counted": "SELECT COUNT(*) AS n FROM t",
    "whole": "SELECT * FROM t",
    "different": "SELECT DISTINCT c2, c299 FROM t",
    "twice": "SELECT c1 FROM t UNION ALL SELECT c2 FROM t",
    "first": "SELECT id, c10 FROM t ORDER BY c10 DESC LIMIT 2",
    "ranked": "SELECT id, RANK() OVER (PARTITION BY c1 ORDER BY c2) AS r FROM t",
    "largest": "SELECT id FROM t a WHERE c11 = (SELECT MAX(c11) FROM t b WHERE b.c1 = a.c1)",
}


def row(number: int) -> tuple[int | None, ...]:
    return (number, *((None if (number + i) % 11 == 0 else (number * i) % 5) for i in range(COLUMNS)))


def atoms(db: ef.Database, view: str) -> list[Rel]:
    program = db.catalog.views[view].compiled.program
    exprs = [s.expr for trigger in program.triggers for s in trigger.statements]
    queries = [*exprs, *(m.definition for m in program.maps)]
    return [n for query in queries for n in query.walk() if isinstance(n, Rel) and n.name == "t"]


@pytest.mark.parametrize("compile_", ["off", "now"])
def test_views_of_a_wide_table_read_few_columns_and_are_right(compile_: str):
    views = {name: VIEWS[name] for name in ("sums", "joined")} if compile_ == "now" else VIEWS
    with ef.connect(engine="local", options=ef.Options(compile=compile_)) as db:
        db.sql(DDL)
        for name, query in views.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for batch in (range(1), range(1, 8), range(8, 40)):
            db.apply(t=[row(i) for i in batch])
            assert not [name for name in views if db.view(name).verify().num_rows]
        db.apply(t=ef.Delta(inserts=[row(50)], deletes=[{"id": 3}, {"id": 9}]))
        db.sql("UPDATE t SET c1 = 2, c3 = id + 1 WHERE id % 3 = 0")
        assert not [name for name in views if db.view(name).verify().num_rows]
        for name in views:
            widest = max(len(atom.vars) for atom in atoms(db, name))
            assert widest == COLUMNS + 1 if name == "whole" else widest <= 5, name


def test_columns_come_and_go_under_views_that_do_not_read_them():
    with ef.connect(engine="local") as db:
        db.sql(DDL)
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}")
        db.apply(t=[row(i) for i in range(5)])
        db.sql("ALTER TABLE t DROP COLUMN c3")
        db.sql("ALTER TABLE t ADD COLUMN extra VARCHAR")
        db.apply(t=ef.Delta(deletes=[{"id": 1}], updates=[{"id": 2, "c9": 40, "extra": "x"}]))
        assert db.view("sums").verify().num_rows == 0
        with pytest.raises(ef.EverfreshError):
            db.sql("ALTER TABLE t DROP COLUMN c9")


def test_a_wide_database_reopens(tmp_path):
    path = str(tmp_path / "wide.ef")
    with ef.connect(path, engine="local") as db:
        db.sql(DDL)
        db.sql(f"CREATE MATERIALIZED VIEW joined AS {VIEWS['joined']}")
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}")
        db.apply(t=[row(i) for i in range(20)])
    with ef.connect(path, engine="local") as db:
        db.apply(t=[row(i) for i in range(20, 30)])
        assert db.view("joined").verify().num_rows == db.view("sums").verify().num_rows == 0


def test_equal_maps_of_wide_tables_are_shared():
    """Whatever other columns two views read."""
    joined = "FROM t JOIN u ON t.c7 = u.k"
    with ef.connect(engine="local") as db:
        db.sql(f"{DDL}; CREATE TABLE u (k INTEGER, y INTEGER)")
        db.sql(f"CREATE MATERIALIZED VIEW a AS SELECT u.y, SUM(t.c9) AS s {joined} GROUP BY u.y")
        db.sql(f"CREATE MATERIALIZED VIEW b AS SELECT u.y, SUM(t.c9) AS s {joined} AND u.y > 3 GROUP BY u.y")
        db.sql(f"CREATE MATERIALIZED VIEW c AS SELECT u.y, MAX(t.c8) AS m {joined} GROUP BY u.y")
        shared = db.catalog.views["b"].compiled.program.shared
        assert any(atom.name == "t" for m in shared for atom in m.definition.walk() if isinstance(atom, Rel))
        db.apply(t=[row(i) for i in range(9)], u=[(i % 4, i) for i in range(9)])
        assert not [name for name in "abc" if db.view(name).verify().num_rows]


def test_a_narrow_atom_prints_and_parses():
    with ef.connect(engine="local") as db:
        db.sql(DDL)
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}")
        schema = db.catalog.tables["t"]
        definition = db.catalog.views["sums"].compiled.program.maps[0].definition
        text = to_text(definition, {"t": schema.columns})
        assert "t(8: c7, 10: c9)" in text
        assert parse(text, {"t": schema.columns}) == definition
        assert "t(8: c7, 10: c9)" in db.view("sums").explain()


def test_tables_of_few_columns_stay_whole():
    columns = ", ".join(f"c{i} INT" for i in range(WIDE - 1))
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE TABLE t ({columns}); CREATE MATERIALIZED VIEW v AS SELECT c1 FROM t")
        assert all(atom.columns is None for atom in atoms(db, "v"))


@pytest.mark.slow
def test_random_views_are_right_when_every_table_is_wide(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("everfresh.local.state.WIDE", 0)
    result = drive(range(4_000_000, 4_000_015))
    assert not result.failures, result.failures[0]


class Counted:
    """How often nodes are visited: what compiling costs, whatever the machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes = 0
        walk = Node.walk

        def counting(node: Node):
            for one in walk(node):
                self.nodes += 1
                yield one

        monkeypatch.setattr(Node, "walk", counting)


def test_creating_a_view_takes_no_more_for_columns_that_it_does_not_read(monkeypatch: pytest.MonkeyPatch):
    visited = []
    for columns in (100, 1_000):
        with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
            db.sql(f"CREATE TABLE t ({', '.join(f'c{i} INT' for i in range(columns))})")
            with monkeypatch.context() as patch:
                counted = Counted(patch)
                db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['sums']}")
            visited.append(counted.nodes)
    assert visited[1] < 2 * visited[0] + 10 * 1_000  # the scan of the plan itself has all columns


def test_many_branches_of_union_all_are_one_relation():
    values = ", ".join(f"({i}, {2 * i})" for i in range(200))
    query = f"SELECT a.k, v.y FROM a JOIN (VALUES {values}) v(k, y) ON a.k = v.k"
    with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
        db.sql(f"CREATE TABLE a (k INT); CREATE MATERIALIZED VIEW v AS {query}")
        assert len(db.catalog.views["v"].compiled.program.relations) == 1
        db.apply(a=[(1,), (7,), (7,), (500,)])
        assert sorted(r["y"] for r in db.view("v").to_pylist()) == [2, 14, 14]
        assert db.view("v").verify().num_rows == 0


def test_a_scan_of_the_plan_keeps_all_columns():
    with ef.connect(engine="local") as db:
        db.sql(DDL)
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}")
        scans = [n for n in db.catalog.views["sums"].compiled.plan.walk() if isinstance(n, p.Scan)]
        assert [len(scan.vars) for scan in scans] == [COLUMNS + 1]
