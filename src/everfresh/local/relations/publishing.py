"""A view's change in a batch: captured at once, made into rows when somebody asks for it.

What is captured are the touched entries as they were and as they are: words and values, in memory of their
own. Making rows of them may fail only where an aggregate is outside its type or an expression raises; a batch
that does so must be refused, so it is made at once where that cannot be excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.delta.values import limits
from everfresh.expr import Call, Case, Const, Expr, Var
from everfresh.expr.total import fails
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Layout, Values
from everfresh.local.store.strings import Alive
from everfresh.program import View, component, component_index, side_of

Ints = NDArray[np.int64]
_WORD: Final = (1 << 62) - 1
_FEW: Final = 8  # values that Python compares faster than NumPy
_ARROW: Final = 10**38 - 1
_ARROW_HIGH: Final = _ARROW >> 64

_SUMS: Final = frozenset({"+", "-", "*"})


class Change:
    """The change of a view's rows in one batch, with `_weight`."""

    __slots__ = ("_held", "_make", "_table")

    def __init__(self, make: Callable[[], pa.Table], held: Sequence[tuple[Codec, Ints]]) -> None:
        self._make: Callable[[], pa.Table] | None = make
        self._table: pa.Table | None = None
        self._held = held
        """The words that the rows will be made from."""

    def mark(self, alive: Alive) -> None:
        """Say which strings are used: see `reclaim`."""
        if self._table is None:
            for codec, words in self._held:
                codec.mark(words, alive)

    @staticmethod
    def of(table: pa.Table) -> Change:
        """One that is made already."""
        change = Change(lambda: table, ())
        assert change.table is table
        return change

    @property
    def table(self) -> pa.Table:
        """The rows; what they were made from is then forgotten."""
        if self._table is None:
            assert self._make is not None
            self._table, self._make, self._held = self._make(), None, ()
        return self._table


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """The places of sums among values, and the least and greatest that each may be."""

    sums: tuple[tuple[int, int, int], ...]

    def hold(self, values: Values) -> bool:
        """Whether all are surely inside."""
        for at, least, most in self.sums:  # noqa: SIM110 - for each view in each batch: all() takes longer
            if not fits(values, at, least, most):
                return False
        return True


class Promise:
    """Whether the rows of a view can be made later, and what has to be looked at now.

    Products and sums of exact numbers may leave their type: whether they do is judged by the largest of the
    sums that they are made of.
    """

    def __init__(self, view: View, layout: Layout) -> None:
        exprs = [e for e in (*view.outputs, view.having, view.weight) if e is not None]
        self.possible = not view.sides and all(map(_safe, exprs))
        self._exact = [e for e in exprs if any(isinstance(n, Call) and _bounded(n) for n in e.walk())]
        self._layout = layout
        read = {n.name: n.type for e in exprs for n in e.walk() if isinstance(n, Var)}
        sums = [(component_index(n) - 1, t) for n, t in read.items() if side_of(n) == 0]
        self._sums = ValueLimits(
            tuple(
                (layout.offsets[i], *limits(type_))
                for i, type_ in sums
                if i >= 0 and layout.kinds[i] == Kind.WIDE
            )
        )

    @property
    def limits(self) -> ValueLimits | None:
        """What has to be looked at, if that is no more than sums: the same for views that are alike."""
        return None if not self.possible or self._exact else self._sums

    def holds(self, values: Values) -> bool:
        """Whether rows of these values can be made without failing."""
        if not self.possible or not self._sums.hold(values):
            return False
        if not self._exact:
            return True
        largest = self._largest(values)
        return all(_within(e, largest) for e in self._exact)

    def _largest(self, values: Values) -> dict[str, int]:
        """The largest absolute value of the count and of each exact sum, by the name that expressions have
        for it; those of words."""
        found = {component(0): _largest(values.n)}
        for i, (kind, at) in enumerate(zip(self._layout.kinds, self._layout.offsets, strict=True), 1):
            if kind == Kind.COUNT:
                found[component(i)] = _largest(values.ints[at])
            elif kind == Kind.WIDE and fits(values, at, -_WORD, _WORD):
                found[component(i)] = _largest(values.ints[at + 1])
        return found


def _largest(words: Ints) -> int:
    return max(-int(words.min()), int(words.max())) if len(words) else 0


def _bounded(call: Call) -> bool:
    """Whether a call is safe where its result is inside its type."""
    return call.op in _SUMS and call.type.is_exact


def _within(expr: Expr, largest: Mapping[str, int]) -> bool:
    """Whether all sums and products in an expression stay inside their types."""
    return all(_bound(n, largest) is not None for n in expr.walk() if isinstance(n, Call) and _bounded(n))


def _bound(expr: Expr, largest: Mapping[str, int]) -> int | None:
    """What the unscaled absolute value of an exact expression does not exceed; None if that is not known, or
    is beyond its type."""
    match expr:
        case Var(name):
            return largest.get(name)
        case Const(value):
            return 0 if value is None else abs(int(value)) if isinstance(value, int) else None
        case Case(arms, default):
            return _most([_bound(e, largest) for e in (*(e for _, e in arms), default)])
        case Call("*", (a, b)) if _scale(expr) == _scale(a) + _scale(b):
            x, y = _bound(a, largest), _bound(b, largest)
            found = None if x is None or y is None else x * y
        case Call("+" | "-", (a, b)) if _scale(expr) >= max(_scale(a), _scale(b)):
            x, y = _bound(a, largest), _bound(b, largest)
            top = _scale(expr)
            found = (
                None if x is None or y is None else x * 10 ** (top - _scale(a)) + y * 10 ** (top - _scale(b))
            )
        case _:
            return None
    return found if found is not None and found <= limits(expr.type)[1] else None


def _most(bounds: Sequence[int | None]) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) else None


def _scale(expr: Expr) -> int:
    return expr.type.scale


def fits(values: Values, at: int, least: int, most: int) -> bool:
    """Whether sums are surely inside the limits of their type."""
    high, low = values.ints[at], values.ints[at + 1]
    if not len(high):
        return True
    if most == _ARROW:
        if len(high) <= _FEW:
            words = high.tolist()
            return bool(min(words) > -_ARROW_HIGH and max(words) < _ARROW_HIGH)
        return bool(high.min() > -_ARROW_HIGH and high.max() < _ARROW_HIGH)
    return bool((high == low >> 63).all() and least <= low.min() and low.max() <= most)


def shown(codec: Codec, words: Ints) -> bool:
    """Whether the integers of two words in some rows surely have an Arrow form, which ends before they do."""
    huge = codec.huge
    return not huge or all(((words[at] > -_ARROW_HIGH) & (words[at] < _ARROW_HIGH)).all() for at in huge)


def _safe(expr: Expr) -> bool:
    """Whether an expression has a value whatever its variables are, if sums and products of exact numbers
    stay inside their types."""
    nodes = (n for n in expr.walk() if isinstance(n, Expr) and not (isinstance(n, Call) and _bounded(n)))
    return not any(map(fails, nodes))
