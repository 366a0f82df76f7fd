"""Equal maps of different views are one, whatever is created, dropped, altered and reopened around them.

Catches: a map that goes with the view that made it while another reads it; one that two programs maintain, or
none; a map that a later view finds under an old name; a view that gets other maps when the database is
opened again; an index or a string left from a load that was stopped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_joined import DDL, VIEWS, rows

import everfresh as ef
from everfresh.calculus import MapRef
from everfresh.compiler import Catalog
from everfresh.compiler.sharing import offers, readers
from everfresh.errors import Code
from everfresh.expr import Made
from everfresh.local.batch import loading
from everfresh.local.batch.steps import Steps
from everfresh.sql import parse_and_bind
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.testing.state_check import check_state
from everfresh.workloads import WORKLOADS
from everfresh.workloads.strategies import catalog_of, compiled

MORE = {
    **VIEWS,
    "two_sums": "SELECT r.a, SUM(s.c) AS x, SUM(s.c * s.c) AS y FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "nested": "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.b = s.b "
    "WHERE r.a > (SELECT AVG(c) FROM s) - 2 GROUP BY r.a",
    "outer": "SELECT r.a, s.c, t.e FROM r LEFT JOIN s ON r.b = s.b LEFT JOIN t ON s.c = t.c",
    "exists": "SELECT s.c FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.b = s.b)",
    "first": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b ORDER BY r.a, s.c LIMIT 3",
    "over": 'SELECT q.a, COUNT(*) AS n FROM "base" AS q JOIN s ON q.b = s.b GROUP BY q.a',
    "over_too": 'SELECT SUM(q.a) AS n FROM "base" AS q JOIN s ON q.b = s.b',
}
BASE = "SELECT a, b FROM r WHERE a IS NOT NULL"


def of(query: str) -> str:
    """The query for DuckDB, which has no view of ours."""
    return query.replace('"base"', f"({BASE})")


def invariants(catalog: Catalog) -> None:
    """Every map has one owner; what statements read is owned or shared; what is shared is the owner's."""
    owners = Counter(m.name for v in catalog.views.values() for m in v.compiled.program.maps)
    assert set(owners.values()) <= {1}
    for view in catalog.views.values():
        program = view.compiled.program
        if view.compiled.reevaluated:
            continue
        own, shared = {m.name for m in program.maps}, {m.name for m in program.shared}
        statements = [s for t in program.triggers for s in t.statements]
        read = {n.name for s in statements for n in s.expr.walk() if isinstance(n, MapRef)}
        assert {s.target for s in statements} <= own
        assert read - own == shared <= owners.keys()
        for m in program.shared:
            owner = catalog.views[readers(catalog.compiled, m.name)[0]]
            assert owner.compiled.program.map(m.name) == m
            assert set(view.compiled.bases) >= {t.base for t in program.triggers} - {
                r.name for r in program.relations
            }


def same_programs(one: Catalog, other: Catalog) -> None:
    """Equal, but for the order of maps and statements that were taken over."""
    assert list(one.views) == list(other.views)
    for name, view in one.views.items():
        programs = [c.views[name].compiled.program for c in (one, other)]
        assert len({frozenset(p.maps) for p in programs}) == 1
        assert len({frozenset(p.shared) for p in programs}) == 1
        assert len({frozenset((t.base, frozenset(t.statements)) for t in p.triggers) for p in programs}) == 1
        assert view.compiled.plan == other.views[name].compiled.plan


def replayed(catalog: Catalog) -> Catalog:
    again = Catalog(joins=True)
    for _, entry in catalog.ddl:
        again, _ = again.replay(entry)
    return again


class World:
    """A database beside DuckDB, and random things that happen to both."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random, self.path = Random(seed), path
        self.oracle = DuckOracle()
        self.options = ef.Options(snapshot_epochs=self.random.choice([2, 5, 1000]))
        self.db = ef.connect(path, engine="local", options=self.options)
        self.db.sql(DDL)
        for schema in self.db.catalog.tables.values():
            self.oracle.create(schema)
        self.db.sql(f'CREATE MATERIALIZED VIEW "base" AS {BASE}')
        self.queries: dict[str, str] = {"base": BASE}
        self.live: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": [], "t": []}
        self.extra: dict[str, int] = dict.fromkeys(self.live, 0)
        self.columns = 0

    def close(self) -> None:
        self.db.close()
        self.oracle.close()

    def step(self) -> str:
        """Something happens; its name."""
        actions: list[Callable[[], str]] = [self.batch] * 4 + [self.create] * 8 + [self.drop] * 2
        actions += [self.replace, self.replace, self.alter, self.reopen, self.stopped, self.failed]
        return self.random.choice(actions)()

    def batch(self) -> str:
        batch = {}
        for table in self.random.sample(list(self.live), self.random.randrange(1, 4)):
            go = [row for row in self.live[table] if self.random.random() < 0.3]
            for row in go:
                self.live[table].remove(row)
            come = [rows(self.random, table) for _ in range(self.random.randrange(6))]
            self.live[table] += come
            self.oracle.apply(table, come, go)
            more = (None,) * self.extra[table]
            batch[table] = ef.Delta(inserts=[(*r, *more) for r in come], deletes=[(*r, *more) for r in go])
        self.db.apply(batch)
        return "batch"

    def create(self) -> str:
        name = f"v{self.random.randrange(9)}"
        if name in self.queries:
            return self.replace() if self.random.random() < 0.3 else self.drop()
        self.queries[name] = MORE[self.random.choice(list(MORE))]
        self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {self.queries[name]}")
        return f"create {name}: {self.queries[name]}"

    def replace(self) -> str:
        name = f"v{self.random.randrange(9)}"
        self.queries.pop(name, None)
        self.queries[name] = MORE[self.random.choice(list(MORE))]
        self.db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {self.queries[name]}")
        return f"replace {name}: {self.queries[name]}"

    def drop(self) -> str:
        names = [name for name in self.queries if name != "base"]
        if not names:
            return self.batch()
        name = self.random.choice(names)
        del self.queries[name]
        self.db.sql(f"DROP MATERIALIZED VIEW {name}")
        return f"drop {name}"

    def alter(self) -> str:
        table = self.random.choice(list(self.live))
        if self.extra[table] and self.random.random() < 0.5:
            name = self.db.catalog.tables[table].names[-1]
            self.db.sql(f"ALTER TABLE {table} DROP COLUMN {name}")
            self.extra[table] -= 1
            return f"drop column {table}.{name}"
        self.columns += 1
        self.db.sql(f"ALTER TABLE {table} ADD COLUMN more{self.columns} INTEGER")
        self.extra[table] += 1
        return f"add column to {table}"

    def reopen(self) -> str:
        before = self.db.catalog
        self.db.close()
        self.db = ef.connect(self.path, engine="local", options=self.options)
        same_programs(before, self.db.catalog)
        return "reopen"

    def stopped(self) -> str:
        """A load is stopped: as if nothing had been asked for."""
        before, epoch = set(self.db._engine._state.stores()), self.db.epoch

        def stop(what: str, done: int, total: int) -> None:
            raise KeyboardInterrupt

        self.db.on_progress(stop)
        try:
            self.db.sql(f"CREATE MATERIALIZED VIEW w AS {MORE['chain']}")
        except KeyboardInterrupt:
            assert self.db.epoch == epoch
            assert set(self.db._engine._state.stores()) == before
        else:
            self.db.sql("DROP MATERIALIZED VIEW w")  # there was nothing to load
        self.db.on_progress(None)
        return "stopped"

    def failed(self) -> str:
        """A batch is refused after it has changed some maps."""
        steps: Any = Steps
        right, random = steps._distribute, self.random

        def wrong(self: Any, made: Any) -> None:
            right(self, made)
            if random.random() < 0.5:
                raise RuntimeError("on purpose")

        live = {table: list(found) for table, found in self.live.items()}
        steps._distribute = wrong
        apply, self.oracle.apply = self.oracle.apply, lambda *_: None
        done = True
        try:
            self.batch()
        except RuntimeError:
            self.live, done = live, False
        finally:
            steps._distribute, self.oracle.apply = right, apply
        if done:
            for table, found in self.live.items():
                apply(table, found, live[table])
        return "failed"

    def check(self, what: str) -> None:
        invariants(self.db.catalog)
        same_programs(self.db.catalog, replayed(self.db.catalog))
        state = self.db._engine._state
        owned = [m.name for v in self.db.catalog.views.values() for m in v.compiled.program.maps]
        assert sorted(state.stores()) == sorted(owned)
        check_state(self.db)
        assert set(self.db.views) == set(self.queries)
        for name, query in self.queries.items():
            actual = self.db.view(name).to_arrow()
            assert_same(self.oracle.query(of(query)).cast(actual.schema), actual, f"{name} after {what}")


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories(seed: int, tmp_path: Path) -> None:
    world = World(seed, tmp_path / "db")
    shared = 0
    try:
        for number in range(50):
            what = world.step()
            world.check(f"step {number} ({what}) of seed {seed}")
            shared += sum(len(v.compiled.program.shared) for v in world.db.catalog.views.values())
        world.reopen()
        world.batch()
        world.check("the end")
    finally:
        world.close()
    assert shared > 20, "nothing was shared"


# -- whole workloads -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpch", "tpcds"])
def test_a_workload_has_fewer_maps_together_than_apart(name: str) -> None:
    workload = WORKLOADS[name]
    empty = together = catalog_of(workload.tables.values())
    queries = [q for q in workload.queries if q.view not in ("tpch_q08", "tpcds_q19", "tpcds_q46")]  # slow
    alone = 0
    for query in queries:
        alone += len(compiled(query, empty).program.maps)
        (statement,) = parse_and_bind(query.ddl, together)
        together, _ = together.execute(statement)
    invariants(together)
    apart = sum(len(v.compiled.program.maps) for v in together.views.values())
    read = sum(len(v.compiled.program.shared) for v in together.views.values())
    print(f"{name}: {alone} maps alone, {apart} in one database, {read} more are read")
    assert apart < alone
    again = replayed(together)
    assert again.views == together.views
    for query in queries[: len(queries) // 2]:  # their maps go to the others
        (statement,) = parse_and_bind(f"DROP MATERIALIZED VIEW {query.view}", together)
        together, _ = together.execute(statement)
        invariants(together)
    same_programs(together, replayed(together))


# -- single facts ------------------------------------------------------------------------------------------

JOIN = "SELECT r.a, SUM(s.c) AS x FROM r JOIN s ON r.b = s.b GROUP BY r.a"


def opened(path: Path | None = None) -> ef.Database:
    db = ef.connect(path, engine="local")
    db.sql(DDL)
    db.apply(r=[(1, 1), (2, 1), (2, 2)], s=[(1, 10), (2, 20)], t=[(10, 1, "x")])
    return db


def test_a_view_like_another_has_one_map_of_its_own() -> None:
    with opened() as db:
        db.sql(f"CREATE MATERIALIZED VIEW one AS {JOIN}; CREATE MATERIALIZED VIEW two AS {JOIN}")
        one, two = (db.catalog.views[name].compiled for name in ("one", "two"))
        assert [m.name for m in two.program.maps] == ["two"]
        both = {Made("one#1"), Made("one#2")}
        assert {m.name for m in two.program.shared} == {m.name for m in offers(one)} == both
        assert "SHARED MAP one#1" in db.view("two").explain()
        assert "one#1: kept by one, read by two too" in db.view("one").explain()
        assert "one#1: kept by one, read by two too" in db.view("two").explain()
        shown = json.loads(db.view("two").explain(format="json"))["maps"]
        assert {m["name"]: (m["own"], m["views"]) for m in shown} == {
            "two": (True, ["two"]),
            "one#1": (False, ["one", "two"]),
            "one#2": (False, ["one", "two"]),
        }
        assert '"one#1[b]"' in db.view("two").explain(format="dot")
        beside = db.statistics()["maps beside them"]
        assert {name: found["views"] for name, found in beside.items()} == {
            "one#1": ("one", "two"),
            "one#2": ("one", "two"),
        }
        db.sql("DROP MATERIALIZED VIEW one")
        beside = db.statistics()["maps beside them"]
        assert {name: found["views"] for name, found in beside.items()} == dict.fromkeys(
            ("one#1", "one#2"), ("two",)
        )
        assert "SHARED" not in db.view("two").explain()
        db.sql("DROP MATERIALIZED VIEW two")
        assert db.statistics()["maps beside them"] == {}
        assert [name for name, _ in db.catalog.ddl] == ["r", "s", "t"]


def test_a_map_without_the_component_is_not_shared_and_the_larger_one_is() -> None:
    with opened() as db:
        db.sql(f"CREATE MATERIALIZED VIEW one AS {JOIN}")
        db.sql(f"CREATE MATERIALIZED VIEW two AS {JOIN.replace('AS x', 'AS x, SUM(s.c * s.c) AS y')}")
        db.sql(f"CREATE MATERIALIZED VIEW three AS {JOIN.replace('s.c)', 's.c * s.c)')}")
        programs = {name: view.compiled.program for name, view in db.catalog.views.items()}
        assert [m.name for m in programs["two"].shared] == [
            Made("one#2")
        ]  # r by b; s by b has one more value
        assert {m.name for m in programs["three"].shared} == {Made("one#2"), Made("two#1")}
        check_state(db)


def test_the_name_of_a_view_that_is_gone_is_free(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.sql(f"CREATE MATERIALIZED VIEW one AS {JOIN}; CREATE MATERIALIZED VIEW two AS {JOIN}")
    db.sql("DROP MATERIALIZED VIEW one")
    db.sql(f"CREATE MATERIALIZED VIEW one AS {MORE['chain']}")
    names = {m.name for v in db.catalog.views.values() for m in v.compiled.program.maps}
    assert {Made("one#1"), Made("one~2"), Made("one~2#2")} <= names
    db.sql("DROP MATERIALIZED VIEW two")
    before = {name: db.view(name).to_pylist() for name in db.views}
    db._engine.snapshot()
    db.close()
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert {name: db.view(name).to_pylist() for name in db.views} == before
        db.apply(r=[(5, 1)])
        check_state(db)


def test_the_maps_behind_a_shared_map_are_taken_over_with_it(tmp_path: Path) -> None:
    """No statement of the second view reads the map of S alone: those on the maps of R, S and S, T do."""
    query = "SELECT r.b, COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c GROUP BY r.b"
    db = opened(tmp_path / "db")
    for name in ("one", "two"):
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'higher-order') AS {query}")
    direct = {m.name for m in db.catalog.views["two"].compiled.program.shared}
    every = {m.name for m in offers(db.catalog.views["one"].compiled)}
    assert len(every) == 5
    assert len(direct) == 4
    db.sql("DROP MATERIALIZED VIEW one")
    assert {m.name for m in db.catalog.views["two"].compiled.program.maps} == {"two"} | every
    db._engine.snapshot()
    for _ in range(2):
        db.apply(r=[(3, 1)], s=[(1, 10)], t=[(20, 1, "y")])
        invariants(db.catalog)
        check_state(db)
        db.close()
        db = ef.connect(tmp_path / "db", engine="local")
    db.close()


def test_a_view_may_be_called_as_a_map_is() -> None:
    with opened() as db:
        db.sql(f'CREATE MATERIALIZED VIEW one AS {JOIN}; CREATE MATERIALIZED VIEW "one#1" AS {JOIN}')
        db.apply(r=[(7, 2)])
        assert sorted(db.view("one#1").to_pylist(), key=str) == sorted(db.view("one").to_pylist(), key=str)
        check_state(db)


def test_a_column_in_a_map_that_was_taken_over_cannot_be_dropped() -> None:
    with opened() as db:
        db.sql("ALTER TABLE s ADD COLUMN z INTEGER")
        db.sql("CREATE MATERIALIZED VIEW one AS SELECT SUM(r.a) AS n, SUM(z) AS z FROM r JOIN s ON r.b = s.b")
        db.sql("CREATE MATERIALIZED VIEW two AS SELECT SUM(r.a) AS n FROM r JOIN s ON r.b = s.b")
        assert db.catalog.views["two"].compiled.program.shared
        db.sql("DROP MATERIALIZED VIEW one")
        with pytest.raises(ef.EverfreshError, match="'z' of 's' is in a map that 'two' shared") as caught:
            db.sql("ALTER TABLE s DROP COLUMN z")
        assert caught.value.code == Code.DEPENDENCY
        db.sql("DROP MATERIALIZED VIEW two; ALTER TABLE s DROP COLUMN z")


def test_dropping_a_table_with_all_its_views() -> None:
    with opened() as db:
        for name in ("two", "chain", "itself", "crossed"):
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {MORE[name]}")
        db.sql("DROP TABLE s CASCADE")
        assert set(db.views) == {"itself", "crossed"}
        db.apply(r=[(3, 3)], t=[(1, 2, "y")])
        invariants(db.catalog)
        check_state(db)


# -- loads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("after", range(4))
def test_a_load_that_is_stopped_leaves_no_trace(
    kind: type[BaseException], after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its first map or at a later one, with maps of another view beside its own."""
    monkeypatch.setattr(loading, "_PIECE", 2)
    db = opened(tmp_path / "db")
    db.sql(f"CREATE MATERIALIZED VIEW one AS {JOIN}")
    state = db._engine._state
    before = db.epoch, db.catalog.ddl, set(state.stores()), db.view("one").to_pylist()
    seen: list[tuple[str, int, int]] = []

    def stop(what: str, done: int, total: int) -> None:
        if what.startswith("loading"):
            seen.append((what, done, total))
            if len(seen) > after:
                raise kind("enough")

    db.on_progress(stop)
    with pytest.raises(kind, match="enough"):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW one AS {MORE['chain'].replace('> 1', '> 0')}")
    with pytest.raises(kind, match="enough"):
        db.sql(f"CREATE MATERIALIZED VIEW two AS {MORE['chain'].replace('> 1', '> 0')}")
    db.on_progress(None)
    assert seen[0][0] == "loading one"
    state = db._engine._state
    assert (db.epoch, db.catalog.ddl, set(state.stores()), db.view("one").to_pylist()) == before
    db.apply(r=[(9, 1)])
    check_state(db)
    db.sql(f"CREATE MATERIALIZED VIEW two AS {MORE['chain']}")
    assert db.catalog.views["two"].compiled.program.shared
    check_state(db)
    db.close()
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert set(db.views) == {"one", "two"}
        check_state(db)


def test_what_earlier_releases_kept_is_read() -> None:
    """They wrote names of maps like names of users: with quotes if these were needed."""
    views = [f'CREATE MATERIALIZED VIEW "{name}" AS {JOIN}' for name in ("one", "my view", "top#10", "v")]
    now = catalog_of(
        ["CREATE TABLE r (a INTEGER, b INTEGER)", "CREATE TABLE s (b INTEGER, c INTEGER)", *views]
    )
    then = Catalog(joins=True)
    for _, entry in now.ddl:
        head, text = entry.split("|", 1)
        assert ("upkeep" in head) == ('"names":2' in head)
        old = head.replace(',"names":2', "").replace('#\\"', '\\"')
        then, _ = then.replay(f"{old}|{text}")
    assert any("upkeep" in entry for _, entry in now.ddl)
    same_programs(now, then)
