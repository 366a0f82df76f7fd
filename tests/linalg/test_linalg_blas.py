"""BLAS's threads beside our own."""

from __future__ import annotations

import numpy as np
import pytest

import everfresh.linalg as la
from everfresh.linalg.kernels import blas
from everfresh.linalg.kernels import both_ways as kernels


def test_calm_is_one_thread_and_ends_as_it_began() -> None:
    before = blas.threads()
    assert before, "NumPy brings a BLAS"
    with blas.calm():
        assert set(blas.threads()) == {1}
        with blas.threaded():
            assert blas.threads() == before
        with blas.calm():
            assert set(blas.threads()) == {1}
        assert set(blas.threads()) == {1}, "the outermost restores"
    assert blas.threads() == before


def test_not_wanted_changes_nothing() -> None:
    before = blas.threads()
    with blas.calm(False):
        assert blas.threads() == before
    with blas.threaded():
        assert blas.threads() == before


def test_an_error_inside_restores_too() -> None:
    before = blas.threads()
    with pytest.raises(ZeroDivisionError), blas.calm():
        raise ZeroDivisionError
    assert blas.threads() == before


def test_updates_of_large_matrices_are_calm_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    both = kernels.both

    def spied(*given: object) -> object:
        seen.append(set(blas.threads()))
        return both(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(kernels, "both", spied)
    monkeypatch.setattr(kernels, "SHARE", 1 << 14)
    monkeypatch.setattr(kernels, "LEAST", 1 << 14)
    n = 256
    rng = np.random.default_rng(1)
    view = la.MatrixView(
        "B := A A; C := B B;", {"A": rng.standard_normal((n, n)) / n}, strategy="incremental", ranks={"A": 1}
    )
    before = blas.threads()
    view.update(A=la.LowRank(rng.standard_normal((n, 1)) / n, rng.standard_normal((n, 1)) / n))
    assert seen
    assert all(counts == {1} for counts in seen)
    assert blas.threads() == before
    a = view.state["A"].array()
    assert np.allclose(view.read(), a @ a @ a @ a)
