"""What a batch costs in each mode, and which mode is the cheapest.

Section 5.2 of the thesis on key-value views, with its operations as they are done here: its c_get and c_up
are the steps of the loops in `kernels`, c_send is what a worker's rows cost on their way to another. The
constants are measured when they are first asked for, on the machine that pays them; until then, and in
tests, `GUESSED` stand for them. Invariant: the cost decides how a change is computed and never what it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Literal

import numpy as np

from everfresh.kv.sharing.kernels import loops

Mode = Literal["standard", "single", "double"]


@dataclass(frozen=True, slots=True)
class Constants:
    """Nanoseconds."""

    scan: float = 3.0
    """One view looks at one row."""
    add: float = 3.0
    """A value is added to its cell."""
    prefix: float = 6.0
    """A value of a cell is added up along one attribute."""
    corner: float = 5.0
    """A value of a corner is read."""
    order: float = 80.0
    """A row is put beside those of its group."""
    word: float = 1.0
    """64 views' bits of one attribute are joined with those of another."""
    route: float = 4.0
    """A value is added to one view's sum."""
    send: float = 100.0
    """A sum goes from one worker to another."""


GUESSED = Constants()


@dataclass(frozen=True, slots=True)
class Batch:
    """What the cost depends on: rows of so many workers, values of a row, groups, views, and how many
    intervals the attributes that they compare have."""

    rows: int
    workers: int
    width: int
    groups: int
    views: int
    sizes: tuple[int, ...]
    share: float
    """How much of all rows a view has, if rows were everywhere alike."""
    boxes: bool = True


def dense(batch: Batch, c: Constants = GUESSED) -> float:
    """Cells as an array, views as the corners of a prefix sum."""
    if not batch.boxes:
        return float("inf")
    d, cells = len(batch.sizes), batch.groups * prod(float(n) for n in batch.sizes)
    corners = batch.views * batch.groups * 2.0**d
    return batch.width * (batch.rows * c.add + cells * d * c.prefix + corners * c.corner)


def routed(batch: Batch, c: Constants = GUESSED) -> float:
    """Rows by group, each to the views whose bits are set."""
    words = (batch.views + 63) // 64
    joined = batch.rows * (c.order + words * max(1, len(batch.sizes)) * c.word)
    return joined + batch.rows * batch.views * batch.share * batch.width * c.route


def shared(batch: Batch, c: Constants = GUESSED) -> float:
    """The cheaper of both."""
    return min(dense(batch, c), routed(batch, c))


def standard(batch: Batch, c: Constants = GUESSED) -> float:
    """Each view for itself (5.2.1)."""
    return batch.rows * batch.views * (c.scan + batch.share * batch.width * c.add)


def costs(batch: Batch, c: Constants = GUESSED) -> dict[Mode, float]:
    """Of each mode, in nanoseconds; with one worker nothing is sent.

    >>> of = costs(Batch(60_000, 1, 2, 1, 1000, (1284, 13, 47), 0.01))
    >>> of["standard"] > 10 * of["double"], of["single"] == of["double"]
    (True, True)
    """
    part = Batch(
        -(-batch.rows // batch.workers), 1, batch.width, batch.groups, batch.views, batch.sizes, batch.share,
        batch.boxes,
    )  # fmt: skip
    others = batch.workers - 1
    sums = min(part.rows * batch.views * batch.share, float(batch.views * batch.groups))
    return {
        "standard": standard(batch, c) + others * sums * c.send,
        "single": batch.workers * shared(part, c) + others * sums * (c.send + batch.width * c.order),
        "double": shared(batch, c) + others * part.rows * c.send,
    }


def choice(batch: Batch, c: Constants = GUESSED) -> Mode:
    """The mode that costs least (5.2.7 over all plans).

    >>> choice(Batch(60_000, 1, 2, 1, 1000, (1284, 13, 47), 0.01))
    'double'
    >>> choice(Batch(1, 1, 2, 1, 2, (1284, 13, 47), 0.01))
    'standard'
    """
    found = costs(batch, c)
    return min(found, key=lambda mode: (found[mode], mode))


@cache
def measured() -> Constants:
    """The constants of this machine."""
    rows, views, n = 20_000, 64, 50
    random = np.random.default_rng(1)
    ids = random.integers(0, n, (1, rows))
    groups, values = np.zeros(rows, np.int64), random.integers(0, 9, (2, rows))
    out, cube = np.zeros((2, n * rows), np.int64), np.ones((2, 200_000), np.int64)
    seen, touched = np.zeros(1, np.bool_), np.empty(1, np.int64)
    at = np.zeros(1, np.int64)
    picked, codes = random.integers(0, 200_000, 100_000), random.integers(0, n, rows)
    table = np.zeros((n + 1, 1), np.uint64)
    loops.vectors(np.zeros(views, np.int64), np.full(views, n, np.int64), table)
    stamps, slots = np.full(views, -1), np.zeros(views, np.int64)
    room = [np.empty(views, np.int64), np.empty(views, np.int64), np.empty((2, views), np.int64)]

    def alone() -> None:
        loops.alone(ids, at, at, at + 1, groups, values, np.zeros((2, 1), np.int64), seen, touched)

    def route() -> None:
        stamps.fill(-1)
        loops.route(0, ids + 1, groups, values, table, stamps, slots, *room)

    def took(what: Callable[[], object], steps: int) -> float:
        what()
        times: Sequence[float] = [_seconds(what) for _ in range(3)]
        return 1e9 * min(times) / steps

    return Constants(
        scan=took(alone, rows),
        add=took(lambda: loops.accumulate(codes, values, out), 2 * rows),
        prefix=took(lambda: np.cumsum(cube, axis=1, out=cube), cube.size),
        corner=took(lambda: cube[:, picked], 2 * len(picked)),
        order=took(lambda: np.argsort(codes, kind="stable"), rows),
        word=GUESSED.word,
        route=took(route, 2 * rows * views),
        send=GUESSED.send,
    )


def _seconds(what: Callable[[], object]) -> float:
    began = time.process_time()
    what()
    return time.process_time() - began


__all__ = ["GUESSED", "Batch", "Constants", "Mode", "choice", "costs", "dense", "measured", "routed"]
