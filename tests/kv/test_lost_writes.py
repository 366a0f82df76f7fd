"""Views over a store that loses acknowledged writes: noticed, not served, made anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from kv_failover import CUSTOMERS, ORDERS, VIEWS, write

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.encoding import keys
from everfresh.kv.protocol.head import HEADS, Head
from everfresh.kv.protocol.messages import ALL, Protections
from everfresh.kv.runtime import group
from everfresh.kv.store import Cut, Position
from everfresh.kv.views import Views
from everfresh.testing.kv.lossy import LossyStore
from everfresh.types import BIGINT

NAMES = ("spend", "cities")


def declared(store: LossyStore, strategy: str) -> Views:
    views = Views(store)
    views.create_table(ORDERS)
    views.create_table(CUSTOMERS)
    for name in NAMES:
        query, key = VIEWS[name]
        views.create_view(f"CREATE MATERIALIZED VIEW {name} AS {query}", key=key, strategy=strategy)
    for cust in range(8):
        views.client.put("customers", {"cust": cust, "city": f"city {cust % 3}"})
    return views


def refreshed(views: Views, tries: int = 10) -> bool:
    """Go on although calls fail; whether it came to an end."""
    for _ in range(tries):
        try:
            views.refresh()
            return True
        except EverfreshError as error:
            if error.code not in (Code.ENVIRONMENT, Code.FENCED):
                raise
    return False


def is_right(seed: int, strategy: str = "SCI") -> bool:
    """A history with losses at random calls; whether its views are those of the base in the end."""
    random, store = Random(seed), LossyStore(3, seed)
    views = declared(store, strategy)
    for p in store.partitions():
        store.replicate(p.id)  # that there are views is not lost
    client = Client(store)
    for _ in range(8):
        for _ in range(random.randrange(12)):
            write(random, client)
        store.often, store.left = random.choice([0.05, 0.2]), random.choice([0, 2, 5])
        if random.random() < 0.3:
            views = Views(store)
        if not refreshed(views):
            return False
        if random.random() < 0.5:
            store.fail()
    store.left = 0
    for _ in range(5):
        write(random, client)
    return refreshed(views) and all(views.verify(name).num_rows == 0 for name in NAMES)


SEEDS = 6


def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators without the protection."""
    really = group.coordinate

    def coordinate(*args: object, **how: object) -> object:
        off: Protections = replace(ALL, log_ids=False)
        return really(*args, **how, protect=off)  # type: ignore[arg-type]

    monkeypatch.setattr(group, "coordinate", coordinate)


@pytest.mark.parametrize("strategy", ["SCI", "SC"])
def test_views_converge_although_writes_are_lost(strategy: str) -> None:
    assert all(is_right(seed, strategy) for seed in range(SEEDS // (1 if strategy == "SCI" else 4)))


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["SCI", "SCIMB", "SNI", "IN", "SC", "SN"])
def test_a_thousand_histories_with_losses(strategy: str) -> None:
    assert all(is_right(seed, strategy) for seed in range(1000))


def test_looking_at_ends_and_lives_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order is lost that a view has counted: without, nobody notices."""
    assert orders_after_a_loss() == 0
    weak(monkeypatch)
    assert orders_after_a_loss() == 1


def orders_after_a_loss() -> int:
    """How many orders a view counts after the only one was lost, row and entry."""
    store = LossyStore(8, 1)
    views = Views(store)
    views.create_table(ORDERS)
    views.create_view(f"CREATE MATERIALIZED VIEW spend AS {VIEWS['spend'][0]}", key=["cust"])
    views.refresh()
    heads = store.partition_of(HEADS.name, b"spend").id
    rows = store.partition_of("spend", keys.encode([1], [BIGINT])).id
    id_ = next(
        i for i in range(99)
        if store.partition_of("orders", keys.encode([i], [BIGINT])).id not in (heads, rows)
    )  # fmt: skip
    views.client.put("orders", {"id": id_, "cust": 1, "price": None})
    views.refresh()
    store.promote(store.partition_of("orders", keys.encode([id_], [BIGINT])).id)
    assert views.client.get("orders", id_) is None
    views.refresh()
    return sum(row["n"] for row in views.client.read("spend").to_pylist())


def test_what_was_lost_is_not_served() -> None:
    store = LossyStore(2, 1)
    views, random = declared(store, "SCI"), Random(1)
    views.refresh()
    for p in (1, 2):
        store.replicate(p)
    for _ in range(20):
        write(random, views.client)
    views.refresh()
    seen = Client(store).read("spend")
    assert seen.num_rows
    store.promote(1)
    for read in (lambda: Client(store).read("spend"), lambda: Client(store).read_row("spend", 1)):
        with pytest.raises(EverfreshError) as caught:
            read()
        assert caught.value.code == Code.NOT_FOUND
    views.refresh()
    assert all(views.verify(name).num_rows == 0 for name in NAMES)
    Client(store).read_row("spend", 1)
    assert store.lost


def test_a_head_says_by_which_lives_it_was_made() -> None:
    head = Head(1, 2, Cut({1: Position(3, b"12345678")}), lives={1: "a"})
    planned = head.planned(head.cut, {1: "b", 2: "c"})
    assert Head.from_bytes(planned.to_bytes()) == planned
    assert planned.done().lives == {1: "b", 2: "c"}
    again = planned.begun_again(head.cut, {1: "d"})
    assert again.again
    assert again.loading
    assert again.gc_floor == again.committed > planned.committed
