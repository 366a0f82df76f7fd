"""Whole plans: every algorithm's is right, prints and parses, is explained, drawn and simulated."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_support import chunks_of, problems, random_problem

from everfresh.arrays.plan import (
    ALGORITHMS,
    ALTERNATIVES,
    CostModel,
    CoverOptions,
    Plan,
    PlanOptions,
    Problem,
    Reach,
    explain,
    place,
    plan_join,
    plan_problem,
)
from everfresh.arrays.plan.assign import least_load
from everfresh.arrays.plan.kernels import plain
from everfresh.arrays.plan.kernels.running import crowded
from everfresh.arrays.plan.picture import svg
from everfresh.arrays.plan.simulate import simulate
from everfresh.errors import Code, EverfreshError

ANY = st.sampled_from(sorted(ALGORITHMS))


def directions(first, second, ways) -> Counter:
    """(left, right) chunks of every direction."""
    found: Counter = Counter()
    for p, q, way in zip(first.tolist(), second.tolist(), ways.tolist(), strict=True):
        found.update([(p, q)] * (way & 1) + [(q, p)] * (way >> 1))
    return found


# -- what is planned -----------------------------------------------------------------------------------


@given(problems(most=20, workers=4), ANY, st.sampled_from([None, 0, 30]), st.booleans())
def test_every_direction_is_joined_once_where_both_chunks_are(
    given_: Problem, algorithm: str, budget: int | None, minimal: bool
) -> None:
    plan = plan_problem(given_, PlanOptions(algorithm, CoverOptions(minimal=minimal), budget=budget))
    assert directions(plan.first, plan.second, plan.ways) == directions(
        given_.first, given_.second, given_.ways
    )
    sent = set(zip(plan.send.tolist(), plan.target.tolist(), strict=True))
    homes = given_.home.tolist()
    for p, q, n in zip(plan.first.tolist(), plan.second.tolist(), plan.node.tolist(), strict=True):
        assert all(homes[c] == n or (c, n) in sent for c in (p, q))
    assert plan.length == plan.busiest_end
    assert sum(plan.load_of_workers) == given_.work.sum()
    follow(plan)


def follow(plan: Plan) -> None:
    """Do what each worker's part says: what a join needs is there, and remote chunks come in order."""
    total = 0
    for k in range(plan.problem.workers):
        part = plan.worker(k)
        arrived = dict(zip(part.receive_chunk.tolist(), range(len(part.receive_chunk)), strict=True))
        acts = list(zip(part.step.tolist(), part.chunk.tolist(), part.load.tolist(), strict=True))
        memory: set[int] = set()
        last = -1
        for step, (p, q) in enumerate(zip(part.first.tolist(), part.second.tolist(), strict=True)):
            while acts and acts[0][0] == step:
                _, chunk, load = acts.pop(0)
                assert plan.problem.home[chunk] == k
                assert (chunk in memory) != load
                memory ^= {chunk}
                total += load
            when = max((arrived.get(c, -1) for c in (p, q)), default=-1)
            assert when >= last or when == -1
            last = max(last, when)
            assert all(c in memory or c in arrived for c in (p, q))
        assert not acts
    assert total == plan.reads.sum()


@given(problems(most=20, workers=4), st.sampled_from(["curve", "sharing"]), st.integers(1, 7))
def test_orders_and_rounds_change_when_not_what(given_: Problem, order: str, rounds: int) -> None:
    """Chunks arrive in another order, over the same links, in the same time; what is joined stays."""
    one, other = plan_problem(given_), plan_problem(given_, PlanOptions(chunk_order=order, rounds=rounds))
    assert other.length == one.length
    assert other.links.tolist() == one.links.tolist()
    assert directions(other.first, other.second, other.ways) == directions(one.first, one.second, one.ways)
    follow(other)


def test_rounds_along_a_curve_save_reads() -> None:
    """Under a tight budget: one pass over the local chunks, not one for every other worker."""
    cells = np.array([[i, j] for i in range(80) for j in range(80)])
    chunks = place(chunks_of(cells, (0, 0), (2, 2)), "round-robin", 6)
    counts = {}
    for order, rounds in (("sharing", 1), ("curve", 1), ("curve", None)):
        options = PlanOptions(budget=200, chunk_order=order, rounds=rounds)
        counts[order, rounds] = int(
            plan_join(chunks, Reach.box((-1, -1), (1, 1)), 6, options=options).reads.sum()
        )
    assert counts["curve", None] < 0.8 * min(counts["sharing", 1], counts["curve", 1])


@given(problems(most=20, workers=4))
def test_sends_of_a_minimal_cover_are_all_needed(given_: Problem) -> None:
    plan = plan_problem(given_)
    needed = set()
    for ends in (plan.first, plan.second):
        for c, n in zip(ends.tolist(), plan.node.tolist(), strict=True):
            if given_.home[c] != n:
                needed.add((c, n))
    assert needed == set(zip(plan.send.tolist(), plan.target.tolist(), strict=True))


@given(problems(most=20, workers=4), ANY)
def test_the_least_bytes_and_the_least_maximum_are_bounds(given_: Problem, algorithm: str) -> None:
    """Among plans that join a pair where one of its chunks is kept: MR and shuffle may use a third."""
    if algorithm.startswith(("mr", "shuffle")):
        return
    plan = plan_problem(given_, PlanOptions(algorithm))
    assert plan_problem(given_, PlanOptions("opt-vc")).bytes_moved <= plan.bytes_moved
    assert plan_problem(given_, PlanOptions("min-max")).busiest_end <= plan.busiest_end


@given(problems(most=30), st.sampled_from(["cells", "pairs"]))
def test_explain_bounds_the_load(given_: Problem, balance: str) -> None:
    plan = plan_problem(given_, PlanOptions(balance=balance))
    told = explain(plan)
    assert told.least_load <= told.figures.load_max + 1e-6


def test_structural_join_sends_right_chunks_to_left_ones() -> None:
    given_ = random_problem(1, chunks=50)
    plan = plan_problem(given_, PlanOptions("struct"))
    for p, q, way, n in zip(
        *(c.tolist() for c in (plan.first, plan.second, plan.ways, plan.node)), strict=True
    ):
        lefts = [p] * (way & 1) + [q] * (way >> 1)
        assert all(given_.home[left] == n for left in lefts)


def test_map_reduce_puts_a_unit_at_its_hash() -> None:
    given_ = random_problem(2, chunks=50)
    plan = plan_problem(given_, PlanOptions("mr-once"))
    assert (plan.node == (given_.key[plan.first] % np.uint64(4)).astype(int)).all()


def test_shuffle_join_levels_load_at_the_price_of_bytes() -> None:
    """All chunks at one worker: without levelling nothing moves; where cells cost much, units move."""
    chunks = chunks_of(np.array([[i, j] for i in range(24) for j in range(24)]), (0, 0), (4, 4))
    free = PlanOptions("shuffle", cost=CostModel(t_cpu=0.0))
    dear = PlanOptions("shuffle", cost=CostModel(t_ntwk=1e-12, t_cpu=1.0))
    reach = Reach.box((-1, -1), (1, 1))
    assert plan_join(chunks, reach, 3, options=free).bytes_moved == 0
    levelled = plan_join(chunks, reach, 3, options=dear)
    assert levelled.bytes_moved > 0
    assert levelled.cells_of_workers.max() < 0.5 * levelled.cells_of_workers.sum()


def test_balancing_by_work_levels_work() -> None:
    by = {
        balance: np.mean(
            [
                plan_problem(random_problem(s, 200), PlanOptions("mbh", balance=balance)).spread
                for s in range(6)
            ]
        )
        for balance in ("cells", "pairs")
    }
    assert by["cells"] < by["pairs"]


def test_no_pairs_make_an_empty_plan() -> None:
    alone = chunks_of(np.array([[0]]), (0,), (2,))
    plan = plan_join(alone, Reach.box([1], [1]), 3)
    assert plan.bytes_moved == plan.makespan == 0
    assert Plan.from_text(plan.to_text()) == plan
    assert simulate(plan).makespan == 0
    assert ET.fromstring(svg(plan)).tag.endswith("svg")


# -- printed and parsed --------------------------------------------------------------------------------


@given(problems(most=15), ANY, st.sampled_from([None, 40]))
def test_plans_round_trip_through_text_and_json(given_: Problem, algorithm: str, budget: int | None) -> None:
    options = PlanOptions(
        algorithm,
        CoverOptions(0.3, "printed", False),
        "pairs",
        budget,
        "sharing",
        3,
        CostModel(1e-9, 2e-9, 3e-9, 4),
    )
    plan = plan_problem(given_, options)
    for again in (Plan.from_text(plan.to_text()), Plan.from_json(plan.to_json())):
        assert again == plan
        assert again.to_text() == plan.to_text()
        assert again.links.tolist() == plan.links.tolist()


def small_plan() -> Plan:
    cells = np.array([[i, j] for i in range(6) for j in range(4)])
    return plan_join(place(chunks_of(cells, (0, 0), (2, 2)), "round-robin", 2), Reach.box([0, -1], [0, 0]), 2)


def test_a_plan_as_text() -> None:
    assert small_plan().to_text().splitlines() == [
        "plan bhvc: workers 2, r 0.5, penalty share, minimal yes, balance cells, budget none, "
        "order curve, rounds auto, T_ntwk 8e-09, T_disk 8.3e-09, T_cpu 6e-08, threads 1",
        *SMALL,
    ]


SMALL = """\
chunk 0: worker 0, cells 4, bytes 4, key a706dd2f4d197e6f, rank 0
chunk 1: worker 1, cells 4, bytes 4, key 2a98f501af37e97f, rank 3
chunk 2: worker 0, cells 4, bytes 4, key 5e41ab087439611e, rank 1
chunk 3: worker 1, cells 4, bytes 4, key 86d6fd953217ae03, rank 2
chunk 4: worker 0, cells 4, bytes 4, key 64684c4f0fd784b4, rank 5
chunk 5: worker 1, cells 4, bytes 4, key e06dd043328bd285, rank 4
worker 0
  receive 3 at 4
  read 2
  join 2 <- 3
  read 0
  join 0 -> 0
  join 2 -> 2
  read 4
  join 4 -> 4
worker 1
  receive 0 at 4
  receive 4 at 8
  read 1
  join 0 <- 1
  read 5
  join 4 <- 5
  read 3
  join 3 -> 3
  join 1 -> 1
  join 5 -> 5
slot 4: 0->1 1->0
slot 4: 0->1""".splitlines()


def test_a_plan_differs_from_another() -> None:
    plan = small_plan()
    assert plan != replace(plan, options=PlanOptions("mbh"))
    assert plan != "a plan"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: "", Code.SYNTAX),
        (lambda text: text.replace("plan bhvc", "plan best"), Code.NOT_FOUND),
        (lambda text: text + "rest\n", Code.SYNTAX),
        (lambda text: text.replace("slot ", "slot 1", 1), Code.ARGUMENT),
        (lambda text: "\n".join(line for line in text.splitlines() if "receive" not in line), Code.ARGUMENT),
        (lambda text: text.replace("join 1", "join 99", 1), Code.ARGUMENT),
        (lambda text: text.replace("worker 1", "worker 7"), Code.ARGUMENT),
        (lambda text: text.replace("receive", "receive 0 at 1\n  receive", 1), Code.ARGUMENT),
    ],
)
def test_text_that_is_no_plan_is_refused(change, code: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        Plan.from_text(change(small_plan().to_text()))
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["{}", "[", '{"algorithm": "bhvc"}'])
def test_json_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        Plan.from_json(text)
    assert caught.value.code == Code.SYNTAX


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"algorithm": "best"}, Code.NOT_FOUND),
        ({"balance": "bytes"}, Code.ARGUMENT),
        ({"budget": -1}, Code.ARGUMENT),
        ({"chunk_order": "random"}, Code.ARGUMENT),
        ({"rounds": 0}, Code.ARGUMENT),
    ],
)
def test_plan_options_are_checked(wrong: dict, code: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        PlanOptions(**wrong)
    assert caught.value.code == code


@pytest.mark.parametrize("wrong", [{"t_ntwk": -1.0}, {"threads": 0}])
def test_cost_models_are_checked(wrong: dict) -> None:
    with pytest.raises(EverfreshError):
        CostModel(**wrong)


def test_there_is_no_part_of_a_worker_that_is_not_there() -> None:
    with pytest.raises(EverfreshError):
        small_plan().worker(2)


# -- explained and drawn -------------------------------------------------------------------------------


def test_explain_adds_up() -> None:
    plan = plan_problem(random_problem(5, chunks=80))
    told = explain(plan, ALTERNATIVES)
    assert sum(map(sum, told.links)) == told.figures.bytes == plan.bytes_moved
    assert [f.algorithm for f in told.alternatives] == list(ALTERNATIVES)
    assert min(f.bytes for f in told.alternatives) == told.alternatives[ALTERNATIVES.index("opt-vc")].bytes
    data = json.loads(told.to_json())
    assert data["figures"]["makespan"] == plan.makespan
    assert data["load"] == plan.load_of_workers.tolist()
    for word in ("alternatives", "opt-vc", f"{plan.bytes_moved:,}", "makespan", "spread"):
        assert word in str(told)


@pytest.mark.parametrize("workers", [1, 3, 9, 64])
def test_the_picture_has_a_node_per_worker_and_an_arrow_per_link(workers: int) -> None:
    plan = plan_problem(random_problem(6, chunks=100, workers=workers))
    root = ET.fromstring(svg(plan))
    tags = Counter(element.tag.rpartition("}")[2] for element in root.iter())
    assert tags["circle"] == workers
    assert tags["title"] == np.count_nonzero(plan.links)
    assert tags["rect"] == 1 + 3 + 3 * workers


# -- simulated -----------------------------------------------------------------------------------------


@given(problems(most=25), ANY, st.booleans(), st.booleans(), st.integers(1, 4))
def test_no_run_is_shorter_than_its_parts(
    given_: Problem, algorithm: str, schedule: bool, caching: bool, threads: int
) -> None:
    cost = CostModel(1.0, 0.5, 2.0, threads)
    plan = plan_problem(given_, PlanOptions(algorithm, cost=cost))
    run = simulate(plan, schedule=schedule, caching=caching)
    for k in range(given_.workers):
        assert run.finish[k] >= run.disk[k] - 1e-6
        assert run.finish[k] >= run.compute[k] / threads - 1e-6
        assert run.receive[k] >= plan.links[:, k].sum() - 1e-6
    assert sum(run.compute) == pytest.approx(2.0 * plan.cells_of_workers.sum())
    assert 0 <= run.overlap <= 1 + 1e-9
    assert 1 <= run.thread_spread <= threads * given_.workers + 1e-9
    assert run.makespan >= max(run.network) - 1e-6
    if schedule and caching:
        assert run.reads == plan.reads.sum()
        assert run.receive == pytest.approx(plan.links.sum(axis=0))
        assert run.makespan >= plan.makespan - 1e-6 or not len(plan.first)


def test_caching_saves_reads_and_the_schedule_time_under_way() -> None:
    plan = plan_problem(random_problem(8, chunks=200, workers=6))
    runs = {(s, c): simulate(plan, schedule=s, caching=c) for s in (True, False) for c in (True, False)}
    assert runs[True, True].reads < runs[True, False].reads
    assert sum(runs[True, True].receive) < sum(runs[False, True].receive)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), max_size=5), min_size=1, max_size=4)
)
def test_crowded_transfers_equal_exact_arithmetic(queues: list[list[tuple[int, int]]]) -> None:
    queues = (queues + [[]] * 4)[:4]
    begin = np.concatenate([[0], np.cumsum([len(q) for q in queues])]).astype(np.int64)
    flat = np.array([send for q in queues for send in q], np.int64).reshape(-1, 2)
    start, end = crowded(begin, flat[:, 0].copy(), flat[:, 1].astype(float))
    exact = [times for queue in plain.crowded(queues) for times in queue]
    assert start.tolist() == pytest.approx([float(s) for s, _ in exact])
    assert end.tolist() == pytest.approx([float(e) for _, e in exact])


def test_one_sender_waits_for_nobody() -> None:
    assert plain.crowded([[(1, 3), (1, 4)], []]) == [
        [(Fraction(0), Fraction(3)), (Fraction(3), Fraction(7))],
        [],
    ]


def test_more_workers_are_faster_and_threads_too() -> None:
    chunks = chunks_of(np.array([[i, j] for i in range(60) for j in range(60)]), (0, 0), (4, 4))
    reach = Reach.box((-1, -1), (1, 1))

    def span(workers: int, threads: int) -> float:
        options = PlanOptions(cost=CostModel(threads=threads))
        return simulate(
            plan_join(place(chunks, "hilbert", workers), reach, workers, options=options)
        ).makespan

    spans = [span(n, 1) for n in (1, 2, 4, 8)]
    assert spans == sorted(spans, reverse=True)
    assert span(4, 4) < span(4, 1)


def test_the_bound_of_loads_is_reached_when_work_can_be_split() -> None:
    """Two workers, 10 and 0 already, 30 open: 20 each."""
    bound = least_load(np.array([10, 0]), np.array([0] * 3), np.array([1] * 3), np.array([10, 10, 10]))
    assert bound == 20
