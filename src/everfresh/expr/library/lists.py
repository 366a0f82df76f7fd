"""Functions of lists.

A list is held as a code (`everfresh.types.coding`): each function takes it apart and puts its result
together. None has a vectorised twin: one that varies in a single argument runs once per distinct value.
Places count from 1, from the end if they are negative, as in DuckDB.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import common, is_null_literal, is_string_literal
from everfresh.expr.library.casts import cast_value
from everfresh.expr.library.compare import compare
from everfresh.expr.library.dates import shift
from everfresh.expr.library.render import render
from everfresh.expr.library.signature import Function, Rule, Signature, may_fail, never_fails, never_null
from everfresh.expr.nodes import Expr, Var
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    LIST,
    MAX_DIGITS,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    UBIGINT,
    VARCHAR,
    SqlType,
    canonical_float,
    coding,
    common_type,
)

Types = Sequence[SqlType]


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


def is_list(type_: SqlType) -> bool:
    """Whether a type is that of lists."""
    return type_.name == "LIST"


# -- typing --------------------------------------------------------------------------------------------------


def of_list(result: Callable[[SqlType], SqlType | None], *rest: SqlType) -> Rule:
    """A list, and arguments of fixed types behind it, all of them or the first few."""

    def of_types(types: Types) -> SqlType | None:
        if not 1 <= len(types) <= 1 + len(rest) or tuple(types[1:]) != rest[: len(types) - 1]:
            return None
        return result(types[0].inner[0]) if is_list(types[0]) else None

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        if not args or len(args) > 1 + len(rest):
            return None
        first = LIST(NULL) if is_null_literal(args[0]) else args[0].type
        if not is_list(first) or any(not _bends(a, t) for a, t in zip(args[1:], rest, strict=False)):
            return None
        return [first, *rest[: len(args) - 1]]

    return Rule(of_types, coerce)


def _bends(arg: Expr, to: SqlType) -> bool:
    if to.is_integer:
        return arg.type.is_integer or is_null_literal(arg) or is_string_literal(arg)
    return arg.type == to or is_null_literal(arg)


def _with_value(result: Callable[[SqlType], SqlType], first: bool = True) -> Rule:
    """A list and a value, which come to one type; the list may come second."""

    def of_types(types: Types) -> SqlType | None:
        if len(types) != 2:
            return None
        held, value = types if first else (types[1], types[0])
        return result(value) if is_list(held) and held.inner[0] == value else None

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        if len(args) != 2:
            return None
        held, value = args if first else (args[1], args[0])
        inner = held.type.inner[0] if is_list(held.type) else NULL if is_null_literal(held) else None
        if inner is None:
            return None
        bends = is_string_literal(value) and inner != NULL
        found = inner if bends else common([Var("", inner), value])
        if found is None:
            return None
        return [LIST(found), found] if first else [found, LIST(found)]

    return Rule(of_types, coerce)


def _lists(result: Callable[[SqlType], SqlType], least: int = 1, most: int = 1 << 30) -> Rule:
    """Lists that come to one type."""

    def of_types(types: Types) -> SqlType | None:
        ok = least <= len(types) <= most and all(t == types[0] for t in types)
        return result(types[0]) if ok and is_list(types[0]) else None

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        if not least <= len(args) <= most:
            return None
        found: SqlType | None = LIST(NULL)
        for arg in args:
            if not is_null_literal(arg) and found is not None:
                found = common_type(found, arg.type)
        return None if found is None or not is_list(found) else [found] * len(args)

    return Rule(of_types, coerce)


def _values_result(types: Types) -> SqlType | None:
    inner = types[0] if types else NULL
    return LIST(inner) if all(t == inner for t in types) else None


def _values_coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    found = common(args)
    return None if found is None else [found] * len(args)


# -- making and reading --------------------------------------------------------------------------------------


def _value(types: Signature, *values: Any) -> str:
    return coding.from_elements(values, types.result)


def parts_of(types: Signature, code: str, place: int = 0) -> list[Any]:
    """The physical values in a list."""
    return coding.elements(code, types.args[place])


def _extract(types: Signature, code: str, at: int) -> Any:
    found = parts_of(types, code)
    place = at - 1 if at > 0 else len(found) + at
    return found[place] if at and 0 <= place < len(found) else None


def bounds(size: int, begin: int, end: int) -> slice:
    """The part of `size` values from a place to another, both counted from 1 or from the end.

    >>> [1, 2, 3][bounds(3, -2, 10)], [1, 2, 3][bounds(3, 2, -2)]
    ([2, 3], [2])
    """
    first = begin - 1 if begin > 0 else max(size + begin, 0) if begin < 0 else 0
    last = end if end >= 0 else size + end + 1
    return slice(first, max(first, min(last, size)))


def _slice(types: Signature, code: str, begin: int, end: int) -> str:
    found = parts_of(types, code)
    return coding.from_elements(found[bounds(len(found), begin, end)], types.result)


def _contains(types: Signature, code: str, value: Any) -> bool:
    return _place(types, code, value) is not None


def _place(types: Signature, code: str, value: Any) -> int | None:
    found = enumerate(parts_of(types, code), 1)
    return next((i for i, part in found if part is not None and _equal(types.args[1], part, value)), None)


def _position(types: Signature, code: Any, value: Any) -> int | None:
    if code is None:
        return None
    if value is not None:
        return _place(types, code, value)
    return next((i for i, part in enumerate(parts_of(types, code), 1) if part is None), None)


def _equal(type_: SqlType, a: Any, b: Any) -> bool:
    return compare(operator.eq, type_, a, b)


# -- lists from lists ----------------------------------------------------------------------------------------


def list_order(types: Signature) -> Callable[[Any], Any]:
    """How the values of a list are brought into order: by a key."""
    type_ = types.args[0].inner[0]

    def two(a: Any, b: Any) -> int:
        return compare(operator.gt, type_, a, b) - compare(operator.lt, type_, a, b)

    return cmp_to_key(two)


def _sorted(types: Signature, code: str, order: str = "ASC", nulls: str = "NULLS LAST") -> str:
    found = parts_of(types, code)
    places = sorted_places(found, list_order(types), order, nulls)
    return coding.from_elements([found[i] for i in places], types.result)


def sorted_places(parts: list[Any], key: Callable[[Any], Any], order: str, nulls: str) -> list[int]:
    """The places of values in their order, from 0."""
    up, first = order.strip().upper(), nulls.strip().upper()
    if up not in ("ASC", "DESC") or first not in ("NULLS FIRST", "NULLS LAST"):
        hint = "ASC or DESC, NULLS FIRST or NULLS LAST"
        raise EverfreshError(Code.VALUE, f"a list is not sorted by {up} {first}", hint=hint)
    there = [i for i, part in enumerate(parts) if part is not None]
    there.sort(key=lambda i: key(parts[i]), reverse=up == "DESC")
    missing = [i for i, part in enumerate(parts) if part is None]
    return [*missing, *there] if first == "NULLS FIRST" else [*there, *missing]


def _reverse_sorted(types: Signature, code: str, nulls: str = "NULLS LAST") -> str:
    return _sorted(types, code, "DESC", nulls)


def _distinct_values(values: list[Any]) -> list[Any]:
    """Each value that is not NULL, once; where it comes first."""
    return list(dict.fromkeys(v for v in values if v is not None))


def _distinct(types: Signature, code: str) -> str:
    return coding.from_elements(_distinct_values(parts_of(types, code)), types.result)


def _unique(types: Signature, code: str) -> int:
    return len(_distinct_values(parts_of(types, code)))


def _concat(types: Signature, *codes: str | None) -> str | None:
    if all(code is None for code in codes):
        return None
    found = [part for code in codes if code is not None for part in parts_of(types, code)]
    return coding.from_elements(found, types.result)


def _joined(types: Signature, a: str, b: str) -> str:
    return _concat(types, a, b) or ""


def _append(types: Signature, code: str | None, value: Any) -> str:
    return coding.from_elements([*(parts_of(types, code) if code is not None else []), value], types.result)


def _prepend(types: Signature, value: Any, code: str | None) -> str:
    return coding.from_elements(
        [value, *(parts_of(types, code, 1) if code is not None else [])], types.result
    )


def _reverse(types: Signature, code: str) -> str:
    return coding.from_elements(parts_of(types, code)[::-1], types.result)


def _flatten(types: Signature, code: str) -> str:
    inner = types.args[0].inner[0]
    found = [part for sub in parts_of(types, code) if sub is not None for part in coding.elements(sub, inner)]
    return coding.from_elements(found, types.result)


def _flat(inner: SqlType) -> SqlType | None:
    return inner if is_list(inner) else None


def _has_any(types: Signature, a: str, b: str) -> bool:
    return not set(_distinct_values(parts_of(types, a))).isdisjoint(_distinct_values(parts_of(types, b)))


def _has_all(types: Signature, a: str, b: str) -> bool:
    return set(_distinct_values(parts_of(types, b))) <= set(_distinct_values(parts_of(types, a)))


def _intersect(types: Signature, a: str, b: str) -> str:
    there = set(_distinct_values(parts_of(types, b)))
    found = [v for v in _distinct_values(parts_of(types, a)) if v in there]
    return coding.from_elements(found, types.result)


# -- text ----------------------------------------------------------------------------------------------------


def _to_text(types: Signature, code: str, by: str = "") -> str | None:
    """Of NULLs only it is NULL, of nothing it is empty."""
    found, inner = parts_of(types, code), types.args[0].inner[0]
    known = [render(part, inner) for part in found if part is not None]
    return by.join(known) if known or not found else None


def _split(types: Signature, text: str, by: str) -> str:
    found = list(text) or [""] if not by else text.split(by)
    return coding.from_elements(found, types.result)


_SPLIT = Rule(
    lambda types: LIST(VARCHAR) if tuple(types) == (VARCHAR, VARCHAR) else None,
    lambda args: [VARCHAR, VARCHAR] if len(args) == 2 and all(_is_string(a) for a in args) else None,
)


def _is_string(arg: Expr) -> bool:
    return arg.type == VARCHAR or is_null_literal(arg)


# -- numbers -------------------------------------------------------------------------------------------------


def _sum_type(inner: SqlType) -> SqlType | None:
    if inner.name == "DECIMAL":
        return DECIMAL(MAX_DIGITS, inner.scale)
    if inner.is_float:
        return DOUBLE
    return HUGEINT if inner.is_integer or inner in (BOOLEAN, NULL) else None


def known(types: Signature, code: str) -> list[Any]:
    """Those that are not NULL."""
    return [part for part in parts_of(types, code) if part is not None]


def _sum(types: Signature, code: str) -> Any:
    found = known(types, code)
    if not found:
        return None
    total = sum(found)
    if types.result == DOUBLE:
        return canonical_float(float(total))
    low, high = types.result.bounds
    if not low <= total <= high:
        raise EverfreshError(Code.OVERFLOW, f"the sum of a list is outside {types.result}")
    return int(total)


def _mean(types: Signature, code: str) -> float | None:
    found, inner = known(types, code), types.args[0].inner[0]
    if not found:
        return None
    total = sum(found)
    exact = inner.is_exact
    return canonical_float((total / 10**inner.scale if exact else float(total)) / len(found))


def _extreme(op: Callable[[Any, Any], Any]) -> Callable[[Signature, str], Any]:
    def scalar(types: Signature, code: str) -> Any:
        best = None
        for part in known(types, code):
            if best is None or compare(op, types.result, part, best):
                best = part
        return best

    return scalar


def number_type(inner: SqlType) -> SqlType | None:
    """DOUBLE for numbers."""
    return DOUBLE if inner.is_numeric or inner == NULL else None


def _product(types: Signature, code: str) -> float | None:
    found, inner = known(types, code), types.args[0].inner[0]
    result = 1.0
    for part in found:
        result *= cast_value(part, inner, DOUBLE)
    return canonical_float(result) if found else None


def _first(types: Signature, code: str) -> Any:
    return next(iter(parts_of(types, code)), None)


def _last(types: Signature, code: str) -> Any:
    return next(reversed(parts_of(types, code)), None)


def _any_value(types: Signature, code: str) -> Any:
    return next(iter(known(types, code)), None)


def _all_true(types: Signature, code: str) -> bool | None:
    found = known(types, code)
    return all(found) if found else None


def _some_true(types: Signature, code: str) -> bool | None:
    found = known(types, code)
    return any(found) if found else None


# -- numbers in a row ----------------------------------------------------------------------------------------

LONGEST = 1 << 24
"""The most values in a range."""


def too_long(count: int) -> EverfreshError:
    """The refusal of a range."""
    return EverfreshError(
        Code.OVERFLOW,
        f"a range of {count} values is longer than {LONGEST}",
        hint="give it nearer bounds, or a longer step",
    )


def _range(inclusive: bool) -> Callable[..., str]:
    def scalar(types: Signature, *values: Any) -> str:
        if types.args[-1] == INTERVAL:
            start, stop, step = values
            return coding.from_elements(_times(start, stop, step, inclusive), types.result)
        start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
        if step == 0:
            raise EverfreshError(Code.VALUE, "the step of a range is not zero")
        found = range(start, stop + (1 if step > 0 else -1) * inclusive, step)
        if found and abs(found[-1] - found[0]) // abs(step) >= LONGEST:
            raise too_long(abs(found[-1] - found[0]) // abs(step) + 1)
        return coding.from_elements(found, types.result)

    return scalar


def _times(start: int, stop: int, step: tuple[int, int, int], inclusive: bool) -> list[int]:
    """Each time is one step after the time before: the months of a 31st end with it."""
    up = all(part >= 0 for part in step)
    if not any(step) or not (up or all(part <= 0 for part in step)):
        raise EverfreshError(
            Code.VALUE,
            "the step of a range is not zero, and its parts have one sign",
        )
    found: list[int] = []
    while (start < stop if up else start > stop) or (inclusive and start == stop):
        if len(found) == LONGEST:
            raise too_long(LONGEST + 1)
        found.append(start)
        start = shift(start, step)
    return found


_MOMENTS = (TIMESTAMP, TIMESTAMPTZ)


def _range_result(types: Types) -> SqlType | None:
    if len(types) == 3 and types[2] == INTERVAL:
        return LIST(types[0]) if types[0] == types[1] and types[0] in _MOMENTS else None
    return LIST(BIGINT) if 1 <= len(types) <= 3 and all(t == BIGINT for t in types) else None


def _range_coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    if len(args) == 3 and (args[2].type == INTERVAL or args[0].type in (DATE, *_MOMENTS)):
        of = TIMESTAMPTZ if TIMESTAMPTZ in (args[0].type, args[1].type) else TIMESTAMP
        if not all(a.type in (DATE, *_MOMENTS) or is_null_literal(a) for a in args[:2]):
            return None
        return [of, of, INTERVAL] if args[2].type == INTERVAL or is_null_literal(args[2]) else None
    fits = all(a.type.is_integer or is_null_literal(a) or is_string_literal(a) for a in args)
    return [BIGINT] * len(args) if 1 <= len(args) <= 3 and fits else None


_RANGE = Rule(_range_result, _range_coerce)


def same_type(inner: SqlType) -> SqlType:
    """The type of the values itself."""
    return inner


def _size(types: Signature, code: str) -> int:
    return len(parts_of(types, code))


def _count(types: Signature, code: str) -> int:
    return len(known(types, code))


def _truth(inner: SqlType) -> SqlType | None:
    return inner if inner == BOOLEAN else None


def _row(name: str, typing: Rule, scalar: Callable[..., Any], **more: Any) -> Function:
    """A function that has a value for all lists, and is NULL where the list is."""
    return Function(name, typing, scalar, fails=more.pop("fails", never_fails), **more)


_MAYBE: dict[str, Any] = {"null": _may_be_null}
_ANY: dict[str, Any] = {"null": _may_be_null, "strict": False}
_ALWAYS: dict[str, Any] = {"null": never_null, "strict": False}
_FAILS: dict[str, Any] = {"fails": may_fail}

ROWS = (
    _row("list_value", Rule(_values_result, _values_coerce), _value, **_ALWAYS),
    _row("list_extract", of_list(same_type, BIGINT), _extract, **_MAYBE),
    _row("list_slice", of_list(LIST, BIGINT, BIGINT), _slice),
    _row("list_length", of_list(lambda _: BIGINT), _size),
    _row("list_contains", _with_value(lambda _: BOOLEAN), _contains),
    _row("list_position", _with_value(lambda _: INTEGER), _position, **_ANY),
    _row("list_sort", of_list(LIST, VARCHAR, VARCHAR), _sorted, **_FAILS),
    _row("list_reverse_sort", of_list(LIST, VARCHAR), _reverse_sorted, **_FAILS),
    _row("list_distinct", of_list(LIST), _distinct),
    _row("list_unique", of_list(lambda _: UBIGINT), _unique),
    _row("list_concat", _lists(same_type), _concat, **_ANY),
    _row("list_joined", _lists(same_type, 2, 2), _joined),
    _row("list_append", _with_value(LIST), _append, **_ALWAYS),
    _row("list_prepend", _with_value(LIST, False), _prepend, **_ALWAYS),
    _row("list_reverse", of_list(LIST), _reverse),
    _row("list_has_any", _lists(lambda _: BOOLEAN, 2, 2), _has_any),
    _row("list_has_all", _lists(lambda _: BOOLEAN, 2, 2), _has_all),
    _row("list_intersect", _lists(same_type, 2, 2), _intersect),
    _row("flatten", of_list(_flat), _flatten),
    _row("array_to_string", of_list(lambda _: VARCHAR, VARCHAR), _to_text, **_MAYBE),
    _row("string_split", _SPLIT, _split),
    _row("list_sum", of_list(_sum_type), _sum, **_MAYBE, **_FAILS),
    _row("list_avg", of_list(number_type), _mean, **_MAYBE),
    _row("list_product", of_list(number_type), _product, **_MAYBE),
    _row("list_min", of_list(same_type), _extreme(operator.lt), **_MAYBE),
    _row("list_max", of_list(same_type), _extreme(operator.gt), **_MAYBE),
    _row("list_count", of_list(lambda _: BIGINT), _count),
    _row("list_first", of_list(same_type), _first, **_MAYBE),
    _row("list_last", of_list(same_type), _last, **_MAYBE),
    _row("list_any_value", of_list(same_type), _any_value, **_MAYBE),
    _row("list_bool_and", of_list(_truth), _all_true, **_MAYBE),
    _row("list_bool_or", of_list(_truth), _some_true, **_MAYBE),
    _row("range", _RANGE, _range(False), **_FAILS),
    _row("generate_series", _RANGE, _range(True), **_FAILS),
)
