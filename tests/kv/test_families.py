"""Families of views kept by several managers: divided bases, under faults, and by real processes."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_processes import ORDERS, served, until, until_fresh, write
from test_shared_views import CUSTOMERS, TEMPLATES, assert_right, made
from test_shared_views import ORDERS as WIDE_ORDERS
from test_shared_views import write as write_wide

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.process import wire
from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.process.ring import read_ring
from everfresh.kv.protocol.dataflow import EVERYONE, At, Contribution
from everfresh.kv.protocol.messages import ALL, Restore, Update
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.runtime.core_program import base_catalog, one_view
from everfresh.kv.sharing.cells import Mode
from everfresh.kv.sharing.spreading import divided
from everfresh.kv.sharing.template import shared
from everfresh.kv.store import memory_store
from everfresh.kv.strategies import STRATEGIES
from everfresh.kv.views import Views
from everfresh.sql import CreateTable, parse_and_bind
from everfresh.testing.kv.flows import value_of
from everfresh.testing.kv.simulation import SOME, Faults
from everfresh.testing.kv.trials import FAMILIES, first_violation

SPLITS = Faults(most=6, often=0.05)
ZOMBIES = Faults(most=4, often=0.1, kinds=("zombie manager",), slow_writers=0.93)
LOGGED = [name for name, how in STRATEGIES.items() if not how.rebuilds]


# -- which manager has what ------------------------------------------------------------------------------

SALES = """
CREATE TABLE customer (ck BIGINT PRIMARY KEY, segment VARCHAR);
CREATE TABLE orders (ok BIGINT PRIMARY KEY, ck BIGINT, day DATE, total DOUBLE);
CREATE TABLE item (ok BIGINT, line BIGINT, price BIGINT, PRIMARY KEY (ok, line));
"""


@pytest.mark.parametrize(
    ("source", "by"),
    [
        ("item i WHERE price > 3", {"item": "ok"}),
        ("item i, orders o WHERE i.ok = o.ok AND price > 3", {"item": "ok", "orders": "ok"}),
        (
            "customer c, orders o, item i WHERE c.ck = o.ck AND i.ok = o.ok AND price > 3",
            {"item": "ok", "orders": "ok"},
        ),
        ("customer c JOIN orders o ON c.ck = o.ck WHERE total > 3", {"customer": "ck", "orders": "ck"}),
        ("customer c LEFT JOIN orders o ON c.ck = o.ck WHERE c.ck > 3", {"customer": "ck"}),
        ("item i, (SELECT ok AS k FROM orders) o WHERE i.ok = o.k AND price > 3",
         {"item": "ok", "orders": "ok"}),
        ("orders o, customer c WHERE o.total = c.ck AND day > DATE '2020-01-01'", {"customer": "ck"}),
        ("item i, item j WHERE i.ok = j.ok AND i.price > 3", {}),
        ("orders o WHERE total > 3 AND ok IN (SELECT ok FROM orders WHERE ck = 1)", {}),
        ("orders o WHERE total > 3 AND ok IN (SELECT ok FROM item)", {"orders": "ok"}),
    ],
)  # fmt: skip
def test_tables_are_divided_by_what_joins_them(source: str, by: dict[str, str]) -> None:
    statements = parse_and_bind(SALES, base_catalog({}))
    tables = {s.schema.name: s.schema for s in statements if isinstance(s, CreateTable)}
    text = f"CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM {source}"
    view = shared(one_view(text, base_catalog(tables)).plan)
    assert divided(view.template, tables) == by
    text = text.replace("COUNT(*)", "o.total, COUNT(*)") + " GROUP BY o.total"
    if "orders o" in source and by:
        view = shared(one_view(text, base_catalog(tables)).plan)
        assert divided(view.template, tables) == {}  # -0.0 and 0.0 are one group


# -- in one process --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", FAMILIES)
@given(data=st.data())
def test_workers_together_do_what_the_views_say(flow: str, data: Any) -> None:
    """Any number of workers, batches of any size, records that move between workers."""
    view, workers = FAMILIES[flow](), data.draw(st.integers(1, 4))
    maps = [view.blank(i, workers) for i in range(workers)]
    base: dict[tuple[str, bytes], bytes] = {}
    rows: dict[bytes, bytes | None] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        net: dict[tuple[str, bytes], bytes | None] = {}
        for _ in range(data.draw(st.sampled_from([1, 7]))):
            place = data.draw(st.sampled_from(view.tables)), data.draw(st.sampled_from([b"a", b"b", b"c"]))
            number = data.draw(st.integers(0, 300))
            net[place] = data.draw(st.none() | st.just(value_of(data.draw(st.sampled_from("xyz")), number)))
        listed = [(place, base.get(place), new) for place, new in sorted(net.items())]
        changes = [Change(*place, before, after) for place, before, after in listed if before != after]
        sent = exchanged(view.route(changes, workers), workers)
        then: list[list[Contribution]] = [[] for _ in range(workers)]
        for worker, given_ in enumerate(sent):
            for to, of in enumerate(exchanged(view.forward(maps[worker], given_), workers)):
                then[to] += of
        for worker, given_ in enumerate(then):
            changed = view.apply(maps[worker], given_)
            assert len({row.key for row in changed}) == len(changed)
            rows |= {row.key: row.value for row in changed}
        for place, new in net.items():
            base.pop(place, None)
            if new is not None:
                base[place] = new
    assert {k: v for k, v in rows.items() if v is not None} == view.rows_of(base)


def exchanged(contributions: list[Contribution], workers: int) -> list[list[Contribution]]:
    """What each worker gets, as it comes out of the wire."""
    found: list[list[Contribution]] = [[] for _ in range(workers)]
    for of in wire.unpack(wire.pack(contributions)):
        for worker in range(workers) if of.key == EVERYONE else (of.key.worker,):
            found[worker].append(of)
    return found


@pytest.mark.parametrize(
    ("layout", "mode"), [("own", "standard"), ("own", "single"), ("own", "auto"), ("shared", "double")]
)
def test_several_managers_equal_duckdb(layout: str, mode: Mode) -> None:
    random, store, texts = Random(5), memory_store(partitions=3), dict[str, str]()
    views = Views(store, workers=3)
    views.create_table(f"{WIDE_ORDERS}; {CUSTOMERS}")
    for _ in range(20):
        write_wide(random, views.client)
    views.create_views([made(random, f"v{i}", texts, layout) for i in range(6)], mode=mode)
    assert len(views.groups) == len(TEMPLATES)
    for step in range(3):
        views.refresh()
        assert_right(views, texts)
        for _ in range(15):
            write_wide(random, views.client)
        if step == 0:
            views.create_views([made(random, f"v{i}", texts, layout) for i in range(10, 12)], mode=mode)
            store.split(next(p.id for p in store.partitions() if p.open))
        if step == 1:  # somebody else goes on, with another number of workers
            views = Views(store, workers=2)
            views.drop_view("v3")
            del texts["v3"]
    with pytest.raises(EverfreshError, match="workers"):
        Views(store, workers=0)


# -- under faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", FAMILIES)
@pytest.mark.parametrize("faults", [SOME, ZOMBIES, SPLITS])
def test_histories_are_consistent(flow: str, faults: Faults) -> None:
    assert first_violation(range(4), flow, faults=faults, managers=3) is None


@pytest.mark.parametrize("strategy", LOGGED)
def test_histories_of_each_strategy_are_consistent(strategy: str) -> None:
    assert first_violation(range(2), "joined", strategy=strategy, faults=SPLITS, managers=3) is None


@pytest.mark.parametrize("off", ["dedup", "token_barrier", "maps_at_epoch", "pinned_head"])
def test_each_protection_is_needed(off: str) -> None:
    """Without it a view is wrong, or a program is given what cannot be."""
    found: int | Code | None
    try:
        found = first_violation(range(12), "joined", protect=replace(ALL, **{off: False}), managers=3)
    except EverfreshError as error:
        found = error.code
    assert found is not None


@pytest.mark.soak
@pytest.mark.parametrize("flow", FAMILIES)
@pytest.mark.parametrize("faults", [SOME, ZOMBIES, SPLITS])
def test_a_thousand_histories_are_consistent(flow: str, faults: Faults) -> None:
    assert first_violation(range(1000), flow, faults=faults, managers=3) is None


def test_a_manager_that_has_not_heard_of_a_view_does_not_take_part() -> None:
    from everfresh.kv.protocol.calls import Receive, Send
    from everfresh.kv.protocol.manager import manage
    from everfresh.kv.protocol.messages import Stopped

    flow = FAMILIES["sums"]()
    machine = manage("a", "g", ("a", "b"), flow)
    assert isinstance(next(machine), Receive)
    answer = machine.send(Restore(1, 0, "c", (), managers=("a", "b"), identity=flow.identity + 1))
    assert answer == Send("c", Stopped(1))
    assert isinstance(machine.send(None), Receive)
    again = machine.send(Restore(2, 0, "c", (), managers=("a",), identity=flow.identity))
    assert again.to == "a"  # a token, and to nobody who is not in this term


def test_what_managers_send_each_other_travels() -> None:
    changes = tuple(Change("r", b"%d" % i, b"x" if i % 2 else None, b"y") for i in range(40))
    for some in (changes, changes[:3]):
        message = Update(3, 1 << 40, "m0", 7, Contribution(At(2), some), 1)
        assert wire.unpack(wire.pack([("g", "m1", message)])) == [("g", "m1", message)]


# -- processes -------------------------------------------------------------------------------------------


@pytest.mark.server
def test_processes_keep_a_family_together_though_one_is_killed_and_one_is_stopped(tmp_path: Path) -> None:
    random = Random(6)
    with served(tmp_path / "store", "--managers", "3") as (path, managers):
        store, writer = RemoteStore(path), Client(RemoteStore(path))
        views = Views(store, only=lambda group: False)
        views.create_table(ORDERS)
        text = """SELECT cust, SUM(price) AS s, COUNT(*) AS n FROM orders
            WHERE id >= {0} AND id < {1} GROUP BY cust"""
        ranges = [(0, 40), (5, 20), (10, 11), (0, 30)]
        views.create_views(
            [f"CREATE MATERIALIZED VIEW v{i} AS {text.format(*of)}" for i, of in enumerate(ranges)]
        )

        def right() -> None:
            until_fresh(store)
            assert all(views.verify(name).num_rows == 0 for name in views.names)

        write(random, writer, 60)
        until(lambda: read_ring(store)[0].members == ("m0", "m1", "m2"))
        right()
        until(lambda: store.ask("status")["calls"].get("post"))  # they talk to each other
        write(random, writer, 20)
        right()
        os.kill(managers[0], signal.SIGKILL)
        write(random, writer, 30)
        right()
        views.create_views([f"CREATE MATERIALIZED VIEW w AS {text.format(3, 33)}"])
        write(random, writer, 10)
        until(lambda: "w" in views.names and store.ask("status")["views"]["w"]["epoch"] > 0)
        right()
        stopped = store.ask("status")["managers"][1]
        os.kill(stopped, signal.SIGSTOP)
        try:
            until(lambda: len(read_ring(store)[0].members) == 2)
            write(random, writer, 20)
            right()
            views.drop_view("v2")
        finally:
            os.kill(stopped, signal.SIGCONT)
        write(random, writer, 20)
        until(lambda: len(read_ring(store)[0].members) == 3)
        right()
        (group,) = {d.group for d in views._definitions.values()}
        codec = Client(store)._codec(group, view=True)

        def numbers() -> set[int]:
            return {codec.decode_key(key)[0] for batch in store.scan(group) for key, _ in batch}

        until(lambda: numbers() <= {0, 1, 3, 4})  # the rows of the one that was dropped go
        for who in (store, writer.store):
            who.close()
