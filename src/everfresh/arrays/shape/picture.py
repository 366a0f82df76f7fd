"""Shapes as pictures: SVG without any library, or by matplotlib.

Cells of the shape are filled, the centre is framed; the last dimension runs to the right, the one before it
downwards. With three dimensions there is a panel for each offset in the first one. Dimensions without a bound
are drawn as far as five cells.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from everfresh.arrays.shape.base import Ints, Shape
from everfresh.arrays.shape.sets import Cuboid
from everfresh.errors import Code, EverfreshError

_SIDE, _GAP, _TOP = 14, 18, 34
_FULL, _EMPTY, _LINE, _MARK = "#3b6ea5", "#f3f4f6", "#c9ced6", "#c2410c"
_REACH = 5  # where there is no bound


def _panels(shape: Shape, ndim: int) -> tuple[list[tuple[int | None, Any]], tuple[int, int]]:
    """A grid of marks for each panel with its offset in the first dimension, and where the centre is."""
    shape.check_ndim(ndim)
    if not 1 <= ndim <= 3:
        raise EverfreshError(
            Code.ARGUMENT, f"a shape of {ndim} dimensions is not drawn", hint="1 to 3 dimensions are"
        )
    limits = [(-_REACH, _REACH) if lo is None or hi is None else (lo, hi) for lo, hi in shape.bounds(ndim)]
    box = [(min(lo, 0), max(hi, 0)) for lo, hi in limits]
    cut = shape & Cuboid(tuple((lo, hi) for lo, hi in box))
    cells: Ints = cut.offsets(ndim)
    if ndim == 1:
        cells, box = np.vstack([np.zeros_like(cells), cells]), [(0, 0), *box]
    (top, bottom), (left, right) = box[-2:]
    firsts: list[int | None] = list(range(box[0][0], box[0][1] + 1)) if ndim == 3 else [None]
    panels = []
    for first in firsts:
        chosen = cells if first is None else cells[1:, cells[0] == first]
        grid = np.zeros((bottom - top + 1, right - left + 1), np.bool_)
        grid[chosen[0] - top, chosen[1] - left] = True
        panels.append((first, grid))
    return panels, (-top, -left)


def svg_of(shape: Shape, ndim: int = 2) -> str:
    """The picture as SVG text."""
    panels, (row, column) = _panels(shape, ndim)
    height, width = panels[0][1].shape
    step = width * _SIDE + _GAP
    total = max(len(panels) * step + _GAP, 9 * len(str(shape)) + 2 * _GAP)
    tall = height * _SIDE + _TOP + 2 * _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{tall}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="{_GAP}" y="20">{escape(str(shape))}</text>',
    ]
    for k, (first, grid) in enumerate(panels):
        x0 = _GAP + k * step
        for (i, j), full in np.ndenumerate(grid):
            lines.append(
                f'<rect x="{x0 + j * _SIDE}" y="{_TOP + i * _SIDE}" width="{_SIDE}" height="{_SIDE}" '
                f'fill="{_FULL if full else _EMPTY}" stroke="{_LINE}"/>'
            )
        if first in (None, 0):
            lines.append(
                f'<rect x="{x0 + column * _SIDE}" y="{_TOP + row * _SIDE}" width="{_SIDE}" '
                f'height="{_SIDE}" fill="none" stroke="{_MARK}" stroke-width="2"/>'
            )
        if first is not None:
            lines.append(f'<text x="{x0}" y="{_TOP + height * _SIDE + 15}">{first:+d}</text>')
    return "\n".join([*lines, "</svg>", ""])


def plot(shape: Shape, ndim: int, axes: Any) -> Any:
    """The picture by matplotlib; panels stand side by side on one pair of axes."""
    panels, (row, column) = _panels(shape, ndim)
    if axes is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise EverfreshError(
                Code.ENVIRONMENT, "matplotlib is not installed", hint="pip install matplotlib, or use svg()"
            ) from None
        _, axes = pyplot.subplots()
    grids = [grid for _, grid in panels]
    blank = np.zeros((grids[0].shape[0], 1), np.bool_)
    picture = np.hstack([part for grid in grids for part in (grid, blank)][:-1])
    axes.imshow(picture, cmap="Blues", vmin=0, vmax=1)
    center = next(k for k, (first, _) in enumerate(panels) if first in (None, 0))
    axes.plot([center * (grids[0].shape[1] + 1) + column], [row], marker="s", color=_MARK, fillstyle="none")
    axes.set_title(str(shape))
    axes.set_axis_off()
    return axes
