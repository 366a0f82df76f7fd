"""Generated data on disk: one folder of Parquet files per data set and scale factor, in the user's cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from everfresh.errors import Code, EverfreshError


def cache_folder() -> Path:
    """Where generated data are kept: `everfresh` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "everfresh"


def generated(
    name: str, sf: float, tables: Iterable[str], folder: Path | str | None, make: Callable[[Path], None]
) -> dict[str, Path]:
    """The Parquet file of each table, made by `make(fresh folder)` unless they are in `folder` already.

    `folder` (the user's cache folder unless given) gets one folder per data set and scale factor. It appears
    whole or not at all, whatever interrupts `make`, and several processes may ask at the same time.
    """
    if not sf > 0:
        raise EverfreshError(
            Code.ARGUMENT, f"a scale factor of {sf} makes no data", place="sf", hint="0.01 is 10 MB"
        )
    home = (Path(folder) if folder is not None else cache_folder()) / f"{name}-{sf:g}"
    files = {table: home / f"{table}.parquet" for table in tables}
    if all(file.exists() for file in files.values()):
        return files
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{home.name}-", dir=home.parent) as place:
        fresh = Path(place) / "data"
        fresh.mkdir()
        make(fresh)
        missing = [table for table in files if not (fresh / f"{table}.parquet").exists()]
        if missing:
            raise EverfreshError(Code.ENVIRONMENT, f"the generator of {name} made no table '{missing[0]}'")
        try:
            fresh.rename(home)
        except OSError:
            if not all(file.exists() for file in files.values()):  # a broken folder, not a faster process
                shutil.rmtree(home)
                fresh.rename(home)
    return files


def plain(table: pa.Table) -> pa.Table:
    """The table without the generator's metadata, and with ordinary strings."""
    fields = [
        pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type, f.nullable)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()
