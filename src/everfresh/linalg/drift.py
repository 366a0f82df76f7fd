"""How far stored matrices have drifted from their definitions, found cheaply.

After each update a small block of every view is compared with what its definition gives for that block: a
few rows of the left operand times a few columns of the right one, O(n). From time to time a *probe*
compares whole matrices on a random vector, O(n^2). Both divide by the size of what was multiplied, so the
figure is a relative backward error: about 1e-16 times some growth when all is well, however ill-conditioned
the matrices are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everfresh.linalg.backend import Array, Backend
from everfresh.linalg.nodes import (
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
from everfresh.linalg.pending import Held

BLOCK = 8
State = Mapping[str, Held]
_ALL = slice(None)


def sample(name: str, definition: Expr, state: State, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """The squared residual of a random block of a view and the squared size to divide it by; None if there is none."""
    held = state[name]
    if not all(held.shape):
        return None
    rows, columns = (_some(size, rng) for size in held.shape)
    if isinstance(definition, Inverse):
        left = held.peek(rows, _ALL)
        right = _part(definition.body, _ALL, columns, state)
        value, size = left @ right, (left * left).sum() * (right * right).sum()
        wanted = _eye(rows, columns, value, held.backend)
    else:
        wanted = held.peek(rows, columns)
        value, size = _block(definition, rows, columns, state)
    gap = value - wanted
    return (gap * gap).sum(), size + (wanted * wanted).sum()


def _some(size: int, rng: np.random.Generator) -> slice:
    start = int(rng.integers(0, max(1, size - BLOCK + 1)))
    return slice(start, min(size, start + BLOCK))


def _eye(rows: slice, columns: slice, like: Array, backend: Backend) -> Array:
    wanted = np.equal.outer(np.arange(rows.start, rows.stop), np.arange(columns.start, columns.stop))
    return backend.asarray(wanted.astype(np.float64), like)


def _block(expr: Expr, rows: slice, columns: slice, state: State) -> tuple[Array, Any]:
    """A block of a flat expression, and the squared size of what went into it."""
    match expr:
        case MatMul(left, right):
            a, b = _part(left, rows, _ALL, state), _part(right, _ALL, columns, state)
            return a @ b, (a * a).sum() * (b * b).sum()
        case Scale(factor, body):
            value, size = _block(body, rows, columns, state)
            return factor * value, factor * factor * size
        case Add(terms):
            value, size = _block(terms[0], rows, columns, state)
            for term in terms[1:]:
                more, its_size = _block(term, rows, columns, state)
                value, size = value + more, size + its_size
            return value, size
        case _:
            value = _part(expr, rows, columns, state)
            return value, (value * value).sum()


def _part(expr: Expr, rows: slice, columns: slice, state: State) -> Array:
    match expr:
        case Matrix(name):
            return state[name].peek(rows, columns)
        case Transpose(Matrix(name)):
            return state[name].peek(columns, rows).T
    held = next(iter(state.values()))
    backend, like = held.backend, held.base
    match expr:
        case Eye():
            return _eye(rows, columns, like, backend)
        case Zeros(height, width):
            return backend.zeros(len(range(height)[rows]), len(range(width)[columns]), like)
        case Constant(values):
            return backend.asarray(np.array(values)[rows, columns], like)
        case Stack(parts, axis):
            whole = backend.concat(
                [_part(p, _ALL if axis == 0 else rows, _ALL if axis else columns, state) for p in parts], axis
            )
            return whole[:, columns] if axis else whole[rows]
    raise TypeError(f"{type(expr).__name__} is not flat")


def probe(name: str, definition: Expr, state: State, rng: np.random.Generator) -> float:
    """The relative residual of a whole view on a random vector."""
    held = state[name]
    if not all(held.shape):
        return 0.0
    backend = held.backend
    x = backend.asarray(rng.standard_normal((held.shape[1], 1)), held.base)
    if isinstance(definition, Inverse):
        moved, _ = _apply(definition.body, x, state)
        value, size = held.times(moved), backend.norm(held.base) * backend.norm(moved)
        return backend.norm(value - x) / (size + backend.norm(x))
    wanted = held.times(x)
    value, size = _apply(definition, x, state)
    total = size + backend.norm(wanted)
    return backend.norm(value - wanted) / total if total else 0.0


def _apply(expr: Expr, x: Array, state: State) -> tuple[Array, float]:
    """A flat expression times a vector, and a bound on the size of what went into it."""
    backend = next(iter(state.values())).backend
    match expr:
        case MatMul(left, right):
            inner, _ = _apply(right, x, state)
            outer, size = _apply(left, inner, state)
            return outer, size
        case Scale(factor, body):
            value, size = _apply(body, x, state)
            return factor * value, abs(factor) * size
        case Add(terms):
            value, size = _apply(terms[0], x, state)
            for term in terms[1:]:
                more, its_size = _apply(term, x, state)
                value, size = value + more, size + its_size
            return value, size
        case Matrix(name):
            return state[name].times(x), backend.norm(state[name].base) * backend.norm(x)
        case Transpose(Matrix(name)):
            return state[name].times(x, True), backend.norm(state[name].base) * backend.norm(x)
        case _:
            whole = _part(expr, _ALL, _ALL, state) if not isinstance(expr, Eye) else None
            value = x if whole is None else whole @ x
            return value, backend.norm(value)
