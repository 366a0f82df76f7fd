"""NumPy kernels for a large matrix times a few columns: read once, in blocks of rows that stay in the cache.

BLAS copies a large operand before it multiplies it by two or more columns, and reads it again for the
transpose. Blocks of rows that lie in the cache are multiplied without the copy, and in both directions at
once: two thirds of the time for two to four columns. With many processors BLAS on the whole is faster, since
it reads with all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SMALL = 900_000  # multiplications of a product that BLAS does without copying its operands
FEW = 4  # columns up to which blocks pay for both directions
FEW_FORTH = 2  # and for one
FEW_CORES = 4


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pays(matrix: Array, width: int, back: bool) -> bool:
    """Whether blocks are faster than BLAS on the whole, for `width` columns, in both directions or forth."""
    if width > (FEW if back else FEW_FORTH) or not matrix.flags.c_contiguous or _cores() > FEW_CORES:
        return False
    if width == 1:
        return matrix.size >= 12_000_000
    return matrix.size >= 1 << 17


def _blocks(matrix: Array, width: int) -> Iterator[slice]:
    height = max(8, min(128, SMALL // (int(matrix.shape[1]) * width)))
    for start in range(0, matrix.shape[0], height):
        yield slice(start, min(matrix.shape[0], start + height))


def forth(matrix: Array, x: Array) -> Array:
    """`matrix x`."""
    result, turned = np.empty((x.shape[1], matrix.shape[0]), matrix.dtype), x.T
    for rows in _blocks(matrix, x.shape[1]):
        result[:, rows] = turned @ matrix[rows].T
    return result.T


def both(matrix: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """`matrix x` and `matrix' y`, in one pass over the matrix."""
    ahead, x_turned = np.empty((x.shape[1], matrix.shape[0]), matrix.dtype), x.T
    back, y_turned = np.zeros((y.shape[1], matrix.shape[1]), matrix.dtype), y.T
    for rows in _blocks(matrix, max(x.shape[1], y.shape[1])):
        block = matrix[rows]
        ahead[:, rows] = x_turned @ block.T
        back += y_turned[:, rows] @ block
    return ahead.T, back.T
