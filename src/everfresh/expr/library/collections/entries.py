"""Structs from structs, and maps from maps."""

from __future__ import annotations

from collections.abc import Sequence

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import is_null_literal
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails
from everfresh.expr.nodes import Expr
from everfresh.types import LIST, NULL, UINTEGER, USMALLINT, UTINYINT, VARCHAR, SqlType, coding, common_type

Types = Sequence[SqlType]


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


def _keys(types: Signature, code: str) -> str:
    return coding.from_elements(list(types.args[0].names), types.result)


def _map_concat(types: Signature, *codes: str | None) -> str | None:
    """The entries of all maps; a later value takes the place of an earlier one."""
    if all(code is None for code in codes):
        return None
    found = {k: v for code in codes if code is not None for k, v in coding.entries(code, types.result)}
    return coding.from_entries(list(found.items()), types.result)


def _maps_result(types: Types) -> SqlType | None:
    return types[0] if types and types[0].name == "MAP" and all(t == types[0] for t in types) else None


def _maps_coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    found: SqlType | None = NULL
    for arg in args:
        if not is_null_literal(arg) and found is not None:
            found = common_type(found, arg.type)
    return [found] * len(args) if found is not None and found.name == "MAP" else None


def _from_entries_result(types: Types) -> SqlType | None:
    if len(types) != 1 or types[0].name != "LIST" or len(types[0].inner[0].inner) != 2:
        return None
    entry = types[0].inner[0]
    return SqlType("MAP", inner=entry.inner) if entry.name == "STRUCT" else None


def _from_entries(types: Signature, code: str) -> str:
    pairs = []
    for entry in coding.elements(code, types.args[0]):
        key, value = (None, None) if entry is None else coding.fields(entry, types.args[0].inner[0])
        pairs.append((key, value))
    keys = [key for key, _ in pairs]
    if None in keys or len(set(keys)) < len(keys):
        raise EverfreshError(Code.VALUE, "a key of a MAP is not NULL, and is there once")
    return coding.from_entries(pairs, types.result)


def _as_they_are(args: Sequence[Expr]) -> list[SqlType]:
    return [arg.type for arg in args]


def _is_struct(types: Types) -> SqlType | None:
    return LIST(VARCHAR) if len(types) == 1 and types[0].name == "STRUCT" else None


def _code_type(types: Types) -> SqlType | None:
    if len(types) != 1 or types[0].name != "ENUM":
        return None
    size = len(types[0].names)
    return UTINYINT if size <= 1 << 8 else USMALLINT if size <= 1 << 16 else UINTEGER


ROWS: tuple[Function, ...] = (
    Function("enum_code", Rule(_code_type, _as_they_are), lambda _, place: place, fails=never_fails),
    Function("struct_keys", Rule(_is_struct, _as_they_are), _keys, fails=never_fails),
    Function(
        "map_concat",
        Rule(_maps_result, _maps_coerce),
        _map_concat,
        strict=False,
        null=_may_be_null,
        fails=never_fails,
    ),
    Function("map_from_entries", Rule(_from_entries_result, _as_they_are), _from_entries),
)
