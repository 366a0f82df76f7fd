"""The formats there are, and which one a file has."""

from __future__ import annotations

from collections.abc import Mapping

from everfresh.errors import Code, EverfreshError
from everfresh.raw.files.csv import Csv
from everfresh.raw.files.fits import Fits
from everfresh.raw.files.hdf5 import Hdf5
from everfresh.raw.files.parquet import Parquet
from everfresh.raw.files.protocol import Reader
from everfresh.raw.files.zarr import Zarr

_READERS: tuple[Reader, ...] = (Csv(), Fits(), Hdf5(), Parquet(), Zarr())
FORMATS: Mapping[str, Reader] = {reader.name: reader for reader in _READERS}
ENDINGS = tuple(ending for reader in FORMATS.values() for ending in reader.endings)


def format_of(path: str, name: str = "") -> Reader:
    """The format called `name`, or that of a file's ending.

    >>> format_of("nights/1.fits").name, format_of("x.dat", "csv").name
    ('fits', 'csv')
    """
    if name:
        if name.lower() not in FORMATS:
            raise EverfreshError(
                Code.ARGUMENT, f"there is no format '{name}'", hint="formats are: " + ", ".join(FORMATS)
            )
        return FORMATS[name.lower()]
    for reader in FORMATS.values():
        if path.lower().endswith(reader.endings):
            return reader
    raise EverfreshError(
        Code.ARGUMENT,
        "its ending tells no format",
        place=path,
        hint="endings are: " + ", ".join(ENDINGS) + "; or say WITH (format = 'csv')",
    )
