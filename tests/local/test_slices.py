"""Slices against their slow twin, a dictionary of sets: any order of adds, removals and probes.

Catches: a chain that keeps a slot after its removal, a head of a group that went and came back, an array that
does not grow with its pool, NULL taken for 0, keys that differ in one column only; entries of a pool that are
followed otherwise than they are added.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh.expr import Vector
from everfresh.local.store.codec import Codec
from everfresh.local.store.kept_strings import Texts
from everfresh.local.store.pool import Layout, Pool
from everfresh.local.store.slices import Slice, every_pair
from everfresh.local.store.strings import Interner
from everfresh.types import BIGINT, HUGEINT, VARCHAR, Column

COLUMNS = (Column("a", BIGINT), Column("g", VARCHAR), Column("h", HUGEINT), Column("i", BIGINT, False))
VALUES: dict[str, list[Any]] = {
    "a": [None, 0, 1, 1 << 40],
    "g": [None, "", "x"],
    "h": [0, 1 << 70],
    "i": [0, 1],
}


class Slow:
    """Slots by the words of some columns, as a dictionary."""

    def __init__(self, columns: list[Column], codec: Codec) -> None:
        self.source, self.codec = codec, Codec(columns, codec.interner)
        self.slots: dict[bytes, set[int]] = {}

    def keys(self, words: Any) -> list[bytes]:
        return [row.tobytes() for row in np.ascontiguousarray(words.T)]

    def add(self, slots: Any, words: Any) -> None:
        for key, slot in zip(self.keys(self.source.project(words, self.codec)), slots.tolist(), strict=True):
            self.slots.setdefault(key, set()).add(slot)

    def remove(self, slots: Any) -> None:
        gone = set(slots.tolist())
        self.slots = {key: left for key, found in self.slots.items() if (left := found - gone)}

    def probe(self, words: Any) -> list[tuple[int, int]]:
        return sorted((i, s) for i, key in enumerate(self.keys(words)) for s in self.slots.get(key, ()))


@pytest.mark.parametrize("names", [("a",), ("g",), ("a", "g"), ("h", "i"), ("a", "g", "h", "i")])
@pytest.mark.parametrize("seed", range(3))
def test_slices_equal_their_slow_twin(names: tuple[str, ...], seed: int) -> None:
    random = Random(seed)
    codec = Codec(COLUMNS, Interner())
    columns = [c for c in COLUMNS if c.name in names]
    fast, slow = Slice(columns, codec), Slow(columns, codec)
    free, live = list(range(300)), {}

    def words(count: int) -> Any:
        vectors = [
            Vector.from_pylist([random.choice(VALUES[c.name]) for _ in range(count)], c.type) for c in COLUMNS
        ]
        return codec.encode_vectors(vectors, count)

    for _ in range(60):
        count = random.randrange(len(free) // 3 + 1)
        new = words(count)
        slots = np.array([free.pop(random.randrange(len(free))) for _ in range(count)], np.int64)
        fast.add(slots, new)
        slow.add(slots, new)
        live.update(dict.fromkeys(slots.tolist()))
        gone = [slot for slot in live if random.random() < 0.4]
        asked = np.array([*gone, *random.sample(free, min(3, len(free))), 10_000], np.int64)  # some not in it
        fast.remove(asked)
        slow.remove(asked)
        for slot in gone:
            del live[slot]
        free += gone
        probe = codec.project(words(20), fast.codec)
        at, found = fast.probe(probe)
        assert (np.diff(at) >= 0).all()
        assert sorted(zip(at.tolist(), found.tolist(), strict=True)) == slow.probe(probe)


@pytest.mark.parametrize("names", [("a",), ("g",), ("a", "g"), ("h", "i"), ("a", "g", "h", "i")])
def test_following_a_pool_is_adding_its_entries(names: tuple[str, ...]) -> None:
    random = Random(5)
    codec = Codec(COLUMNS, Interner())
    columns = [c for c in COLUMNS if c.name in names]
    pool = Pool(codec.words, Layout())
    fast, slow = Slice(columns, codec), Slice(columns, codec)
    values = VALUES | {"a": [None, *range(-700, 700)]}  # more keys than are read at a time
    for count in (0, 1, 3, 40, 2, 1100, 1):
        vectors = [
            Vector.from_pylist([random.choice(values[c.name]) for _ in range(count)], c.type) for c in COLUMNS
        ]
        before = set(pool.live().tolist())
        pool.enter(codec.encode_vectors(vectors, count))
        slots = np.array([slot for slot in pool.live().tolist() if slot not in before], np.int64)
        random.shuffle(slots)
        fast.follow(pool, slots)
        slow.add(slots, pool.keys_at(slots))
        gone = np.array([slot for slot in pool.live().tolist() if random.random() < 0.3], np.int64)
        fast.remove(gone)
        slow.remove(gone)
        pool.sweep(gone)  # they have n = 0
        assert len(fast) == len(slow)
        asked = codec.project(pool.keys_at(pool.live()), fast.codec)
        assert [x.tolist() for x in fast.probe(asked)] == [x.tolist() for x in slow.probe(asked)]


def test_following_a_table_whose_strings_are_only_kept_interns_them() -> None:
    codec = Codec(COLUMNS[:2], Interner(), Texts(), ["g"])
    pool = Pool(codec.words, Layout())
    slots = pool.enter(codec.encode(pa.table({"a": [1, 2], "g": ["x", "y"]})))
    slice_ = Slice(COLUMNS[1:2], codec)
    slice_.follow(pool, slots)
    asked = slice_.codec.encode_vectors([Vector.from_pylist(["y"], VARCHAR)], 1)
    assert slice_.probe(asked)[1].tolist() == [slots[1]]
    interner = codec.interner
    alive = interner.none_alive()
    slice_.mark(alive)
    assert interner.reclaim(alive) == 0  # nobody else holds them
    assert slice_.probe(asked)[1].tolist() == [slots[1]]


def test_taking_out_what_came_in_gives_the_same_order_back() -> None:
    codec = Codec(COLUMNS[3:], Interner())
    slice_ = Slice(COLUMNS[3:], codec)
    ones = np.ones((1, 5), np.int64)
    slice_.add(np.arange(5), ones)
    before = slice_.probe(ones[:, :1])[1].tolist()
    slice_.add(np.arange(5, 9), ones[:, :4])
    slice_.remove(np.arange(5, 9))
    assert slice_.probe(ones[:, :1])[1].tolist() == before


def test_every_pair() -> None:
    at, slots = every_pair(2, np.array([5, 7]))
    assert list(zip(at.tolist(), slots.tolist(), strict=True)) == [(0, 5), (0, 7), (1, 5), (1, 7)]
