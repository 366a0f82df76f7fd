"""The choice of model and strategy follows Table 6.2, can be forced, and is explained."""

from __future__ import annotations

import numpy as np
import pytest

import everfresh.linalg as la
from everfresh.errors import EverfreshError


def chosen(text, ranks=1, static=(), **shapes):
    compiled = la.compile(la.parse(text, shapes, static=static), ranks=ranks)
    return compiled.strategy, compiled.model


def test_powers_of_large_matrices_are_incremental_in_the_exponential_model():
    assert chosen("P := power(A, 16);", A=(4000, 4000)) == ("incremental", "exponential")


def test_changes_of_high_rank_are_re_evaluated():
    assert chosen("P := power(A, 16);", ranks=1500, A=(2000, 2000))[0] == "reevaluate"


def test_a_vector_is_iterated_in_the_linear_model_when_re_evaluated():
    source = la.parse(
        "T := iterate(A, T0, B, 16);", A=(3000, 3000), T0=(3000, 1), B=(3000, 1), static=["T0", "B"]
    )
    assert la.compile(source, strategy="reevaluate").model == "linear"
    wide = la.parse(
        "T := iterate(A, T0, B, 16);", A=(300, 300), T0=(300, 3000), B=(300, 3000), static=["T0", "B"]
    )
    assert la.compile(wide, strategy="reevaluate").model != "linear"


def test_a_wide_iteration_is_incremental():
    strategy, model = chosen(
        "T := iterate(A, T0, B, 16);", static=["T0", "B"], A=(3000, 3000), T0=(3000, 100), B=(3000, 100)
    )
    assert strategy in ("incremental", "hybrid")
    assert model in ("exponential", "skip-4", "skip-8")


def test_a_thin_iteration_is_not_factored():
    strategy, _ = chosen(
        "T := iterate(A, T0, B, 64);", static=["T0", "B"], A=(3000, 3000), T0=(3000, 1), B=(3000, 1)
    )
    assert strategy in ("hybrid", "reevaluate")


def test_a_choice_can_be_forced_and_a_model_written_in_the_program_stays():
    compiled = la.compile(la.parse("P := power(A, 16, linear);", A=(100, 100)), strategy="hybrid")
    assert (compiled.strategy, compiled.model) == ("hybrid", "-")
    assert len(compiled.flat.statements) == 15
    with pytest.raises(EverfreshError, match="no strategy 'fast'"):
        la.compile(compiled.source, strategy="fast")
    with pytest.raises(EverfreshError, match="no iterative model 'fast'"):
        la.compile(compiled.source, model="fast")


def test_explain_prints_triggers_costs_and_alternatives():
    text = la.compile(la.parse("P := power(A, 4);", A=(1000, 1000))).explain()
    assert "strategy incremental, exponential model" in text
    assert "UP := [UA2, A2 UA2 + UA2 (VA2' UA2)];" in text
    assert "O(n^2): 26 n^2 + 35 n = 26,035,000 flops" in text
    assert "reevaluate, linear model" in text
    assert "O(n^3)" in text


def test_re_evaluation_keeps_inputs_and_outputs_only():
    incremental, again = (
        la.compile(la.parse("P := power(A, 16);", A=(100, 100)), strategy=s, model="exponential")
        for s in ("incremental", "reevaluate")
    )
    assert incremental.stored == ("A", "A2", "A4", "A8", "P")
    assert again.stored == ("A", "P")


def test_what_no_trigger_reads_is_not_stored():
    compiled = la.compile(
        la.parse("C := (A + B) D;", A=(9, 9), B=(9, 9), D=(9, 9), static=["D"]), strategy="incremental"
    )
    assert compiled.stored == ("A", "B", "D", "C")
    view = la.MatrixView(compiled, {n: np.eye(9) for n in "ABD"})
    view.update(A=la.EntryUpdate(0, 0, 3.0), B=la.EntryUpdate(1, 1, 5.0))
    assert view.read()[0, 0] == 4.0
