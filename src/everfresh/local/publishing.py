"""A view's change in a batch: captured at once, made into rows when somebody asks for it.

What is captured are the touched entries as they were and as they are: words and values, in memory of their
own. Making rows of them may fail only where an aggregate is outside its type or an expression raises; a batch
that does so must be refused, so it is made at once where that cannot be excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from everfresh.algebra import Kind
from everfresh.delta.values import limits
from everfresh.expr import Call, Case, Cast, Const, Expr, Var
from everfresh.local.pool import Layout, Values
from everfresh.program import View, component_index

_FEW: Final = 8  # values that Python compares faster than NumPy
_ARROW: Final = 10**38 - 1
_ARROW_HIGH: Final = _ARROW >> 64

_SAFE: Final = frozenset({
    "=", "<>", "<", "<=", ">", ">=", "is_distinct", "is_not_distinct", "in", "and", "or", "not", "coalesce",
    "is_null", "/",
})  # fmt: skip
_SAFE_FLOATS: Final = frozenset({"+", "-", "*"})


class Change:
    """The change of a view's rows in one batch, with `_weight`."""

    __slots__ = ("_make", "_table")

    def __init__(self, make: Callable[[], pa.Table]) -> None:
        self._make: Callable[[], pa.Table] | None = make
        self._table: pa.Table | None = None

    @staticmethod
    def of(table: pa.Table) -> Change:
        """One that is made already."""
        change = Change(lambda: table)
        assert change.table is table
        return change

    @property
    def table(self) -> pa.Table:
        """The rows; what they were made from is then forgotten."""
        if self._table is None:
            assert self._make is not None
            self._table, self._make = self._make(), None
        return self._table


class Promise:
    """Whether the rows of a view can be made later, and what has to be looked at now."""

    def __init__(self, view: View, layout: Layout) -> None:
        exprs = [e for e in (*view.outputs, view.having, view.weight) if e is not None]
        self.possible = not view.sides and all(map(_safe, exprs))
        read = {n.name: n.type for e in exprs for n in e.walk() if isinstance(n, Var)}
        sums = [(component_index(n) - 1, t) for n, t in read.items() if n.startswith("#") and "." not in n]
        self._sums = [
            (layout.offsets[i], *limits(type_))
            for i, type_ in sums
            if i >= 0 and layout.kinds[i] == Kind.WIDE
        ]

    def holds(self, values: Values) -> bool:
        """Whether rows of these values can be made without failing."""
        return self.possible and all(fits(values, *sums) for sums in self._sums)


def fits(values: Values, at: int, least: int, most: int) -> bool:
    """Whether sums are surely inside the limits of their type."""
    high, low = values.ints[at], values.ints[at + 1]
    if most == _ARROW:
        if len(high) <= _FEW:
            return all(-_ARROW_HIGH < word < _ARROW_HIGH for word in high.tolist())
        return bool(high.min() > -_ARROW_HIGH and high.max() < _ARROW_HIGH)
    if not len(high):
        return True
    return bool((high == low >> 63).all() and least <= low.min() and low.max() <= most)


def _safe(expr: Expr) -> bool:
    """Whether an expression has a value whatever its variables are."""
    for n in expr.walk():
        match n:
            case Var() | Const() | Case():
                continue
            case Call(op) if op in _SAFE or (op in _SAFE_FLOATS and n.type.is_float):
                continue
            case Cast(arg, to) if to.name == "DOUBLE" and arg.type.is_numeric:
                continue
        return False
    return True
