"""Text: what is printed is read back as the same expression, and reads as SQL."""

from __future__ import annotations

import expr_oracle as oracle
import pytest
from expr_strategies import exprs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.expr import (
    Call,
    Cast,
    Const,
    Expr,
    TokenStream,
    Var,
    build,
    parse,
    parse_expr,
    to_text,
    variables,
)
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
    TIMESTAMP,
    VARCHAR,
    SqlType,
)

QUICK = settings(deadline=None, max_examples=250, suppress_health_check=list(HealthCheck), derandomize=True)


@QUICK
@given(exprs(depth=4))
def test_text_is_read_back_as_the_same_expression(expr: Expr) -> None:
    again = parse(to_text(expr), oracle.VARS)
    assert again == expr
    assert (again.type, again.nullable) == (expr.type, expr.nullable)


@QUICK
@given(st.text(min_size=1), st.text())
def test_names_and_strings_of_any_characters(name: str, value: str) -> None:
    variable = Var(name, VARCHAR)
    expr = Call("=", (variable, Const(value, VARCHAR)))
    assert parse(to_text(expr), {name: variable}) == expr


@QUICK
@given(st.floats(), st.integers(-(10**37), 10**37), st.integers(1, 38), st.data())
def test_constants_of_every_type(x: float, n: int, precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    decimal = DECIMAL(precision, scale)
    constants = [
        build.literal(x),
        build.literal(n),
        Const(n % 10**precision, decimal),
        Const(-(n % 10**precision), decimal),
        Const(n % 2**40, BIGINT),
        Const(n % 2**31, INTEGER),
        Const(n, HUGEINT),
        Const(n % 10**6 - 800_000, DATE),
        Const(n % 10**17 - 10**16 * 7, TIMESTAMP),
        Const((n % 99 - 50, n % 7, -n % 10**9), INTERVAL),
    ]
    for constant in constants:
        assert parse(to_text(constant), {}) == constant
        negative = Call("-", (Var("v", constant.type), constant)) if constant.type.is_numeric else constant
        assert parse(to_text(negative), {"v": Var("v", constant.type)}) == negative


def var(name: str, type_: SqlType) -> Var:
    return Var(name, type_)


PRICE, DISCOUNT = var("l_extendedprice", DECIMAL(15, 2)), var("l_discount", DECIMAL(15, 2))
A, B, C = var("a", BOOLEAN), var("b", BOOLEAN), var("c", BOOLEAN)
X, Y = var("x", INTEGER), var("y", INTEGER)

PRINTED = [
    (
        build.call("*", PRICE, build.call("-", build.number("1.00"), DISCOUNT)),
        "l_extendedprice * (1.00 - l_discount)",
    ),
    (build.call("<", var("o_date", DATE), build.literal("1995-01-01")), "o_date < DATE '1995-01-01'"),
    (Cast(X, DOUBLE), "CAST(x AS DOUBLE)"),
    (build.case([(A, X)], Y), "CASE WHEN a THEN x ELSE y END"),
    (build.call("coalesce", X, Y), "coalesce(x, y)"),
    (build.call("nullif", X, Y), "CASE WHEN x = y THEN NULL::INTEGER ELSE x END"),
    (build.conjunction([A, build.disjunction([B, C])]), "a AND (b OR c)"),
    (Call("or", (Call("and", (A, B)), Call("not", (C,)))), "a AND b OR NOT c"),
    (Call("and", (Call("and", (A, B)), C)), "(a AND b) AND c"),
    (Call("=", (Call("=", (X, Y)), A)), "(x = y) = a"),
    (Call("not", (Call("is_null", (X,)),)), "x IS NOT NULL"),
    (build.in_list(X, [build.literal(1), build.literal(2)]), "x IN (1, 2)"),
    (build.call("-", X, build.call("-", Y, X)), "x - (y - x)"),
    (build.call("-", build.call("-", X, Y), X), "x - y - x"),
    (build.call("neg", build.call("neg", X)), "-(-x)"),
    (build.call("*", build.call("neg", X), Y), "-x * y"),
    (Call("neg", (Const(5, INTEGER),)), "-(5)"),
    (Const(-5, INTEGER), "-5"),
    (Const(7, BIGINT), "7::BIGINT"),
    (Const(2**31, BIGINT), "2147483648"),
    (Const(150, DECIMAL(3, 2)), "1.50"),
    (Const(150, DECIMAL(15, 2)), "1.50::DECIMAL(15,2)"),
    (Const(1.0, DOUBLE), "1.0e0"),
    (Const(0.5, REAL), "0.5e0::REAL"),
    (Const(float("nan"), DOUBLE), "'nan'::DOUBLE"),
    (Const("it's", VARCHAR), "'it''s'"),
    (Const(None, DATE), "NULL::DATE"),
    (Const(True, BOOLEAN), "TRUE"),
    (Const((1, 2, 3), INTERVAL), "INTERVAL (1, 2, 3)"),
    (Call("=", (Var("order", INTEGER), Var("o id", INTEGER))), 'order = "o id"'),
    (Call("=", (Var("case", INTEGER), Var("l.o_id", INTEGER))), '"case" = l.o_id'),
]


@pytest.mark.parametrize(("expr", "text"), PRINTED)
def test_printed_form(expr: Expr, text: str) -> None:
    assert to_text(expr) == text
    assert parse(text, {v.name: v for v in variables(expr)}) == expr


def test_an_expression_inside_another_language() -> None:
    stream = TokenStream("orders(k, p) * [p > 10] * ⟨p + 1⟩")
    assert stream.name() == "orders"
    stream.expect("(")
    assert [stream.name(), stream.accept(","), stream.name()] == ["k", True, "p"]
    stream.expect(")", "*", "[")
    p = {"p": Var("p", INTEGER)}
    assert to_text(parse_expr(stream, p)) == "p > 10"
    stream.expect("]", "*", "⟨")
    assert to_text(parse_expr(stream, p)) == "p + 1"
    stream.expect("⟩")
    stream.end()


WRONG = [
    ("x +", Code.SYNTAX, "line 1, column 4"),
    ("x +\n  )", Code.SYNTAX, "line 2, column 3"),
    ("x y", Code.SYNTAX, "column 3"),
    ("z", Code.NOT_FOUND, "z"),
    ("nofun(x)", Code.NOT_FOUND, "nofun"),
    ("x + 'a'", Code.TYPE, "INTEGER and VARCHAR"),
    ("CASE WHEN a THEN x", Code.SYNTAX, "END"),
    ("CAST(x AS NOTYPE)", Code.TYPE, "NOTYPE"),
    ("(x", Code.SYNTAX, "')'"),
    ("x = y = x", Code.TYPE, "BOOLEAN and INTEGER"),
    ("'open", Code.SYNTAX, "column 1"),
]


@pytest.mark.parametrize(("text", "code", "part"), WRONG)
def test_mistakes_are_placed(text: str, code: str, part: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        parse(text, {"x": X, "y": Y, "a": A})
    assert caught.value.code == code
    assert part in str(caught.value)
