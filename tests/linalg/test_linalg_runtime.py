"""Views under updates of every kind: batches, growing and shrinking, errors, accuracy, snapshots."""

from __future__ import annotations

import numpy as np
import pytest

import everfresh.linalg as la
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.kernels.backend import NumpyBackend
from everfresh.linalg.run.pending import Held
from everfresh.linalg.run.updates import recompress

POWER = "B := A A; C := B B;"
OLS = "beta := inv(X' X) X' Y;"


def rng(seed=0):
    return np.random.default_rng(seed)


def power_view(n=12, **how):
    a = rng().standard_normal((n, n)) / n
    return a, la.MatrixView(POWER, {"A": a}, **how)


def ols_view(rows=30, features=5, seed=0, **how):
    r = rng(seed)
    x, y = r.standard_normal((rows, features)), r.standard_normal((rows, 2))
    return x, y, la.MatrixView(OLS, {"X": x, "Y": y}, **how)


def close(view, x, y):
    assert np.allclose(view.read("beta"), np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strategy", ["incremental", "hybrid", "reevaluate", "auto"])
def test_each_kind_of_update(strategy):
    a, view = power_view(strategy=strategy)
    r = rng(1)
    u, v = r.standard_normal((12, 2)), r.standard_normal((12, 2))
    row, column = r.standard_normal(12), r.standard_normal(12)
    a = a.copy()
    view.update(A=la.LowRank(u, v))
    a += u @ v.T
    view.update(A=la.RowUpdate(3, row))
    a[3] = row
    view.update(A=la.ColumnUpdate(-1, column))
    a[:, -1] = column
    view.update(A=la.EntryUpdate(0, 5, 2.5))
    a[0, 5] = 2.5
    view.update(A=la.LowRank(u[:, 0], v[:, 0]))  # vectors are factors of rank 1
    a += np.outer(u[:, 0], v[:, 0])
    assert np.allclose(view["A"], a)
    assert np.allclose(view.read(), a @ a @ a @ a, rtol=1e-9)
    assert view.version == 5


def test_a_batch_is_merged_to_its_effective_rank():
    a, view = power_view(strategy="incremental")
    r = rng(2)
    rows = [la.RowUpdate(int(i), r.standard_normal(12)) for i in (1, 4, 1, 1, 4)]
    assert view.update(A=rows).ranks == {"A": 2}
    a = a.copy()
    a[1], a[4] = rows[3].row, rows[4].row
    assert np.array_equal(view["A"][[1, 4]], a[[1, 4]]) or np.allclose(view["A"], a, atol=1e-15)
    u, v = r.standard_normal((12, 1)), r.standard_normal((12, 1))
    assert view.update(A=[la.LowRank(u, v), la.LowRank(2 * u, v), la.LowRank(u, -v)]).ranks == {"A": 1}
    assert np.allclose(view["A"], a + 2 * u @ v.T)
    assert view.update(A=[la.LowRank(u, v), la.LowRank(u, -v)]).how == "nothing to do"
    later = [la.LowRank(u, v), la.RowUpdate(2, np.ones(12)), la.EntryUpdate(2, 3, 7.0)]  # later ones win
    view.update(A=later)
    assert np.allclose(view["A"][2], [1, 1, 1, 7, 1, 1, 1, 1, 1, 1, 1, 1])
    assert np.allclose(view.read("B"), view["A"] @ view["A"])


def test_recompress_keeps_the_product():
    r = rng(3)
    left, right = r.standard_normal((20, 9)), r.standard_normal((7, 9))
    found = recompress(left, right, NumpyBackend())
    assert found.rank == 7
    assert np.allclose(found.left @ found.right.T, left @ right.T)


def test_several_inputs_change_at_once():
    x, y, view = ols_view()
    r = rng(4)
    row, response = r.standard_normal(5), r.standard_normal(2)
    applied = view.update(X=la.RowUpdate(7, row), Y=la.RowUpdate(7, response))
    x, y = x.copy(), y.copy()
    x[7], y[7] = row, response
    close(view, x, y)
    assert applied.ranks == {"X": 1, "Y": 1}


def test_rows_come_and_go():
    x, y, view = ols_view(strategy="incremental")
    r = rng(5)
    for _ in range(12):
        new_x, new_y = r.standard_normal((3, 5)), r.standard_normal((3, 2))
        applied = view.update(X=la.AppendRows(new_x), Y=la.AppendRows(new_y))
        x, y = np.vstack([x, new_x]), np.vstack([y, new_y])
        close(view, x, y)
        assert applied.how == "incremental"
        gone = [0, len(x) // 2, -1]
        view.update(X=la.DeleteRows(gone), Y=la.DeleteRows(gone))
        x, y = np.delete(x, gone, 0), np.delete(y, gone, 0)
        view.update(X=la.RowUpdate(2, new_x[0]), Y=la.RowUpdate(2, new_y[0]))
        x[2], y[2] = new_x[0], new_y[0]
        close(view, x, y)
        assert np.allclose(view["X"], x)
        assert view.shape("X") == x.shape
    assert view.reevaluations == 0
    assert max(view.verify().values()) < 1e-10


def test_views_that_have_the_growing_dimension():
    r = rng(6)
    x, d = r.standard_normal((6, 4)), r.standard_normal((4, 3))
    view = la.MatrixView("G := X X'; H := X D;", {"X": x, "D": d})
    new = r.standard_normal((2, 4))
    view.update(X=la.AppendRows(new))
    x = np.vstack([x, new])
    view.update(X=[la.DeleteRows([1]), la.AppendRows(new[0])])
    x = np.vstack([np.delete(x, 1, 0), new[:1]])
    assert np.allclose(view.read("G"), x @ x.T)
    assert np.allclose(view.read("H"), x @ d)


def test_a_rigid_dimension_is_re_evaluated():
    r = rng(7)
    x = r.standard_normal((5, 3))
    view = la.MatrixView("K := inv(X X' + eye(5));", {"X": x})
    with pytest.raises(EverfreshError, match="cannot add"):
        view.update(X=la.AppendRows(r.standard_normal((1, 3))))
    assert view.shape("X") == (5, 3)
    view = la.MatrixView("K := inv(X X');", {"X": r.standard_normal((3, 5))})
    new = r.standard_normal((1, 5))
    assert view.update(X=la.AppendRows(new)).how == "reevaluate"
    assert np.allclose(view.read("K"), np.linalg.inv(view["X"] @ view["X"].T))
    assert view.shape("K") == (4, 4)


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"X": la.AppendRows(np.ones((1, 5)))}, "append to or delete from Y in the same update"),
        ({"X": la.AppendRows(np.ones((2, 5))), "Y": la.AppendRows(np.ones((1, 2)))}, "not alike"),
        ({"X": la.DeleteRows([1]), "Y": la.DeleteRows([2])}, "different rows are deleted"),
        ({"X": la.RowUpdate(30, np.ones(5))}, "X has no row 30"),
        ({"X": la.RowUpdate(0, np.ones(4))}, "a row of X has 5 values, not 4"),
        ({"X": la.LowRank(np.ones((30, 1)), np.ones((4, 1)))}, "they need 30 and 5 rows"),
        ({"X": la.LowRank(np.ones((30, 1)), np.full((5, 1), np.nan))}, "NaN"),
        ({"Q": la.RowUpdate(0, np.ones(5))}, "no input 'Q'"),
        ({"X": 7.0}, "is no update of X"),
    ],
)
def test_what_is_wrong_with_an_update_is_said_and_nothing_changes(update, said):
    _, _, view = ols_view()
    before = view.to_arrays()
    with pytest.raises(EverfreshError) as caught:
        view.update(update)
    assert said in str(caught.value)
    after = view.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_static_inputs_have_no_trigger_and_take_no_update():
    view = la.MatrixView(OLS, {"X": rng().standard_normal((9, 3)), "Y": np.ones((9, 1))}, static=["Y"])
    assert [t.base for t in view.compiled.program.triggers] == ["X"]
    assert "no trigger for Y: static" in view.explain()
    with pytest.raises(EverfreshError, match="static"):
        view.update(Y=la.EntryUpdate(0, 0, 1.0))


def test_a_singular_update_is_refused_and_changes_nothing():
    x = np.eye(4)
    view = la.MatrixView("W := inv(X);", {"X": x}, strategy="incremental")
    before = view.to_arrays()
    with pytest.raises(EverfreshError) as caught:
        view.update(X=la.RowUpdate(1, np.zeros(4)))
    assert caught.value.code == Code.VALUE
    assert all(np.array_equal(before[n], a) for n, a in view.to_arrays().items())
    view.update(X=la.RowUpdate(1, [0.0, 2.0, 0.0, 1.0]))
    assert np.allclose(view.read(), np.linalg.inv(view["X"]))


def test_an_update_that_woodbury_cannot_take_is_re_evaluated():
    """E was nearly singular and is not any more: the capacitance is hopeless, the new inverse is not."""
    e = np.diag([1.0, 1e-9])
    view = la.MatrixView(
        "W := inv(X);",
        {"X": e},
        strategy="incremental",
        options=la.ViewOptions(condition_limit=1e10),
    )
    applied = view.update(
        X=la.LowRank(np.array([[1e3, 0.0], [0.0, 1e9]]), np.array([[1.0, 0.0], [0.0, 1e-6]]))
    )
    assert np.allclose(view.read(), np.linalg.inv(view["X"]), rtol=1e-9)
    assert applied.how in ("reevaluate", "incremental")


def test_an_overflow_is_refused():
    _, view = power_view()
    before = view.to_arrays()
    with pytest.raises(EverfreshError) as caught, np.errstate(all="ignore"):
        view.update(A=la.LowRank(np.full((12, 1), 1e200), np.full((12, 1), 1e100)))
    assert caught.value.code == Code.OVERFLOW
    assert all(np.array_equal(before[n], a) for n, a in view.to_arrays().items())


def test_updates_are_atomic_when_re_evaluation_fails_half_way():
    x = np.eye(3)
    view = la.MatrixView("B := X X; W := inv(B);", {"X": x}, strategy="reevaluate")
    before = view.to_arrays()
    with pytest.raises(EverfreshError):
        view.update(X=la.RowUpdate(0, np.zeros(3)))
    assert all(np.array_equal(before[n], a) for n, a in view.to_arrays().items())


def test_an_injected_error_is_found_and_repaired():
    """Damage to a stored view must not survive: if dense it is seen at once, a single entry by a probe."""
    _, view = power_view(n=300, strategy="incremental")
    r = rng(8)
    small = lambda: la.LowRank(1e-3 * r.standard_normal((300, 1)), r.standard_normal((300, 1)))  # noqa: E731
    view.update(A=small())
    assert view.drift < 1e-12
    view.state["B"].base += 1e-6
    applied = view.update(A=small())
    assert applied.how == "reevaluate"
    assert "drift" in applied.reason
    assert max(view.verify().values()) < 1e-12
    view.state["C"].base[17, 23] += 1.0
    assert view.probe() > 1e-4
    for _ in range(view.options.probe_every):
        view.update(A=small())
    assert max(view.verify().values()) < 1e-10
    assert view.reevaluations == 2


def test_pending_factors_equal_merged_ones():
    n = 600
    a = rng().standard_normal((n, n)) / n**0.5
    waiting = la.MatrixView(POWER, {"A": a}, strategy="incremental")
    plain = la.MatrixView(POWER, {"A": a}, strategy="incremental", options=la.ViewOptions(pending=False))
    widths = set()
    r = rng(9)
    for _ in range(40):
        change = la.LowRank(1e-2 * r.standard_normal((n, 1)), r.standard_normal((n, 1)))
        waiting.update(A=change)
        plain.update(A=change)
        widths.add(waiting.state["A"].width)
    assert 16 <= max(widths) <= 32
    assert waiting.state["C"].width > 0
    assert plain.state["C"].width == 4  # the last update: it is merged before the next
    assert np.allclose(waiting.read("C"), plain.read("C"), rtol=1e-10, atol=1e-12)
    assert max(waiting.verify().values()) < 1e-12


def test_a_held_matrix_is_its_sum():
    r = rng(10)
    base = r.standard_normal((8, 6))
    held = Held(base.copy(), NumpyBackend())
    u, v, x, y = (
        r.standard_normal((8, 2)),
        r.standard_normal((6, 2)),
        r.standard_normal((6, 3)),
        r.standard_normal((8, 3)),
    )
    held.reserve(2, 4)
    mark = held.mark()
    held.add(u, v)
    value = base + u @ v.T
    assert np.allclose(held.times(x), value @ x)
    assert np.allclose(held.times(y, True), value.T @ y)
    some = np.zeros((6, 1))
    some[2] = 3.0
    assert np.allclose(held.times_some(some, np.array([2]), False), value @ some)
    assert np.allclose(held.peek(slice(1, 3), slice(2, 5)), value[1:3, 2:5])
    assert np.allclose(held.take(np.array([5, 0])), value[[5, 0]])
    assert np.array_equal(held.base, base)
    held.restore(mark)
    assert np.array_equal(held.array(), base)
    held.add(u, v)
    assert np.allclose(held.array(), value)


def test_snapshots_restore_everything_and_the_future_is_the_same():
    _, _, view = ols_view()
    r = rng(11)
    view.update(X=la.AppendRows(r.standard_normal((2, 5))), Y=la.AppendRows(r.standard_normal((2, 2))))
    view.update(X=la.DeleteRows([3]), Y=la.DeleteRows([3]))
    arrays = view.to_arrays()
    assert all(isinstance(a, np.ndarray) for a in arrays.values())
    again = la.MatrixView.from_arrays(OLS, arrays)
    assert np.array_equal(again["X"], view["X"])
    assert (again.version, again.compiled.strategy) == (view.version, view.compiled.strategy)
    change = {"X": la.RowUpdate(4, r.standard_normal(5))}
    assert again.update(change) == view.update(change)
    assert np.array_equal(again.read(), view.read())


def test_the_same_seed_gives_the_same_bits():
    def once():
        _, view = power_view()
        for i in range(5):
            view.update(A=la.EntryUpdate(i, i, 0.5))
        return view.read(), view.drift

    (a, drift_a), (b, drift_b) = once(), once()
    assert np.array_equal(a, b)
    assert drift_a == drift_b


def test_inputs_of_a_view_are_checked():
    with pytest.raises(EverfreshError, match="NaN"):
        la.MatrixView(POWER, {"A": np.full((2, 2), np.nan)})
    with pytest.raises(EverfreshError, match="3 dimensions"):
        la.MatrixView(POWER, {"A": np.ones((2, 2, 2))})
    with pytest.raises(EverfreshError, match=r"not square|multiply"):
        la.MatrixView(POWER, {"A": np.ones((2, 3))})
    with pytest.raises(EverfreshError, match="keeps no matrix 'Q'"):
        power_view()[1].read("Q")


def test_what_is_read_is_the_callers_own():
    _, view = power_view()
    got = view.read()
    got[:] = 0.0
    assert view.read().any()
