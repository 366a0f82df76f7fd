"""The transfer schedule: which worker sends to which one when, and the chunks of a link in what order.

Section 4.4 of the paper on similarity joins. A worker sends to one other and receives from one other at a
time: preemptive open-shop scheduling, whose least length is the largest row or column sum of the bytes. The
rule `critical` reaches it; `greedy` is the document's, which can miss it. On a link, chunks that share local
partners follow one another. Invariant: the slots carry every byte of every link once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from everfresh.arrays.plan.catalog import Ints

_BONUS = 1e6


@dataclass(frozen=True)
class Slot:
    """For `length` bytes' time the links (source, target) are busy, no worker twice on one side."""

    length: int
    links: tuple[tuple[int, int], ...]


def node_order(bytes_: Ints, rule: str = "critical") -> tuple[Slot, ...]:
    """Slots that carry bytes_[i, j] from i to j.

    >>> X, Y, Z = range(3)
    >>> bytes_ = np.zeros((3, 3), np.int64)
    >>> bytes_[X, Z], bytes_[Y, X], bytes_[Z, Y], bytes_[X, Y], bytes_[Y, Z] = 3, 9, 5, 4, 5
    >>> sum(slot.length for slot in node_order(bytes_))
    14
    """
    left = np.array(bytes_, np.int64)
    slots = []
    while left.any():
        bound = int(max(left.sum(axis=0).max(), left.sum(axis=1).max()))
        rows, columns = NODE_ORDERS[rule](left, bound)
        length = int(left[rows, columns].min())
        if rule == "critical":
            idle = np.ones(len(left), bool)
            idle[rows] = False
            waiting = np.ones(len(left), bool)
            waiting[columns] = False
            for busy in (left.sum(axis=1)[idle], left.sum(axis=0)[waiting]):
                length = min(length, bound - int(busy.max(initial=0)))
        left[rows, columns] -= length
        slots.append(Slot(length, tuple(zip(rows.tolist(), columns.tolist(), strict=True))))
    return tuple(slots)


def _critical(left: Ints, bound: int) -> tuple[Ints, Ints]:
    """A matching that covers every worker whose bytes fill the rest of the schedule; one always exists."""
    from scipy.optimize import linear_sum_assignment

    there = left > 0
    urgent = (left.sum(axis=1) == bound)[:, None].astype(float) + (left.sum(axis=0) == bound)[None, :]
    weight = np.where(there, 1 + left / bound + _BONUS * urgent, 0.0)
    rows, columns = linear_sum_assignment(weight, maximize=True)
    used = there[rows, columns]
    return rows[used], columns[used]


def _greedy(left: Ints, _bound: int) -> tuple[Ints, Ints]:
    """A matching of as many links as possible; it runs until its smallest link is empty."""
    from scipy.optimize import linear_sum_assignment

    there = left > 0
    rows, columns = linear_sum_assignment(there.astype(float), maximize=True)
    used = there[rows, columns]
    return rows[used], columns[used]


NODE_ORDERS: Mapping[str, Callable[[Ints, int], tuple[Ints, Ints]]] = {
    "critical": _critical,
    "greedy": _greedy,
}
"""Name -> rule: which links are busy next."""


def in_rounds(slots: tuple[Slot, ...], rounds: int) -> tuple[Slot, ...]:
    """The same slots cut into `rounds` parts, the first part of each, then the second of each, and so on.

    Their sum stays what it was, but a worker hears from all others in every round: with chunks in the order
    of a curve it goes over its own chunks once, and not once for every other worker.

    >>> [(slot.length, slot.links) for slot in in_rounds((Slot(5, ((0, 1),)), Slot(2, ((1, 0),))), 2)]
    [(2, ((0, 1),)), (1, ((1, 0),)), (3, ((0, 1),)), (1, ((1, 0),))]
    """
    parts = ((slot, k) for k in range(rounds) for slot in slots)
    cut = (Slot(slot.length * (k + 1) // rounds - slot.length * k // rounds, slot.links) for slot, k in parts)
    return tuple(slot for slot in cut if slot.length)


def matrix(workers: int, source: Ints, target: Ints, size: Ints) -> Ints:
    """Bytes from each worker to each other one."""
    flat = np.zeros(workers * workers, np.int64)
    np.add.at(flat, source * workers + target, size)
    return flat.reshape(workers, workers)


def chunk_order(links: Ints, send: Ints, local: Ints) -> Ints:
    """The order of sends within their links so that chunks which share local partners are close.

    `links` says which link each send is on, in rising order; `send` and `local` are its local partners, a row
    for each. The first is the send with most partners, ties go to more partners, then to the lower send.
    """
    from everfresh.arrays.plan.kernels.orders import sharing_order

    count = len(links)
    if not count:
        return np.empty(0, np.int64)
    order = np.lexsort((local, send))
    send, local = send[order], local[order]
    degree = np.bincount(send, minlength=count)
    begin = _starts(degree)
    keys = links[send] * (int(local.max(initial=0)) + 1) + local
    groups, group = np.unique(keys, return_inverse=True)
    members = _starts(np.bincount(group, minlength=len(groups)))
    sends = send[np.argsort(group, kind="stable")]
    by_degree = np.lexsort((np.arange(count), -degree, links))
    ends = np.append(np.flatnonzero(np.diff(links)) + 1, count)
    order = sharing_order(np.concatenate([[0], ends]), begin, group, members, sends, by_degree)
    return np.asarray(order)


def _starts(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def arrivals(slots: tuple[Slot, ...], source: Ints, target: Ints, size: Ints) -> Ints:
    """When each send has arrived, in bytes' time; sends of a link travel in the given order."""
    windows: dict[tuple[int, int], list[tuple[int, int]]] = {}
    now = 0
    for slot in slots:
        for link in slot.links:
            windows.setdefault(link, []).append((now, slot.length))
        now += slot.length
    found = np.zeros(len(size), np.int64)
    for (i, j), spans in windows.items():
        some: Ints = np.flatnonzero((source == i) & (target == j))
        carried = np.cumsum(size[some])
        starts, lengths = (np.array(column, np.int64) for column in zip(*spans, strict=True))
        before = np.cumsum(lengths) - lengths
        at = np.maximum(np.searchsorted(before, carried, "left") - 1, 0)
        found[some] = starts[at] + carried - before[at]
    return found
