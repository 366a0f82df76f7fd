"""Signals and spectra as pictures: SVG text, without a plotting library.

A line for each group, broken where samples are missing; of windows of one group a spectrogram, or their
arrays as a picture: fields are darker the larger the magnitude. Invariant: well-formed SVG whatever the rows,
of a size that does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.rewrite import Node
from everfresh.signals.kinds import UNIFORM, WINDOWED, kind_of
from everfresh.signals.payload import Array
from everfresh.signals.pictures import MOST, fields_of, groups_of

_WIDE, _HIGH = 860, 300
_LEFT, _TOP, _RIGHT, _BELOW = 70, 20, 130, 40
COLOURS = (
    "#4c78a8",
    "#e6a23c",
    "#59a14f",
    "#e45756",
    "#79706e",
    "#b279a2",
    "#54a24b",
    "#f58518",
    "#72b7b2",
    "#9d755d",
)
_POINTS, _COLUMNS, _ROWS = 2000, 240, 96


def svg(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str) -> str:
    """The rows of a query as a picture.

    >>> from everfresh.signals import reading
    >>> q = reading("t", time="t").as_uniform(1)
    >>> svg(q.node, q.run(pa.table({"t": [0, 1], "value": [1.0, 2.0]})), (), "t")[:4]
    '<svg'
    """
    rows = rows.sort_by([(name, "ascending") for name in (*keys, time)])
    windowed = kind_of(query).name == WINDOWED
    body = _spectrogram(query, rows, keys, time) if windowed else _lines(query, rows, keys, time)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" '
        f'height="{_HIGH}" font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _scaled(values: Array, low: float, high: float, start: float, stop: float) -> Array:
    span = high - low
    return start + (np.asarray(values, float) - low) * ((stop - start) / span if span else 0.0)


def _frame(across: tuple[Any, Any], up: tuple[float, float], labels: tuple[str, str]) -> Iterator[str]:
    right, below = _WIDE - _RIGHT, _HIGH - _BELOW
    yield f'<path d="M{_LEFT},{_TOP}V{below}H{right}" fill="none" stroke="#333"/>'
    for x, anchor, value in ((_LEFT, "start", across[0]), (right, "end", across[1])):
        yield f'<text x="{x}" y="{below + 16}" text-anchor="{anchor}">{escape(str(value))}</text>'
    for y, number in ((below, up[0]), (_TOP + 8, up[1])):
        yield f'<text x="{_LEFT - 6}" y="{y}" text-anchor="end">{number:.4g}</text>'
    middle = (_LEFT + right) // 2
    yield f'<text x="{middle}" y="{below + 30}" text-anchor="middle">{escape(labels[0])}</text>'
    yield f'<text x="{_LEFT - 6}" y="{(_TOP + below) // 2}" text-anchor="end">{escape(labels[1])}</text>'


def _ticks(rows: pa.Table, time: str) -> Array:
    column = rows.column(time).combine_chunks()
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    found: Array = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _lines(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str) -> Iterator[str]:
    names = [name for name in rows.column_names[len(keys) + 1 :] if name != "end"]
    drawn = [(label, part, name) for label, part in groups_of(rows, keys) for name in names][:MOST]
    found = [(label, _ticks(part, time), fields_of(part, name)[0]) for label, part, name in drawn]
    found = [(label, at[np.isfinite(values)], values[np.isfinite(values)]) for label, at, values in found]
    every = [(at, values) for _, at, values in found if len(at)]
    if not every:
        yield f'<text x="{_LEFT}" y="{_TOP + 20}">no rows</text>'
        return
    first, last = min(at[0] for at, _ in every), max(at[-1] for at, _ in every)
    low, high = min(v.min() for _, v in every), max(v.max() for _, v in every)
    times = rows.column(time)
    yield from _frame((pa.compute.min(times), pa.compute.max(times)), (low, high), (time, ", ".join(names)))
    kind = kind_of(query)
    period = kind.period if kind.name == UNIFORM else None
    for k, (label, at, values) in enumerate(found):
        colour = COLOURS[k % len(COLOURS)]
        line = _path(at, values, (first, last), (low, high), period)
        yield f'<path d="{line}" fill="none" stroke="{colour}"/>'
        column = names[k % len(names)] if len(names) > 1 else ""
        named = ", ".join(each for each in (label, column) if each)
        y = _TOP + 12 + 18 * k
        yield f'<rect x="{_WIDE - _RIGHT + 12}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{_WIDE - _RIGHT + 28}" y="{y}">{escape(named or "value")}</text>'


def _path(
    at: Array, values: Array, times: tuple[int, int], up: tuple[float, float], period: int | None
) -> str:
    """A line through samples: of many the least and the greatest of each place; broken where beats miss."""
    breaks = np.zeros(len(at), bool) if period is None else np.diff(at, prepend=at[:1]) > period
    if len(at) > _POINTS:
        cuts = np.unique(np.linspace(0, len(at), _POINTS // 2 + 1).astype(int))
        pairs = pairwise(cuts.tolist())
        some = [p for a, b in pairs for p in {a + int(values[a:b].argmin()), a + int(values[a:b].argmax())}]
        keep = np.sort(some)
        broken = np.add.reduceat(breaks, np.r_[0, keep[:-1] + 1]) > 0
        at, values, breaks = at[keep], values[keep], broken
    x = _scaled(at - times[0], 0, times[1] - times[0], _LEFT, _WIDE - _RIGHT)
    y = _scaled(values, *up, _HIGH - _BELOW, _TOP)
    words = np.where(breaks | (np.arange(len(at)) == 0), "M", "L")
    return "".join(f"{word}{a:.1f},{b:.1f}" for word, a, b in zip(words, x, y, strict=True))


def _spectrogram(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str) -> Iterator[str]:
    from everfresh.signals.pictures import magnitudes

    if not len(rows):
        yield f'<text x="{_LEFT}" y="{_TOP + 20}">no rows</text>'
        return
    up, values, label = magnitudes(query, rows, keys, time)
    times = rows.column(time)
    across = pa.compute.min(times), pa.compute.max(times)
    yield from _frame(across, (float(up[0]), float(up[-1])), (time, label))
    values = _shrunk(_shrunk(values, _ROWS).T, _COLUMNS).T
    high = float(np.nanmax(values)) or 1.0
    wide, tall = (_WIDE - _RIGHT - _LEFT) / values.shape[1], (_HIGH - _BELOW - _TOP) / values.shape[0]
    for j, column in enumerate(values.T):
        for i, shade in enumerate(np.nan_to_num(column / high)):
            if shade > 0.01:
                x, y = _LEFT + j * wide, _HIGH - _BELOW - (i + 1) * tall
                yield (
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide + 0.1:.2f}" height="{tall + 0.1:.2f}" '
                    f'fill="#4c78a8" fill-opacity="{shade:.2f}"/>'
                )


def _shrunk(values: Array, most: int) -> Array:
    """The greatest of neighbours, so that there are no more rows than so many."""
    if len(values) <= most:
        return values
    cuts: Sequence[int] = np.unique(np.linspace(0, len(values), most + 1).astype(int))[:-1].tolist()
    found: Array = np.maximum.reduceat(values, cuts, axis=0)
    return found
