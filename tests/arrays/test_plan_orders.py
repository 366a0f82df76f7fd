"""Assignment, schedule and accesses: bounds are reached, loops equal their twins, eviction is optimal."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_support import random_problem

from everfresh.arrays.plan import PlanOptions, plan_problem
from everfresh.arrays.plan.assign import assign_open, least_limit, least_load
from everfresh.arrays.plan.kernels import plain
from everfresh.arrays.plan.kernels.covers import deal
from everfresh.arrays.plan.kernels.orders import replay
from everfresh.arrays.plan.schedule import NODE_ORDERS, arrivals, chunk_order, matrix, node_order
from everfresh.errors import EverfreshError

# -- assignment --------------------------------------------------------------------------------------


@st.composite
def open_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    workers = draw(st.integers(2, 4))
    already = np.array(draw(st.lists(st.integers(0, 9), min_size=workers, max_size=workers)))
    ends = draw(
        st.lists(
            st.tuples(st.integers(0, workers - 1), st.integers(0, workers - 1)).filter(
                lambda e: e[0] != e[1]
            ),
            max_size=8,
        )
    )
    work = draw(st.lists(st.integers(1, 20), min_size=len(ends), max_size=len(ends)))
    one, other = np.array(ends, np.int64).reshape(-1, 2).T
    return already, one, other, np.array(work, np.int64)


@given(open_pairs())
def test_the_limit_is_the_least_that_any_assignment_has(given_) -> None:
    already, one, other, work = given_

    @cache
    def best(k: int, load: tuple[int, ...]) -> int:
        if k == len(one):
            return max(load)
        options = (tuple(x + (w == end) for w, x in enumerate(load)) for end in (one[k], other[k]))
        return min(best(k + 1, option) for option in options)

    where = assign_open(already, one, other, work, "pairs")
    assert ((where == one) | (where == other)).all()
    assert (already + np.bincount(where, minlength=len(already))).max() == best(0, tuple(already.tolist()))


@given(open_pairs())
def test_by_cells_every_pair_goes_to_a_candidate_and_no_load_is_below_the_bound(given_) -> None:
    already, one, other, work = given_
    where = assign_open(already, one, other, work, "cells")
    assert ((where == one) | (where == other)).all()
    load = already + np.bincount(where, work, len(already))
    assert load.max() >= least_load(already, one, other, work) - 1e-9
    assert deal(one, other, work, already.copy()).tolist() == plain.deal(one, other, work, already).tolist()


def test_figure_7() -> None:
    """X, Y, Z have 5, 4, 5 pairs; open are (8, 10), (8, 9), (6, 8), (9, 11); chunk k is at (k - 1) mod 3."""
    already = np.array([5, 4, 5])
    one, other = np.array([[7, 7, 5, 8], [9, 8, 7, 10]]) % 3
    limit, share = least_limit(already, np.array([0, 1]), np.array([1, 2]), np.array([1, 3]))
    assert (limit, share.tolist()) == (6, [1, 2])
    where = assign_open(already, one, other, np.ones(4, np.int64), "pairs")
    assert where[0] == 0  # (8, 10) on X
    assert np.bincount(where[1:], minlength=3).tolist() == [0, 2, 1]


def test_an_unknown_balance_is_refused() -> None:
    with pytest.raises(EverfreshError):
        assign_open(np.array([0]), np.array([0]), np.array([0]), np.array([1]), "bytes")


# -- schedule ----------------------------------------------------------------------------------------


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    workers = draw(st.integers(1, 7))
    values = st.one_of(st.just(0), st.integers(0, 1000))
    flat = draw(st.lists(values, min_size=workers**2, max_size=workers**2))
    found = np.array(flat, np.int64).reshape(workers, workers)
    np.fill_diagonal(found, 0)
    return found


@given(matrices(), st.sampled_from(sorted(NODE_ORDERS)))
def test_slots_carry_everything_one_partner_at_a_time(bytes_: np.ndarray, rule: str) -> None:
    carried = np.zeros_like(bytes_)
    slots = node_order(bytes_, rule)
    for slot in slots:
        assert len({i for i, _ in slot.links}) == len({j for _, j in slot.links}) == len(slot.links)
        for link in slot.links:
            carried[link] += slot.length
    assert (carried == bytes_).all()
    bound = max(bytes_.sum(axis=0).max(), bytes_.sum(axis=1).max())
    length = sum(slot.length for slot in slots)
    assert length >= bound
    assert length == bound or rule == "greedy"


def test_the_transfer_schedule_of_figure_8_has_length_14() -> None:
    x, y, z = range(3)
    bytes_ = np.zeros((3, 3), np.int64)
    bytes_[x, z], bytes_[y, x], bytes_[z, y], bytes_[x, y], bytes_[y, z] = 3, 9, 5, 4, 5
    assert sum(slot.length for slot in node_order(bytes_)) == 14


def test_sends_arrive_as_the_slots_carry_them() -> None:
    """Byte by byte: a chunk is there when the bytes before it and its own have passed."""
    random = np.random.default_rng(7)
    source, target = random.integers(0, 4, (2, 60))
    keep = source != target
    source, target = source[keep], target[keep]
    size = random.integers(1, 30, len(source))
    slots = node_order(matrix(4, source, target, size))
    passed, now, found = np.zeros((4, 4), np.int64), 0, np.zeros(len(size), np.int64)
    ends = {
        (i, j): dict(zip(np.cumsum(size[some]).tolist(), np.flatnonzero(some).tolist(), strict=True))
        for i in range(4)
        for j in range(4)
        if (some := (source == i) & (target == j)).any()
    }
    for slot in slots:
        for _ in range(slot.length):
            now += 1
            for link in slot.links:
                passed[link] += 1
                if (s := ends[link].get(int(passed[link]))) is not None:
                    found[s] = now
    assert arrivals(slots, source, target, size).tolist() == found.tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 6), max_size=4)), max_size=14))
def test_chunk_order_equals_its_twin(rows: list[tuple[int, set[int]]]) -> None:
    rows.sort(key=lambda row: row[0])
    links = np.array([link for link, _ in rows], np.int64)
    send = [s for s, (_, partners) in enumerate(rows) for _ in partners]
    local = [p for _, partners in rows for p in sorted(partners)]
    found = chunk_order(links, np.array(send, np.int64), np.array(local, np.int64))
    assert found.tolist() == plain.sharing_order(links, [partners for _, partners in rows])


def test_chunks_that_share_partners_follow_one_another() -> None:
    """Chunks 2 and 5 join 1 and 4, chunk 8 joins 4 and 10 (section 4.4): 2, 5, 8 rather than 2, 8, 5."""
    send = np.array([0, 0, 1, 1, 2, 2])
    local = np.array([1, 4, 4, 10, 1, 4])  # sends are chunks 2, 8, 5
    assert chunk_order(np.zeros(3, np.int64), send, local).tolist() == [0, 2, 1]


# -- accesses ----------------------------------------------------------------------------------------


def run_replay(events: list[tuple[int, list[int], int]], size: list[int], budget: int):
    begin = np.concatenate([[0], np.cumsum([len(chunks) for _, chunks, _ in events])]).astype(np.int64)
    local = np.array([c for _, chunks, _ in events for c in chunks], np.int64)
    event = np.repeat(np.arange(len(events)), np.diff(begin))
    following = np.full(len(local), len(events) + 1, np.int64)
    for e, c in enumerate(local.tolist()):
        later = [v for v in event[local == c].tolist() if v > event[e]]
        following[e] = min(later, default=len(events) + 1)
    order, place, chunk, load, count = replay(
        np.array([w for w, _, _ in events], np.int64), begin, local, following,
        np.array([a for _, _, a in events], np.int64), np.array(size, np.int64), budget,
    )  # fmt: skip
    acts = list(zip(place[:count].tolist(), chunk[:count].tolist(), load[:count].tolist(), strict=True))
    return [(int(event[e]), int(local[e])) for e in order], acts


@st.composite
def event_lists(draw: st.DrawFn) -> tuple[list[tuple[int, list[int], int]], list[int]]:
    workers = draw(st.integers(1, 2))
    events = []
    for worker in range(workers):
        for _ in range(draw(st.integers(0, 7))):
            chunks = sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=4)))
            anchor = chunks[0] if draw(st.booleans()) else -1
            events.append(
                (worker, [c + 6 * worker for c in chunks], anchor + 6 * worker if anchor >= 0 else -1)
            )
    return events, draw(st.lists(st.integers(1, 4), min_size=12, max_size=12))


@given(event_lists(), st.integers(0, 14))
def test_replay_equals_its_twin_and_keeps_the_budget(given_, budget: int) -> None:
    events, size = given_
    order, acts = run_replay(events, size, budget)
    if not events:
        assert (order, acts) == ([], [])
        return
    assert (order, acts) == plain.replay(events, size, budget)
    cached: set[int] = set()
    at = 0
    for place, (v, chunk) in enumerate(order):
        if place and events[order[place - 1][0]][0] != events[v][0]:
            cached = set()
        while at < len(acts) and acts[at][0] == place:
            (cached.add if acts[at][2] else cached.remove)(acts[at][1])
            at += 1
        assert chunk in cached
        in_use = {chunk, events[v][2]} & cached
        assert sum(size[c] for c in cached) <= max(budget, sum(size[c] for c in in_use))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 4))
def test_furthest_in_future_reads_least(uses: list[int], budget: int) -> None:
    """One access per event, chunks of one size: no replacement reads less (all are tried)."""
    _, acts = run_replay([(0, [c], -1) for c in uses], [1] * 5, budget)

    @cache
    def best(k: int, cached: frozenset[int]) -> int:
        if k == len(uses):
            return 0
        if uses[k] in cached:
            return best(k + 1, cached)
        if len(cached) < budget:
            return 1 + best(k + 1, cached | {uses[k]})
        return 1 + min(best(k + 1, cached - {gone} | {uses[k]}) for gone in cached)

    assert sum(load for *_, load in acts) == best(0, frozenset())


@pytest.mark.parametrize("algorithm", ["bhvc", "mr", "struct"])
def test_a_smaller_budget_reads_no_less_and_an_unbounded_one_reads_each_chunk_once(algorithm: str) -> None:
    given_ = random_problem(4, chunks=120)
    whole = int(given_.bytes.sum())
    counts = [
        int(plan_problem(given_, PlanOptions(algorithm, budget=budget)).reads.sum())
        for budget in (0, whole // 40, whole // 8, None)
    ]
    assert counts == sorted(counts, reverse=True)
    plan = plan_problem(given_, PlanOptions(algorithm))
    used = {
        (c, n)
        for ends in (plan.first, plan.second)
        for c, n in zip(ends.tolist(), plan.node.tolist(), strict=True)
        if given_.home[c] == n
    }
    assert counts[-1] == len(used)
