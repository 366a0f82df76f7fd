"""Simplification: rules that make an expression smaller without changing its value.

Zeros and identities vanish, transposes move to the leaves, scales move out of products, sums are flat, and
a multiplied sum is left as it is (expanding would lose the factored form). `rules(symmetric)` adds that W'
is W for the matrices named.

>>> A = Matrix("A", 3, 3)
>>> print(simplify(Transpose(A @ A.T) + Zeros(3, 3) + Eye(3) @ A))
A A' + A
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from everfresh.linalg.lang.nodes import (
    Add,
    Constant,
    Expr,
    Eye,
    Inverse,
    MatMul,
    Matrix,
    Scale,
    Stack,
    Transpose,
    Zeros,
)
from everfresh.rewrite import Rule, RuleSet, rewrite


def add(*terms: Expr) -> Expr:
    """The sum of one or more terms."""
    return terms[0] if len(terms) == 1 else Add(terms)


def hstack(*parts: Expr) -> Expr:
    """Parts side by side, one or more."""
    return parts[0] if len(parts) == 1 else Stack(parts)


def _add_flat(e: Add) -> Expr | None:
    if not any(isinstance(t, Add) for t in e.terms):
        return None
    return Add(tuple(x for t in e.terms for x in (t.terms if isinstance(t, Add) else (t,))))


def _add_zero(e: Add) -> Expr | None:
    kept = tuple(t for t in e.terms if not isinstance(t, Zeros))
    if len(kept) == len(e.terms):
        return None
    return add(*kept) if kept else Zeros(*e.shape)


def _add_like(e: Add) -> Expr | None:
    """`A + 2 A` is `3 A`."""
    weights: dict[Expr, float] = {}
    for term in e.terms:
        body, factor = (term.body, term.factor) if isinstance(term, Scale) else (term, 1.0)
        weights[body] = weights.get(body, 0.0) + factor
    if len(weights) == len(e.terms):
        return None
    kept = [body if factor == 1.0 else Scale(factor, body) for body, factor in weights.items() if factor]
    return add(*kept) if kept else Zeros(*e.shape)


def _mul_zero(e: MatMul) -> Expr | None:
    return Zeros(*e.shape) if isinstance(e.left, Zeros) or isinstance(e.right, Zeros) else None


def _mul_eye(e: MatMul) -> Expr | None:
    if isinstance(e.left, Eye):
        return e.right
    return e.left if isinstance(e.right, Eye) else None


def _mul_scale(e: MatMul) -> Expr | None:
    if isinstance(e.left, Scale):
        return Scale(e.left.factor, MatMul(e.left.body, e.right))
    return Scale(e.right.factor, MatMul(e.left, e.right.body)) if isinstance(e.right, Scale) else None


def _scale(e: Scale) -> Expr | None:
    if e.factor == 1.0:
        return e.body
    if e.factor == 0.0 or isinstance(e.body, Zeros):
        return Zeros(*e.shape)
    return Scale(e.factor * e.body.factor, e.body.body) if isinstance(e.body, Scale) else None


def _scale_sum(e: Scale) -> Expr | None:
    return Add(tuple(Scale(e.factor, t) for t in e.body.terms)) if isinstance(e.body, Add) else None


def _transpose(e: Transpose) -> Expr | None:
    match e.body:
        case Transpose(inner):
            return inner
        case Add(terms):
            return Add(tuple(Transpose(t) for t in terms))
        case MatMul(left, right):
            return MatMul(Transpose(right), Transpose(left))
        case Scale(factor, inner):
            return Scale(factor, Transpose(inner))
        case Inverse(inner):
            return Inverse(Transpose(inner))
        case Stack(parts, axis):
            return Stack(tuple(Transpose(p) for p in parts), 1 - axis)
        case Eye():
            return e.body
        case Zeros(height, width):
            return Zeros(width, height)
        case Constant(values):
            return Constant(tuple(zip(*values, strict=True)))
    return None


def _inverse(e: Inverse) -> Expr | None:
    match e.body:
        case Eye():
            return e.body
        case Scale(factor, inner):
            return Scale(1.0 / factor, Inverse(inner)) if factor else None
    return None


def _stack_flat(e: Stack) -> Expr | None:
    if not any(isinstance(p, Stack) and p.axis == e.axis for p in e.parts):
        return None
    flat = [x for p in e.parts for x in (p.parts if isinstance(p, Stack) and p.axis == e.axis else (p,))]
    return Stack(tuple(flat), e.axis)


RULES = RuleSet(
    (
        Rule("flat sums", (Add,), _add_flat),
        Rule("zero terms", (Add,), _add_zero),
        Rule("like terms", (Add,), _add_like),
        Rule("product with zero", (MatMul,), _mul_zero),
        Rule("product with the identity", (MatMul,), _mul_eye),
        Rule("scales move out", (MatMul,), _mul_scale),
        Rule("scales of scales", (Scale,), _scale),
        Rule("scaled sums", (Scale,), _scale_sum),
        Rule("transposes move in", (Transpose,), _transpose),
        Rule("scales leave inverses", (Inverse,), _inverse),
        Rule("flat stacks", (Stack,), _stack_flat),
    )
)


@lru_cache(maxsize=256)
def rules(symmetric: frozenset[str] = frozenset()) -> RuleSet:
    """The rules, and W' = W for symmetric matrices."""
    if not symmetric:
        return RULES

    def same(e: Transpose) -> Expr | None:
        return e.body if isinstance(e.body, Matrix) and e.body.name in symmetric else None

    return RuleSet((Rule("symmetric", (Transpose,), same),)) + RULES


def simplify(expr: Expr, symmetric: Collection[str] = ()) -> Expr:
    """The expression in its simplest form."""
    return rewrite(expr, rules(frozenset(symmetric)))
