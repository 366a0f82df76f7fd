"""Lists by others: chosen, cut and filled, put side by side, and the aggregates of numbers in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import is_null_literal, is_string_literal
from everfresh.expr.library.casts import cast_value
from everfresh.expr.library.lists import (
    known,
    list_order,
    number_type,
    of_list,
    parts_of,
    same_type,
    sorted_places,
)
from everfresh.expr.library.render import render
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails
from everfresh.expr.nodes import Expr
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    LIST,
    NULL,
    VARCHAR,
    SqlType,
    canonical_float,
    coding,
    common_type,
)

Types = Sequence[SqlType]


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


# -- lists by others -----------------------------------------------------------------------------------------


def _with_list(of: SqlType) -> Rule:
    """A list, and one of values of a type."""

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        if len(args) != 2:
            return None
        first = LIST(NULL) if is_null_literal(args[0]) else args[0].type
        second = args[1].type
        fits = is_null_literal(args[1]) or (second.name == "LIST" and common_type(second.inner[0], of) == of)
        return [first, LIST(of)] if first.name == "LIST" and fits else None

    return Rule(
        lambda types: (
            types[0] if len(types) == 2 and types[0].name == "LIST" and types[1] == LIST(of) else None
        ),
        coerce,
    )


def _chosen(types: Signature, code: str) -> list[Any]:
    found = coding.elements(code, types.args[1])
    if None in found:
        raise EverfreshError(Code.VALUE, "the list that chooses from another has a NULL in it")
    return found


def _where(types: Signature, code: str, mask: str) -> str:
    """The values at which the other list is true; NULL where that is longer."""
    parts, chosen = parts_of(types, code), _chosen(types, mask)
    found = [parts[i] if i < len(parts) else None for i, keep in enumerate(chosen) if keep]
    return coding.from_elements(found, types.result)


def _select(types: Signature, code: str, places: str) -> str:
    """The values at the places that the other list has; NULL outside."""
    parts, found = parts_of(types, code), []
    for at in _chosen(types, places):
        found.append(parts[at - 1] if 0 < at <= len(parts) else None)
    return coding.from_elements(found, types.result)


_LONGEST = 1 << 24


def _resize(types: Signature, code: str | None, size: int | None, value: Any = None) -> str | None:
    if code is None:
        return None
    length = size or 0
    if not 0 <= length <= _LONGEST:
        raise EverfreshError(Code.OVERFLOW, f"a list of {size} values is outside 0 to {_LONGEST}")
    parts = parts_of(types, code)[:length]
    return coding.from_elements([*parts, *[value] * (length - len(parts))], types.result)


def _resize_result(types: Types) -> SqlType | None:
    fits = len(types) in (2, 3) and types[0].name == "LIST" and types[1] == BIGINT
    return types[0] if fits and (len(types) == 2 or types[2] == types[0].inner[0]) else None


def _resize_coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    if len(args) not in (2, 3) or args[0].type.name != "LIST":
        return None
    if not (args[1].type.is_integer or is_null_literal(args[1])):
        return None
    inner = args[0].type.inner[0]
    if len(args) == 3 and not is_null_literal(args[2]) and not is_string_literal(args[2]):
        found = common_type(inner, args[2].type)
        if found is None:
            return None
    return [args[0].type, BIGINT, *([inner] if len(args) == 3 else [])]


def _grade_up(types: Signature, code: str, order: str = "ASC", nulls: str = "NULLS LAST") -> str:
    """The places of the values in their order."""
    places = sorted_places(parts_of(types, code), list_order(types), order, nulls)
    return coding.from_elements([i + 1 for i in places], types.result)


def _pop_back(types: Signature, code: str) -> str:
    return coding.from_elements(parts_of(types, code)[:-1], types.result)


def _pop_front(types: Signature, code: str) -> str:
    return coding.from_elements(parts_of(types, code)[1:], types.result)


# -- vectors of numbers --------------------------------------------------------------------------------------


def _vectors(types: Types) -> SqlType | None:
    return DOUBLE if tuple(types) == (LIST(DOUBLE), LIST(DOUBLE)) else None


def _vectors_coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    ok = len(args) == 2 and all(
        is_null_literal(a)
        or (a.type.name == "LIST" and (a.type.inner[0].is_numeric or a.type.inner[0] == NULL))
        for a in args
    )
    return [LIST(DOUBLE)] * 2 if ok else None


def _of_vectors(fn: Callable[[list[float], list[float]], float]) -> Callable[[Signature, str, str], float]:
    def scalar(types: Signature, a: str, b: str) -> float:
        x, y = parts_of(types, a), coding.elements(b, types.args[1])
        if None in x or None in y or len(x) != len(y):
            raise EverfreshError(Code.VALUE, "two lists of numbers are of one length, without NULL")
        return canonical_float(fn(x, y))

    return scalar


def _inner(x: list[float], y: list[float]) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += a * b
    return total


def _distance(x: list[float], y: list[float]) -> float:
    return math.sqrt(_inner(*[[a - b for a, b in zip(x, y, strict=True)]] * 2))


def _cosine(x: list[float], y: list[float]) -> float:
    size = math.sqrt(_inner(x, x) * _inner(y, y))
    return max(-1.0, min(_inner(x, y) / size, 1.0)) if size else math.nan


# -- aggregates ----------------------------------------------------------------------------------------------


def _floats(types: Signature, code: str) -> list[float]:
    inner = types.args[0].inner[0]
    return [cast_value(v, inner, DOUBLE) for v in known(types, code)]


def _middle_type(inner: SqlType) -> SqlType | None:
    if inner.name == "DECIMAL" or inner.is_float:
        return inner
    return DOUBLE if inner.is_integer else inner if inner == VARCHAR else None


def _median(types: Signature, code: str) -> Any:
    inner, order = types.args[0].inner[0], list_order(types)
    found = sorted(known(types, code), key=order)
    if not found:
        return None
    if inner == VARCHAR:
        return found[(len(found) - 1) // 2]
    low, high = found[(len(found) - 1) // 2], found[len(found) // 2]
    if inner.is_integer:
        return canonical_float(float(low) + (float(high) - float(low)) * 0.5 if low != high else float(low))
    if inner.name == "DECIMAL":
        return low + (high - low) // 2
    return canonical_float(low + (high - low) * 0.5 if low != high else low)


def _mode(types: Signature, code: str) -> Any:
    """The value that comes most often; of several the one that comes first."""
    counts: dict[Any, int] = {}
    for value in known(types, code):
        counts[value] = counts.get(value, 0) + 1
    return max(counts, key=counts.__getitem__) if counts else None


def _spread(sample: bool, root: bool) -> Callable[[Signature, str], float | None]:
    """Variances and deviations, by Welford's updates, as DuckDB computes them."""

    def scalar(types: Signature, code: str) -> float | None:
        count, mean, squares = 0, 0.0, 0.0
        for value in _floats(types, code):
            count += 1
            difference = value - mean
            mean += difference / count
            squares += difference * (value - mean)
        if count <= sample:
            return None
        found = squares / (count - sample) if count > 1 else 0.0
        return canonical_float(math.sqrt(found) if root else found)

    return scalar


def _joined(types: Signature, code: str, by: str = ",") -> str | None:
    inner, found = types.args[0].inner[0], known(types, code)
    return by.join(render(v, inner) for v in found) if found else None


def _bits(fn: Callable[[int, int], int]) -> Callable[[Signature, str], int | None]:
    def scalar(types: Signature, code: str) -> int | None:
        found: int | None = None
        for value in known(types, code):
            found = value if found is None else fn(found, value)
        return found

    return scalar


def _whole(inner: SqlType) -> SqlType | None:
    return inner if inner.is_integer else None


def _row(name: str, typing: Rule, scalar: Callable[..., Any], **more: Any) -> Function:
    return Function(name, typing, scalar, **{"null": _may_be_null, **more})


_TOTAL: dict[str, Any] = {"fails": never_fails}
_VECTORS = Rule(_vectors, _vectors_coerce)

ROWS = (
    _row("list_where", _with_list(BOOLEAN), _where),
    _row("list_select", _with_list(BIGINT), _select),
    _row("list_resize", Rule(_resize_result, _resize_coerce), _resize, strict=False),
    _row("list_grade_up", of_list(lambda _: LIST(BIGINT), VARCHAR, VARCHAR), _grade_up),
    _row("list_pop_back", of_list(LIST), _pop_back, **_TOTAL),
    _row("list_pop_front", of_list(LIST), _pop_front, **_TOTAL),
    _row("list_inner_product", _VECTORS, _of_vectors(_inner)),
    _row("list_negative_inner_product", _VECTORS, _of_vectors(lambda x, y: -_inner(x, y))),
    _row("list_distance", _VECTORS, _of_vectors(_distance)),
    _row("list_cosine_similarity", _VECTORS, _of_vectors(_cosine)),
    _row("list_cosine_distance", _VECTORS, _of_vectors(lambda x, y: 1.0 - _cosine(x, y))),
    _row("list_median", of_list(_middle_type), _median, **_TOTAL),
    _row("list_mode", of_list(same_type), _mode, **_TOTAL),
    _row("list_var_pop", of_list(number_type), _spread(False, False)),
    _row("list_var_samp", of_list(number_type), _spread(True, False)),
    _row("list_stddev_pop", of_list(number_type), _spread(False, True)),
    _row("list_stddev_samp", of_list(number_type), _spread(True, True)),
    _row("list_string_agg", of_list(lambda _: VARCHAR, VARCHAR), _joined, **_TOTAL),
    _row("list_bit_and", of_list(_whole), _bits(lambda a, b: a & b), **_TOTAL),
    _row("list_bit_or", of_list(_whole), _bits(lambda a, b: a | b), **_TOTAL),
    _row("list_bit_xor", of_list(_whole), _bits(lambda a, b: a ^ b), **_TOTAL),
)
