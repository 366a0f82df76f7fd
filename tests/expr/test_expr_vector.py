"""Vectors: Arrow in and out, selection, joining; and what the evaluator promises about errors and strings."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import expr_oracle as oracle
import numpy as np
import pyarrow as pa
import pytest
from expr_strategies import domain, single

from everfresh.errors import Code, EverfreshError
from everfresh.expr import FUNCTIONS, Call, Cast, Function, Var, Vector, build, concat, evaluate_vector, parse
from everfresh.expr.column import dtype_of
from everfresh.expr.library.casts import cast_value, castable
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    REAL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    to_arrow,
    to_physical,
)

EVERY = list(dict.fromkeys(oracle.TYPES.values()))


def sample(type_: SqlType) -> list[object]:
    return [None if i % 3 == 1 else single(v, type_) for i, v in enumerate(domain(type_) * 2)]


@pytest.mark.parametrize("type_", EVERY, ids=str)
def test_arrow_round_trip_also_of_slices(type_: SqlType) -> None:
    values = sample(type_)
    vector = Vector.from_pylist(values, type_)
    array = vector.to_arrow()
    assert array.type == to_arrow(type_)
    assert array.null_count == values.count(None)
    assert repr(Vector.from_arrow(array, type_).to_pylist()) == repr(values)
    assert repr(Vector.from_arrow(array.slice(2, 5), type_).to_pylist()) == repr(values[2:7])
    chunks = pa.chunked_array([array.slice(0, 3), array.slice(3)])
    assert repr(Vector.from_arrow(chunks, type_).to_pylist()) == repr(values)
    assert vector.values.dtype == (np.int64 if type_ == VARCHAR else dtype_of(type_))


@pytest.mark.parametrize("type_", EVERY, ids=str)
def test_selection_and_joining(type_: SqlType) -> None:
    values = sample(type_)
    vector = Vector.from_pylist(values, type_)
    mask = np.arange(len(values)) % 2 == 0
    assert repr(vector.filter(mask).to_pylist()) == repr(values[::2])
    assert repr(vector.take(np.array([2, 0])).to_pylist()) == repr([values[2], values[0]])
    joined = concat(
        [vector.filter(mask), Vector.constant(values[0], type_, 2), vector.take(np.array([], np.int64))]
    )
    assert repr(joined.to_pylist()) == repr([*values[::2], values[0], values[0]])
    assert len(Vector.constant(None, type_, 4)) == 4
    assert Vector.constant(None, type_, 4).to_pylist() == [None] * 4


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (Decimal("-123456789012345.678"), DECIMAL(18, 3)),
        (Decimal(10) ** 37, HUGEINT),
        (-(2**64), HUGEINT),
        (Decimal("-99999999999999999999.5"), DECIMAL(30, 1)),
        (2**63, HUGEINT),
    ],
)
def test_decimals_by_their_words(value: Decimal, type_: SqlType) -> None:
    array = pa.array([None, Decimal(value), Decimal(1)], type=to_arrow(type_))
    assert Vector.from_arrow(array, type_).to_pylist() == [
        None,
        to_physical(value, type_),
        to_physical(1, type_),
    ]


def test_undefined_null_slots_of_decimals_do_not_leak() -> None:
    data = np.array([[7, 0], [-5, 123]], dtype=np.int64)  # the second slot is NULL and holds nonsense
    array = pa.Array.from_buffers(
        pa.decimal128(9, 2), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(data.tobytes())]
    )
    vector = Vector.from_arrow(array, DECIMAL(9, 2))
    assert vector.to_pylist() == [7, None]
    assert vector.values.tolist() == [7, 0]


def test_other_arrow_types_are_converted_or_refused() -> None:
    assert Vector.from_arrow(pa.array([1, 2], pa.int8()), BIGINT).to_pylist() == [1, 2]
    assert Vector.from_arrow(pa.array(["a", None], pa.large_string()), VARCHAR).to_pylist() == ["a", None]
    coded = pa.array(["b", "a", None, "b"]).dictionary_encode()
    assert Vector.from_arrow(coded, VARCHAR).to_pylist() == ["b", "a", None, "b"]
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["x", "x", None]))
    vector = Vector.from_arrow(twice, VARCHAR)
    assert (vector.to_pylist(), vector.dictionary.tolist()) == (["x", "x", None], ["x"])  # type: ignore[union-attr]
    seconds = pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("s"))
    assert Vector.from_arrow(seconds, TIMESTAMP).to_pylist() == [1577836800000000]
    with pytest.raises(EverfreshError) as caught:
        Vector.from_arrow(pa.array([300]), oracle.TYPES["ti"])
    assert caught.value.code == Code.VALUE


def test_floats_are_canonical() -> None:
    odd = np.array([-0.0, np.frombuffer(b"\x01\0\0\0\0\0\xf8\xff", np.float64)[0]])
    for vector in (Vector.from_arrow(pa.array(odd), DOUBLE), Vector.from_pylist(odd.tolist(), DOUBLE)):
        assert vector.values.tobytes() == np.array([0.0, np.nan]).tobytes()
    assert Vector.from_pylist([-0.0], REAL).values.tobytes() == np.zeros(1, np.float32).tobytes()
    made = evaluate_vector(parse("0e0 / d", oracle.VARS), {"d": Vector.from_pylist([0.0, -1.0], DOUBLE)}, 2)
    assert made.values.tobytes() == np.array([np.nan, 0.0]).tobytes()


def test_the_first_failing_row_is_named() -> None:
    columns = {
        "i": Vector.from_pylist([1, None, 2**31 - 1, 2**31 - 1], INTEGER),
        "b": Vector.constant(True, BOOLEAN, 4),
    }
    for sql, code in (
        ("i + 1", Code.OVERFLOW),
        ("i // (2147483647 - i)", Code.DIVISION_BY_ZERO),
        ("CASE WHEN b THEN i + 1 ELSE 0 END", Code.OVERFLOW),
    ):
        with pytest.raises(EverfreshError) as caught:
            evaluate_vector(parse(sql, oracle.VARS, build.MAKERS), columns, 4)
        assert (caught.value.row, caught.value.code) == (2, code)  # type: ignore[attr-defined]
    with pytest.raises(EverfreshError, match=r"2147483647 \+ 1 is outside INTEGER"):
        evaluate_vector(parse("i + 1", oracle.VARS), columns, 4)


@pytest.mark.parametrize(("low", "high"), [(2**62, 2**62), (-(2**63), -1), (2**63 - 1, 1)])
def test_sums_at_the_edge_of_64_bits(low: int, high: int) -> None:
    columns = {"bi": Vector.from_pylist([0, low], BIGINT), "x": Vector.from_pylist([0, high], BIGINT)}
    with pytest.raises(EverfreshError) as caught:
        evaluate_vector(Call("+", (Var("bi", BIGINT), Var("x", BIGINT))), columns, 2)
    assert caught.value.code == Code.OVERFLOW
    apart = {"bi": Vector.from_pylist([0, low], BIGINT), "x": Vector.from_pylist([high, 0], BIGINT)}
    assert evaluate_vector(Call("+", (Var("bi", BIGINT), Var("x", BIGINT))), apart, 2).to_pylist() == [
        high,
        low,
    ]


def test_functions_of_strings_run_once_per_distinct_value(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    row = FUNCTIONS["upper"]
    counted = Function(row.name, row.typing, lambda types, s: seen.append(s) or s.upper())
    monkeypatch.setitem(FUNCTIONS, "upper", counted)
    column = Vector.from_pylist(["a", "b", None, "a"] * 1000, VARCHAR)
    made = evaluate_vector(parse("upper(s)", oracle.VARS), {"s": column}, 4000)
    assert made.to_pylist()[:4] == ["A", "B", None, "A"]
    assert sorted(seen) == ["a", "b"]


def test_a_guard_keeps_an_error_away() -> None:
    columns = {
        "i": Vector.from_pylist([6, 6, 6, None], INTEGER),
        "j": Vector.from_pylist([2, 0, 3, 0], INTEGER),
    }
    for sql, wanted in (
        ("CASE WHEN j <> 0 THEN i // j END", [3, None, 2, None]),
        ("j <> 0 AND i // j > 2", [True, False, False, False]),
        ("j = 0 OR i // j > 2", [True, True, False, True]),
        ("coalesce(nullif(j, 0), i // 1)", [2, 6, 3, None]),
    ):
        assert evaluate_vector(parse(sql, oracle.VARS, build.MAKERS), columns, 4).to_pylist() == wanted


def test_no_rows_and_results_that_are_stored() -> None:
    empty = {name: Vector.from_pylist([], type_) for name, type_ in oracle.TYPES.items()}
    for sql in (
        "m * 2",
        "s || 'x'",
        "CASE WHEN b THEN s END",
        "i IN (1, 2)",
        "upper(s) = t",
        "iv + iv",
        "1 + 1",
    ):
        expr = parse(sql, oracle.VARS, build.MAKERS)
        assert evaluate_vector(expr, empty, 0).to_pylist() == []
        assert evaluate_vector(expr, empty, 0).type == expr.type
    constant = evaluate_vector(build.literal(7), {}, 3)
    assert constant.values.flags.c_contiguous
    assert constant.to_pylist() == [7, 7, 7]


TARGETS = [*EVERY, DECIMAL(4, 1), DECIMAL(18, 0), DECIMAL(38, 10)]
PAIRS = [(a, b) for a in EVERY for b in TARGETS if castable(a, b)]


@pytest.mark.parametrize(("source", "to"), PAIRS, ids=str)
def test_casts_of_vectors_are_those_of_scalars(source: SqlType, to: SqlType) -> None:
    expr, good = Cast(Var("x", source), to), []
    for value in sample(source):
        column = {"x": Vector.from_pylist([value, value], source)}
        try:
            wanted = cast_value(value, source, to)
            good.append((value, wanted))
            assert repr(evaluate_vector(expr, column, 2).to_pylist()) == repr([wanted] * 2)
        except EverfreshError as error:
            with pytest.raises(EverfreshError, match=re.escape(error.message)):
                evaluate_vector(expr, column, 2)
    column = {"x": Vector.from_pylist([value for value, _ in good], source)}
    assert repr(evaluate_vector(expr, column, len(good)).to_pylist()) == repr([wanted for _, wanted in good])


def test_columns_are_read_only() -> None:
    columns = {
        "b": Vector.from_pylist([True, False, False], BOOLEAN),
        "c": Vector.from_pylist([False, True, None], BOOLEAN),
    }
    columns["b"].values.flags.writeable = False
    assert evaluate_vector(parse("b OR c", oracle.VARS), columns, 3).to_pylist() == [True, True, None]


def test_null_slots_hold_code_zero_after_dictionaries_are_merged() -> None:
    joined = concat([Vector.from_pylist(["a", "b"], VARCHAR), Vector.from_pylist([None, "c"], VARCHAR)])
    assert joined.to_pylist() == ["a", "b", None, "c"]
    assert joined.values[2] == 0
