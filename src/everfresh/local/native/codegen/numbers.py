"""The weight of a row in generated code: a count and k values, each a word or a three-term sum of doubles.

The same products in the same order as `weights`; a product beyond a word is `bad`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everfresh.algebra import Kind
from everfresh.local.native.codegen.lines import Lines
from everfresh.local.native.codegen.scalars import Unsupported, Val, form


def checked(out: Lines, op: str, a: str, b: str) -> str:
    """The name of a sum, difference or product of words (`add`, `sub`, `mul`); `bad` if it is none."""
    name, flag = out.fresh("n"), out.fresh("n")
    out.add(f"{name}, {flag} = {op}_checked({a}, {b})", f"bad |= {flag}")
    return name


@dataclass(frozen=True, slots=True)
class Number:
    """A word, or three terms; `sure` are the bounds of a word that is known to be small."""

    terms: tuple[str, ...]

    @property
    def is_float(self) -> bool:
        """Whether it is a sum of doubles."""
        return len(self.terms) == 3

    @property
    def nonzero(self) -> str | None:
        """The test whether it is not zero; None if it is."""
        if self.terms == ("0",):
            return None
        return " or ".join(f"{term} != 0" for term in self.terms)

    @staticmethod
    def whole(code: str) -> Number:
        """A word."""
        return Number((code,))

    @staticmethod
    def of(value: Val, out: Lines) -> Number:
        """The value of an expression, which is never NULL."""
        kind = form(value.type)
        if kind == "f":
            return Number((out.let(value.code), "0.0", "0.0"))
        if kind != "i":
            raise Unsupported("a value that is no number")
        if value.null is not None:
            out.add(f"if {value.null}: bad = 1")
        return Number((out.let(value.code),))

    @staticmethod
    def stored(out: Lines, kind: Kind, where: Sequence[str], at: int, slot: str) -> Number:
        """A component of an entry, from row `at` of a matrix with this address and width."""
        base, cap = where
        rows = [f"{at + i} * {cap} + {slot}" for i in range((1, 2, 3)[kind])]
        if kind == Kind.FLOAT:
            return Number(tuple(out.let(f"ldf({base}, {row})", "x") for row in rows))
        word = out.let(f"ld({base}, {rows[-1]})", "n")
        if kind == Kind.WIDE:
            out.add(f"if ld({base}, {rows[0]}) != ({word} >> 63): bad = 1")
        return Number((word,))


class Product:
    """What the factors so far multiply a row by: as `weights.Weights`."""

    def __init__(self, out: Lines, k: int) -> None:
        self._out = out
        self.common: Number | None = None
        self.n: Number | None = None
        self.values: list[Number | None] = [None] * k

    def times_all(self, factor: Number) -> None:
        """Multiply the count and every value."""
        self.common = self.times(self.common, factor)

    def times_each(self, n: Number | None, values: Sequence[Number | None]) -> None:
        """Multiply the count by `n` and each value by its own factor."""
        self.n = self.times(self.n, n)
        self.values = [self.times(v, w) for v, w in zip(self.values, values, strict=True)]

    def times(self, a: Number | None, b: Number | None) -> Number | None:
        """The product."""
        if a is None or b is None:
            return b if a is None else a
        out = self._out
        if a.is_float or b.is_float:
            names = [out.fresh("x") for _ in range(3)]
            factors = ", ".join((*self._cascade(a), *self._cascade(b)))
            out.add(f"{', '.join(names)} = cascade_times({factors})")
            return Number(tuple(names))
        if "0" in (a.terms[0], b.terms[0]):
            return Number.whole("0")
        return Number((checked(out, "mul", a.terms[0], b.terms[0]),))

    def _cascade(self, number: Number) -> tuple[str, ...]:
        if number.is_float:
            return number.terms
        high, low = self._out.fresh("x"), self._out.fresh("x")
        self._out.add(f"{high}, {low} = two_doubles({number.terms[0]})")
        return high, low, "0.0"

    def final(self, kinds: Sequence[Kind]) -> tuple[str, list[tuple[str, ...]]]:
        """The count, and the terms of each value in the form of its kind."""
        count = self.times(self.common, self.n) or Number.whole("1")
        if count.is_float:
            raise Unsupported("a double is added to a count")
        values: list[tuple[str, ...]] = []
        for kind, value in zip(kinds, self.values, strict=True):
            number = self.times(self.common, value) or Number.whole("1")
            if kind == Kind.FLOAT:
                values.append(self._cascade(number))
            elif number.is_float:
                raise Unsupported("a double is added to an exact sum")
            else:
                values.append(number.terms)
        return count.terms[0], values
