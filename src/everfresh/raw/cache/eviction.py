"""What stays in the cache after a query (Algorithm 2, `004`), and policies to compare with.

A file is read whole even if one piece of it is missing, so what is worth keeping is all pieces of a file that
a query asked for, together: a *use*. The cost of losing a use is the size of its file over the bytes that
keeping it takes, weighted by how recent its query is. Uses are taken greedily; pieces that are kept already
take nothing, so the cost of the others in a use rises as pieces of it are taken for another.

What the document leaves open is settled so: a piece counts once, in however many uses it is; weights are
relative to the newest query, so that none overflows; a use that does not fit is passed over, and never fits
later, since what it still takes shrinks by no more than the room does.

`pinned` is the algorithm to the letter: the pieces of the current query come first, whatever they cost, and a
query counts half as much as the next. Where queries go round over more than fits, that has the weakness of
LRU: what comes now pushes out what comes next. `cost` lets the current query compete with the others, and
forgets more slowly.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

WINDOW = 512
"""Queries that are remembered."""


HALVED = 8.0
"""After so many queries a use counts half as much (`cost`)."""


@dataclass(frozen=True, slots=True)
class Use:
    """The pieces of a file that a query asked for."""

    query: int
    file: str
    pieces: frozenset[int]


@dataclass(frozen=True)
class Sizes:
    """Bytes of files where they lie, and of pieces in memory."""

    files: Mapping[str, int]
    pieces: Mapping[int, int]


Policy = Callable[[Sequence[Use], Sequence[Use], Sizes, int], tuple[Use, ...]]
"""From the uses that are in the cache, those of the current query, sizes and the budget: what stays."""


def cost(before: Sequence[Use], now: Sequence[Use], sizes: Sizes, budget: int) -> tuple[Use, ...]:
    """The uses that are the most expensive to lose, of all queries.

    >>> sizes = Sizes({"a": 100, "b": 100}, {1: 10, 2: 50, 3: 10})
    >>> was = [Use(1, "a", frozenset({1})), Use(1, "b", frozenset({2}))]
    >>> [use.file for use in cost(was, [Use(2, "b", frozenset({3}))], sizes, 25)]
    ['b', 'a']
    """
    kept = _Kept(sizes, budget, HALVED)
    newest = _newest(before, now)
    kept.take(_newest_of_each([*before, *now], newest), newest)
    return tuple(kept.uses)


def pinned(before: Sequence[Use], now: Sequence[Use], sizes: Sizes, budget: int) -> tuple[Use, ...]:
    """The uses of the current query, and then the most expensive to lose: Algorithm 2 to the letter.

    >>> sizes = Sizes({"a": 100, "b": 10}, {1: 10, 2: 20})
    >>> was, now = [Use(1, "a", frozenset({1}))], [Use(2, "b", frozenset({2}))]
    >>> [use.file for use in pinned(was, now, sizes, 25)], [use.file for use in cost(was, now, sizes, 25)]
    (['b'], ['a'])
    """
    kept = _Kept(sizes, budget, 1.0)
    newest = _newest(before, now)
    kept.take(now, newest)
    kept.take(_newest_of_each(before, newest), newest)
    return tuple(kept.uses)


def _newest(before: Sequence[Use], now: Sequence[Use]) -> int:
    return now[0].query if now else max((use.query for use in before), default=0)


class _Kept:
    """The new state of the cache, as it fills."""

    def __init__(self, sizes: Sizes, budget: int, halved: float) -> None:
        self._sizes, self._room, self._halved = sizes, budget, halved
        self.pieces: set[int] = set()
        self.uses: list[Use] = []

    def take(self, uses: Sequence[Use], newest: int) -> None:
        """Take of these as many as fit, the most expensive to lose first."""
        missing = [sum(self._sizes.pieces[p] for p in use.pieces - self.pieces) for use in uses]
        holding: dict[int, list[int]] = {}
        for k, use in enumerate(uses):
            for piece in use.pieces - self.pieces:
                holding.setdefault(piece, []).append(k)

        def key(k: int) -> tuple[float, int, str, int]:
            use = uses[k]
            weight = 2.0 ** ((use.query - newest) / self._halved)
            worth = weight * self._sizes.files[use.file] / missing[k] if missing[k] else float("inf")
            return -worth, -use.query, use.file, k

        heap = [key(k) for k in range(len(uses))]
        heapq.heapify(heap)
        done = [False] * len(uses)
        while heap:
            top = heapq.heappop(heap)
            k = top[3]
            if done[k] or top != key(k):  # taken already, or its cost has risen since: another entry has it
                continue
            done[k] = True
            if missing[k] > self._room:
                continue
            self.uses.append(uses[k])
            self._room -= missing[k]
            for piece in sorted(uses[k].pieces - self.pieces):
                self.pieces.add(piece)
                for other in holding[piece]:
                    missing[other] -= self._sizes.pieces[piece]
                    if not done[other]:
                        heapq.heappush(heap, key(other))


def _newest_of_each(uses: Sequence[Use], newest: int) -> list[Use]:
    """Of uses of the same pieces only the newest can count."""
    found: dict[tuple[str, frozenset[int]], Use] = {}
    for use in sorted(uses, key=lambda one: one.query):
        if newest - use.query < WINDOW:
            found[use.file, use.pieces] = use
    return list(found.values())


def chunk_lru(before: Sequence[Use], now: Sequence[Use], sizes: Sizes, budget: int) -> tuple[Use, ...]:
    """The pieces that were asked for last, the most recent first; a use has one piece.

    >>> sizes = Sizes({"a": 100}, {1: 10, 2: 10, 3: 10})
    >>> was = [Use(1, "a", frozenset({1})), Use(2, "a", frozenset({2}))]
    >>> [sorted(use.pieces) for use in chunk_lru(was, [Use(3, "a", frozenset({3}))], sizes, 20)]
    [[3], [2]]
    """
    room, seen = budget, set()
    kept: list[Use] = []
    for use in _latest_first([*reversed(before), *now]):
        (piece,) = use.pieces
        size = sizes.pieces[piece]
        if piece in seen or size > budget:  # what is larger than all memory is never in it
            continue
        if size > room:  # nor is what was asked for before something that is not
            break
        seen.add(piece)
        room -= size
        kept.append(use)
    return tuple(kept)


def lost(
    recent: Sequence[tuple[int, int]], order: Sequence[Sequence[tuple[int, int]]], budget: int
) -> set[int]:
    """Of the pieces in memory, with their bytes and the one asked for last at the end, those that are let go
    in the course of a query before it comes to them: it goes file by file in this order, and pieces that
    it reads push out those that were asked for longest ago.

    >>> lost([(1, 5), (2, 5)], [[(3, 5)], [(1, 5)], [(2, 5)]], 10)
    {1, 2}
    """
    resident = OrderedDict(recent)
    room = budget - sum(resident.values())
    found: set[int] = set()
    for pieces in order:
        found.update(n for n, _ in pieces if n not in resident)
        for number, size in pieces:
            if number not in resident and size <= budget:
                room -= size
                resident[number] = size
            if number in resident:
                resident.move_to_end(number)
        while room < 0:
            room += resident.popitem(last=False)[1]
    return found.intersection(n for n, _ in recent)


def _latest_first(uses: Iterable[Use]) -> list[Use]:
    single = [Use(use.query, use.file, frozenset({piece})) for use in uses for piece in sorted(use.pieces)]
    order = sorted(range(len(single)), key=lambda k: (single[k].query, k), reverse=True)
    return [single[k] for k in order]


@dataclass(frozen=True)
class Rule:
    """A policy; whether the pieces of its files are cut by queries, and whether it goes file by file, and
    lets go of pieces while a query is under way that the query would have needed."""

    keeps: Policy
    cuts: bool
    ordered: bool


POLICIES: Mapping[str, Rule] = {
    "cost": Rule(cost, True, False),
    "pinned": Rule(pinned, True, False),
    "chunk_lru": Rule(chunk_lru, True, True),
    "file_lru": Rule(chunk_lru, False, True),  # a file has one piece, which is all of it
}
