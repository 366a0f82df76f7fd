"""Points on the sphere that come and go, found by their place.

A point has a slot for as long as it is there: right ascension and declination, bounded numbers, and the
columns that a view shows. Slots are looked up in sorted runs, by zone of declination and then by right
ascension as in `everfresh.arrays.sphere`; a batch is a run of its own, and runs of about one size become one,
so that nothing of the size of the index is done for a small batch but now and then.

Invariant: a run never changes; which slots are alive, and how many slots there are, is all that a batch
changes in place, and `mark` and `back` restore both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.arrays.sky.sphere import limit_of
from everfresh.expr.arrow import vector_from_arrow
from everfresh.expr.column import Vector, dtype_of, object_array
from everfresh.types import Column, to_arrow
from everfresh.types.exchange import arrow_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_TURN = 1000.0
_LEAST = 5 / 3600
FEW = 4096
"""So few slots are left as they are."""


class Grown:
    """An array that grows at its end."""

    def __init__(self, dtype: Any) -> None:
        self._room = np.empty(16, dtype)
        self.size = 0

    @property
    def values(self) -> NDArray[Any]:
        """What is there."""
        return self._room[: self.size]

    def append(self, more: NDArray[Any]) -> None:
        """Add values."""
        end = self.size + len(more)
        if end > len(self._room):
            room = np.empty(max(end, 2 * len(self._room)), self._room.dtype)
            room[: self.size] = self.values
            self._room = room
        self._room[self.size : end] = more
        self.size = end

    def keep(self, places: Ints) -> None:
        """Keep the values at these places, and no more room than they take."""
        self._room = np.array(self.values[places])
        self.size = len(places)


@dataclass(frozen=True, eq=False)
class Run:
    """Slots in the order of their places."""

    keys: Floats
    slots: Ints


class Index:
    """The points of one side."""

    def __init__(self, columns: tuple[Column, ...], bounded: int, radius: float) -> None:
        self.columns, self.radius = columns, radius
        self.height = max(radius, _LEAST)
        self.ra, self.dec = Grown(np.float64), Grown(np.float64)
        self.bounded = [Grown(np.float64) for _ in range(bounded)]
        self.shown = [Grown(object if c.type.is_text else dtype_of(c.type)) for c in columns]
        self.valid = [Grown(np.bool_) for _ in columns]
        self.alive = Grown(np.bool_)
        self.runs: tuple[Run, ...] = ()

    def mark(self) -> tuple[int, tuple[Run, ...]]:
        """Where it stands, for `back`."""
        return self.ra.size, self.runs

    def back(self, mark: tuple[int, tuple[Run, ...]], gone: Ints) -> None:
        """As it stood: without the slots that came since, with those that went."""
        size, self.runs = mark
        for grown in (self.ra, self.dec, self.alive, *self.bounded, *self.shown, *self.valid):
            grown.size = size
        self.alive.values[gone] = True

    def live(self) -> Ints:
        """The slots of the points that are there."""
        return np.flatnonzero(self.alive.values)

    @property
    def due(self) -> bool:
        """Whether more slots are of points that went than of points that are there."""
        dead = self.ra.size - int(np.count_nonzero(self.alive.values))
        return dead > max(FEW, self.ra.size // 2)

    def reclaim(self) -> Ints:
        """Give the slots of points that went to others: the new slot of each, -1 for those that went. Nothing
        that was done before can be taken back any more."""
        alive = np.array(self.alive.values)
        live = np.flatnonzero(alive)
        moved = np.where(alive, np.cumsum(alive) - 1, -1)
        for grown in (self.ra, self.dec, self.alive, *self.bounded, *self.shown, *self.valid):
            grown.keep(live)
        runs = []
        for run in self.runs:
            there = alive[run.slots]
            if there.any():
                runs.append(Run(run.keys[there], moved[run.slots[there]]))
        self.runs = tuple(runs)
        return moved

    # -- points that come and go -------------------------------------------------------------------

    def add(self, ra: Floats, dec: Floats, bounded: list[Floats], shown: list[Any]) -> Ints:
        """Points that come; their slots."""
        first = self.ra.size
        self.ra.append(ra)
        self.dec.append(dec)
        self.alive.append(np.ones(len(ra), np.bool_))
        for grown, values in zip(self.bounded, bounded, strict=True):
            grown.append(values)
        for grown, valid, column, type_ in zip(
            self.shown, self.valid, shown, (c.type for c in self.columns), strict=True
        ):
            values, there = _physical(vector_from_arrow(column, type_))
            grown.append(values)
            valid.append(there)
        slots = np.arange(first, self.ra.size)
        keys = self._keys(ra, dec)
        order = np.argsort(keys, kind="stable")
        runs = [*self.runs, Run(keys[order], slots[order])]
        while len(runs) > 1 and 2 * len(runs[-1].keys) > len(runs[-2].keys):
            runs[-2:] = [self._merged(runs[-2], runs[-1])]
        self.runs = tuple(runs)
        return slots

    def _merged(self, a: Run, b: Run) -> Run:
        keys, slots = np.concatenate([a.keys, b.keys]), np.concatenate([a.slots, b.slots])
        keep = self.alive.values[slots]
        keys, slots = keys[keep], slots[keep]
        order = np.argsort(keys, kind="stable")
        return Run(keys[order], slots[order])

    def remove(self, ra: Floats, dec: Floats, bounded: list[Floats], shown: list[Any]) -> Ints:
        """Points that go; their slots. A point that is not there raises LookupError."""
        wanted = [
            _physical(vector_from_arrow(column, c.type))
            for column, c in zip(shown, self.columns, strict=True)
        ]
        keys = self._keys(ra, dec)
        found: list[tuple[Ints, Ints]] = []
        for run in self.runs:
            begins, ends = np.searchsorted(run.keys, keys), np.searchsorted(run.keys, keys, "right")
            i, at = _ranges(np.arange(len(ra)), begins, ends)
            slots = run.slots[at]
            same = (
                self.alive.values[slots]
                & (self.ra.values[slots] == ra[i])
                & (self.dec.values[slots] == dec[i])
            )
            for grown, values in zip(self.bounded, bounded, strict=True):
                known = grown.values[slots]
                same &= (known == values[i]) | (np.isnan(known) & np.isnan(values[i]))
            for grown, valid, (values, there) in zip(self.shown, self.valid, wanted, strict=True):
                known = grown.values[slots]
                equal = np.asarray(known == values[i], np.bool_)
                if known.dtype.kind == "f":
                    equal |= np.isnan(known) & np.isnan(values[i])
                same &= np.where(there[i], equal & valid.values[slots], ~valid.values[slots])
            found.append((i[same], slots[same]))
        i = np.concatenate([np.empty(0, np.int64), *(a for a, _ in found)])
        slots = np.concatenate([np.empty(0, np.int64), *(b for _, b in found)])
        gone = _one_each(i, slots, len(ra))
        self.alive.values[gone] = False
        return gone

    # -- search ------------------------------------------------------------------------------------

    def _keys(self, ra: Floats, dec: Floats) -> Floats:
        return np.asarray(np.floor((dec + 90) / self.height) * _TURN + ra, np.float64)

    def near(self, ra: Floats, dec: Floats) -> tuple[Ints, Ints, Floats]:
        """The live points within the radius of each of these: positions, slots, squared chords."""
        radius, height = self.radius, self.height
        reach = radius * (1 + 1e-9) + 1e-11
        lowest, highest = np.floor((dec - reach + 90) / height), np.floor((dec + reach + 90) / height)
        with np.errstate(invalid="ignore", divide="ignore"):
            width = np.rad2deg(np.arcsin(np.sin(np.deg2rad(radius)) / np.cos(np.deg2rad(dec))))
        whole = ~(np.abs(dec) + radius < 90 - 1e-9) | ~(width < 180)
        width = np.where(whole, 361.0, width * (1 + 1e-9) + 1e-7)
        rows, lows, highs = [], [], []
        for step in range(int((highest - lowest).max(initial=-1)) + 1):
            zone = lowest + step
            for turn in (-1, 0, 1):
                least, most = ra + 360 * turn - width, ra + 360 * turn + width
                some = np.flatnonzero(
                    (zone <= highest) & (zone >= 0) & (~whole | (turn == 0)) & (most >= 0) & (least <= 360)
                )
                rows.append(some)
                lows.append(zone[some] * _TURN + np.maximum(least[some], -1.0))
                highs.append(zone[some] * _TURN + np.minimum(most[some], 361.0))
        if not rows:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        row, low, high = np.concatenate(rows), np.concatenate(lows), np.concatenate(highs)
        order = np.argsort(low)  # neighbours are searched for one after the other
        row, low, high = row[order], low[order], high[order]
        i, slots = [], []
        for run in self.runs:
            some, at = _ranges(row, np.searchsorted(run.keys, low), np.searchsorted(run.keys, high, "right"))
            i.append(some)
            slots.append(run.slots[at])
        mine = np.concatenate([np.empty(0, np.int64), *i])
        theirs = np.concatenate([np.empty(0, np.int64), *slots])
        keep = self.alive.values[theirs]
        mine, theirs = mine[keep], theirs[keep]
        chords = _chords(ra[mine], dec[mine], self.ra.values[theirs], self.dec.values[theirs])
        keep = chords <= limit_of(radius)
        return mine[keep], theirs[keep], chords[keep]

    def arrow(self, at: int, slots: Ints) -> pa.Array:
        """A column that is shown, of some slots; -1 is NULL."""
        column = self.columns[at]
        there = slots >= 0
        safe = np.where(there, slots, 0)
        if not self.ra.size:
            return pa.nulls(len(slots), to_arrow(column.type))
        values, valid = self.shown[at].values[safe], self.valid[at].values[safe] & there
        if column.type.is_text:
            return arrow_of(
                [v if known else None for v, known in zip(values, valid, strict=True)], column.type
            )
        return Vector(column.type, values, None if valid.all() else valid).to_arrow()


def _physical(vector: Vector) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    values = vector.values if vector.dictionary is None else vector.dictionary[vector.values]
    if vector.dictionary is not None:
        values = object_array(values, len(values))
    return values, np.ones(len(vector), np.bool_) if vector.valid is None else vector.valid


def _ranges(rows: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Each row with each place from its beginning to its end."""
    lengths = np.maximum(ends - begins, 0)
    starts = np.cumsum(lengths) - lengths
    return np.repeat(rows, lengths), np.arange(int(lengths.sum())) + np.repeat(begins - starts, lengths)


def _one_each(rows: Ints, slots: Ints, count: int) -> Ints:
    """A slot of its own for each row."""
    order = np.lexsort((slots, rows))
    taken: set[int] = set()
    chosen: dict[int, int] = {}
    for row, slot in zip(rows[order].tolist(), slots[order].tolist(), strict=True):
        if row not in chosen and slot not in taken:
            chosen[row] = slot
            taken.add(slot)
    if len(chosen) < count:
        raise LookupError
    return np.array([chosen[row] for row in range(count)], np.int64)


def _chords(ra: Floats, dec: Floats, other_ra: Floats, other_dec: Floats) -> Floats:
    total = np.zeros(len(ra))
    for one, other in zip(_vectors(ra, dec), _vectors(other_ra, other_dec), strict=True):
        step = other - one
        total += step * step
    return total


def _vectors(ra: Floats, dec: Floats) -> tuple[Floats, Floats, Floats]:
    a, d = np.deg2rad(ra), np.deg2rad(dec)
    cosine = np.cos(d)
    return cosine * np.cos(a), cosine * np.sin(a), np.sin(d)
