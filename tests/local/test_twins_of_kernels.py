"""Kernels by Python and compiled: every call of a busy database is made both ways, on copies of its arrays.

Catches: a twin that gives something else than the compiled loop, or leaves other arrays behind; a kernel that
only a compiler understands; one that callers hold on to, so that its compiled form never takes its place.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everfresh as ef
from everfresh.algebra import Kind
from everfresh.local.jit import code_cache
from everfresh.local.jit.kernel import Inline, Kernel, Primitive, kernel_of
from everfresh.local.kernels import (
    arrow_memory,
    hashing,
    interning,
    netting,
    ordered_blocks,
    ordered_changes,
    ordered_questions,
    plain,
    pool_changes,
    pool_values,
    primitives,
)
from everfresh.local.kernels import exact_products as products
from everfresh.local.kernels import incoming as incoming_kernels
from everfresh.local.kernels import like_patterns as likes
from everfresh.local.kernels import slice_links as chains
from everfresh.local.kernels import text_heap as text_kernels
from everfresh.local.native.runtime import row_places as placing
from everfresh.local.store.pool import Layout, Pool, Values

MODULES = (
    chains,
    incoming_kernels,
    hashing,
    interning,
    likes,
    netting,
    ordered_blocks,
    ordered_changes,
    ordered_questions,
    pool_changes,
    pool_values,
    primitives,
    products,
    text_kernels,
    placing,
)


def all_kernels() -> list[Kernel]:
    found = []
    for module in MODULES:
        for value in vars(module).values():
            kernel = getattr(value, "kernel", value)
            if isinstance(kernel, Kernel) and kernel.__module__ == module.__name__:
                found.append(kernel)
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[Kernel]:
    """How often each kernel was called both ways."""
    seen: Counter[Kernel] = Counter()

    def both(self: Kernel, args: tuple[Any, ...]) -> Any:
        copies = tuple(x.copy(order="K") if isinstance(x, np.ndarray) else x for x in args)
        if self is place_change:  # which writes addresses
            return self.twin(*args)
        wanted, got = self.native(*copies), self.twin(*args)
        seen[self] += 1
        if self is net:  # what it says nothing about is what it was or anything
            for array in (*args[2:], *copies[2:]):
                array[got:] = 0
        for mine, other in zip((got, *args), (wanted, *copies), strict=True):
            assert np.array_equal(mine, other, equal_nan=np.asarray(mine).dtype.kind == "f"), self
        return got

    net = kernel_of(netting._net)
    place_change = kernel_of(placing.place_change)
    monkeypatch.setattr(Kernel, "_otherwise", both)
    for kernel in all_kernels():
        monkeypatch.setattr(kernel, "_compiled", None)
        monkeypatch.setattr(f"{kernel.__module__}.{kernel.__name__}", kernel)
    return seen


WORDS = [
    "",
    "a",
    "ann",
    "bob",
    "a longer string than a word",
    "another that is long",
    "ÄÖÜ",
    "%",
    "special x requests",
]
SCHEMA = """
CREATE TABLE r (k BIGINT PRIMARY KEY, g INTEGER, s VARCHAR, d DECIMAL(15,2), f DOUBLE, b BOOLEAN, t SMALLINT);
CREATE TABLE q (g INTEGER, w DECIMAL(38,4), x REAL);
CREATE MATERIALIZED VIEW sums AS
SELECT g, s, SUM(d) AS d, SUM(f) AS f, COUNT(*) AS n, AVG(t) AS t FROM r GROUP BY g, s;
CREATE MATERIALIZED VIEW joined AS
SELECT r.s, SUM(q.w) AS w, SUM(r.d * q.x) AS y, COUNT(*) AS n FROM r JOIN q ON r.g = q.g GROUP BY r.s;
CREATE MATERIALIZED VIEW extremes AS SELECT g, MIN(s) AS low, MAX(d) AS high FROM r GROUP BY g;
CREATE MATERIALIZED VIEW liked AS SELECT k, s FROM r WHERE s LIKE '%special%requests%' OR s LIKE 'a%';
CREATE MATERIALIZED VIEW ranged AS
SELECT a.g, COUNT(*) AS n, SUM(b.d) AS d FROM r a JOIN r b ON a.d < b.d GROUP BY a.g;
CREATE MATERIALIZED VIEW first AS SELECT k, d FROM r ORDER BY d DESC, k LIMIT 5;
"""


def rows(random_: random.Random, keys: range) -> pa.Table:
    def some(make: Any) -> list[Any]:
        return [None if random_.random() < 0.1 else make() for _ in keys]

    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "g": pa.array(some(lambda: random_.randrange(5)), pa.int32()),
            "s": pa.array(some(lambda: random_.choice(WORDS)), pa.string()),
            "d": pa.array(some(lambda: Decimal(random_.randrange(-9999, 9999)) / 100), pa.decimal128(15, 2)),
            "f": pa.array(some(lambda: random_.choice([0.0, -0.0, 1e300, 0.1, float("inf")])), pa.float64()),
            "b": pa.array(some(lambda: random_.random() < 0.5), pa.bool_()),
            "t": pa.array(some(lambda: random_.randrange(-300, 300)), pa.int16()),
        }
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_database_makes_every_call_both_ways(calls: Counter[Kernel], seed: int) -> None:
    random_ = random.Random(seed)
    with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
        db.sql(SCHEMA)
        for batch in range(6):
            new = rows(random_, range(100 * batch, 100 * batch + 40))
            others = [(random_.randrange(5), Decimal(random_.randrange(1 << 40)), 0.5) for _ in range(7)]
            finite = new.filter(pa.compute.fill_null(pa.compute.is_finite(new["f"]), True))
            db.apply(r=finite, q=others)
            there = db.table("r").to_arrow()
            some = there.take(sorted(random_.sample(range(len(there)), len(there) // 4)))
            half = len(some) // 2
            changed = some.slice(half).set_column(
                3, "d", pa.array([Decimal(1)] * (len(some) - half), pa.decimal128(15, 2))
            )
            db.apply(
                r=ef.Delta(deletes=some.slice(0, half).select(["k"]), updates=changed.select(["k", "d"]))
            )
        for name in ("sums", "joined", "extremes", "liked", "ranged", "first"):
            assert not db.view(name).verify().num_rows
    missed = {k.__name__ for k in plain.TWINS if not isinstance(k, Inline)} - {k.__name__ for k in calls}
    assert missed <= {"differing", "tags_of"}, missed


def test_pools_that_grow_collide_and_overflow(calls: Counter[Kernel]) -> None:
    random_ = np.random.default_rng(1)
    layout = Layout((Kind.COUNT, Kind.WIDE, Kind.FLOAT))
    for mask in (0, (1 << 64) - 1):
        pool = Pool(2, layout, (1,), capacity=2, _multiplier_mask=mask)
        for _ in range(12):
            m = int(random_.integers(0, 30))
            words = np.zeros((2, m), np.int64)
            words[1] = random_.integers(-8, 24, m)
            edge = random_.choice([1, -1, (1 << 62) + 1, -(1 << 62), (1 << 63) - 1], (3, m))
            values = Values(random_.integers(-1, 2, m), edge, random_.normal(size=(3, m)))
            try:
                touched = pool.add(words, values)
            except ef.EverfreshError:
                continue
            if random_.random() < 0.3:
                pool.rollback(touched)
            else:
                pool.commit(touched)
            pool.find(words[1:])
            pool.entries_at(np.array([-1, 0, 1, 10_000]))
    names = {kernel.__name__ for kernel in calls}
    assert {"resolve", "accumulate", "undo", "drop_empty", "rehash", "find", "gather_entries"} <= names


def test_callers_find_the_compiled_form(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(incoming_kernels.lacking)
    monkeypatch.setattr(incoming_kernels, "lacking", kernel)
    monkeypatch.setattr(kernel, "_compiled", None)
    assert kernel.native(np.array([3, -1])) == 1
    kernel.loaded()
    assert incoming_kernels.lacking is kernel.dispatcher
    assert kernel_of(incoming_kernels.lacking) is kernel
    assert incoming_kernels.lacking(np.array([3, 4, -1])) == 2


def test_the_source_of_every_kernel_and_of_what_it_uses_is_in_the_digest() -> None:
    hashed = {path.resolve() for path in code_cache.sources()}
    for kernel in all_kernels():
        uses = [kernel, *(kernel.py_func.__globals__.get(name) for name in kernel.py_func.__code__.co_names)]
        for used in uses:
            if isinstance(used, Kernel | Primitive):
                assert Path(sys.modules[used.__module__].__file__ or "").resolve() in hashed, used
    assert Path(arrow_memory.__file__).resolve() in hashed  # constants
    assert Path(plain.__file__).resolve() not in hashed


def test_work_is_what_a_batch_brings_not_what_is_held() -> None:
    """A batch would wait for the compiler because of the room of a pool, or of the bytes of its strings."""
    held, few = np.zeros(1 << 20, np.int64), np.zeros(100, np.int64)
    some = np.zeros(1 << 20, np.uint8)
    chained = kernel_of(chains.fill)
    assert chained.rows((held, held, few, few, few)) == 100
    assert kernel_of(interning.copy_strings).rows((some, held, few, few, some)) == 100
    assert kernel_of(hashing.spread).rows((held, 16)) == 1 << 20


def test_what_a_twin_calls_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, called = kernel_of(pool_changes.remove), kernel_of(hashing.release)
    for one in (kernel, called):
        monkeypatch.setattr(one, "_compiled", None)
        monkeypatch.setattr(one, "asked", {})
        monkeypatch.setattr(sys.modules[one.__module__], one.__name__, one)
    pool = Pool(1, Layout())
    slots = pool.insert(np.arange(5)[None], np.ones(5, np.int64))
    kernel.twin(*pool._index, *pool._cells, slots)
    assert not len(pool)
    assert not called.asked
