"""What `simjoin` joins: catalogs like PTF's in three and in two dimensions, and places of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everfresh.errors import EverfreshError

if TYPE_CHECKING:
    from everfresh.arrays.cells import Array
    from everfresh.arrays.plan import Chunks, Problem, Reach
    from everfresh.arrays.shape import Shape

ROW = 24
"""Bytes of a cell: a packed key and two attributes."""


@dataclass(frozen=True)
class Workload:
    """A self-join: the catalog, not placed yet, and the reach of the shape."""

    name: str
    chunks: Chunks
    reach: Reach

    def problem(self, workers: int, two: bool = False) -> Problem:
        """The chunk pairs, chunks dealt round-robin; `two` treats the array as two of the same content."""
        from everfresh.arrays.plan import place, problem

        placed = place(self.chunks, "round-robin", workers)
        return problem(placed, self.reach, workers, placed if two else None)


def workloads(quick: bool, skip: Callable[[str, str], None]) -> Iterator[Workload]:
    """The workloads of the paper on similarity joins, section 5, and PTF with heavier skew."""
    nights = 25 if quick else 180
    yield ptf_3d(nights)
    yield ptf_2d(nights)
    try:
        yield _geo(limit=6000 if quick else None)
    except EverfreshError as error:
        skip("GEO", error.message)
    yield ptf_3d(nights, heavy=True)


def ptf_3d(nights: int, heavy: bool = False) -> Workload:
    """All 26 neighbours of a cell: Linf(1) without its centre."""
    from everfresh.arrays.plan import Reach

    reach = Reach.box((-1, -1, -1), (1, 1, 1))
    return Workload("PTF 3-D, heavy skew" if heavy else "PTF 3-D", _sky(nights, heavy), reach)


def ptf_2d(nights: int) -> Workload:
    """The four neighbours of a cell in the same exposure: L1(1) without its centre, time equal."""
    import numpy as np

    from everfresh.arrays.plan import Reach, chunk_offsets
    from everfresh.datasets import ptf

    cross = np.array([(0, 0, -1), (0, 0, 1), (0, -1, 0), (0, 1, 0)])
    reach = Reach.box((0, -1, -1), (0, 1, 1), offsets=chunk_offsets(cross, ptf.LENGTH))
    return Workload("PTF 2-D", _sky(nights, False), reach)


def _sky(nights: int, heavy: bool) -> Chunks:
    from everfresh.arrays.plan import Chunks
    from everfresh.datasets import ptf

    found = ptf.chunks(nights, heavy=heavy)
    return Chunks.of(
        found.lo, found.hi, cells=found.cells, bytes=found.cells * ROW, start=ptf.START, length=ptf.LENGTH
    )


def _geo(limit: int | None) -> Workload:
    """The cells within a distance of 4, about a mile: L2(4)."""
    import numpy as np

    from everfresh.arrays.plan import Reach, chunk_offsets
    from everfresh.datasets import geo

    cells = geo.cells(9, limit=limit)
    points = np.stack([cells[name] for name in geo.DIMENSIONS], axis=1)
    square = np.stack(np.meshgrid(np.arange(-4, 5), np.arange(-4, 5)), axis=-1).reshape(-1, 2)
    disc = square[(square**2).sum(axis=1) <= 16]
    reach = Reach.box((-4, -4), (4, 4), offsets=chunk_offsets(disc, geo.LENGTH))
    return Workload("GEO", catalog_of(points, geo.START, geo.LENGTH), reach)


def catalog_of(points: Any, start: tuple[int, ...], length: tuple[int, ...]) -> Chunks:
    """The catalog of an array with these cells."""
    import numpy as np

    from everfresh.arrays.plan import Chunks

    places = (points - np.array(start)) // np.array(length)
    order = np.lexsort(places.T[::-1])
    points, places = points[order], places[order]
    begins = np.flatnonzero(np.concatenate([[True], (places[1:] != places[:-1]).any(axis=1)]))
    cells = np.diff(begins, append=len(points))
    return Chunks.of(
        np.minimum.reduceat(points, begins),
        np.maximum.reduceat(points, begins),
        cells=cells,
        bytes=cells * ROW,
        start=start,
        length=length,
    )


def cells_of(
    quick: bool, skip: Callable[[str, str], None], nights: int
) -> Iterator[tuple[str, Array, Shape]]:
    """The same workloads with their cells, for joins that are run; surveys have so many nights."""
    from everfresh.arrays.shape import L1, L2, Cuboid, Linf
    from everfresh.datasets import geo, ptf

    sky = _array(ptf.cells(nights), ptf.DIMENSIONS, ptf.START, ptf.LENGTH)
    yield f"PTF 3-D, {nights} nights", sky, Linf(1).without_center()
    cross = (Cuboid(((0, 0), (-1, 1), (-1, 1))) & L1(1)).without_center()
    yield f"PTF 2-D, {nights} nights", sky, cross
    try:
        places = geo.cells(9, limit=3000 if quick else None)
    except EverfreshError as error:
        skip("GEO, run", error.message)
        return
    yield "GEO", _array(places, geo.DIMENSIONS, geo.START, geo.LENGTH), L2(4)


def _array(
    columns: dict[str, Any], names: tuple[str, ...], start: tuple[int, ...], length: tuple[int, ...]
) -> Array:
    """An array of cells that lie chunk by chunk or not, as far as they reach."""
    import pyarrow as pa

    from everfresh.arrays.cells import array_of
    from everfresh.arrays.model import ArraySchema, Dimension
    from everfresh.types import DOUBLE, Column

    dimensions = tuple(
        Dimension(name, lo, int(columns[name].max()), chunk)
        for name, lo, chunk in zip(names, start, length, strict=True)
    )
    table = pa.table({name: columns[name] for name in names})
    values = columns.get("mag", columns[names[0]])
    table = table.append_column("mag", pa.array(values).cast(pa.float64()))
    return array_of(ArraySchema("cells", dimensions, (Column("mag", DOUBLE),)), table)
