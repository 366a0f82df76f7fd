"""Factored deltas (sections 6.3.2 and 6.3.3): a change as P Q', two thin block matrices.

`factor` turns the delta of a flat statement into pairs of blocks (p, q), the change being the sum of p q';
`extract` merges pairs that share a block, (p, q) + (r, q) = (p + r, q), which is what keeps the rank of
A^k's change at k. One line per operator, as in `delta`. Invariant: no product of two large matrices is
introduced.

>>> A, u, v = Matrix("A", 3, 3), Matrix("uA", 3, 1), Matrix("vA", 3, 1)
>>> change = factor(delta(A @ A, {"A": Matrix("dA", 3, 3)}), {"dA": Factored(((u, v),))}, {})
>>> print(change.left, "*", change.right)
[uA, A uA + uA (vA' uA)] * [A' vA, vA]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from everfresh.linalg.compiler.absorb import absorb
from everfresh.linalg.compiler.delta import delta  # noqa: F401 (the doctest)
from everfresh.linalg.compiler.simplify import add, hstack, simplify
from everfresh.linalg.compiler.woodbury import woodbury
from everfresh.linalg.lang.nodes import Add, Expr, Inverse, MatMul, Matrix, Scale, Stack, Transpose, Zeros
from everfresh.linalg.lang.trees import names

Pair = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Factored:
    """The sum of `p q'` over its pairs."""

    pairs: tuple[Pair, ...]

    @property
    def left(self) -> Expr:
        """The first factor, all blocks side by side."""
        return hstack(*(p for p, _ in self.pairs))

    @property
    def right(self) -> Expr:
        """The second factor, all blocks side by side."""
        return hstack(*(q for _, q in self.pairs))

    @property
    def rank(self) -> int:
        """The columns of the factors."""
        return sum(p.columns for p, _ in self.pairs)


class NotFactored(Exception):
    """The change of some matrix in the expression is held dense."""


Known = Mapping[str, Factored]  # change (dA) -> its factors
Parts = Mapping[str, tuple[Expr, ...]]  # a factor -> the blocks that it was put together from
Inverses = Mapping[Expr, Expr]  # inv(E) -> the stored matrix that holds it


def factor(change: Expr, known: Known, inverses: Inverses, parts: Parts | None = None) -> Factored:
    """The factored form of a delta; `NotFactored` if a change that it reads is dense."""
    pairs = _factor(change, _Context(known, inverses))
    return extract(absorb(pairs, parts) if parts and len(pairs) > 1 else pairs)


@dataclass(frozen=True, slots=True)
class _Context:
    known: Known
    inverses: Inverses

    def changes(self, expr: Expr) -> bool:
        """Whether a change occurs in an expression."""
        return any(name in self.known for name in names(expr))


def _factor(expr: Expr, context: _Context) -> list[Pair]:
    rule = RULES.get(type(expr))
    if rule is None:
        raise NotFactored(str(expr))
    return rule(expr, context)


def _matrix(e: Matrix, context: _Context) -> list[Pair]:
    if e.name not in context.known:
        raise NotFactored(e.name)
    return list(context.known[e.name].pairs)


def _add(e: Add, context: _Context) -> list[Pair]:
    match e.terms:
        case (Inverse(Add((body, change))), Scale(-1.0, Inverse() as old)) if old == Inverse(body):
            inner = extract(_factor(change, context))
            stored = context.inverses.get(old)
            if stored is None:
                raise NotFactored(str(old))
            return [woodbury(stored, inner.left, inner.right)]
    return [pair for term in e.terms for pair in _factor(term, context)]


def _matmul(e: MatMul, context: _Context) -> list[Pair]:
    left, right = context.changes(e.left), context.changes(e.right)
    if left and right:
        first = extract(_factor(e.left, context))
        middle = first.right.T
        return [(MatMul(first.left, MatMul(middle, p)), q) for p, q in _factor(e.right, context)]
    if left:
        return [(p, MatMul(Transpose(e.right), q)) for p, q in _factor(e.left, context)]
    if right:
        return [(MatMul(e.left, p), q) for p, q in _factor(e.right, context)]
    raise NotFactored(str(e))


def _stack(e: Stack, context: _Context) -> list[Pair]:
    found: list[Pair] = []
    for i, part in enumerate(e.parts):
        if isinstance(part, Zeros):
            continue
        for p, q in _factor(part, context):
            padded = q if e.axis else p
            blocks = [Zeros(other.shape[e.axis], padded.columns) for other in e.parts]
            tall = Stack((*blocks[:i], padded, *blocks[i + 1 :]), 0)
            found.append((p, tall) if e.axis else (tall, q))
    return found


RULES: dict[type[Expr], Callable[[Any, _Context], list[Pair]]] = {
    Matrix: _matrix,  # dA = U V'
    Add: _add,  # the pairs of all terms
    MatMul: _matmul,  # E (p q') = (E p) q', (p q') E = p (E' q)'
    Scale: lambda e, c: [(Scale(e.factor, p), q) for p, q in _factor(e.body, c)],
    Transpose: lambda e, c: [(q, p) for p, q in _factor(e.body, c)],
    Stack: _stack,
    Zeros: lambda e, c: [],
}


def extract(pairs: list[Pair]) -> Factored:
    """Common factors merged: pairs with the same right block become one, then those with the same left."""
    clean = [(simplify(p), simplify(q)) for p, q in pairs]
    by_right: dict[Expr, list[Expr]] = {}
    for p, q in clean:
        by_right.setdefault(q, []).append(p)
    by_left: dict[Expr, list[Expr]] = {}
    for q, lefts in by_right.items():
        by_left.setdefault(simplify(add(*lefts)), []).append(q)
    merged = [(p, simplify(add(*rights))) for p, rights in by_left.items()]
    return Factored(tuple((p, q) for p, q in merged if not isinstance(p, Zeros) and not isinstance(q, Zeros)))
