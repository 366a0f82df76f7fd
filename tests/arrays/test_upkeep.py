"""Plans of view maintenance: the document's worked examples, costs against a slow twin, the exact program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.arrays.plan import Chunks, Reach, chunk_offsets
from everfresh.arrays.upkeep import Costs, Planner, PlannerOptions, Update, update
from everfresh.arrays.upkeep.exact import least_makespan
from everfresh.arrays.upkeep.plans import MaintenancePlan, costed
from everfresh.arrays.upkeep.stages import (
    Results,
    Scores,
    array_chunks,
    baseline,
    differential,
    view_chunks,
)
from everfresh.errors import EverfreshError

X, Y, Z = 0, 1, 2
DOCUMENT = Costs(t_ntwk=4, t_cpu=1)


def test_algorithm_1_fourth_step() -> None:
    """Example B.1: the fourth join costs 4 at Y and 8 at X and Z."""
    a1, a2, d4, d2, d3, d7 = range(6)
    of = Update.of(
        3, size=[1] * 6, home=[X, Y, X, Y, Z, X], pairs=[(d4, a1), (d2, a1), (d2, d3), (d7, a2)], triples=[],
        view_home=[X],
    )  # fmt: skip
    three = differential(of, DOCUMENT, literal=True, order=np.arange(3))
    assert three.worker[:3].tolist() == [X, X, Y]
    assert three.network.tolist() == [0, 4, 4]
    assert three.cpu.tolist() == [4, 2, 0]
    four = differential(of, DOCUMENT, literal=True, order=np.arange(4))
    assert four.trace.tolist() == [8, 4, 8]
    assert four.worker[3] == Y


def test_algorithm_2_table() -> None:
    """Table 2: 42, 40 and 41, so V1 goes to Y."""
    results = Results(np.zeros(3, np.int64), np.array([X, X, Y]), np.ones(3, np.int64), np.full(3, 2))
    chosen, trace = view_chunks(
        results, np.array([X]), np.array([0]), np.array([32.0, 36, 30]), np.array([36.0, 30, 35]), DOCUMENT
    )
    assert trace.tolist() == [42, 40, 41]
    assert chosen.tolist() == [Y]


def test_algorithm_3_figure_8() -> None:
    """Figure 8: A2 to Y, A1 to X, A3 to Z, which is full then."""
    v = {name: k for k, name in enumerate(["V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8"])}
    view_home = np.array([Y, X, Z, Y, Z, X, Y, Z])
    pairs = [(1, "V1", 8), (0, "V1", 6), (0, "V2", 4), (1, "V3", 4), (2, "V3", 2)]
    scores = Scores(
        np.array([a for a, _, _ in pairs]), np.array([v[name] for _, name, _ in pairs]),
        np.array([float(s) for _, _, s in pairs]),
    )  # fmt: skip
    masks = np.array([1 << X | 1 << Z, 1 << Y | 1 << Z, 1 << Z | 1 << Y])
    room = np.array([4.0, 3.0, 1.0])
    zeros = np.zeros(3, np.int64)
    found = array_chunks(scores, zeros + 1, masks, np.array([Z, Z, Y]), view_home, room, zeros)
    assert found == {1: Y, 0: X, 2: Z}
    assert room.tolist() == [3, 2, 0]


PLACES = {1: (0, 0), 2: (0, 1), 3: (0, 2), 4: (1, 0), 5: (2, 2), 6: (2, 3), 7: (1, 1), 8: (2, 1)}


def figure_1() -> Update:
    """The batch of Figure 1 by chunks, whose boxes are not tight, as the document has it."""

    def chunks(numbers: list[int], home: list[int]) -> Chunks:
        lo = np.array([PLACES[n] for n in numbers]) * 2 + 1
        return Chunks.of(lo, lo + 1, cells=[1] * len(numbers), start=(1, 1), length=(2, 2), home=home)

    cross = np.array([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])
    reach = Reach.box((-1, -1), (1, 1), offsets=chunk_offsets(cross, (2, 2)))
    old = chunks([1, 2, 3, 4, 5, 6], [X, Y, Z, X, Y, Z])
    new = chunks([1, 2, 3, 4, 5, 7, 8], [X, Y, Z, X, Y, X, Y])
    numbers = (np.arange(6), np.array([0, 1, 2, 3, 4, 6, 7]))
    return update(
        old, new, reach, 3, chunk=numbers, view_home=[Y, X, Z, Y, Z, X, Y, Z], view_size=[1] * 6 + [0, 0]
    )


def test_triples_of_figure_1() -> None:
    of = figure_1()
    assert of.irrelevant == 0

    def partners(chunk: int) -> set[tuple[int, bool]]:
        delta = 6 + [1, 2, 3, 4, 5, 7, 8].index(chunk)
        found = set()
        for p, q in zip(of.first.tolist(), of.second.tolist(), strict=True):
            if delta in (p, q):
                other = q if p == delta else p
                found.add((int(of.chunk[other]) + 1, bool(of.delta[other])))
        return found

    # "chunk 7 joins with chunks 2, 4 and 8"; "(dA4, A1), (dA4, dA1), (dA4, A4), (dA4, dA7)"
    assert {c for c, _ in partners(7)} == {2, 4, 7, 8}
    assert partners(4) == {(1, False), (1, True), (4, False), (4, True), (7, True)}
    assert set(of.view.tolist()) == set(range(8))
    fed = {
        (int(of.first[n]), int(of.second[n]), int(v))
        for n, v in zip(of.pair.tolist(), of.view.tolist(), strict=True)
    }
    assert {(9, 0, 0), (9, 0, 3)} <= fed  # (dA4, A1) feeds V1, and V4 as well


def test_baseline_of_figure_1() -> None:
    """7 x 2 and 7 x 8 on Y, 7 x 4 on X, results Y to X, X to Y and Y to Z."""
    of = figure_1()
    worker = baseline(of)
    d7, at = 11, {}
    for n, (p, q) in enumerate(zip(of.first.tolist(), of.second.tolist(), strict=True)):
        if d7 in (p, q) and p != q:
            other = q if p == d7 else p
            if not of.delta[other]:
                at[int(of.chunk[other]) + 1] = int(worker[n])
    assert at == {2: Y, 4: X}


@settings(max_examples=40)
@given(st.integers(0, 1 << 30))
def test_costs_against_counting(seed: int) -> None:
    of, rng = random_update(seed)
    costs = Costs(3.0, 2.0)
    worker = rng.integers(0, of.workers, len(of.first))
    views = np.where(
        rng.random(len(of.view_home)) < 0.5, of.view_home, rng.integers(0, of.workers, len(of.view_home))
    )
    plan = costed("any", of, costs, worker, views)
    network, cpu = counted_by_hand(of, costs, worker, views)
    np.testing.assert_allclose(plan.network, network)
    np.testing.assert_allclose(plan.cpu, cpu)
    assert plan.makespan == max(*network, *cpu)


def counted_by_hand(
    of: Update, costs: Costs, worker: np.ndarray, views: np.ndarray
) -> tuple[list[float], list[float]]:
    network, cpu = [0.0] * of.workers, [0.0] * of.workers
    sent, found = set(), set()
    for n, (p, q) in enumerate(zip(of.first.tolist(), of.second.tolist(), strict=True)):
        j = int(worker[n])
        cpu[j] += float(of.size[p] + of.size[q]) * costs.t_cpu
        sent |= {(o, j) for o in (p, q) if of.home[o] != j}
    for o, _ in sent:
        network[of.home[o]] += float(of.size[o]) * costs.t_ntwk
    for n, v, o in zip(of.pair.tolist(), of.view.tolist(), of.side.tolist(), strict=True):
        found.add((int(worker[n]), v, o))
    for j, v, o in found:
        if views[v] != j:
            network[j] += float(of.size[o]) * costs.t_ntwk
        cpu[views[v]] += float(of.size[o]) * costs.t_cpu
    for v, home in enumerate(of.view_home.tolist()):
        if views[v] != home:
            network[home] += float(of.view_size[v]) * costs.t_ntwk
    return network, cpu


def random_update(seed: int, chunks: int = 5, workers: int = 3) -> tuple[Update, np.random.Generator]:
    rng = np.random.default_rng(seed)
    at = np.sort(rng.choice(12, chunks, replace=False))
    new = np.sort(rng.choice(12, 3, replace=False))

    def row(places: np.ndarray) -> Chunks:
        cells = rng.integers(1, 5, len(places))
        return Chunks.of(
            places[:, None] * 2, places[:, None] * 2 + 1, cells=cells, start=(0,), length=(2,),
            home=rng.integers(0, workers, len(places)),
        )  # fmt: skip

    reach = Reach.box([-2], [2]) if seed % 2 else Reach.box([-3], [-1])
    found = update(
        row(at), row(new), reach, workers, chunk=(at, new), view_home=rng.integers(0, workers, 12),
        view_size=rng.integers(0, 4, 12),
    )  # fmt: skip
    return found, rng


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1 << 20))
def test_no_plan_beats_the_exact_program(seed: int) -> None:
    of, rng = random_update(seed, 4)
    if not len(of.first):
        return
    costs = Costs(2.0, 1.0)
    least, worker, views = least_makespan(of, costs)
    assert costed("exact", of, costs, worker, views).makespan == pytest.approx(least)
    for _ in range(20):
        any_views = rng.integers(0, of.workers, len(views))
        plan = costed("any", of, costs, rng.integers(0, of.workers, len(worker)), any_views)
        assert plan.makespan >= least - 1e-6
    still, _, _ = least_makespan(of, costs, view_chunks_move=False)
    found = Planner(PlannerOptions("auto", costs), *homes(of)).step(of)
    assert (
        least - 1e-6 <= found.makespan <= costed("baseline", of, costs, baseline(of), of.view_home).makespan
    )
    assert least <= still + 1e-6


def homes(of: Update) -> tuple[np.ndarray, np.ndarray]:
    home = np.zeros(12, np.int64)
    home[of.chunk] = of.home
    return home, np.array(of.view_home)


def test_methods_over_batches() -> None:
    """`auto` is never over the baseline for a batch; plans say what moves; the same seed is the same plan."""
    for seed in range(8):
        of, _ = random_update(seed)
        home, view_home = homes(of)
        made: dict[str, list[MaintenancePlan]] = {}
        for method in ("baseline", "differential", "reassign", "auto"):
            planner = Planner(PlannerOptions(method), home, view_home)
            made[method] = [planner.step(of) for _ in range(4)]
            other = Planner(PlannerOptions(method), home, view_home)
            assert [p.makespan for p in made[method]] == [other.step(of).makespan for _ in range(4)]
            assert set(planner.home.tolist()) <= set(range(of.workers))
        moved = of.moved(home, view_home)
        first = costed("baseline", moved, Costs(), baseline(moved), moved.view_home).makespan
        assert made["auto"][0].makespan <= first
        assert "makespan" in str(made["reassign"][0])
    with pytest.raises(EverfreshError, match="no method"):
        PlannerOptions("fastest")


def test_irrelevant_updates_are_counted() -> None:
    row = Chunks.of([[0]], [[1]], cells=[2], start=(0,), length=(2,))
    far = Chunks.of([[20]], [[20]], cells=[1], start=(0,), length=(2,))
    found = update(
        row, far, Reach.box([1], [2]), 1, chunk=([0], [10]), view_home=[0] * 11, view_size=[0] * 11
    )
    assert found.irrelevant == 1
    assert not len(found.first)
