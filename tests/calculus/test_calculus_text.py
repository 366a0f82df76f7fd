"""Queries as text and back: `parse(to_text(q)) == q`, whatever the names are; and golden strings.

Catches: a missing pair of parentheses (another tree, same result), a name that reads as a keyword or as a
change, a type that is not written where it cannot be inferred, products and sums of one part or with a
leading 1 or 0.
"""

from __future__ import annotations

import pytest
from calculus_support import COLUMNS, queries
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.calculus import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    delta,
    parse,
    to_text,
)
from everfresh.compiler.passes.unify import rename
from everfresh.errors import EverfreshError
from everfresh.expr import Const, Var, build
from everfresh.expr.names import Made
from everfresh.types import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Column

ODD = [
    "plain",
    "o id",
    "Exists",
    "exists",
    "Sum_",
    "SUM_",
    "Δ",
    "Δx",
    'Δ"x',
    'quo"te',
    "1st",
    "π",
    "größe",
    "t.a",
    "a.",
    "AND",
    "not",
    "null",
    "#0",
    "v$0",
    Made("v$0"),
    Made("Δv$0"),
    Made("o id$0"),
    Made("#1.x"),
    Made("a~"),
    Made(""),
    "x[1]",
    "a, b",
    "(",
    ":=",
    "DATE",
    "日本",
    "",
    " ",
    "'",
    "-- no",
    "DECIMAL",
]


@settings(max_examples=max(120, settings().max_examples))
@given(queries())
def test_round_trip(made) -> None:  # type: ignore[no-untyped-def]
    query, _ = made
    for q in (query, delta(query, COLUMNS)):
        assert parse(to_text(q), COLUMNS) == q


@settings(max_examples=max(100, settings().max_examples))
@given(queries(depth=2), st.permutations(ODD), st.data())
def test_round_trip_with_odd_names(made, odd, data) -> None:  # type: ignore[no-untyped-def]
    """Variables, relations and maps under names that need quotes."""
    query = rename(
        made[0], {v.name: Var(n, v.of, v.null) for v, n in zip(_variables(made[0]), odd, strict=False)}
    )
    names = dict(zip(COLUMNS, data.draw(st.permutations(ODD)), strict=False))
    maps = dict(zip(COLUMNS, data.draw(st.permutations(ODD)), strict=False))

    def visit(n: Query) -> Query:
        if isinstance(n, Rel):
            kind = data.draw(st.sampled_from(["table", "change", "map"]))
            return (
                MapRef(maps[n.name], n.vars, (0, 2))
                if kind == "map"
                else Rel(names[n.name], n.vars, kind == "change")
            )
        return n.map_children(lambda c: visit(c) if isinstance(c, Query) else c)

    renamed = visit(query)
    known = {
        maps[n]: tuple(Var(c.name, c.type, c.nullable) for c in columns) for n, columns in COLUMNS.items()
    }
    assert parse(to_text(renamed), {names[n]: c for n, c in COLUMNS.items()}, known) == renamed


def _variables(query: Query) -> list[Var]:
    return list(dict.fromkeys(n for n in query.walk() if isinstance(n, Var)))


@pytest.mark.parametrize("name", ODD)
def test_a_change_is_told_from_a_name(name: str) -> None:
    x = Var("x", BIGINT)
    for q in (Rel(name, (x,)), Rel(name, (x,), True), Prod((Rel(name, (x,), True), Rel("Δ" + name, (x,))))):
        relations = {name: [Column("a", BIGINT)], "Δ" + name: [Column("a", BIGINT)]}
        assert parse(to_text(q), relations) == q


X, Y = Var("x", BIGINT), Var("y", BIGINT)
R, T = Rel("R", (X, Y)), Rel("T", (X,))
SHAPES = [
    ONE,
    ZERO,
    Prod((R,)),
    Plus((R,)),
    Prod((ONE,)),
    Plus((ZERO,)),
    Prod((ZERO,)),
    Plus((ONE,)),
    Prod((ONE, R)),
    Prod((ONE, ONE)),
    Prod((R, ONE)),
    Plus((ZERO, R)),
    Plus((ZERO, ZERO)),
    Plus((R, ZERO)),
    Prod((Prod((ONE, R)), T)),
    Prod((Prod((R,)), Prod((T,)))),
    Plus((Plus((R, T)), T)),
    Plus((R, Plus((T,)))),
    Neg(Neg(R)),
    Neg(Prod((R, T))),
    Neg(Plus((R, T))),
    Prod((Neg(R), T)),
    Plus((Neg(R), Neg(T))),
    Prod((R, Plus((T, Neg(T))))),
    Neg(ONE),
    Neg(ZERO),
    Exists(Neg(R)),
    Value(()),
    Prod((R, Prod((T, Neg(R))))),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: Query) -> None:
    assert parse(to_text(shape), COLUMNS) == shape


def test_types_that_cannot_be_inferred_are_written() -> None:
    d = Var("d", DECIMAL(15, 2))
    for q in (
        Bind(Var("v", BIGINT, False), Const(1, BIGINT)),
        Bind(Var("v", BIGINT, True), Const(1, BIGINT)),
        Bind(Var("v", DECIMAL(15, 2)), Const(None, DECIMAL(15, 2))),
        Bind(Var("v", DOUBLE), Const(1, INTEGER)),
        Prod((Rel("Q", (d,)), Bind(Var("w", DECIMAL(38, 2), False), build.cast(d, DECIMAL(38, 2))))),
        Lift(Var("v", DECIMAL(38, 10), False), ONE),
        Lift(Var("v", DOUBLE, True), ZERO, True),
        Lift(Var("DECIMAL", TIMESTAMP, True), ONE),
        Bind(Var("day", DATE, True), Const(18292, DATE)),
    ):
        assert parse(to_text(q), {"Q": [Column("d", DECIMAL(15, 2))]}) == q


GOLDEN = [
    (
        Sum(
            (X,),
            Prod(
                (
                    R,
                    Cond(build.call(">", X, Const(10, BIGINT))),
                    Bind(Var("m", BIGINT), build.call("*", X, Y)),
                    Value((X, Y)),
                )
            ),
        ),
        "Sum_[x](R(x, y) * [x > 10::BIGINT] * (m := x * y) * ⟨x, y⟩)",
    ),
    (Plus((Prod((R, T)), Neg(Sum((X, Y), R)))), "R(x, y) * T(x) + (-Sum_[x, y](R(x, y)))"),
    (Neg(Plus((R, R))), "-(R(x, y) + R(x, y))"),
    (Prod((Plus((T, ONE)), Rel("T", (X,), True))), "(T(x) + 1) * ΔT(x)"),
    (Lift(Var("n", BIGINT, False), Sum((), R), True), "(n BIGINT :=! Sum_[](R(x, y)))"),
    (Lift(Var("n", BIGINT), R), "(n BIGINT? :=: R(x, y))"),
    (Exists(MapRef("Exists", (X,), (0, 1))), 'Exists("Exists"[x](0, 1))'),
    (Rel("o id", (Var("größe", VARCHAR), Var("a b", BOOLEAN)), True), 'Δ"o id"(größe, "a b")'),
    (Rel("Δx", ()), '"Δx"()'),
    (Rel("Δx", (), True), 'Δ"Δx"()'),
    (Prod((R,)), "1 * R(x, y)"),
    (Plus((R,)), "0 + R(x, y)"),
]


@pytest.mark.parametrize(("query", "text"), GOLDEN, ids=[text for _, text in GOLDEN])
def test_golden(query: Query, text: str) -> None:
    assert to_text(query) == text
    assert str(query) == text


@pytest.mark.parametrize(
    "text", ["R(x, y", "R(x, y) +", "R(x, y) T(x)", "[x >", "Sum_[x(R(x, y))", "⟨1", "(v :=", "*", ""]
)
def test_broken_text_is_a_syntax_error(text: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        parse(text, COLUMNS)
    assert caught.value.code in ("syntax", "not-found")


def test_an_unknown_node_has_no_text() -> None:
    with pytest.raises(TypeError, match="has no text"):
        to_text(object())  # type: ignore[arg-type]
