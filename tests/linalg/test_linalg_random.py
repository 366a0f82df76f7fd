"""Any program, any updates: a maintained view equals NumPy's re-evaluation.

Catches wrong delta rules, lost cross terms, wrong factors, updates applied against the wrong state, and
pending factors that a read does not see.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from linalg_programs import EPS, apply_to, matrices, reference, sources, update_batches

import everfresh.linalg as la

SETTINGS = settings(
    deadline=None, max_examples=120, suppress_health_check=list(HealthCheck), derandomize=True
)


def run(
    source: la.Source,
    batches: list[dict[str, Any]],
    seed: int,
    convert: Any,
    make: Any = la.MatrixView,
    **how: Any,
) -> None:
    arrays = matrices(source, seed)
    start = reference(source, arrays)
    bounds = {name: start[name].error for name in source.outputs}
    sizes = {name: start[name].size for name in source.outputs}
    histories = []
    for (
        batch
    ) in batches:  # what the inputs will be: a program that is ill-conditioned on the way is not of interest
        apply_to(arrays, batch)
        now = reference(source, arrays)
        for name in source.outputs:
            bounds[name] = max(bounds[name], now[name].error)
            sizes[name] = max(sizes[name], now[name].size)
        histories.append(now)
    assume(all(np.isfinite(b) and b < 1e-8 * max(1.0, sizes[name]) for name, b in bounds.items()))
    view = make(source, {k: convert(v) for k, v in matrices(source, seed).items()}, **how)
    for batch, now in zip(batches, histories, strict=True):
        view.update(batch)
        for name in source.outputs:
            gap = np.linalg.norm(np.asarray(view.read(name)) - now[name].value)
            assert gap <= 1e4 * (bounds[name] + EPS * sizes[name]), (name, gap, bounds[name], sizes[name])


@given(
    data=st.data(),
    seed=st.integers(0, 1000),
    strategy=st.sampled_from(["auto", "incremental", "hybrid", "reevaluate"]),
)
@SETTINGS
def test_a_maintained_view_equals_reevaluation(data: Any, seed: int, strategy: str) -> None:
    source = data.draw(sources())
    run(source, data.draw(update_batches(source)), seed, np.array, strategy=strategy)


@given(
    data=st.data(),
    seed=st.integers(0, 1000),
    model=st.sampled_from(["linear", "exponential", "skip-2", "skip-4"]),
)
@settings(SETTINGS, max_examples=40)
def test_in_every_model(data: Any, seed: int, model: str) -> None:
    source = data.draw(sources(depth=2))
    run(source, data.draw(update_batches(source)), seed, np.array, strategy="incremental", model=model)


@given(data=st.data(), seed=st.integers(0, 1000), strategy=st.sampled_from(["incremental", "hybrid"]))
@settings(SETTINGS, max_examples=25)
def test_on_torch(data: Any, seed: int, strategy: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the PyTorch backend is not tested")
    source = data.draw(sources(depth=2))
    run(source, data.draw(update_batches(source)), seed, torch.from_numpy, strategy=strategy)
