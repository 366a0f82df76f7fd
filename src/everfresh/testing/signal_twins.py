"""The slow twins of signal operators: what a query means, group by group, in NumPy and SciPy over whole
arrays.

`twin(node, tables, watermarks)` gives for each key the rows (time, value, ...) that are final by the rows
of the tables and their watermarks: section 1.2 and the table of section 2.8 of docs/design/signals.md.
Differences of times are taken in whole numbers before they become doubles. Nothing here is shared with the
operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import interpolate, signal

from everfresh.rewrite import Node
from everfresh.signals import nodes as n
from everfresh.signals.kinds import UNIFORM, kind_of, window_of

Array = np.ndarray[Any, Any]
END = 1 << 62


@dataclass(frozen=True)
class Rows:
    """The rows of a group: times, ends and values, and the time before which all is known."""

    at: Array
    end: Array
    values: Array
    known: int

    def before(self, known: int) -> Rows:
        """Those that are final."""
        keep = self.at < known
        return Rows(self.at[keep], self.end[keep], self.values[keep], known)


Tables = Mapping[str, Mapping[Any, list[tuple[int, int, Any]]]]
"""By table and key, the events: start, end, value."""


def twin(node: Node, tables: Tables, watermarks: Mapping[str, int], key: Any) -> Rows:
    """The final rows of a group."""
    made: Rows = _TWINS[type(node)](
        node, lambda below: twin(below, tables, watermarks, key), tables, watermarks, key
    )
    return made


def _reading(node: n.Reading, _: Any, tables: Tables, watermarks: Mapping[str, int], key: Any) -> Rows:
    events = sorted(tables[node.table].get(key, ()), key=lambda event: event[0])
    known = watermarks[node.table]
    if node.lateness:
        events = [event for event in events if event[0] < known]
    elif events and not node.overlap:
        known = max(known, events[-1][0] + 1)
    at = np.array([event[0] for event in events], np.int64)
    end = np.array([event[1] for event in events], np.int64)
    values = np.array([event[2] for event in events])
    return Rows(at, end, values if len(values) else np.zeros(0), known)


def _references(rows: Rows, period: int, offset: int) -> tuple[Array, Array]:
    at, values = [], []
    for a, b, v in zip(rows.at.tolist(), rows.end.tolist(), rows.values, strict=True):
        stop = min(b, rows.known)
        first = -((offset - a - 1) // period) * period + offset
        times = {a, *range(first, stop, period)} | ({b - 1} if b - 1 < stop else set())
        at += sorted(times)
        values += [v] * len(times)
    return np.array(at, np.int64), np.array(values, rows.values.dtype)


def _grid(first: int, last: int, period: int, offset: int) -> Array:
    """The beats from first to last."""
    return np.arange(-((offset - first) // period), (last - offset) // period + 1) * period + offset


def _sample(node: n.Sample | n.Resample | n.AsUniform, below: Any, *_: Any) -> Rows:
    rows = below(node.input)
    offset = node.offset % node.period
    policy = None if isinstance(node, n.AsUniform) else node.interpolate
    return sampled(rows, node.period, offset, policy)


def sampled(rows: Rows, period: int, offset: int, policy: n.Policy | None) -> Rows:
    """References, those on beats, and what lies between two that are near enough."""
    at, values = _references(rows, period, offset)
    on = (at - offset) % period == 0
    times, found = list(at[on]), list(values[on])
    window = END // 2 if policy is None or policy.window is None else policy.window
    if policy is not None:
        for i in range(len(at) - 1):
            r, s = int(at[i]), int(at[i + 1])
            beats = _grid(r + 1, s - 1, period, offset)
            if policy.causal:
                beats = beats[beats - r <= window]
            elif s - r > window:
                continue
            if len(beats):
                times += list(beats)
                found += list(_between(policy, at, values, i, beats, window))
    if policy is not None and policy.causal and len(at):
        tail = _grid(int(at[-1]) + 1, min(int(at[-1]) + window, rows.known - 1), period, offset)
        times, found = times + list(tail), found + [values[-1]] * len(tail)
    known = rows.known
    if policy is not None and not policy.causal and len(at) and known < END and known <= at[-1] + window:
        known = int(at[-1]) + 1
    order = np.argsort(np.array(times, np.int64), kind="stable")
    made = np.array(times, np.int64)[order]
    return Rows(made, made + 1, np.array(found, values.dtype)[order], known).before(known)


def _between(policy: n.Policy, at: Array, values: Array, i: int, beats: Array, window: int) -> Array:
    origin = int(at[i])
    x = (at[i : i + 2] - origin).astype(float)
    y, t = values[i : i + 2], (beats - origin).astype(float)
    match policy.name:
        case "constant":
            return np.full(len(t), policy.value)
        case "last":
            return np.repeat(y[:1], len(t))
        case "zero_order":
            return np.asarray(interpolate.interp1d(x, y, kind="nearest-up")(t))
        case "user":
            assert policy.f2 is not None
            return np.asarray(policy.f2.call(y[0], at[i], y[1], at[i + 1], beats))
        case "second_order" if i > 0 and at[i + 1] - at[i - 1] <= window:
            xs = (at[i - 1 : i + 2] - origin).astype(float)
            u, v, w = values[i - 1 : i + 2]
            q, r, s = xs
            return np.asarray(
                u * (t - r) * (t - s) / ((q - r) * (q - s))
                + v * (t - q) * (t - s) / ((r - q) * (r - s))
                + w * (t - q) * (t - r) / ((s - q) * (s - r))
            )
        case _:
            return np.asarray(np.interp(t, x, y))


def _indices(rows: Rows, node: Node) -> Array:
    kind = kind_of(node)
    return np.asarray((rows.at - kind.offset) // kind.period)


def _stretches(index: Array, longest: int) -> list[Array]:
    """Positions of samples in runs without a gap longer than this."""
    cuts = np.flatnonzero(np.diff(index) > longest + 1) + 1
    return np.split(np.arange(len(index)), cuts) if len(index) else []


def _filtered(node: Any, rows: Rows, run: Any, zero: bool, need: int) -> Rows:
    index = _indices(rows, node.input)
    out, keep = np.zeros(len(index), np.result_type(rows.values.dtype, run(np.zeros(1)).dtype)), []
    for part in _stretches(index, _pause(node) if zero else 0):
        line = np.zeros(index[part[-1]] - index[part[0]] + 1, rows.values.dtype)
        place = index[part] - index[part[0]]
        line[place] = rows.values[part]
        out[part] = run(line)[place]
        keep += list(part if zero else part[need - 1 :])
    return Rows(rows.at[keep], rows.end[keep], out[keep], rows.known)


def _pause(node: Any) -> int:
    """How many beats may be missing where a filter goes on."""
    spans = [each.idle for each in node.walk() if isinstance(each, n.Reading) and each.idle is not None]
    if isinstance(node, n.Fir) or not spans:
        return END
    period, most = kind_of(node.input).period, 0
    while (most + 2) * period - 1 <= min(spans):  # from the end of a sample to the start of the next
        most += 1
    return most if period - 1 <= min(spans) else -1


def _fir(node: n.Fir, below: Any, *_: Any) -> Rows:
    b = np.array(node.b)
    rows: Rows = below(node.input)
    if node.tail:
        kind, index = kind_of(node.input), _indices(rows, node.input)
        if not len(index):
            return rows
        line, there = (np.zeros(index[-1] - index[0] + 1, t) for t in (rows.values.dtype, float))
        line[index - index[0]], there[index - index[0]] = rows.values, 1.0
        known = min(rows.known, END // 2)
        found = np.arange(len(line) + len(b) - 1) + index[0]
        reached = np.convolve(there, np.ones(len(b))) > 0.5
        keep = reached & (found < -((kind.offset - known) // kind.period))
        at = found[keep] * kind.period + kind.offset
        return Rows(at, at + 1, np.convolve(line, b)[keep], rows.known)
    if node.method == "fft" and rows.known < END:
        kind, block = kind_of(node.input), 1 << int(4 * len(b) - 1).bit_length()
        limit = -((kind.offset - rows.known) // kind.period) // block * block
        rows = rows.before(limit * kind.period + kind.offset)
    return _filtered(node, rows, lambda x: np.convolve(x, b)[: len(x)], node.missing == "zero", len(b))


def _iir(node: n.Iir, below: Any, *_: Any) -> Rows:
    run = lambda x: signal.lfilter(node.b, node.a, x)  # noqa: E731
    return _filtered(node, below(node.input), run, node.missing == "zero", 1)


def _sos(node: n.Sos, below: Any, *_: Any) -> Rows:
    run = lambda x: signal.sosfilt(np.array(node.sections), x)  # noqa: E731
    return _filtered(node, below(node.input), run, node.missing == "zero", 1)


def _windows(node: n.Window | n.Hopping, below: Any) -> tuple[Array, Array, int]:
    """The indices at which windows end, their samples with zeros, and before which all are decided."""
    rows = below(node.input)
    kind = kind_of(node.input)
    index = _indices(rows, node.input)
    limit = END if rows.known >= END else -((kind.offset - rows.known) // kind.period)
    size, hop = node.size, node.hop
    first = node.align == "first"
    ends, frames, phase = [], [], 0
    for part in _stretches(index, _pause(node) if first else END):
        phase = int(index[part[0]]) % hop if first else 0
        start, stop = int(index[part[0]]), int(index[part[-1]])
        line = np.zeros(stop - start + 1 + 2 * size, rows.values.dtype)
        present = np.zeros(len(line), bool)
        place = index[part] - start + size
        line[place], present[place] = rows.values[part], True
        for end in range((start - phase) // hop * hop + phase, stop + size + hop + 1, hop):
            at = end - size - start + size
            if at < 0 or at + size > len(line) or end > limit:
                continue
            mask = present[at : at + size]
            if mask.all() if node.missing == "skip" else mask.any():
                ends.append(end)
                frames.append(line[at : at + size])
    return (
        np.array(ends, np.int64),
        np.array(frames) if frames else np.zeros((0, size), rows.values.dtype),
        END if limit >= END else ((limit - phase) // hop + 1) * hop + phase,
    )


def _stamped(below: Node, ends: Array, values: Array, decided: int) -> Rows:
    kind = kind_of(below)
    at = (ends - 1) * kind.period + kind.offset
    known = END if decided >= END else (decided - 1) * kind.period + kind.offset
    return Rows(at, at + 1, values, known)


def _frames(node: Node, below: Any) -> tuple[Array, Array, int]:
    """The windows of a chain, through its operations: the indices at which they end, and what was made."""
    if isinstance(node, n.Window):
        return _windows(node, below)
    ends, frames, decided = _frames(node.children[0], below)
    match node:
        case n.Fft():
            made = np.fft.fft(frames) if len(frames) else frames.astype(complex)
            made = made if node.bins is None else made[:, list(node.bins)]
        case n.Ifft():
            made = np.fft.ifft(frames) if len(frames) else frames.astype(complex)
        case n.Multiply():
            made = frames * np.array(node.vector)
        case n.MapWindows():
            made = (
                np.asarray(node.function.call(frames))
                if len(frames)
                else np.zeros((0, node.size or frames.shape[1]))
            )
        case n.Apply():
            nothing = np.zeros((0, node.size or frames.shape[1]))
            made = np.asarray(node.recompute.call(frames)) if len(frames) else nothing
        case n.Autocorrelate():
            made = np.array([np.correlate(x, x, "full") for x in frames]).reshape(-1, 2 * frames.shape[1] - 1)
        case _:
            raise AssertionError(type(node).__name__)
    return ends, made, decided


def _windowed(node: Node, below: Any, *_: Any) -> Rows:
    ends, frames, decided = _frames(node, below)
    return _stamped(window_of(node).input, ends, frames, decided)


def _reduced(node: n.ReduceWindows, below: Any, *_: Any) -> Rows:
    rows = _windowed(node.input, below)
    values = np.asarray(node.function.call(rows.values)) if len(rows.values) else np.zeros(0)
    return replace(rows, values=values)


def _unwound(node: n.Unwindow, below: Any, *_: Any) -> Rows:
    ends, frames, decided = _frames(node.input, below)
    kind, size = kind_of(node), frames.shape[1]
    sums: dict[int, Any] = {}
    for end, frame in zip(ends.tolist(), frames, strict=True):
        for j in range(size):
            at = end - size + j
            old = sums.get(at)
            match node.agg:
                case "max":
                    sums[at] = frame[j] if old is None or frame[j] > old else old
                case "min":
                    sums[at] = frame[j] if old is None or frame[j] < old else old
                case "last":
                    sums[at] = frame[j]
                case _:
                    sums[at] = frame[j] if old is None else old + frame[j]
    at = np.array(sorted(sums), np.int64)
    values = np.array([sums[each] for each in at.tolist()], frames.dtype)
    times = at * kind.period + kind.offset
    known = END if decided >= END else (decided - size) * kind.period + kind.offset
    return Rows(times, times + 1, values, known).before(known)


def _hopping(node: n.Hopping, below: Any, *_: Any) -> Rows:
    ends, frames, decided = _windows(node, below)
    if isinstance(node.agg, n.Agg):
        agg = node.agg
        made = []
        for frame in frames:
            state = agg.init
            for x in frame:
                state = agg.accumulate.call(state, x)
            made.append(state if agg.result is None else agg.result.call(state))
        return _stamped(node.input, ends, np.array(made), decided)
    counts = node.size
    squares = np.abs(frames) ** 2
    match node.agg:
        case "sum":
            values = frames.sum(axis=1)
        case "mean":
            values = frames.sum(axis=1) / counts
        case "energy":
            values = squares.sum(axis=1)
        case "power":
            values = squares.sum(axis=1) / counts
        case "min":
            values = frames.min(axis=1) if len(frames) else frames.sum(axis=1)
        case _:
            values = frames.max(axis=1) if len(frames) else frames.sum(axis=1)
    return _stamped(node.input, ends, values, decided)


def _combined(node: n.Combine, below: Any, *_: Any) -> Rows:
    left, right = below(node.input), below(node.right)
    one, two = kind_of(node.input), kind_of(node.right)
    both = kind_of(node)
    if one.name != UNIFORM:
        left = sampled(left, both.period, both.offset, None)
    elif one.period != both.period:
        left = sampled(left, both.period, both.offset, one.policy)
    if two.name != UNIFORM:
        right = sampled(right, both.period, both.offset, None)
    elif two.period != both.period or (two.offset != both.offset and node.align == "resample"):
        right = sampled(right, both.period, both.offset, two.policy)
    elif two.offset != both.offset:
        by = both.offset - two.offset
        right = Rows(right.at + by, right.end + by, right.values, right.known + by)
    at, i, j = np.intersect1d(left.at, right.at, return_indices=True)
    op = {"plus": np.add, "minus": np.subtract, "times": np.multiply,
          "divide": np.true_divide}[node.op]  # fmt: skip
    known = min(left.known, right.known)
    return Rows(at, at + 1, op(left.values[i], right.values[j]), known).before(known)


def _scaled(node: n.Scale, below: Any, *_: Any) -> Rows:
    rows: Rows = below(node.input)
    return replace(rows, values=rows.values * node.by / node.over + node.add)


def _shifted(node: n.Shift, below: Any, *_: Any) -> Rows:
    rows = below(node.input)
    known = END if rows.known >= END else rows.known + node.ticks
    return Rows(rows.at + node.ticks, rows.end + node.ticks, rows.values, known)


def _thinned(node: n.Downsample, below: Any, *_: Any) -> Rows:
    rows = below(node.input)
    keep = _indices(rows, node.input) % node.n == node.phase
    return Rows(rows.at[keep], rows.end[keep], rows.values[keep], rows.known)


_TWINS: dict[type[Node], Any] = {
    n.Reading: _reading,
    n.Sample: _sample,
    n.Resample: _sample,
    n.AsUniform: _sample,
    n.Downsample: _thinned,
    n.Fir: _fir,
    n.Iir: _iir,
    n.Sos: _sos,
    n.Window: _windowed,
    n.Fft: _windowed,
    n.Ifft: _windowed,
    n.Multiply: _windowed,
    n.MapWindows: _windowed,
    n.Apply: _windowed,
    n.Autocorrelate: _windowed,
    n.ReduceWindows: _reduced,
    n.Unwindow: _unwound,
    n.Hopping: _hopping,
    n.Combine: _combined,
    n.Scale: _scaled,
    n.Shift: _shifted,
}
