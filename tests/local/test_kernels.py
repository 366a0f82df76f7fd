"""Numbers and hashing: the parts of kernels that can be judged by themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from everfresh.algebra import Kind
from everfresh.local.store.components import (
    float_total,
    wide_from_int64,
    wide_from_python,
    wide_to_python,
)
from everfresh.local.store.pool import Layout, Pool

TOP = (1 << 127) - 1
BOTTOM = -(1 << 127)
EDGES = [0, 1, -1, TOP, BOTTOM, BOTTOM + 1, 1 << 63, 1 << 64, -(1 << 64), (1 << 64) - 1, 2**118 + 2**65]


@settings(deadline=None)
@given(st.lists(st.integers(BOTTOM, TOP)))
@example(EDGES)
def test_wide_words_are_the_python_integers(numbers: list[int]) -> None:
    assert wide_to_python(*wide_from_python(numbers)) == numbers


@settings(deadline=None)
@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_wide_from_int64(numbers: list[int]) -> None:
    assert wide_to_python(*wide_from_int64(np.array(numbers, dtype=np.int64))) == numbers


@pytest.mark.parametrize("number", [TOP + 1, BOTTOM - 1, 1 << 200])
def test_wide_from_python_refuses_more_than_128_bits(number: int) -> None:
    with pytest.raises(OverflowError):
        wide_from_python([number])


TERM = st.one_of(
    st.floats(-1e300, 1e300),
    st.builds(math.ldexp, st.sampled_from([1.0, -1.0, 1.5, -3.0]), st.integers(-120, 120)),
)


@settings(deadline=None)
@given(st.lists(st.tuples(TERM, TERM, TERM)))
@example([(1.0, 2.0**-53, 2.0**-200), (1.0, 2.0**-53, -(2.0**-200)), (2.0**-200, 1.0, 2.0**-53), (-0.0,) * 3])
@example([(1e300, 1.0, -1e300), (1.0, 1e300, -1e300), (-1e300, 1e-300, 1e300)])
def test_float_total_is_the_rounded_exact_sum(terms: list[tuple[float, float, float]]) -> None:
    floats = np.array(terms, dtype=np.float64).reshape(-1, 3).T
    total = float_total(floats)
    assert total.tolist() == [math.fsum(t) for t in terms]
    assert not np.signbit(total[total == 0]).any()


def test_float_total_wants_three_rows() -> None:
    with pytest.raises(ValueError, match="three rows"):
        float_total(np.zeros((2, 5)))


def test_rows_of_a_layout() -> None:
    layout = Layout((Kind.FLOAT, Kind.COUNT, Kind.WIDE, Kind.FLOAT, Kind.COUNT))
    assert (layout.int_rows, layout.float_rows, layout.offsets) == (4, 6, (0, 0, 1, 3, 3))
    assert (Layout().int_rows, Layout().float_rows, Layout().offsets) == (0, 0, ())


def _probes(keys: np.ndarray) -> float:
    """The mean distance of the entries from their home cells."""
    pool = Pool(len(keys), Layout())
    pool.insert(keys, np.ones(keys.shape[1], np.int64))
    at = np.flatnonzero(pool._table)
    mask = len(pool._table) - 1
    return float(np.mean((at - (pool._table[at] >> 32)) & mask))


N = np.arange(4000)


@pytest.mark.parametrize("shift", [0, 3, 10, 20, 31, 32, 33, 40, 48, 51])
def test_multiples_of_powers_of_two_do_not_cluster(shift: int) -> None:
    assert _probes((N << shift).reshape(1, -1)) < 1


@pytest.mark.parametrize(
    "keys",
    [
        np.stack([N.astype(np.float64).view(np.int64)]),
        np.stack([(N / 100).view(np.int64)]),
        np.stack([N // 64, N % 64]),
        np.stack([N % 64 << 32, N // 64]),
        np.stack([N, N]),
        np.stack([N, -N]),
        np.stack([N // 512, N // 8 % 64, N % 8, N * 0, N * 0 + 1]),
    ],
    ids=["floats", "prices", "pairs", "shifted pairs", "equal", "opposite", "five words"],
)
def test_usual_keys_do_not_cluster(keys: np.ndarray) -> None:
    assert _probes(keys) < 1
