"""Derived relations stepped inside the row-by-row form: the same entries as the interpreter, and one call.

Generated code is run by Python (`native_support.plain`); some of it by the compiler among the slow tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from native_support import entries, forms, opened, run_plain, slices_hold

import everfresh as ef
from everfresh.local.order.read_orders import key_order

COLUMNS = "id BIGINT PRIMARY KEY, broker BIGINT NOT NULL, volume BIGINT NOT NULL, price BIGINT NOT NULL"
TABLES = f"CREATE TABLE bids ({COLUMNS}); CREATE TABLE asks ({COLUMNS});"
VIEWS = {
    "share": """
        SELECT SUM(b.price * b.volume) AS x FROM bids b
        WHERE 0.25 * (SELECT SUM(volume) FROM bids) >
              (SELECT SUM(c.volume) FROM bids c WHERE c.price > b.price)""",
    "least": """
        SELECT b.broker, SUM(b.volume) AS x FROM bids b
        WHERE (SELECT COUNT(*) FROM bids c WHERE c.price < b.price) >= 3 GROUP BY b.broker""",
    "spread": """
        SELECT SUM(a.price - b.price) AS x FROM bids b, asks a
        WHERE b.volume > 0.03 * (SELECT SUM(volume) FROM bids)
          AND a.volume > 0.03 * (SELECT SUM(volume) FROM asks)""",
    "busy": """
        SELECT b.broker, COUNT(*) AS n FROM bids b
        WHERE b.broker IN (SELECT a.broker FROM asks a GROUP BY a.broker HAVING SUM(a.volume) > 40)
        GROUP BY b.broker""",
    "above": """
        SELECT b.id, b.price FROM bids b
        WHERE b.price > (SELECT AVG(c.price) FROM bids c WHERE c.broker = b.broker)""",
    "apart": """
        SELECT b.broker, SUM(a.volume - b.volume) AS x FROM bids b, asks a
        WHERE a.broker = b.broker AND (a.price - b.price > 20 OR b.price - a.price > 20)
        GROUP BY b.broker""",
}
BY_ROW = 1 << 40


@pytest.fixture(params=["plain", pytest.param("compiled", marks=[pytest.mark.slow, pytest.mark.soak])])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with run_plain() if request.param == "plain" else nullcontext():
        yield request.param


def batches(seed: int, low: int = 1) -> Iterator[dict[str, ef.Delta]]:
    """Orders come and go; now and then all of them."""
    random = np.random.default_rng(seed)
    live: dict[str, dict[int, tuple[int, ...]]] = {"bids": {}, "asks": {}}
    number = 0
    for turn in range(6):
        batch: dict[str, Any] = {}
        for name, rows in live.items():
            gone = [row for row in rows.values() if turn == 3 or random.random() < 0.3]
            new = []
            for _ in range(14):
                number += 1
                new.append((number, *(int(random.integers(*r)) for r in ((0, 4), (low, 20), (0, 12)))))
            new = [(i, b, v, 10 * p) for i, b, v, p in new]
            live[name] = {row[0]: row for row in (*rows.values(), *new) if row not in gone}
            batch[name] = ef.Delta(inserts=new, deletes=gone)
        yield batch


def agree(view: str, low: int = 1) -> list[Any]:
    """Run it in both; the compiled forms."""
    with opened("now", BY_ROW) as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(TABLES)
            db.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'higher-order') AS {VIEWS[view]}")
        for batch in batches(5, low):
            for db in (compiled, interpreted):
                db.apply(batch)
            assert entries(compiled) == entries(interpreted)
            slices_hold(compiled)
            bands_hold(compiled)
        assert not compiled.view("v").verify().num_rows
        return forms(compiled)


def bands_hold(db: ef.Database) -> None:
    """What keeps a map in order has its live entries, with their values, where one made anew has them."""
    from everfresh.local.order.value_index import Band

    for store in db._engine._state.stores().values():  # type: ignore[attr-defined]
        for band in store._followers.values():
            if isinstance(band, Band):
                fresh = Band(
                    store.pool, store.codec, band._read, band._type, band.groups.columns, band._ranks
                )
                slots = store.slots()
                fresh.add(slots, store.words(slots))
                assert len(fresh) == len(band)
                assert np.array_equal(fresh._index._entries(), band._index._entries())
                assert fresh._index._state[1:].tolist() == band._index._state[1:].tolist()


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_in_one_call(view: str, way: str) -> None:
    made = agree(view)
    assert made
    assert not any(form.bad for form in made)
    stepped = [unit.name for form in made for unit in form.chain]
    assert bool(stepped) == (view != "apart")


def bands(db: ef.Database) -> dict[str, list[Any]]:
    """The ordered indexes of maps."""
    from everfresh.local.order.value_index import Band

    stores = db._engine._state.stores()  # type: ignore[attr-defined]
    return {n: [f for f in store._followers.values() if isinstance(f, Band)] for n, store in stores.items()}


@pytest.mark.parametrize("few", [1024, 0])
def test_an_index_that_another_function_reads_is_kept_up_by_the_one_that_changes_its_map(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few rows: many are noted, and enter it when it is read."""
    monkeypatch.setattr("everfresh.local.native.runtime.binding._FEW", few)
    late = 0
    with run_plain(), opened("now", BY_ROW) as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(TABLES)
            db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['apart']}")
        for turn, batch in enumerate(batches(7)):
            for name, change in batch.items():
                for db in (compiled, interpreted):
                    db.apply({name: change})
                if turn:
                    late += sum(bool(band._due) for some in bands(compiled).values() for band in some)
                bands_hold(compiled)
            assert entries(compiled) == entries(interpreted)
        assert sum(map(len, bands(compiled).values())) == 2
        assert not any(form.bad for form in forms(compiled))
    assert bool(late) == (few == 0)


def test_an_index_that_is_followed_is_taken_back_with_its_map() -> None:
    large = 1 << 62
    with run_plain(), opened("now", BY_ROW) as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(TABLES)
            db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['apart']}")
            db.apply(bids=[(1, 1, 5, 10), (2, 1, 6, 100)], asks=[(1, 1, 7, 50), (2, 1, 7, 90)])
            db.apply(bids=[(3, 1, large, 10), (4, 1, large, 20), (5, 1, large, 100), (6, 2, 1, 1)])
            db.apply(asks=[(3, 1, 1, 60)])
            bands_hold(db)
        assert any(form.bad for form in forms(compiled))
        assert entries(compiled) == entries(interpreted)


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_the_orders_in_which_maps_are_read_are_known_beforehand(view: str) -> None:
    with run_plain(), opened("now", BY_ROW) as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'higher-order') AS {VIEWS[view]}")
        known = db._engine._state.wiring.orders("v")  # type: ignore[attr-defined]
        for batch in batches(5):
            db.apply(batch)
        read = [use for form in forms(db) for use in form.made.places.bands.values()]
        assert bool(read) == (view not in ("busy", "above"))
        for use in read:
            of_intervals = use.order == key_order(use.stored)
            assert of_intervals or use.order in known[use.stored.target.name]
        assert all(len({*some}) == len(some) for some in known.values())


@pytest.mark.parametrize(("view", "by_row"), [("share", False), ("apart", True)])
def test_many_rows_are_not_stepped_one_by_one_for_an_index_that_steps_alone_read(
    view: str, by_row: bool
) -> None:
    with run_plain(), opened("now") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[view]}")
        for batch in batches(5):
            db.apply(batch)
        wiring = db._engine._state.wiring  # type: ignore[attr-defined]
        (group,) = wiring.together(wiring.statements("bids"))
        for rows, expected in ((10, True), (10_000, by_row)):
            chosen = wiring.native.of(group, wiring.tables["bids"].codec, -1, rows)
            (planned,) = [p for (_, base, _), p in wiring.native.planned.items() if base == "bids"]
            assert (chosen == (planned.by_row,)) == expected


def test_a_sum_that_falls_goes_to_the_interpreter() -> None:
    with run_plain():
        made = agree("share", -9)
    assert any(form.bad for form in made)


def test_what_is_stepped_is_told() -> None:
    with run_plain(), opened("now", BY_ROW) as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['spread']}")
        assert "ENGINE" not in db.view("v").explain()
        for batch in batches(1):
            db.apply(batch)
        told = db.statistics()["compiled"]["bids"]
        assert told["stepped"] == ["v$0"]
        assert not told["not stepped"]
        assert "change of bids: compiled for v, v#0, v#3; row by row with v$0" in db.view("v").explain()


def test_room_that_runs_out_in_a_later_stage() -> None:
    """One row makes a hundred others qualify: more than there is room for when the row begins."""
    rows = [(i, i, 1, i) for i in range(300)]
    with run_plain(), opened("now", BY_ROW) as compiled, opened("off") as interpreted:
        for db in (compiled, interpreted):
            db.sql(TABLES)
            db.sql(
                "CREATE MATERIALIZED VIEW v AS SELECT b.id, b.price FROM bids b"
                " WHERE b.price < (SELECT SUM(volume) FROM asks)"
            )
            db.apply(bids=rows)
            db.apply(asks=[(1, 1, 5, 1)])
            db.apply(asks=[(2, 1, 290, 1), (3, 1, -200, 1)])
            db.apply(asks=ef.Delta(deletes=[(1, 1, 5, 1), (3, 1, -200, 1)]))
        assert entries(compiled) == entries(interpreted)
        slices_hold(compiled)
        assert not any(form.bad for form in forms(compiled))
        assert any(form.chain for form in forms(compiled))
