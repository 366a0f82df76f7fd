"""Absorbing: a pair whose left block is part of another pair's left factor adds no rank (section 6.3.3).

With U = [a, b], U Q' + b q' is U (Q + [0, q])'. Blocks are compared by what they are made of: a factor that
was put together from blocks stands for these, and M U + P (Q' U) for M a + P (Q' a), M b + P (Q' b). So the
change of T := A T + B keeps the rank of the power that it comes from. Invariant: the sum of p q' stays the
same.

>>> a, b, q, Q = Matrix("a", 5, 1), Matrix("b", 5, 1), Matrix("q", 4, 1), Matrix("Q", 4, 2)
>>> U = Matrix("U", 5, 2)
>>> for left, right in absorb([(U, Q), (b, q)], {"U": (a, b)}):
...     print(left, "*", right)
U * Q + [zeros(4, 1), q]
"""

from __future__ import annotations

from collections.abc import Mapping

from everfresh.linalg.compiler.simplify import add, hstack, simplify
from everfresh.linalg.lang.nodes import Add, Expr, MatMul, Matrix, Stack, Transpose, Zeros

Pair = tuple[Expr, Expr]
Parts = Mapping[str, tuple[Expr, ...]]


class Elements:
    """The elementary blocks of factors."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._memo: dict[Expr, tuple[Expr, ...]] = {}
        self._one: dict[Expr, Expr] = {}  # equal blocks are one object, so that comparing them is cheap

    def of(self, expr: Expr) -> tuple[Expr, ...]:
        """The blocks, side by side, that an expression equals."""
        if expr not in self._memo:
            self._memo[expr] = tuple(self._one.setdefault(e, e) for e in self._find(expr))
        return self._memo[expr]

    def _find(self, expr: Expr) -> tuple[Expr, ...]:
        match expr:
            case Matrix(name) if name in self.parts:
                return tuple(e for part in self.parts[name] for e in self.of(part))
            case Stack(parts, 1):
                return tuple(e for part in parts for e in self.of(part))
            case MatMul(matrix, body) if len(self.of(body)) > 1:
                return tuple(MatMul(matrix, e) for e in self.of(body))
            case Add((MatMul(matrix, body), MatMul(left, MatMul(Transpose() as right, again)))) if (
                body == again
            ):
                return tuple(Add((MatMul(matrix, e), MatMul(left, MatMul(right, e)))) for e in self.of(body))
        return (expr,)

    def offset(self, small: Expr, large: Expr) -> int | None:
        """The column of `large` at which the blocks of `small` stand in it, in a row; None if they do not."""
        wanted, among = self.of(small), self.of(large)
        for start in range(len(among) - len(wanted) + 1):
            if among[start : start + len(wanted)] == wanted:
                return sum(e.columns for e in among[:start])
        return None


def absorb(pairs: list[Pair], parts: Parts) -> list[Pair]:
    """The pairs without those that can be made part of others."""
    elements = Elements(parts)
    clean = [(simplify(p), simplify(q)) for p, q in pairs]
    hosts: dict[int, list[Expr]] = {}
    kept: list[list[Pair]] = []
    for i, pair in enumerate(clean):
        left_over, found = [], False
        for p, q in _pieces(pair, parts):
            place = _host(p, i, clean, elements)
            if place is None:
                left_over.append((p, q))
            else:
                found = True
                hosts.setdefault(place[0], []).append(_padded(q, place[1], clean[place[0]][0].columns))
        kept.append(left_over if found else [pair])
    result = []
    for i, listed in enumerate(kept):
        if i in hosts:
            p, q = clean[i]
            result.append((p, add(q, *hosts[i])))
        else:
            result += listed
    return result


def _pieces(pair: Pair, parts: Parts) -> list[Pair]:
    """A pair of factors as the pairs of blocks that it was put together from."""
    p, q = pair
    if isinstance(p, Matrix) and isinstance(q, Matrix):
        lefts, rights = parts.get(p.name, (p,)), parts.get(q.name, (q,))
        if [x.columns for x in lefts] == [x.columns for x in rights]:
            return list(zip(lefts, rights, strict=True))
    return [pair]


def _host(p: Expr, own: int, pairs: list[Pair], elements: Elements) -> tuple[int, int] | None:
    """Another pair whose left factor is a wider one that has `p` in it, and where."""
    for i, (other, _) in enumerate(pairs):
        if i != own and other.columns > pairs[own][0].columns and isinstance(other, Matrix):
            at = elements.offset(p, other)
            if at is not None:
                return i, at
    return None


def _padded(q: Expr, at: int, width: int) -> Expr:
    """Columns `q` at position `at` among `width`, the others being zero."""
    after = width - at - q.columns
    return hstack(*([Zeros(q.rows, at)] if at else []), q, *([Zeros(q.rows, after)] if after else []))
