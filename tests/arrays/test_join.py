"""Joins by shape equal the brute-force join: every shape, algorithm and result, chunked or not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from array_strategies import cells, shapes
from hypothesis import given
from hypothesis import strategies as st

from everfresh.arrays import join
from everfresh.arrays.join import Cells, brute_force, counted, folded, matched, total
from everfresh.arrays.kernels import match, radix
from everfresh.arrays.kernels.match import AUTO, HASH, NESTED, SEARCH, SWEEP
from everfresh.arrays.shape import L0, L1, Cuboid, Hamming, Linf, offsets_of
from everfresh.errors import EverfreshError

HOWS = (AUTO, NESTED, SEARCH, HASH, SWEEP)


def _set(pairs: Any) -> Counter[tuple[int, int]]:
    return Counter(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


@given(st.data(), st.integers(1, 4), st.sampled_from(HOWS))
def test_matches_equal_brute_force(data: st.DataObject, ndim: int, how: int) -> None:
    shape = data.draw(shapes(ndim))
    left, right = data.draw(cells(ndim)), data.draw(cells(ndim))
    want = brute_force(left, right, shape)
    a, b = Cells.of(left), Cells.of(right)
    assert _set(matched(a, b, shape, how=how)) == _set(want)
    counts = counted(a, b, shape, how=how)
    assert counts.tolist() == np.bincount(want[0], minlength=len(a)).tolist()
    assert total(a, b, shape) == len(want[0])


@given(st.data(), st.integers(1, 3), st.sampled_from(HOWS))
def test_cells_that_are_far_apart_fit_no_key_and_are_joined(data: st.DataObject, ndim: int, how: int) -> None:
    """Gaps beyond the reach of a shape count for nothing."""
    near = Cuboid(((-1, 2),) * ndim)
    shape = data.draw(st.sampled_from([L1(2), Linf(1), Linf(2) - L1(1), near, Hamming(1), L0()]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    places = np.array([-(1 << 60) + 1, -(1 << 59), 0, 7, 1 << 59, (1 << 60) - 5], np.int64)
    left, right = (
        rng.choice(places, (ndim, count)) + rng.integers(0, 4, (ndim, count))
        for count in data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30)))
    )
    want = brute_force(left, right, shape)
    a, b = Cells.of(left), Cells.of(right)
    assert _set(matched(a, b, shape, how=how)) == _set(want)
    assert counted(a, b, shape, how=how).tolist() == np.bincount(want[0], minlength=len(a)).tolist()
    assert _set(matched(a, a, shape)) == _set(brute_force(left, left, shape))


@given(st.data(), st.integers(1, 3), st.sampled_from(HOWS), st.booleans())
def test_aggregates_equal_brute_force(data: st.DataObject, ndim: int, how: int, whole: bool) -> None:
    shape = data.draw(shapes(ndim))
    left, right = data.draw(cells(ndim)), data.draw(cells(ndim))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    values = rng.integers(-9, 9, right.shape[1])
    if not whole:
        values = values * 0.1
    valid = rng.random(right.shape[1]) < 0.8
    found = folded(Cells.of(left), Cells.of(right), shape, values, valid, how=how)
    groups: dict[int, list[Any]] = {}
    for i, j in zip(*brute_force(left, right, shape), strict=True):
        if valid[j]:
            groups.setdefault(int(i), []).append(values[j])
    assert np.flatnonzero(found.count).tolist() == sorted(groups)
    for i, group in groups.items():
        assert (found.count[i], found.min[i], found.max[i]) == (len(group), min(group), max(group))
        assert found.sum[i] == pytest.approx(sum(group), rel=1e-12, abs=1e-12)


def _chunked(coords: Any, length: int) -> Cells:
    """Cells chunk by chunk."""
    places = coords // length
    order = np.lexsort((*coords[::-1], *places[::-1]))
    coords, places = coords[:, order], places[:, order]
    first = np.ones(coords.shape[1], bool)
    first[1:] = (places[:, 1:] != places[:, :-1]).any(axis=0)
    starts = np.append(np.flatnonzero(first), coords.shape[1])
    return Cells.of(coords, starts)


@given(st.data(), st.integers(1, 3), st.sampled_from(HOWS))
def test_pairs_of_chunks_equal_brute_force(data: st.DataObject, ndim: int, how: int) -> None:
    """All pairs of chunks, in any order, make the whole join; some of them make their part of it."""
    shape = data.draw(shapes(ndim))
    left, right = data.draw(cells(ndim)), data.draw(cells(ndim))
    a = _chunked(left, 3)
    b = _chunked(right, 4)
    grid = [(p, q) for p in range(len(a.starts) - 1) for q in range(len(b.starts) - 1)]
    chosen = [pair for pair in grid if data.draw(st.booleans())] if data.draw(st.booleans()) else grid
    pairs = np.array(chosen, np.int64).reshape(-1, 2).T
    want: Counter[tuple[int, int]] = Counter()
    for i, j in zip(*brute_force(a.coords, b.coords, shape), strict=True):
        p = int(np.searchsorted(a.starts, i, "right")) - 1
        q = int(np.searchsorted(b.starts, j, "right")) - 1
        want[int(i), int(j)] += (p, q) in chosen
    assert _set(matched(a, b, shape, (pairs[0], pairs[1]), how=how)) == +want
    counts = counted(a, b, shape, (pairs[0], pairs[1]), how=how)
    assert counts.tolist() == [sum(n for (i, _), n in want.items() if i == k) for k in range(len(a))]


def test_compiled_and_plain_loops_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel run by Python gives what it gives compiled."""
    rng = np.random.default_rng(3)
    left, right = Cells.of(rng.integers(0, 9, (2, 40))), Cells.of(rng.integers(0, 9, (2, 50)))
    compiled = [_set(matched(left, right, L1(2), how=how)) for how in HOWS[1:]]
    monkeypatch.setattr(type(match.match), "native", lambda self, *args: self.twin(*args))
    assert compiled == [_set(matched(left, right, L1(2), how=how)) for how in HOWS[1:]]


def test_large_joins_run_compiled_and_small_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    cells = Cells.of(rng.integers(0, 30, (2, 900)))
    by_numpy = counted(cells, cells, Linf(1))
    monkeypatch.setattr(join, "_FEW", 0)
    monkeypatch.setattr(join, "_MANY", 0)
    assert counted(cells, cells, Linf(1)).tolist() == by_numpy.tolist()


@pytest.mark.parametrize("bits", [1, 11, 12, 40, 62])
def test_digits_sort_as_numpy_does(bits: int) -> None:
    keys = np.random.default_rng(bits).integers(0, 1 << bits, 500)
    for run in (radix.argsort.twin, radix.argsort.native):
        found, order = run(keys, bits)
        assert np.array_equal(found, np.sort(keys))
        assert np.array_equal(order, np.argsort(keys, kind="stable"))


def test_far_cells_are_out_of_reach() -> None:
    a, b = Cells.of([[0, 1]]), Cells.of([[1 << 40, (1 << 40) + 1]])
    assert total(a, b, L1(5)) == 0
    assert total(a, b, Cuboid((((1 << 40), (1 << 40)),))) == 2
    assert total(a, b, Cuboid(((-(1 << 41), 1 << 41),))) == 4


def test_any_time_needs_no_rows_for_it() -> None:
    """A dimension without bound is left out of the keys."""
    a = Cells.of([[0, 1 << 50, 5], [3, 3, 9]])
    assert _set(matched(a, a, Cuboid(((None, None), (0, 0))))) == Counter(
        {(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 1, (2, 2): 1}
    )
    assert total(a, a, Hamming(2)) == 9


def test_infinite_values_are_summed() -> None:
    a = Cells.of([[1, 2, 3]])
    found = folded(a, a, L0(), np.array([np.inf, -np.inf, 1.5]), how=SWEEP)
    assert found.sum.tolist() == [np.inf, -np.inf, 1.5]


def test_sums_do_not_drift() -> None:
    a = Cells.of(np.zeros((1, 3)))
    found = folded(a, a, L0(), np.array([1e100, 1.0, -1e100]), how=SWEEP)
    assert found.sum.tolist() == [1.0, 1.0, 1.0]
    assert folded(a, a, L0(), np.array([1e100, 1.0, -1e100])).sum.tolist() == [1.0, 1.0, 1.0]


def test_wrong_dimensions_are_refused() -> None:
    with pytest.raises(EverfreshError, match="are not matched"):
        counted(Cells.of([[1]]), Cells.of([[1], [1]]), L1(1))
    with pytest.raises(EverfreshError, match="has 2 dimensions"):
        counted(Cells.of([[1]]), Cells.of([[1]]), offsets_of([(0, 1)]))
    with pytest.raises(EverfreshError, match="a row for each dimension"):
        Cells.of([1, 2])


def test_keys_of_too_many_bits_are_refused() -> None:
    a = Cells.of([[-(1 << 61), 1 << 61]])
    with pytest.raises(EverfreshError, match="64-bit key"):
        counted(a, a, Cuboid(((0, (1 << 62) - 2),)))
