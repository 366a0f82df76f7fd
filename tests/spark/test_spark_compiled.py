"""Compiled code in the blocks of the Spark engine, on a session that runs its tasks here: views equal the
local engine's, and `statistics` says what ran compiled.

Catches: an option that does not reach tasks; code over the maps of a view that was dropped and made again; a
view whose creation makes the others wait for their code again.
"""

from __future__ import annotations

import threading
import weakref

import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.local.jit import background
from everfresh.local.jit.code_cache import Item
from everfresh.local.native import manager
from everfresh.testing.oracle import assert_same

TABLES = "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT); CREATE TABLE u (g BIGINT, w BIGINT);"
OTHER = "CREATE TABLE x (a BIGINT); CREATE MATERIALIZED VIEW c AS SELECT a, COUNT(*) AS n FROM x GROUP BY a"
JOINED = "SELECT t.g, SUM(t.v * u.w) AS s, COUNT(*) AS n FROM t JOIN u ON t.g = u.g GROUP BY t.g"
OVER = "SELECT g, s FROM j WHERE s > (SELECT AVG(s) FROM j)"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch, 1)


class Beside:
    """The Spark engine and the local one, given the same."""

    def __init__(self, session: FakeSession, compile: str, **options: object) -> None:
        chosen = ef.Options(workers=2, refresh="incremental", compile=compile).with_(**options)
        self.db = ef.connect(engine="spark", spark=session, options=chosen)
        self.local = ef.connect(engine="local", options=ef.Options(compile="off"))
        self.sql(TABLES)
        self._at = 0

    def sql(self, text: str) -> None:
        for db in (self.db, self.local):
            db.sql(text)

    def batch(self, rows: int, views: tuple[str, ...]) -> dict[str, int]:
        """A batch that changes both tables, and what its statements ran as."""
        first, self._at = self._at, self._at + rows
        given = range(first, self._at)
        t = [{"k": k, "g": k % 17, "v": k % 5} for k in given]
        change = {
            "t": ef.Delta(inserts=t),
            "u": ef.Delta(inserts=[{"g": k % 23, "w": k % 3} for k in given]),
        }
        for db in (self.db, self.local):
            db.apply(change)
        for view in views:
            assert_same(self.local.view(view).to_arrow(), self.db.view(view).to_arrow(), view)
        units = [u for u in self.db.statistics()["last batch"].values() if isinstance(u, dict)]
        told = [u["statements"] for u in units if "statements" in u]
        return {how: sum(one[how] for one in told) for how in ("compiled", "interpreted", "compiling")}


@pytest.mark.parametrize("whole_bytes", [0, 16 << 20], ids=["in stages", "whole"])
def test_the_option_reaches_tasks(session: FakeSession, whole_bytes: int) -> None:
    for compile in ("now", "off"):
        dbs = Beside(session, compile, whole_bytes=whole_bytes)
        dbs.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
        dbs.batch(40, ("j",))
        ran = dbs.batch(40, ("j",))
        assert bool(ran["compiled"]) == (compile == "now")
        assert bool(ran["interpreted"]) == (compile == "off")


def test_a_view_that_is_made_again_has_maps_of_its_own(session: FakeSession) -> None:
    dbs = Beside(session, "now")
    dbs.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
    dbs.sql(f"CREATE MATERIALIZED VIEW o AS {OVER}")
    dbs.batch(60, ("j", "o"))
    for _ in range(2):
        dbs.sql("DROP VIEW o")
        dbs.sql("DROP VIEW j")
        dbs.batch(30, ())
        dbs.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
        dbs.sql(f"CREATE MATERIALIZED VIEW o AS {OVER}")
        assert dbs.batch(500, ("j", "o"))["compiled"]


def test_a_new_view_lets_the_others_keep_their_code(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "ENOUGH", 200)
    dbs = Beside(session, "background")
    dbs.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
    assert not dbs.batch(20, ("j",))["compiled"]
    dbs.batch(500, ("j",))
    background.join(generated=True)
    before = dbs.batch(4, ("j",))
    assert before["compiled"]
    dbs.sql(OTHER)
    after = dbs.batch(500, ("j",))  # so many that code pays for a worker that has read its part again, too
    assert {**after, "compiling": 0} == {**before, "compiling": 0}


@pytest.mark.usefixtures("all_is_kept")
def test_batches_say_how_much_is_being_compiled(session: FakeSession) -> None:
    dbs = Beside(session, "off")
    dbs.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
    assert not dbs.batch(4, ("j",))["compiling"]
    go = threading.Event()
    background.ask(Item("", "some"), lambda _: go.wait(60), weakref.ref(dbs))
    try:
        assert dbs.batch(4, ("j",))["compiling"]
    finally:
        go.set()
    background.join(generated=True)
    assert not dbs.batch(4, ("j",))["compiling"]


def test_strings_are_those_of_the_place(session: FakeSession) -> None:
    """A task that is given no rows of a table plans its statements all the same."""
    dbs = Beside(session, "now", whole_bytes=0)
    dbs.sql("CREATE TABLE s (k BIGINT PRIMARY KEY, name VARCHAR)")
    dbs.sql("CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n, SUM(k) AS s FROM s WHERE name = 'a'")
    dbs.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
    t = [{"k": k, "g": 1, "v": 2} for k in range(20)]
    s = [{"k": k, "name": "xyab"[k % 4]} for k in range(40)]
    for change in ({"s": s[:1], "t": t}, {"s": s[1:], "t": [{"k": 99, "g": 3, "v": 4}]}):
        for db in (dbs.db, dbs.local):
            db.apply(change)
        assert_same(dbs.local.view("c").to_arrow(), dbs.db.view("c").to_arrow())
