"""What samples are made of: one real or complex number, or several of a kind, by component.

A vector has numbered components, a struct named ones; operations work on each component alike. In Arrow a
complex number is an extension type over two doubles, so that its memory is that of a NumPy array.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.errors import Code, EverfreshError
from everfresh.signals.nodes import PayloadType

Array = np.ndarray[Any, Any]


class ComplexType(pa.ExtensionType):  # type: ignore[misc]
    """Complex numbers in Arrow: `FixedSizeList<double>[2]`."""

    def __init__(self) -> None:
        super().__init__(pa.list_(pa.float64(), 2), "everfresh.complex")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ComplexType:
        return cls()

    def __hash__(self) -> int:
        return hash(self.extension_name)  # as equality has it


COMPLEX = ComplexType()
with suppress(pa.ArrowKeyError):  # another import of this module has done it
    pa.register_extension_type(COMPLEX)


def complex_array(values: Array) -> pa.Array:
    """Complex numbers in Arrow.

    >>> to_complex(complex_array(np.array([1 + 2j])))
    array([1.+2.j])
    """
    flat = np.ascontiguousarray(values, np.complex128).view(np.float64)
    return pa.ExtensionArray.from_storage(COMPLEX, pa.FixedSizeListArray.from_arrays(pa.array(flat), 2))


def to_complex(column: pa.Array) -> Array:
    """Complex numbers of Arrow."""
    flat = column.storage.flatten().to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(flat).view(np.complex128)


@dataclass(frozen=True)
class Payload:
    """The components of a sample."""

    names: tuple[str, ...]
    complex: bool = False
    vector: bool = False
    type: PayloadType | None = None
    """Of values with arithmetic of their own."""

    @property
    def dtype(self) -> Any:
        """The type of a component."""
        return np.complex128 if self.complex else np.float64

    @property
    def scalar(self) -> bool:
        """Whether it is one number."""
        return len(self.names) == 1 and not self.vector and self.type is None

    def columns(self, values: Array) -> Mapping[str, pa.Array]:
        """Samples (by component) as columns of a table."""
        if self.vector:
            flat = np.ascontiguousarray(values.T).reshape(-1)
            inner = complex_array(flat) if self.complex else pa.array(flat)
            return {
                self.names[0].partition("[")[0]: pa.FixedSizeListArray.from_arrays(inner, len(self.names))
            }
        made = complex_array if self.complex else pa.array
        return {name: made(values[c]) for c, name in enumerate(self.names)}

    def arrays(self, frames: Array) -> Mapping[str, pa.Array]:
        """Windows of one component, an array in each row."""
        flat = np.ascontiguousarray(frames).reshape(-1)
        inner = complex_array(flat) if np.iscomplexobj(flat) else pa.array(flat)
        return {self.names[0]: pa.FixedSizeListArray.from_arrays(inner, frames.shape[-1])}


def payload_of(schema: pa.Schema, value: tuple[str, ...], table: str) -> Payload:
    """What the value columns of a table are as a payload."""
    found: list[Payload] = []
    for name in value:
        if name not in schema.names:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"table '{table}' has no column '{name}'",
                hint="columns are: " + ", ".join(schema.names),
            )
        type_ = schema.field(name).type
        if isinstance(type_, ComplexType):
            found.append(Payload((name,), complex=True))
        elif pa.types.is_fixed_size_list(type_) and is_number(type_.value_type):
            names = tuple(f"{name}[{i}]" for i in range(type_.list_size))
            found.append(Payload(names, vector=True))
        elif is_number(type_):
            found.append(Payload((name,)))
        else:
            raise EverfreshError(
                Code.SIG_TYPE,
                f"column '{name}' of table '{table}' is {type_}: a signal has numbers",
                hint="a signal's value is a number, a complex number, a vector of fixed length, "
                "or several number columns",
            )
    if len(found) == 1:
        return found[0]
    if any(each.vector for each in found) or len({each.complex for each in found}) > 1:
        raise EverfreshError(
            Code.SIG_TYPE,
            f"the value columns {', '.join(value)} of table '{table}' are of several kinds",
            hint="a struct has real numbers only, or complex ones only",
        )
    return Payload(tuple(each.names[0] for each in found), complex=found[0].complex)


def is_number(type_: pa.DataType) -> bool:
    """Whether values are whole, floating or decimal numbers."""
    return any(is_(type_) for is_ in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def values_of(table: pa.Table, value: tuple[str, ...], payload: Payload) -> tuple[Array, Array | None]:
    """The value columns by component, and which rows have them (None: all)."""
    parts: list[Array] = []
    valid: Array | None = None
    for name in value:
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if column.null_count:
            here = column.is_valid().to_numpy(zero_copy_only=False)
            valid = here if valid is None else valid & here
        if payload.complex:
            storage = column.storage if isinstance(column.type, ComplexType) else column
            flat = np.zeros((len(column), 2))
            ok = column.is_valid().to_numpy(zero_copy_only=False)
            flat[ok] = storage.filter(pa.array(ok)).flatten().to_numpy(zero_copy_only=False).reshape(-1, 2)
            parts.append(flat.view(np.complex128)[:, 0][None])
        elif payload.vector:
            width = len(payload.names)
            rows = np.zeros((len(column), width))
            ok = column.is_valid().to_numpy(zero_copy_only=False)
            flat = pc.cast(column.filter(pa.array(ok)).flatten(), pa.float64())
            rows[ok] = flat.to_numpy(zero_copy_only=False).reshape(-1, width)
            parts.append(rows.T)
        else:
            numbers = column if column.type == pa.float64() else pc.cast(column, pa.float64(), safe=False)
            if numbers.null_count:
                numbers = numbers.fill_null(0.0)
            parts.append(numbers.to_numpy(zero_copy_only=False)[None])
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts)), valid
