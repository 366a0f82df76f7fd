"""Random histories of the protocol, run under the simulation and judged by the checker.

A trial is a function of its seed. Every read is judged by its witness (`witness`); those of sums, besides,
by what they are made of (`decodable`), whatever they claim. A sum's numbers are `(version + 1) * B**record`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from everfresh.kv.protocol.coordinator import How
from everfresh.kv.protocol.messages import ALL, Protections
from everfresh.kv.strategies import STRATEGIES
from everfresh.testing.kv import decodable, witness
from everfresh.testing.kv.family import KINDS, FamilyFlow
from everfresh.testing.kv.flows import DeltaFlow, HalfFlow, JoinFlow, MinFlow, SumFlow, TopFlow, value_of
from everfresh.testing.kv.histories import Read, State, Violation
from everfresh.testing.kv.simulation import NOTHING, SOME, Faults, Off, Outcome, Simulation, Write

FLOWS: dict[str, Callable[[], Any]] = {
    "sum": SumFlow,
    "min": MinFlow,
    "join": JoinFlow,
    "delta": DeltaFlow,
    "top": TopFlow,
    "left": lambda: JoinFlow(left=True),
    "right": lambda: JoinFlow(right=True),
    "full": lambda: JoinFlow(left=True, right=True),
    "semi": lambda: HalfFlow(anti=False),
    "anti": lambda: HalfFlow(anti=True),
}
"""The view types of section 4.4 of the thesis."""
FAMILIES: dict[str, Callable[[], Any]] = {kind: lambda kind=kind: FamilyFlow(kind) for kind in KINDS}  # type: ignore[misc]
"""Views that share a program, kept by several managers."""
_BASE = 16
_GROUPS = ("x", "y", "z")
Plan = dict[tuple[str, bytes], list[bytes | None]]
"""The versions of each record after the first, which is absence."""


def plan(random: Random, tables: Sequence[str], records: int, versions: int) -> Plan:
    """What is written: records move between groups, go and come again."""
    found: Plan = {}
    for table in tables:
        for i in range(records):
            of: list[bytes | None] = []
            for version in range(random.randint(1, versions)):
                if of and of[-1] is not None and random.random() < 0.2:
                    of.append(None)
                else:
                    number = (version + 2) * _BASE**i
                    of.append(value_of(random.choice(_GROUPS[: random.choice([2, 3])]), number))
            found[table, b"k%d" % i] = of
    return found


def dealt(random: Random, planned: Plan, writers: int) -> list[list[Write]]:
    """The writes of each writer: records are written by one each, in order."""
    found: list[list[Write]] = [[] for _ in range(writers)]
    left = {place: list(of) for place, of in planned.items()}
    while left:
        place = random.choice(sorted(left))
        found[sum(place[1]) % writers].append((*place, left[place].pop(0)))
        if not left[place]:
            del left[place]
    return found


def trial(
    seed: int,
    flow: str = "sum",
    *,
    protect: Protections = ALL,
    off: Off = NOTHING,
    faults: Faults = SOME,
    records: int = 4,
    versions: int = 10,
    strategy: str = "IN",
    parallel: bool = False,
    managers: int = 2,
) -> Violation | None:
    """One history: why it is wrong, None if it is right."""
    random, view = Random(seed), (FLOWS | FAMILIES)[flow]()
    planned = plan(random, view.tables, records, versions)
    writes = dealt(random, planned, 2)
    how = STRATEGIES[strategy]
    outcome = Simulation(
        seed,
        view,
        writes,
        managers=managers,
        protect=protect,
        off=off,
        faults=faults,
        loads=how.loads,
        how=How(2 if how.batches else 0, how.chunks, how.tracks, parallel and how.transits),
    ).run()
    return judged(outcome, view, planned)


def judged(outcome: Outcome, view: Any, planned: Plan) -> Violation | None:
    """What the checker says."""

    def state(base: Mapping[Any, Any]) -> State:
        return tuple(sorted(view.rows_of(base).items()))

    final = state({place: of[-1] for place, of in planned.items() if of[-1] is not None})
    last = outcome.reads[-1]
    if last.state != final:
        return Violation("convergence", f"{last.state} was read in the end, and not {final}", (last,))
    found = witness.violation(outcome.logs, outcome.commits, outcome.reads, state)
    if found is None and isinstance(view, SumFlow):
        found = decoded(outcome.reads, planned)
    return found


def decoded(reads: Sequence[Read], planned: Plan) -> Violation | None:
    """What sums say of themselves."""
    timelines = [[None, *of] for _, of in sorted(planned.items())]
    return decodable.violation(reads, lambda s: _allowed(s, timelines), len(timelines))


def _allowed(state: Any, timelines: Sequence[Sequence[bytes | None]]) -> list[list[int]] | None:
    digits: list[Counter[tuple[str, int]]] = [Counter() for _ in timelines]
    for group, text in state:
        total = int(text)
        if total <= 0:
            return None
        for of in digits:
            total, digit = divmod(total, _BASE)
            if digit:
                of[group.decode(), digit] += 1
        if total:
            return None
    found = []
    for i, (seen, versions) in enumerate(zip(digits, timelines, strict=True)):
        if len(seen) > 1:
            return None
        wanted: list[bytes | None] = [value_of(group, digit * _BASE**i) for group, digit in seen]
        found.append([v for v, value in enumerate(versions) if value in (wanted or [None])])
    return found if all(found) else None


def first_violation(seeds: Iterable[int], flow: str = "sum", **how: Any) -> int | None:
    """The first of these seeds whose history is wrong."""
    return next((seed for seed in seeds if trial(seed, flow, **how) is not None), None)
