"""One reading of a file for a query: its cells go by once, and what the query needs of them stays.

Of the pieces that the query meets and that are not in memory all cells are kept, to be cached, as long as
they fit into a limit; after that only those that the query asks for. Where a piece is to be cut follows from
counts and boxes alone, so that it does not depend on the limit.

A file that is not the one of the catalog, by its stamp before and after or by the cells that are in it, is
refused: what was read before and after a change is never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everfresh.arrays.chunk import Chunk, coordinates
from everfresh.errors import Code, EverfreshError
from everfresh.raw.boxes import Box, Ints, tight
from everfresh.raw.catalog import UNKNOWN, Piece, RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cut, Cutting, Halves
from everfresh.raw.files.places import Found, stamped
from everfresh.raw.files.protocol import corrupt


@dataclass
class Limit:
    """Bytes of cells that may still be kept."""

    left: int


class Touched:
    """A piece that a query meets, as its file is read."""

    def __init__(self, piece: Piece, cutting: Cutting, ndim: int) -> None:
        self.piece, self.cutting, self._ndim = piece, cutting, ndim
        self._whole: list[pa.Table] | None = []
        self.asked: list[pa.Table] = []
        """The cells that the query asks for."""
        self.staying: tuple[Chunk | None, ...] = ()
        """What may stay, once all is read: the piece, or its halves; None for what the query asks nothing of,
        or what did not fit."""

    def add(self, table: pa.Table, coords: Ints, limit: Limit) -> None:
        """More cells of the piece: all of them are kept while they fit, else those that are asked for."""
        asked = self.cutting.add(coords)
        some = table if asked.all() else table.filter(pa.array(asked)) if asked.any() else None
        if some is not None:
            self.asked.append(some)
        if self._whole is None:
            return
        if table.nbytes <= limit.left:
            limit.left -= table.nbytes
            self._whole.append(table)
            return
        limit.left += sum(each.nbytes for each in self._whole)
        self._whole = None

    def settle(self, min_cells: int) -> None:
        """All is read: of the cells those remain that may stay, and those that are asked for."""
        halves = self.cutting.halves(min_cells)
        if halves is None:
            self.staying = (self._side(self.cutting.asked),)
        else:
            low, cut = halves.below.asked, halves.cut
            self.staying = (self._side(low, cut, True), self._side(halves.above.asked, cut, False))
        self._whole = None

    def _side(self, asked: int, cut: Cut | None = None, below: bool = True) -> Chunk | None:
        tables = self._whole
        if not asked or not tables:
            return None
        if cut is None:
            return Chunk(pa.concat_tables(tables).combine_chunks(), self._ndim)
        low = [each.column(cut.dimension).to_numpy() < cut.first for each in tables]
        masks = [pa.array(mask if below else ~mask) for mask in low]
        some = [each.filter(mask) for each, mask in zip(tables, masks, strict=True)]
        return Chunk(pa.concat_tables(some), self._ndim)  # copied once, and in as many parts as batches


def check_same(file: RawFile, now: Found) -> None:
    """Raise if a file was written since it was looked at."""
    if now != file.found:
        raise EverfreshError(
            Code.CHANGED,
            "the file has changed since the array was created or refreshed",
            place=file.path,
            hint="REFRESH the array to see what is in it now",
        )


def scan_file(
    reader: CellReader,
    file: RawFile,
    pieces: Sequence[Piece],
    boxes: Sequence[Box],
    limit: Limit,
    cuts: bool = True,
    min_cells: int = 0,
) -> Iterator[list[Touched]]:
    """Read a file for these pieces of it and a query that asks for these boxes; without `cuts` nobody asks
    where they could be cut. What has been found so far comes after each batch, and all of it at the end."""
    check_same(file, stamped(file.path))
    ndim = reader.schema.ndim
    touched = [Touched(p, Cutting(boxes, p.box if p.cells != UNKNOWN else None, cuts), ndim) for p in pieces]
    room = np.empty(0, np.int64)
    by_header = [one.piece.cells for one in touched] == [UNKNOWN]  # whose box holds all cells, it says
    for done, table in reader.cells(file.path):
        if table.num_rows:
            size = ndim * table.num_rows
            room = room if len(room) >= size else np.empty(size, np.int64)
            coords = coordinates(table, ndim, room[:size].reshape(ndim, -1))
            dealt_out = 0
            for place, some, mine in dealt(table, coords, [one.piece.box for one in touched]):
                touched[place].add(some, mine, limit)
                dealt_out += some.num_rows
            if by_header and dealt_out < table.num_rows:
                raise corrupt(file.path, ValueError("cells lie outside of the ranges in its header"), done)
        yield touched
    check_same(file, stamped(file.path))
    for one in touched:
        if one.piece.cells not in (UNKNOWN, one.cutting.whole.cells):
            check_same(file, Found(file.path, -1, ""))
        one.settle(min_cells)
    yield touched


def dealt(table: pa.Table, coords: Ints, boxes: Sequence[Box]) -> Iterator[tuple[int, pa.Table, Ints]]:
    """The cells of a batch that each of some boxes holds, by the place of the box, where there are any."""
    around = tight(coords)
    for place, box in enumerate(boxes):
        both = box.met(around)
        if both is None:
            continue
        if both == around:
            yield place, table, coords
            continue
        inside = box.holds(coords)
        if inside.any():
            yield place, table.filter(pa.array(inside)), coords[:, inside]


def first_scan(reader: CellReader, path: str) -> tuple[Box | None, int]:
    """The tight box of a file's cells, and how many there are."""
    box, cells = None, 0
    for _, table in reader.cells(path):
        if table.num_rows:
            lo, hi = Chunk(table, reader.schema.ndim).box
            some = Box.of(lo, hi)
            box = some if box is None else box.hull(some)
            cells += table.num_rows
    return box, cells


def after(piece: Piece, cutting: Cutting, halves: Halves | None, numbers: Iterable[int]) -> list[Piece]:
    """What becomes of a piece: itself with a tight box, or two."""
    if halves is not None:
        one, other = numbers
        assert halves.below.box is not None
        assert halves.above.box is not None
        return [
            Piece(one, piece.file, halves.below.box, halves.below.cells),
            Piece(other, piece.file, halves.above.box, halves.above.cells),
        ]
    box = cutting.whole.box
    return [] if box is None else [Piece(piece.number, piece.file, box, cutting.whole.cells)]
