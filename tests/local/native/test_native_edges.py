"""Compiled triggers at their edges: NULLs, room that runs out, errors, going to zero, sharing, building.

Where a test runs in both ways, `plain` is generated code without a compiler, `compiled` is the real thing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from native_support import entries, forms, opened, plain, run_plain, slices_hold

import everfresh as ef
from everfresh.local.jit import background
from everfresh.local.native import manager
from everfresh.local.native.runtime import build as building

SCHEMA = """
CREATE TABLE r (a INTEGER, b BIGINT, x DECIMAL(12,2), d DOUBLE, s VARCHAR);
CREATE TABLE t (b BIGINT, c INTEGER NOT NULL, s VARCHAR);
CREATE MATERIALIZED VIEW joined AS
    SELECT t.c, r.s, SUM(r.x * r.a) AS sx, SUM(r.d) AS sd, COUNT(*) AS n
    FROM r JOIN t ON r.b = t.b WHERE r.a > 0 OR r.a IS NULL GROUP BY t.c, r.s;
CREATE MATERIALIZED VIEW by_text AS
    SELECT r.s, COUNT(*) AS n, SUM(CASE WHEN r.s LIKE 'a%' THEN r.x ELSE 0 END) AS sx
    FROM r, t WHERE r.s = t.s AND r.s <> 'no' GROUP BY r.s;
CREATE MATERIALIZED VIEW nested AS
    SELECT r.b, r.x FROM r WHERE r.x > (SELECT AVG(u.x) FROM r u WHERE u.b = r.b);
"""
BY_ROW, WHOLE = 1 << 40, -1


@pytest.fixture(params=["plain", pytest.param("compiled", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with run_plain() if request.param == "plain" else nullcontext():
        yield request.param


def rows(start: int, count: int) -> list[tuple[Any, ...]]:
    def some(i: int, of: int, value: Any) -> Any:
        return None if i % of == 0 else value

    return [
        (some(i, 7, i % 5 - 1), some(i, 5, i % 11), some(i, 9, f"{i % 13}.25"), some(i, 8, i / 8),
         some(i, 6, ("a", "ab", "no", "b")[i % 4]))
        for i in range(start, start + count)
    ]  # fmt: skip


def table_r(given: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*given, strict=True))
    types = (pa.int32(), pa.int64(), pa.string(), pa.float64(), pa.string())
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    arrays[2] = arrays[2].cast(pa.decimal128(12, 2))
    return pa.table(arrays, names=["a", "b", "x", "d", "s"])


def table_t(count: int) -> pa.Table:
    keys = range(count)
    texts = [None if i % 4 == 0 else ("a", "ab", "no")[i % 3] for i in keys]
    return pa.table(
        {"b": [None if i % 6 == 0 else i % 11 for i in keys], "c": [i % 3 for i in keys], "s": texts}
    )


def changes() -> list[dict[str, Any]]:
    first, second = table_r(rows(0, 120)), table_r(rows(300, 70))
    return [
        {"t": table_t(30)},
        {"r": first},
        {"r": second, "t": ef.Delta(deletes=table_t(30).slice(0, 17))},
        {"r": ef.Delta(deletes=first, inserts=first.slice(3, 9))},
        {"t": ef.Delta(deletes=table_t(30).slice(17))},
        {"t": table_t(30), "r": ef.Delta(deletes=first.slice(3, 9))},
        {"r": first},
    ]


@pytest.mark.parametrize("small", [WHOLE, BY_ROW], ids=["whole", "by row"])
def test_nulls_growth_and_deletes_to_nothing(way: str, small: int) -> None:
    with opened("now", small) as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(SCHEMA)
        for change in changes():
            for db in (compiled, interpreted):
                db.apply(change)
            assert entries(compiled) == entries(interpreted)
            slices_hold(compiled)
        assert any(
            len(store.pool) > 16 for store in compiled._engine._state.stores().values()
        )  # it has grown
        assert any(form.applied for form in forms(compiled)) == (small == BY_ROW)
        for name in ("joined", "by_text", "nested"):
            assert not compiled.view(name).verify().num_rows


@pytest.mark.parametrize("small", [WHOLE, BY_ROW], ids=["whole", "by row"])
def test_an_error_is_the_interpreters_and_leaves_no_trace(way: str, small: int) -> None:
    ddl = """
    CREATE TABLE r (k BIGINT NOT NULL, x BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(x) AS s, COUNT(*) AS n FROM r GROUP BY k;
    CREATE MATERIALIZED VIEW products AS SELECT k, SUM(x * x) AS p FROM r GROUP BY k;
    """
    with opened("now", small) as compiled, opened("off") as interpreted:
        said = []
        for db in (compiled, interpreted):
            db.sql(ddl)
            db.apply(r=pa.table({"k": [1, 2], "x": [3, 4]}))
            with pytest.raises(ef.EverfreshError) as caught:
                db.apply(r=pa.table({"k": [1, 3, 4], "x": [5, 1 << 40, 6]}))
            said.append(str(caught.value))
        assert said[0] == said[1]
        assert entries(compiled) == entries(interpreted)
        slices_hold(compiled)
        for db in (compiled, interpreted):
            db.apply(r=pa.table({"k": [1, 3], "x": [5, 6]}))
        assert entries(compiled) == entries(interpreted)
        assert max(form.bad for form in forms(compiled)) == 1


def test_a_number_beyond_a_word_is_left_to_the_interpreter(way: str) -> None:
    ddl = """
    CREATE TABLE r (k BIGINT NOT NULL, x DECIMAL(18,0) NOT NULL);
    CREATE TABLE t (k BIGINT NOT NULL, y DECIMAL(18,0) NOT NULL);
    CREATE MATERIALIZED VIEW v AS
        SELECT r.k, SUM(r.x) AS s, COUNT(*) AS n FROM r, t WHERE r.k = t.k GROUP BY r.k;
    """
    large = pa.array([10**18 - 1] * 40, pa.decimal128(18, 0))
    with opened("now") as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(ddl)
            db.apply(r=pa.table({"k": [1] * 40, "x": large}))
            db.apply(t=pa.table({"k": [1] * 40, "y": large}))
            db.apply(r=ef.Delta(deletes=pa.table({"k": [1] * 40, "x": large})))
        assert entries(compiled) == entries(interpreted)
        assert any(form.bad for form in forms(compiled))


def test_maps_that_views_share(way: str) -> None:
    with opened("now", BY_ROW) as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(SCHEMA)
            text = "SELECT t.s, SUM(r.x) AS sx FROM r JOIN t ON r.b = t.b GROUP BY t.s"
            db.sql(f"CREATE MATERIALIZED VIEW again AS {text}")
        for change in changes():
            for db in (compiled, interpreted):
                db.apply(change)
            assert entries(compiled) == entries(interpreted)


def test_a_dropped_view_leaves_its_code(way: str) -> None:
    with opened("now") as db:
        db.sql(SCHEMA)
        db.apply(t=table_t(5), r=table_r(rows(0, 5)))
        before = db._engine._state.wiring.native
        db.sql("DROP VIEW by_text")
        db.apply(r=table_r(rows(5, 5)))
        after = db._engine._state.wiring.native
        assert after is not before
        targets = {job.prepared.view for form in forms(db) for job in form.made.jobs}
        assert targets == {"joined", "nested"}


# -- building ----------------------------------------------------------------------------------------------


def test_the_name_of_a_text_says_all_that_it_depends_on() -> None:
    name = building.name_of("text")
    assert name == building.name_of("text")
    assert name != building.name_of("text ")
    sources = [b"memory", b"helpers"]
    other = building.name_of("text", sources)
    assert other not in (name, building.name_of("text", [b"memory", b"helpers of another version"]))
    assert other != building.name_of("text", [b"memoryh", b"elpers"])


def test_equal_statements_have_equal_texts() -> None:
    texts = []
    with run_plain():
        for _ in range(2):
            with opened("now") as db:
                db.sql(SCHEMA)
                db.apply(r=table_r(rows(0, 3)), t=table_t(3))
                texts.append(db._engine._state.wiring.native.source())
    assert texts[0] == texts[1]
    assert "def run(C, start, stop):" in texts[0]["r, joined, whole"]


def test_a_failed_compilation_is_logged_and_the_view_stays_right(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(text: str) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr("everfresh.local.native.runtime.build.build", fails)
    with caplog.at_level(logging.ERROR, "everfresh"), opened("now") as db, opened("off") as interpreted:
        for one in (db, interpreted):
            one.sql(SCHEMA)
            for change in changes():
                one.apply(change)
        assert not forms(db)
        assert entries(db) == entries(interpreted)
    assert "could not be compiled" in caplog.text


@pytest.mark.parametrize("small", [WHOLE, BY_ROW])
@pytest.mark.parametrize(("longest", "compiled"), [(200, True), (30, False)])
def test_code_that_is_too_long_is_cut_or_interpreted(
    monkeypatch: pytest.MonkeyPatch, longest: int, compiled: bool, small: int
) -> None:
    monkeypatch.setattr("everfresh.local.native.codegen.generate.LONGEST", longest)
    with run_plain(), opened("now", small) as db, opened("off") as interpreted:
        for one in (db, interpreted):
            one.sql(SCHEMA)
        for change in changes():
            for one in (db, interpreted):
                one.apply(change)
            assert entries(db) == entries(interpreted)
        texts = db._engine._state.wiring.native.source()
        assert all(text.count("\n") <= longest for text in texts.values())
        assert any(name.endswith("whole 2") for name in texts) is compiled
        assert bool(forms(db)) is compiled
        told = db.statistics()["compiled"]["r"]
        assert bool(told["compiled"]) is compiled
        assert ("more than the 30 that are compiled" in str(told["interpreted"])) is not compiled
        assert ("interpreted for joined (its code would have" in db.view("joined").explain()) is not compiled


def test_a_new_view_leaves_the_code_of_others_alone() -> None:
    """Views that read nothing of each other are compiled apart; one that reads another, with it."""
    with run_plain(), opened("now", BY_ROW) as db, opened("off") as interpreted:
        for one in (db, interpreted):
            one.sql(SCHEMA)
            for change in changes():
                one.apply(change)
        seen = db._engine._state.wiring.native.source()
        for one in (db, interpreted):
            one.sql("CREATE MATERIALIZED VIEW further AS SELECT s, SUM(x) AS x FROM r GROUP BY s")
            one.sql("CREATE MATERIALIZED VIEW over AS SELECT c, n FROM joined JOIN t USING (c)")
            one.apply(r=table_r(rows(500, 40)), t=table_t(7))
        after = db._engine._state.wiring.native.source()
        assert "r, joined, by row" in seen
        assert "t, joined and over, by row" in after
        same = {name for name in seen if "joined" not in name}
        assert same
        assert all(seen[name] == after[name] for name in same)
        assert entries(db) == entries(interpreted)


@pytest.mark.usefixtures("all_is_kept")
def test_the_interpreter_serves_until_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    from native_support import plain

    gate, built = threading.Event(), threading.Event()

    def slow(text: str) -> Any:
        assert gate.wait(60)
        built.set()
        return plain(text)

    monkeypatch.setattr("everfresh.local.native.runtime.build.build", slow)
    building = "everfresh.local.native.runtime.build"
    monkeypatch.setattr(f"{building}.is_loaded", lambda text: False)  # by another test
    monkeypatch.setattr(manager, "ENOUGH", 0)
    with opened("background") as db, opened("off") as interpreted:
        for one in (db, interpreted):
            one.sql(SCHEMA)
        for number, change in enumerate(changes() * 2):
            for one in (db, interpreted):
                try:
                    one.apply(change)
                except ef.EverfreshError:
                    assert number >= len(changes())  # the second round deletes what is there no more
            assert entries(db) == entries(interpreted)
            if number == 3:
                assert not forms(db)
                gate.set()
                assert built.wait(60)
                background.join(generated=True)
        assert forms(db)
        assert "r" in db.statistics()["compiled"]


def test_generated_code_has_no_text_of_a_user() -> None:
    """Names and strings stand in the SQL of a folder that somebody else may have made: never in code."""
    evil = "evil'); \n\nraise SystemExit\n#"
    name, string = '"' + evil + '{}"', "'" + evil.replace("'", "''") + "'"
    r, t, v, a, b, s = (name.format(n) for n in "rtvabs")
    texts: list[str] = []

    def built(text: str) -> Any:
        texts.append(text)
        return plain(text)

    with run_plain(), pytest.MonkeyPatch.context() as patch, opened("now", WHOLE) as db:
        patch.setattr("everfresh.local.native.runtime.build.build", built)
        db.sql(f"CREATE TABLE {r} ({a} BIGINT, {b} BIGINT, {s} VARCHAR)")
        db.sql(f"CREATE TABLE {t} ({b} BIGINT, {s} VARCHAR)")
        db.sql(
            f"CREATE MATERIALIZED VIEW {v} AS SELECT x.{s}, SUM(x.{a}) AS {a} "
            f"FROM {r} x JOIN {t} y ON x.{b} = y.{b} "
            f"WHERE x.{s} = {string} OR y.{s} LIKE {string} OR y.{s} = 'b' GROUP BY x.{s}"
        )
        tables = {f"{evil}r": [(1, 2, evil), (3, 2, "b")], f"{evil}t": [(2, "b"), (2, evil)]}
        db.apply(tables)
        db.apply(tables)
        assert db.view(f"{evil}v").verify().num_rows == 0
    assert texts
    assert not [text for text in texts if "evil" in text or "SystemExit" in text]
