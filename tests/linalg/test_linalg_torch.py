"""PyTorch on the CPU gives what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import everfresh as ef
import everfresh.linalg as la
from everfresh.errors import EverfreshError
from everfresh.linalg.kernels import gpu

torch = pytest.importorskip("torch", reason="torch is not installed: the PyTorch backend is not tested")


def both(text, arrays, updates, **how):
    views = (
        la.MatrixView(text, arrays, **how),
        la.MatrixView(text, {n: torch.from_numpy(a) for n, a in arrays.items()}, **how),
    )
    for update in updates:
        results = [view.update(update) for view in views]
        assert results[0].how == results[1].how
        for name in views[0].outputs:
            assert torch.is_tensor(views[1].read(name))
            assert np.allclose(views[0].read(name), views[1].read(name).numpy(), rtol=1e-9, atol=1e-11)
    return views


@pytest.mark.parametrize("strategy", ["incremental", "hybrid", "reevaluate"])
def test_powers(strategy):
    n, r = 270, np.random.default_rng(0)
    updates = [
        {"A": la.LowRank(0.01 * r.standard_normal((n, 1)), r.standard_normal((n, 1)))} for _ in range(6)
    ]
    both(
        "P := power(A, 8); S := sum_of_powers(A, 8);",
        {"A": r.standard_normal((n, n)) / n**0.5},
        updates,
        strategy=strategy,
        model="exponential",
    )


def test_regression_with_rows_that_come_and_go():
    r = np.random.default_rng(1)
    updates = [
        {"X": la.RowUpdate(3, r.standard_normal(6)), "Y": la.EntryUpdate(3, 0, 2.0)},
        {"X": la.AppendRows(r.standard_normal((4, 6))), "Y": la.AppendRows(r.standard_normal((4, 1)))},
        {"X": la.DeleteRows([0, 9]), "Y": la.DeleteRows([0, 9])},
        {
            "X": [
                la.ColumnUpdate(2, r.standard_normal(42)),
                la.LowRank(r.standard_normal((42, 2)), r.standard_normal((6, 2))),
            ]
        },
    ]
    views = both(
        "beta := inv(X' X) X' Y;", {"X": r.standard_normal((40, 6)), "Y": r.standard_normal((40, 1))}, updates
    )
    snapshot = views[1].to_arrays()
    again = la.MatrixView.from_arrays(
        "beta := inv(X' X) X' Y;", snapshot, like=torch.zeros(1, dtype=torch.float64)
    )
    assert torch.equal(again.read(), views[1].read())


def test_singular_updates_are_refused():
    view = la.MatrixView("W := inv(X);", {"X": torch.eye(3, dtype=torch.float64)})
    with pytest.raises(EverfreshError):
        view.update(X=la.RowUpdate(1, np.zeros(3)))
    assert torch.equal(view.read(), torch.eye(3, dtype=torch.float64))


def test_analytics():
    r = np.random.default_rng(2)
    x, y = r.standard_normal((30, 3)), r.standard_normal(30)
    model = la.LinearRegression(fit_intercept=True).fit(torch.from_numpy(x), torch.from_numpy(y))
    model.append(torch.from_numpy(x[:2]), torch.from_numpy(y[:2]))
    same = la.LinearRegression(fit_intercept=True).fit(np.vstack([x, x[:2]]), np.concatenate([y, y[:2]]))
    assert np.allclose(model.coef_.numpy(), same.coef_)
    links = (r.random((9, 9)) < 0.4).astype(float)
    assert np.allclose(
        la.PageRank().fit(torch.from_numpy(links)).scores_.numpy(), la.PageRank().fit(links).scores_
    )
    assert np.array_equal(
        la.Reachability(3).fit(torch.from_numpy(links)).reachable_.numpy(),
        la.Reachability(3).fit(links).reachable_,
    )


def test_single_precision_is_kept():
    a = torch.eye(4, dtype=torch.float32)
    view = la.MatrixView("B := A A;", {"A": a})
    view.update(A=la.EntryUpdate(0, 1, 0.5))
    assert view.read().dtype == torch.float32
    assert view.tolerance == 1e-4


def test_tensors_in_a_database(tmp_path):
    r = np.random.default_rng(3)
    a = r.standard_normal((5, 5))
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.create_matrix("A", torch.from_numpy(a))
        db.create_matrix_view("square", "B := A A;")
        db.apply(A=[la.RowUpdate(1, torch.zeros(5)), la.LowRank(torch.ones(5), np.ones(5))])
        a[1] = 0.0
        a += 1.0
        assert torch.is_tensor(db.view("square").read())
        assert np.allclose(db.view("square").to_numpy(), a @ a)
    with ef.connect(tmp_path / "db", engine="local", options=ef.Options(snapshot_epochs=1)) as db:
        assert torch.is_tensor(db.matrix("A").read())
        db.apply(A=la.EntryUpdate(0, 0, 2.0))
        a[0, 0] = 2.0
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert torch.is_tensor(db.view("square").read())
        assert np.allclose(db.view("square").to_numpy(), a @ a)


def test_one_pass_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here: its kernel is not tested")
    generator = torch.Generator("cuda").manual_seed(0)
    for rows, columns, width in ((4500, 6001, 3), (513, 77, 8), (100, 100, 1)):
        m, x, y = (
            torch.randn(*shape, generator=generator, device="cuda", dtype=torch.float64)
            for shape in ((rows, columns), (columns, width), (rows, width))
        )
        forth, back = gpu.both(m, x, y)
        assert torch.allclose(forth, m @ x, rtol=1e-10, atol=1e-10)
        assert torch.allclose(back, m.T @ y, rtol=1e-10, atol=1e-10)
