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

from everfresh.linalg.kernels.backend import Array, Backend
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
from everfresh.linalg.lang.trees import distinct
from everfresh.linalg.run.pending import Held

BLOCK = 8
State = Mapping[str, Held]
_ALL = slice(None)


def sample(name: str, definition: Expr, state: State, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """The squares of a random block's residual and of the size to divide it by; None if it is empty."""
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


def inner(definition: Expr) -> int:
    """The terms of the sums that a block of a flat definition is computed by."""
    return max((n.left.columns for n in distinct(definition) if isinstance(n, MatMul)), default=0)


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


class Probe:
    """Compares whole views with their definitions on a random vector; each product is taken once."""

    def __init__(self, state: State, rng: np.random.Generator) -> None:
        self.state = state
        self.rng = rng
        self.backend = next(iter(state.values())).backend
        self._vectors: dict[int, Array] = {}
        self._products: dict[tuple[str, bool], Array] = {}

    def residual(self, name: str, definition: Expr) -> float:
        """The relative residual of one view."""
        held, norm = self.state[name], self.backend.norm
        if not all(held.shape):
            return 0.0
        x = self._vector(held.shape[1])
        if isinstance(definition, Inverse):
            moved, _ = self._apply(definition.body, x)
            size = norm(self._direct(name, False)) * norm(moved) / norm(x)
            return norm(held.times(moved) - x) / (size + norm(x))
        wanted = self._direct(name, False)
        value, size = self._apply(definition, x)
        total = size + norm(wanted)
        return norm(value - wanted) / total if total else 0.0

    def _vector(self, size: int) -> Array:
        if size not in self._vectors:
            like = next(iter(self.state.values())).base
            self._vectors[size] = self.backend.asarray(self.rng.standard_normal((size, 1)), like)
        return self._vectors[size]

    def _direct(self, name: str, turned: bool) -> Array:
        """A stored matrix times the random vector: about as long as its Frobenius norm."""
        if (name, turned) not in self._products:
            held = self.state[name]
            self._products[name, turned] = held.times(self._vector(held.shape[0 if turned else 1]), turned)
        return self._products[name, turned]

    def _apply(self, expr: Expr, x: Array) -> tuple[Array, float]:
        """A flat expression times a vector, and about the size of what went into it."""
        norm = self.backend.norm
        match expr:
            case MatMul(left, right):
                return self._apply(left, self._apply(right, x)[0])
            case Scale(factor, body):
                value, size = self._apply(body, x)
                return factor * value, abs(factor) * size
            case Add(terms):
                parts = [self._apply(term, x) for term in terms]
                total = parts[0][0]
                for value, _ in parts[1:]:
                    total = total + value
                return total, sum(size for _, size in parts)
            case Matrix(name) | Transpose(Matrix(name)):
                turned = isinstance(expr, Transpose)
                direct = self._direct(name, turned)
                if x is self._vectors.get(x.shape[0]):
                    return direct, norm(direct)
                return self.state[name].times(x, turned), norm(direct) * norm(x) / x.shape[0] ** 0.5
            case Eye():
                return x, norm(x)
            case _:
                value = _part(expr, _ALL, _ALL, self.state) @ x
                return value, norm(value)
