"""Arrow's values as Python has them where Arrow's own differ, and columns without Arrow's extension types.

A HUGEINT is an `int`, a MAP a `dict`, inside of nested values too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pyarrow as pa

from everfresh.types import HUGEINT, VARCHAR, SqlType, from_arrow, to_arrow
from everfresh.types.exchange import arrow_of, physical

_HUGEINT = to_arrow(HUGEINT)
Convert = Callable[[Any], Any]


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column.

    >>> python_values(pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())))
    [{'a': 1}, None]
    """
    values: list[Any] = column.to_pylist()
    convert = converter(column.type)
    return values if convert is None else [None if v is None else convert(v) for v in values]


def converter(type_: pa.DataType) -> Convert | None:
    """What makes Python's values of those that Arrow gives; None: they are."""
    if type_ == _HUGEINT:
        return int
    if pa.types.is_map(type_):
        return _of_map(converter(type_.key_type) or _same, converter(type_.item_type) or _same)
    if pa.types.is_struct(type_):
        inner = {field.name: converter(field.type) for field in type_}
        return _of_struct(inner) if any(inner.values()) else None
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        found = converter(type_.value_type)
        return None if found is None else _of_list(found)
    return None


def _same(value: Any) -> Any:
    return value


def _each(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _of_list(convert: Convert) -> Convert:
    return lambda values: [_each(convert, value) for value in values]


def _of_struct(inner: dict[str, Convert | None]) -> Convert:
    return lambda value: {name: _each(inner[name] or _same, part) for name, part in value.items()}


def _of_map(key: Convert, item: Convert) -> Convert:
    def convert(pairs: list[tuple[Any, Any]]) -> Any:
        found = [(_each(key, k), _each(item, v)) for k, v in pairs]
        return dict(found) if all(isinstance(k, Hashable) for k, _ in found) else found

    return convert


def without_extensions(table: pa.Table) -> pa.Table:
    """A table for those who know no extension types: a UUID and JSON are text, inside of others too.

    >>> import uuid
    >>> table = pa.table({"u": pa.array([uuid.UUID(int=1).bytes], pa.uuid())})
    >>> without_extensions(table).to_pylist()
    [{'u': '00000000-0000-0000-0000-000000000001'}]
    """
    for i, field in enumerate(table.schema):
        type_ = from_arrow(field.type)
        if type_ is not None and _extended(type_):
            # Held as codes, a UUID and JSON are no others than a VARCHAR of their text.
            values = [v for chunk in table.column(i).chunks for v in physical(chunk, type_)]
            table = table.set_column(i, field.name, arrow_of(values, _plain(type_)))
    return table


def _extended(type_: SqlType) -> bool:
    return type_.name in ("UUID", "JSON") or any(map(_extended, type_.inner))


def _plain(type_: SqlType) -> SqlType:
    if type_.name in ("UUID", "JSON"):
        return VARCHAR
    return SqlType(type_.name, type_.precision, type_.scale, tuple(map(_plain, type_.inner)), type_.names)
