"""The levels of consistency of a small history, by search over all states of the base.

Section 4.2.1 of the thesis on key-value views, with its Example 4.2.1 as a test; "Levels and the checker" in
docs/design/key-value.md. Explaining a sum is subset sum, so this is for two to six records; longer histories
have values that can be decoded (`decodable`).

- convergence: the last state is the view of the final vector
- weak: and each state is the view of some vector
- strong: and the vectors can be chosen so that reads that were over when others began have smaller ones
- complete: and there is a chain of vectors from the first to the last, one version of one record a step, each
  of whose views is some state, in order

>>> sums = lambda values: sum(v for v in values if v is not None)
>>> base = Timelines(((1, 2), (10, 20)))
>>> [str(level(History(base, in_order(states)), sums)) for states in ([11, 12, 22], [11, 99, 22])]
['complete', 'convergence']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from itertools import product

from everfresh.testing.kv.histories import (
    History,
    Read,
    State,
    Timelines,
    Vector,
    ViewOf,
    Violation,
    ended_before,
    in_order,
)

MOST_VECTORS = 200_000


class Level(IntEnum):
    """The levels, each of which has those before it."""

    NONE = 0
    CONVERGENCE = 1
    WEAK = 2
    STRONG = 3
    COMPLETE = 4

    def __str__(self) -> str:
        return self.name.lower()


def level(history: History, view: ViewOf) -> Level:
    """The highest level that a history has."""
    of = explanations(history.timelines, view)
    if violation_of_convergence(history, view) is not None:
        return Level.NONE
    if violation_of_weak(history, of) is not None:
        return Level.CONVERGENCE
    if violation_of_strong(history, of) is not None:
        return Level.WEAK
    return Level.COMPLETE if is_complete(history, view) else Level.STRONG


def explanations(timelines: Timelines, view: ViewOf) -> dict[State, list[Vector]]:
    """For each state that the view can be in, the vectors that give it."""
    count = 1
    for versions in timelines.versions:
        count *= len(versions)
    if count > MOST_VECTORS:
        raise ValueError(f"{count} states of the base are too many to search; {MOST_VECTORS} are the limit")
    found: dict[State, list[Vector]] = defaultdict(list)
    for vector in product(*(range(len(versions)) for versions in timelines.versions)):
        found[view(timelines.at(vector))].append(vector)
    return found


def violation_of_convergence(history: History, view: ViewOf) -> Violation | None:
    """Whether the last read, once quiescent, saw something else than the view of the final state."""
    if not history.quiescent or not history.reads:
        return None
    last = max(history.reads, key=lambda r: r.end)
    final = view(history.timelines.at(history.timelines.final))
    if last.state == final:
        return None
    return Violation("convergence", f"the last state is {last.state}, and should be {final}", (last,))


def violation_of_weak(history: History, of: dict[State, list[Vector]]) -> Violation | None:
    """The first read that saw a state that is the view of no vector."""
    for read in history.reads:
        if not of.get(read.state):
            return Violation("weak", f"no state of the base gives {read.state}", (read,))
    return None


_Open = tuple[tuple[int, Vector], ...]


def violation_of_strong(history: History, of: dict[State, list[Vector]]) -> Violation | None:
    """Whether there is no choice of vectors that grows with the reads.

    Reads are visited by when they begin. Of the choices made so far all that counts is the cut of the reads
    that have ended, and the vectors of the others; of two of these only the smaller is kept.
    """
    reads = sorted(history.reads, key=lambda r: (r.begin, r.end))
    frontier: set[tuple[Vector, _Open]] = {(history.timelines.initial, ())}
    for i, read in enumerate(reads):
        grown: set[tuple[Vector, _Open]] = set()
        for cut, open_ in frontier:
            for j, vector in open_:
                if reads[j].end < read.begin:
                    cut = _join(cut, vector)
            still = tuple((j, vector) for j, vector in open_ if reads[j].end >= read.begin)
            floor = cut
            for j, vector in still:
                if ended_before(reads[j], read):
                    floor = _join(floor, vector)
            for vector in _minimal(v for v in of.get(read.state, ()) if _below(floor, v)):
                grown.add((cut, (*still, (i, vector))))
        if not grown:
            before = [r for r in reads[:i] if ended_before(r, read)]
            return Violation("strong", _why(read, before), (*before, read))
        frontier = _undominated(grown)
    return None


def _join(a: Vector, b: Vector) -> Vector:
    return tuple(map(max, a, b))


def _why(read: Read, before: list[Read]) -> str:
    seen = ", ".join(str(r.state) for r in before)
    return f"{read.state} was read after {seen or 'nothing'}, and no later state of the base gives it"


def _below(a: Vector, b: Vector) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def _minimal(vectors: Iterable[Vector]) -> list[Vector]:
    """Those that are above no other. A smaller choice allows whatever a larger one allows."""
    kept: list[Vector] = []
    for vector in sorted(vectors, key=sum):
        if not any(_below(other, vector) for other in kept):
            kept.append(vector)
    return kept


def _undominated(choices: set[tuple[Vector, _Open]]) -> set[tuple[Vector, _Open]]:
    kept: list[tuple[Vector, _Open]] = []
    for cut, open_ in sorted(choices, key=lambda c: sum(c[0]) + sum(sum(v) for _, v in c[1])):
        if not any(
            _below(other, cut) and all(_below(a, b) for (_, a), (_, b) in zip(others, open_, strict=True))
            for other, others in kept
        ):
            kept.append((cut, open_))
    return set(kept)


def is_complete(history: History, view: ViewOf) -> bool:
    """Whether some chain of vectors, one version a step, has each of its views among the states, in order."""
    timelines = history.timelines
    states = [r.state for r in sorted(history.reads, key=lambda r: r.begin)]

    def first(vector: Vector, at: int) -> int | None:
        """The first state from this place on that is the view of a vector."""
        state = view(timelines.at(vector))
        return next((i for i in range(at, len(states)) if states[i] == state), None)

    start = first(timelines.initial, 0)
    todo = [] if start is None else [(timelines.initial, start)]
    seen = set(todo)
    while todo:
        vector, at = todo.pop()
        if vector == timelines.final:
            return True
        for i, last in enumerate(timelines.final):
            if vector[i] < last:
                new = (*vector[:i], vector[i] + 1, *vector[i + 1 :])
                place = first(new, at)
                if place is not None and (new, place) not in seen:
                    seen.add((new, place))
                    todo.append((new, place))
    return False


__all__ = ["History", "Level", "Timelines", "explanations", "in_order", "is_complete", "level"]
