"""Pairs of rows: hash join on equal keys, the rest of the condition on the candidates, rows without partner.

Candidates come in chunks, so a condition that few pairs fulfil takes bounded memory, however large the sides
are. Invariant: pairs come in the order of the left rows, those of one left row in the order of the right
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from everfresh.errors import EverfreshError
from everfresh.expr import Call, Expr, Vector
from everfresh.local.adhoc.frame import D, Frame, Ints, Mask, Outer
from everfresh.local.adhoc.keys import Groups, Words, known
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.subqueries import Names, has_subquery, names

Evaluate = Callable[[Expr, Frame], Vector]
Pairs = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True)
class Key:
    """`left = right`, each of one side; `same` if NULL is the same as NULL."""

    left: Expr
    right: Expr
    same: bool


def key_of(condition: Expr, left: Names, right: Names) -> Key | None:
    """The equality of one expression of each side that `condition` is, if it is one."""
    if not isinstance(condition, Call) or condition.op not in ("=", "is_not_distinct"):
        return None
    if has_subquery(condition):
        return None
    a, b = condition.args
    same = condition.op != "="
    for x, y in ((a, b), (b, a)):
        if names(x) and names(y) and names(x) <= left and names(y) <= right:
            return Key(x, y, same)
    return None


class JoinKeys:
    """The keys of one side: their words, and the rows that can have a partner at all."""

    def __init__(self, words: Words, vectors: Sequence[Vector], same: Sequence[bool], rows: int) -> None:
        self.words = words.of(vectors, rows)
        self.able = known([v for v, s in zip(vectors, same, strict=True) if not s], rows)


class Lookup:
    """The rows of the right side by key."""

    def __init__(self, side: JoinKeys) -> None:
        self._rows = np.flatnonzero(side.able)
        all_ = len(self._rows) == len(side.able)
        self._groups = Groups(side.words if all_ else side.words[:, self._rows])
        self._order = self._rows[np.argsort(self._groups.of_rows, kind="stable")]
        self._starts = np.cumsum(self._groups.sizes) - self._groups.sizes

    def partners(self, side: JoinKeys) -> tuple[Ints, Ints]:
        """For each left row: the group of its key, and how many right rows are in it."""
        group = np.where(side.able, self._groups.find(side.words), -1)
        if not self._groups.count:
            return group, np.zeros(len(group), np.int64)
        return group, np.where(group < 0, 0, self._groups.sizes[group])

    def pairs(self, group: Ints, counts: Ints, chunk: int) -> Iterator[Pairs]:
        """All pairs, at most `chunk` at a time."""
        ends = np.cumsum(counts)
        begins = ends - counts
        total = int(ends[-1]) if len(ends) else 0
        for low in range(0, total, chunk):
            high = min(low + chunk, total)
            first, last = np.searchsorted(ends, [low, high - 1], side="right")
            rows = np.arange(first, last + 1)
            times = np.minimum(ends[rows], high) - np.maximum(begins[rows], low)
            left = np.repeat(rows, times)
            place = np.arange(low, high) - begins[left] + self._starts[group[left]]
            yield left, self._order[place]


def find_pairs(
    left: Frame,
    right: Frame,
    lookup: Lookup,
    side: JoinKeys,
    rest: Sequence[Expr],
    evaluate: Evaluate,
    chunk: int,
) -> Pairs:
    """The pairs with equal keys that fulfil all conditions of `rest`, tried in order."""
    group, counts = lookup.partners(side)
    found: list[Pairs] = []
    for pairs in lookup.pairs(group, counts, chunk if rest else max(int(counts.sum()), 1)):
        a, b = pairs
        for condition in rest:
            keep = is_true(evaluate(condition, left.take(a).beside(right.take(b))))
            a, b = a[keep], b[keep]
        found.append((a, b))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def is_true(verdict: Vector) -> Mask:
    """The rows on which a condition holds."""
    mask: Mask = verdict.values if verdict.valid is None else verdict.values & verdict.valid
    return mask


# -- outer joins ---------------------------------------------------------------------------------------------


class _Condition:
    """An ON condition: its equalities, what asks one side only, and the rest."""

    def __init__(self, condition: Expr | None, left: Frame, right: Frame, evaluate: Evaluate) -> None:
        self.left, self.right, self.evaluate = left, right, evaluate
        self.vectors: tuple[list[Vector], list[Vector]] = ([], [])
        self.same: list[bool] = []
        self.rest: list[Expr] = []
        self.able = np.ones(left.rows, np.bool_), np.ones(right.rows, np.bool_)
        for part in conjuncts(condition):
            if not self._key(part) and not self._one_side(part):
                self.rest.append(part)

    def _key(self, part: Expr) -> bool:
        key = key_of(part, frozenset(self.left), frozenset(self.right) - frozenset(self.left))
        if key is None:
            return False
        try:
            made = self.evaluate(key.left, self.left), self.evaluate(key.right, self.right)
        except EverfreshError:  # perhaps on rows that have no partner anyway
            return False
        for vectors, vector in zip(self.vectors, made, strict=True):
            vectors.append(vector)
        self.same.append(key.same)
        return True

    def _one_side(self, part: Expr) -> bool:
        for frame, able in zip((self.left, self.right), self.able, strict=True):
            if names(part) <= frozenset(frame) and not has_subquery(part):
                try:
                    able &= is_true(self.evaluate(part, frame))
                except EverfreshError:
                    return False
                return True
        return False


def outer_join(
    plan: p.Join,
    sides: tuple[Frame, Frame],
    outer: Outer | None,
    words: Words,
    evaluate: Evaluate,
    chunk: int,
) -> Frame:
    """A join of any kind; rows without partner are padded as the kind says."""
    left, right = sides
    condition = _Condition(plan.condition, left, right, evaluate)
    if left.d is not None and right.d is not None:
        condition.vectors[0].append(left[D])
        condition.vectors[1].append(right[D])
        condition.same.append(True)
    made = [JoinKeys(words, v, condition.same, f.rows) for v, f in zip(condition.vectors, sides, strict=True)]
    for side, able in zip(made, condition.able, strict=True):
        side.able &= able
    a, b = find_pairs(left, right, Lookup(made[1]), made[0], condition.rest, evaluate, chunk)
    if plan.kind in ("left", "full"):
        alone = _without(a, left.rows)
        a, b = np.r_[a, alone], np.r_[b, np.full(len(alone), -1, np.int64)]
    if plan.kind in ("right", "full"):
        alone = _without(b, right.rows)
        a, b = np.r_[a, np.full(len(alone), -1, np.int64)], np.r_[b, alone]
    out = left.take(a).beside(right.take(b))
    if outer is None or (left.d is None and right.d is None):
        return out
    return outer.attach(out.only(v.name for v in plan.variables), _combination(left.d, right.d, a, b))


def _without(used: Ints, rows: int) -> Ints:
    alone = np.ones(rows, np.bool_)
    alone[used[used >= 0]] = False
    return np.flatnonzero(alone)


def _combination(left: Ints | None, right: Ints | None, a: Ints, b: Ints) -> Ints:
    """The outer combination of each pair, of the side that is there."""
    if left is None:
        assert right is not None
        return right[b]
    if right is None or not len(right):
        return left[a]
    if not len(left):
        return right[b]
    return np.where(a >= 0, left[a], right[b])
