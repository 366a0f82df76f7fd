"""Histories over data sets: every single change is possible, all tables change, and seeds decide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from workload_streams import Change, Stream

from everfresh.datasets import orderbook, tpch
from everfresh.workloads import WORKLOADS
from everfresh.workloads.strategies import catalog_of

TRADE = dict(catalog_of(tpch.TABLES.values()).tables)


def stream(seed: int = 1, hold_back: int = 0) -> Stream:
    return Stream(TRADE, tpch.read(0.001), seed, hold_back)


class Tables:
    """Plays a history: bags of rows, and keys that are there once."""

    def __init__(self, source: Stream) -> None:
        self.source = source
        self.rows: dict[str, Counter[Any]] = {name: Counter() for name in source.sources}
        self.keys: dict[str, Counter[Any]] = {name: Counter() for name in source.sources}
        self.came = Counter[str]()
        self.went = Counter[str]()

    def play(self, changes: list[Change]) -> None:
        for name, weight, number in changes:
            row = self.source.sources[name].rows.slice(number, 1).to_pylist()[0]
            key = tuple(row[k] for k in TRADE[name].key)
            self.rows[name][tuple(row.values())] += weight
            self.keys[name][key] += weight
            assert self.rows[name][tuple(row.values())] in (0, 1)
            assert self.keys[name][key] in (0, 1)
            (self.came if weight > 0 else self.went)[name] += 1


def test_from_empty_each_change_is_possible() -> None:
    source = stream()
    tables = Tables(source)
    tables.play(list(source.rows_in_turn()))
    for name, part in source.sources.items():
        assert tables.came[name] >= part.count
        assert tables.went[name] > 0
        assert tables.keys[name].total() == len(part.there) > part.count * 0.5


def test_the_tail_changes_all_tables() -> None:
    source = stream(hold_back=500)
    batch = source.preload()
    held = {name: part.count - batch[name].inserts.num_rows for name, part in source.sources.items()}
    assert held == source.held
    assert {name for name, count in held.items() if not count} == {"region", "nation", "supplier"}
    tables = Tables(source)
    for name, part in source.sources.items():
        tables.play([(name, 1, number) for number in part.order[: part.count - held[name]]])
    before = tables.came.copy()
    tables.play(list(source.tail()))
    assert set(tables.went) == set(source.sources)
    assert all(tables.came[name] > before[name] + held[name] for name in source.sources)


def test_everything_ends_with_nothing() -> None:
    source = stream()
    first, second, third = source.everything()
    for name, part in source.sources.items():
        rows = first[name].inserts.num_rows
        assert rows == part.count
        assert second[name].deletes.num_rows == rows // 2 + rows // 10
        left = rows + second[name].inserts.num_rows - second[name].deletes.num_rows
        assert third[name].deletes.num_rows == left
        assert not part.there


def test_a_batch_is_the_net_effect() -> None:
    source = stream()
    batch = source.batch([("region", 1, 0), ("region", 1, 1), ("region", -1, 0), ("nation", 1, 2)])
    assert batch["region"].inserts.num_rows == 1
    assert batch["region"].deletes.num_rows == 0
    assert batch["nation"].inserts.equals(source.sources["nation"].rows.slice(2, 1))


def test_batches_have_their_size_and_lose_nothing() -> None:
    changes = list(stream().rows_in_turn())
    sizes = [sum(b.rows for b in batch.values()) for batch in stream().batches(stream().rows_in_turn(), 1000)]
    assert len(sizes) == -(-len(changes) // 1000)
    assert all(size <= 1000 for size in sizes)
    assert list(stream().rows_in_turn()) == changes
    assert list(stream(2).rows_in_turn()) != changes


@pytest.mark.parametrize("live", [3, 50, 1000])
def test_an_order_book(live: int) -> None:
    there: dict[str, set[tuple[int, ...]]] = {"bids": set(), "asks": set()}
    for batch in orderbook.stream(live, 20, 41):
        assert sum(part.rows for part in batch.values()) == 41
        for side, part in batch.items():
            gone = {tuple(row.values()) for row in part.deletes.to_pylist()}
            come = {tuple(row.values()) for row in part.inserts.to_pylist()}
            assert gone <= there[side]
            there[side] = (there[side] - gone) | come
            assert len({row[1] for row in there[side]}) == len(there[side])
    if live == 50:
        assert all(48 <= len(orders) <= 50 for orders in there.values())


def test_prices_and_brokers_of_an_order_book() -> None:
    book = orderbook.orders(20_000)
    assert 900 <= len(pa.concat_tables(book.values())["price"].unique()) <= 1000
    for side in book.values():
        assert len(side["broker_id"].unique()) == 10
    assert len(pa.concat_tables(book.values())["id"].unique()) == 40_000
    assert orderbook.orders(50) == orderbook.orders(50)


def test_each_workload_has_its_queries() -> None:
    counts = {name: len(workload.queries) for name, workload in WORKLOADS.items()}
    assert counts == {"tpch": 22, "thesis": 22, "finance": 6, "condensed": 2, "tpcds": 13}
    for workload in WORKLOADS.values():
        for query in workload.queries:
            assert query.notes
            assert not query.text.startswith("--")
            assert ";" not in query.text
