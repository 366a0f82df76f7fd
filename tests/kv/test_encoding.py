"""Keys order as their values do, and rows come back as they were."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everfresh.kv.encoding import RowCodec, keys
from everfresh.kv.encoding.columns import columns as decoded
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Column,
    TableSchema,
)

WHOLE = [TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, DECIMAL(9, 2), DECIMAL(38, 4)]
TYPES = [BOOLEAN, *WHOLE, REAL, DOUBLE, VARCHAR, DATE, TIMESTAMP, INTERVAL]


def values(type_: Any) -> Any:
    if type_.is_exact:
        least, most = type_.bounds
        found: Any = st.integers(least, most) | st.sampled_from([least, most, 0, -1, 1])
    elif type_ == REAL:
        found = st.floats(width=32, allow_nan=False).map(lambda x: x + 0.0)
    elif type_ == DOUBLE:
        found = st.floats(allow_nan=False).map(lambda x: x + 0.0)
    elif type_ == BOOLEAN:
        found = st.booleans()
    elif type_ == VARCHAR:
        found = st.text(st.sampled_from("\x00\x01a\xff€"), max_size=5)
    elif type_ == DATE:
        found = st.integers(-(2**31), 2**31 - 1)
    elif type_ == INTERVAL:
        found = st.tuples(*[st.integers(-(2**62), 2**62)] * 3)
    else:
        found = st.integers(-(2**63), 2**63 - 1)
    return st.none() | found


def order(row: Any) -> Any:
    return [(value is not None, value if value is not None else 0) for value in row]


@given(data=st.data())
def test_keys_order_as_values_do(data: Any) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    a, b = (tuple(data.draw(values(t)) for t in types) for _ in range(2))
    x, y = keys.encode(a, types), keys.encode(b, types)
    assert keys.decode(x, types) == a
    assert (x < y, x == y) == (order(a) < order(b), a == b)
    end = keys.after(x)
    assert end is None or (x < end and x + b"\xff\xff" < end)


@given(data=st.data())
def test_rows_come_back(data: Any) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=9))
    columns = tuple(Column(f"c{i}", t) for i, t in enumerate(types))
    key = data.draw(st.lists(st.sampled_from([c.name for c in columns]), unique=True))
    codec = RowCodec(TableSchema("t", columns, tuple(key)))
    row = tuple(data.draw(values(t)) for t in types)
    assert codec.decode(*codec.encode(row)) == row


@given(data=st.data())
def test_columns_are_those_of_the_rows(data: Any) -> None:
    """Whatever the NULLs: all rows at once give what each gives."""
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=9))
    columns = tuple(Column(f"c{i}", t) for i, t in enumerate(types))
    every = [c.name for c in columns]
    key = data.draw(st.lists(st.sampled_from(every), unique=True, min_size=1))
    codec = RowCodec(TableSchema("t", columns, tuple(key)))
    rows = data.draw(st.lists(st.tuples(*[shown(t) for t in types]), max_size=5))
    names = data.draw(st.lists(st.sampled_from(every), unique=True, min_size=1))
    found = decoded(codec, [codec.encode(row) for row in rows], names)
    assert found.equals(codec.arrow(rows).select(names))


def shown(type_: Any) -> Any:
    """Values that Arrow and Python can show."""
    if type_ == DATE:
        return st.none() | st.integers(-(10**5), 10**5)
    if type_ == TIMESTAMP:
        return st.none() | st.integers(-(10**15), 10**15)
    if type_ == INTERVAL:
        return st.none() | st.tuples(*[st.integers(-(10**5), 10**5)] * 3)
    if type_ == HUGEINT:
        return st.none() | st.integers(-(10**38) + 1, 10**38 - 1)
    return values(type_)


def test_rows_of_arrow_come_back() -> None:
    schema = TableSchema("t", (Column("k", BIGINT), Column("d", DECIMAL(9, 2)), Column("v", VARCHAR)), ("k",))
    codec = RowCodec(schema)
    rows = [(1, 450, "ink"), (2, None, None)]
    assert codec.physical(codec.arrow(rows)) == rows
