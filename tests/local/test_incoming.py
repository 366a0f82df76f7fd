"""What comes in, fast and slow: Arrow columns as words, keys of a batch, and batches judged by their keys.

Mutations that these catch: an offset forgotten, a NULL or a -0.0 passed on unseen, the undefined value of a
NULL kept, high and low words exchanged, a key that comes twice in a batch taken for two, a row that goes and
comes again kept, a delete judged by its key alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import EDGES, TYPES

from everfresh.delta.rows import read_local
from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.local.input import incoming
from everfresh.local.input.arrivals import Arrivals
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Layout, Pool
from everfresh.local.store.resolution import Net, Resolution
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Table
from everfresh.program import Part
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema, to_arrow


def slow_words(array: pa.Array, column: Column) -> Any:
    codec = Codec([column], Interner())
    return codec.encode_vectors([Vector.from_arrow(array, column.type)], len(array))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(data=st.data())
def test_words_are_those_of_the_slow_way(type_: Any, data: Any) -> None:
    values = data.draw(st.lists(st.sampled_from([None, *EDGES[type_]]), min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(values) - 1))
    array = Vector.from_pylist(values, type_).to_arrow().slice(start)
    cut = data.draw(st.integers(0, len(array)))
    columns = [Column("before", BIGINT), Column("x", type_)]
    expected = slow_words(array, columns[1])
    ones = pa.array([1] * len(array), pa.int64())
    chunks = pa.chunked_array([array.slice(0, cut), array.slice(cut)])
    for given_ in (array, chunks):
        for names in (["before", "x"], ["x", "before"]):  # found by name
            rows = pa.table({"before": ones, "x": given_}).select(names)
            words = Codec(columns, Interner()).encode(rows)
            assert (words[0] == 1).all()
            assert (words[1:-1] == expected[:-1]).all()
            assert (words[-1] == expected[-1] << 1).all()


def test_undefined_values_of_nulls_are_zero() -> None:
    bits, data = pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 6], np.int64))
    array = pa.Array.from_buffers(pa.int64(), 2, [bits, data])
    codec = Codec([Column("x", BIGINT)], Interner())
    assert codec.encode(pa.table({"x": array})).tolist() == [[5, 0], [0, 1]]
    refusing = Codec([Column("x", BIGINT, False)], Interner())
    with pytest.raises(ValueError, match="NULL"):
        refusing.encode(pa.table({"x": array}))


@pytest.mark.parametrize("kept", [(), ("s",)], ids=["interned", "kept"])
def test_other_arrow_types_are_read_too(kept: Any) -> None:
    columns = [Column("s", VARCHAR), Column("x", BIGINT)]
    values = ["a longer string", None, "", "a longer string"]
    plain = pa.table({"s": pa.array(values), "x": pa.array([1, None, 3, 4], pa.int64())})
    for type_ in (pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()):
        codec = Codec(columns, Interner(), kept=kept)
        rows = plain.set_column(0, "s", pa.array(values, type_))
        rows = rows.set_column(1, "x", rows["x"].cast(pa.int32()))
        words = codec.encode(rows)
        assert codec.decode(words).to_pylist() == plain.to_pylist()
        assert words[-1].tolist() == [0, 3, 0, 0]


@pytest.mark.parametrize("mask", [-1, 0], ids=["hashed", "all collide"])
def test_string_columns_are_read_together(mask: int) -> None:
    """Kept and interned ones, of both kinds of offsets, in slices and with NULLs: arrays grow in between,
    and more than one block of hashes is needed."""
    random = np.random.default_rng(7)
    columns = [Column(name, VARCHAR) for name in "abcd"]
    interner = Interner(_tag_mask=mask)
    codec = Codec(columns, interner, kept=("b", "d"))
    distinct = 3000 if mask else 40
    for rows in (1, 20, 2500 if mask else 200):
        types = pa.string(), pa.large_string(), pa.large_string(), pa.string()
        arrays = []
        for type_ in types:
            numbers = random.integers(0, distinct, rows + 3)
            values = [None if x % 7 == 0 else "x" * (int(x) % 19) + str(x) for x in numbers]
            arrays.append(pa.array(values, type_))
        table = pa.table(dict(zip("abcd", arrays, strict=True))).slice(2, rows)
        words = codec.encode(table)
        assert codec.decode(words).to_pylist() == table.to_pylist()
        for row, name in ((0, "a"), (2, "c")):
            assert words[row].tolist() == interner.intern(table[name]).tolist()


# -- rows that are what their table asks for -----------------------------------------------------------------

ALL = TableSchema(
    "t",
    tuple(Column(f"c{i}", type_, nullable=i % 2 == 0) for i, type_ in enumerate(TYPES)),
    ("c1",),
)


@pytest.mark.parametrize("op", ["insert", "update", "delete"])
@given(data=st.data())
def test_arrivals_are_those_of_the_slow_way(op: Any, data: Any) -> None:
    """Whatever the order of columns, their types, NULLs and floats: the same rows, or the same error."""
    count = data.draw(st.integers(0, 4))
    names = data.draw(st.permutations(ALL.names)) if data.draw(st.booleans()) else list(ALL.names)
    if data.draw(st.booleans()):
        names = names[: data.draw(st.integers(1, len(names)))]
    if op == "delete" and data.draw(st.booleans()):
        names = ["c1"]
    arrays = {}
    for name in names:
        type_ = ALL.column(name).type
        values = [data.draw(st.sampled_from(EDGES[type_])) for _ in range(count)]
        if count and data.draw(st.integers(0, 9)) == 0:
            values[0] = None
        array = Vector.from_pylist(values, type_).to_arrow()
        if type_.is_float and count and data.draw(st.booleans()):
            array = pa.array(np.array([-0.0, 1.5, -np.nan, 2.0][:count], array.type.to_pandas_dtype()))
        arrays[name] = array
    rows = pa.table(arrays)
    if count > 1 and data.draw(st.integers(0, 3)) == 0:
        rows = pa.concat_tables([rows.slice(0, 1), rows.slice(1)])
    if data.draw(st.integers(0, 3)) == 0:
        rows = rows.rename_columns([name.upper() for name in names])
    arrivals = Arrivals()
    refusal, expected = outcome(lambda: read_local(rows, ALL, "rows", op))
    if refusal is not None:
        for _ in range(2):
            assert outcome(lambda: arrivals.read(rows, ALL, "rows", op))[0] == refusal
        return
    for _ in range(2):
        found = arrivals.read(rows, ALL, "rows", op)
        assert found.schema.names == expected.schema.names
        assert found.schema.types == expected.schema.types
        assert bits(found) == bits(expected)
        assert all(column.num_chunks == 1 for column in found.columns) or not count


@given(st.lists(st.integers(0, 3), max_size=12))
def test_rows_whose_address_was_taken_ahead(turns: list[int]) -> None:
    """Read and encoded in any order, any number of times: always their own words; nothing is left of tables
    that are gone."""
    schema = TableSchema("t", (Column("k", BIGINT, nullable=False), Column("s", VARCHAR)), ("k",))
    tables = [pa.table({"k": [i], "s": [str(i)]}, schema=schema.arrow) for i in range(2)]
    arrivals, codec = Arrivals(), Codec(schema.columns, Interner())
    for turn in turns:
        rows = tables[turn % 2]
        if turn < 2:
            assert arrivals.read(rows, schema, "rows", "insert") is rows
        else:
            words = codec.encode(rows)
            assert codec.decode(words).to_pylist() == rows.to_pylist()
    keys = [id(rows) for rows in tables]
    del tables
    rows = None
    assert not any(key in incoming._AHEAD for key in keys)


def outcome(read: Any) -> tuple[str | None, Any]:
    """Why rows are refused, or the rows."""
    try:
        return None, read()
    except EverfreshError as error:
        return str(error), None


def bits(rows: pa.Table) -> list[Any]:
    """The values, floats by their bits."""
    return [
        [None if v is None else v.hex() + str(np.signbit(v)) if isinstance(v, float) else v for v in column]
        for column in (column.to_pylist() for column in rows.columns)
    ]


def test_rows_that_fit_are_not_copied() -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "s": ["a", "b"], "x": pa.array([3, 4], pa.int64())})
    found = Arrivals().read(rows, SCHEMA, "rows", "insert")
    assert found.column("x").chunk(0).buffers()[1].address == rows.column("x").chunk(0).buffers()[1].address


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
    resolution = Resolution(table)
    for part in asked:
        getattr(resolution, f"_{part.op}")(part)
    words, weights = resolution._signed.joined(table.codec.words)
    try:
        expected = resolution._judged(words, weights)
    except EverfreshError:
        assert resolution._quickly(words, weights) is None
        return
    found = resolution._quickly(words, weights)
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
