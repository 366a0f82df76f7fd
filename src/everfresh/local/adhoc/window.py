"""Window functions: rows sorted by partition and order, a frame of places for each row, functions of frames.

Where the result depends on the order of rows that tie, all columns of the input break the tie, so that it is
determined. Invariant: in `Sorted`, the rows of a partition are adjacent, and so are peers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, concat
from everfresh.local.adhoc.frame import D, Frame, Ints, take
from everfresh.local.adhoc.join import Evaluate
from everfresh.local.adhoc.keys import Groups, Words, codes, sort_index
from everfresh.local.adhoc.over import OVER, WindowFrames
from everfresh.sql.logical.plan import WindowCall
from everfresh.types import BIGINT, NULL

Array = NDArray[Any]
Keys = list[tuple[Vector, bool, bool]]

_BY_PLACE = ("row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value")


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows in order; for each place the bounds of its partition and of its peers."""

    order: Ints
    start: Ints
    end: Ints
    first: Ints  # the first peer
    last: Ints  # after the last peer

    @property
    def places(self) -> Ints:
        """0, 1, ..."""
        return np.arange(len(self.order))


def window(
    call: WindowCall, frame: Frame, ties: Sequence[Vector], words: Words, evaluate: Evaluate
) -> Vector:
    """The value of a window function on every row; `ties` are all columns of the input."""
    by = [evaluate(e, frame) for e in call.partition]
    if D in frame:
        by.append(frame[D])
    keys = [(evaluate(e, frame), ascending, first) for e, ascending, first in call.order]
    partition = Vector(BIGINT, Groups(words.of(by, frame.rows)).of_rows)
    rows = call.frame is not None and call.frame[0] == "rows"
    rows_sorted = _sorted(partition, keys, ties if rows or call.fn in _BY_PLACE else ())
    args = [evaluate(arg, frame).take(rows_sorted.order) for arg in call.args]
    if call.fn in _RANKS:
        made = Vector(call.type, _RANKS[call.fn](rows_sorted))
    elif call.fn == "ntile":
        made = _ntile(args[0], rows_sorted)
    elif call.fn in ("lag", "lead"):
        made = _neighbour(args, rows_sorted, 1 if call.fn == "lead" else -1)
    elif call.fn != "count" and call.args[0].type == NULL:
        made = Vector.nulls(call.type, frame.rows).contiguous()
    else:
        made = OVER[call.fn](_frames(call, keys, rows_sorted), args, call.type)
    back = np.empty(frame.rows, np.int64)
    back[rows_sorted.order] = np.arange(frame.rows)
    return made.take(back)


def _sorted(partition: Vector, keys: Keys, ties: Sequence[Vector]) -> Sorted:
    rows = len(partition)
    order = sort_index([(partition, True, False), *keys], rows)
    begins = _begins([partition], order)
    peers = begins | _begins([vector for vector, _, _ in keys], order)
    if ties and not peers.all():
        order = sort_index([(partition, True, False), *keys, *((v, True, False) for v in ties)], rows)
    start, end = _bounds(begins)
    first, last = _bounds(peers)
    return Sorted(order, start, end, first, last)


def _begins(vectors: Sequence[Vector], order: Ints) -> NDArray[np.bool_]:
    """Where a row differs from the one before it."""
    out = np.zeros(len(order), np.bool_)
    out[:1] = True
    for vector in vectors:
        code = codes(vector)[order]
        if vector.valid is not None:
            valid = vector.valid[order]
            out[1:] |= valid[1:] != valid[:-1]
            code = np.where(valid, code, 0)
        out[1:] |= code[1:] != code[:-1]
    return out


def _bounds(begins: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For each place, where its run begins and where it ends."""
    starts = np.flatnonzero(begins)
    ends = np.r_[starts[1:], len(begins)]
    run = np.cumsum(begins) - 1
    return starts[run], ends[run]


# -- functions of places -------------------------------------------------------------------------------------


def _dense_rank(rows: Sorted) -> Ints:
    number: Ints = np.cumsum(rows.first == rows.places)
    return number - number[rows.start] + 1


def _percent_rank(rows: Sorted) -> NDArray[np.float64]:
    others = rows.end - rows.start - 1
    out: NDArray[np.float64] = (rows.first - rows.start) / np.maximum(others, 1)
    return out


def _ntile(into: Vector, rows: Sorted) -> Vector:
    """Which of so many parts of nearly the same size a row is in; the first ones are the larger ones."""
    known = np.ones(len(rows.order), np.bool_) if into.valid is None else into.valid
    parts = np.where(known, into.values, 1)
    if len(parts) and parts.min() < 1:
        message = "NTILE divides rows into one part or more"
        raise EverfreshError(Code.VALUE, message, hint="its argument is a number greater than 0")
    place, size = rows.places - rows.start, rows.end - rows.start
    least, more = size // parts, size % parts
    edge = more * (least + 1)  # where the smaller parts begin
    made = np.where(place < edge, place // (least + 1), more + (place - edge) // np.maximum(least, 1))
    return Vector(BIGINT, made + 1).with_valid(known)


_RANKS: dict[str, Callable[[Sorted], Array]] = {
    "row_number": lambda rows: rows.places - rows.start + 1,
    "rank": lambda rows: rows.first - rows.start + 1,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": lambda rows: (rows.last - rows.start) / (rows.end - rows.start),
}


def _neighbour(args: Sequence[Vector], rows: Sorted, sign: int) -> Vector:
    """LAG and LEAD: the value some rows away, or the default outside the partition."""
    places = rows.places
    by = args[1].values.astype(np.int64) if len(args) > 1 else np.ones(len(places), np.int64)
    by = np.clip(by, -len(places), len(places))
    where = places + sign * by
    inside = (where >= rows.start) & (where < rows.end)
    if len(args) > 2:
        made = concat([args[0], args[2]]).take(np.where(inside, where, len(places) + places))
    else:
        made = take(args[0], np.where(inside, where, -1))
    if len(args) > 1 and args[1].valid is not None:
        made = made.with_valid(args[1].valid if made.valid is None else made.valid & args[1].valid)
    return made


# -- frames --------------------------------------------------------------------------------------------------


def _frames(call: WindowCall, keys: Keys, rows: Sorted) -> WindowFrames:
    if call.frame is None:
        return WindowFrames(rows.start, rows.last if keys else rows.end)
    mode, start, end = call.frame
    if mode == "rows":
        low = rows.start if start is None else np.maximum(rows.places + start, rows.start)
        high = rows.end if end is None else np.minimum(rows.places + end + 1, rows.end)
    else:
        low = rows.start if start is None else rows.first if start == 0 else _near(keys, rows, start, "left")
        high = rows.end if end is None else rows.last if end == 0 else _near(keys, rows, end, "right")
    low = np.minimum(low, rows.end)
    return WindowFrames(low, np.maximum(high, low))


def _near(keys: Keys, rows: Sorted, offset: int, side: Any) -> Ints:
    """The first place whose key is at least the current one plus `offset`, or after those at most that.

    A row whose key is NULL or NaN has its peers as its frame, as NULL plus anything is NULL.
    """
    (vector, ascending, _), by = keys[0], offset
    values = vector.values[rows.order]
    if not vector.type.is_float:
        largest = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
        if largest + abs(by) >= 1 << 62:
            values = values.astype(object)
    values = values if ascending else -values
    usable = values == values
    if vector.valid is not None:
        usable = usable & vector.valid[rows.order]
    out = rows.first.copy() if side == "left" else rows.last.copy()
    for start in np.unique(rows.start).tolist():
        places = start + np.flatnonzero(usable[start : rows.end[start]])
        if len(places):
            segment = values[places]
            out[places] = places[0] + np.searchsorted(segment, segment + by, side=side)
    return out
