"""Rows of signal views as relations of SQL, and back.

A complex number is two columns, `value_re` and `value_im`; an array, or a vector, a row for each value, with
its place in the column `i`. Rows of an array stand together and in order, so the way back is a new shape of
the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everfresh.signals.payload import COMPLEX, Array, ComplexType, complex_array, to_complex
from everfresh.types import Column, from_arrow

PLACE = "i"


@dataclass(frozen=True, eq=False)
class Form:
    """The rows of a view, as signals have them and as SQL does."""

    nothing: pa.Table
    """No rows, as signals have them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns as signals have them."""
        return self.nothing.schema

    @property
    def size(self) -> int | None:
        """How many values the arrays have; None without arrays."""
        sizes = (type_.list_size for type_ in self.schema.types if pa.types.is_fixed_size_list(type_))
        return next(sizes, None)

    @property
    def flat(self) -> bool:
        """Whether both are the same."""
        return self.size is None and not any(isinstance(t, ComplexType) for t in self.schema.types)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the relation."""
        schema = self.relational(self.nothing).schema
        found = []
        for field in schema:
            type_ = from_arrow(field.type)
            assert type_ is not None, f"{field} is no type of SQL"
            found.append(Column(field.name, type_))
        return tuple(found)

    def relational(self, rows: pa.Table) -> pa.Table:
        """Rows as a relation; columns behind those of the view, such as weights, stay."""
        if self.flat:
            return rows
        size = self.size
        repeat = None if size is None else pa.array(np.repeat(np.arange(len(rows)), size))
        made: dict[str, pa.ChunkedArray | pa.Array] = {}
        placed = size is None
        for field, column in zip(rows.schema, rows.columns, strict=True):
            if pa.types.is_fixed_size_list(field.type):
                if not placed:
                    made[PLACE] = pa.array(np.tile(np.arange(size or 0, dtype=np.int64), len(rows)))
                    placed = True
                made.update(_numbers(field.name, _flat(column), field.type.value_type))
                continue
            parts = _numbers(field.name, _whole(column), field.type)
            made.update({n: p if repeat is None else p.take(repeat) for n, p in parts.items()})
        return pa.table(made)

    def native(self, rows: pa.Table) -> pa.Table:
        """The inverse of `relational`, for whole arrays in order."""
        if self.flat:
            return rows
        size = self.size
        first = None if size is None else pa.array(np.arange(0, len(rows), max(1, size)))
        made: dict[str, pa.Array] = {}
        used: set[str] = {PLACE} if size is not None else set()
        for field in self.schema:
            inner = field.type.value_type if pa.types.is_fixed_size_list(field.type) else field.type
            if isinstance(inner, ComplexType):
                names = (f"{field.name}_re", f"{field.name}_im")
                parts = [_whole(rows.column(n)).to_numpy(zero_copy_only=False) for n in names]
                values = complex_array(np.stack(parts, axis=-1).reshape(-1).view(np.complex128))
                used.update(names)
            else:
                values = _whole(rows.column(field.name))
                used.add(field.name)
            if pa.types.is_fixed_size_list(field.type):
                made[field.name] = pa.FixedSizeListArray.from_arrays(values, size)
            else:
                made[field.name] = values if first is None else values.take(first)
        for name in rows.column_names:
            if name not in used:
                column = _whole(rows.column(name))
                made[name] = column if first is None else column.take(first)
        return pa.table(made)

    def binary(self, rows: pa.Table) -> pa.Table:
        """Rows with arrays and complex numbers as bytes, which can be compared."""
        for at, field in enumerate(self.schema):
            if not pa.types.is_fixed_size_list(field.type) and not isinstance(field.type, ComplexType):
                continue
            column, width = _whole(rows.column(at)), 2 if isinstance(field.type, ComplexType) else 1
            values = column.storage.flatten() if isinstance(field.type, ComplexType) else _flat(column)
            if isinstance(values.type, ComplexType):
                values, width = values.storage.flatten(), 2
            numbers = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
            size = 8 * width * (field.type.list_size if pa.types.is_fixed_size_list(field.type) else 1)
            made = pa.Array.from_buffers(pa.binary(size), len(rows), [None, pa.py_buffer(numbers)])
            rows = rows.set_column(at, field.name, made)
        return rows

    def of_binary(self, rows: pa.Table) -> pa.Table:
        """The inverse of `binary`."""
        for at, field in enumerate(self.schema):
            type_ = rows.schema.field(at).type
            if not pa.types.is_fixed_size_binary(type_) or type_ == field.type:
                continue
            column = _whole(rows.column(at))
            numbers = np.frombuffer(column.buffers()[1], np.float64)
            each = type_.byte_width // 8
            numbers = numbers[column.offset * each : (column.offset + len(column)) * each]
            made = pa.FixedSizeListArray.from_arrays(pa.array(numbers), each)
            if isinstance(field.type, ComplexType):
                made = pa.ExtensionArray.from_storage(COMPLEX, made)
            elif isinstance(field.type.value_type, ComplexType):
                made = pa.FixedSizeListArray.from_arrays(
                    complex_array(numbers.copy().view(np.complex128)), each // 2
                )
            rows = rows.set_column(at, field.name, made)
        return rows


def far_apart(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Of rows with `_weight`, those without another of the same keys whose numbers are as good as equal.

    >>> rows = pa.table({"t": [1, 1, 2], "value": [1.0, 1.0 + 1e-12, 3.0], "_weight": [1, -1, 1]})
    >>> far_apart(rows, ["t"])["t"].to_pylist()
    [2]
    """
    numbers = [n for n in rows.column_names if n not in keys and n != "_weight"]
    values = np.array([rows.column(n).to_numpy(zero_copy_only=False) for n in numbers], float)
    places: dict[tuple[object, ...], list[int]] = {}
    columns = [rows.column(n).to_pylist() for n in (*keys, "_weight")]
    for i, row in enumerate(zip(*columns, strict=True)):
        other = places.get((*row[:-1], -row[-1]))
        if other and np.allclose(values[:, other[-1]], values[:, i], 1e-9, 1e-9, equal_nan=True):
            other.pop()
        else:
            places.setdefault(row, []).append(i)
    return rows.take(pa.array(sorted(i for each in places.values() for i in each), pa.int64()))


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return _whole(column).flatten()


def _numbers(name: str, values: pa.Array, type_: pa.DataType) -> dict[str, pa.Array]:
    if not isinstance(type_, ComplexType):
        return {name: values}
    numbers: Array = to_complex(values)
    return {f"{name}_re": pa.array(numbers.real.copy()), f"{name}_im": pa.array(numbers.imag.copy())}
