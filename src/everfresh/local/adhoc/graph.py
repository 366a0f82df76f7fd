"""Inner joins and the filters above them, as one graph: leaves, and conditions between them.

What asks one leaf filters it first. Then leaves are joined one after the other, always the one with the
smallest result (counted, not guessed); a condition is applied as soon as its variables are there. For a
correlated subquery the outer combinations are one more leaf, so equalities with outer variables are hash
joins too.

Invariant: reordering never makes an error. A condition that raises before its turn is asked again at the end,
on the rows that passed all others; subqueries are always asked there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from everfresh.errors import EverfreshError
from everfresh.expr import Expr, Vector
from everfresh.local.adhoc.frame import D, Frame, Ints, Outer
from everfresh.local.adhoc.join import Evaluate, JoinKeys, Key, Lookup, find_pairs, is_true, key_of
from everfresh.local.adhoc.keys import Words
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.subqueries import Names, has_subquery, lateral, names


def flatten(plan: p.Plan) -> tuple[list[p.Plan], list[Expr]]:
    """The leaves below filters and inner joins, and the conditions of those."""
    match plan:
        case p.Filter(child, condition):
            leaves, conditions = flatten(child)
            return leaves, conditions + conjuncts(condition)
        case p.Join("inner", left, right, condition) if not lateral(plan):
            (a, first), (b, second) = flatten(left), flatten(right)
            return a + b, first + second + conjuncts(condition)
    return [plan], []


@dataclass(eq=False)
class _Leaf:
    """A leaf."""

    frame: Frame

    @cached_property
    def names(self) -> Names:
        return frozenset(self.frame)


@dataclass(eq=False)
class _Step:
    """A leaf that could be joined next: the smaller side as a lookup, and the keys of the other.

    `swapped`: the other is the leaf.
    """

    leaf: _Leaf
    used: tuple[Expr, ...]
    lookup: Lookup
    side: JoinKeys
    swapped: bool

    @cached_property
    def size(self) -> int:
        return int(self.lookup.partners(self.side)[1].sum())


class Graph:
    """One graph being joined."""

    def __init__(
        self,
        frames: Sequence[Frame],
        conditions: Sequence[Expr],
        words: Words,
        evaluate: Evaluate,
        chunk: int,
    ) -> None:
        self._leaves = [_Leaf(frame) for frame in frames]
        self._order = {condition: i for i, condition in enumerate(conditions)}
        self._words, self._evaluate, self._chunk = words, evaluate, chunk
        self._late = [c for c in self._order if has_subquery(c)]
        self._open = [c for c in self._order if not has_subquery(c)]

    def join(self) -> Frame:
        """The rows of all leaves together that fulfil all conditions."""
        for leaf in self._leaves:
            leaf.frame = self._apply(leaf.frame)
        frame = self._start()
        while self._leaves:
            step = self._next(frame)
            frame = self._join(frame, step)
        for condition in sorted(self._late + self._open, key=self._order.__getitem__):
            frame = frame.filter(is_true(self._evaluate(condition, frame)))
        return frame

    def _apply(self, frame: Frame) -> Frame:
        """The frame after all open conditions that it can answer."""
        there = frozenset(frame)
        for condition in [c for c in self._open if names(c) <= there]:
            self._open.remove(condition)
            try:
                frame = frame.filter(is_true(self._evaluate(condition, frame)))
            except EverfreshError:
                self._late.append(condition)
        return frame

    def _start(self) -> Frame:
        """The smallest leaf that an equality connects with another, or else the smallest."""
        leaves = self._leaves
        connected = [x for x in leaves if any(self._keys(x.names, y) for y in leaves if y is not x)]
        leaf = min(connected or leaves, key=lambda x: x.frame.rows)
        self._leaves.remove(leaf)
        return leaf.frame

    def _keys(self, there: Names, leaf: _Leaf) -> list[tuple[Expr, Key]]:
        found = ((c, key_of(c, there, leaf.names - there)) for c in self._open)
        return [(c, key) for c, key in found if key is not None]

    def _next(self, frame: Frame) -> _Step:
        """The connected leaf whose join is smallest; without one, the smallest leaf."""
        there = frozenset(frame)
        connected = [x for x in self._leaves if D in there & x.names or self._keys(there, x)]
        if not connected:
            connected = [min(self._leaves, key=lambda x: x.frame.rows)]
        steps = [self._step(frame, there, leaf) for leaf in connected]
        return min(steps, key=lambda step: step.size) if len(steps) > 1 else steps[0]

    def _step(self, frame: Frame, there: Names, leaf: _Leaf) -> _Step:
        left: list[Vector] = []
        right: list[Vector] = []
        same: list[bool] = []
        used: list[Expr] = []
        if D in there and D in leaf.names:
            left, right, same = [frame[D]], [leaf.frame[D]], [True]
        for condition, key in self._keys(there, leaf):
            try:
                pair = self._evaluate(key.left, frame), self._evaluate(key.right, leaf.frame)
            except EverfreshError:
                self._open.remove(condition)
                self._late.append(condition)
                continue
            left.append(pair[0])
            right.append(pair[1])
            same.append(key.same)
            used.append(condition)
        small = JoinKeys(self._words, left, same, frame.rows)
        large = JoinKeys(self._words, right, same, leaf.frame.rows)
        swapped = frame.rows <= leaf.frame.rows
        if not swapped:
            small, large = large, small
        return _Step(leaf, tuple(used), Lookup(small), large, swapped)

    def _join(self, frame: Frame, step: _Step) -> Frame:
        self._leaves.remove(step.leaf)
        self._open = [c for c in self._open if c not in step.used]
        there = frozenset(frame) | step.leaf.names
        rest = [c for c in self._open if names(c) <= there]
        right = step.leaf.frame
        self._open = [c for c in self._open if c not in rest]
        a, b = self._pairs(frame, right, step, rest)
        return frame.take(a).beside(right.take(b))

    def _pairs(self, frame: Frame, right: Frame, step: _Step, rest: list[Expr]) -> tuple[Ints, ...]:
        """The pairs; a condition that raises on some candidates is asked at the end instead."""
        failing: list[Expr] = []

        def ask(condition: Expr, pairs: Frame) -> Vector:
            try:
                return self._evaluate(condition, pairs)
            except EverfreshError:
                failing.append(condition)
                raise

        sides = (right, frame) if step.swapped else (frame, right)
        while True:
            try:
                pairs = find_pairs(*sides, step.lookup, step.side, rest, ask, self._chunk)
                return pairs[::-1] if step.swapped else pairs
            except EverfreshError:
                self._late += failing
                rest = [c for c in rest if c not in failing]


def join_graph(
    frames: list[Frame],
    conditions: list[Expr],
    outer: Outer | None,
    words: Words,
    evaluate: Evaluate,
    chunk: int,
) -> Frame:
    """The rows of a plan of filters and inner joins over leaves that have been run."""
    inside = frozenset().union(*frames)
    if outer is not None and any(names(c) & frozenset(outer.columns) - inside for c in conditions):
        frames = [*frames, outer.frame()]
    return Graph(frames, conditions, words, evaluate, chunk).join()
