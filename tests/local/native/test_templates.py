"""Views of one shape share their code, and one call runs all of them: as the interpreter does one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_support import entries, opened, run_plain

import everfresh as ef
from everfresh.local import state
from everfresh.local.batch import steps as running
from everfresh.local.jit import background
from everfresh.local.native import manager
from everfresh.local.native.codegen.each import is_whole
from everfresh.local.native.runtime import build
from everfresh.local.native.templates import Template

VIEWS = 12
COLUMNS = ("a", "b", "c", "d")
TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER, d INTEGER, s VARCHAR, x DOUBLE);
CREATE TABLE u (k INTEGER, w INTEGER);
"""
SHAPES = (
    "SELECT {0}, SUM({1} + {n}) AS s, COUNT(*) AS n FROM t WHERE {2} >= {m} GROUP BY {0}",
    "SELECT s, {0}, COUNT(*) AS n FROM t WHERE s = 'k{m}' AND {1} <> {n} GROUP BY s, {0}",
    "SELECT {0}, SUM(x * {m}.5) AS f, MIN({1}) AS least FROM t GROUP BY {0}",
    "SELECT u.w, SUM(t.{0} - {n}) AS s FROM t JOIN u ON t.{1} = u.k WHERE u.w + 9 > {n} GROUP BY u.w",
    "SELECT {0}, {1} * {n} AS p FROM t WHERE {2} < {m}",
)


@pytest.fixture(params=["by Python", pytest.param("by the compiler", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with run_plain() if request.param == "by Python" else nullcontext():
        yield


def view(shape: int, n: int) -> str:
    columns = [COLUMNS[(n + i) % len(COLUMNS)] for i in range(3)]
    return SHAPES[shape].format(*columns, n=n + 2, m=n % 5)


def create(db: ef.Database, shapes: tuple[int, ...], views: int = VIEWS) -> list[str]:
    db.sql(TABLES)
    names = []
    for shape in shapes:
        for n in range(views):
            names.append(f"v{shape}_{n}")
            db.sql(f"CREATE MATERIALIZED VIEW {names[-1]} AS {view(shape, n)}")
    return names


def templates(db: ef.Database) -> list[Template]:
    native = db._engine._state.wiring.native  # type: ignore[attr-defined]
    return [t for found in native._gathered.values() for t in found.templates.values()]


def row(number: int, seed: int) -> tuple[Any, ...]:
    mixed = (seed * 2654435761 + number * 40503) % 9973
    cells = [None if (mixed >> i) % 11 == 0 else (mixed >> i) % 7 for i in range(4)]
    return (number, *cells, None if mixed % 13 == 0 else f"k{mixed % 5}", mixed / 8)


def changes(db: ef.Database, name: str, since: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in db.view(name).changes(since=since).to_pylist():
        found[repr({k: v for k, v in one.items() if k != "_weight"})] += one["_weight"]
    return found


@pytest.mark.parametrize("shapes", [(0,), (1, 2), (3,), (4, 0)])
@pytest.mark.usefixtures("way")
def test_one_call_does_what_the_interpreter_does(shapes: tuple[int, ...]) -> None:
    with opened("now") as db, opened("off") as interpreted:
        for one in (db, interpreted):
            names = create(one, shapes)
        live: dict[int, tuple[Any, ...]] = {}
        for seed in range(12):
            come = [row(100 * seed + i, seed) for i in range((1, 7, 70)[seed % 3])]
            go = [row_ for number, row_ in live.items() if (number + seed) % 3 == 0]
            live = {r[0]: r for r in [*live.values(), *come] if r not in go}
            batch: dict[str, Any] = {"t": ef.Delta(inserts=come, deletes=go)}
            if seed % 2:
                batch["u"] = [(seed % 5, seed % 4), (seed % 3, seed % 5)]
            for one in (db, interpreted):
                one.apply(batch)
            assert entries(db) == entries(interpreted)
            for name in names[seed % 4 :: 4]:
                assert changes(db, name, seed) == changes(interpreted, name, seed)
        assert sum(len(t.members) for t in templates(db)) >= len(names) // 2
        assert all(db.view(name).verify().num_rows == 0 for name in names[::5])
        assert db.statistics()["views"] == interpreted.statistics()["views"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.booleans()), min_size=3, max_size=5))
@settings(deadline=None, max_examples=4)
def test_views_come_and_go(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever views there are when a batch comes, and whichever were made or dropped before."""
    with run_plain(), opened("now") as db, opened("off") as interpreted:
        for one in (db, interpreted):
            create(one, (0,))
        number, made = 0, VIEWS
        for which, rows, drop in steps:
            batch = [row(number + i, which) for i in range(rows)]
            number += rows
            for one in (db, interpreted):
                one.apply(t=batch)
                if drop:
                    one.sql(f"DROP MATERIALIZED VIEW v0_{made - 1}")
                else:
                    one.sql(f"CREATE MATERIALIZED VIEW v0_{made} AS {view(0, made)}")
            made += -1 if drop else 1
            assert entries(db) == entries(interpreted)


@pytest.mark.usefixtures("way")
def test_a_batch_that_one_view_refuses_changes_none() -> None:
    """An overflow in one of many is found, and all the others are taken back."""
    with opened("now") as db, opened("off") as interpreted:
        for one in (db, interpreted):
            names = create(one, (0,))
            one.apply(t=[row(i, 1) for i in range(40)])
        before = entries(db)
        told = []
        for one in (db, interpreted):
            with pytest.raises(ef.EverfreshError) as refused:
                one.apply(t=[(1000, 1, 1, 1, 1, "k1", 0.5), (1001, 2**31 - 1, 4, 4, 4, "k1", 0.5)])
            told.append(refused.value.code)
        assert told[0] == told[1]
        assert entries(db) == before == entries(interpreted)
        for one in (db, interpreted):
            one.apply(t=[row(i, 2) for i in range(1000, 1030)])
        assert entries(db) == entries(interpreted)
        assert sum(len(t.members) for t in templates(db)) >= len(names) // 2


def test_readers_see_the_epoch_before_while_a_batch_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads between the call for many views and the end of the batch finds nothing of it."""
    with run_plain(), opened("now") as db:
        names = create(db, (0,))
        db.apply(t=[row(i, 1) for i in range(40)])
        before = {name: db.view(name).to_arrow().to_pylist() for name in names}
        seen: list[dict[str, Any]] = []
        units = running.Steps._units

        def look(self: running.Steps, base: str) -> None:
            committed = db._engine._shown  # type: ignore[attr-defined]
            seen.append({name: committed._rows(name).to_pylist() for name in names})
            units(self, base)

        monkeypatch.setattr(running.Steps, "_units", look)
        db.apply(t=ef.Delta(inserts=[row(i, 2) for i in range(50, 90)], deletes=[row(3, 1)]))
        assert seen
        for at in seen:
            assert {n: sorted(map(repr, rows)) for n, rows in at.items()} == {
                n: sorted(map(repr, rows)) for n, rows in before.items()
            }


def test_all_views_of_a_template_have_one_text() -> None:
    """Constants and the places of columns are no part of it: but for bounds, which go by digits, and for
    constants that happen to be the same."""
    with run_plain(), opened("now") as db:
        create(db, (0,), 40)
        db.apply(t=[row(1, 1)])
        native = db._engine._state.wiring.native  # type: ignore[attr-defined]
        made = [planned.by_row.made for planned in native.planned.values()]
        assert len(made) == 40
        assert all(is_whole(one) for one in made)
        assert len({one.text for one in made}) <= 3
        assert len({id(planned.by_row.code) for planned in native.planned.values()}) <= 3


def test_no_batch_waits_for_many_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is planned for some views at a time; together they are worth it sooner than each would be."""
    monkeypatch.setattr(manager, "PLANS", 5)
    monkeypatch.setattr(manager.GeneratedCode, "ask", lambda self, owner, how: None)
    with opened("background") as db:
        create(db, (0,), 40)
        planned = []
        for number in range(60):
            db.apply(t=[row(number, 1)])
            planned.append(len(db._engine._state.wiring.native.planned))  # type: ignore[attr-defined]
        assert planned[0] == 0
        assert planned[-1] == 40
        assert max(b - a for a, b in pairwise(planned)) <= 5 + 40 // 32


def test_many_views_are_planned_as_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row waits for the plans of hundreds of views, and their code is asked for before rows come: once,
    however often the views are linked anew."""
    asked: list[Any] = []
    ask = background.ask

    def noted(item: Any, load: Any, *alive: Any) -> Any:
        return ask(item, load, *alive) if item.module else asked.append((item, load, *alive))

    monkeypatch.setattr(background, "ask", noted)
    monkeypatch.setattr(build, "is_loaded", lambda text: False)  # by another test, say
    monkeypatch.setattr(manager, "ALIKE", 16)
    monkeypatch.setattr(state, "ALIKE", 16)
    with run_plain(), opened("background") as db, opened("off") as interpreted:
        for one in (db, interpreted):
            names = create(one, (0,), 15)
        native = db._engine._state._wiring  # type: ignore[attr-defined]
        assert native is None or not native.native.planned
        assert not asked
        for n in range(15, 40):
            names.append(f"v0_{n}")
            for one in (db, interpreted):
                one.sql(f"CREATE MATERIALIZED VIEW v0_{n} AS {view(0, n)}")
        native = db._engine._state.wiring.native  # type: ignore[attr-defined]
        assert len(native.planned) == 40
        texts = {planned.by_row.code.text for planned in native.planned.values()}
        assert 1 <= len(asked) <= 2 * len(texts)
        assert len({item.key for item, _, _ in asked}) == len(asked)
        assert all(alive() is not None for _, _, alive in asked)
        for number in range(3):
            for one in (db, interpreted):
                one.apply(t=[row(number, 3)])
            if number == 0:
                for _, load, _ in asked:  # now they are compiled
                    load(False)
            assert entries(db) == entries(interpreted)
        assert sum(len(t.members) for t in templates(db)) >= len(names) // 2
