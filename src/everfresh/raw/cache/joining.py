"""Which pieces a similarity join brings together, and where their copies are afterwards.

Pairs come from boxes: the image of a left piece, widened by the shape, meets a right one. Where each pair is
joined, and which pieces travel for it, is a plan of `everfresh.arrays.plan`.
"""

from __future__ import annotations

from collections.abc import Mapping as Mappings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from everfresh.arrays.mapping import Mapping
from everfresh.arrays.plan import Problem, plan_problem
from everfresh.arrays.plan.catalog import frozen
from everfresh.arrays.plan.pairs import FORWARD
from everfresh.arrays.plan.place import mixed
from everfresh.arrays.shape import Shape
from everfresh.raw.boxes import Ints, near
from everfresh.raw.catalog import Piece


@dataclass(frozen=True)
class Join:
    """A similarity join of two arrays by their names."""

    left: str
    right: str
    mapping: Mapping
    shape: Shape


@dataclass(frozen=True)
class Moved:
    """The pairs of pieces of a join, the bytes that travel for it, and the workers that have each piece."""

    pairs: tuple[tuple[int, int], ...] = ()
    bytes_moved: int = 0
    copies: Mappings[int, tuple[int, ...]] = field(default_factory=dict)


def moved(
    join: Join,
    left: Sequence[Piece],
    right: Sequence[Piece],
    owners: Mappings[int, int],
    sizes: Mappings[int, int],
    workers: int,
) -> Moved:
    """What a join of these pieces does."""
    pieces = {piece.number: piece for piece in (*left, *right)}
    order = sorted(pieces)
    place = {number: k for k, number in enumerate(order)}
    pairs = _pairs(join, left, right, place)
    if not len(pairs):
        return Moved()
    numbers = tuple((order[a], order[b]) for a, b in pairs.tolist())
    cells = frozen([max(1, pieces[n].cells) for n in order])
    corners = np.array([pieces[n].box.lo for n in order], np.int64).reshape(len(order), -1)
    problem = Problem(
        workers,
        cells,
        frozen([sizes[n] for n in order]),
        frozen([owners[n] for n in order]),
        mixed(np.column_stack([corners, np.arange(len(order))])),
        frozen(np.arange(len(order))),
        frozen(pairs[:, 0]),
        frozen(pairs[:, 1]),
        frozen(np.full(len(pairs), FORWARD)),
    )
    plan = plan_problem(problem)
    copies: dict[int, tuple[int, ...]] = {}
    for k, worker in zip(plan.send.tolist(), plan.target.tolist(), strict=True):
        copies[order[k]] = (*copies.get(order[k], ()), worker)
    return Moved(numbers, plan.bytes_moved, copies)


def _pairs(join: Join, left: Sequence[Piece], right: Sequence[Piece], place: Mappings[int, int]) -> Ints:
    """The pairs as positions, each once whatever its direction, a row for each."""
    if not left or not right:
        return np.empty((0, 2), np.int64)
    ndim = len(right[0].box.lo)
    corners = [
        (np.array([p.box.lo for p in side], np.int64), np.array([p.box.hi for p in side], np.int64))
        for side in (left, right)
    ]
    if join.mapping.keeps_order:
        lo, hi = join.mapping.image(corners[0][0].T, corners[0][1].T)
        p, q = near((lo.T, hi.T), corners[1], join.shape.bounds(ndim))
    else:
        p, q = (side.ravel() for side in np.indices((len(left), len(right))))
    one = np.array([place[piece.number] for piece in left], np.int64)[p]
    other = np.array([place[piece.number] for piece in right], np.int64)[q]
    return np.unique(np.column_stack([np.minimum(one, other), np.maximum(one, other)]), axis=0)
