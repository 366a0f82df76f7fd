"""Rows as words and back, for every type, with NULLs and edge values; equal words exactly for identical
rows.

Mutations that these catch: a NULL stored with its data word (NULL differs from NULL), a null bit that
another column shares, -0.0 or a NaN with other bits kept as they are, wide integers cut to one word,
`replace` that keeps an old null bit.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.expr import Vector
from everfresh.local.store.codec import Codec, from_word, to_word
from everfresh.local.store.strings import Interner
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    NAN,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Column,
    SqlType,
    arrow_schema,
    canonical_float,
)

INF = float("inf")
ARROW_WIDE = 10**38 - 1  # HUGEINT travels as decimal128(38, 0)
EDGES: dict[SqlType, list[Any]] = {
    BOOLEAN: [True, False],
    TINYINT: [0, 1, -128, 127],
    SMALLINT: [0, -(1 << 15), (1 << 15) - 1],
    INTEGER: [0, -(1 << 31), (1 << 31) - 1],
    BIGINT: [0, -1, -(1 << 63), (1 << 63) - 1],
    HUGEINT: [0, -1, 1 << 64, -(1 << 64), (1 << 63), ARROW_WIDE, -ARROW_WIDE],
    DECIMAL(9, 2): [0, 999_999_999, -999_999_999],
    DECIMAL(18, 4): [0, 10**18 - 1, -(10**18) + 1],
    DECIMAL(19, 4): [0, 10**19 - 1, -(10**19) + 1, (1 << 63) - 1],
    DECIMAL(38, 10): [0, 1, ARROW_WIDE, -ARROW_WIDE],
    REAL: [0.0, 1.5, -1.5, float(np.float32(0.1)), float(np.float32(3.4e38)), INF, -INF, NAN],
    DOUBLE: [0.0, 0.1, -0.1, 5e-324, 1.7976931348623157e308, INF, -INF, NAN],
    VARCHAR: ["", "a", "A", "größe", "\0", "it's", "x" * 50],
    DATE: [0, -1, 18321, -700_000, 2_000_000],
    TIMESTAMP: [0, -1, 951_868_799_999_999, -62_135_596_800_000_000],
}
TYPES = list(EDGES)
NULLABLE = [Column(f"n{i}", t) for i, t in enumerate(TYPES)]
REQUIRED = [Column(f"r{i}", t, False) for i, t in enumerate(TYPES)]
COLUMNS = [*NULLABLE, *REQUIRED]
ROW = st.tuples(*(st.sampled_from([*([None] if c.nullable else []), *EDGES[c.type]]) for c in COLUMNS))
ROWS = st.lists(ROW, max_size=6)


def table_of(rows: list[tuple[Any, ...]], columns: list[Column]) -> pa.Table:
    arrays = [Vector.from_pylist([row[i] for row in rows], c.type).to_arrow() for i, c in enumerate(columns)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(tuple(columns)))


def canon(value: Any) -> Any:
    return canonical_float(value) if isinstance(value, float) else value


def physical(vectors: dict[str, Vector]) -> list[tuple[Any, ...]]:
    return list(zip(*([canon(v) for v in vector.to_pylist()] for vector in vectors.values()), strict=True))


@settings(max_examples=max(60, settings().max_examples))
@given(ROWS)
def test_round_trip(rows: list[tuple[Any, ...]]) -> None:
    codec = Codec(COLUMNS, Interner())
    words = codec.encode(table_of(rows, COLUMNS))
    assert words.shape == (codec.words, len(rows))
    assert physical(codec.vectors(words)) == rows
    decoded = codec.decode(words)
    assert decoded.schema == arrow_schema(tuple(COLUMNS))
    again = {c.name: Vector.from_arrow(decoded.column(c.name), c.type) for c in COLUMNS}
    assert physical(again) == rows
    vectors = [Vector.from_pylist([row[i] for row in rows], c.type) for i, c in enumerate(COLUMNS)]
    assert (codec.encode_vectors(vectors, len(rows)) == words).all()


@settings(max_examples=max(60, settings().max_examples))
@given(st.lists(ROW, min_size=2, max_size=5), st.data())
def test_words_are_equal_exactly_for_identical_rows(rows: list[tuple[Any, ...]], data: Any) -> None:
    """Random rows differ in many columns: also take pairs that differ in one."""
    i = data.draw(st.integers(0, len(COLUMNS) - 1))
    column = COLUMNS[i]
    other = data.draw(st.sampled_from([*([None] if column.nullable else []), *EDGES[column.type]]))
    rows = [*rows, rows[0], (*rows[0][:i], other, *rows[0][i + 1 :])]
    codec = Codec(COLUMNS, Interner())
    words = codec.encode(table_of(rows, COLUMNS))
    for a, row in enumerate(rows):
        for b, column_words in enumerate(words.T):
            assert (words[:, a] == column_words).all() == (row == rows[b])


def test_floats_are_canonical() -> None:
    odd_nan = struct.unpack("<d", struct.pack("<q", 0x7FF8_0000_0000_0BAD))[0]
    negative_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
    for type_, arrow in ((DOUBLE, pa.float64()), (REAL, pa.float32())):
        codec = Codec([Column("d", type_)], Interner())
        values = np.array([np.nan, odd_nan, negative_nan, 0.0, -0.0]).astype(arrow.to_pandas_dtype())
        words = codec.encode(pa.table({"d": pa.array(values, arrow)}))[0]
        assert len(set(words[:3].tolist())) == 1
        assert words[3] == words[4] == 0
        assert to_word(values, type_).tolist() == words.tolist()


def test_null_is_not_zero_and_not_empty() -> None:
    for type_, zero in (
        (BIGINT, 0),
        (VARCHAR, ""),
        (DOUBLE, 0.0),
        (HUGEINT, 0),
        (BOOLEAN, False),
        (DECIMAL(30, 2), 0),
    ):
        codec = Codec([Column("a", type_)], Interner())
        words = codec.encode(table_of([(None,), (zero,)], [Column("a", type_)]))
        assert (words[:, 0] != words[:, 1]).any()


@pytest.mark.parametrize("count", [62, 63, 64, 127, 130])
def test_many_nullable_columns(count: int) -> None:
    columns = [Column(f"c{i}", BIGINT) for i in range(count)]
    codec = Codec(columns, Interner())
    assert codec.words == count + -(-count // 63)
    # row i is NULL in column i only, the last row nowhere
    rows = [tuple(None if i == j else 0 for j in range(count)) for i in range(count + 1)]
    words = codec.encode(table_of(rows, columns))
    assert len({tuple(w) for w in words.T.tolist()}) == count + 1
    assert physical(codec.vectors(words)) == rows


@settings(max_examples=max(60, settings().max_examples))
@given(st.lists(st.tuples(ROW, ROW), max_size=4), st.sets(st.integers(0, len(COLUMNS) - 1)))
def test_replace(pairs: list[tuple[tuple[Any, ...], tuple[Any, ...]]], chosen: set[int]) -> None:
    codec = Codec(COLUMNS, Interner())
    old = codec.encode(table_of([a for a, _ in pairs], COLUMNS))
    kept = old.copy()
    columns = [c for i, c in enumerate(COLUMNS) if i in chosen]
    given_rows = table_of([tuple(b[i] for i in sorted(chosen)) for _, b in pairs], columns)
    # the order of the given columns does not matter
    new = codec.replace(old, given_rows.select(list(reversed(given_rows.column_names))))
    expected = [tuple(b[i] if i in chosen else a[i] for i in range(len(COLUMNS))) for a, b in pairs]
    assert (new == codec.encode(table_of(expected, COLUMNS))).all()
    assert (old == kept).all()


def test_positions_and_parts() -> None:
    columns = [
        Column("k", INTEGER, False),
        Column("h", HUGEINT, False),
        Column("s", VARCHAR),
        Column("t", VARCHAR, False),
    ]
    codec = Codec(columns, Interner())
    assert codec.words == 6
    assert codec.positions(["t", "h"]) == (1, 2, 4)  # in the order of the columns
    words = codec.encode(table_of([(1, 1 << 70, None, "x"), (2, -1, "y", "x")], columns))
    assert codec.decode(words, ["t", "k"]).to_pydict() == {"k": [1, 2], "t": ["x", "x"]}
    assert list(codec.vectors(words, {"s"})) == ["s"]
    assert codec.vectors(words, {"s"})["s"].to_pylist() == [None, "y"]
    assert codec.codes == [3, 4]


def test_strings_can_be_remapped() -> None:
    interner = Interner()
    interner.intern_list(["gone", "b", "also gone", "a"])
    codec = Codec([Column("s", VARCHAR), Column("t", VARCHAR)], interner)
    rows = [("a", "b"), (None, "a")]
    words = codec.encode(table_of(rows, list(codec.columns)))
    alive = interner.none_alive()
    codec.mark(words, alive)
    fresh, remap = interner.renumbered(alive)
    interner.become(fresh)
    codec.remap_strings(remap, words)
    assert len(interner) == 2
    assert physical(codec.vectors(words)) == rows


@pytest.mark.parametrize("type_", [t for t in TYPES if not t.is_wide and t != VARCHAR], ids=str)
def test_words_of_single_columns(type_: SqlType) -> None:
    values = Vector.from_pylist(EDGES[type_], type_).values
    back = from_word(to_word(values, type_), type_)
    assert back.dtype == values.dtype
    assert [canon(v) for v in back.tolist()] == EDGES[type_]


def test_no_columns() -> None:
    codec = Codec([], Interner())
    assert codec.words == 0
    assert codec.encode_vectors([], 3).shape == (0, 3)
