"""The greedy search over materialization decisions (section 3.6).

A *decision* is the set of components that are not materialized as a whole: their atoms are maps of their own,
and a reader joins them. `build` derives the program of a decision. The search starts with everything
materialized, or with nothing if that is clearly cheaper. Maps whose maintenance costs more than they save
their readers are dropped, the worst first, if the program that is derived anew is cheaper: all of them at
once, then half of them, down to one at a time. A program with too many maps is thinned out whatever that
costs. Other decisions (`more`) are tried last, one at a time.

A program may have exponentially many maps (a star of n dimensions has 2^n). Deriving one ends where it takes
too much work; then only components of few relations are held. All limits count work, never time, so the
same program is found on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from everfresh.calculus import Query
from everfresh.compiler.choice.cost import Model
from everfresh.compiler.choice.estimate import Statistics
from everfresh.compiler.viewlet.decisions import Decision, Decisions, larger_than
from everfresh.compiler.viewlet.map_registry import Outgrown, Spend
from everfresh.program import Program

Composites = Callable[[Program[Query]], dict[Decision, str]]
Told = Callable[[int, int], None]
"""Called with the work that is done, and all that may be."""
Build = Callable[[Decisions, Spend], Program[Query]]
"""The program of some decisions, which says what it spends."""
MAPS = 64
"""The most maps that a view may have."""
BUILDS, WORK = 12, 160
"""The most programs that a search derives, and the most maps in them."""
EFFORT = 4_000
"""The most factors in the products of one program that is derived to be compared."""
ALL = 10_000
"""The factors of all programs that are derived from which on the best so far is taken."""
SIZES = (4,)
"""The relations in the largest components that are held where all would be too many."""
_WHOLE: tuple[Decisions, ...] = (frozenset(), *(frozenset({larger_than(n)}) for n in SIZES))
"""The programs that hold all joins, and those that hold the joins of few relations, largest first."""
MORE = 6
"""The most choices that are tried beside splitting."""
_CLEARLY = 0.9  # estimates that are closer than this do not speak against holding joins


@dataclass(frozen=True, slots=True)
class ChosenProgram:
    """The program that was chosen, what was decided about its maps, and its cost."""

    program: Program[Query]
    decisions: Decisions
    cost: float


@dataclass
class _Search:
    """Programs derived and priced, and the work that they took."""

    build: Build
    statistics: Statistics
    effort: int
    told: Told | None
    spent: int = 0

    @property
    def over(self) -> bool:
        """Whether all work that may be spent is."""
        return self.spent >= self.effort

    def priced(self, decisions: Decisions) -> ChosenProgram | None:
        """The program of some decisions; None if it takes too much work."""
        end = self.spent + EFFORT

        def spend(factors: int) -> None:
            self._spend(factors)
            if self.spent > end:
                raise Outgrown(f"more than {EFFORT} factors")

        try:
            return self._found(decisions, spend)
        except Outgrown:
            return None

    def forced(self, decisions: Decisions) -> ChosenProgram:
        """The program of some decisions, however much work it takes."""
        return self._found(decisions, self._spend)

    def _spend(self, factors: int) -> None:
        self.spent += factors
        if self.told is not None:
            self.told(min(self.spent, self.effort), self.effort)

    def _found(self, decisions: Decisions, spend: Spend) -> ChosenProgram:
        program = self.build(decisions, spend)
        return ChosenProgram(program, decisions, Model(program, self.statistics).total)

    def full(self) -> ChosenProgram:
        """The program that holds all joins; those of few relations, if all would be too many."""
        for decisions in _WHOLE:
            found = self.priced(decisions)
            if found is not None:
                return found
        return self.forced(frozenset({larger_than(1)}))

    def apart(self, full: ChosenProgram, composites: Composites) -> ChosenProgram:
        """The program that holds no join but those it must: the other end of the search."""
        found, decisions = full, full.decisions
        while not decisions >= (keys := frozenset(composites(found.program))):
            decisions |= keys
            found = self.priced(decisions) or self.forced(decisions | {larger_than(1)})
        return found


def search(
    build: Build,
    statistics: Statistics,
    *,
    keys: Composites,
    more: Callable[[Program[Query]], Iterable[Decision]] = lambda program: (),
    maps: int = MAPS,
    builds: int = BUILDS,
    effort: int = ALL,
    told: Told | None = None,
) -> ChosenProgram:
    """The cheapest program on the way down from the full one.

    `keys` finds the maps that could be split, `more` what else could be decided about a program. With all
    builds or the effort used up the best so far is taken; if that has more than `maps` maps, everything is
    split. `told` hears how much of the effort is.
    """
    work = _Search(build, statistics, effort, told)
    best = work.full()
    apart = work.apart(best, keys)
    if apart.cost < _CLEARLY * best.cost:
        best = apart
    tried: set[Decision] = set()
    many = len(best.program.maps)
    builds = min(builds, max(3, WORK // many))
    while not work.over and builds > 1:
        builds -= 1
        crowded = len(best.program.maps) > maps
        ranked = _ranked(best.program, statistics, keys(best.program), tried, crowded)
        if not ranked:
            break
        many = min(many, len(ranked))
        other = work.priced(best.decisions.union(ranked[:many]))
        fewer = other is not None and len(other.program.maps) < len(best.program.maps)
        if other is not None and (other.cost < best.cost or (crowded and fewer)):
            best = other
        elif many == 1:
            tried.add(ranked[0])
        else:
            many //= 2
    while len(best.program.maps) > maps:
        everything = best.decisions.union(keys(best.program))
        if everything == best.decisions:
            break
        best = work.forced(everything)
    for choice in islice(more(best.program), MORE):
        if work.over:
            break
        other = work.priced(best.decisions | {choice})
        if other is not None and other.cost < best.cost and len(other.program.maps) <= maps:
            best = other
    return best


def all_held(build: Build, effort: int = ALL) -> tuple[Program[Query], Decisions]:
    """The program that holds all joins; where that takes too much work, those of few relations."""
    for decisions in _WHOLE:
        spent = 0

        def spend(factors: int) -> None:
            nonlocal spent
            spent += factors
            if spent > effort:
                raise Outgrown(f"more than {effort} factors")

        try:
            return build(decisions, spend), decisions
        except Outgrown:
            continue
    least = frozenset({larger_than(1)})
    return build(least, lambda factors: None), least


def _ranked(
    program: Program[Query],
    statistics: Statistics,
    candidates: dict[Decision, str],
    tried: set[Decision],
    crowded: bool,
) -> list[Decision]:
    """The keys of the maps that save less than they cost (if `crowded`, of all), the worst ratio first."""
    model = Model(program, statistics)
    found = []
    for key, name in candidates.items():
        if key not in tried:
            save, maintain = model.save(name), model.maintain(name)
            if crowded or save < maintain:
                found.append((save / max(maintain, 1e-12), key))
    return [key for _, key in sorted(found, key=lambda one: (one[0], str(one[1])))]
