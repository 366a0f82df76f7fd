"""Binding patterns, and what each stage refuses: one row per rule of the spec, so that none can be dropped
unseen.
"""

from __future__ import annotations

import pytest
from calculus_support import COLUMNS, queries
from hypothesis import given, settings

from everfresh.calculus import (
    DELTA,
    QUERY,
    STATEMENT,
    Exists,
    Lift,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    SpecError,
    Stage,
    Sum,
    Value,
    arity,
    check,
    delta,
    inputs,
    outputs,
    parse,
    pattern,
    product,
    relations,
    union,
)
from everfresh.calculus.nodes import ONE, ZERO, Bind, Cond, MapRef
from everfresh.expr import Const, Var, build
from everfresh.types import BIGINT

MAPS = {"M": (Var("k", BIGINT),)}
A, B, C, D, X, Y, Z = (Var(name, BIGINT) for name in "abcdxyz")


def query(text: str) -> Query:
    return parse(text, COLUMNS, MAPS)


def names(vars_: tuple[Var, ...]) -> str:
    return "".join(v.name for v in vars_)


# -- binding patterns ----------------------------------------------------------------------------------


def test_example_2_2_7() -> None:
    """In Example 2.2.4 all columns of R are outputs; in its nested query A is an input, the only variable."""
    whole = query("Sum_[a, b](R(a, b) * (z BIGINT :=: Sum_[](S(c, d) * [a > c] * ⟨d⟩)) * [b < z])")
    assert (names(inputs(whole)), names(outputs(whole))) == ("", "ab")
    nested = next(n for n in whole.walk() if isinstance(n, Lift)).body
    assert (names(inputs(nested)), names(outputs(nested))) == ("a", "")
    # the delta for a single tuple (x, y) of S: [a > x] * ⟨y⟩
    single = Prod((Cond(build.call(">", A, X)), Value((Y,))))
    assert (names(inputs(single)), names(outputs(single))) == ("axy", "")


@pytest.mark.parametrize(
    ("made", "ins", "outs"),
    [
        (Rel("R", (X, Y)), "", "xy"),
        (Rel("R", (X, X)), "", "x"),
        (MapRef("M", (Y,)), "", "y"),
        (Cond(build.call("<", Y, X)), "yx", ""),
        (Value((X, build.call("+", Y, X))), "xy", ""),
        (Bind(Z, build.call("+", X, Y)), "xy", "z"),
        (ONE, "", ""),
        (ZERO, "", ""),
        # an input of a later factor may be an output of an earlier one, never the other way round
        (Prod((Rel("R", (X, Y)), Cond(build.call("<", X, Y)))), "", "xy"),
        (Prod((Cond(build.call("<", X, Y)), Rel("R", (X, Y)))), "xy", "xy"),
        (Prod((Rel("R", (X, Y)), Rel("S", (Y, X)))), "", "xy"),
        (Prod((Rel("T", (Z,)), Rel("R", (X, Y)), Rel("S", (X, Z)))), "", "zxy"),
        (Plus((Rel("R", (X, Y)), Rel("S", (Y, X)))), "", "xy"),
        (Neg(Value((X,))), "x", ""),
        (Sum((Y,), Rel("R", (X, Y))), "", "y"),
        (
            Sum((Z, Y), Rel("R", (X, Y))),
            "z",
            "zy",
        ),  # a group variable that the body does not bind comes from outside
        (Lift(Z, Sum((X,), Rel("R", (X, Y)))), "", "xz"),
        (Lift(Z, Value((X,)), True), "x", "z"),
        (
            Lift(Z, Sum((X,), Rel("R", (X, Y))), True),
            "x",
            "xz",
        ),  # a closed lift has a row for every x there is
        (Exists(Prod((Rel("R", (X, Y)), Cond(build.call("=", X, Z))))), "z", "xy"),
    ],
)
def test_patterns(made: Query, ins: str, outs: str) -> None:
    assert (names(inputs(made)), names(outputs(made))) == (ins, outs)


def test_an_unknown_node_has_no_pattern() -> None:
    with pytest.raises(TypeError, match="no binding pattern"):
        pattern(Query())


def test_arity() -> None:
    assert arity(query("R(x, y)")) == 0
    assert arity(query("Sum_[x](R(x, y) * ⟨y, x⟩ + R(x, y))")) == 2
    assert arity(query("M[x](0, 1, 1)")) == 2
    # what stands under a lift or Exists has an arity of its own
    assert arity(query("(v BIGINT :=: R(x, y) * ⟨y⟩) * Exists(T(x) * ⟨x, x, x⟩)")) == 0


def test_constructors_flatten() -> None:
    r, s, t = Rel("R", (X, Y)), Rel("S", (Y, Z)), Rel("T", (X,))
    assert product(r, product(s, t), ONE) == Prod((r, s, t))
    assert product(r) is r
    assert product() == ONE
    assert union(r, union(s, t), ZERO) == Plus((r, s, t))
    assert union(t) is t
    assert union() == ZERO
    both = Prod((r, Rel("S", (Y, Z), True), r))
    assert relations(both) == ("R",)
    assert relations(both, delta=True) == ("S",)


# -- the spec ------------------------------------------------------------------------------------------

LEGAL: list[tuple[str, list[Stage]]] = [
    ("Sum_[x](R(x, y) * [x < y] * ⟨y⟩)", [QUERY, DELTA, STATEMENT]),
    ("Sum_[x](ΔR(x, y) * S(y, z))", [DELTA, STATEMENT]),
    ("ΔR(x, y)", [DELTA, STATEMENT]),
    ("ΔR(x, y) * M[y](0)", [STATEMENT]),
    ("M[y](0, 1) * ⟨y⟩", [STATEMENT]),
    ("R(x, y) * (v BIGINT :=! Sum_[x](S(x, z) * ⟨z⟩))", [QUERY, DELTA, STATEMENT]),
    ("1", [QUERY, DELTA, STATEMENT]),
]


@pytest.mark.parametrize(("text", "stages"), LEGAL)
def test_stages(text: str, stages: list[Stage]) -> None:
    made = query(text)
    for stage in (QUERY, DELTA, STATEMENT):
        if stage in stages:
            assert check(made, stage) is made
        else:
            with pytest.raises(SpecError, match=f"may not stand in a {stage.name}"):
                check(made, stage)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        # closed patterns
        (Cond(build.call("<", X, Y)), "x, y not bound"),
        (Prod((Value((X,)), Rel("T", (X,)))), "x not bound"),
        (Lift(Z, Sum((X,), Rel("R", (X, Y))), True), "x not bound"),
        # terms with the same outputs
        (Plus((Rel("R", (X, Y)), Rel("T", (X,)))), "different outputs"),
        (Exists(Plus((Rel("T", (X,)), Rel("T", (Y,))))), "different outputs"),
        (Plus((Rel("T", (X,)), ZERO)), "different outputs"),
        # one arity
        (
            Plus((Value((Const(1, BIGINT),)), Value((Const(1, BIGINT), Const(2, BIGINT))))),
            "1 values beside terms with 2",
        ),
        (Prod((Rel("T", (X,)), Value((X,)), Value((X, X)))), "1 values beside terms with 2"),
        (Exists(Prod((Value(()), Value((Const(1, BIGINT),))))), "0 values beside terms with 1"),
        (Lift(Z, Value((Const(1, BIGINT), Const(1, BIGINT)))), "lifted query has 2 values"),
        # names are local where they look local
        (Prod((Rel("T", (X,)), Sum((), Rel("T", (X,))))), "x is summed over and bound outside"),
        (Prod((Rel("T", (Y,)), Exists(Sum((X,), Rel("R", (X, Y)))))), "y is summed over and bound outside"),
        (Prod((Rel("T", (Y,)), Plus((Sum((X,), Rel("R", (X, Y))), Rel("T", (X,)))))), "y is summed over"),
    ],
)
def test_violations(made: Query, message: str) -> None:
    for stage in (QUERY, DELTA):
        with pytest.raises(SpecError, match=message):
            check(made, stage)


def test_a_map_with_another_arity_is_refused() -> None:
    with pytest.raises(SpecError, match="1 values beside terms with 2"):
        check(Plus((MapRef("M", (X,), (0, 1)), Prod((MapRef("M", (X,)), Value((X, X)))))), STATEMENT)


def test_what_the_context_binds_does_not_count_as_an_output() -> None:
    made = Prod((Rel("T", (X,)), Plus((Rel("R", (X, Y)), Bind(Y, Const(1, BIGINT))))))
    assert check(made, QUERY) is made


@settings(max_examples=max(100, settings().max_examples))
@given(queries())
def test_generated_queries_and_their_deltas_are_legal(made) -> None:  # type: ignore[no-untyped-def]
    check(made[0], QUERY)
    check(delta(made[0], COLUMNS), DELTA)
