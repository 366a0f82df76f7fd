"""Chunks as bytes, between workers: one Arrow record batch each, without a schema.

Invariant: `size_of(table)` is `len(packed(table))`, and depends on the rows alone, not on how they came to be
there; so what a catalog says of a chunk is what moves when it is sent.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def _batch(table: pa.Table) -> pa.RecordBatch:
    if table.num_rows:
        whole = table.combine_chunks()
        if whole.get_total_buffer_size() != whole.nbytes:  # a part of something: that would travel too
            whole = whole.take(pa.array(np.arange(whole.num_rows)))
        return whole.to_batches()[0]
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)


def size_of(table: pa.Table) -> int:
    """The bytes that the rows take when they travel."""
    found: int = pa.ipc.get_record_batch_size(_batch(table))
    return found


def packed(table: pa.Table) -> bytes:
    """Rows as bytes.

    >>> rows = pa.table({"i": [1, 2], "s": ["x", None]})
    >>> data = packed(rows)
    >>> len(data) == size_of(rows), unpacked(data, rows.schema).to_pydict()
    (True, {'i': [1, 2], 's': ['x', None]})
    """
    found: bytes = _batch(table).serialize().to_pybytes()
    return found


def unpacked(data: bytes | memoryview, schema: pa.Schema) -> pa.Table:
    """The inverse of `packed`; columns are views of the bytes."""
    batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    return pa.Table.from_batches([batch], schema)
