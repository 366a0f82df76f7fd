"""Values over the parts of a product: the monomials of a value add up to it, whatever the parts are.

Mutations that the property catches (tried by hand): the sign of a subtrahend lost; a cast that does not scale
its monomials; `CASE` without its `- [c] y`; NULL in one summand that does not make the sum NULL.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.compiler.viewlet.polynomial import Monomial, polynomial
from everfresh.errors import EverfreshError
from everfresh.expr import Const, Expr, Var, build, evaluate, variables
from everfresh.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INTEGER

NAMES = "abcdef"
VARS = [
    Var("a", BIGINT, False), Var("b", BIGINT), Var("c", DECIMAL(9, 2), False), Var("d", DECIMAL(9, 2)),
    Var("e", INTEGER), Var("f", INTEGER, False),
]  # fmt: skip


@st.composite
def exact(draw: Any, depth: int = 3) -> Expr:
    """An exact number over several variables."""
    if depth == 0:
        return draw(st.one_of(st.sampled_from(VARS), st.integers(-3, 3).map(lambda n: Const(n, BIGINT))))
    x, y = draw(exact(depth - 1)), draw(exact(draw(st.integers(0, depth - 1))))
    condition = build.call(
        draw(st.sampled_from(["<", "=", ">="])), draw(st.sampled_from(VARS)), Const(1, BIGINT)
    )
    makes = {
        "+": lambda: build.call("+", x, y),
        "-": lambda: build.call("-", x, y),
        "*": lambda: build.call("*", x, y),
        "neg": lambda: build.call("neg", x),
        "cast": lambda: build.cast(x, DECIMAL(30, 4)),
        "case": lambda: build.case([(condition, x)], y),
        "case of NULL": lambda: build.case([(condition, x)], Const(None, x.type)),
    }
    try:
        found: Expr = makes[draw(st.sampled_from(list(makes)))]()
    except EverfreshError:  # too many digits
        return x
    return found if found.type.is_exact else x


def value(expr: Expr) -> Expr:
    """What lowering adds up: never NULL."""
    return build.call("if_null_zero", expr) if expr.nullable else expr


def total(monomials: list[Monomial], env: dict[str, Any]) -> int:
    found = 0
    for m in monomials:
        term = m.coefficient
        for _, factor in m.factors:
            term *= int(evaluate(factor, env))
        found += term
    return found


ENV = st.fixed_dictionaries(
    {v.name: st.one_of(st.none(), st.integers(-9, 9)) if v.nullable else st.integers(-9, 9) for v in VARS}
)
PARTS = st.one_of(
    st.just({name: i for i, name in enumerate(NAMES)}),
    st.fixed_dictionaries({name: st.sampled_from([0, 1, 2, None]) for name in NAMES}),
)


@settings(max_examples=max(400, settings().max_examples))
@given(exact().map(value), PARTS, st.lists(ENV, min_size=1, max_size=4))
def test_monomials_add_up_to_the_value(
    expr: Expr, parts: dict[str, int | None], envs: list[dict[str, Any]]
) -> None:
    monomials = polynomial(expr, parts.get)
    if monomials is None:
        return
    for m in monomials:
        assert len({part for part, _ in m.factors}) == len(m.factors)  # one factor per part
        for part, factor in m.factors:
            assert {parts[v.name] for v in variables(factor)} <= {part}
    for env in envs:
        try:
            expected = evaluate(expr, env)
        except EverfreshError:  # overflow: a monomial may not have it
            continue
        assert total(monomials, env) == expected


A, C, D = VARS[0], VARS[2], VARS[3]


@pytest.mark.parametrize(
    ("expr", "terms"),
    [
        (build.call("*", A, C), 1),
        (build.call("-", A, VARS[5]), 2),
        (build.call("neg", build.call("+", A, VARS[5])), 2),
        (build.call("*", build.call("+", A, VARS[5]), build.call("-", A, VARS[5])), 4),
        (build.case([(build.call(">", A, VARS[5]), A)], VARS[5]), None),  # the condition spans two parts
        (build.case([(build.call(">", A, Const(1, BIGINT)), C)], build.call("neg", C)), 3),
        (build.call("/", A, VARS[5]), None),
        (build.call("*", build.cast(A, DOUBLE), build.cast(C, DOUBLE)), None),  # only exact numbers
    ],
)
def test_what_factors(expr: Expr, terms: int | None) -> None:
    found = polynomial(expr, {n: i for i, n in enumerate(NAMES)}.get)
    assert (None if found is None else len(found)) == terms


def test_one_part_stays_whole() -> None:
    expr = build.call("/", A, C)
    assert polynomial(expr, lambda _: 7) == [Monomial(1, ((7, expr),))]
    assert polynomial(Const(0, BIGINT), lambda _: 7) == []
    assert polynomial(Const(5, BIGINT), lambda _: 7) == [Monomial(5, ())]


def test_null_in_one_part_is_zero_in_all() -> None:
    b, d = Var("b", BIGINT), Var("d", BIGINT)
    monomials = polynomial(build.call("if_null_zero", build.call("+", b, d)), {"b": 0, "d": 1}.get)
    assert monomials is not None
    for env in ({"b": None, "d": 4}, {"b": 3, "d": None}, {"b": None, "d": None}):
        assert total(monomials, env) == 0
    assert total(monomials, {"b": 3, "d": 4}) == 7
    truth = build.call("truth", build.call("and", Var("x", BOOLEAN), Var("y", BOOLEAN)))
    monomials = polynomial(truth, {"x": 0, "y": 1}.get)
    assert monomials is not None
    assert [total(monomials, {"x": x, "y": y}) for x, y in [(True, True), (True, None), (False, None)]] == [
        1,
        0,
        0,
    ]
