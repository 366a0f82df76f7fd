"""Bags against `collections.Counter`, which keeps the same multisets one row at a time."""

import datetime as dt
import math
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.delta.bags import EPOCH, WEIGHT, difference, expand, net, subtract, weigh

FIELDS = {
    "i": (pa.int64(), st.integers(0, 2)),
    "d": (pa.decimal128(9, 2), st.sampled_from([Decimal("1.00"), Decimal("1.10")])),
    "s": (pa.string(), st.sampled_from(["", "a", "b\0"])),
    "f": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, 1.5])),
    "g": (pa.float32(), st.sampled_from([-0.0, 0.0, math.nan])),
    "b": (pa.bool_(), st.booleans()),
    "t": (pa.date32(), st.sampled_from([dt.date(2024, 1, 31), dt.date(1, 1, 1)])),
    "v": (
        pa.month_day_nano_interval(),
        st.sampled_from([pa.MonthDayNano([0, 1, 0]), pa.MonthDayNano([1, 0, 0])]),
    ),
}


def schema(names) -> pa.Schema:
    return pa.schema([(name, FIELDS[name][0]) for name in names])


@st.composite
def rows(draw, names, weighted=False):
    count = draw(st.integers(0, 8))
    values = [draw(st.lists(st.none() | FIELDS[name][1], min_size=count, max_size=count)) for name in names]
    table = pa.table(
        [pa.array(v, FIELDS[n][0]) for v, n in zip(values, names, strict=True)], schema=schema(names)
    )
    if not names:
        table = pa.table({"x": pa.nulls(count)}).select([])
    if weighted:
        weights = draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))
        table = table.append_column(WEIGHT, pa.array(weights, pa.int64()))
    if draw(st.booleans()) and names:  # two chunks
        table = pa.concat_tables([table.slice(0, count // 2), table.slice(count // 2)])
    return table


NAMES = st.lists(st.sampled_from(list(FIELDS)), unique=True, max_size=4)
ONE = NAMES.flatmap(lambda names: rows(names, weighted=True))
TWO = NAMES.flatmap(lambda names: st.tuples(rows(names), rows(names)))


def key(value):
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def counter(table: pa.Table, sign: int = 1) -> Counter:
    """The twin: a count for each row, NaN by name."""
    result: Counter = Counter()
    names = [name for name in table.column_names if name != WEIGHT]
    data = [table[name].to_pylist() for name in names]
    weights = table[WEIGHT].to_pylist() if WEIGHT in table.column_names else [1] * table.num_rows
    for i, weight in enumerate(weights):
        result[tuple(key(column[i]) for column in data)] += sign * weight
    return result


def nonzero(bag: Counter) -> dict:
    return {row: count for row, count in bag.items() if count}


@given(ONE)
def test_net(table):
    result = net(table)
    twin = nonzero(counter(table))
    assert result.schema == table.schema
    assert list(counter(result).items()) == list(twin.items())  # also the order of first appearance
    assert result.num_rows == len(twin)
    assert net(result).equals(result) or "nan" in str(result)


@given(ONE)
def test_expand(table):
    if any(weight < 0 for weight in table[WEIGHT].to_pylist()):
        with pytest.raises(ValueError):
            expand(table)
        return
    result = expand(table)
    assert result.schema == table.schema.remove(table.schema.get_field_index(WEIGHT))
    assert nonzero(counter(result)) == nonzero(counter(table))
    assert result.num_rows == sum(table[WEIGHT].to_pylist())


@given(TWO)
def test_subtract_undoes_a_change(tables):
    before, after = tables
    changes = pa.concat_tables([weigh(after), weigh(before, -1)]).append_column(
        EPOCH, pa.array([7] * (before.num_rows + after.num_rows), pa.int64())
    )
    result = subtract(after, changes)
    assert result.schema == after.schema
    assert nonzero(counter(result)) == nonzero(counter(before))


def test_subtract_notices_what_cannot_be():
    with pytest.raises(ValueError, match="-1 times"):
        subtract(pa.table({"a": [1]}), pa.table({"a": [2], WEIGHT: [1]}))


@given(TWO)
def test_difference(tables):
    expected, actual = tables
    result = difference(expected, actual)
    twin = counter(expected)
    twin.subtract(counter(actual))
    assert nonzero(counter(result)) == nonzero(twin)
    assert result.schema == weigh(expected).schema
    assert difference(expected, expected).num_rows == 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from([0.0, 1.0, -3.5, 1e300]), st.sampled_from([2.0, 7.0, None])
        )
    ),
    st.randoms(use_true_random=False),
)
def test_difference_forgives_the_last_bits(data, random):
    def table(noise):
        shaken = [(k, x * (1 + noise()), y if y is None else y * (1 + noise())) for k, x, y in data]
        random.shuffle(shaken)
        columns = zip(*shaken, strict=True) if data else ([], [], [])
        return pa.table(
            [list(c) for c in columns], schema=pa.schema([("k", "int64"), ("x", "double"), ("y", "double")])
        )

    one, two = table(lambda: 0.0), table(lambda: random.uniform(-1e-12, 1e-12))
    assert difference(one, two).num_rows == 0
    if nonzero(counter(one)) != nonzero(counter(two)):
        assert difference(one, two, tolerance=0).num_rows > 0


@pytest.mark.parametrize(
    ("expected", "actual", "weights"),
    [
        ([1.0], [1.0 + 1e-12], []),
        ([1.0], [1.0 + 1e-6], [1, -1]),
        ([1.0, 1.0], [1.0 + 1e-12], [1]),
        ([1.0], [1.0 + 1e-12, 1.0 - 1e-12], [-1]),
        ([0.0], [1e-300], [1, -1]),
        ([None], [0.0], [1, -1]),
        ([math.nan, math.inf], [math.nan, math.inf], []),
        ([math.inf], [-math.inf], [1, -1]),
        ([math.nan], [1.0], [1, -1]),
        ([1.0, 1.0 + 5e-10], [1.0 + 4e-10, 1.0 + 12e-10], []),  # only one of the two pairings works out
    ],
)
def test_difference_of_floats(expected, actual, weights):
    result = difference(
        pa.table({"x": pa.array(expected, pa.float64())}), pa.table({"x": pa.array(actual, pa.float64())})
    )
    assert result[WEIGHT].to_pylist() == weights


def test_difference_of_reals():
    one, two = (pa.table({"x": pa.array([x], pa.float32())}) for x in (1.0, 1.0 + 2**-23))
    assert difference(one, two).num_rows == 0
    assert difference(one, two, tolerance=0).num_rows == 2


def test_nullability_does_not_matter():
    strict = pa.table({"a": [1]}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    assert difference(strict, pa.table({"a": [None, 1]}, schema=pa.schema([("a", "int64")])))[
        WEIGHT
    ].to_pylist() == [-1]
    assert subtract(strict, pa.table({"a": [2], WEIGHT: [-1]})).to_pydict() == {"a": [1, 2]}
