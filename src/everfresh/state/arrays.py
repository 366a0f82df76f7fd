"""Arrays and tables as sections of a sealed file.

`pack_arrays` keeps NumPy arrays of any fixed-size type at multiples of 64 bytes behind a directory (JSON),
so that `unpack_arrays` hands out views of the section: opening a snapshot copies nothing. Tables travel as
Arrow IPC streams.

Invariant: unpacking gives arrays of equal type, shape and bytes; the views are as read-only as the buffer
they are of. These packings have no digest of their own: the sealed file around them has.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.state.files import RESTORE, aligned, byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LENGTH = struct.Struct("<Q")
_SHORT = pa.system_memory_pool()  # what lives shortly takes large pages in the pool that Arrow has of its own
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream


def pack_arrays(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Named arrays as one block of bytes, in row-major order.

    >>> packed = pack_arrays({"keys": np.arange(3), "values": np.zeros((0, 2))})
    >>> {name: (array.tolist(), array.shape) for name, array in unpack_arrays(packed).items()}
    {'keys': ([0, 1, 2], (3,)), 'values': ([], (0, 2))}
    """
    return b"".join(array_chunks(arrays))


def array_chunks(arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[Buffer]:
    """The same in chunks that are views of the arrays, where their rows lie together: nothing is copied."""
    directory: list[tuple[str, Any, tuple[int, ...], int]] = []
    contents: list[tuple[int, np.ndarray[Any, Any]]] = []
    end = 0  # offsets count from the first array, which is aligned itself
    for name, given in arrays.items():
        array = np.asarray(given)
        if array.dtype.hasobject:
            raise TypeError(f"array '{name}' holds Python objects, which have no bytes to store")
        offset = aligned(end)
        directory.append((name, np.lib.format.dtype_to_descr(array.dtype), array.shape, offset))
        if array.nbytes:
            contents.append((offset, array))
        end = offset + array.nbytes
    text = json.dumps(directory, separators=(",", ":"), ensure_ascii=False).encode()
    start = aligned(_LENGTH.size + len(text))
    chunks: list[Buffer] = [(_LENGTH.pack(len(text)) + text).ljust(start, b"\0")]
    at = 0
    for offset, array in contents:
        chunks += [bytes(offset - at), *_views(array)]
        at = offset + array.nbytes
    return chunks


def _views(array: np.ndarray[Any, Any]) -> list[Buffer]:
    """The bytes of an array, which has some, in row-major order."""
    if array.flags.c_contiguous:
        return [array.reshape(-1).view(np.uint8).data]
    if array.ndim > 1 and array.strides[-1] == array.itemsize:
        return [view for row in array for view in _views(row)]
    return _views(np.ascontiguousarray(array))


def unpack_arrays(buffer: Buffer) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of `pack_arrays`, as views of the buffer; what is none of it is refused as damaged."""
    try:
        return _arrays(byte_view(buffer))
    except (ValueError, TypeError, LookupError, struct.error) as error:
        raise EverfreshError(Code.DAMAGED, f"arrays are damaged: {error}", hint=RESTORE) from error


def _arrays(view: memoryview) -> dict[str, np.ndarray[Any, Any]]:
    (length,) = _LENGTH.unpack_from(view)
    start = aligned(_LENGTH.size + length)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, description, shape, offset in json.loads(bytes(view[_LENGTH.size : _LENGTH.size + length])):
        dtype = np.lib.format.descr_to_dtype(_description(description))
        if dtype.hasobject:  # its bytes would be taken for addresses
            raise ValueError(f"'{name}' says that it holds objects")
        empty = dtype.itemsize == 0 or 0 in shape  # has no bytes, and perhaps no place in the buffer
        arrays[name] = np.empty(shape, dtype) if empty else np.ndarray(shape, dtype, view, start + offset)
    return arrays


def _description(description: Any) -> Any:
    """A type's description with the tuples that JSON made lists of."""
    if isinstance(description, str):
        return description
    return [
        (tuple(name) if isinstance(name, list) else name, _description(inner), *map(tuple, shape))
        for name, inner, *shape in description
    ]


def pack_table(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream; columns may be dictionaries.

    >>> unpack_table(pack_table(pa.table({"a": [1, None]}))).to_pydict()
    {'a': [1, None]}
    """
    return b"".join(table_chunks([table]))


def table_chunks(tables: Iterable[pa.Table]) -> list[Buffer]:
    """Tables of one schema, at least one, as an Arrow IPC stream in chunks: each is asked for when the one
    before is packed. Those with dictionaries are one chunk."""
    tables = iter(tables)
    first = next(tables)
    if any(map(_has_dictionary, first.schema.types)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        return [sink.getvalue()]
    tables = chain([first], tables)
    chunks: list[Buffer] = []
    schema = None
    for table in tables:
        if schema is None:
            schema = table.schema
            chunks.append(_schema(schema))
        elif table.schema != schema:  # strings of more than 2 GiB have offsets of their own
            table = table.cast(schema)
        chunks += [batch.serialize(memory_pool=_SHORT) for batch in table.to_batches()]
    return [*chunks, _END]


@lru_cache(maxsize=1024)
def _has_dictionary(type_: pa.DataType) -> bool:
    """Whether values of an Arrow type, or inside of them, are places in a dictionary."""
    if isinstance(type_, pa.BaseExtensionType):
        return _has_dictionary(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return True
    return pa.types.is_nested(type_) and any(
        _has_dictionary(type_.field(i).type) for i in range(type_.num_fields)
    )


@lru_cache(maxsize=1024)
def _schema(schema: pa.Schema) -> bytes:
    """The message that a stream begins with: the same for every batch of a table."""
    packed: bytes = schema.serialize().to_pybytes()
    return packed


def unpack_table(buffer: Buffer) -> pa.Table:
    """The table of `pack_table`; its columns are views of the buffer. What is none is refused as damaged."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(buffer)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise EverfreshError(Code.DAMAGED, f"rows are damaged: {error}", hint=RESTORE) from error
