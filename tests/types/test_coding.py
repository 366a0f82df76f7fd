"""Codes of values: they read back, and compare as the values do."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.expr.library.readers import read
from everfresh.expr.library.render import render
from everfresh.expr.nodes import Const
from everfresh.expr.text import parse, to_text
from everfresh.types import (
    DECIMAL,
    LIST,
    STRUCT,
    SqlType,
    from_arrow,
    parse_type,
    to_arrow,
    to_logical,
    to_physical,
)
from everfresh.types.exchange import arrow_of, physical

_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "UBIGINT": st.integers(0, 2**64 - 1),
    "HUGEINT": st.integers(-(10**38) + 1, 10**38 - 1),
    "DECIMAL(9,2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.floats(),
    "VARCHAR": st.text(max_size=5),
    "BLOB": st.binary(max_size=5),
    "UUID": st.uuids(),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes(),
}


def _types() -> st.SearchStrategy[SqlType]:
    leaves = st.sampled_from([parse_type(name) for name in _LEAVES])
    names = st.lists(st.sampled_from(["a", "B c", 'q"', "select", "é"]), min_size=1, max_size=3, unique=True)

    def nested(inner: st.SearchStrategy[SqlType]) -> st.SearchStrategy[SqlType]:
        structs = names.flatmap(
            lambda ns: st.tuples(*[inner] * len(ns)).map(lambda ts: STRUCT(list(zip(ns, ts, strict=True))))
        )
        return st.one_of(inner.map(LIST), structs)

    return st.recursive(leaves, nested, max_leaves=4).map(lambda t: t if t.is_nested else LIST(t))


def _values(type_: SqlType) -> st.SearchStrategy[Any]:
    if type_.name == "LIST":
        return st.lists(st.none() | _values(type_.inner[0]), max_size=3)
    if type_.name == "STRUCT":
        pairs = zip(type_.names, type_.inner, strict=True)
        return st.fixed_dictionaries({n: st.none() | _values(t) for n, t in pairs})
    return _LEAVES[str(type_)]


_CASES = _types().flatmap(lambda t: st.tuples(st.just(t), st.lists(_values(t), min_size=2, max_size=5)))


def _order(a: Any, b: Any, type_: SqlType) -> int:
    """SQL's order, by its rules: NULL is last inside, a list is before those that it begins."""
    if a is None or b is None:
        return (a is None) - (b is None)
    if type_.name == "LIST":
        pairs = zip(a, b, strict=False)
        found = next((o for x, y in pairs if (o := _order(x, y, type_.inner[0]))), 0)
        return found or (len(a) > len(b)) - (len(a) < len(b))
    if type_.name == "STRUCT":
        named = zip(type_.names, type_.inner, strict=True)
        return next((o for n, t in named if (o := _order(a[n], b[n], t))), 0)
    if type_.is_float:
        a, b = ((math.isnan(x), 0.0 if math.isnan(x) else x) for x in (a, b))
    return (a > b) - (a < b)


@given(_CASES)
def test_codes_order_as_the_values_do(case: tuple[SqlType, list[Any]]) -> None:
    type_, values = case
    coded = sorted(values, key=lambda v: to_physical(v, type_))
    plain = sorted(values, key=cmp_to_key(lambda a, b: _order(a, b, type_)))
    assert [to_physical(v, type_) for v in coded] == [to_physical(v, type_) for v in plain]
    for a in values:
        for b in values:
            same = _order(a, b, type_) == 0
            assert same == (to_physical(a, type_) == to_physical(b, type_))


@given(_CASES)
def test_values_read_back_from_codes_arrow_and_text(case: tuple[SqlType, list[Any]]) -> None:
    type_, values = case
    codes = [to_physical(v, type_) for v in values]
    assert [to_physical(to_logical(c, type_), type_) for c in codes] == codes
    array = arrow_of([*codes, None], type_)
    assert array.type == to_arrow(type_)
    found = from_arrow(array.type)  # a HUGEINT has the Arrow type of a DECIMAL
    assert found is not None
    assert to_arrow(found) == to_arrow(type_)
    assert physical(array, type_) == [*codes, None]
    assert physical(array.slice(1), type_) == [*codes[1:], None]
    assert Vector.from_arrow(array, type_).to_arrow() == array
    assert parse_type(str(type_)) == type_
    for code in codes:
        assert parse(to_text(Const(code, type_)), {}) == Const(code, type_)


@given(_types().filter(lambda t: "REAL" not in str(t)).flatmap(lambda t: st.tuples(st.just(t), _values(t))))
def test_what_is_written_as_text_reads_back(case: tuple[SqlType, Any]) -> None:
    type_, value = case
    code = to_physical(value, type_)
    assert read(render(code, type_), type_) == code


@given(st.lists(st.none() | st.text(max_size=6), max_size=4))
def test_texts_of_lists_are_those_of_duckdb(values: list[str | None]) -> None:
    values = [v if v is None else v.replace("\x00", "") for v in values]
    type_ = parse_type("VARCHAR[]")
    [(expected,)] = duckdb.execute("SELECT CAST(?::VARCHAR[] AS VARCHAR)", [values]).fetchall()
    assert render(to_physical(values, type_), type_) == expected


@pytest.mark.parametrize("text", ["STRUCT()", "INTEGER[", "STRUCT(a INTEGER, A DATE)", "FOO[]", "MAP(DATE)"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(EverfreshError):
        parse_type(text)


def test_wide_and_rare_values() -> None:
    type_ = LIST(DECIMAL(38, 2))
    codes = [to_physical([Decimal("9" * 36 + ".99"), None], type_), to_physical([], type_)]
    assert physical(arrow_of(codes, type_), type_) == codes
    moments = LIST(SqlType("TIMESTAMPTZ"))
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert to_logical(to_physical([at], moments), moments) == [at]
    assert to_arrow(LIST(SqlType("UUID"))) == pa.list_(pa.uuid())
    assert to_physical([uuid.UUID(int=1)], LIST(SqlType("UUID")))
