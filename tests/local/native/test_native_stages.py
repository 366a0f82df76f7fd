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
    from everfresh.local.bands import Band

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
