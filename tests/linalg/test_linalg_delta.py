"""Delta rules, factored deltas and Woodbury: text in, text out, and against the difference they stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linalg_programs import expressions

import everfresh.linalg as la
from everfresh.errors import EverfreshError
from everfresh.linalg.compiler.delta import delta
from everfresh.linalg.compiler.woodbury import woodbury
from everfresh.linalg.kernels.backend import backend_of
from everfresh.linalg.lang.models import expand
from everfresh.linalg.lang.nodes import Expr, Matrix
from everfresh.linalg.lang.text import parse_expr
from everfresh.linalg.lang.trees import substitute
from everfresh.linalg.run.evaluate import Evaluator, IllConditioned, evaluate
from everfresh.rewrite import node

SQUARE = {name: Matrix(name, 3, 3) for name in ("A", "B", "dA", "dB")}


@pytest.mark.parametrize(
    ("text", "changed", "wanted"),
    [
        ("A A", "A", "dA A + A dA + dA dA"),  # Listing 6.2
        ("A B", "AB", "dA B + A dB + dA dB"),  # Example 6.3.5
        ("A B", "B", "A dB"),
        ("A + B", "AB", "dA + dB"),
        ("A - B", "AB", "dA - dB"),
        ("2 A'", "A", "2 dA'"),
        ("A' A", "A", "dA' A + A' dA + dA' dA"),  # Example 6.3.2
        ("inv(A)", "A", "inv(A + dA) - inv(A)"),
        ("[A, B]", "B", "[zeros(3, 3), dB]"),
        ("inv(B) + eye(3)", "A", "zeros(3, 3)"),
    ],
)
def test_the_delta_table(text, changed, wanted):
    change = delta(parse_expr(text, SQUARE), {name: SQUARE[f"d{name}"] for name in changed})
    assert str(change) == wanted


def test_an_operator_without_a_rule_raises():
    @node
    class Strange(Expr):
        body: Expr

        def _shape(self):
            return self.body.shape

    with pytest.raises(TypeError, match="no delta rule for Strange"):
        delta(Strange(SQUARE["A"]), {"A": SQUARE["dA"]})


@dataclass(frozen=True)
class _Sizes:
    inputs: tuple


@given(data=st.data(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck), derandomize=True)
def test_the_delta_is_the_difference(data, seed):
    inputs = (Matrix("A", 2, 3), Matrix("B", 3, 3))
    expr = data.draw(expressions((3, 3), inputs, 3))
    source = expand(la.Source(inputs, (("E", expr),), ("E",)))
    rng = np.random.default_rng(seed)
    env = {m.name: rng.uniform(-1, 1, m.shape) for m in inputs}
    changes = {m.name: rng.uniform(-0.1, 0.1, m.shape) for m in inputs}
    whole = dict(source.statements)["E"]
    for name, inner in reversed(source.statements[:-1]):
        whole = substitute(whole, {name: inner})
    symbols = {m.name: Matrix(f"d{m.name}", *m.shape) for m in inputs}
    try:
        before, after = evaluate(whole, env), evaluate(whole, {n: env[n] + changes[n] for n in env})
        change = evaluate(delta(whole, symbols), {**env, **{f"d{n}": c for n, c in changes.items()}})
    except IllConditioned:
        return
    assert np.allclose(
        after - before, change, rtol=1e-6, atol=1e-7 * (1 + np.abs(before).max() + np.abs(after).max())
    )


@pytest.mark.parametrize("model", ["linear", "exponential", "skip-4"])
def test_the_rank_of_a_power_is_its_exponent(model):
    compiled = la.compile(la.parse("P := power(A, 16);", A=(50, 50)), strategy="incremental", model=model)
    ranks = {s.target: s.expr.left.columns for s in compiled.trigger({"A": 1}).statements if s.op == "+="}
    assert ranks["P"] == 16
    assert all(rank == int(name[1:] or 1) for name, rank in ranks.items() if name != "P")


def test_common_factors_are_extracted():
    compiled = la.compile(la.parse("C := A A + A + 2 A';", A=(9, 9)), strategy="incremental")
    ranks = {s.target: s.expr.left.columns for s in compiled.trigger({"A": 1}).statements if s.op == "+="}
    assert ranks["C"] == 3  # [u, A u + u (v' u) + u, 2 v] [A' v, v, u]


def update_inverse(W, P, Q, condition_limit=1e12):
    """inv(inv(W) + P Q') from W, with the check of conditioning."""
    env = {"W": W, "P": P, "Q": Q}
    left, right = woodbury(*(Matrix(name, *array.shape) for name, array in env.items()))
    evaluator = Evaluator(env, backend_of(W, P, Q), W, condition_limit)
    return W + evaluator.value(left) @ evaluator.value(right).T


@given(n=st.integers(1, 12), k=st.integers(1, 4), seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=60)
def test_woodbury_is_the_inverse(n, k, seed):
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((n, n)) + 4 * np.sqrt(n) * np.eye(n)
    P, Q = rng.standard_normal((n, k)), rng.standard_normal((n, k))
    new = E + P @ Q.T
    condition = np.linalg.cond(new) * np.linalg.cond(np.eye(k) + Q.T @ np.linalg.inv(E) @ P)
    if condition > 1e9:
        return
    wanted = np.linalg.inv(new)
    assert np.linalg.norm(
        update_inverse(np.linalg.inv(E), P, Q) - wanted
    ) <= 1e-13 * n * condition * np.linalg.norm(wanted)


def test_a_singular_update_of_an_inverse_is_refused():
    u = np.array([[1.0], [0.0]])
    with pytest.raises(EverfreshError, match=r"singular|ill-conditioned"):
        update_inverse(np.eye(2), u, -u)
