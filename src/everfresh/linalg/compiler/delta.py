"""The delta of an expression (section 6.3.1): one table, one line per operator.

`delta(E, changed)` is the change of E when each matrix X of `changed` changes by the matrix `changed[X]`,
read against the state
*before* the change; several matrices may change at once, with all cross terms (section 6.3.4). An operator
without a rule raises; it never silently has delta zero.

>>> A, dA = Matrix("A", 3, 3), Matrix("dA", 3, 3)
>>> print(delta(A @ A, {"A": dA}))
dA A + A dA + dA dA
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from everfresh.linalg.compiler.simplify import add
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

Changes = Mapping[str, Expr]


def delta(expr: Expr, changed: Changes) -> Expr:
    """The change of `expr`; `Zeros` if nothing that it reads changes."""
    rule = RULES.get(type(expr))
    if rule is None:
        raise TypeError(f"there is no delta rule for {type(expr).__name__}")
    return rule(expr, changed)


def _matrix(e: Matrix, changed: Changes) -> Expr:
    return changed.get(e.name, Zeros(*e.shape))


def _matmul(e: MatMul, changed: Changes) -> Expr:
    left, right = delta(e.left, changed), delta(e.right, changed)
    terms = []
    if not isinstance(left, Zeros):
        terms.append(MatMul(left, e.right))
    if not isinstance(right, Zeros):
        terms.append(MatMul(e.left, right))
    if len(terms) == 2:
        terms.append(MatMul(left, right))
    return add(*terms) if terms else Zeros(*e.shape)


def _add(e: Add, changed: Changes) -> Expr:
    terms = [d for t in e.terms if not isinstance(d := delta(t, changed), Zeros)]
    return add(*terms) if terms else Zeros(*e.shape)


def _body(e: Scale | Transpose, changed: Changes) -> Expr:
    d = delta(e.body, changed)
    return Zeros(*e.shape) if isinstance(d, Zeros) else e.with_children((d,))


def _inverse(e: Inverse, changed: Changes) -> Expr:
    d = delta(e.body, changed)
    return Zeros(*e.shape) if isinstance(d, Zeros) else Add((Inverse(Add((e.body, d))), Scale(-1.0, e)))


def _stack(e: Stack, changed: Changes) -> Expr:
    parts = tuple(delta(p, changed) for p in e.parts)
    return Zeros(*e.shape) if all(isinstance(p, Zeros) for p in parts) else Stack(parts, e.axis)


def _zero(e: Expr, _changed: Changes) -> Expr:
    return Zeros(*e.shape)


RULES: dict[type[Expr], Callable[[Any, Changes], Expr]] = {
    Matrix: _matrix,  # Δ A       = ΔA, or 0 for a matrix that does not change
    MatMul: _matmul,  # Δ (A B)   = ΔA B + A ΔB + ΔA ΔB
    Add: _add,  # Δ (A + B) = ΔA + ΔB
    Scale: _body,  # Δ (c A)   = c ΔA
    Transpose: _body,  # Δ (A')    = (ΔA)'
    Inverse: _inverse,  # Δ inv(A)  = inv(A + ΔA) - inv(A)
    Stack: _stack,  # Δ [A, B]  = [ΔA, ΔB]
    Eye: _zero,
    Zeros: _zero,
    Constant: _zero,
}
