"""From catalogs to a plan: pairs, sends and joins, node order, chunk order, access plan, one after the other.

Section 4.2 of the paper on similarity joins: each part takes the outcome of the one before as given. The
planner reads metadata only.
"""

from __future__ import annotations

import numpy as np

from everfresh.arrays.plan.access import accesses
from everfresh.arrays.plan.algorithms import ALGORITHMS, Assignment, PlanOptions
from everfresh.arrays.plan.catalog import Chunks, Ints
from everfresh.arrays.plan.pairs import Image, Problem, Reach, problem
from everfresh.arrays.plan.plan import Plan
from everfresh.arrays.plan.schedule import arrivals, chunk_order, in_rounds, matrix, node_order


def plan_join(
    left: Chunks,
    reach: Reach,
    workers: int,
    right: Chunks | None = None,
    image: Image | None = None,
    options: PlanOptions | None = None,
) -> Plan:
    """The plan of a join of two arrays, or of one with itself.

    >>> row = Chunks.of([[1], [4]], [[2], [4]], cells=[2, 1], start=[1], length=[2], home=[0, 1])
    >>> plan_join(row, Reach.box([-2], [-1]), workers=2)
    <Plan bhvc: 2 workers, 2 chunks, 2 joins, 1 sends, 1 bytes>
    """
    return plan_problem(problem(left, reach, workers, right, image), options)


def plan_problem(given: Problem, options: PlanOptions | None = None) -> Plan:
    """The plan of known chunk pairs."""
    options = PlanOptions() if options is None else options
    return scheduled(given, ALGORITHMS[options.algorithm].run(given, options), options)


def scheduled(given: Problem, joins: Assignment, options: PlanOptions) -> Plan:
    """A plan from what is joined and sent where: the order of sends, then that of joins and reads."""
    source = given.home[joins.chunk]
    order = np.lexsort((joins.chunk, joins.target, source))
    chunk, target, source = joins.chunk[order], joins.target[order], source[order]
    link = np.unique(source * given.workers + target, return_inverse=True)[1].astype(np.int64)
    if options.chunk_order == "curve":
        order = np.lexsort((given.rank[chunk], link))
    else:
        order = chunk_order(link, *_local_partners(given, joins, chunk, target))
    chunk, target, source = chunk[order], target[order], source[order]
    size = given.bytes[chunk]
    slots = node_order(matrix(given.workers, source, target, size))
    slots = in_rounds(slots, _rounds(given, options) if options.rounds is None else options.rounds)
    arrival = arrivals(slots, source, target, size)
    order = np.lexsort((np.arange(len(chunk)), arrival, target))
    chunk, target, arrival = chunk[order], target[order], arrival[order]
    access = accesses(given, joins, chunk, target, options.budget)
    run = access.order
    return Plan(
        options,
        given,
        joins.first[run],
        joins.second[run],
        joins.ways[run],
        joins.node[run],
        chunk,
        target,
        arrival,
        slots,
        access.join,
        access.chunk,
        access.load,
    )


def _rounds(given: Problem, options: PlanOptions) -> int:
    """So many that in a round a worker goes over half of what fits into its memory; 64 at most."""
    if options.budget is None:
        return 1
    kept = np.bincount(given.home, given.bytes, given.workers).max()
    return int(min(max(1, np.ceil(2 * kept / max(options.budget, 1))), 64))


def _local_partners(given: Problem, joins: Assignment, chunk: Ints, target: Ints) -> tuple[Ints, Ints]:
    """For each send the chunks kept at its target that it is joined with there: rows (send, local chunk)."""
    number = np.full(len(given.cells) * given.workers, -1, np.int64)
    number[chunk * given.workers + target] = np.arange(len(chunk))
    sends, locals_ = [], []
    for far, near in ((joins.first, joins.second), (joins.second, joins.first)):
        some = np.flatnonzero((given.home[far] != joins.node) & (given.home[near] == joins.node))
        sends.append(number[far[some] * given.workers + joins.node[some]])
        locals_.append(near[some])
    return np.concatenate(sends), np.concatenate(locals_)
