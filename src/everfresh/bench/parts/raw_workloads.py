"""What `raw` measures: files of nights and of places, and the queries that go over them.

After section 4.1 of the paper on distributed caching for raw arrays. PTF-1 explores two places of the sky
through all nights: shifted, closer, back again. PTF-2 has four ranges side by side that come in turns. GEO
moves north by a constant and back. Ranges are given by their corner and size in cells; the parameters were
chosen before anything was measured. With another seed than 0 the ranges have the same sizes and order, and
lie elsewhere over the same files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.datasets import geo, ptf
from everfresh.raw.boxes import Box

if TYPE_CHECKING:
    from everfresh.raw.cache.coordinator import Coordinator
    from everfresh.raw.catalog import Catalog
    from everfresh.raw.cells import CellReader

Columns = dict[str, Any]
NIGHTS, PLACES = 160, 160
"""Files of a catalog."""
ROW = 44
"""Bytes of a row: three coordinates or two, and attributes."""


@dataclass(frozen=True)
class Workload:
    """Queries over the files of one catalog: each is a box whose cells are joined with their neighbours."""

    name: str
    data: str
    format: str
    ranges: str
    shape: str
    boxes: tuple[Box, ...]
    later: int
    """The first query of those that count: the ones before are new to every policy."""

    def reader(self, folder: str) -> CellReader:
        """What reads the files in a folder."""
        from everfresh.raw.cells import CellReader
        from everfresh.raw.definition import CreateExternal, parse

        text = f"CREATE EXTERNAL ARRAY a <mag: DOUBLE, flux: DOUBLE> {self.ranges} FROM '{folder}'"
        definition = parse(text)
        assert isinstance(definition, CreateExternal)
        return CellReader(definition)


def asked(cache: Coordinator, workload: Workload, box: Box, evaluated: bool = True) -> None:
    """Join the cells of a box with their neighbours; not `evaluated`: only read, keep and place them."""
    from everfresh.arrays.aql_parser import parse
    from everfresh.arrays.evaluate import evaluate
    from everfresh.raw.needs import needs_of

    schema = cache.readers["a"].schema
    where = ", ".join(map(str, (*box.lo, *box.hi)))
    on = " AND ".join(f"y.{name} = x.{name}" for name in schema.dimension_names)
    statement: Any = parse(
        f"SELECT COUNT(*) AS n FROM BETWEEN(a, {where}) x SIMILARITY JOIN BETWEEN(a, {where}) y "
        f"ON ({on}) WITH SHAPE {workload.shape}"
    )
    needs = needs_of(statement, {"a": schema})
    arrays = cache.answer(needs.asks, needs.joins)
    if evaluated:
        evaluate(statement, arrays)


def _sky(ra: int, dec: int, wide: int, high: int) -> Box:
    return Box((1, ra, dec), (NIGHTS * ptf.LENGTH[0], ra + wide - 1, dec + high - 1))


def _seen(seed: int, count: int, wide: int, high: int) -> list[tuple[int, int]]:
    """Places that the telescope has seen, drawn by their cells."""
    known = ptf.chunks(NIGHTS, heavy=True)
    random = np.random.default_rng((5, seed))
    some = random.choice(len(known), count, replace=False, p=known.cells / known.cells.sum())
    return [
        (max(1, min(int(ra) - wide // 2, 100_000 - wide)), max(1, min(int(dec) - high // 2, 50_000 - high)))
        for _, ra, dec in known.lo[some].tolist()
    ]


def ptf_1(seed: int = 0) -> Workload:
    """Two places, explored."""
    a, b = _seen(seed, 2, 1_300, 900) if seed else ((9_600, 33_000), (43_960, 36_150))
    wide, high = 1_000, 700

    def at(place: tuple[int, int], ra: float = 0, dec: float = 0, size: float = 1) -> Box:
        return _sky(place[0] + int(ra * wide), place[1] + int(dec * high), int(wide * size), int(high * size))

    boxes = (
        at(a), at(a, 0.25), at(a, 0.3, 0.3, 0.4), at(a, 0, 0.25), at(b),
        at(b, 0.3, 0.3, 0.4), at(b, 0.25), at(a), at(b), at(a, 0.3, 0.3, 0.4),
    )  # fmt: skip
    return Workload(
        "PTF-1", "ptf", "hdf5", "[time=1,17920,112; ra=1,100000,100; dec=1,50000,50]", "LINF(1)", boxes, 2
    )


def ptf_2(seed: int = 0) -> Workload:
    """Four ranges, each shifted by half of its width, in turns: 1, 2, 3, 4, 1, 2, ... Together they have a
    sixth of all cells, by the catalog: 1.5 times the smallest budget."""
    ra, dec = _heavy(seed) if seed else (1, 33_000)
    four = [_sky(ra + 4_000 * k, dec, 8_000, 2_300) for k in range(4)]
    return Workload(
        "PTF-2", "ptf", "fits", "[time=1,17920,112; ra=1,100000,100; dec=1,50000,50]", "LINF(1)",
        tuple(four[k % 4] for k in range(10)), 5,
    )  # fmt: skip


def _heavy(seed: int) -> tuple[int, int]:
    """The corner of four ranges that together have 0.15 to 0.2 of all cells."""
    known = ptf.chunks(NIGHTS, heavy=True)
    random = np.random.default_rng((6, seed))
    while True:
        ra, dec = int(random.integers(1, 80_000)), int(random.integers(25_000, 42_000))
        lo, hi = np.array([1, ra, dec]), np.array([NIGHTS * ptf.LENGTH[0], ra + 20_000, dec + 2_300])
        some = ((known.lo <= hi) & (known.hi >= lo)).all(axis=1)
        if 0.15 <= known.cells[some].sum() / known.cells.sum() <= 0.2:
            return ra, dec


def geo_shift(seed: int = 0) -> Workload:
    """A range that moves north by 3,000 and back: 1 to 5, then 5 to 1."""
    long, lat = 50_000, 26_000
    if seed:
        random = np.random.default_rng((7, seed))
        place = int(random.integers(len(geo.places()[0])))
        east, north = (float(each[place]) for each in geo.places())
        long = int((east + 180) / 360 * 100_000) - 3_000
        lat = min(int((north + 90) / 180 * 50_000) - 3_000, 34_000)
    five = [Box((long, lat + 3_000 * k), (long + 5_999, lat + 2_999 + 3_000 * k)) for k in range(5)]
    return Workload(
        "GEO", "geo", "csv", "[long=1,100000,400; lat=1,50000,200]", "LINF(1)", (*five, *reversed(five)), 6
    )


def hundred(seed: int = 0) -> Workload:
    """A hundred queries at places that are drawn once, popular ones more often."""
    random = np.random.default_rng(11 + seed)
    places = (
        _seen(seed, 5, 900, 700)
        if seed
        else [(9_600, 33_000), (43_960, 36_150), (12_990, 34_910), (38_970, 33_910), (24_980, 31_930)]
    )
    boxes = []
    for _ in range(100):
        ra, dec = places[min(int(random.geometric(0.4)) - 1, len(places) - 1)]
        shift = random.integers(-150, 151, 2)
        boxes.append(_sky(int(ra + shift[0]), int(dec + shift[1]), 600, 400))
    return Workload(
        "PTF-100", "ptf", "hdf5", "[time=1,17920,112; ra=1,100000,100; dec=1,50000,50]", "LINF(1)",
        tuple(boxes), 2,
    )  # fmt: skip


WORKLOADS: tuple[Callable[[int], Workload], ...] = (ptf_1, ptf_2, geo_shift, hundred)


def files(data: str, mb: int) -> Iterator[Columns]:
    """The rows of each file, so many that all files together have about `mb` megabytes of numbers."""
    return _nights(mb) if data == "ptf" else _places(mb)


def _nights(mb: int) -> Iterator[Columns]:
    scale = mb * 1e6 / (int(ptf.chunks(NIGHTS, heavy=True).cells.sum()) * ROW)
    for night in range(NIGHTS):
        found = ptf.cells(1, first=night, scale=scale, heavy=True)
        yield {**found, **_attributes(len(found["ra"]), night)}


def _places(mb: int) -> Iterator[Columns]:
    long, lat = geo.places()
    copies = max(0, round(mb * 1e6 / (len(long) * ROW)) - 1)
    for k, some in enumerate(np.array_split(np.arange(len(long)), PLACES)):
        random = np.random.default_rng((3, k))
        found = geo.scattered(long[some], lat[some], copies, random)
        yield {
            **found,
            "mag": random.normal(19, 1.5, len(found["long"])),
            **_attributes(len(found["long"]), k),
        }


def _attributes(rows: int, seed: int) -> Columns:
    random = np.random.default_rng((4, seed))
    return {"flux": random.normal(size=rows), "err": random.random(rows)}


def write(folder: Path, data: str, format: str, mb: int) -> None:
    """Write the files of a catalog."""
    for k, rows in enumerate(files(data, mb)):
        path = folder / f"{k:04d}.{'h5' if format.startswith('hdf5') else format}"
        _WRITE[format](path, rows)


@contextmanager
def laid_down(folder: str | None, data: str, format: str, mb: int) -> Iterator[str]:
    """The files of a catalog, in a folder for this time; or for good below `folder`, if one is given."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="everfresh-raw-") as made:
            write(Path(made), data, format, mb)
            yield made
        return
    kept = Path(folder) / f"{data}-{format}-{mb}"
    if not kept.exists():
        draft = kept.with_name(kept.name + ".part")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        write(draft, data, format, mb)
        draft.rename(kept)
    yield str(kept)


def looked(reader: CellReader, folder: str, workers: int) -> Catalog:
    """The catalog of a folder, as fine as a first look makes it; what an earlier run has found counts, if the
    files are the same."""
    from everfresh.raw.cache.coordinator import Coordinator
    from everfresh.raw.catalog import Catalog
    from everfresh.raw.looking import look

    beside = Path(f"{folder}.boxes")
    before = Catalog.of_text(beside.read_text()).owned(workers) if beside.exists() else Catalog()
    found = look(reader, before, workers, Coordinator().numbers).catalog
    beside.write_text(found.to_text())
    return found


def _csv(path: Path, rows: Columns) -> None:
    import pyarrow as pa
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(rows), path)


def _fits(path: Path, rows: Columns) -> None:
    from astropy.table import Table

    Table(rows).write(path)


def _hdf5(path: Path, rows: Columns, **how: Any) -> None:
    import h5py

    records = np.empty(
        len(next(iter(rows.values()))), [(name, column.dtype) for name, column in rows.items()]
    )
    for name, column in rows.items():
        records[name] = column
    with h5py.File(path, "w") as file:
        file.create_dataset("cells", data=records, **how)


_WRITE: dict[str, Callable[[Path, Columns], None]] = {
    "csv": _csv,
    "fits": _fits,
    "hdf5": _hdf5,
    "hdf5-gzip": partial(_hdf5, compression="gzip", shuffle=True),
}
