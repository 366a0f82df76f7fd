"""Dimensions that grow and shrink: which of a program's are one, and which stored rows are in use.

The rows of X and of Y are one dimension in X' Y. When rows are appended to both, everything with that
dimension grows. Stored arrays have spare rows that are zero; zero rows change no sum or product, so an
append is an ordinary low-rank update of rows that were spare, and a deletion one that makes rows zero and
gives them up. Invariant: spare rows are zero in every stored matrix. A dimension on which `inv`, `eye`,
`zeros`, a constant or a stack depends is *rigid*: a change of it re-evaluates the program instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.linalg.compiler.flatten import Flat
from everfresh.linalg.lang.nodes import (
    Add,
    Constant,
    Expr,
    Eye,
    Inverse,
    MatMul,
    Matrix,
    Scale,
    Shape,
    Stack,
    Transpose,
    Zeros,
)
from everfresh.linalg.lang.source import Source
from everfresh.linalg.lang.trees import substitute

Dim = tuple[str, int]  # a matrix and its axis
Index = np.ndarray[Any, Any]


class Dimensions:
    """The dimensions of a flat program, as classes of (matrix, axis)."""

    def __init__(self, flat: Flat) -> None:
        self._parent: dict[Dim, Dim] = {}
        self._rigid: set[Dim] = set()
        self._fresh = 0
        for name, expr in flat.statements:
            rows, columns = self._of(expr)
            self._join(rows, (name, 0))
            self._join(columns, (name, 1))

    def of(self, name: str, axis: int) -> Dim:
        """The class of a matrix's axis."""
        return self._find((name, axis))

    def rigid(self, dim: Dim) -> bool:
        """Whether something depends on the dimension's size."""
        return self._find(dim) in {self._find(d) for d in self._rigid}

    def _find(self, dim: Dim) -> Dim:
        while (up := self._parent.get(dim, dim)) != dim:
            dim = up
        return dim

    def _join(self, a: Dim, b: Dim) -> Dim:
        a, b = self._find(a), self._find(b)
        if a != b:
            self._parent[max(a, b)] = min(a, b)
        return min(a, b)

    def _new(self) -> Dim:
        """A dimension of no matrix, rigid."""
        self._fresh += 1
        dim = ("", self._fresh)
        self._rigid.add(dim)
        return dim

    def _of(self, expr: Expr) -> tuple[Dim, Dim]:
        match expr:
            case Matrix(name):
                return (name, 0), (name, 1)
            case Transpose(body):
                rows, columns = self._of(body)
                return columns, rows
            case Scale(_, body):
                return self._of(body)
            case MatMul(left, right):
                a, b = self._of(left), self._of(right)
                self._join(a[1], b[0])
                return a[0], b[1]
            case Add(terms):
                rows, columns = self._of(terms[0])
                for other in (self._of(t) for t in terms[1:]):
                    rows, columns = self._join(rows, other[0]), self._join(columns, other[1])
                return rows, columns
            case Inverse(body):
                dim = self._join(self._join(*self._of(body)), self._new())
                return dim, dim
            case Eye():
                dim = self._new()
                return dim, dim
            case Zeros() | Constant():
                return self._new(), self._new()
            case Stack(parts, axis):
                across = self._new()
                for part in (self._of(p) for p in parts):
                    self._join(part[axis], self._new())
                    self._join(across, part[1 - axis])
                along = self._new()
                return (across, along) if axis else (along, across)
        raise TypeError(f"{type(expr).__name__} has no dimensions")


@dataclass(slots=True)
class Slots:
    """The stored rows in use of one dimension, in the user's order, out of `size`."""

    index: Index
    size: int

    @property
    def whole(self) -> bool:
        """Whether every stored row is in use and in order."""
        return len(self.index) == self.size and bool((self.index == np.arange(self.size)).all())

    def spare(self, count: int) -> Index | None:
        """The first stored rows that are not in use; None if there are too few."""
        free = np.setdiff1d(np.arange(self.size), self.index, assume_unique=True)
        return free[:count] if len(free) >= count else None


def grown(size: int, needed: int) -> int:
    """The size that a dimension gets when it needs more rows: half as many again.

    >>> grown(100, 101), grown(100, 400)
    (150, 400)
    """
    return max(needed, size + max(16, size // 2))


def resize(source: Source, shapes: dict[str, Shape]) -> Source:
    """The program for inputs of other shapes."""
    inputs = tuple(Matrix(m.name, *shapes.get(m.name, m.shape)) for m in source.inputs)
    env: dict[str, Expr] = {m.name: m for m in inputs}
    statements = []
    for name, expr in source.statements:
        new = substitute(expr, env)
        statements.append((name, new))
        env[name] = Matrix(name, *new.shape)
    return Source(inputs, tuple(statements), source.outputs, source.static)
