"""Pools that grow in place against a dictionary, and the hash table spread in place against its rehash.

Mutations that these catch: a cell that is spread before its chain (a key is lost), a room of fewer slots than
its table, entries lost where arrays move, a snapshot that does not read back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.algebra import Kind
from everfresh.local.kernels import hashing
from everfresh.local.store import pool
from everfresh.local.store.pool import Layout, Pool, Values

SMALL = {"_LASTING": 32, "_LARGE": 64, "_RESERVED": 128, "_SLOTS": 1024}


@pytest.fixture(params=["reserved", "none to lend"])
def small(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(pool, name, value)
    if request.param != "reserved":
        monkeypatch.setattr(pool, "reserved", lambda shape, dtype: None)


@pytest.mark.parametrize("mask", [(1 << 64) - 1, 0xFF0], ids=["hashed", "near each other"])
def test_a_pool_that_grows_holds_what_was_added(small: None, mask: int) -> None:
    random = np.random.default_rng(7)
    layout = Layout((Kind.COUNT, Kind.FLOAT))
    held = Pool(3, layout, _multiplier_mask=mask)
    model: dict[tuple[int, ...], list[float]] = {}
    capacities = set()
    for _ in range(60):
        words = random.integers(-9, 9, (3, 30))
        values = Values.zeros(layout, 30)
        values.n[:], values.ints[0], values.floats[0] = 1, random.integers(0, 99, 30), random.random(30)
        held.commit(held.add(words, values))
        for i, key in enumerate(map(tuple, words.T.tolist())):
            entry = model.setdefault(key, [0, 0])
            entry[0] += 1
            entry[1] += int(values.ints[0, i])
        if random.random() < 0.2:
            gone = held.live()[::3]
            for key in map(tuple, held.keys_at(gone).T.tolist()):
                del model[key]
            held.remove(gone)
        capacities.add(held.capacity)
        assert len(held) == len(model)
        assert held.nbytes < 10**6
    assert len(capacities) > 4
    for known in (held, Pool.from_arrays(held.to_arrays())):
        slots = known.find(np.array(list(model), np.int64).T.copy())
        found = known.gather(slots)
        assert (slots >= 0).all()
        assert [[int(n), int(x)] for n, x in zip(found.n, found.ints[0], strict=True)] == list(model.values())
        assert sorted(slots.tolist()) == known.live().tolist()


@settings(max_examples=max(100, settings().max_examples))
@given(st.lists(st.integers(0, 15) | st.integers(0, 1 << 30), max_size=8, unique=True))
def test_a_table_is_spread_as_it_is_rehashed(tags: list[int]) -> None:
    table = np.zeros(16, np.int64)
    for slot, tag in enumerate(tags):
        at = tag & 15
        while table[at]:
            at = (at + 1) & 15
        table[at] = (tag << 32) | (slot + 1)
    bigger = np.zeros(32, np.int64)
    hashing.rehash(table, bigger)
    spread = np.concatenate([table, np.zeros(16, np.int64)])
    hashing.spread(spread, 16)
    assert sorted(spread.tolist()) == sorted(bigger.tolist())
    for slot, tag in enumerate(tags):  # every cell is reached from its home
        at = tag & 31
        while spread[at] != (tag << 32) | (slot + 1):
            assert spread[at]
            at = (at + 1) & 31


def test_more_than_all_slots_is_refused(small: None) -> None:
    with pytest.raises(MemoryError):
        Pool(1, Layout()).reserve(2000)
