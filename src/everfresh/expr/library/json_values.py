"""JSON as values, and values as JSON: what casts and functions of JSON share.

An object keeps its fields in order, also those of one name; numbers are Python's. Written are they as DuckDB
does: without blanks, characters beyond ASCII as they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn

from everfresh.errors import Code, EverfreshError
from everfresh.types import VARCHAR, SqlType, coding


@dataclass(frozen=True, slots=True)
class Object:
    """An object: its fields in order."""

    pairs: tuple[tuple[str, Any], ...]

    def get(self, name: str) -> Any:
        """The first field of a name, `NOTHING` if there is none."""
        return next((value for key, value in self.pairs if key == name), NOTHING)


class _Nothing:
    """What is not there, unlike null."""


NOTHING: Final = _Nothing()


def _object(pairs: list[tuple[str, Any]]) -> Object:
    return Object(tuple(pairs))


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


@lru_cache(maxsize=1024)
def parsed(text: str) -> Any:
    """The value of a text; raises Code.VALUE if it is no JSON."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise EverfreshError(Code.VALUE, f"cannot read '{text}' as JSON") from None


def written(value: Any) -> str:
    """A value as JSON.

    >>> written(parsed('{"a": [1.50, "\\u00e9"], "b": 1e3}'))
    '{"a":[1.5,"é"],"b":1000.0}'
    """
    match value:
        case Object():
            inside = (f"{_quoted(name)}:{written(part)}" for name, part in value.pairs)
            return "{" + ",".join(inside) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
        case str():
            return _quoted(value)
        case float():
            return repr(value).replace("e+", "e")
    return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def text_of(value: Any) -> str:
    """A value as text: a text without its quotes, anything else as JSON."""
    return value if isinstance(value, str) else written(value)


def to_json(value: Any, type_: SqlType) -> str:
    """A physical value as JSON."""
    from everfresh.expr.library.render import render

    if value is None:
        return "null"
    match type_.name:
        case "JSON":
            return str(value)
        case "LIST":
            return f"[{','.join(to_json(v, type_.inner[0]) for v in coding.elements(value, type_))}]"
        case "STRUCT":
            found = zip(type_.names, coding.fields(value, type_), type_.inner, strict=True)
            return "{" + ",".join(f"{_quoted(name)}:{to_json(v, t)}" for name, v, t in found) + "}"
        case "MAP":
            key, item = type_.inner
            entries = coding.entries(value, type_)
            return "{" + ",".join(f"{_quoted(render(k, key))}:{to_json(v, item)}" for k, v in entries) + "}"
        case "BOOLEAN":
            return "true" if value else "false"
        case "DECIMAL":
            return written(value / 10**type_.scale)
        case "REAL" | "DOUBLE":
            return written(value)
    return str(value) if type_.is_integer else _quoted(render(value, type_))


def from_json(text: str, type_: SqlType) -> Any:
    """The physical value of a type that JSON stands for."""
    return _from_value(parsed(text), type_)


def _from_value(value: Any, type_: SqlType) -> Any:
    from everfresh.expr.library.casts import cast_value

    if value is None:
        return None
    match type_.name:
        case "JSON":
            return written(value)
        case "LIST" if isinstance(value, list):
            return coding.from_elements([_from_value(v, type_.inner[0]) for v in value], type_)
        case "STRUCT" if isinstance(value, Object):
            pairs = zip(type_.names, type_.inner, strict=True)
            found = ((value.get(name), t) for name, t in pairs)
            return coding.from_fields([None if v is NOTHING else _from_value(v, t) for v, t in found], type_)
        case "MAP" if isinstance(value, Object):
            key, item = type_.inner
            entries = [(cast_value(k, VARCHAR, key), _from_value(v, item)) for k, v in value.pairs]
            return coding.from_entries(entries, type_)
    if type_.is_nested or (isinstance(value, (list, Object)) and type_ != VARCHAR):
        raise EverfreshError(Code.VALUE, f"cannot read '{written(value)}' as {type_}")
    return cast_value(text_of(value), VARCHAR, type_)
