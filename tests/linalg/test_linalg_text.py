"""Text of expressions, programs and compiled programs: what is printed reads back as the same thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linalg_programs import sources

import everfresh.linalg as la
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.listing import parse_listing
from everfresh.linalg.lang.nodes import MatMul, Matrix, Scale, Transpose
from everfresh.linalg.lang.text import parse_expr

GOLDEN = Path(__file__).parent / "golden"
ENV = {"A": Matrix("A", 3, 3), "B": Matrix("B", 3, 3), "u": Matrix("u", 3, 1)}
SETTINGS = settings(
    deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), derandomize=True
)


@given(source=sources())
@SETTINGS
def test_programs_read_back(source: la.Source) -> None:
    assert la.parse(str(source)) == source


@given(
    source=sources(depth=2),
    strategy=st.sampled_from(["incremental", "hybrid", "reevaluate"]),
    rank=st.integers(1, 3),
)
@settings(SETTINGS, max_examples=60)
def test_compiled_programs_read_back(source: la.Source, strategy: str, rank: int) -> None:
    compiled = la.compile(source, strategy=strategy, model="exponential", ranks=rank)
    text = compiled.to_text()
    again = parse_listing(text)
    assert [m.definition for m in again.maps] == [m.definition for m in compiled.program.maps]
    assert [[(s.target, s.op, s.expr) for s in t.statements] for t in again.triggers] == [
        [(s.target, s.op, s.expr) for s in t.statements] for t in compiled.program.triggers
    ]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("A*B", "A B"),
        ("A @ B", "A B"),
        ("A.T B'", "A' B'"),
        ("(A B).T", "(A B)'"),
        ("A (B A)", "A (B A)"),
        ("(A B) A", "A B A"),
        ("2 A B", "2 A B"),
        ("A 2", "2 A"),
        ("-A + B", "-A + B"),
        ("A - 2 B", "A - 2 B"),
        ("A - (2 B)", "A - (2 B)"),
        ("-(A + B)", "-(A + B)"),
        ("0.5 (A + B) u", "0.5 (A + B) u"),
        ("inv(A' A)", "inv(A' A)"),
        ("eye(3) + zeros(3, 3)", "eye(3) + zeros(3, 3)"),
        ("[A, u]", "[A, u]"),
        ("[A; B]", "[A; B]"),
        ("A''", "A''"),
        ("mat(1, -2; 3, 0.5)", "mat(1, -2; 3, 0.5)"),
        ("power(A, 4)", "power(A, 4)"),
        ("sum_of_powers(A, 4, skip-2)", "sum_of_powers(A, 4, skip-2)"),
        ("iterate(A, u, 3)", "iterate(A, u, 3)"),
        ("iterate(A, u, 2 u, 3, linear)", "iterate(A, u, 2 u, 3, linear)"),
        ("2 * 3 A", "6 A"),
        ("A + (B + A)", "A + (B + A)"),
    ],
)
def test_forms(text: str, printed: str) -> None:
    expr = parse_expr(text, ENV)
    assert str(expr) == printed
    assert parse_expr(printed, ENV) == expr


def test_products_group_to_the_left() -> None:
    a, b = ENV["A"], ENV["B"]
    assert parse_expr("A B A", ENV) == MatMul(MatMul(a, b), a)
    assert parse_expr("-2 A'", ENV) == Scale(-2.0, Transpose(a))


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("A +", Code.SYNTAX, "a matrix is expected"),
        ("A Q", Code.NOT_FOUND, "there is no matrix 'Q'"),
        ("A + 1", Code.SYNTAX, "a number cannot stand alone"),
        ("A.x", Code.SYNTAX, "only .T"),
        ("(A", Code.SYNTAX, "')' is expected"),
        ("A )", Code.SYNTAX, "the text should end here"),
        ("power(A, 0)", Code.ARGUMENT, "at least 1"),
        ("power(A, 2, quick)", Code.SYNTAX, "a model"),
        ("u u", Code.TYPE, "cannot multiply u (3 x 1) by u (3 x 1)"),
    ],
)
def test_what_is_wrong_is_named(text: str, code: str, said: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        parse_expr(text, ENV)
    assert caught.value.code == code
    assert said in str(caught.value)
    assert caught.value.place is not None


def test_declarations_and_outputs() -> None:
    source = la.parse("input A(3, 3); static S(3, 1); B := A A; c := B S; output B, c;")
    assert source.dynamic == ("A",)
    assert source.outputs == ("B", "c")
    assert la.parse("B := A A; C := B B;", A=(2, 2)).outputs == ("C",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("B := A A; B := A;", "assigned twice"),
        ("B := A A; output Q;", "there is no matrix 'Q'"),
        ("", "needs a statement"),
        ("B := A A C", "no matrix 'C'"),
    ],
)
def test_programs_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(EverfreshError, match=said):
        la.parse(text, A=(2, 2))


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "power4": ("B := A A; C := B B;", {"A": (6, 6)}, {"strategy": "incremental"}),
    "ols": (
        "Z := X' X; W := inv(Z); V := X' Y; beta := W V;",
        {"X": (9, 4), "Y": (9, 2)},
        {"strategy": "incremental"},
    ),
    "iterate": (
        "T := iterate(A, T0, B, 2);",
        {"A": (6, 6), "T0": (6, 2), "B": (6, 2)},
        {"strategy": "reevaluate", "model": "linear", "ranks": {"A": 2}, "static": ("T0", "B")},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_golden_triggers(name: str) -> None:
    """Listing 6.4, OLS (Examples 6.3.2 and 6.3.3), and re-evaluation; printed, read back and run."""
    text, shapes, how = CASES[name]
    source = la.parse(text, shapes, static=how.pop("static", ()))
    compiled = la.compile(source, **how)
    assert compiled.to_text() == golden(name)
    rng = np.random.default_rng(1)
    arrays = {n: rng.standard_normal(s) for n, s in shapes.items()}
    view = la.MatrixView(compiled, arrays)
    for base in compiled.program.triggers:
        rows, columns = shapes[base.base]
        rank = compiled.ranks[base.base]
        u, v = rng.standard_normal((rows, rank)), rng.standard_normal((columns, rank))
        view.update({base.base: la.LowRank(u, v)})
        arrays[base.base] = arrays[base.base] + u @ v.T
    for output in source.outputs:
        fresh = la.MatrixView(compiled, arrays).read(output)
        assert np.allclose(view.read(output), fresh, rtol=1e-9)
