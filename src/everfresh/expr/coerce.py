"""Implicit casts: which type arguments are brought to, as DuckDB decides it.

Literals bend to what stands beside them. An integer literal takes the type of an integer column if it fits
(SMALLINT + 1 is SMALLINT, SMALLINT + 100000 is INTEGER), and counts as INTEGER or BIGINT, by its size, beside
a DECIMAL. A string literal takes any type; a VARCHAR column takes none, except under =, <>, IN and IS
DISTINCT FROM. NULL takes any type.

Invariant: a literal is a `Const` whose type is the one `literal` would give it; a constant of another type
was cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.expr.library.signature import Rule
from everfresh.expr.nodes import Const, Expr
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    INTEGER,
    JSON,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNSIGNED,
    VARCHAR,
    SqlType,
    common_type,
    comparison_type,
)

_WIDENING = [
    "TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT",
    "DECIMAL", "REAL", "DOUBLE",
]  # fmt: skip


def integer_type(value: int) -> SqlType:
    """The type of an integer literal: the first of INTEGER, BIGINT, HUGEINT that holds it.

    >>> print(integer_type(7), integer_type(-(2**31)), integer_type(2**31))
    INTEGER INTEGER BIGINT
    """
    for type_ in (INTEGER, BIGINT, HUGEINT):
        low, high = type_.bounds
        if low <= value <= high:
            return type_
    return DOUBLE


def is_null_literal(expr: Expr) -> bool:
    """Whether it is a NULL that has no type yet."""
    return expr.type == NULL


def is_string_literal(expr: Expr) -> bool:
    """Whether it is a string constant."""
    return isinstance(expr, Const) and isinstance(expr.value, str)


def is_integer_literal(expr: Expr) -> bool:
    """Whether it is an integer constant that still bends to its neighbours."""
    return (
        isinstance(expr, Const)
        and expr.of.is_integer
        and expr.value is not None
        and expr.of == integer_type(expr.value)
    )


def is_literal(expr: Expr) -> bool:
    """Whether its type bends to what stands beside it."""
    return is_null_literal(expr) or is_string_literal(expr) or is_integer_literal(expr)


def fits(value: Any, type_: SqlType) -> bool:
    """Whether an integer is inside an integer type."""
    low, high = type_.bounds
    return bool(low <= value <= high)


def common(exprs: Sequence[Expr]) -> SqlType | None:
    """The type that CASE and COALESCE bring these to; None if they do not mix, NULL if all are NULL."""
    return _mixed(exprs, common_type)


def _mixed(exprs: Sequence[Expr], two: Callable[[SqlType, SqlType], SqlType | None]) -> SqlType | None:
    found: SqlType = NULL
    for expr in exprs:
        if not is_literal(expr):
            mixed = _mix(found, expr.type, two)
            if mixed is None:
                return None
            found = mixed
    for expr in exprs:
        if is_integer_literal(expr):
            assert isinstance(expr, Const)
            if not (found.is_integer and fits(expr.value, found)):
                mixed = _mix(found, expr.of, two)
                if mixed is None:
                    return None
                found = mixed
    if found.name == "ENUM" and any(is_string_literal(expr) for expr in exprs):
        return VARCHAR
    if found == NULL and any(is_string_literal(expr) for expr in exprs):
        return VARCHAR
    return found


def _mix(a: SqlType, b: SqlType, two: Callable[[SqlType, SqlType], SqlType | None]) -> SqlType | None:
    if a == BOOLEAN and b.is_integer:
        return b
    if b == BOOLEAN and a.is_integer:
        return a
    return two(a, b)


def comparable(exprs: Sequence[Expr], equality: bool) -> SqlType | None:
    """The type in which these are compared; under equality VARCHAR and BOOLEAN columns are cast."""
    found = _mixed(exprs, comparison_type)
    for bending in (VARCHAR, BOOLEAN):
        if found is None and equality:
            exprs = [expr for expr in exprs if expr.type != bending]
            found = _mixed(exprs, comparison_type)
    return INTEGER if found == NULL else found


def cost(expr: Expr, to: SqlType) -> int | None:
    """How far an implicit cast reaches; None if there is none."""
    if expr.type == to:
        return 0
    if is_null_literal(expr) or is_string_literal(expr):
        return 1
    if is_integer_literal(expr) and to.is_integer:
        assert isinstance(expr, Const)
        return 1 if fits(expr.value, to) else None
    if to.name in UNSIGNED and expr.type.name not in UNSIGNED:
        return None
    if expr.type.is_numeric and to.is_numeric and to.name != "DECIMAL":
        steps = _WIDENING.index(to.name) - _WIDENING.index(expr.type.name)
        return 1 + steps if steps > 0 else None
    if expr.type.is_nested and expr.type.name == to.name:
        return 2 if common_type(expr.type, to) == to else None
    if expr.type.name == "ENUM" and to == VARCHAR:
        return 1
    return 1 if (expr.type, to) in _FREE else None


_FREE = {
    (DATE, TIMESTAMP), (JSON, VARCHAR), (VARCHAR, JSON), (DATE, TIMESTAMPTZ), (TIMESTAMP, TIMESTAMPTZ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overloads:
    """A typing rule that lists what it takes: rows of argument types and the result."""

    rows: tuple[tuple[tuple[SqlType, ...], SqlType], ...]

    def result(self, types: Sequence[SqlType]) -> SqlType | None:
        """The result of the row with exactly these types."""
        return next((result for args, result in self.rows if args == tuple(types)), None)

    def coerce(self, args: Sequence[Expr]) -> list[SqlType] | None:
        """The row that is reached by the cheapest casts; the first one if NULLs leave several."""
        best: list[tuple[SqlType, ...]] = []
        least = 1 << 30
        for types, _ in self.rows:
            if len(types) != len(args):
                continue
            costs = [cost(arg, to) for arg, to in zip(args, types, strict=True)]
            if any(c is None for c in costs):
                continue
            total = sum(c for c in costs if c is not None)
            if total < least:
                best, least = [types], total
            elif total == least:
                best.append(types)
        if not best or any(_ambiguous(arg, {types[i] for types in best}) for i, arg in enumerate(args)):
            return None
        return list(best[0])


def _ambiguous(arg: Expr, types: set[SqlType]) -> bool:
    # DuckDB refuses a string that could be read in two ways rather than guess.
    return is_string_literal(arg) and len(types) > 1


def takes(*rows: tuple[Sequence[SqlType], SqlType]) -> Overloads:
    """Overloads, one per `(argument types, result)`."""
    return Overloads(tuple((tuple(args), result) for args, result in rows))


def alike(
    result: Callable[[SqlType], SqlType | None],
    least: int = 2,
    most: int = 1 << 30,
    prepare: Callable[[Sequence[Expr]], SqlType | None] = common,
) -> Rule:
    """All arguments are of one type, from which `result` follows."""

    def of_types(types: Sequence[SqlType]) -> SqlType | None:
        ok = least <= len(types) <= most and all(t == types[0] for t in types)
        return result(types[0]) if ok else None

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        found = prepare(args) if least <= len(args) <= most else None
        return None if found is None else [found] * len(args)

    return Rule(of_types, coerce)


def every(type_: SqlType, result: SqlType, least: int = 1, most: int = 1 << 30) -> Rule:
    """Any number of arguments, each explicitly cast to `type_` whatever it is (and, ||, concat)."""
    return alike(lambda t: result if t == type_ else None, least, most, lambda _: type_)
