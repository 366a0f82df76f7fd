"""Arrow columns as words without a value in between: the fast twin of `Vector.from_arrow` and `to_word`.

A column that has exactly the Arrow type of its SQL type, in one chunk, is read where it lies: integers, dates
and moments as NumPy sees their buffer, a decimal128 as its low words (and its high words where it is wide).
Invariant: `words_into` writes what the slow way would, or nothing and returns False.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.types import SqlType, to_arrow

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_INTEGERS: dict[str, Any] = {
    "TINYINT": np.int8,
    "SMALLINT": np.int16,
    "INTEGER": np.int32,
    "BIGINT": np.int64,
    "DATE": np.int32,
    "TIMESTAMP": np.int64,
}
_FLOATS: dict[str, Any] = {"REAL": np.float32, "DOUBLE": np.float64}
_DECIMALS = ("DECIMAL", "HUGEINT")


def validity(array: pa.Array) -> Mask | None:
    """Where an array is not NULL; None: everywhere."""
    if not array.null_count:
        return None
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    first, last = array.offset, array.offset + len(array)
    low = first // 8
    out: Mask = np.unpackbits(bits[low : -(-last // 8)], bitorder="little").view(np.bool_)
    return out[first - 8 * low : last - 8 * low]


def words_into(array: pa.Array | pa.ChunkedArray, type_: SqlType, out: Ints) -> tuple[bool, Mask | None]:
    """Write the words of a column to the rows of `out`: whether it could be done, and where it is not NULL.

    >>> out = np.zeros((1, 2), np.int64)
    >>> words_into(pa.array([7, -1], pa.int32()), SqlType("INTEGER"), out)[0], out.tolist()
    (True, [[7, -1]])
    """
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            return False, None
        array = array.chunk(0)
    name, rows, offset = type_.name, len(array), array.offset
    if not rows or array.type != to_arrow(type_):
        return False, None
    if name in _INTEGERS:
        out[0] = np.frombuffer(array.buffers()[1], _INTEGERS[name], offset + rows)[offset:]
    elif name in _DECIMALS:
        halves = np.frombuffer(array.buffers()[1], np.int64, 2 * (offset + rows))[2 * offset :]
        if type_.is_wide:
            out[0], out[1] = halves[1::2], halves[::2]
        else:
            out[0] = halves[::2]
    elif name in _FLOATS:
        floats = out[0].view(np.float64)
        # Adding 0.0 turns -0.0 into 0.0; every NaN becomes the one.
        np.add(np.frombuffer(array.buffers()[1], _FLOATS[name], offset + rows)[offset:], 0.0, out=floats)
        floats[np.isnan(floats)] = np.nan
    else:
        return False, None
    valid = validity(array)
    if valid is not None:
        out[:, ~valid] = 0  # what Arrow has in the place of a NULL is undefined
    return True, valid
