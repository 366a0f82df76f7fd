"""Shapes are checked where an operation is written; tracing builds what text does; stages keep specs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from linalg_programs import sources

import everfresh.linalg as la
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.flatten import flatten
from everfresh.linalg.compiler.simplify import simplify
from everfresh.linalg.lang.models import expand, steps
from everfresh.linalg.lang.nodes import Add, Inverse, Matrix, Power, Stack
from everfresh.linalg.lang.spec import SpecError, check_expanded, check_flat

A, B, R = Matrix("A", 3, 4), Matrix("B", 5, 2), Matrix("R", 3, 3)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: A @ B, "cannot multiply A (3 x 4) by B (5 x 2): the inner dimensions 4 and 5 differ"),
        (lambda: A + B, "cannot add B (5 x 2) to A (3 x 4): both need the same shape"),
        (lambda: A - B, "cannot subtract B (5 x 2) from A (3 x 4): both need the same shape"),
        (lambda: la.inv(A), "cannot invert A (3 x 4): it is not square"),
        (lambda: la.power(A, 2), "cannot take a power of A (3 x 4): it is not square"),
        (lambda: la.iterate(R, B, k=2), "cannot iterate: multiply R (3 x 3) by B (5 x 2)"),
        (lambda: la.iterate(R, A, B, k=2), "cannot iterate: add B (5 x 2) to A (3 x 4)"),
        (lambda: Stack((A, B)), "cannot put B (5 x 2) beside A (3 x 4)"),
        (lambda: A * A, "'*' takes a number"),
        (lambda: A + 1, "cannot be added"),
        (lambda: la.power(R, 2, "fast"), "there is no iterative model 'fast'"),
        (lambda: la.power(R, 0), "at least 1"),
        (lambda: Matrix("eye", 2, 2), "cannot be the name"),
        (lambda: R @ np.ones((200, 200)), "too large for a program"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(build, said):
    with pytest.raises(EverfreshError) as caught:
        build()
    assert said in str(caught.value)
    assert caught.value.code in (Code.TYPE, Code.ARGUMENT)


def test_tracing_builds_the_same_program_as_text():
    @la.program
    def ols(X, Y):
        return la.inv(X.T @ X) @ (X.T @ Y)

    assert str(ols.bind(X=(9, 3), Y=(9, 1))) == str(la.parse("ols := inv(X' X) (X' Y);", X=(9, 3), Y=(9, 1)))


def test_traced_programs_compose_run_and_name_their_outputs():
    @la.program
    def square(A):
        return A @ A

    @la.program(name="both", static=["B"])
    def both(A, B):
        return {"S": square(A) - 2 * B, "T": (A + np.eye(2)) / 2}

    source = both.bind(A=(2, 2), B=(2, 2))
    assert source.outputs == ("S", "T")
    assert source.dynamic == ("A",)
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.eye(2)
    assert np.allclose(both(a, b)["S"], a @ a - 2 * b)
    assert np.allclose(square(a), a @ a)
    with pytest.raises(EverfreshError, match="its inputs are: A, B"):
        both.bind(A=(2, 2))


def test_shared_values_are_computed_once():
    b = R @ R
    flat = flatten(la.Source((R,), (("C", b @ b),), ("C",)))
    assert str(flat) == "M1 := R R;\nC := M1 M1;"


def test_chains_are_ordered_by_cost_and_symmetric_matrices_found():
    source = la.parse("b := inv(X' X) X' Y;", X=(90, 30), Y=(90, 1))
    flat = flatten(source)
    assert str(flat) == "M1 := X' X;\nM2 := inv(M1);\nM3 := X' Y;\nb := M2 M3;"
    assert flat.symmetric == {"M1", "M2"}


@given(source=sources())
@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_program_becomes_flat(source):
    for model in ("linear", "exponential", "skip-2"):
        check_flat(flatten(check_expanded(expand(source, model))))


def test_a_stage_that_breaks_its_spec_is_a_bug():
    source = la.Source((R,), (("C", Power(R, 3)),), ("C",))
    with pytest.raises(SpecError):
        check_expanded(source)


@pytest.mark.parametrize("k", range(1, 40))
@pytest.mark.parametrize("model", ["linear", "exponential", "skip-1", "skip-3", "skip-4", "skip-8"])
def test_models_reach_k_from_what_they_have(k, model):
    have = {1}
    for i, a, b in steps(k, model):
        assert i == a + b
        assert b in have
        have.add(i)
    assert k in have


def test_simplify_keeps_what_could_fail():
    assert simplify(Inverse(Inverse(R))) == Inverse(Inverse(R))
    assert str(simplify(Add((R, R, -1.0 * R)))) == "R"
