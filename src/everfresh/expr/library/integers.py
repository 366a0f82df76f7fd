"""Functions of integers: bits, divisors and factorials, exact and checked.

A shift is arithmetic, as in DuckDB: to the left it refuses negative numbers and bits that would fall off, to
the right by the width of the type or more nothing is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import alike, common, is_null_literal, takes
from everfresh.expr.column import Array
from everfresh.expr.library.signature import Function, Signature, check, never_fails
from everfresh.expr.nodes import Expr
from everfresh.types import BIGINT, HUGEINT, INTEGER, SMALLINT, TINYINT, SqlType

_WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}


def _integer(args: Sequence[Expr]) -> SqlType | None:
    if all(is_null_literal(a) for a in args):
        return INTEGER
    found = common(args)
    return found if found is not None and found.is_integer else None


def _bits(least: int) -> Any:
    return alike(lambda t: t if t.is_integer else None, least, least, _integer)


def _shift_left(types: Signature, a: int, n: int) -> int:
    width = _WIDTHS[types.result.name]
    if a < 0:
        raise EverfreshError(Code.OVERFLOW, f"a negative number is not shifted to the left: {a} << {n}")
    if n < 0:
        raise EverfreshError(Code.OVERFLOW, f"a shift to the left is not negative: {a} << {n}")
    if a and n >= width:
        raise EverfreshError(Code.OVERFLOW, f"{a} << {n} is outside {types.result}")
    return check(a << n, types.result, lambda: f"{a} << {n}") if a else 0


def _shift_right(types: Signature, a: int, n: int) -> int:
    return a >> n if 0 <= n < _WIDTHS[types.result.name] else 0


def _paired(fn: Callable[[Array, Array], Array]) -> Callable[..., Array | None]:
    """The vectorised twin of a function of the bits of two integers, where they fit a word."""

    def vector(types: Signature, a: Array, b: Array) -> Array | None:
        return None if types.result == HUGEINT else fn(a, b)

    return vector


def _of_bits(name: str, scalar: Callable[..., int], vector: Callable[[Array, Array], Array]) -> Function:
    return Function(name, _bits(2), scalar, vector=_paired(vector), fails=never_fails)


def _gcd(types: Signature, a: int, b: int) -> int:
    return check(math.gcd(a, b), types.result, lambda: f"gcd({a}, {b})")


def _lcm(types: Signature, a: int, b: int) -> int:
    return check(math.lcm(a, b), types.result, lambda: f"lcm({a}, {b})")


def _factorial(_: Signature, n: int) -> int:
    if n < 0:
        raise EverfreshError(Code.OVERFLOW, f"the factorial of {n} is not defined")
    if n > 33:
        raise EverfreshError(Code.OVERFLOW, f"the factorial of {n} is outside HUGEINT")
    return math.factorial(n)


def _binom(types: Signature, n: int, k: int) -> int:
    if n < 0 or k < 0:
        raise EverfreshError(Code.OVERFLOW, f"binom({n}, {k}) is not defined")
    if min(k, n - k) > 128:
        raise EverfreshError(Code.OVERFLOW, f"binom({n}, {k}) is outside HUGEINT")
    return check(math.comb(n, k), types.result, lambda: f"binom({n}, {k})")


def _bit_count(types: Signature, a: int) -> int:
    return (a % (1 << _WIDTHS[types.args[0].name])).bit_count()


_DIVISORS = takes(((BIGINT, BIGINT), BIGINT), ((HUGEINT, HUGEINT), HUGEINT))
_COUNTS = takes(*(((of,), TINYINT) for of in (TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT)))

ROWS = (
    Function(
        "bitwise_and", _bits(2), lambda types, a, b: a & b, vector=_paired(np.bitwise_and), fails=never_fails
    ),
    Function(
        "bitwise_or", _bits(2), lambda types, a, b: a | b, vector=_paired(np.bitwise_or), fails=never_fails
    ),
    Function(
        "bitwise_xor", _bits(2), lambda types, a, b: a ^ b, vector=_paired(np.bitwise_xor), fails=never_fails
    ),
    Function("bitwise_not", _bits(1), lambda types, a: ~a, fails=never_fails),
    Function("shift_left", _bits(2), _shift_left),
    Function("shift_right", _bits(2), _shift_right, fails=never_fails),
    Function("bit_count", _COUNTS, _bit_count, fails=never_fails),
    Function("gcd", _DIVISORS, _gcd),
    Function("lcm", _DIVISORS, _lcm),
    Function("binom", takes(((INTEGER, INTEGER), HUGEINT)), _binom),
    Function("factorial", takes(((INTEGER,), HUGEINT)), _factorial),
)
