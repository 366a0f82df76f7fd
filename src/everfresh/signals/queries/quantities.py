"""Numbers that a user gave: whole ones and coefficients, also as scalars and arrays of NumPy.

A query has numbers of Python, which print as they are read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from everfresh.errors import Code, EverfreshError


def whole(value: Any, what: str) -> int:
    """A whole number.

    >>> import numpy as np
    >>> whole(np.int64(3), "size")
    3
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise EverfreshError(Code.ARGUMENT, f"{what} is {value!r}, which is no whole number")


def number(value: Any, what: str = "") -> float | complex:
    """A real or a complex number."""
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(plain, complex):
        return plain
    try:
        if not isinstance(plain, bool | str | bytes):
            return float(plain)
    except (TypeError, ValueError):
        pass
    raise EverfreshError(Code.ARGUMENT, f"{what} is {value!r}, which is no number".removeprefix(" is "))


def real(value: Any, what: str = "") -> float:
    """A real number."""
    found = number(value, what)
    if isinstance(found, complex):
        raise EverfreshError(Code.ARGUMENT, f"{what or 'this'} is {value!r}, which is not real")
    return found


def numbers(given: Any, what: str) -> tuple[float | complex, ...]:
    """Real or complex numbers, one at least."""
    found = tuple(number(each, what) for each in _items(given, what))
    if not found:
        raise EverfreshError(Code.ARGUMENT, f"{what} has at least one number")
    return found


def reals(given: Any, what: str) -> tuple[float, ...]:
    """Real numbers."""
    return tuple(real(each, what) for each in _items(given, what))


def _items(given: Any, what: str) -> Iterable[Any]:
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise EverfreshError(Code.ARGUMENT, f"{what} is {given!r}, where numbers are wanted")
    return given  # type: ignore[no-any-return]
