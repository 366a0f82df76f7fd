"""Signals, spectra and spectrograms as tables of frequencies and as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    bins = next((each.bins for each in query.walk() if isinstance(each, n.Fft)), None)
    if bins is not None and size == len(bins):
        return np.fft.fftfreq(window.size, step)[list(bins)]
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
    for label, part in groups_of(rows, keys):
        for name in part.column_names[len(keys) + 1 :]:
            if name != "end":
                for values in fields_of(part, name):
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


def groups_of(rows: pa.Table, keys: tuple[str, ...]) -> list[tuple[str, pa.Table]]:
    """The first groups of sorted rows, by what their keys read."""
    if not keys:
        return [("", rows)]
    found: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(rows.column(name).to_pylist() for name in keys), strict=True)):
        if key in found or len(found) < MOST:
            found.setdefault(key, []).append(i)
    return [(", ".join(map(str, key)), rows.take(pa.array(places))) for key, places in found.items()]


def fields_of(rows: pa.Table, name: str) -> list[Array]:
    """A column as lines: real numbers, the magnitudes of complex ones, each component of vectors."""
    column = rows.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_fixed_size_list(column.type):
        return list(np.abs(_arrays(rows, name)).T)
    if isinstance(column.type, ComplexType):
        return [np.abs(to_complex(column))]
    return [np.asarray(column.to_numpy(zero_copy_only=False), float)]


def magnitudes(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str) -> tuple[Array, Array, str]:
    """Of windows of one group: frequencies from 0 on or places, magnitudes by these and by time, and what is
    counted upwards."""
    groups = groups_of(rows, keys)
    if len(groups) > 1:
        raise EverfreshError(
            Code.ARGUMENT,
            "a spectrogram is of one group, and there are several",
            hint="where= names one, as in plot(where={'sensor': 1})",
        )
    values = np.abs(_arrays(groups[0][1], rows.column_names[-1])).T
    try:
        up = frequencies(query, len(values), rows.schema.field(time).type)
    except EverfreshError:
        return np.arange(len(values)), values, "i"
    order = np.argsort(up)
    order = order[up[order] >= 0]
    return up[order], values[order], "frequency"


def _picture(query: Node, rows: pa.Table, keys: tuple[str, ...], time: str, axes: Axes) -> None:
    up, values, label = magnitudes(query, rows, keys, time)
    axes.set_ylabel(label)
    axes.pcolormesh(rows.column(time).to_numpy(), up, values, shading="nearest")


def chosen(rows: pa.Table, where: Mapping[str, Any] | None) -> pa.Table:
    """The rows of the groups whose keys have these values."""
    for name, value in (where or {}).items():
        rows = rows.filter(pc.equal(rows.column(name), value))
    return rows
