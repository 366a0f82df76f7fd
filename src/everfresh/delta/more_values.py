"""What one Python value means in a column of the types beside numbers, text and dates: see `values`.

| column | takes |
|---|---|
| BLOB | bytes, bytearray, memoryview; text of ASCII with `\\xAB` for any byte |
| UUID | uuid.UUID; 16 bytes; text, with or without hyphens and braces |
| TIME | datetime.time without a time zone; 'HH:MM[:SS[.ffffff]]' |
| TIMESTAMPTZ | datetime with a time zone; 'YYYY-MM-DD HH:MM:SS[.ffffff]' with `Z` or an offset, else in UTC |
| LIST | a list, tuple or array; '[a, b]' |
| STRUCT | a dict with some of its fields; '{a: 1, b: 2}' |
| MAP | a dict, or pairs of key and value; '{a=1, b=2}' |
| JSON | text that is JSON; a dict or a list |
| ENUM | one of its labels |

Text inside of the text of a LIST, a STRUCT or a MAP is read as text of the type inside.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from everfresh.delta.refused import Refused, bad, kind
from everfresh.errors import Code
from everfresh.types import SqlType, fold, is_unicode
from everfresh.types import nested_text as parts
from everfresh.types.texts import json_of, read_blob, read_json, read_time, read_uuid

_OFFSET = re.compile(r"(?<=\d) ?(Z|UTC|[+-]\d{2}(?::?\d{2}){0,2})$", re.IGNORECASE)


def _blob(value: Any, type_: SqlType) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        text: str = _of_text(read_blob, value, type_, r"write bytes beyond ASCII as \xAB")
        return text.encode("latin-1")
    raise kind(value, type_, "give bytes")


def _uuid(value: Any, type_: SqlType) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, bytes) and len(value) == 16:
        return uuid.UUID(bytes=value)
    if isinstance(value, str):
        hint = "write it as 00112233-4455-6677-8899-aabbccddeeff"
        return uuid.UUID(_of_text(read_uuid, value, type_, hint))
    raise kind(value, type_, "give a uuid.UUID, its text or its 16 bytes")


def _time(value: Any, type_: SqlType) -> dt.time:
    if isinstance(value, str):
        us = _of_text(read_time, value, type_, "write a time as HH:MM:SS.ffffff, before 24:00:00")
        return (dt.datetime.min + dt.timedelta(microseconds=us)).time()
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise Refused(Code.TYPE, "has a time zone, which a TIME has not", "drop it first")
        return value.replace(fold=0)
    raise kind(value, type_, "give a datetime.time or a string HH:MM:SS")


def _moment(value: Any, type_: SqlType) -> dt.datetime:
    if isinstance(value, str):
        text = value.strip()
        zone = _OFFSET.search(text) if ":" in text else None
        offset = "" if zone is None else re.sub(r"^(?i:z|utc)$", "+00", zone[1])
        bare = text if zone is None else text[: zone.start()]
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6}0*)?)?)?", bare):
            raise bad(type_, "write a moment as YYYY-MM-DD HH:MM:SS.ffffff+00")
        head, dot, fraction = bare.partition(".")
        text = f"{head}{dot}{fraction[:6].ljust(6, '0') if dot else ''}{offset}"
        found = _of_text(dt.datetime.fromisoformat, text, type_, "there is no such day or time")
        value = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            hint = "say which: value.replace(tzinfo=datetime.UTC), or of its zone"
            raise Refused(Code.TYPE, f"has no time zone, which a {type_} has", hint)
        if getattr(value, "nanosecond", 0):
            raise bad(type_, f"a {type_} holds microseconds: round first")
        return _in_utc(value, type_)
    raise kind(value, type_, "give a datetime.datetime with a time zone")


def _in_utc(value: dt.datetime, type_: SqlType) -> dt.datetime:
    try:
        found = value.astimezone(dt.UTC)
    except (OverflowError, ValueError):
        raise bad(type_, f"columns of {type_} hold the years 1 to 9999") from None
    return dt.datetime.combine(found.date(), found.time(), dt.UTC)


def _list(value: Any, type_: SqlType) -> list[Any]:
    if isinstance(value, str):
        value = _of_text(parts.list_parts, value, type_, "write a list as [1, 2]")
    if not isinstance(value, (list, tuple, np.ndarray)) and not hasattr(value, "__arrow_array__"):
        raise kind(value, type_, "give a list")
    return [_inside(part, type_.inner[0], f"at [{i}]") for i, part in enumerate(value)]


def _struct(value: Any, type_: SqlType) -> dict[str, Any]:
    if isinstance(value, str):
        value = dict(_of_text(parts.struct_parts, value, type_, "write a struct as {a: 1, b: 2}"))
    if not isinstance(value, Mapping):
        raise kind(value, type_, "give a dict")
    given = {fold(str(name)): part for name, part in value.items()}
    unknown = set(given).difference(map(fold, type_.names))
    if unknown or len(given) < len(value):
        name = next((n for n in value if fold(str(n)) in unknown), "")
        why = f"has a field {name!r}, which {type_} has not" if unknown else "has a field twice"
        raise Refused(Code.TYPE, why, "the fields are " + ", ".join(type_.names))
    pairs = zip(type_.names, type_.inner, strict=True)
    return {name: _inside(given.get(fold(name)), t, f"at .{name}") for name, t in pairs}


def _map(value: Any, type_: SqlType) -> list[tuple[Any, Any]]:
    if isinstance(value, str):
        value = _of_text(parts.map_parts, value, type_, "write a map as {a=1, b=2}")
    if isinstance(value, Mapping):
        value = list(value.items())
    if not isinstance(value, list) or any(not isinstance(p, (tuple, list)) or len(p) != 2 for p in value):
        raise kind(value, type_, "give a dict, or a list of pairs of key and value")
    key, item = type_.inner
    found = [(_inside(k, key, "in a key"), _inside(v, item, f"at [{k!r}]")) for k, v in value]
    keys = [repr(k) for k, _ in found]
    if any(k is None for k, _ in found) or len(set(keys)) < len(keys):
        raise bad(type_, "a key of a map is not NULL, and is there once")
    return found


def _inside(value: Any, type_: SqlType, where: str) -> Any:
    from everfresh.delta.values import read_value

    try:
        return read_value(value, type_)
    except Refused as refused:
        raise Refused(refused.code, f"has {where} what {refused.reason}", refused.hint) from None


def _json(value: Any, type_: SqlType) -> str:
    hint = "give text that is JSON, or a dict or a list of what JSON has"
    if isinstance(value, (dict, list)):
        try:
            value = json_of(value)
        except (TypeError, ValueError, RecursionError):
            raise bad(type_, hint) from None
    if not isinstance(value, str):
        raise kind(value, type_, hint)
    if not is_unicode(value):
        raise bad(type_, "the text has a lone surrogate and is no valid Unicode")
    found: str = _of_text(read_json, value, type_, hint)
    return found


def _enum(value: Any, type_: SqlType) -> str:
    if isinstance(value, str) and value in type_.names:
        return value
    raise bad(type_, "labels are: " + ", ".join(type_.names[:20]))


def _of_text(read: Callable[[str], Any], text: str, type_: SqlType, hint: str) -> Any:
    try:
        return read(text)
    except ValueError:
        raise bad(type_, hint) from None


READERS: dict[str, Callable[[Any, SqlType], Any]] = {
    "BLOB": _blob,
    "UUID": _uuid,
    "TIME": _time,
    "TIMESTAMPTZ": _moment,
    "LIST": _list,
    "STRUCT": _struct,
    "MAP": _map,
    "JSON": _json,
    "ENUM": _enum,
}
