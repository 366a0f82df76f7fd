"""A GPU kernel for a large matrix times a few columns in both directions, reading the matrix once (Triton).

Each program takes some rows and a stretch of columns, tile by tile: a tile is multiplied by the columns of
x and, while it is at hand, its transpose by the rows of y. Sums over programs are taken afterwards, so that
results do not depend on the order in which programs run. Triton comes with PyTorch for CUDA; without it, and
for other types, the two products are taken one after the other. On an H200 with 20,000 rows and columns of
doubles this takes 0.9 to 1.1 ms for one to eight columns; the two products take 1.5, each at the bandwidth of
the memory.
"""

from __future__ import annotations

from typing import Any

FEW = 8  # columns up to which the kernel pays
LARGE = 1 << 24  # entries of a matrix from which it does
_ROWS, _COLUMNS, _SPLITS, _WARPS, _STAGES = 128, 32, 16, 2, 2  # found by trying, on an H200


def _kernel() -> Any:
    """The kernel; None without Triton."""
    from everfresh.linalg.kernels.gpu_kernel import kernel

    return kernel


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
    forth = matrix.new_empty((_SPLITS, x.shape[1], rows))
    back = matrix.new_empty((strips, y.shape[1], columns))
    _kernel()[(strips, _SPLITS)](
        matrix,
        x.T.contiguous(),
        y.T.contiguous(),
        forth,
        back,
        rows,
        columns,
        stretch,
        x.shape[1],
        y.shape[1],
        WIDTH=FEW,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
        num_warps=_WARPS,
        num_stages=_STAGES,
    )
    return forth.sum(0).T, back.sum(0).T
