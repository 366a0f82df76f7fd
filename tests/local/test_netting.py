"""Rows merged by identity, against a dict.

Mutations that these catch: rows with one word in common taken for equal, an order other than that of first
appearance, a row kept whose weights come to nothing, room for one distinct row too few.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everfresh.local.kernels.netting import netted, netted_rows

WORD = st.sampled_from([0, 1, -1, 1 << 32, -(1 << 63), (1 << 63) - 1])


@given(st.integers(0, 3), st.integers(0, 40), st.data())
def test_netted(width: int, count: int, data: Any) -> None:
    rows = [tuple(data.draw(WORD) for _ in range(width)) for _ in range(count)]
    weights = [data.draw(st.integers(-2, 2)) for _ in range(count)]
    total: dict[Any, int] = {}
    for row, weight in zip(rows, weights, strict=True):
        total[row] = total.get(row, 0) + weight
    expected = [(row, n) for row, n in total.items() if n]
    words = np.array(rows, np.int64).reshape(count, width).T  # not contiguous
    signed = np.array(weights, np.int64)
    first, found = netted_rows(words, signed)
    assert [(rows[i], n) for i, n in zip(first.tolist(), found.tolist(), strict=True)] == expected
    assert first.tolist() == [rows.index(row) for row, _ in expected]
    merged, found = netted(words, signed)
    assert merged.flags.c_contiguous
    assert list(zip(map(tuple, merged.T.tolist()), found.tolist(), strict=True)) == expected
