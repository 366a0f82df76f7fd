"""Kernels and scheduling: fast ways to multiply equal the plain ones, scheduled steps what the block says."""

from __future__ import annotations

import numpy as np
import pytest

import everfresh.linalg as la
from everfresh.bench.parts.machine import measure
from everfresh.linalg.compiler.product_schedule import Assign, ColumnRange, Multiply, schedule
from everfresh.linalg.kernels import both_ways as kernels
from everfresh.linalg.kernels.backend import NumpyBackend
from everfresh.linalg.lang.nodes import Matrix, Transpose
from everfresh.linalg.run.execute import make_plan


@pytest.mark.parametrize("shape", [(700, 400), (603, 511), (30, 20), (1, 300_000)])
@pytest.mark.parametrize(("r", "q"), [(1, 1), (2, 4), (4, 1), (2, 5), (17, 2)])
def test_products_equal_plain_ones(shape, r, q):
    rng = np.random.default_rng(0)
    backend = NumpyBackend()
    matrix, x, y = (
        rng.standard_normal(shape),
        rng.standard_normal((shape[1], r)),
        rng.standard_normal((shape[0], q)),
    )
    forth, back = backend.both(matrix, x, y)
    assert np.allclose(forth, matrix @ x, rtol=1e-9, atol=1e-9)
    assert np.allclose(back, matrix.T @ y, rtol=1e-9, atol=1e-9)
    assert np.allclose(backend.thin(matrix, x), matrix @ x, rtol=1e-9, atol=1e-9)
    assert np.allclose(backend.thin(matrix, y, True), matrix.T @ y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(8, 5), (7, 3), (3, 9), (1026, 1100)])
@pytest.mark.parametrize(("r", "q"), [(1, 1), (0, 1), (3, 0), (4, 4), (1, 2), (7, 2), (2, 5)])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compiled_loops_equal_plain_products(shape, r, q, threads, dtype, monkeypatch):
    monkeypatch.setattr(kernels, "SHARE", 8)
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal(shape).astype(dtype)
    x = rng.standard_normal((shape[1], r)).astype(dtype) if r else None
    y = rng.standard_normal((shape[0], q)).astype(dtype) if q else None
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-3}
    ahead, back = kernels.both(matrix, x, y, threads)
    for found, wanted in ((ahead, x if x is None else matrix @ x), (back, y if y is None else matrix.T @ y)):
        assert (found is None) == (wanted is None)
        if found is not None:
            assert found.dtype == matrix.dtype
            assert np.allclose(found, wanted, **close)


def test_compiled_loops_keep_infinities_and_nan():
    matrix = np.ones((16, 40))
    matrix[3, 7], matrix[9, 1] = np.inf, np.nan
    ahead, back = kernels.both(matrix, np.ones((40, 2)), np.ones((16, 2)), 1)
    assert np.isposinf(ahead[3]).all()
    assert np.isnan(ahead[9]).all()
    assert np.isposinf(back[7]).all()
    assert np.isnan(back[1]).all()


@pytest.mark.parametrize("shape", [(700, 400), (603, 511), (6, 4), (5, 3)])
@pytest.mark.parametrize("rank", [1, 2, 5, 16, 20])
def test_a_product_is_added_to_a_second_array(shape, rank):
    rng = np.random.default_rng(3)
    base, left, right = (
        rng.standard_normal(shape),
        rng.standard_normal((shape[0], rank)),
        rng.standard_normal((shape[1], rank)),
    )
    before, wanted = base.copy(), base + left @ right.T
    for run in (NumpyBackend().shifted, lambda out, *given: kernels.shifted(*given, out)):
        out = np.full(shape, np.nan)
        run(out, base, left, right)
        assert np.allclose(out, wanted)
    assert np.array_equal(base, before)


@pytest.mark.parametrize("shape", [(3, 4), (1500, 900)])
def test_a_product_is_added_in_place(shape):
    rng = np.random.default_rng(1)
    target, left, right = (
        rng.standard_normal(shape),
        rng.standard_normal((shape[0], 2)),
        rng.standard_normal((shape[1], 2)),
    )
    wanted = target + left @ right.T
    NumpyBackend().add_product(target, left, right)
    assert np.allclose(target, wanted)


def test_a_stored_matrix_is_read_once_where_it_can_be():
    a, u, v = Matrix("A", 9, 9), Matrix("u", 9, 1), Matrix("v", 9, 1)
    block = [
        ("p", a @ u),
        ("q", a.T @ v),
        ("r", a @ v + u),
        ("s", a @ Matrix("r", 9, 1)),
        ("w", Transpose(v) @ a),
    ]
    steps = schedule(block, {"A"})
    reads = [len(step.products) for step in steps if isinstance(step, Multiply)]
    assert reads == [3, 1]  # u, v and v' at once (w is q'), then r
    seen = {"A", "u", "v"}
    for step in steps:
        if isinstance(step, Assign):
            seen.add(step.name)
        else:
            seen |= {name for name, _, _ in step.products}
    assert {"p", "q", "r", "s", "w"} <= seen


def test_the_regression_reads_the_inverse_once():
    compiled = la.compile(
        la.parse("beta := inv(X' X) X' Y;", X=(900, 300), Y=(900, 1), static=["Y"]), strategy="hybrid"
    )
    trigger = compiled.trigger({"X": 1})
    block = [(s.target, s.expr) for s in trigger.statements if s.strategy == "factor"]
    steps = schedule(block, compiled.stored, compiled.flat.symmetric)
    assert [step.matrix for step in steps if isinstance(step, Multiply)].count("M2") == 1


def test_a_machine_is_measured():
    machine = measure(np.zeros((1, 1)), size=256)
    assert machine.flops > 1e6
    assert machine.stream >= machine.packed > 1e6


def test_columns_of_a_product_are_not_multiplied_again():
    """A2 uA is a column of A2 UT2, since UT2 := [uA, ...]; A uA is not taken from A UT2, which needs it."""
    source = la.parse("T := iterate(A, T0, B, 16);", A=(40, 40), T0=(40, 5), B=(40, 5), static=["T0", "B"])
    compiled = la.compile(source, strategy="incremental", model="exponential")
    steps = make_plan(compiled, {"A": 1}).steps
    taken = {step.name: step for step in steps if isinstance(step, ColumnRange)}
    assert [(c.start, c.width) for c in taken.values()] == [(0, 1)]
    done = set()
    for step in steps:
        if isinstance(step, Multiply):
            assert sum(operand.columns for _, operand, turned in step.products if not turned) in (
                0,
                1,
                2,
                4,
                8,
            )
            done |= {name for name, _, _ in step.products}
        elif isinstance(step, ColumnRange):
            assert step.product in done


@pytest.mark.parametrize(
    ("model", "widths"),
    [("linear", [1] * 11), ("skip-2", [1, 2, 2, 2, 2, 2]), ("skip-4", [1, 2, 4, 4]), ("skip-3", None)],
)
def test_columns_that_are_known_are_not_multiplied_again(model, widths):
    """[u, A u, A A u, ...] grows by its last block: only that is multiplied by the next power."""
    source = la.parse("T := iterate(A, T0, B, 12);", A=(40, 40), T0=(40, 5), B=(40, 5), static=["T0", "B"])
    compiled = la.compile(source, strategy="incremental", model=model)
    steps = make_plan(compiled, {"A": 1}).steps
    large = {name for name, matrix in compiled.flat.matrices.items() if matrix.columns == 40}
    found = [
        sum(operand.columns for _, operand, turned in step.products if not turned)
        for step in steps
        if isinstance(step, Multiply) and step.matrix in large
    ]
    if widths is not None:
        assert [width for width in found if width] == widths
    rng = np.random.default_rng(0)
    inputs = {
        "A": rng.standard_normal((40, 40)) / 7,
        "T0": rng.standard_normal((40, 5)),
        "B": rng.standard_normal((40, 5)),
    }
    view = la.MatrixView(compiled, inputs)
    for rank in (1, 1, 2, 3):
        factors = rng.standard_normal((2, 40, rank)) / 9
        assert view.update(A=la.LowRank(factors[0], factors[1])).how == "incremental"
    assert max(view.verify().values()) < 1e-12
