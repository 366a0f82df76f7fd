"""The Triton kernel of `everfresh.linalg.kernels.gpu`; None where there is no Triton. Loaded when it is
needed.
"""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    kernel: Any = None
else:

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(  # type: ignore[no-untyped-def]
        matrix,
        x,
        y,
        forth,
        back,
        rows,
        columns,
        stretch,
        x_width,
        y_width,
        WIDTH: tl.constexpr,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
    ):
        """Of one strip of rows and one stretch of columns: its sums for `matrix x` and `matrix' y`."""
        strip, split = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
        i, c = strip * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
        in_y = (i[:, None] < rows) & (c[None, :] < y_width)
        of_y = tl.load(y + c[None, :] * rows + i[:, None], mask=in_y, other=0.0)
        total = tl.zeros((ROWS, WIDTH), dtype=of_y.dtype)
        start = split * stretch
        for at in range(start, tl.minimum(start + stretch, columns), COLUMNS):
            j = at + tl.arange(0, COLUMNS)
            inside = (i[:, None] < rows) & (j[None, :] < columns)
            tile = tl.load(matrix + i[:, None] * columns + j[None, :], mask=inside, other=0.0)
            in_x = (j[:, None] < columns) & (c[None, :] < x_width)
            of_x = tl.load(x + j[:, None] + c[None, :] * columns, mask=in_x, other=0.0)
            total = tl.dot(tile, of_x, total, out_dtype=total.dtype)
            part = tl.dot(tl.trans(tile), of_y, out_dtype=total.dtype)
            place = back + (strip * y_width + c[None, :]) * columns + j[:, None]
            tl.store(place, part, mask=(j[:, None] < columns) & (c[None, :] < y_width))
        place = forth + (split * x_width + c[None, :]) * rows + i[:, None]
        tl.store(place, total, mask=(i[:, None] < rows) & (c[None, :] < x_width))
