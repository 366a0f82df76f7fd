"""A GPU kernel for a large matrix times a few columns in both directions, reading the matrix once (Triton).

Each program takes some rows and a stretch of columns, tile by tile: a tile is multiplied by the columns of
x and, while it is at hand, its transpose by the rows of y. Sums over programs are taken afterwards, so that
results do not depend on the order in which programs run. Triton comes with PyTorch for CUDA; without it, and
for other types, the two products are taken one after the other. On an H200 with 20,000 rows and columns of
doubles this takes 1.1 ms where the two products take 1.5 (and one alone 0.75: the bandwidth).
"""

from __future__ import annotations

from functools import cache
from typing import Any

FEW = 8  # columns up to which the kernel pays
LARGE = 1 << 24  # entries of a matrix from which it does
_ROWS, _COLUMNS, _SPLITS, _WARPS, _STAGES = 128, 32, 16, 2, 2  # found by trying, on an H200


@cache
def _kernel() -> Any:
    """The kernel; None without Triton."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    # Triton reads the source of the function and looks names up in its globals.
    globals()["tl"] = tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def both(  # type: ignore[no-untyped-def]
        matrix,
        x,
        y,
        forth,
        back,
        rows,
        columns,
        stretch,
        WIDTH: tl.constexpr,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
    ):
        strip, split = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
        i, c = strip * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
        of_y = tl.load(y + c[None, :] * rows + i[:, None], mask=i[:, None] < rows, other=0.0)
        total = tl.zeros((ROWS, WIDTH), dtype=of_y.dtype)
        start = split * stretch
        for at in range(start, tl.minimum(start + stretch, columns), COLUMNS):
            j = at + tl.arange(0, COLUMNS)
            inside = (i[:, None] < rows) & (j[None, :] < columns)
            tile = tl.load(matrix + i[:, None] * columns + j[None, :], mask=inside, other=0.0)
            of_x = tl.load(x + j[:, None] + c[None, :] * columns, mask=j[:, None] < columns, other=0.0)
            total = tl.dot(tile, of_x, total, out_dtype=total.dtype)
            part = tl.dot(tl.trans(tile), of_y, out_dtype=total.dtype)
            place = back + (strip * WIDTH + c[None, :]) * columns + j[:, None]
            tl.store(place, part, mask=j[:, None] < columns)
        place = forth + (split * WIDTH + c[None, :]) * rows + i[:, None]
        tl.store(place, total, mask=i[:, None] < rows)

    return both


def pays(matrix: Any, width: int) -> bool:
    """Whether the kernel serves products with at most so many columns in a direction."""
    return (
        width <= FEW
        and bool(matrix.is_cuda)
        and bool(matrix.is_contiguous())
        and matrix.numel() >= LARGE
        and str(matrix.dtype) == "torch.float64"
        and _kernel() is not None
    )


def both(matrix: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """`matrix x` and `matrix' y`, in one pass over the matrix; columns of the results are contiguous."""
    rows, columns = matrix.shape
    strips = -(-rows // _ROWS)
    stretch = -(-columns // (_SPLITS * _COLUMNS)) * _COLUMNS
    forth = matrix.new_empty((_SPLITS, FEW, rows))
    back = matrix.new_empty((strips, FEW, columns))
    _kernel()[(strips, _SPLITS)](
        matrix,
        _wide(x),
        _wide(y),
        forth,
        back,
        rows,
        columns,
        stretch,
        WIDTH=FEW,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
        num_warps=_WARPS,
        num_stages=_STAGES,
    )
    return forth[:, : x.shape[1]].sum(0).T, back[:, : y.shape[1]].sum(0).T


def _wide(x: Any) -> Any:
    """Columns as rows, with zeros up to the width that the kernel takes."""
    if x.shape[1] == FEW:
        return x.T.contiguous()
    wide = x.new_zeros((FEW, x.shape[0]))
    wide[: x.shape[1]] = x.T
    return wide
