"""The analytics against NumPy's own answers, over streams of updates."""

from __future__ import annotations

import numpy as np
import pytest

import everfresh.linalg as la
from everfresh.errors import EverfreshError


def data(rows=40, features=4, responses=None, seed=0):
    r = np.random.default_rng(seed)
    shape = (rows,) if responses is None else (rows, responses)
    return r, r.standard_normal((rows, features)), r.standard_normal(shape)


def with_ones(x):
    return np.hstack([x, np.ones((len(x), 1))])


@pytest.mark.parametrize("responses", [None, 1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_linear_regression(responses, intercept):
    r, x, y = data(responses=responses)
    model = la.LinearRegression(fit_intercept=intercept).fit(x, y)
    for _ in range(5):
        row, answer = r.standard_normal(4), r.standard_normal(y.shape[1:])
        model.update_row(3, row, answer)
        x[3], y[3] = row, answer
        more, answers = r.standard_normal((2, 4)), r.standard_normal((2, *y.shape[1:]))
        model.append(more, answers)
        x, y = np.vstack([x, more]), np.concatenate([y, answers])
        model.delete([0])
        x, y = x[1:], y[1:]
    wanted = np.linalg.lstsq(with_ones(x) if intercept else x, y, rcond=None)[0]
    features = wanted[:-1] if intercept else wanted
    assert np.allclose(model.coef_, features if responses is None else features.T)
    assert np.allclose(model.intercept_, wanted[-1] if intercept else 0.0)
    assert np.allclose(model.predict(x), (with_ones(x) if intercept else x) @ wanted)
    assert model.view.reevaluations == 0


def test_ridge():
    r, x, y = data()
    model = la.Ridge(alpha=2.5).fit(x, y)
    for i in range(5):
        row = r.standard_normal(4)
        model.update_row(i, row, 1.0)
        x[i], y[i] = row, 1.0
    assert np.allclose(model.coef_, np.linalg.solve(x.T @ x + 2.5 * np.eye(4), x.T @ y))
    with pytest.raises(EverfreshError):
        la.Ridge(alpha=0.0)


def test_a_regression_grows_from_nothing_to_many_rows():
    """The cheapest order of its products changes on the way; what is stored must keep its meaning."""
    r = np.random.default_rng(5)
    x, y = r.standard_normal((200, 6)), r.standard_normal((200, 9))
    model = la.Ridge(0.5).fit(x[:0], y[:0])
    for i in range(0, 200, 8):
        model.append(x[i : i + 8], y[i : i + 8])
    assert np.allclose(model.coef_, np.linalg.solve(x.T @ x + 0.5 * np.eye(6), x.T @ y).T)
    again = la.MatrixView.from_arrays(model._source((200, 6), (200, 9)), model.view.to_arrays())
    again.update(X=la.RowUpdate(0, x[1]))
    model.view.update(X=la.RowUpdate(0, x[1]))
    assert np.array_equal(again.read(), model.view.read())


@pytest.mark.parametrize("model", ["auto", "linear", "exponential", "skip-4"])
def test_gradient_descent(model):
    r, x, y = data(responses=2)
    descent = la.GradientDescent(rate=0.01, steps=16, model=model).fit(x, y)
    row = r.standard_normal(4)
    descent.update_row(7, row, [1.0, 2.0])
    x[7], y[7] = row, [1.0, 2.0]
    descent.append(x[:2], y[:2])
    x, y = np.vstack([x, x[:2]]), np.vstack([y, y[:2]])
    t = np.zeros((4, 2))
    for _ in range(16):
        t = t - 0.01 * x.T @ (x @ t - y)
    assert np.allclose(descent.coef_, t.T)


def test_pagerank():
    r = np.random.default_rng(1)
    links = (r.random((12, 12)) < 0.3).astype(float)
    links[5] = 0.0
    model = la.PageRank(steps=20).fit(links)

    def wanted():
        t = np.full(12, 1 / 12)
        for _ in range(20):
            out = links.sum(1)
            moved = sum((links[i] / out[i] if out[i] else np.full(12, 1 / 12)) * t[i] for i in range(12))
            t = 0.85 * moved + 0.15 / 12
        return t

    assert np.allclose(model.scores_, wanted())
    assert np.isclose(model.scores_.sum(), 1.0)
    links[3], links[5], links[0] = 0.0, links[1], np.eye(12)[4]
    model.set_links(3, links[3])
    model.update({5: links[5], 0: links[0]})
    assert np.allclose(model.scores_, wanted())


def test_matrix_power():
    r = np.random.default_rng(2)
    a = r.standard_normal((9, 9)) / 3
    model = la.MatrixPower(7).fit(a)
    u, v = r.standard_normal((9, 2)), r.standard_normal((9, 2))
    model.add(u, v)
    model.update(la.EntryUpdate(1, 2, 3.0))
    a = a + u @ v.T
    a[1, 2] = 3.0
    assert np.allclose(model.value_, np.linalg.matrix_power(a, 7))
    assert "ON UPDATE A" in model.explain()


def reached(links, k):
    once = (links != 0) | np.eye(len(links), dtype=bool)
    return np.linalg.matrix_power(once.astype(object), k) != 0


@pytest.mark.parametrize(("k", "density"), [(4, 0.05), (6, 0.9), (40, 0.9)])
def test_reachability_is_exact_however_many_walks_there_are(k, density):
    r = np.random.default_rng(3)
    links = (r.random((15, 15)) < density).astype(float)
    model = la.Reachability(k).fit(links)
    for _ in range(30):
        i, j = r.integers(15, size=2)
        links[i, j] = 1.0 - links[i, j]
        (model.link if links[i, j] else model.unlink)(int(i), int(j))
        assert np.array_equal(model.reachable_, reached(links, k))
    for i, j in np.argwhere(links)[:-3]:
        links[i, j] = 0.0
        model.unlink(int(i), int(j))
    assert np.array_equal(model.reachable_, reached(links, k))
