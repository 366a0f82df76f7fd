"""A large matrix as files: its rows in as many pieces as there are workers, and the factors merged since.

Invariant: a file that is named by some `Blocks` never changes; merging gives other `Blocks` with one more
file in the chain.
"""

from __future__ import annotations

import io
import re
import uuid
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.spark.state.named import NamedFiles
from everfresh.state import open_sealed, pack_arrays, seal, unpack_arrays

Array = np.ndarray[Any, Any]
_HEAD = 1 << 12  # more than the header of an array of numbers
_FILE = re.compile(r"[0-9a-f]+/(?:[0-9]+-[0-9a-f]+\.add)?")


@dataclass(frozen=True, slots=True)
class Blocks:
    """The value of a matrix: files of rows in the folder `id`, and the files of `chain`, added to them."""

    id: str
    rows: int
    columns: int
    workers: int
    dtype: str
    chain: tuple[str, ...] = ()
    total: float = 0.0
    """The sum of all entries when the files of rows were written: infinite or NaN if one of them is."""

    def __post_init__(self) -> None:
        for name in (f"{self.id}/", *self.chain):  # a manifest says them: none leads out of the folder
            if not _FILE.fullmatch(name):
                raise EverfreshError(Code.DAMAGED, f"the files of a matrix cannot be called {name!r}")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    def sum(self) -> float:
        """What tells whether all entries are finite."""
        return self.total

    def rows_of(self, worker: int) -> slice:
        """The rows that a worker keeps."""
        return cut(self.rows, worker, self.workers)

    def columns_of(self, worker: int) -> slice:
        """The columns that a worker keeps."""
        return cut(self.columns, worker, self.workers)

    def files(self) -> set[str]:
        """The files that the value needs, below the folder of matrices."""
        return {f"{self.id}/{rows_file(w)}" for w in range(self.workers)} | set(self.chain)


def cut(size: int, worker: int, workers: int) -> slice:
    """A worker's share of so many rows.

    >>> [cut(10, worker, 3) for worker in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(size * worker // workers, size * (worker + 1) // workers)


def rows_file(worker: int) -> str:
    """The name of a worker's rows."""
    return f"rows-{worker:04d}.npy"


def fresh_id() -> str:
    """The name of new blocks."""
    return uuid.uuid4().hex


def files_of(root: str) -> NamedFiles:
    """The files of the matrices of a database."""
    return NamedFiles(root, "matrices")


def write_rows(files: NamedFiles, blocks_id: str, worker: int, rows: Array) -> None:
    """Write a worker's rows; another attempt writes the same."""
    head, rows = io.BytesIO(), np.ascontiguousarray(rows)
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(rows))
    files.write(f"{blocks_id}/{rows_file(worker)}", [head.getvalue(), rows.reshape(-1).view(np.uint8).data])


def read_rows(files: NamedFiles, blocks: Blocks, worker: int) -> Array:
    """A worker's rows as they were written, mapped where that can be."""
    name = f"{blocks.id}/{rows_file(worker)}"
    part = blocks.rows_of(worker)
    if part.start == part.stop or blocks.columns == 0:  # nothing that could be mapped
        return np.zeros((part.stop - part.start, blocks.columns), blocks.dtype)
    try:
        found = _array(files.view(name))
    except ValueError as error:
        raise _damaged(files.place(name), str(error)) from error
    shape = (part.stop - part.start, blocks.columns)
    if found.shape != shape or str(found.dtype) != blocks.dtype:
        what = f"it holds {found.dtype}{found.shape}, where {blocks.dtype}{shape} belongs"
        raise _damaged(files.place(name), what)
    return found


def _array(data: memoryview) -> Array:
    """An array in NumPy's format, without a copy."""
    head = io.BytesIO(bytes(data[:_HEAD]))
    if np.lib.format.read_magic(head) != (1, 0):
        raise ValueError("it is of another version of NumPy's format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    if fortran or dtype.hasobject:
        raise ValueError("it holds no rows of numbers")
    return np.frombuffer(data[head.tell() :], dtype).reshape(shape)


def _damaged(path: str, what: str) -> EverfreshError:
    return EverfreshError(Code.DAMAGED, f"{path} is damaged: {what}", hint="restore the folder from a backup")


def write_factors(files: NamedFiles, blocks: Blocks, left: Array, right: Array) -> Blocks:
    """The value after `left right'` was added to it."""
    name = f"{blocks.id}/{len(blocks.chain):06d}-{uuid.uuid4().hex}.add"
    files.write(name, seal("factors", {}, {"factors": pack_arrays({"left": left.T, "right": right.T})}))
    return replace(blocks, chain=(*blocks.chain, name))


def read_factors(files: NamedFiles, name: str) -> tuple[Array, Array]:
    """The factors of a link of a chain."""
    sealed = open_sealed(files.view(name), "factors", files.place(name))
    arrays = unpack_arrays(sealed.sections["factors"])
    return arrays["left"].T, arrays["right"].T


def assemble(files: NamedFiles, blocks: Blocks) -> Array:
    """The whole matrix from its files."""
    parts = [read_rows(files, blocks, worker) for worker in range(blocks.workers)]
    whole = np.concatenate(parts, axis=0)
    for name in blocks.chain:
        left, right = read_factors(files, name)
        whole += left @ right.T
    return whole
