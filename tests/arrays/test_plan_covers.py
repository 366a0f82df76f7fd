"""Covers of transfer graphs: they cover, the exact ones are exact, loops equal their plain twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_support import problems, random_problem

from everfresh.arrays.plan import CoverOptions, Problem
from everfresh.arrays.plan.covers import COVERS, PENALTIES, least_maximum, minimal, opt_vc
from everfresh.arrays.plan.graph import TransferGraph, transfer_graph
from everfresh.arrays.plan.kernels import plain
from everfresh.arrays.plan.kernels.covers import LITERAL, PRINTED, SHARE, greedy
from everfresh.errors import Code, EverfreshError

OPTIONS = CoverOptions()


def covered(graph: TransferGraph, chosen: np.ndarray) -> bool:
    return bool((chosen[graph.first] | chosen[graph.second]).all())


def cost(graph: TransferGraph, chosen: np.ndarray) -> int:
    return int(graph.cost[chosen].sum())


def largest(graph: TransferGraph, chosen: np.ndarray) -> int:
    into = np.bincount(graph.target[chosen], graph.cost[chosen], graph.workers)
    out = np.bincount(graph.source[chosen], graph.cost[chosen], graph.workers)
    return int(max(into.max(initial=0), out.max(initial=0)))


@given(problems())
def test_the_graph_has_an_edge_for_each_remote_pair(given_: Problem) -> None:
    graph = transfer_graph(given_)
    homes = given_.home.tolist()
    remote = [
        (p, q)
        for p, q in zip(given_.first.tolist(), given_.second.tolist(), strict=True)
        if homes[p] != homes[q]
    ]
    vertices = sorted({(p, homes[q]) for p, q in remote} | {(q, homes[p]) for p, q in remote})
    assert list(zip(graph.chunk.tolist(), graph.target.tolist(), strict=True)) == vertices
    ends = [(vertices.index((p, homes[q])), vertices.index((q, homes[p]))) for p, q in remote]
    assert list(zip(graph.first.tolist(), graph.second.tolist(), strict=True)) == ends
    assert (graph.cost == given_.bytes[graph.chunk]).all()
    assert (graph.source == given_.home[graph.chunk]).all()


@given(problems(most=25, workers=4))
def test_every_cover_covers_and_the_exact_ones_are_least(given_: Problem) -> None:
    graph = transfer_graph(given_)
    found = {name: rule(graph, OPTIONS) for name, rule in COVERS.items()}
    assert all(covered(graph, chosen) for chosen in found.values())
    assert cost(graph, found["opt-vc"]) == min(cost(graph, chosen) for chosen in found.values())
    assert largest(graph, found["min-max"]) == min(largest(graph, chosen) for chosen in found.values())


@given(problems(most=8, workers=3))
def test_exact_covers_equal_trying_all(given_: Problem) -> None:
    graph = transfer_graph(given_)
    if len(graph.cost) > 12:
        return
    every = (np.array(bits, bool) for bits in itertools.product((False, True), repeat=len(graph.cost)))
    covers = [chosen for chosen in every if covered(graph, chosen)]
    assert cost(graph, opt_vc(graph, OPTIONS)) == min(cost(graph, chosen) for chosen in covers)
    assert largest(graph, least_maximum(graph, OPTIONS)) == min(largest(graph, chosen) for chosen in covers)


@given(problems(most=25), st.floats(0, 1))
def test_the_greedy_loop_equals_algorithm_1_to_the_letter(given_: Problem, r: float) -> None:
    """With amounts as penalties and without any, keys never fall, so the heap finds the least one."""
    graph = transfer_graph(given_)
    start, adjacent = graph.adjacency
    for penalty, in_order in ((0, False), (0, True), (PRINTED, False), (LITERAL, True)):
        how = graph.workers, r, penalty, in_order
        loop = greedy(graph.cost, graph.source, graph.target, start, adjacent, *how)
        assert loop.tolist() == plain.greedy(graph, r, penalty, in_order).tolist()


@given(st.integers(0, 20))
def test_with_shares_the_loop_is_near_algorithm_1(seed: int) -> None:
    """A share may fall, so the heap may be late: both cover, and their bytes are within a tenth."""
    graph = transfer_graph(random_problem(seed, chunks=40))
    start, adjacent = graph.adjacency
    ends = graph.source, graph.target
    loop = greedy(graph.cost, *ends, start, adjacent, graph.workers, 0.5, SHARE, False)
    twin = plain.greedy(graph, 0.5, SHARE, False)
    assert covered(graph, loop)
    assert covered(graph, twin)
    assert abs(cost(graph, loop) - cost(graph, twin)) <= 0.1 * cost(graph, twin)


@given(problems(most=30))
def test_other_loops_equal_their_twins(given_: Problem) -> None:
    graph = transfer_graph(given_)
    assert COVERS["mbh"](graph, OPTIONS).tolist() == plain.smaller_ends(graph).tolist()
    chosen = COVERS["hvc"](graph, OPTIONS)
    assert minimal(graph, chosen).tolist() == plain.without_redundant(graph, chosen).tolist()


@given(problems())
def test_a_minimal_cover_needs_all_its_vertices(given_: Problem) -> None:
    graph = transfer_graph(given_)
    chosen = COVERS["bhvc"](graph, OPTIONS)
    for v in np.flatnonzero(chosen):
        less = chosen.copy()
        less[v] = False
        assert not covered(graph, less)


@given(st.integers(0, 8), st.sampled_from(sorted(PENALTIES)), st.floats(0, 1))
def test_bhvc_is_within_a_fifth_of_the_least_bytes(seed: int, penalty: str, r: float) -> None:
    graph = transfer_graph(random_problem(seed, chunks=150, workers=6))
    chosen = COVERS["bhvc"](graph, CoverOptions(r, penalty))
    assert covered(graph, chosen)
    assert cost(graph, chosen) <= 1.2 * cost(graph, opt_vc(graph, OPTIONS))


def test_r_weighs_receivers_against_senders() -> None:
    """Averaged over graphs, r = 1 levels what is received better than r = 0 does, and the other way round."""
    uneven = {0.0: [0.0, 0.0], 1.0: [0.0, 0.0]}
    for seed in range(12):
        graph = transfer_graph(random_problem(seed, chunks=200, workers=5))
        for r, sums in uneven.items():
            chosen = COVERS["bhvc"](graph, CoverOptions(r, "printed", minimal=False))
            for side, ends in enumerate((graph.target, graph.source)):
                load = np.bincount(ends[chosen], graph.cost[chosen], graph.workers)
                sums[side] += load.max() / load.mean()
    assert uneven[1.0][0] < uneven[0.0][0]
    assert uneven[0.0][1] < uneven[1.0][1]


def test_costs_beyond_31_bits_are_scaled() -> None:
    given_ = random_problem(3, chunks=50)
    large = Problem(
        given_.workers, given_.cells, given_.bytes * (1 << 33) + 1, given_.home, given_.key, given_.rank,
        given_.first, given_.second, given_.ways,
    )  # fmt: skip
    graph, small = transfer_graph(large), transfer_graph(given_)
    chosen, exact = opt_vc(graph, OPTIONS), opt_vc(small, OPTIONS)
    assert covered(graph, chosen)
    assert cost(small, chosen) <= cost(small, exact) * 1.0001


def test_the_integer_program_is_for_small_graphs() -> None:
    with pytest.raises(EverfreshError) as caught:
        least_maximum(transfer_graph(random_problem(1, chunks=400)), OPTIONS)
    assert caught.value.code == Code.UNSUPPORTED


@pytest.mark.parametrize("wrong", [{"r": 1.5}, {"r": -0.1}, {"penalty": "none"}])
def test_cover_options_are_checked(wrong: dict) -> None:
    with pytest.raises(EverfreshError) as caught:
        CoverOptions(**wrong)
    assert caught.value.code == Code.ARGUMENT
