"""Columns get exactly the schema's types; the fast way agrees with the reference on every value."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everfresh.delta.casts import canonical, fast_cast, plain
from everfresh.delta.coerce import coerce, coerce_column
from everfresh.delta.values import Refused, read_value
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    NULL,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Column,
    to_arrow,
)

PRICE = DECIMAL(15, 2)
TYPES = [
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INTEGER,
    BIGINT,
    HUGEINT,
    PRICE,
    DECIMAL(38, 10),
    DECIMAL(4, 4),
    DECIMAL(3, 0),
    REAL,
    DOUBLE,
    VARCHAR,
    DATE,
    TIMESTAMP,
]

ACCEPTED = [
    (BIGINT, 3.0, 3), (BIGINT, Decimal("3.00"), 3), (BIGINT, " +3 ", 3), (BIGINT, "3.0", 3),
    (BIGINT, "3e2", 300), (BIGINT, np.int8(3), 3), (BIGINT, 2.0**60, 2**60), (BIGINT, pa.scalar(3), 3),
    (HUGEINT, 10**38 - 1, 10**38 - 1), (HUGEINT, 2.0**100, 2**100), (HUGEINT, -1e20, -(10**20)),
    (PRICE, 3, Decimal("3.00")), (PRICE, "1e1", Decimal("10.00")),
    (PRICE, Decimal("1.50000"), Decimal("1.50")), (PRICE, 2.345, Decimal("2.35")),
    (PRICE, 0.125, Decimal("0.13")), (PRICE, -0.125, Decimal("-0.13")),
    (PRICE, 1e-300, Decimal("0.00")), (PRICE, "-0", Decimal("0.00")),
    (PRICE, Decimal("0e-99999"), Decimal("0.00")), (DECIMAL(38, 0), 2.0**80, Decimal(2**80)),
    (DOUBLE, 2**53 + 1, 2.0**53), (DOUBLE, Decimal("0.1"), 0.1), (DOUBLE, "-Infinity", -math.inf),
    (DOUBLE, "1e-400", 0.0),
    (REAL, 0.1, float(np.float32(0.1))), (REAL, math.inf, math.inf),
    (BOOLEAN, " T ", True), (BOOLEAN, "no", False), (BOOLEAN, np.True_, True),
    (VARCHAR, np.str_("x"), "x"),
    (DATE, dt.datetime(2024, 1, 31), dt.date(2024, 1, 31)), (DATE, " 2024-01-31 ", dt.date(2024, 1, 31)),
    (DATE, "2024-01-31 00:00:00", dt.date(2024, 1, 31)),
    (DATE, np.datetime64("2024-01-31"), dt.date(2024, 1, 31)),
    (TIMESTAMP, dt.date(2024, 1, 31), dt.datetime(2024, 1, 31)),
    (TIMESTAMP, "2024-01-31T10:20", dt.datetime(2024, 1, 31, 10, 20)),
    (TIMESTAMP, "2024-01-31 10:20:30.123456000", dt.datetime(2024, 1, 31, 10, 20, 30, 123456)),
    (TIMESTAMP, np.datetime64("2024-01-31T10", "ns"), dt.datetime(2024, 1, 31, 10)),
    (TIMESTAMP, pd.Timestamp("2024-01-31 10:00"), dt.datetime(2024, 1, 31, 10)),
    (INTERVAL, dt.timedelta(days=1, seconds=2), pa.MonthDayNano([0, 1, 2_000_000_000])),
    (INTERVAL, pa.MonthDayNano([1, 2, 3000]), pa.MonthDayNano([1, 2, 3000])),
    (BIGINT, pd.NA, None), (TIMESTAMP, pd.NaT, None), (DATE, np.datetime64("NaT"), None), (NULL, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "expected"), ACCEPTED)
def test_accepted_values(type_, value, expected):
    (result,) = coerce_column([value], Column("x", type_), what="w").to_pylist()
    assert result == expected
    assert type(result) is (Decimal if type_ is HUGEINT else type(expected))


@pytest.mark.parametrize("values", [[-0.0, 1.0], [math.nan, -math.nan, None], [0.0, None], []])
@pytest.mark.parametrize("type_", [REAL, DOUBLE])
def test_floats_are_canonical(values, type_):
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    raw = pa.concat_arrays([pa.array(values, pa.float64()), pa.array(bits)]).cast(to_arrow(type_))
    for array in (raw, raw[1:]):
        result = canonical(array)
        assert repr(result.to_pylist()) == repr(array.to_pylist()).replace("-0.0", "0.0").replace(
            "-nan", "nan"
        )
        number = result.fill_null(0).to_numpy()
        patterns = number[np.isnan(number)].view(f"u{number.itemsize}")
        assert set(patterns.tolist()) == {int(np.array(np.nan, number.dtype).view(patterns.dtype))}


def test_columns_that_fit_are_not_copied():
    table = pa.table({"a": pa.array([1.5, None]), "b": pa.array(["x", "y"])})
    result = coerce(table, [Column("b", VARCHAR), Column("a", DOUBLE)], what="w")
    for name in ("a", "b"):
        assert result[name].chunk(0).buffers()[-1].address == table[name].chunk(0).buffers()[-1].address


def test_encodings_are_undone():
    words = pa.array(["x", None, "y", "x"])
    dictionary = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 0], pa.uint32()), pa.array(["x", "y"], pa.string_view())
    )
    runs = pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], ["x", None, "y", "x"])
    for array in (
        words.cast(pa.large_string()),
        words.cast(pa.string_view()),
        words.dictionary_encode(),
        dictionary,
        runs,
    ):
        for column in (array, pa.chunked_array([array[:2], array[2:]]), pa.chunked_array([], array.type)):
            result = coerce_column(column, Column("x", VARCHAR), what="w")
            assert result.type == pa.string()
            assert result.to_pylist() == words.to_pylist()[: len(column)]


# -- the fast way equals the reference -----------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**53 + 1, 2**31, 10**13])
)
FLOATS = st.one_of(
    st.floats(width=32),
    st.floats(),
    st.integers(-300, 300).map(float),
    st.integers(-9999, 9999).map(lambda n: n / 1000),
    st.sampled_from([0.125, 2.345, 1.005, -0.0, 1e15, 2.0**63, 4503599627370497.5]),
)
DECIMALS = st.decimals(-(10**20), 10**20, places=3) | st.decimals(-99, 99, places=2)
TIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
MIDNIGHTS = st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)).map(
    lambda d: dt.datetime.combine(d, dt.time())
)
TEXTS = st.one_of(
    NUMBERS.map(str),
    FLOATS.map(repr),
    DECIMALS.map(str),
    TIMES.map(str),
    MIDNIGHTS.map(lambda d: str(d.date())),
    TIMES.map(dt.datetime.isoformat),
    st.text(max_size=4),
    st.text("0123456789+-.eExX:TZ_ nif", max_size=12),
    st.sampled_from(
        ["true", "F", "1e400", "nan(1)", "0x1F", "0000-01-01", "2024-01-31 24:00:00", "2024-01-31 10", " 1"]
    ),
)
SOURCES = {
    pa.int64(): NUMBERS, pa.int8(): st.integers(-128, 127), pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): FLOATS, pa.float32(): st.floats(width=32), pa.float16(): st.floats(width=16),
    pa.decimal128(38, 3): DECIMALS, pa.decimal128(15, 3): st.decimals(-99, 99, places=3),
    pa.decimal256(60, 3): DECIMALS, pa.string(): TEXTS, pa.bool_(): st.booleans(),
    pa.date32(): st.dates(), pa.date64(): st.dates(),
    pa.timestamp("us"): TIMES | MIDNIGHTS, pa.timestamp("ms"): MIDNIGHTS,
    pa.timestamp("ns"): TIMES | MIDNIGHTS,
}  # fmt: skip


@st.composite
def columns(draw):
    type_ = draw(st.sampled_from(list(SOURCES)))
    values = draw(st.lists(st.none() | SOURCES[type_], max_size=4))
    return pa.array(values, type_).slice(draw(st.integers(0, 1)))


@given(columns(), st.sampled_from(TYPES))
@example(pa.array(["1e400"]), DOUBLE)
@example(pa.array([2.345]), PRICE)
@example(pa.array([4503599627370497.5]), DECIMAL(38, 10))
@example(pa.array([Decimal("0.100")], pa.decimal128(15, 3)), DOUBLE)
def test_the_fast_way_equals_the_reference(array, type_):
    array = plain(array)
    fast = fast_cast(array, type_)
    if fast is None:
        return
    reference = pa.array([read_value(value, type_) for value in array.to_pylist()], to_arrow(type_))
    assert fast.type == to_arrow(type_)
    assert repr(canonical(fast).to_pylist()) == repr(reference.to_pylist())
    fast.validate(full=True)


@given(
    st.lists(st.none() | NUMBERS | FLOATS | DECIMALS | TEXTS | st.booleans() | TIMES, max_size=3),
    st.sampled_from(TYPES),
)
def test_a_list_is_read_value_by_value(values, type_):
    try:
        reference = pa.array([read_value(value, type_) for value in values], to_arrow(type_))
    except Refused:
        return
    result = coerce_column(values, Column("x", type_), what="w")
    assert repr(result.to_pylist()) == repr(reference.to_pylist())


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([1], pa.int32()), BIGINT),
        (pa.array([1], pa.int64()), PRICE),
        (pa.array([1.0]), INTEGER),
        (pa.array([1.1]), PRICE),
        (pa.array(["1.10"]), PRICE),
        (pa.array(["2024-01-31"]), DATE),
        (pa.array(["7"]), BIGINT),
        (pa.array(["1.5"]), DOUBLE),
        (pa.array([0], pa.timestamp("ns")), TIMESTAMP),
        (pa.array([0], pa.timestamp("ns")), DATE),
        (pa.array([Decimal("1.1")]), DOUBLE),
        (pa.array([Decimal("1.1")]), PRICE),
        (pa.array([2**64 - 1], pa.uint64()), HUGEINT),
        (pa.array([1.0]), HUGEINT),
        (pa.array([7], pa.int64()), DECIMAL(38, 20)),
    ],
)
def test_the_fast_way_is_taken(array, type_):
    assert fast_cast(array, type_) is not None
