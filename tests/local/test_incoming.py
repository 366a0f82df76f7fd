"""What comes in, fast and slow: Arrow columns as words, keys of a batch, and batches judged by their keys.

Mutations that these catch: an offset forgotten, the undefined value of a NULL kept, high and low words
exchanged, a key that comes twice in a batch taken for two, a row that goes and comes again kept, a delete
judged by its key alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import EDGES, TYPES

from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.local.codec import Codec
from everfresh.local.incoming import validity, words_into
from everfresh.local.pool import Layout, Pool
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table, _Signed
from everfresh.program import Part
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema, to_arrow

FAST = [t for t in TYPES if t.name not in ("VARCHAR", "BOOLEAN")]


def slow_words(array: pa.Array, column: Column) -> Any:
    codec = Codec([column], Interner())
    return codec.encode_vectors([Vector.from_arrow(array, column.type)], len(array))


@pytest.mark.parametrize("type_", FAST, ids=str)
@given(data=st.data())
def test_words_are_those_of_the_slow_way(type_: Any, data: Any) -> None:
    values = data.draw(st.lists(st.sampled_from([None, *EDGES[type_]]), min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(values) - 1))
    array = Vector.from_pylist(values, type_).to_arrow().slice(start)
    column = Column("x", type_)
    expected = slow_words(array, column)
    out = np.full((2 if type_.is_wide else 1, len(array)), 7, np.int64)
    done, valid = words_into(array, type_, out)
    assert done
    assert (out == expected[:-1]).all()
    present = np.array([v is not None for v in values[start:]])
    assert valid is None if present.all() else (valid == present).all()
    assert (Codec([column], Interner()).encode(pa.table({"x": array})) == expected).all()


def test_undefined_values_of_nulls_are_zero() -> None:
    bits, data = pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 6], np.int64))
    array = pa.Array.from_buffers(pa.int64(), 2, [bits, data])
    out = np.empty((1, 2), np.int64)
    assert words_into(array, BIGINT, out)[0]
    assert out.tolist() == [[5, 0]]
    assert words_into(array.cast(pa.int32()), BIGINT, out) == (False, None)
    assert words_into(pa.chunked_array([array, array]), BIGINT, np.empty((1, 4), np.int64)) == (False, None)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.data())
def test_validity_of_slices(present: list[bool], data: Any) -> None:
    start = data.draw(st.integers(0, len(present) - 1))
    length = data.draw(st.integers(0, len(present) - start))
    array = pa.array([1 if p else None for p in present], pa.int64()).slice(start, length)
    found, expected = validity(array), present[start : start + length]
    assert (found is None and all(expected)) or (found is not None and found.tolist() == expected)


KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1), st.integers(0, 2)), max_size=12)


@pytest.mark.parametrize("mask", [(1 << 64) - 1, 0], ids=["hashed", "all collide"])
@given(there=KEYS, rows=KEYS)
def test_keys_of_a_batch_are_located(mask: int, there: Any, rows: Any) -> None:
    pool = Pool(3, Layout(), (0, 2), _multiplier_mask=mask)
    known = {(a, c): (a, b, c) for a, b, c in there}
    if known:
        words = np.array(list(known.values()), np.int64).T.copy()
        slots = pool.insert_new(words, pool.locate(words).tags)
        assert (pool.keys_at(slots) == words).all()
        assert (pool.find(words[[0, 2]]) == slots).all()
        assert (pool.gather(slots).n == 1).all()
    words = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    at = pool.locate(words)
    keys = [(a, c) for a, _, c in rows]
    assert at.first.tolist() == [keys.index(key) for key in keys]
    assert (at.slots == pool.find(words[[0, 2]])).all()
    assert at.known == sum(key in known or keys.index(key) < i for i, key in enumerate(keys))


SCHEMA = TableSchema("t", (Column("k", BIGINT, False), Column("s", VARCHAR), Column("x", BIGINT)), ("k",))
ROW = st.tuples(
    st.integers(0, 4),
    st.sampled_from([None, "", "a", "a longer string", "a longer strinG"]),
    st.sampled_from([None, 0, 1 << 62]),
)
SIDES = st.tuples(st.lists(ROW, max_size=4), st.lists(ROW, max_size=4))


def arrow(rows: list[Any], columns: tuple[Column, ...] = SCHEMA.columns) -> pa.Table:
    return pa.table({c.name: pa.array([r[i] for r in rows], to_arrow(c.type)) for i, c in enumerate(columns)})


def changed(table: Table, net: Net) -> list[str]:
    rows = table.codec.decode(net.words).to_pylist()
    return sorted(f"{row} {weight}" for row, weight in zip(rows, net.weights.tolist(), strict=True))


def parts(deletes: list[Any], inserts: list[Any]) -> list[Part]:
    return [Part("t", "delete", arrow(deletes), "deletes"), Part("t", "insert", arrow(inserts), "inserts")]


@pytest.mark.parametrize("kept", [(), ("s",)], ids=["interned", "kept"])
@settings(max_examples=max(200, settings().max_examples))
@given(there=st.dictionaries(st.integers(0, 4), ROW), sides=SIDES)
def test_batches_are_judged_as_by_the_reference(kept: Any, there: dict[int, Any], sides: Any) -> None:
    table = Table(SCHEMA, Interner(), kept=kept)
    table.commit(table.apply(table.resolve(parts([], [(k, *r[1:]) for k, r in there.items()]))))
    asked = parts(*sides)
    signed = _Signed()
    for part in asked:
        getattr(table, f"_{part.op}")(part, signed)
    words, weights = signed.joined(table.codec.words)
    try:
        expected = table._judged(words, weights, signed)
    except EverfreshError:
        assert table._quickly(words, weights) is None
        return
    found = table._quickly(words, weights)
    if found is None:  # more than one row of a key: the reference decides
        keys = [(r[0], i) for i, side in enumerate(sides) for r in side]
        assert len(set(keys)) < len(keys)
        return
    assert changed(table, found) == changed(table, expected)
    assert found.found is not None
    undo = table.apply(found)
    after = sorted(table.rows()[0].to_pylist(), key=str)
    table.rollback(undo)
    table.commit(table.apply(expected))
    assert sorted(table.rows()[0].to_pylist(), key=str) == after
