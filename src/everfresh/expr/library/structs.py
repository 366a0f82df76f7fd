"""Functions of structs and maps.

The names of fields are no values. `struct_pack(t, x, y)` has them in the type of its first argument, a NULL
of the STRUCT that it makes; `struct_extract(s, t)` takes the field that is the only one of the STRUCT of
which `t` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import common, is_null_literal, is_string_literal
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails, never_null
from everfresh.expr.nodes import Expr
from everfresh.types import BOOLEAN, LIST, NULL, UBIGINT, SqlType, coding, fold

Types = Sequence[SqlType]


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


def _pack_result(types: Types) -> SqlType | None:
    made = types[0] if types else NULL
    return made if made.name == "STRUCT" and made.inner == tuple(types[1:]) else None


def _pack(types: Signature, _: None, *values: Any) -> str:
    return coding.from_fields(values, types.result)


def field_of(type_: SqlType, name: str) -> int | None:
    """The place of a field by its name."""
    return next((i for i, n in enumerate(type_.names) if fold(n) == fold(name)), None)


def _extract_result(types: Types) -> SqlType | None:
    if len(types) != 2 or any(t.name != "STRUCT" for t in types):
        return None
    place = field_of(types[0], types[1].names[0])
    return None if place is None else types[0].inner[place]


def _extract(types: Signature, code: str | None, _: None) -> Any:
    if code is None:
        return None
    place = field_of(types.args[0], types.args[1].names[0])
    assert place is not None
    return coding.fields(code, types.args[0])[place]


def _as_they_are(args: Sequence[Expr]) -> list[SqlType]:
    return [arg.type for arg in args]


# -- maps ----------------------------------------------------------------------------------------------------


def _map_result(types: Types) -> SqlType | None:
    if len(types) != 2 or any(t.name != "LIST" for t in types):
        return None
    return SqlType("MAP", inner=(types[0].inner[0], types[1].inner[0]))


def _map_coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    types = [LIST(NULL) if is_null_literal(arg) else arg.type for arg in args]
    return types if _map_result(types) is not None else None


def _map(types: Signature, keys: str, items: str) -> str:
    found, values = coding.elements(keys, types.args[0]), coding.elements(items, types.args[1])
    if len(found) != len(values):
        raise EverfreshError(Code.VALUE, f"a MAP of {len(found)} keys and {len(values)} values")
    if None in found or len(set(found)) < len(found):
        raise EverfreshError(Code.VALUE, "a key of a MAP is not NULL, and is there once")
    return coding.from_entries(list(zip(found, values, strict=True)), types.result)


def _of_map(result: Any, key: bool = False) -> Rule:
    def of_types(types: Types) -> SqlType | None:
        fits = len(types) == 1 + key and types[0].name == "MAP"
        if not fits or (key and types[1] != types[0].inner[0]):
            return None
        found: SqlType = result(*types[0].inner)
        return found

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        if len(args) != 1 + key or args[0].type.name != "MAP":
            return None
        types = [args[0].type]
        if key:
            of = types[0].inner[0]
            bends = is_null_literal(args[1]) or is_string_literal(args[1]) or args[1].type == of
            if not bends and common([args[1]]) is None:
                return None
            types.append(of)
        return types

    return Rule(of_types, coerce)


def _entries(types: Signature, code: str) -> list[tuple[Any, Any]]:
    return coding.entries(code, types.args[0])


def _element(types: Signature, code: str, key: Any) -> Any:
    return next((value for found, value in _entries(types, code) if found == key), None)


def _elements(types: Signature, code: str, key: Any) -> str:
    found = [value for name, value in _entries(types, code) if name == key]
    return coding.from_elements(found, types.result)


def _contains(types: Signature, code: str, key: Any) -> bool:
    return any(found == key for found, _ in _entries(types, code))


def _keys(types: Signature, code: str) -> str:
    return coding.from_elements([key for key, _ in _entries(types, code)], types.result)


def _values(types: Signature, code: str) -> str:
    return coding.from_elements([value for _, value in _entries(types, code)], types.result)


def _as_list(key: SqlType, item: SqlType) -> SqlType:
    return LIST(coding.entry_type(SqlType("MAP", inner=(key, item))))


def _size(types: Signature, code: str) -> int:
    return len(_entries(types, code))


def _listed(types: Signature, code: str) -> str:
    return code


def _row(name: str, typing: Rule, scalar: Any, **more: Any) -> Function:
    """A function that has a value for all of what it takes."""
    return Function(name, typing, scalar, fails=never_fails, **more)


_MAYBE: dict[str, Any] = {"null": _may_be_null}

ROWS = (
    _row("struct_pack", Rule(_pack_result, _as_they_are), _pack, strict=False, null=never_null),
    _row("struct_extract", Rule(_extract_result, _as_they_are), _extract, strict=False, **_MAYBE),
    Function("map", Rule(_map_result, _map_coerce), _map),
    _row("map_extract_value", _of_map(lambda k, v: v, True), _element, **_MAYBE),
    _row("map_extract", _of_map(lambda k, v: LIST(v), True), _elements),
    _row("map_contains", _of_map(lambda k, v: BOOLEAN, True), _contains),
    _row("map_keys", _of_map(lambda k, v: LIST(k)), _keys),
    _row("map_values", _of_map(lambda k, v: LIST(v)), _values),
    _row("map_entries", _of_map(_as_list), _listed),
    _row("cardinality", _of_map(lambda k, v: UBIGINT), _size),
)
