"""The greedy search over materialization decisions (section 3.6).

A *decision* is the set of components that are not materialized as a whole: their atoms are maps of their own,
and a reader joins them. `build` derives the program of a decision. The search starts with everything
materialized, or with nothing if that is clearly cheaper. Maps whose maintenance costs more than they save
their readers are dropped, the worst first, if the program that is derived anew is cheaper: all of them at
once, then half of them, down to one at a time. A program with too many maps is thinned out whatever that
costs. Other decisions (`more`) are tried last, one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from everfresh.calculus import Bind, Cond, Prod, Query, Rel, Sum, Value
from everfresh.compiler.canonical import canonical
from everfresh.compiler.cost import Model
from everfresh.compiler.estimate import Statistics
from everfresh.program import Program

Decisions = frozenset[str]
MAPS = 64
"""The most maps that a view may have."""
BUILDS, WORK = 12, 160
"""The most programs that a search derives, and the most maps in them: its result does not depend on how fast
the machine is."""
MORE = 6
"""The most choices that are tried beside splitting."""
SECONDS = 10.0
"""How long a search may take, in time of the processor: a busy machine finds the same."""
_CLEARLY = 0.9  # estimates that are closer than this do not speak against holding joins


@dataclass(frozen=True, slots=True)
class Found:
    """The program that was chosen: the keys (`Canonical.key`) of the components it splits, and its cost."""

    program: Program[Query]
    decisions: Decisions
    cost: float


def search(
    build: Callable[[Decisions], Program[Query]],
    statistics: Statistics,
    *,
    keys: Callable[[Program[Query]], dict[str, str]] | None = None,
    more: Callable[[Program[Query]], Iterable[str]] = lambda program: (),
    maps: int = MAPS,
    builds: int = BUILDS,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.thread_time,
) -> Found:
    """The cheapest program on the way down from the full one.

    `keys` finds the maps that could be split, `more` what else could be decided about a program. With all
    builds or the time used up the best so far is taken; if that has more than `maps` maps, everything is
    split.
    """
    end = clock() + seconds
    found = keys or composites
    best = _priced(build, frozenset(), statistics)
    apart = _apart(build, best, found, statistics)
    if apart.cost < _CLEARLY * best.cost:
        best = apart
    tried: set[str] = set()
    many = len(best.program.maps)
    builds = min(builds, max(3, WORK // many))
    while clock() < end and builds > 1:
        builds -= 1
        crowded = len(best.program.maps) > maps
        ranked = _ranked(best.program, statistics, found(best.program), tried, crowded)
        if not ranked:
            break
        many = min(many, len(ranked))
        other = _priced(build, best.decisions.union(ranked[:many]), statistics)
        fewer = len(other.program.maps) < len(best.program.maps)
        if other.cost < best.cost or (crowded and fewer):
            best = other
        elif many == 1:
            tried.add(ranked[0])
        else:
            many //= 2
    while len(best.program.maps) > maps:
        everything = best.decisions.union(found(best.program))
        if everything == best.decisions:
            break
        best = _priced(build, everything, statistics)
    for choice in islice(more(best.program), MORE):
        other = _priced(build, best.decisions | {choice}, statistics)
        if other.cost < best.cost and len(other.program.maps) <= maps:
            best = other
    return best


def _apart(
    build: Callable[[Decisions], Program[Query]],
    full: Found,
    found: Callable[[Program[Query]], dict[str, str]],
    statistics: Statistics,
) -> Found:
    """The program that holds no join but those it must: the other end of the search."""
    program, decisions = full.program, full.decisions
    while not decisions >= (keys := frozenset(found(program))):
        decisions |= keys
        program = build(decisions)
    return Found(program, decisions, Model(program, statistics).total)


def composites(program: Program[Query]) -> dict[str, str]:
    """The maps that could be split, by key: all but the view's that join two or more relations."""
    found: dict[str, str] = {}
    for target in program.maps[1:]:
        body = target.definition.body if isinstance(target.definition, Sum) else target.definition
        factors = body.factors if isinstance(body, Prod) else (body,)
        flat = all(isinstance(f, Rel | Cond | Bind | Value) for f in factors)
        if flat and sum(isinstance(f, Rel) for f in factors) > 1:
            found[canonical(target.definition).key] = target.name
    return found


def _priced(
    build: Callable[[Decisions], Program[Query]], decisions: Decisions, statistics: Statistics
) -> Found:
    program = build(decisions)
    return Found(program, decisions, Model(program, statistics).total)


def _ranked(
    program: Program[Query],
    statistics: Statistics,
    candidates: dict[str, str],
    tried: set[str],
    crowded: bool,
) -> list[str]:
    """The keys of the maps that save less than they cost (if `crowded`, of all), the worst ratio first."""
    model = Model(program, statistics)
    found = []
    for key, name in candidates.items():
        if key not in tried:
            save, maintain = model.save(name), model.maintain(name)
            if crowded or save < maintain:
                found.append((save / max(maintain, 1e-12), key))
    return [key for _, key in sorted(found)]
