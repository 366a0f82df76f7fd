"""NumPy arrays: a large matrix times a few columns, in both directions, reading it once (`local.panels`).

BLAS copies a large operand before it multiplies it by two or more columns, and reads it again for the
transpose. The compiled loops read it once and copy nothing, each thread some of the rows: for both directions
that is a third to two thirds of the time of BLAS. One column in one direction is left to BLAS, and so are
many.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 1 << 18  # entries of a matrix from which the loops are worth their call
SHARE = 1 << 20  # entries that are worth a thread
FEW = 8  # columns up to which the loops are faster than BLAS
FEW_EACH = 16  # the same if there are columns in both directions


def pays(matrix: Array, forth: int, back: int) -> bool:
    """Whether the loops are faster than BLAS, for so many columns in each direction."""
    few = FEW_EACH if forth and back else FEW
    return forth + back > 1 and max(forth, back) <= few and _fits(matrix)


def _fits(matrix: Array) -> bool:
    return bool(
        matrix.size >= LEAST and matrix.flags.c_contiguous and matrix.dtype.name in ("float64", "float32")
    )


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="everfresh-matrix")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of the threads


def share(entries: int, threads: int = 0) -> int:
    """How many threads read a matrix of so many entries, of `threads` that may; 0: all there are."""
    worth = entries // SHARE
    if worth < 2:
        return 1
    from everfresh.linalg.kernels import thin_products

    return min(threads or thin_products.threads(), worth)


def both(
    matrix: Array, x: Array | None, y: Array | None, threads: int = 0
) -> tuple[Array | None, Array | None]:
    """`matrix x` and `matrix' y` in one pass, by so many threads; 0: as many as there may be."""
    from everfresh.linalg.kernels import thin_products

    rows, columns = (int(size) for size in matrix.shape)
    single = x is not None and y is not None and x.shape[1] == y.shape[1] == 1
    ahead_by, back_by = (_turned(part, size, matrix, single) for part, size in ((x, columns), (y, rows)))
    ahead = np.empty((ahead_by.shape[0], rows), matrix.dtype)
    run = thin_products.multiply_one if single else thin_products.multiply

    def piece(start: int, stop: int) -> Array:
        back = np.zeros((back_by.shape[0], columns), matrix.dtype)
        part, y_part, out = matrix[start:stop], back_by[:, start:stop], ahead[:, start:stop]
        run(part, ahead_by, np.ascontiguousarray(y_part), out, back)
        rest = (stop - start) % thin_products.HEIGHT
        if rest:
            out[:, -rest:] = ahead_by @ part[-rest:].T
            back += y_part[:, -rest:] @ part[-rest:]
        return back

    count = share(matrix.size, threads)
    step = -(-rows // (count * thin_products.HEIGHT)) * thin_products.HEIGHT
    cuts = [(start, min(rows, start + step)) for start in range(0, rows, step)]
    others = [_pool(count - 1).submit(piece, *cut) for cut in cuts[1:]]
    back = piece(*cuts[0])
    for other in others:
        back += other.result()
    return (
        None if x is None else ahead[: x.shape[1]].T,
        None if y is None else back[: y.shape[1]].T,
    )


def adding_pays(base: Array, rank: int) -> bool:
    """Whether `shifted` is faster than a product by BLAS and a sum."""
    return rank <= FEW_EACH and _fits(base)


def shifted(base: Array, left: Array, right: Array, out: Array) -> None:
    """`out = base + left right'`, in one pass over both."""
    from everfresh.linalg.kernels import thin_products

    ups, downs = (_turned(part, part.shape[0], base) for part in (left, right))
    thin_products.shifted(base, ups, downs, out)
    if base.shape[0] % 2:
        out[-1] = base[-1] + ups[:, -1] @ downs


def _turned(x: Array | None, size: int, like: Array, single: bool = False) -> Array:
    """Columns as rows, an even number of them unless there is a `single` one: zeros below."""
    if x is None:
        return np.zeros((0, size), like.dtype)
    width = x.shape[1] if single else x.shape[1] + x.shape[1] % 2
    if width == x.shape[1] and x.dtype == like.dtype:
        return np.ascontiguousarray(x.T)
    found = np.zeros((width, size), like.dtype)
    found[: x.shape[1]] = x.T
    return found
