"""Typed constructors: DuckDB's implicit casts made explicit. What the SQL binder calls.

`call` looks a function up in `FUNCTIONS`, after aliases (`substr`, `mod`, ...) and the few that are built
from others (`nullif`, `date_part`, `round` to a constant number of digits). Literals bend to what stands
beside them (`everfresh.expr.coerce`), so build before folding. Invariant: every conversion in the result is a
`Cast` node or a constant.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr import coerce
from everfresh.expr.built import MORE
from everfresh.expr.coerce import integer_type, is_integer_literal, is_literal
from everfresh.expr.library.casts import cast_value, castable
from everfresh.expr.library.dates import part_name
from everfresh.expr.library.functions import FUNCTIONS
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr
from everfresh.expr.text import Makers, number
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INTERVAL,
    MAX_DIGITS,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    canonical_float,
    to_physical,
)

__all__ = [
    "MAKERS",
    "between",
    "call",
    "case",
    "cast",
    "common",
    "conjunction",
    "disjunction",
    "in_list",
    "interval",
    "is_false",
    "is_true",
    "is_unknown",
    "literal",
    "number",
]

TRUE, FALSE = Const(True, BOOLEAN), Const(False, BOOLEAN)

# -- literals and casts --------------------------------------------------------------------------------------


def literal(value: Any) -> Const:
    """A Python value as a SQL literal: None, bool, int, float, Decimal, str, date, datetime, timedelta.

    >>> print(literal(7).type, literal(2**31).type, literal(Decimal("1.50")).type)
    INTEGER BIGINT DECIMAL(3,2)
    """
    match value:
        case None:
            return Const(None, NULL)
        case bool():
            return Const(value, BOOLEAN)
        case int():
            type_ = integer_type(value)
            return Const(float(value), DOUBLE) if type_ == DOUBLE else Const(value, type_)
        case float():
            return Const(canonical_float(value), DOUBLE)
        case Decimal():
            return _decimal(value)
        case str():
            return Const(value, VARCHAR)
        case dt.datetime():
            return Const(to_physical(value, TIMESTAMP), TIMESTAMP)
        case dt.date():
            return Const(to_physical(value, DATE), DATE)
        case dt.timedelta():
            return interval(days=value.days, microseconds=value.seconds * 1_000_000 + value.microseconds)
        case _:
            raise EverfreshError(Code.TYPE, f"a {type(value).__name__} is not a SQL value")


def _decimal(value: Decimal) -> Const:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return Const(canonical_float(float(value)), DOUBLE)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale + 1)
    if precision > MAX_DIGITS:
        return Const(float(value), DOUBLE)
    type_ = DECIMAL(precision, scale)
    return Const(to_physical(value, type_), type_)


def interval(months: int = 0, days: int = 0, microseconds: int = 0) -> Const:
    """An INTERVAL constant."""
    return Const((months, days, microseconds), INTERVAL)


def cast(expr: Expr, to: SqlType) -> Expr:
    """`CAST(expr AS to)`, folded if `expr` is a constant that fits; raises Code.TYPE if there is no such
    cast.

    The cast of a literal to the type it already has stays a node: what was cast explicitly no longer bends.
    """
    if not castable(expr.type, to):
        raise EverfreshError(Code.TYPE, f"{expr.type} cannot be cast to {to}")
    if isinstance(expr, Const):
        folded = _folded(expr, to)
        return Cast(expr, to) if folded is None or is_literal(folded) else folded
    return expr if expr.type == to else Cast(expr, to)


def _folded(expr: Const, to: SqlType) -> Const | None:
    try:
        return Const(cast_value(expr.value, expr.of, to), to)
    except EverfreshError:
        return None


def implicit(expr: Expr, to: SqlType) -> Expr:
    """`expr` brought to a type: a literal that cannot be read as it raises at once."""
    if expr.type == to:
        return expr
    if not castable(expr.type, to):
        raise EverfreshError(Code.TYPE, f"{expr.type} cannot be cast to {to}")
    return Const(cast_value(expr.value, expr.of, to), to) if isinstance(expr, Const) else Cast(expr, to)


# -- calls ---------------------------------------------------------------------------------------------------

_ALIASES = {
    "!=": "<>",
    "==": "=",
    "mod": "%",
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "//",
    "^": "power",
    "**": "power",
    "pow": "power",
    "ceiling": "ceil",
    "log": "log10",
    "substr": "substring",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "lcase": "lower",
    "ucase": "upper",
    "instr": "strpos",
    "position": "strpos",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "^@": "starts_with",
    "ifnull": "coalesce",
    "dayofmonth": "day",
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "weekofyear": "week",
    "datetrunc": "date_trunc",
    "datepart": "date_part",
    "extract": "date_part",
    "list_element": "list_extract",
    "array_extract": "list_extract",
    "array_slice": "list_slice",
    "list_has": "list_contains",
    "array_contains": "list_contains",
    "array_has": "list_contains",
    "list_indexof": "list_position",
    "array_position": "list_position",
    "array_indexof": "list_position",
    "array_sort": "list_sort",
    "array_reverse_sort": "list_reverse_sort",
    "array_distinct": "list_distinct",
    "array_unique": "list_unique",
    "list_cat": "list_concat",
    "array_concat": "list_concat",
    "array_cat": "list_concat",
    "array_append": "list_append",
    "array_push_back": "list_append",
    "array_prepend": "list_prepend",
    "array_reverse": "list_reverse",
    "array_has_any": "list_has_any",
    "array_has_all": "list_has_all",
    "array_intersect": "list_intersect",
    "str_split": "string_split",
    "string_to_array": "string_split",
    "split": "string_split",
    "element_at": "map_extract",
    "json_extract_path": "json_extract",
    "json_extract_path_text": "json_extract_string",
    "~~": "like",
    "~~*": "ilike",
    "like_escape": "like",
    "ilike_escape": "ilike",
}


def call(name: str, *args: Expr) -> Expr:
    """A function applied to arguments, brought to the types it takes by implicit casts.

    Raises Code.TYPE ("cannot add VARCHAR and INTEGER"), or Code.NOT_FOUND with the nearest names as hint.

    >>> from everfresh.types import SMALLINT
    >>> from everfresh.expr.nodes import Var
    >>> made = call("+", Var("s", SMALLINT), literal(100000))
    >>> print(made, made.type)
    CAST(s AS INTEGER) + 100000 INTEGER
    """
    name = name.lower()
    name = _ALIASES.get(name, name)
    found = MORE[name](call, args) if name in MORE else None
    if found is None and name in _BUILT:
        found = _BUILT[name](args)
    if found is not None:
        return found
    function = FUNCTIONS.get(name)
    if function is None:
        raise _unknown(name)
    zoned = _on_the_clock(name, args)
    if zoned is not None:
        return zoned
    types = function.coerce(args)
    return Call(name, tuple(implicit(arg, to) for arg, to in zip(args, types, strict=True)))


_OF_MOMENTS = frozenset({
    "+", "-", "year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "second",
    "millisecond", "microsecond", "epoch", "epoch_ms", "epoch_us", "epoch_ns", "date_trunc", "time_bucket",
    "date_diff", "date_sub", "age", "last_day", "dayname", "monthname", "isoyear", "yearweek", "era",
    "century", "decade", "millennium", "julian", "days_in_month", "nanosecond",
})  # fmt: skip
"""Functions that take a TIMESTAMP, and a TIMESTAMPTZ as one in UTC."""
_OF_TIMES = frozenset({
    "hour", "minute", "second", "millisecond", "microsecond", "epoch", "epoch_ms", "epoch_us", "epoch_ns",
    "nanosecond", "date_diff", "date_sub",
})  # fmt: skip


def _on_the_clock(name: str, args: Sequence[Expr]) -> Expr | None:
    """A function of TIMESTAMPTZ by that of TIMESTAMP, a function of TIME by that of the first day's."""
    types = [arg.type for arg in args]
    if TIMESTAMPTZ in types and name in _OF_MOMENTS:
        clock = [implicit(a, TIMESTAMP) if a.type in (TIMESTAMPTZ, DATE) else a for a in args]
        found = call(name, *clock)
        return implicit(found, TIMESTAMPTZ) if found.type == TIMESTAMP else found
    if TIME not in types:
        return None
    if name in _OF_TIMES and (len(args) == 1 or types[1:] == [TIME, TIME]):
        return call(name, *(call("on_first_day", a) if a.type == TIME else a for a in args))
    if name in ("+", "-") and len(args) == 2 and types[types.index(TIME) - 1] == INTERVAL:
        day = [call("on_first_day", a) if a.type == TIME else a for a in args]
        return cast(call(name, *day), TIME)
    if name == "+" and set(types) == {DATE, TIME}:
        return call("at_time", *sorted(args, key=lambda a: a.type.name))
    return None


def _unknown(name: str) -> EverfreshError:
    near = difflib.get_close_matches(name, [*FUNCTIONS, *_ALIASES, *_BUILT], n=3)
    return EverfreshError(
        Code.NOT_FOUND,
        f"there is no function '{name}'",
        hint=f"did you mean {' or '.join(near)}?" if near else None,
    )


def _arity(name: str, args: Sequence[Expr], *counts: int) -> None:
    if len(args) not in counts:
        wanted = " or ".join(map(str, counts))
        raise EverfreshError(Code.TYPE, f"{name} takes {wanted} arguments, not {len(args)}")


def _nullif(args: Sequence[Expr]) -> Expr:
    _arity("nullif", args, 2)
    return case([(call("=", *args), Const(None, NULL))], args[0])


def _if(args: Sequence[Expr]) -> Expr:
    _arity("if", args, 3)
    return case([(args[0], args[1])], args[2])


def _date_part(args: Sequence[Expr]) -> Expr:
    _arity("date_part", args, 2)
    part = args[0]
    if not isinstance(part, Const) or not isinstance(part.value, str):
        raise EverfreshError(Code.UNSUPPORTED, "the part of date_part must be a constant")
    name = part_name(part.value)
    if name not in FUNCTIONS:
        raise EverfreshError(Code.UNSUPPORTED, f"date_part of '{name}' is not supported")
    return call(name, args[1])


def _negative(args: Sequence[Expr]) -> Expr | None:
    """The negative of a number literal is a literal: SMALLINT + -1 is SMALLINT."""
    if len(args) == 1 and isinstance(args[0], Const) and args[0].value is not None:
        value, type_ = args[0].value, args[0].of
        if is_integer_literal(args[0]):
            return literal(-value)
        if type_.name in ("DECIMAL", "DOUBLE"):
            return Const(canonical_float(-value) if type_ == DOUBLE else -value, type_)
    return None


def _minus(args: Sequence[Expr]) -> Expr | None:
    return call("neg", *args) if len(args) == 1 else None


def _plus(args: Sequence[Expr]) -> Expr | None:
    return args[0] if len(args) == 1 and args[0].type.is_numeric else None


def _digits(name: str, args: Sequence[Expr]) -> int | None:
    """The constant number of digits to which a DECIMAL is rounded; None if that is not what this is."""
    if len(args) != 2 or args[0].type.name != "DECIMAL":
        return None
    if not isinstance(args[1], Const) or not args[1].of.is_integer or args[1].value is None:
        raise EverfreshError(Code.TYPE, f"the digits of {name} of a DECIMAL must be a constant integer")
    return int(args[1].value)


def _round(args: Sequence[Expr]) -> Expr | None:
    n = _digits("round", args)
    if n is None or n < 0:
        return None
    type_ = args[0].type
    return args[0] if n >= type_.scale else cast(args[0], DECIMAL(type_.precision, n))


def _trunc(args: Sequence[Expr]) -> Expr | None:
    n = _digits("trunc", args)
    if n is None:
        return None
    type_ = args[0].type
    if n >= type_.scale:
        return args[0]
    return cast(Call("trunc", (args[0], literal(n))), DECIMAL(type_.precision, max(0, n)))


def _size(args: Sequence[Expr]) -> Expr | None:
    """LENGTH of a list is another function than that of a text."""
    lists = len(args) == 1 and args[0].type.name == "LIST"
    return call("list_length", *args) if lists else None


def _array_length(args: Sequence[Expr]) -> Expr:
    if len(args) == 2 and not (isinstance(args[1], Const) and args[1].value == 1):
        raise EverfreshError(Code.UNSUPPORTED, "the dimension of array_length must be 1")
    _arity("array_length", args, 1, 2)
    return call("list_length", args[0])


def _joined_lists(args: Sequence[Expr]) -> Expr | None:
    lists = any(arg.type.name == "LIST" for arg in args)
    return call("list_joined", *args) if lists else None


def _element(args: Sequence[Expr]) -> Expr | None:
    """A place in a text, an entry of a map, a field of a struct; otherwise a place in a list."""
    if len(args) == 2 and args[0].type == VARCHAR and not coerce.is_null_literal(args[0]):
        return call("substring", args[0], args[1], literal(1))
    return None


def _aggregated(args: Sequence[Expr]) -> Expr:
    _arity("list_aggregate", args, 2, 3)
    name = args[1].value if isinstance(args[1], Const) else None
    if not isinstance(name, str) or f"list_{name.lower()}" not in FUNCTIONS or name.lower() not in _OF_LISTS:
        hint = "one of " + ", ".join(_OF_LISTS)
        raise EverfreshError(
            Code.UNSUPPORTED, "list_aggregate with another aggregate than a constant", hint=hint
        )
    return call(f"list_{name.lower()}", args[0], *args[2:])


_OF_LISTS = (
    "sum", "avg", "min", "max", "count", "first", "last", "any_value", "product", "bool_and", "bool_or",
    "histogram", "entropy", "mad", "skewness", "kurtosis", "kurtosis_pop",
    "median", "mode", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "string_agg", "bit_and", "bit_or",
    "bit_xor",
)  # fmt: skip

_BUILT: dict[str, Callable[[Sequence[Expr]], Expr | None]] = {
    "length": _size,
    "array_length": _array_length,
    "||": _joined_lists,
    "list_extract": _element,
    "list_aggregate": _aggregated,
    "list_aggr": _aggregated,
    "array_aggregate": _aggregated,
    "nullif": _nullif,
    "if": _if,
    "date_part": _date_part,
    "neg": _negative,
    "-": _minus,
    "+": _plus,
    "round": _round,
    "trunc": _trunc,
}

# -- compound expressions ------------------------------------------------------------------------------------


def common(exprs: Sequence[Expr], where: str = "CASE") -> SqlType:
    """The type that CASE, COALESCE, IN and set operations bring these to; raises Code.TYPE if none."""
    found = coerce.common(exprs)
    if found is None:
        types = dict.fromkeys(str(e.type) for e in exprs if e.type != NULL)
        message = f"cannot mix {' and '.join(types)} in {where}"
        raise EverfreshError(Code.TYPE, message, hint="cast one of them explicitly")
    return found


def case(arms: Sequence[tuple[Expr, Expr]], default: Expr | None = None) -> Expr:
    """`CASE WHEN .. THEN .. ELSE default END`: conditions cast to BOOLEAN, values to their common type."""
    otherwise = Const(None, NULL) if default is None else default
    to = common([*(value for _, value in arms), otherwise])
    made = tuple((implicit(condition, BOOLEAN), implicit(value, to)) for condition, value in arms)
    return Case(made, implicit(otherwise, to)) if made else implicit(otherwise, to)


def in_list(x: Expr, items: Sequence[Expr]) -> Expr:
    """`x IN (items)`; FALSE for no items."""
    return call("in", x, *items) if items else FALSE


def between(x: Expr, low: Expr, high: Expr) -> Expr:
    """`x BETWEEN low AND high`: all three in one type."""
    to = common([x, low, high], "BETWEEN")
    x, low, high = (implicit(e, BIGINT if to == NULL else to) for e in (x, low, high))
    return Call("and", (Call(">=", (x, low)), Call("<=", (x, high))))


def is_true(x: Expr) -> Expr:
    """`x IS TRUE`, never NULL."""
    return call("is_not_distinct", implicit(x, BOOLEAN), TRUE)


def is_false(x: Expr) -> Expr:
    """`x IS FALSE`, never NULL."""
    return call("is_not_distinct", implicit(x, BOOLEAN), FALSE)


def is_unknown(x: Expr) -> Expr:
    """`x IS UNKNOWN`, which is `x IS NULL`."""
    return call("is_null", implicit(x, BOOLEAN))


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """All conditions joined with AND: one flat call, a single condition as it is, TRUE if there are none."""
    return _joined("and", conditions, TRUE)


def disjunction(conditions: Sequence[Expr]) -> Expr:
    """All conditions joined with OR: one flat call, a single condition as it is, FALSE if there are none."""
    return _joined("or", conditions, FALSE)


def _joined(op: str, conditions: Sequence[Expr], empty: Expr) -> Expr:
    if not conditions:
        return empty
    return implicit(conditions[0], BOOLEAN) if len(conditions) == 1 else call(op, *conditions)


MAKERS = Makers(lambda name, args: call(name, *args), cast, cast, case)
