"""The protocol under faults: no violation with all protections, one soon with any of them off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.kv.protocol.messages import ALL
from everfresh.kv.protocol.timeline import Change, condense
from everfresh.kv.store import Entry, LogDiverged
from everfresh.kv.strategies import STRATEGIES
from everfresh.testing.kv.flows import VIEW, value_of
from everfresh.testing.kv.simulation import NOTHING, SOME, Faults, Off
from everfresh.testing.kv.trials import FLOWS, first_violation

SLOW_READERS = Faults(most=0, slow_readers=0.9)
PAUSED_COORDINATORS = Faults(most=8, often=0.05, kinds=("pause coordinator",))
CRASHED_COORDINATORS = Faults(most=8, often=0.05, kinds=("crash coordinator",))
SPLITS = Faults(most=6, often=0.05)
ZOMBIE_MANAGERS = Faults(most=4, often=0.1, kinds=("zombie manager",), slow_writers=0.93)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("faults", [SOME, SLOW_READERS, PAUSED_COORDINATORS, ZOMBIE_MANAGERS, SPLITS])
def test_histories_are_consistent(flow: str, faults: Faults) -> None:
    assert first_violation(range(2), flow, faults=faults) is None


@pytest.mark.parametrize("flow", ["sum", "min", "join"])
def test_the_base_is_read_as_it_was_though_its_partition_is_split_twice_meanwhile(flow: str) -> None:
    """A child of a split was split itself between the plan of a restore and its reading of the base."""
    assert first_violation([1110, 1448], flow) is None


@pytest.mark.parametrize("flow", FLOWS)
def test_a_record_has_one_reader_though_its_partition_is_split_twice_in_an_epoch(flow: str) -> None:
    """Parent, child and grandchild were read by different managers: one condensed over what another had."""
    assert first_violation([2063, 2078, 2129, 2966, 3355], flow, faults=SPLITS) is None


@pytest.mark.soak
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("faults", [SOME, SLOW_READERS, PAUSED_COORDINATORS, ZOMBIE_MANAGERS, SPLITS])
def test_a_thousand_histories_are_consistent(flow: str, faults: Faults) -> None:
    assert first_violation(range(1000), flow, faults=faults) is None


LOGGED = [name for name, how in STRATEGIES.items() if not how.rebuilds]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("strategy", LOGGED)
def test_histories_of_each_strategy_are_consistent(flow: str, strategy: str) -> None:
    assert first_violation(range(2), flow, strategy=strategy, faults=SPLITS) is None


TRANSITS = [name for name, how in STRATEGIES.items() if how.transits]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("strategy", TRANSITS)
def test_parallel_transitions_are_consistent(flow: str, strategy: str) -> None:
    assert first_violation(range(2), flow, strategy=strategy, parallel=True, faults=SPLITS) is None


@pytest.mark.parametrize(("flow", "seed"), [("sum", 133), ("sum", 686), ("join", 273)])
def test_two_incarnations_of_a_manager_load_to_the_same_cut(flow: str, seed: int) -> None:
    """Each had come to another position, and both sent what they had under one term."""
    assert first_violation([seed], flow, strategy="SCI", parallel=True, faults=SPLITS) is None


def test_positions_of_chunks_are_needed() -> None:
    """An entry that its chunk has already is counted twice."""
    how: dict[str, Any] = {"strategy": "SCI", "parallel": True}
    assert first_violation(range(3), protect=replace(ALL, chunk_positions=False), **how) is not None
    assert first_violation(range(3), **how) is None


@pytest.mark.soak
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("strategy", TRANSITS)
def test_a_thousand_parallel_transitions(flow: str, strategy: str) -> None:
    assert first_violation(range(1000), flow, strategy=strategy, parallel=True, faults=SPLITS) is None


@pytest.mark.parametrize("strategy", LOGGED)
def test_a_strategy_without_a_protection_is_found_out(strategy: str) -> None:
    off = replace(ALL, dedup=False)
    assert first_violation(range(3), strategy=strategy, protect=off) is not None
    assert first_violation(range(3), strategy=strategy) is None


@pytest.mark.soak
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("strategy", LOGGED)
@pytest.mark.parametrize("faults", [SOME, SPLITS])
def test_a_thousand_histories_of_each_strategy(flow: str, strategy: str, faults: Faults) -> None:
    assert first_violation(range(1000), flow, strategy=strategy, faults=faults) is None


WITHOUT: dict[str, tuple[int, dict[str, Any]]] = {
    "dedup": (3, {}),
    "keep_first": (3, {}),
    "token_barrier": (3, {}),
    "pinned_head": (3, {}),
    "maps_at_epoch": (12, {}),
    "recorded_offsets": (12, {"faults": CRASHED_COORDINATORS}),
    "gc_floor": (1, {"seed": 39, "faults": SLOW_READERS, "records": 3, "versions": 12}),
    "head_condition": (8, {"faults": PAUSED_COORDINATORS}),
}


@pytest.mark.parametrize("off", WITHOUT)
def test_each_protection_is_needed(off: str) -> None:
    """The same seeds are wrong without the protection and right with it."""
    count, how = WITHOUT[off]
    how = dict(how)
    first = how.pop("seed", 0)
    seeds = range(first, first + count)
    assert first_violation(seeds, protect=replace(ALL, **{off: False}), **how) is not None
    assert first_violation(seeds, **how) is None


def test_fences_are_needed() -> None:
    how: dict[str, Any] = {"faults": ZOMBIE_MANAGERS, "versions": 12}
    assert first_violation(range(6), off=Off(fence=True), **how) is not None
    assert first_violation(range(6), **how) is None


def test_split_states_are_needed() -> None:
    assert first_violation(range(3), off=Off(split_states=True)) is not None
    assert first_violation(range(3), off=NOTHING) is None


@pytest.mark.parametrize("flow", FLOWS)
@given(data=st.data())
def test_a_flow_does_what_its_view_says(flow: str, data: Any) -> None:
    view = FLOWS[flow]()
    maps, base, rows = view.blank(0, 1), {}, {}
    for _ in range(data.draw(st.integers(0, 12))):
        place = (data.draw(st.sampled_from(view.tables)), data.draw(st.sampled_from([b"a", b"b", b"c"])))
        new = data.draw(st.none() | st.builds(value_of, st.sampled_from("xy"), st.integers(0, 5)))
        change = Change(*place, base.get(place), new)
        for row in view.apply(maps, view.route([change], 1)):
            assert row.table == VIEW
            rows[row.key] = row.value
        if new is None:
            base.pop(place, None)
        else:
            base[place] = new
    assert {k: v for k, v in rows.items() if v is not None} == view.rows_of(base)


def _entries(*writes: tuple[str, bytes | None, bytes | None]) -> list[Entry]:
    return [
        Entry(i + 1, b"id", "r", key.encode(), before, after) for i, (key, before, after) in enumerate(writes)
    ]


def test_example_4_3_3_condenses_to_one_change_per_record() -> None:
    entries = _entries(("k1", b"x1", None), ("k1", None, b"x2"), ("k2", None, b"x2"))
    assert condense(entries, ("r",)) == [
        Change("r", b"k1", b"x1", b"x2"),
        Change("r", b"k2", None, b"x2"),
    ]
    assert condense(_entries(("k", b"a", b"b"), ("k", b"b", b"a")), ("r",)) == []
    assert condense(entries, ("s",)) == []
    with pytest.raises(LogDiverged):
        condense(_entries(("k", None, b"a"), ("k", b"b", b"c")), ("r",))
