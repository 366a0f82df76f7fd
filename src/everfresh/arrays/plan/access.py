"""The data access plan: in what order a worker joins, and which local chunks it reads and lets go.

Section 4.5 of the paper on similarity joins. Remote chunks come in the order of the schedule; each is joined
with its local partners, those in memory first. On a miss with a full budget the chunk whose next use is
furthest leaves. Pairs inside the worker come last, along a space-filling curve. The budget is for local
chunks; the remote chunk at hand is outside it. Invariant: every join has its place once, and a worker that
follows the actions has in memory what each join needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everfresh.arrays.plan.algorithms import Assignment
from everfresh.arrays.plan.catalog import Ints, Mask
from everfresh.arrays.plan.pairs import Problem

UNBOUNDED = 1 << 62


@dataclass(frozen=True, eq=False)
class Accesses:
    """The joins in order (worker by worker), and what is loaded or leaves before which of them."""

    order: Ints  # positions of joins, in the order of execution
    join: Ints  # before the join at this place of `order` ...
    chunk: Ints  # ... this local chunk ...
    load: Mask  # ... is read, or else leaves


def accesses(
    problem: Problem, joins: Assignment, send_chunk: Ints, send_target: Ints, budget: int | None
) -> Accesses:
    """Replay what every worker does; sends (chunk, target) are in the order of arrival at the target."""
    from everfresh.arrays.plan.kernels.orders import replay

    node, event, anchor, entry_event, entry_local, entry_join = _events(
        problem, joins, send_chunk, send_target
    )
    order = np.lexsort((np.arange(len(entry_event)), entry_event))
    entry_event, entry_local, entry_join = entry_event[order], entry_local[order], entry_join[order]
    begin = np.searchsorted(entry_event, np.arange(event + 1))
    following = np.full(len(entry_local), event + 1, np.int64)
    by_chunk = np.lexsort((entry_event, entry_local))
    same = entry_local[by_chunk][1:] == entry_local[by_chunk][:-1]
    following[by_chunk[:-1][same]] = entry_event[by_chunk[1:][same]]
    limit = UNBOUNDED if budget is None else budget
    done, place, chunk, load, count = replay(
        node, begin, entry_local, following, anchor, problem.bytes, limit
    )
    ran = entry_join[done]
    before = np.cumsum(ran >= 0) - (ran >= 0)  # joins before each entry
    return Accesses(ran[ran >= 0], before[place[:count]], chunk[:count], load[:count])


def _events(
    problem: Problem, joins: Assignment, send_chunk: Ints, send_target: Ints
) -> tuple[Ints, int, Ints, Ints, Ints, Ints]:
    """Events in order: remote chunks as they arrive, then local ones along the curve; their entries.

    An entry is (event, local chunk or -1, join or -1): the last is -1 where a local chunk only has to be
    there for the joins of its event.
    """
    workers, chunks = problem.workers, len(problem.cells)
    far_first = problem.home[joins.first] != joins.node
    far_second = problem.home[joins.second] != joins.node
    # the remote events: the place of each send in the order of arrival, per worker
    arrival = np.full(chunks * workers, -1, np.int64)
    arrival[send_chunk * workers + send_target] = np.arange(len(send_chunk))
    when_first = np.where(far_first, arrival[joins.first * workers + joins.node], -1)
    when_second = np.where(far_second, arrival[joins.second * workers + joins.node], -1)
    if ((far_first & (when_first < 0)) | (far_second & (when_second < 0))).any():
        raise AssertionError("a join needs a chunk that is not sent")
    when = np.maximum(when_first, when_second)
    local = np.where(far_first & far_second, -1, np.where(far_first, joins.second, joins.first))
    here = np.flatnonzero(when < 0)
    a, b = joins.first[here], joins.second[here]
    lower = problem.rank[a] <= problem.rank[b]
    host, guest = np.where(lower, a, b), np.where(lower, b, a)
    hosts, which = np.unique(host, return_inverse=True)
    # events in the order of (worker, remote before local, arrival or place on the curve)
    event_node = np.concatenate([send_target, problem.home[hosts]])
    late = np.repeat([0, 1], [len(send_chunk), len(hosts)])
    turn = np.concatenate([np.arange(len(send_chunk)), problem.rank[hosts]])
    order = np.lexsort((turn, late, event_node))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    anchor = np.concatenate([np.full(len(send_chunk), -1), hosts])[order]
    remote = np.flatnonzero(when >= 0)
    itself = guest == host
    own = np.full(len(hosts), -1, np.int64)
    own[which[itself]] = here[itself]
    entry_event = np.concatenate(
        [number[when[remote]], number[len(send_chunk) :], number[len(send_chunk) + which[~itself]]]
    )
    entry_local = np.concatenate([local[remote], hosts, guest[~itself]])
    entry_join = np.concatenate([remote, own, here[~itself]])
    return event_node[order], len(order), anchor, entry_event, entry_local, entry_join
