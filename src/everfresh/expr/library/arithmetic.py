"""+ - * / // % and unary minus: typing by DuckDB's rules, checked results.

DECIMAL + and - work on operands of one scale (the cast that aligns them is a `Cast` node) and have one digit
more; a product keeps its operands as they are and adds their scales; a product of two 64-bit DECIMALs stays
one (18 digits) if its scale allows. `/` is REAL or DOUBLE, never an error; `//` and `%` by zero raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import alike, common, is_literal, is_null_literal, is_string_literal, takes
from everfresh.expr.column import Array, canonical_floats
from everfresh.expr.library import checked, dates
from everfresh.expr.library.render import render
from everfresh.expr.library.signature import (
    Function,
    Rule,
    Signature,
    Typing,
    check,
    fails_unless_float,
    never_fails,
)
from everfresh.expr.nodes import Expr
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INT64_DIGITS,
    INTEGER,
    INTERVAL,
    MAX_DIGITS,
    NULL,
    TIMESTAMP,
    UNSIGNED,
    SqlType,
    as_decimal,
    canonical_float,
)

# -- typing --------------------------------------------------------------------------------------------------


def _numbers(args: Sequence[Expr]) -> SqlType | None:
    """The common numeric type of two operands; a bare NULL counts as BIGINT."""
    if len(args) != 2 or any(arg.type == BOOLEAN for arg in args):
        return None
    found = common(args)
    if found == NULL:
        return BIGINT
    if found is None or not found.is_numeric:
        return None
    signs = {arg.type.name in UNSIGNED for arg in args if not is_literal(arg)}
    if found.is_integer and len(signs) == 2 and found not in (args[0].type, args[1].type):
        return HUGEINT if found == HUGEINT else BIGINT  # DuckDB takes neither's next
    return found


def _decimals(args: Sequence[Expr], mixed: SqlType) -> list[SqlType]:
    return [as_decimal(arg.type if arg.type.is_exact else mixed) for arg in args]


def _plus_types(args: Sequence[Expr]) -> list[SqlType] | None:
    # DuckDB cannot tell what a string beside + should become; beside - it can.
    return None if any(is_string_literal(arg) for arg in args) else _sum_types(args)


def _sum_types(args: Sequence[Expr]) -> list[SqlType] | None:
    mixed = _numbers(args)
    if mixed is None:
        return None
    if mixed.name != "DECIMAL":
        return [mixed, mixed]
    if any(is_string_literal(arg) for arg in args):
        return [DOUBLE, DOUBLE]
    whole = [d.precision - d.scale for d in _decimals(args, mixed)]
    return [DECIMAL(min(MAX_DIGITS, digits + mixed.scale), mixed.scale) for digits in whole]


def _sum_result(types: Sequence[SqlType]) -> SqlType | None:
    if len(types) != 2 or not all(t.is_numeric for t in types):
        return None
    a, b = types
    if a.name == b.name == "DECIMAL" and a.scale == b.scale:
        return DECIMAL(min(MAX_DIGITS, max(a.precision, b.precision) + 1), a.scale)
    return a if a == b and a.name != "DECIMAL" else None


def _product_types(args: Sequence[Expr]) -> list[SqlType] | None:
    mixed = _numbers(args)
    if mixed is None:
        return None
    if mixed.name != "DECIMAL":
        return [mixed, mixed]
    return [DOUBLE, DOUBLE] if any(is_string_literal(arg) for arg in args) else _decimals(args, mixed)


def _product_result(types: Sequence[SqlType]) -> SqlType | None:
    if len(types) != 2 or not all(t.is_numeric for t in types):
        return None
    a, b = types
    if not a.name == b.name == "DECIMAL":
        return a if a == b and a.name != "DECIMAL" else None
    digits, scale = a.precision + b.precision, a.scale + b.scale
    if scale > MAX_DIGITS:
        message = f"the product of {a} and {b} needs scale {scale}, more than {MAX_DIGITS}"
        raise EverfreshError(Code.TYPE, message, hint="cast an operand to a smaller scale")
    if digits > INT64_DIGITS and max(a.precision, b.precision) <= INT64_DIGITS and scale < INT64_DIGITS:
        digits = INT64_DIGITS
    return DECIMAL(min(digits, MAX_DIGITS), scale)


def _float_type(args: Sequence[Expr]) -> SqlType | None:
    mixed = _numbers(args)
    return None if mixed is None else mixed if mixed.name == "REAL" else DOUBLE


def _quotient_type(args: Sequence[Expr]) -> SqlType | None:
    mixed = _numbers(args)
    return mixed if mixed is not None and mixed.is_integer else _float_type(args)


def _remainder_type(args: Sequence[Expr]) -> SqlType | None:
    mixed = _numbers(args)
    strings = any(is_string_literal(arg) for arg in args)
    return DOUBLE if mixed is not None and mixed.name == "DECIMAL" and strings else mixed


def _either(first: Typing, second: Typing) -> Rule:
    """Numbers by the first rule, dates and intervals by the second."""

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        found = first.coerce(args)
        if found is None and not any(is_string_literal(arg) for arg in args):
            found = second.coerce(args)
        return found

    return Rule(lambda types: first.result(types) or second.result(types), coerce)


def _negative(args: Sequence[Expr]) -> SqlType | None:
    if len(args) != 1:
        return None
    if is_null_literal(args[0]):
        return BIGINT
    return args[0].type if args[0].type.is_numeric or args[0].type == INTERVAL else None


PLUS = _either(
    Rule(_sum_result, _plus_types),
    takes(
        ((DATE, INTEGER), DATE),
        ((INTEGER, DATE), DATE),
        ((TIMESTAMP, INTERVAL), TIMESTAMP),
        ((INTERVAL, TIMESTAMP), TIMESTAMP),
        ((INTERVAL, INTERVAL), INTERVAL),
    ),
)
MINUS = _either(
    Rule(_sum_result, _sum_types),
    takes(
        ((DATE, INTEGER), DATE),
        ((DATE, DATE), BIGINT),
        ((TIMESTAMP, TIMESTAMP), INTERVAL),
        ((TIMESTAMP, INTERVAL), TIMESTAMP),
        ((INTERVAL, INTERVAL), INTERVAL),
    ),
)
TIMES = _either(
    Rule(_product_result, _product_types),
    takes(((INTERVAL, BIGINT), INTERVAL), ((BIGINT, INTERVAL), INTERVAL)),
)
DIVIDE = alike(lambda t: t if t.is_float else None, 2, 2, _float_type)
QUOTIENT = alike(lambda t: t if t.is_float or t.is_integer else None, 2, 2, _quotient_type)
REMAINDER = alike(lambda t: t if t.is_numeric else None, 2, 2, _remainder_type)
NEGATIVE = alike(lambda t: t if t.is_numeric or t == INTERVAL else None, 1, 1, _negative)

# -- scalar --------------------------------------------------------------------------------------------------

_FLOAT = {"REAL": np.float32, "DOUBLE": np.float64}


def _float(op: Callable[[Any, Any], Any], type_: SqlType, a: float, b: float) -> float:
    one = _FLOAT[type_.name]
    with np.errstate(all="ignore"):
        return canonical_float(float(op(one(a), one(b))))


def _told(symbol: str, types: Signature, a: Any, b: Any) -> Callable[[], str]:
    return lambda: f"{render(a, types.args[0])} {symbol} {render(b, types.args[1])}"


def _exact_or_float(symbol: str, op: Callable[[Any, Any], Any]) -> Callable[[Signature, Any, Any], Any]:
    def scalar(types: Signature, a: Any, b: Any) -> Any:
        if types.result.is_float:
            return _float(op, types.result, a, b)
        if types.args[0].is_exact and types.args[1].is_exact:
            return check(op(a, b), types.result, _told(symbol, types, a, b))
        return dates.ARITHMETIC[symbol, types.args[0].name, types.args[1].name](a, b)

    return scalar


def _by_zero(symbol: str, types: Signature, a: Any, b: Any) -> EverfreshError:
    return EverfreshError(
        Code.DIVISION_BY_ZERO,
        f"division by zero: {_told(symbol, types, a, b)()}",
        hint=f"guard it: CASE WHEN b <> 0 THEN a {symbol} b END",
    )


def _divide(types: Signature, a: float, b: float) -> float:
    return _float(lambda x, y: x / y, types.result, a, b)


def _quotient(types: Signature, a: Any, b: Any) -> Any:
    if b == 0:
        raise _by_zero("//", types, a, b)
    if types.result.is_float:
        return _divide(types, a, b)  # DuckDB's // does not round floats
    value = abs(a) // abs(b)
    return check(value if (a < 0) == (b < 0) else -value, types.result, _told("//", types, a, b))


def _remainder(types: Signature, a: Any, b: Any) -> Any:
    if types.result.is_float:
        return _float(np.fmod, types.result, a, b)
    if b == 0:
        raise _by_zero("%", types, a, b)
    if types.result.is_integer and b == -1 and a == types.result.bounds[0]:
        check(-a, types.result, _told("%", types, a, b))
    value = abs(a) % abs(b)
    return -value if a < 0 else value


def _negate(types: Signature, a: Any) -> Any:
    if types.result == INTERVAL:
        return dates.scale_interval(a, -1)
    if types.result.is_float:
        return canonical_float(-a)
    return check(-a, types.result, lambda: f"-({render(a, types.args[0])})")


# -- vectors -------------------------------------------------------------------------------------------------


def _vector(
    symbol: str, exact: Callable[[Array, Array, SqlType], Array], op: Callable[[Array, Array], Array]
) -> Callable[[Signature, Array, Array], Array | None]:
    def vector(types: Signature, a: Array, b: Array) -> Array | None:
        if types.result.is_float:
            with np.errstate(all="ignore"):
                return canonical_floats(op(a, b))
        if types.args[0].is_exact and types.args[1].is_exact:
            return exact(a, b, types.result)
        return dates.vector_arithmetic(symbol, types, a, b)

    return vector


def _vector_quotient(types: Signature, a: Array, b: Array) -> Array:
    if types.result.is_integer:
        return checked.divide(a, b, types.result)
    if (b == 0).any():
        raise EverfreshError(Code.DIVISION_BY_ZERO, "division by zero")
    with np.errstate(all="ignore"):
        return canonical_floats(a / b)


def _vector_negate(types: Signature, a: Array) -> Array | None:
    if types.result.is_float:
        return canonical_floats(-a)
    return checked.subtract(np.zeros(1, dtype=np.int64), a, types.result) if types.result.is_exact else None


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _minus(a: Any, b: Any) -> Any:
    return a - b


def _times(a: Any, b: Any) -> Any:
    return a * b


ROWS = (
    Function(
        "+",
        PLUS,
        _exact_or_float("+", _plus),
        vector=_vector("+", checked.add, _plus),
        fails=fails_unless_float,
    ),
    Function(
        "-",
        MINUS,
        _exact_or_float("-", _minus),
        vector=_vector("-", checked.subtract, _minus),
        fails=fails_unless_float,
    ),
    Function(
        "*",
        TIMES,
        _exact_or_float("*", _times),
        vector=_vector("*", checked.multiply, _times),
        fails=fails_unless_float,
    ),
    Function(
        "/", DIVIDE, _divide, vector=_vector("/", checked.divide, lambda a, b: a / b), fails=never_fails
    ),
    Function("//", QUOTIENT, _quotient, vector=_vector_quotient),
    Function("%", REMAINDER, _remainder, vector=_vector("%", checked.remainder, np.fmod)),
    Function("neg", NEGATIVE, _negate, vector=_vector_negate, fails=fails_unless_float),
)
