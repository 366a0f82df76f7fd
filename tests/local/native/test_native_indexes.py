"""Ordered indexes by address answer as `OrderedIndex` does, and leave an index that it can go on with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_support import _HELPERS

from everfresh.algebra import Kind
from everfresh.local.native.runtime.binding import address
from everfresh.local.native.runtime.indexes import EDGES, INDEX_SIZE
from everfresh.local.order.ordered_index import OrderedIndex
from everfresh.local.store.components import wide_from_python, wide_to_python
from everfresh.local.store.pool import Layout

LAYOUT = Layout((Kind.COUNT, Kind.WIDE))
SLOTS = 400


class ByAddress:
    """An index and its block of words."""

    def __init__(self, index: OrderedIndex) -> None:
        self.index = index
        self.stored, self.there = np.zeros((1, SLOTS), np.int64), np.zeros(SLOTS, np.bool_)
        self.key, self.delta, self.edges = (np.zeros(n, np.int64) for n in (2, 4, 2 * EDGES))
        self.block = np.zeros(INDEX_SIZE, np.int64)

    def call(self, name: str, *args: int) -> Any:
        index = self.index
        if int(index._state[0]) + 1 >= len(index._order):
            index._grow(2 * len(index._order) + 1)
        arrays = [
            index._data,
            index._totals,
            index._order,
            index._tops,
            index._tree,
            index._high,
            index._state,
        ]
        self.block[: len(arrays)] = [address(array) for array in arrays]
        self.block[7:11] = index.words, len(index._high), index.block, len(index._order)
        self.block[11:14] = address(self.stored), SLOTS, address(self.there)
        self.block[14:17] = address(self.key), address(self.delta), address(self.edges)
        return _HELPERS[name](address(self.block), *args)

    def put(self, key: int, slot: int, count: int, value: int) -> None:
        self.key[:] = key, slot
        self.delta[:] = 0, count, value >> 63, value
        assert self.call("put", slot) == 0

    def rank(self, edge: int) -> int:
        index, n = self.index, 0
        for position in range(edge >> 16):
            n += int(index._totals[index._order[position], 0])
        return n + (edge & 65535)


@pytest.mark.parametrize("block", [4, 16])
@pytest.mark.parametrize("big", [9, 1 << 61])
def test_agrees_with_the_index(block: int, big: int) -> None:
    random = np.random.default_rng(block)
    native = ByAddress(OrderedIndex(2, LAYOUT, block))
    twin = OrderedIndex(2, LAYOUT, block)
    known: dict[int, tuple[int, int, int]] = {}
    for _ in range(300):
        slot, fresh = int(random.integers(SLOTS)), int(random.integers(60))
        key, count, value = known.get(slot, (fresh, 0, 0))
        more, by = int(random.integers(3)), int(random.integers(big))
        known[slot] = key, count + more, value + by
        native.put(key, slot, more, by)
        high, low = wide_from_python([value + by])
        twin.put(np.array([[key], [slot]]), np.array([slot]), np.array([[count + more], high, low]))
    assert np.array_equal(native.index._entries(), twin._entries())
    assert native.index._state[1:].tolist() == twin._state[1:].tolist()
    total = wide_to_python(*twin.total()[1:3, None])[0]
    for key in range(-1, 61):
        native.key[:] = key, 0
        for after in (0, 1):
            edge = native.call("edge", 1, after)
            assert native.rank(edge) == twin.rank(np.array([[key]]), after=bool(after))[0]
            sums = twin.prefix(np.array([[key]]), after=bool(after))
            assert native.call("sum_before", edge, 1, 0) == sums[0, 0]
            exact = wide_to_python(sums[1], sums[2])[0]
            found = native.call("sum_before", edge, 2, 1)
            assert native.block[17] == (exact >= 1 << 63)
            assert native.block[17] or found == exact
    for value in (1, total // 3, total - 1, total, total + 1):
        if value < 1 << 63:
            rank = int(twin.find(1, [value])[0]) + 1
            assert native.call("reaches", 2, 1, value) == rank
            if rank <= len(twin):
                place = native.call("ranked", rank - 1)
                assert native.call("word_at", place, 0) == twin.keys_at(np.array([rank - 1]))[0, 0]


def test_edges_stay_in_order() -> None:
    native = ByAddress(OrderedIndex(2, LAYOUT, 4))
    count = 0
    for place, weight in ((7, 1), (3, -1), (7, 2), (5, 1)):
        count = native.call("note_edge", count, place, weight)
    assert native.edges[: 2 * count].reshape(-1, 2).tolist() == [[3, -1], [5, 1], [7, 1], [7, 2]]
