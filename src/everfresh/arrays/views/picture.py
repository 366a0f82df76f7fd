"""Pictures of views: the cells by one of their attributes, and the chunks that they lie in.

Of two dimensions the first goes down and the second to the right; of more, the last two, cells that lie over
each other added up; of one, a row. A chunk is outlined where it holds cells, in
the color of the worker that keeps it if there are several; bars say how many cells each of them keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import coordinates
from everfresh.errors import Code, EverfreshError

_SIDE = 480


def drawn(
    array: Array, attribute: str | None = None
) -> tuple[NDArray[Any], NDArray[Any], list[tuple[Any, ...]]]:
    """What a picture shows: places of cells (down, right), their values, and boxes of chunks."""
    schema = array.schema
    table = array.table
    numbers = [
        a.name for a in schema.attributes if a.type.name not in ("VARCHAR", "DATE", "TIMESTAMP", "INTERVAL")
    ]
    name = attribute if attribute is not None else (numbers[0] if numbers else None)
    if name is not None and name not in numbers:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"'{name}' is no attribute that has numbers",
            place=f"array '{schema.name}'",
            hint="attributes are: " + (", ".join(numbers) or "none"),
        )
    coords = coordinates(table, schema.ndim)
    values = np.ones(len(table)) if name is None else np.nan_to_num(
        np.array([0.0 if v is None else float(v) for v in table.column(name).to_pylist()])
    )  # fmt: skip
    shown = coords[-2:] if schema.ndim > 1 else np.stack([np.zeros(len(table), np.int64), coords[0]])
    places, inverse = np.unique(shown, axis=1, return_inverse=True)
    total = np.bincount(inverse.reshape(-1), values, places.shape[1]) if len(values) else values
    boxes = set()
    for number in array.chunks:
        first, last = schema.chunk_box(number)
        down = (0, 0) if schema.ndim == 1 else (int(first[-2]), int(last[-2]))
        boxes.add((*down, int(first[-1]), int(last[-1])))
    return places, total, sorted(boxes)


def _edges(array: Array, homes: Mapping[int, int]) -> dict[tuple[int, ...], str]:
    """The color of each box: of chunks that lie over each other, that of the last."""
    found: dict[tuple[int, ...], str] = {}
    for number in array.chunks:
        if number in homes:
            first, last = array.schema.chunk_box(number)
            down = (0, 0) if array.schema.ndim == 1 else (int(first[-2]), int(last[-2]))
            found[(*down, int(first[-1]), int(last[-1]))] = _WORKERS[homes[number] % len(_WORKERS)]
    return found


def loads(array: Array, homes: Mapping[int, int]) -> list[int]:
    """How many cells each worker keeps."""
    found = [0] * (1 + max(homes.values(), default=-1))
    for number, chunk in array.chunks.items():
        if number in homes:
            found[homes[number]] += len(chunk)
    return found


def svg_of(array: Array, attribute: str | None = None, homes: Mapping[int, int] | None = None) -> str:
    """The picture as SVG; `homes` are the workers of chunks.

    >>> from everfresh.arrays.evaluate import create
    >>> svg_of(create("CREATE ARRAY a <n: INT> [i=1,4,2; j=1,4,2]", [(1, 1, 3), (4, 4, 1)])).count("<rect")
    5
    """
    places, values, boxes = drawn(array, attribute)
    if not boxes:
        return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'
    top, left = min(b[0] for b in boxes), min(b[2] for b in boxes)
    height, width = max(b[1] for b in boxes) - top + 1, max(b[3] for b in boxes) - left + 1
    scale = _SIDE / max(height, width)
    edges, bars = _edges(array, homes or {}), loads(array, homes or {})
    below = height * scale + (_BAR * len(bars) + _BAR if bars else 0)
    lo, hi = float(values.min()), float(values.max())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * scale:.6g} {below:.6g}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for (i, j), value in zip(places.T.tolist(), values.tolist(), strict=True):
        share = 1.0 if hi == lo else (value - lo) / (hi - lo)
        mixed = (round(a + (b - a) * share) for a, b in zip(_PALE, _DARK, strict=True))
        color = "#" + "".join(f"{part:02x}" for part in mixed)
        parts.append(
            f'<rect x="{(j - left) * scale:.6g}" y="{(i - top) * scale:.6g}" width="{scale:.6g}" '
            f'height="{scale:.6g}" fill="{color}"/>'
        )
    for a, b, c, d in boxes:
        x, y, wide, high = (f"{n * scale:.6g}" for n in (c - left, a - top, d - c + 1, b - a + 1))
        color = edges.get((a, b, c, d), _GREY)
        parts.append(f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="none" stroke="{color}"/>')
    for worker, cells in enumerate(bars):
        y, wide = height * scale + _BAR * (worker + 1), 0.7 * width * scale * cells / max(1, *bars)
        color = _WORKERS[worker % len(_WORKERS)]
        parts.append(f'<rect x="0" y="{y:.6g}" width="{wide:.6g}" height="{_BAR - 4}" fill="{color}"/>')
        said = f"worker {worker}: {cells:,} cells"
        parts.append(f'<text x="{wide + 6:.6g}" y="{y + _BAR - 8:.6g}" font-size="11">{said}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


_BAR, _GREY = 18, "#b0b6bf"
_WORKERS = ("#4c78a8", "#e6a23c", "#59a14f", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#64b5cd")
_PALE, _DARK = (199, 216, 240), (23, 52, 110)


def plot(
    array: Array, attribute: str | None = None, axes: Any = None, homes: Mapping[int, int] | None = None
) -> Any:
    """The picture drawn by matplotlib, on `axes` if given; returns the axes."""
    try:
        from matplotlib import pyplot
        from matplotlib.patches import Rectangle
    except ImportError:
        raise EverfreshError(
            Code.ENVIRONMENT, "plot needs matplotlib", hint="pip install matplotlib, or use svg()"
        ) from None
    places, values, boxes = drawn(array, attribute)
    edges = _edges(array, homes or {})
    if axes is None:
        axes = pyplot.subplots()[1]
    axes.scatter(places[1], places[0], c=values, marker="s", cmap="Blues")
    for a, b, c, d in boxes:
        color = edges.get((a, b, c, d), _GREY)
        axes.add_patch(Rectangle((c - 0.5, a - 0.5), d - c + 1, b - a + 1, fill=False, edgecolor=color))
    for worker, cells in enumerate(loads(array, homes or {})):
        color = _WORKERS[worker % len(_WORKERS)]
        axes.plot([], [], color=color, label=f"worker {worker}: {cells:,} cells")
    if homes:
        axes.legend()
    names = array.schema.dimension_names
    axes.set_xlabel(names[-1])
    axes.set_ylabel(names[-2] if len(names) > 1 else "")
    axes.invert_yaxis()
    return axes
