"""Signals, spectra and spectrograms as tables of frequencies and as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.kinds import WINDOWED, kind_of, window_of
from everfresh.signals.payload import Array, ComplexType, to_complex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
MOST = 10
"""Groups that are drawn at most."""


def frequencies(query: Node, size: int, time: pa.DataType) -> Array:
    """The frequencies of the values of a spectrum: in cycles per second where times are TIMESTAMP, else in
    cycles per tick.

    >>> from everfresh.signals import reading
    >>> frequencies(reading("t", time="t").as_uniform(5).window(4, 4).fft().node, 4, pa.int64()).tolist()
    [0.0, 0.05, -0.1, -0.05]
    """
    if kind_of(query).name != WINDOWED or not any(isinstance(each, n.Fft) for each in query.walk()):
        raise faults.kind("spectrum", "no spectrum", "spectra", "window(size, hop).fft() first")
    window = window_of(query)
    step = kind_of(window.input).period * (_SECONDS[time.unit] if pa.types.is_timestamp(time) else 1)
    if size == window.size:
        return np.fft.fftfreq(size, step)
    if size == window.size // 2 + 1:
        return np.fft.rfftfreq(window.size, step)
    raise faults.kind("spectrum", f"arrays of {size} values", "spectra", f"the windows have {window.size}")


def spectrum(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str) -> pa.Table:
    """The rows of a spectrum, one for each frequency: key, time, frequency, value (its magnitude)."""
    type_ = rows.schema.types[-1]
    size = type_.list_size if pa.types.is_fixed_size_list(type_) else 1
    at = frequencies(query, size, rows.schema.field(time).type)
    values = _arrays(rows, rows.column_names[-1])
    repeat = pa.array(np.repeat(np.arange(len(rows)), len(at)))
    made = {column: rows.column(column).take(repeat) for column in (*keys, time)}
    return pa.table({**made, "frequency": np.tile(at, len(rows)), "value": np.abs(values).reshape(-1)})


def _arrays(rows: pa.Table, name: str) -> Array:
    column = rows.column(name).combine_chunks()
    size, inner = column.type.list_size, column.flatten()
    flat = to_complex(inner) if isinstance(inner.type, ComplexType) else inner.to_numpy(zero_copy_only=False)
    found: Array = flat.reshape(len(rows), size)
    return found


def plot(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str, axes: Axes | None = None) -> Axes:
    """A line for each group; of windows of one group a spectrogram, or the arrays as a picture."""
    axes = _axes() if axes is None else axes
    rows = rows.sort_by([(name, "ascending") for name in (*keys, time)])
    axes.set_xlabel(time)
    if kind_of(query).name == WINDOWED:
        _picture(query, rows, keys, time, axes)
        return axes
    for label, part in _groups(rows, keys):
        for name in part.column_names[len(keys) + 1 :]:
            if name != "end":
                values: Any = part.column(name).to_numpy()
                axes.plot(part.column(time).to_numpy(), values, label=label or None, linewidth=1)
    if keys:
        axes.legend(title=", ".join(keys))
    return axes


def _axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise EverfreshError(
            Code.ENVIRONMENT,
            "matplotlib is not installed",
            hint="pip install matplotlib, or give axes to draw on",
        ) from None
    return pyplot.subplots()[1]


def _groups(rows: pa.Table, keys: tuple[str, ...]) -> list[tuple[str, pa.Table]]:
    """The first groups of sorted rows, by what their keys read."""
    if not keys:
        return [("", rows)]
    found: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(rows.column(name).to_pylist() for name in keys), strict=True)):
        if key in found or len(found) < MOST:
            found.setdefault(key, []).append(i)
    return [(", ".join(map(str, key)), rows.take(pa.array(places))) for key, places in found.items()]


def _picture(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str, axes: Axes) -> None:
    groups = _groups(rows, keys)
    if len(groups) > 1:
        raise EverfreshError(
            Code.ARGUMENT,
            "a spectrogram is of one group, and there are several",
            hint="plot(where=...) names one, as in plot(where={'sensor': 1})",
        )
    values = np.abs(_arrays(groups[0][1], rows.column_names[-1])).T
    at = groups[0][1].column(time).to_numpy()
    try:
        up = frequencies(query, len(values), rows.schema.field(time).type)
        order = np.argsort(up)
        up, values = up[order], values[order]
        values = values[up >= 0]
        up = up[up >= 0]
        axes.set_ylabel("frequency")
    except EverfreshError:
        up = np.arange(len(values))
        axes.set_ylabel("i")
    axes.pcolormesh(at, up, values, shading="nearest")
