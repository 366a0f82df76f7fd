"""The weights of a statement in progress: a count and k values per row, as exact numbers.

A column of numbers is an int64 array, an object array of Python integers where 64 bits are not enough, or a
`Cascade` of doubles; None is 1 in every row. What multiplies the count and all values alike is kept once
(`common`). Products of integers are exact; products with doubles have an error far below their last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.local.kernels import exact_products
from everfresh.local.store.components import wide_from_int64, wide_from_python, wide_to_python
from everfresh.local.store.pool import Layout, Values

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cascade:
    """Doubles as sums of three terms, `[3, rows]`."""

    terms: NDArray[np.float64]

    def __getitem__(self, index: Any) -> Cascade:
        return Cascade(self.terms[:, index])


Number = NDArray[Any] | Cascade
"""int64, Python integers, or doubles."""


def from_vector(vector: Vector) -> Number:
    """The numbers of a column without NULLs."""
    values = vector.values
    if vector.valid is not None and not vector.valid.all():
        raise ValueError("a value term is NULL: it must be guarded")
    if vector.type.is_float:
        terms = np.zeros((3, len(values)))
        terms[0] = values
        return Cascade(terms)
    return _narrow(values) if values.dtype == object else values.astype(np.int64, copy=False)


def from_words(kind: Kind, words: Sequence[NDArray[Any]]) -> Number:
    """A component as a pool holds it."""
    if kind == Kind.FLOAT:
        return Cascade(np.array(words))
    if kind == Kind.COUNT:
        return words[0]
    high, low = words
    if (high == low >> 63).all():
        return low
    return _objects(wide_to_python(high, low))


def _objects(values: Sequence[int]) -> NDArray[Any]:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Python integers as int64 if they all fit."""
    try:
        return np.array(values.tolist(), np.int64)
    except OverflowError:
        return values


def times(a: Number | None, b: Number | None) -> Number | None:
    """The product, row by row."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Cascade) or isinstance(b, Cascade):
        x, y = _cascade(a).terms, _cascade(b).terms
        out = np.empty_like(x)
        exact_products.cascade_product(np.ascontiguousarray(x), np.ascontiguousarray(y), out)
        return Cascade(out)
    if a.dtype != object and b.dtype != object:
        made = np.empty(len(a), np.int64)
        if exact_products.multiply(np.ascontiguousarray(a), np.ascontiguousarray(b), made):
            return made
    return _narrow(a.astype(object) * b.astype(object))


def _cascade(x: Number) -> Cascade:
    if isinstance(x, Cascade):
        return x
    terms = np.zeros((3, len(x)))
    if x.dtype == object:
        rest = x.tolist()
        for term in terms:
            term[:] = [float(v) for v in rest]
            rest = [v - int(t) for v, t in zip(rest, term.tolist(), strict=True)]
    else:
        exact_products.split(np.ascontiguousarray(x), terms[0], terms[1])
    return Cascade(terms)


@dataclass(slots=True)
class Weights:
    """Count and k values of each row: `common` times `n` for the count, times `values[i]` for a value."""

    rows: int
    common: Number | None = None
    n: Number | None = None
    values: list[Number | None] = field(default_factory=list)

    def take(self, index: Any, rows: int) -> Weights:
        """Some rows."""
        return Weights(
            rows, _at(self.common, index), _at(self.n, index), [_at(v, index) for v in self.values]
        )

    def times_all(self, factor: Number) -> None:
        """Multiply the count and every value."""
        self.common = times(self.common, factor)

    def times_each(self, n: Number | None, values: Sequence[Number | None]) -> None:
        """Multiply the count by `n` and each value by its own factor."""
        self.n = times(self.n, n)
        self.values = [times(v, w) for v, w in zip(self.values, values, strict=True)]

    def pool_values(self, layout: Layout) -> Values:
        """The weights in the form of a pool with these kinds."""
        out = Values.zeros(layout, self.rows)
        out.n[:] = _count(times(self.common, self.n))
        for kind, at, value in zip(layout.kinds, layout.offsets, self.values, strict=True):
            number = times(self.common, value)
            if kind == Kind.FLOAT:
                out.floats[at : at + 3] = (
                    np.ones((1, self.rows)) * [[1], [0], [0]] if number is None else _cascade(number).terms
                )
            elif kind == Kind.COUNT:
                out.ints[at] = _count(number)
            else:
                out.ints[at], out.ints[at + 1] = _wide(number, self.rows)
        return out

    def layout(self) -> Layout:
        """Kinds that hold the weights as they are."""
        kinds = [
            Kind.FLOAT if isinstance(v, Cascade) or isinstance(self.common, Cascade) else Kind.WIDE
            for v in self.values
        ]
        return Layout(tuple(kinds))


def _at(number: Number | None, index: Any) -> Number | None:
    return None if number is None else number[index]


def _count(number: Number | None) -> Any:
    if number is None:
        return 1
    if isinstance(number, Cascade):
        raise TypeError("a double is added to a count")
    if number.dtype == object:
        raise _overflow()
    return number


def _wide(number: Number | None, rows: int) -> tuple[Ints, Ints]:
    if number is None:
        number = np.ones(rows, np.int64)
    if isinstance(number, Cascade):
        raise TypeError("a double is added to an exact sum")
    if number.dtype != object:
        return wide_from_int64(number)
    try:
        return wide_from_python(number.tolist())
    except OverflowError:
        raise _overflow() from None


def _overflow() -> EverfreshError:
    return EverfreshError(
        Code.OVERFLOW, "a sum is out of range", hint="the batch has too many copies of one large value"
    )
