"""The nodes of linear algebra programs (section 6.2): named matrices and the operators over them.

Invariant: a node knows its `shape`, and one whose operands do not fit cannot be built: the constructor
raises an `EverfreshError` that names the operation and both shapes.

| text | node |
|---|---|
| `A` | `Matrix` |
| `eye(n)`, `zeros(n, m)`, `mat(1, 2; 3, 4)` | `Eye`, `Zeros`, `Constant` |
| `A + B`, `A - B` | `Add`; a difference adds `Scale(-1, B)` |
| `A B` | `MatMul` |
| `2 A`, `-A` | `Scale` |
| `A'`, `inv(A)` | `Transpose`, `Inverse` |
| `[A, B]`, `[A; B]` | `Stack`, side by side and one above the other |
| `power(A, k)`, `sum_of_powers(A, k)`, `iterate(A, T, B, k)` | `Power`, `PowerSum`, `Iterate`: section 6.4 |
"""

from __future__ import annotations

import math
import re
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node, node

Shape = tuple[int, int]
CONSTANT_LIMIT = 10_000  # entries of a matrix that is part of a program's text
_WORDS = "inv eye zeros mat power sum_of_powers iterate input static output ON MATRIX LET"
RESERVED = frozenset(_WORDS.split())
MODEL = re.compile(r"auto|linear|exponential|skip-[1-9]\d*")
_NAME = re.compile(r"[^\W\d]\w*")


def shown(shape: Shape) -> str:
    """A shape as errors write it: `3 x 4`."""
    return f"{shape[0]} x {shape[1]}"


class Expr(Node):
    """An expression over matrices; `+ - @ .T` and `*` by a number build larger ones."""

    shape: Shape
    __array_ufunc__ = None  # NumPy arrays leave `array @ expr` to us

    def check(self) -> None:
        """Find the shape, or raise if the operands do not fit."""
        object.__setattr__(self, "shape", self._shape())

    def _shape(self) -> Shape:
        raise NotImplementedError

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes directly below, found once."""
        found: tuple[Node, ...] | None = self.__dict__.get("_children")
        if found is None:
            found = super().children
            object.__setattr__(self, "_children", found)
        return found

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.shape[0]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.shape[1]

    @property
    def T(self) -> Expr:
        """The transpose."""
        return Transpose(self)

    def __add__(self, other: Any) -> Expr:
        return Add((self, as_expr(other)))

    def __radd__(self, other: Any) -> Expr:
        return Add((as_expr(other), self))

    def __sub__(self, other: Any) -> Expr:
        return Add((self, Scale(-1.0, as_expr(other))))

    def __rsub__(self, other: Any) -> Expr:
        return Add((as_expr(other), Scale(-1.0, self)))

    def __neg__(self) -> Expr:
        return Scale(-1.0, self)

    def __matmul__(self, other: Any) -> Expr:
        return MatMul(self, as_expr(other))

    def __rmatmul__(self, other: Any) -> Expr:
        return MatMul(as_expr(other), self)

    def __mul__(self, other: Any) -> Expr:
        return Scale(_scalar(other), self)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expr:
        return Scale(1.0 / _scalar(other), self)

    def __str__(self) -> str:
        from everfresh.linalg.lang.text import to_text

        return to_text(self)


def _scalar(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise EverfreshError(
            Code.TYPE,
            f"'*' takes a number, not {type(value).__name__}",
            hint="matrices are multiplied with @",
        ) from None


def as_expr(value: Any) -> Expr:
    """An operand as an expression: itself, or a small array of numbers as a constant."""
    if isinstance(value, Expr):
        return value
    shape = getattr(value, "shape", None)
    if shape is None and isinstance(value, (int, float)):
        raise EverfreshError(
            Code.TYPE,
            f"the number {value} cannot be added to or multiplied with a matrix by + - @",
            hint="write value * eye(n) for a multiple of the identity, or value * A to scale",
        )
    rows = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(rows, (list, tuple)) or not rows or not isinstance(rows[0], (list, tuple)):
        raise EverfreshError(
            Code.TYPE, f"{type(value).__name__} is no matrix", hint="a matrix has two dimensions"
        )
    return Constant(tuple(tuple(float(x) for x in row) for row in rows))


@node
class Matrix(Expr):
    """A named matrix: an input, a view, or a factor of a change."""

    name: str
    height: int
    width: int

    def _shape(self) -> Shape:
        if not _NAME.fullmatch(self.name) or self.name in RESERVED:
            raise EverfreshError(
                Code.ARGUMENT,
                f"'{self.name}' cannot be the name of a matrix",
                hint="use letters, digits and _",
            )
        return _sizes(self.name, self.height, self.width)


@node
class Eye(Expr):
    """The identity."""

    size: int

    def _shape(self) -> Shape:
        return _sizes("eye", self.size, self.size)


@node
class Zeros(Expr):
    """A matrix of zeros."""

    height: int
    width: int

    def _shape(self) -> Shape:
        return _sizes("zeros", self.height, self.width)


@node
class Constant(Expr):
    """A small dense matrix given with the program."""

    values: tuple[tuple[float, ...], ...]

    def _shape(self) -> Shape:
        widths = {len(row) for row in self.values}
        if len(widths) != 1 or not self.values[0]:
            raise EverfreshError(Code.TYPE, "the rows of a constant matrix differ in length")
        if len(self.values) * len(self.values[0]) > CONSTANT_LIMIT:
            raise EverfreshError(
                Code.ARGUMENT,
                f"a constant of {shown((len(self.values), widths.pop()))} is too large for a program",
                hint="make it an input that is declared static",
            )
        return len(self.values), len(self.values[0])


@node
class Add(Expr):
    """A sum of two or more matrices of one shape."""

    terms: tuple[Expr, ...]

    def _shape(self) -> Shape:
        if len(self.terms) < 2:
            raise ValueError("a sum has two terms or more")
        first = self.terms[0]
        for term in self.terms[1:]:
            if term.shape != first.shape:
                why = "both need the same shape"
                if isinstance(term, Scale) and term.factor == -1.0:
                    raise _misfit("subtract", term.body, "from", first, why)
                raise _misfit("add", term, "to", first, why)
        return first.shape


@node
class MatMul(Expr):
    """A product."""

    left: Expr
    right: Expr

    def _shape(self) -> Shape:
        if self.left.columns != self.right.rows:
            why = f"the inner dimensions {self.left.columns} and {self.right.rows} differ"
            raise _misfit("multiply", self.left, "by", self.right, why)
        return self.left.rows, self.right.columns


@node
class Scale(Expr):
    """A number times a matrix."""

    factor: float
    body: Expr

    def _shape(self) -> Shape:
        if not math.isfinite(self.factor):
            raise EverfreshError(Code.VALUE, f"a matrix cannot be multiplied by {self.factor}")
        return self.body.shape


@node
class Transpose(Expr):
    """The transpose."""

    body: Expr

    def _shape(self) -> Shape:
        return self.body.columns, self.body.rows


@node
class Inverse(Expr):
    """The inverse of a square matrix."""

    body: Expr

    def _shape(self) -> Shape:
        return _square("invert", self.body)


@node
class Stack(Expr):
    """Blocks side by side (`axis` 1) or one above the other (`axis` 0)."""

    parts: tuple[Expr, ...]
    axis: int = 1

    def _shape(self) -> Shape:
        if len(self.parts) < 2:
            raise ValueError("a stack has two parts or more")
        along, across = self.axis, 1 - self.axis
        first = self.parts[0]
        for part in self.parts[1:]:
            if part.shape[across] != first.shape[across]:
                word = "beside" if along else "below"
                raise _misfit("put", part, word, first, "their other dimension differs")
        total = sum(part.shape[along] for part in self.parts)
        return (first.rows, total) if along else (total, first.columns)


@node
class Power(Expr):
    """A to the k, evaluated in an iterative model (Table 6.1)."""

    body: Expr
    k: int
    model: str = "auto"

    def _shape(self) -> Shape:
        _iterative("power", self.k, self.model)
        return _square("take a power of", self.body)


@node
class PowerSum(Expr):
    """I + A + ... + A^(k-1), evaluated in an iterative model (Table 6.1)."""

    body: Expr
    k: int
    model: str = "auto"

    def _shape(self) -> Shape:
        _iterative("sum_of_powers", self.k, self.model)
        return _square("sum the powers of", self.body)


@node
class Iterate(Expr):
    """T := A T + B, k times from T = `start`; without `offset` B is zero (section 6.4.3)."""

    body: Expr
    start: Expr
    offset: Expr | None
    k: int
    model: str = "auto"

    def _shape(self) -> Shape:
        _iterative("iterate", self.k, self.model)
        _square("iterate with", self.body)
        if self.body.columns != self.start.rows:
            why = f"the inner dimensions {self.body.columns} and {self.start.rows} differ"
            raise _misfit("iterate: multiply", self.body, "by", self.start, why)
        if self.offset is not None and self.offset.shape != self.start.shape:
            raise _misfit("iterate: add", self.offset, "to", self.start, "both need the same shape")
        return self.start.shape


ITERATIVE = (Power, PowerSum, Iterate)


def _iterative(what: str, k: int, model: str) -> None:
    if k < 1:
        raise EverfreshError(Code.ARGUMENT, f"{what} needs k of at least 1, not {k}")
    if not MODEL.fullmatch(model):
        raise EverfreshError(
            Code.ARGUMENT,
            f"there is no iterative model '{model}'",
            hint="models are: auto, linear, exponential, skip-4 (any s)",
        )


def _sizes(name: str, height: int, width: int) -> Shape:
    if height < 0 or width < 0:
        raise EverfreshError(Code.ARGUMENT, f"{name} cannot have the shape {shown((height, width))}")
    return height, width


def _square(word: str, body: Expr) -> Shape:
    if body.rows != body.columns:
        raise EverfreshError(
            Code.TYPE,
            f"cannot {word} {_brief(body)} ({shown(body.shape)}): it is not square",
            place=_brief(body, 200),
        )
    return body.shape


def _misfit(word: str, a: Expr, joint: str, b: Expr, why: str) -> EverfreshError:
    return EverfreshError(
        Code.TYPE,
        f"cannot {word} {_brief(a)} ({shown(a.shape)}) {joint} {_brief(b)} ({shown(b.shape)}): {why}",
    )


def _brief(expr: Expr, limit: int = 40) -> str:
    text = str(expr)
    return text if len(text) <= limit else text[: limit - 3] + "..."
