"""FITS tables, by astropy: the first table of a file; TDMIN and TDMAX of its columns are a header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.raw.files.columns import Slab, batch_of, schema_of, steps
from everfresh.raw.files.places import opened
from everfresh.raw.files.protocol import Ranges, corrupt, installed
from everfresh.state import is_url

_MAGIC = b"SIMPLE  ="
"""How a file begins that is not packed."""


class Fits:
    """Binary and ASCII tables of FITS."""

    name = "fits"
    endings: tuple[str, ...] = (".fits", ".fit", ".fits.gz")

    def columns(self, path: str) -> pa.Schema:
        """As the header of the table has them."""
        with _table(path) as table:
            return schema_of([(n, _kind(table, n), _shape(table, n)) for n in table.columns.names])

    def ranges(self, path: str) -> Ranges:
        """Of the columns with TDMIN and TDMAX."""
        with _table(path) as table:
            found = {}
            for k, name in enumerate(table.columns.names, 1):
                least, greatest = table.header.get(f"TDMIN{k}"), table.header.get(f"TDMAX{k}")
                if (
                    isinstance(least, (int, float))
                    and isinstance(greatest, (int, float))
                    and least <= greatest
                ):
                    found[name] = (least, greatest)
            return found

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some rows at a time."""
        with _table(path) as table, ExitStack() as stack:
            names = [n for n in table.columns.names if any(c == n or c.startswith(f"{n}_") for c in columns)]
            slabs = _records(path, table, stack) if all(_is_plain(table, name) for name in names) else None
            for begin, end in steps(table.header["NAXIS2"]):
                try:
                    some = table.data[begin:end] if slabs is None else slabs(begin, end)
                    batch = batch_of([(n, _known(table, n, np.asarray(some[n]))) for n in names], columns)
                except (OSError, TypeError, ValueError) as error:
                    raise corrupt(path, error, begin) from error
                yield batch


def _is_plain(table: Any, name: str) -> bool:
    """Whether the numbers of a column are those that are stored."""
    column = table.columns[name]
    scaled = column.bscale not in (None, "", 1) or column.bzero not in (None, "", 0)
    return not scaled and column.format[-1:] in "BIJKED" and column.dtype.base.kind in "iuf"


def _known(table: Any, name: str, values: Any) -> Any:
    """The values of a column, masked where the header says that a number stands for none (TNULL); as astropy
    has it, that number is one as it is read, of fractions one as it is stored."""
    column = table.columns[name]
    if not isinstance(column.null, int) or values.dtype.kind not in "iuf":
        return values
    missing = column.null
    if values.dtype.kind == "f":
        missing = missing * (column.bscale or 1) + (column.bzero or 0)
    return np.ma.masked_equal(values, missing)


def _records(path: str, table: Any, stack: ExitStack) -> Callable[[int, int], Any] | None:
    """What reads some rows of a binary table as they are stored, so that a file need not fit into memory, as
    astropy's tables do; None for a file that is packed, or that is no binary table of fixed width."""
    from astropy.io import fits

    if is_url(path) or type(table) is not fits.BinTableHDU:
        return None
    kind, begins = table.columns.dtype.newbyteorder(">"), table.fileinfo()["datLoc"]
    if kind.itemsize != table.header["NAXIS1"]:
        return None
    handle = stack.enter_context(opened(path))
    if handle.read(len(_MAGIC)) != _MAGIC:
        return None
    slab = Slab(kind)

    def read(begin: int, end: int) -> Any:
        found = slab.of(end - begin)
        handle.seek(begins + begin * kind.itemsize)
        if handle.readinto(memoryview(found).cast("B")) != found.nbytes:  # type: ignore[attr-defined]
            raise OSError("the file is shorter than its header says")
        return found

    return read


def _kind(table: Any, name: str) -> np.dtype[Any]:
    if table.columns[name].bscale not in (None, "", 1) or table.columns[name].bzero not in (None, "", 0):
        return np.asarray(table.data[name][:0]).dtype  # scaled: what the numbers are, and not what is stored
    kind: np.dtype[Any] = table.columns[name].dtype
    return np.dtype(bool) if table.columns[name].format.endswith("L") else kind.base


def _shape(table: Any, name: str) -> tuple[int, ...]:
    kind = table.columns[name].dtype
    return tuple(kind.shape) if kind.kind == "V" or kind.shape else ()


@contextmanager
def _table(path: str) -> Iterator[Any]:
    fits = installed("astropy.io.fits", path)
    with opened(path) as handle:
        try:
            found = fits.open(handle, memmap=False, lazy_load_hdus=True)
            table = next((hdu for hdu in found if isinstance(hdu, (fits.BinTableHDU, fits.TableHDU))), None)
        except Exception as error:  # astropy raises many kinds for bytes that are no FITS
            raise corrupt(path, error) from error
        with found:
            if table is None:
                raise corrupt(path, ValueError("there is no table in it"))
            yield table
