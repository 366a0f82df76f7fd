"""Typed construction: literals, messages a user sees, and the few functions built from others."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import expr_oracle as oracle
import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Call, Cast, Const, build, substitute, to_text
from everfresh.types import BOOLEAN, INTEGER, NULL

V = oracle.VARS


@pytest.mark.parametrize(
    ("value", "text", "type_"),
    [
        (None, "NULL", "NULL"),
        (True, "TRUE", "BOOLEAN"),
        (7, "7", "INTEGER"),
        (-(2**31), "-2147483648", "INTEGER"),
        (2**31, "2147483648", "BIGINT"),
        (2**63, "9223372036854775808", "HUGEINT"),
        (2**127, "1.7014118346046923e+38", "DOUBLE"),
        (1.5, "1.5e0", "DOUBLE"),
        (-0.0, "0.0e0", "DOUBLE"),
        (Decimal("1.50"), "1.50", "DECIMAL(3,2)"),
        (Decimal("0.05"), "0.05", "DECIMAL(3,2)"),
        (Decimal("1e3"), "1000::DECIMAL(4,0)", "DECIMAL(4,0)"),
        ("a", "'a'", "VARCHAR"),
        (dt.date(2020, 1, 31), "DATE '2020-01-31'", "DATE"),
        (dt.timedelta(days=1, seconds=2), "INTERVAL (0, 1, 2000000)", "INTERVAL"),
        (dt.datetime(2020, 1, 31, 1), "TIMESTAMP '2020-01-31 01:00:00'", "TIMESTAMP"),
    ],
)
def test_literals(value: Any, text: str, type_: str) -> None:
    made = build.literal(value)
    assert (to_text(made), str(made.type)) == (text, type_)


MISTAKES = [
    (lambda: build.call("+", V["s"], V["i"]), Code.TYPE, "cannot add VARCHAR and INTEGER"),
    (lambda: build.call("<", V["i"], V["s"]), Code.TYPE, "cannot compare INTEGER and VARCHAR"),
    (lambda: build.call("neg", V["s"]), Code.TYPE, "cannot negate VARCHAR"),
    (lambda: build.call("lenght", V["s"]), Code.NOT_FOUND, "did you mean length"),
    (lambda: build.call("upper", V["i"]), Code.TYPE, "upper does not take (INTEGER)"),
    (lambda: build.call("upper"), Code.TYPE, "upper does not take ()"),
    (lambda: build.call("nullif", V["i"]), Code.TYPE, "nullif takes 2 arguments, not 1"),
    (
        lambda: build.call("=", V["da"], build.literal("2020-02-30")),
        Code.VALUE,
        "cannot read '2020-02-30' as DATE",
    ),
    (lambda: build.case([(V["b"], V["s"])], V["i"]), Code.TYPE, "cannot mix VARCHAR and INTEGER in CASE"),
    (lambda: build.between(V["i"], V["s"], V["i"]), Code.TYPE, "cannot mix INTEGER and VARCHAR in BETWEEN"),
    (lambda: build.cast(V["da"], INTEGER), Code.TYPE, "DATE cannot be cast to INTEGER"),
    (lambda: build.call("date_part", V["s"], V["da"]), Code.UNSUPPORTED, "must be a constant"),
    (
        lambda: build.call("date_part", build.literal("fortnight"), V["da"]),
        Code.VALUE,
        "'fortnight' is not a part",
    ),
    (lambda: build.call("round", V["m"], V["i"]), Code.TYPE, "must be a constant integer"),
    (lambda: build.literal(object()), Code.TYPE, "a object is not a SQL value"),
]


@pytest.mark.parametrize(("make", "code", "message"), MISTAKES)
def test_mistakes(make: Any, code: str, message: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        make()
    assert caught.value.code == code
    assert message in str(caught.value)


def test_explicit_casts_no_longer_bend() -> None:
    one = build.literal(1)
    assert str(build.call("+", V["si"], one).type) == "SMALLINT"
    assert str(build.call("+", V["si"], build.cast(one, INTEGER)).type) == "INTEGER"
    assert isinstance(build.cast(one, INTEGER), Cast)
    assert build.cast(V["i"], INTEGER) is V["i"]


def test_empty_lists_and_single_conditions() -> None:
    assert build.conjunction([]) == Const(True, BOOLEAN)
    assert build.disjunction([]) == Const(False, BOOLEAN)
    assert build.conjunction([V["b"]]) is V["b"]
    assert build.in_list(V["i"], []) == Const(False, BOOLEAN)
    assert build.case([], build.literal(3)) == build.literal(3)
    assert build.common([build.literal(None)]) == NULL


def test_nullability_follows_the_function() -> None:
    i = substitute(V["i"], {})
    for name, args, nullable in (
        ("is_null", [i], False),
        ("coalesce", [i, build.literal(1)], False),
        ("+", [i, i], True),
        ("greatest", [i, build.literal(1)], False),
        ("concat", [V["s"]], False),
        ("in", [i, build.literal(1)], True),
        ("truth", [V["b"]], False),
    ):
        assert build.call(name, *args).nullable is nullable, name


def test_nodes_survive_pickling() -> None:
    made = build.call("+", V["m"], build.literal(1))
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.type == made.type
    assert isinstance(again, Call)
