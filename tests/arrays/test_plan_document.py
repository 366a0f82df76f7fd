"""Figures 1, 5, 7, 8 and Example 3 of the paper on similarity joins, from an array that satisfies them all.

The figures are lost. An exhaustive search over the 1,820 ways to leave four of sixteen chunks empty and over
all sizes of chunks (chunk 1 has two cells) finds six arrays from which everything that the text says of them
follows, if penalties are read to the letter (`docs/design/arrays.md`). This is the first one:

    1 2 . 3
    4 5 6 7
    . 8 9 .
    10 11 12 .
"""

from __future__ import annotations

import numpy as np
import pytest

from everfresh.arrays.plan import (
    Chunks,
    CoverOptions,
    Plan,
    PlanOptions,
    Problem,
    Reach,
    place,
    plan_problem,
    problem,
)
from everfresh.arrays.plan.covers import bhvc, hvc
from everfresh.arrays.plan.graph import TransferGraph, transfer_graph

X, Y, Z = range(3)
PLACES = [(0, 0), (0, 1), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
CELLS = [2, 3, 2, 3, 3, 3, 3, 3, 2, 4, 2, 4]
LITERAL = CoverOptions(0.5, "literal", minimal=False)


@pytest.fixture(scope="module")
def figure_1() -> Problem:
    """Array A, its chunks dealt round-robin over X, Y, Z, joined with itself by a 3 x 3 square."""
    lo = np.array(PLACES) * 2 + 1
    chunks = Chunks.of(lo, lo + 1, cells=CELLS, start=(1, 1), length=(2, 2))
    return problem(place(chunks, "round-robin", 3), Reach.box((-1, -1), (1, 1)), 3)


def sends(graph: TransferGraph, chosen: np.ndarray) -> dict[int, list[int]]:
    """The chunks sent to each worker, numbered from 1 as in the figure."""
    return {to: (graph.chunk[chosen & (graph.target == to)] + 1).tolist() for to in (X, Y, Z)}


def test_the_transfer_graph_of_example_3(figure_1: Problem) -> None:
    graph = transfer_graph(figure_1)
    assert (len(graph.cost), len(graph.first)) == (18, 18)
    component = list(range(18))
    for _ in range(18):
        for a, b in zip(graph.first.tolist(), graph.second.tolist(), strict=True):
            component[a] = component[b] = min(component[a], component[b])
    assert len(set(component)) == 3
    partners = {
        (int(graph.chunk[v]) + 1, int(graph.target[v])): sorted(
            int(graph.chunk[b if a == v else a]) + 1
            for a, b in zip(graph.first.tolist(), graph.second.tolist(), strict=True)
            if v in (a, b)
        )
        for v in range(18)
    }
    assert figure_1.cells[0] == 2
    assert partners[1, Y] == [2, 5]
    assert {partner for (chunk, _), others in partners.items() if chunk == 2 for partner in others} >= {1, 6}


def test_the_covers_of_figure_5(figure_1: Problem) -> None:
    graph = transfer_graph(figure_1)
    least = hvc(graph, LITERAL)
    assert graph.cost[least].sum() == 25
    assert (len(sends(graph, least)[Y]), len(sends(graph, least)[X])) == (5, 1)
    balanced = bhvc(graph, LITERAL)
    assert graph.cost[balanced].sum() == 26
    assert sends(graph, balanced) == {X: [2, 5, 8], Y: [6, 9, 10], Z: [7, 8, 11]}


@pytest.fixture(scope="module")
def plan(figure_1: Problem) -> Plan:
    return plan_problem(figure_1, PlanOptions(cover=LITERAL, balance="pairs", chunk_order="sharing"))


def test_the_assignment_of_figure_7(figure_1: Problem) -> None:
    graph = transfer_graph(figure_1)
    chosen = bhvc(graph, LITERAL)
    once, other = chosen[graph.first], chosen[graph.second]
    twice = graph.pair[once & other]
    ends = figure_1.first[twice] + 1, figure_1.second[twice] + 1
    named = sorted(zip(*(end.tolist() for end in ends), strict=True))
    assert named == [(6, 8), (8, 9), (8, 10), (9, 11)]
    forced = np.where(once, graph.target[graph.first], graph.target[graph.second])[~(once & other)]
    assert np.bincount(forced).tolist() == [5, 4, 5]


def test_six_remote_pairs_are_joined_on_each_worker(plan: Plan) -> None:
    homes = plan.problem.home
    remote = homes[plan.first] != homes[plan.second]
    assert np.bincount(plan.node[remote]).tolist() == [6, 6, 6]


def test_the_schedule_of_figure_8(plan: Plan) -> None:
    links = np.zeros((3, 3), int)
    links[X, Z], links[Y, X], links[Z, Y], links[X, Y], links[Y, Z] = 3, 9, 5, 4, 5
    assert plan.links.tolist() == links.tolist()
    assert plan.length == 14


def test_the_chunk_order_of_section_4_4(plan: Plan) -> None:
    """From Y to X go 2 and 5, joined with 1 and 4, next to one another, and 8, joined with 4 and 10."""
    order = (plan.worker(X).receive_chunk + 1).tolist()
    assert sorted(order) == [2, 5, 8]
    assert abs(order.index(2) - order.index(5)) == 1
