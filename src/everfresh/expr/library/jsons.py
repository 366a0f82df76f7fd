"""Functions of JSON, which is a text: what is taken out of it is written without blanks.

A path is `$.a."b c"[0]`, `$[#-1]` from the end, `/a/0`, or the name of a field; a number is a place in an
array. Of fields with one name the first counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.json_values import NOTHING, Object, parsed, text_of, to_json, written
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails, never_null
from everfresh.expr.nodes import Expr
from everfresh.types import BIGINT, BOOLEAN, JSON, LIST, UBIGINT, VARCHAR, SqlType, coding

_STEP = re.compile(r"""\.(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"*]+))|\[(#-)?(\d+)\]""")
Path = tuple[str | int, ...]


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


@lru_cache(maxsize=1024)
def _steps(path: str) -> Path:
    """Fields by their names and places in arrays, from the end below zero."""
    if path.startswith("/"):
        parts = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
        return tuple(int(part) if part.isdecimal() else part for part in parts)
    if not path.startswith("$"):
        return (path,)
    found: list[str | int] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise EverfreshError(
                Code.UNSUPPORTED, f"the JSON path '{path}' is not supported", hint='as in $.a."b c"[0]'
            )
        if match[4] is not None:
            found.append(-int(match[4]) if match[3] else int(match[4]))
        else:
            found.append(match[2] if match[1] is None else re.sub(r"\\(.)", r"\1", match[1]))
        at = match.end()
    return tuple(found)


def _found(text: str, path: str | int | None) -> Any:
    value = parsed(text)
    if path is None:
        return value
    for step in (path,) if isinstance(path, int) else _steps(path):
        value = _inside(value, step)
        if value is NOTHING:
            return NOTHING
    return value


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(value, Object) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, Object):
        return value.get(str(step))
    if isinstance(value, list) and isinstance(step, int):
        place = step if step >= 0 else len(value) + step
        return value[place] if 0 <= place < len(value) else NOTHING
    return NOTHING


def _extract(types: Signature, text: str, path: str | int) -> str | None:
    found = _found(text, path)
    return None if found is NOTHING else written(found)


def _extract_text(types: Signature, text: str, path: str | int) -> str | None:
    found = _found(text, path)
    return None if found is NOTHING or found is None else text_of(found)


def _length(types: Signature, text: str, path: str | int | None = None) -> int | None:
    found = _found(text, path)
    return None if found is NOTHING else len(found) if isinstance(found, list) else 0


def _type(types: Signature, text: str, path: str | int | None = None) -> str | None:
    found = _found(text, path)
    match found:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case str():
            return "VARCHAR"
        case int() if -(1 << 63) <= found < 1 << 64:
            return "BIGINT" if found < 0 else "UBIGINT"
        case int():
            return "HUGEINT" if -(1 << 127) <= found < 1 << 127 else "DOUBLE"
        case float():
            return "DOUBLE"
        case list():
            return "ARRAY"
        case Object():
            return "OBJECT"
    return None


def _keys(types: Signature, text: str, path: str | int | None = None) -> str | None:
    found = _found(text, path)
    if found is NOTHING:
        return None
    names = [name for name, _ in found.pairs] if isinstance(found, Object) else []
    return coding.from_elements(names, types.result)


def _exists(types: Signature, text: str, path: str | int) -> bool:
    return _found(text, path) is not NOTHING


def _valid(_: Signature, text: str) -> bool:
    try:
        parsed(text)
    except (EverfreshError, json.JSONDecodeError):
        return False
    return True


def _minified(_: Signature, text: str) -> str:
    return written(parsed(text))


def _to_json(types: Signature, value: Any) -> str:
    return to_json(value, types.args[0])


def _array_of(types: Signature, *values: Any) -> str:
    return f"[{','.join(to_json(v, t) for v, t in zip(values, types.args, strict=True))}]"


def _object_of(types: Signature, *values: Any) -> str:
    """The fields are names and values in turn."""
    parts = [to_json(v, t) for v, t in zip(values, types.args, strict=True)]
    return "{" + ",".join(f"{k}:{v}" for k, v in zip(parts[::2], parts[1::2], strict=True)) + "}"


def _no_interval(types: Sequence[SqlType]) -> bool:
    return all(t.name != "INTERVAL" for t in types)


def _is_object(types: Sequence[SqlType]) -> SqlType | None:
    named = all(t.name == "VARCHAR" for t in types[::2])
    return JSON if len(types) % 2 == 0 and named and _no_interval(types) else None


_VALUES = Rule(lambda types: JSON if _no_interval(types) else None, lambda args: [a.type for a in args])
_FIELDS = Rule(
    _is_object,
    lambda args: [a.type for a in args] if _is_object([a.type for a in args]) else None,
)
_ANY = Rule(
    lambda types: JSON if len(types) == 1 and types[0].name != "INTERVAL" else None,
    lambda args: [args[0].type] if len(args) == 1 else None,
)


def _by_path(result: SqlType, alone: bool = False) -> Any:
    rows: list[tuple[Sequence[SqlType], SqlType]] = [((JSON, VARCHAR), result), ((JSON, BIGINT), result)]
    return takes(*([((JSON,), result)] if alone else []), *rows)


def _row(name: str, typing: Any, scalar: Callable[..., Any]) -> Function:
    return Function(name, typing, scalar, null=_may_be_null)


ROWS = (
    _row("json_extract", _by_path(JSON), _extract),
    _row("json_extract_string", _by_path(VARCHAR), _extract_text),
    _row("json_array_length", _by_path(UBIGINT, True), _length),
    _row("json_type", _by_path(VARCHAR, True), _type),
    _row("json_keys", _by_path(LIST(VARCHAR), True), _keys),
    Function("json_exists", _by_path(BOOLEAN), _exists),
    Function("json_valid", takes(((VARCHAR,), BOOLEAN)), _valid, fails=never_fails),
    Function("json", takes(((JSON,), JSON)), _minified),
    Function("to_json", _ANY, _to_json),
    Function("json_array", _VALUES, _array_of, strict=False, null=never_null, fails=never_fails),
    Function("json_object", _FIELDS, _object_of, strict=False, null=never_null, fails=never_fails),
)
