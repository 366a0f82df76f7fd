"""The types of columns that come without any: texts of CSV files, values of JSON.

A column of texts has the first of these types that all its values are written as: BOOLEAN, BIGINT, HUGEINT,
DOUBLE, TIME, DATE, TIMESTAMP, TIMESTAMPTZ; else VARCHAR. Values of JSON have the type of their kind; texts of
JSON that all are days, times, moments or UUIDs are these; a column of two kinds is JSON. Invariant:
`coerce_column` reads all values of a column as the type that is found for it.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.errors import EverfreshError
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    INTEGER,
    JSON,
    LIST,
    STRUCT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    SqlType,
    fold,
)

_DAY = r"\d{4}-\d{2}-\d{2}"
_HOUR = r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
_WRITTEN: tuple[tuple[SqlType, str], ...] = (
    (BOOLEAN, r"(?i)\s*(true|false|t|f|yes|no)\s*"),
    (BIGINT, r"\s*(0|-[0-9]{1,19}|[1-9][0-9]{0,18})\s*"),
    (HUGEINT, r"\s*(0|-[0-9]{1,37}|[1-9][0-9]{0,36})\s*"),
    (DOUBLE, r"(?i)\s*(-?(0|[1-9][0-9]*)?(\.[0-9]*)?(e[+-]?[0-9]+)?|nan)\s*"),
    (TIME, rf"\s*{_HOUR}\s*"),
    (DATE, rf"\s*{_DAY}\s*"),
    (TIMESTAMP, rf"\s*{_DAY}[ T]{_HOUR}\s*"),
    (TIMESTAMPTZ, rf"\s*{_DAY}[ T]{_HOUR} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)?\s*"),
)
"""How values of a type are written in a CSV file. What looks like one and is none, such as February
30th, is found out by reading it."""


_FIRST = 100
"""Values that are looked at before all are."""


def type_of_texts(values: pa.ChunkedArray, reads: Callable[[SqlType], Any]) -> SqlType:
    """The type of a column of texts; `reads` raises if its values cannot be read as a type.

    >>> texts = [["1", None], ["1", "2.5"], ["007"], ["2024-01-31"], ["true", "F"], [None]]
    >>> [str(type_of_texts(pa.chunked_array([some]).cast("string"), str)) for some in texts]
    ['BIGINT', 'DOUBLE', 'VARCHAR', 'DATE', 'BOOLEAN', 'VARCHAR']
    """
    if values.null_count == len(values):
        return VARCHAR
    head = values.drop_null().slice(0, _FIRST)
    for type_, pattern in _WRITTEN:
        pattern = f"^({pattern})$"
        if not pc.all(pc.match_substring_regex(head, pattern)).as_py():
            continue
        if pc.all(pc.match_substring_regex(values, pattern)).as_py():
            try:
                reads(type_)
            except EverfreshError:
                continue
            return type_
    return VARCHAR


# -- JSON ------------------------------------------------------------------------------------------------

NOTHING = SqlType("NULL")
_TEXTS: tuple[tuple[SqlType, Callable[[str], Any]], ...] = (
    (DATE, lambda text: dt.datetime.strptime(text, "%Y-%m-%d")),
    (TIME, lambda text: dt.datetime.strptime(text, "%H:%M:%S")),
    (TIMESTAMP, lambda text: _moment(text, False)),
    (TIMESTAMPTZ, lambda text: _moment(text, True)),
    (UUID, lambda text: _uuid(text)),
)


def type_of_json(values: Iterable[Any]) -> SqlType:
    """The type that holds all of some values of JSON.

    >>> [str(type_of_json(v)) for v in ([1, 2.5, None], [[1], []], [{"a": 1}, {"b": "x"}], [1, "x"])]
    ['DOUBLE', 'BIGINT[]', 'STRUCT(a BIGINT, b VARCHAR)', 'JSON']
    """
    return _named(_kind(values))


def _named(found: SqlType) -> SqlType:
    """NULL alone, and texts that nobody has looked at, as types of columns."""
    if found.name == "NULL":
        return INTEGER
    return found


def _kind(values: Iterable[Any]) -> SqlType:
    known = [v for v in values if v is not None]
    if not known:
        return NOTHING
    classes = {type(v) for v in known}
    if classes <= {int, float}:
        return _number(known, float in classes)
    if len(classes) > 1:
        return JSON
    (one,) = classes
    if one is bool:
        return BOOLEAN
    if one is str:
        return _text(known)
    if one is list:
        inner = [v for some in known for v in some]
        return LIST(_named(_kind(inner)) if inner else JSON)
    return _object(known)


def _number(known: Sequence[Any], fractions: bool) -> SqlType:
    if fractions or any(not -(1 << 63) <= v < 1 << 64 for v in known):
        return DOUBLE
    return BIGINT if all(v < 1 << 63 for v in known) else HUGEINT


def _text(known: Sequence[str]) -> SqlType:
    for type_, read in _TEXTS:
        try:
            for text in known:
                read(text)
        except (ValueError, OverflowError):
            continue
        return type_
    return VARCHAR


def _moment(text: str, zoned: bool) -> None:
    if len(text) < 19 or text[10] not in " T":
        raise ValueError(text)
    found = dt.datetime.fromisoformat(text)
    if (found.tzinfo is not None) != zoned:
        raise ValueError(text)


def _uuid(text: str) -> None:
    if len(text) != 36 or text.lower() != str(uuid.UUID(text)):
        raise ValueError(text)


def _object(known: Sequence[Mapping[str, Any]]) -> SqlType:
    fields: dict[str, list[Any]] = {}
    for row in known:
        for name, value in row.items():
            fields.setdefault(name, []).append(value)
    if not fields:
        return SqlType("MAP", inner=(VARCHAR, JSON))
    if len({fold(name) for name in fields}) != len(fields) or not all(fields):
        return JSON
    return STRUCT([(name, _named(_kind(some))) for name, some in fields.items()])


def shaped(value: Any, type_: SqlType) -> Any:
    """A value of JSON as `coerce_column` takes it for a column of the type that was found."""
    if value is None:
        return None
    match type_.name:
        case "JSON":
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        case "LIST":
            return [shaped(v, type_.inner[0]) for v in value]
        case "STRUCT":
            inner = dict(zip(type_.names, type_.inner, strict=True))
            return {name: shaped(v, inner[name]) for name, v in value.items()}
        case "MAP":
            return {name: shaped(v, type_.inner[1]) for name, v in value.items()}
    return value
