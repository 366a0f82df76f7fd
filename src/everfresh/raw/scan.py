"""One reading of a file for a query: its cells go by once, and what the query needs of them stays.

Of the pieces that the query meets and that are not in memory all cells are kept, to be cached, as long as
they fit into a limit; after that only those that the query asks for. Where a piece is to be cut follows from
counts and boxes alone, so that it does not depend on the limit.

A file that is not the one of the catalog, by its stamp before and after or by the cells that are in it, is
refused: what was read before and after a change is never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.errors import Code, EverfreshError
from everfresh.raw.boxes import Box, Ints, held
from everfresh.raw.catalog import UNKNOWN, Piece, RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cutting, Halves
from everfresh.raw.files.places import Found, stamped


@dataclass
class Limit:
    """Bytes of cells that may still be kept."""

    left: int


@dataclass
class Touched:
    """A piece that a query meets, after the scan."""

    piece: Piece
    cutting: Cutting
    whole: list[pa.Table] | None = field(default_factory=list)
    """All cells; None if they did not fit."""
    asked: list[pa.Table] = field(default_factory=list)
    """The cells that the query asks for; in `whole` while that is kept."""


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
) -> list[Touched]:
    """Read a file for these pieces of it and a query that asks for these boxes; without `cuts` nobody asks
    where they could be cut."""
    check_same(file, stamped(file.path))
    ndim = reader.schema.ndim
    touched = [Touched(p, Cutting(boxes, p.box if p.cells != UNKNOWN else None, cuts)) for p in pieces]
    for _, table in reader.cells(file.path):
        if not table.num_rows:
            continue
        coords = Chunk(table, ndim).coords
        for one in touched:
            _add(one, table, coords, boxes, limit)
    check_same(file, stamped(file.path))
    for one in touched:
        if one.piece.cells not in (UNKNOWN, one.cutting.whole.cells):
            check_same(file, Found(file.path, -1, ""))
    return touched


def _add(one: Touched, table: pa.Table, coords: Ints, boxes: Sequence[Box], limit: Limit) -> None:
    inside = one.piece.box.holds(coords)
    if not inside.any():
        return
    if not inside.all():
        table, coords = table.filter(pa.array(inside)), coords[:, inside]
    one.cutting.add(coords)
    if one.whole is not None:
        if table.nbytes <= limit.left:
            limit.left -= table.nbytes
            one.whole.append(table)
            return
        limit.left += sum(each.nbytes for each in one.whole)
        one.asked = [_asked(each, boxes, coords.shape[0]) for each in one.whole]
        one.whole = None
    some = table.filter(pa.array(held(boxes, coords)))
    if some.num_rows:
        one.asked.append(some)


def _asked(table: pa.Table, boxes: Sequence[Box], ndim: int) -> pa.Table:
    return table.filter(pa.array(held(boxes, Chunk(table, ndim).coords)))


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
