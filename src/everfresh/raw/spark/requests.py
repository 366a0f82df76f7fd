"""What workers are asked about their files and pieces, and what they answer: numbers, never cells, unless
cells are what is asked for (`gather`).

`survey`  the boxes of new files, from headers or one reading
`look`    read the files of missing pieces, look at those in memory: where the query would cut each
`keep`    lay down what was decided, let go of everything else
`gather`  the cells of a query, for a statement that workers do not run
`forget`  the session is over
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.errors import Code, EverfreshError
from everfresh.raw.boxes import Box, held
from everfresh.raw.cache.memory import divided
from everfresh.raw.cache.placement import Part
from everfresh.raw.catalog import UNKNOWN, Piece, RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cutting
from everfresh.raw.files.places import Found, stamped
from everfresh.raw.looking import surveyed
from everfresh.raw.scan import check_same, dealt
from everfresh.raw.spark.files import (
    HostFiles,
    forget_session,
    serialized,
    sweep_scratch,
    sweep_sessions,
)
from everfresh.raw.spark.pieces import Cells, Shard, reader_of
from everfresh.spark.jobs.requests import Request
from everfresh.state import pack_table, plain
from everfresh.types import no_rows

ABOUT = "about"


def answer(request: Request) -> bytes:
    """Answer as the worker that the request names."""
    about: dict[str, Any] = plain(request.sections[ABOUT], request.name)
    label = f"worker/{request.worker}"
    own = plain(request.sections[label], request.name) if label in request.sections else None
    found = _ANSWERS[about["ask"]](request.worker, about, own)
    return found if isinstance(found, bytes) else json.dumps(found).encode()


def cells_of(about: Mapping[str, Any]) -> Cells:
    """What a task reads."""
    return Cells(about["place"], about["definitions"], about.get("keeps", True))


# -- new files -----------------------------------------------------------------------------------------------


def _survey(worker: int, about: Mapping[str, Any], own: Any) -> list[Any]:
    reader = reader_of(about["definition"])
    found = []
    for path in own or ():
        box, cells, error = surveyed(reader, path)
        found.append([path, [box.lo, box.hi] if box is not None else None, cells, error])
    return found


# -- a query begins ------------------------------------------------------------------------------------------


@dataclass
class _Looked:
    """A piece that was read: what the query would do to it, and the file that its cells are laid down in."""

    piece: Piece
    cutting: Cutting
    name: str
    bytes: int = 0


def _look(worker: int, about: Mapping[str, Any], own: Any) -> dict[str, Any]:
    place = about["place"]
    sweep_sessions(place)
    sweep_scratch(place, f"~{about['query']}")
    cells, asked = cells_of(about), _boxes(about)
    told: list[Any] = []
    skipped: list[list[str]] = []
    for array, path, size, stamp, pieces in (own or {}).get("scans", ()):
        reader = reader_of(about["definitions"][array])
        numbered = [Piece(n, path, Box.of(lo, hi), count) for n, lo, hi, count in pieces]
        try:
            looked = _scanned(
                reader, Found(path, size, stamp), numbered, asked[array], cells.files(worker), about["query"]
            )
        except EverfreshError as error:
            if error.code != Code.DAMAGED or reader.definition.option("damaged") != "skip":
                raise
            skipped.append([path, error.message])
            continue
        ndim = reader.schema.ndim
        told += [[array, one.piece.number, one.cutting.told(ndim).tolist(), one.bytes] for one in looked]
    for array, number, lo, hi, shard in (own or {}).get("peeks", ()):
        cutting = Cutting(asked[array], Box.of(lo, hi))
        (table,) = cells.tables([Shard.of_json(shard)])
        ndim = len(lo)
        cutting.add(Chunk(table, ndim).coords)
        told.append([array, number, cutting.told(ndim).tolist(), 0])
    return {"pieces": told, "skipped": skipped, "healed": [found.path for found in cells.healed]}


def _boxes(about: Mapping[str, Any]) -> dict[str, list[Box]]:
    return {name: [Box.of(lo, hi) for lo, hi in some] for name, some in about["boxes"].items()}


def _scanned(
    reader: CellReader,
    found: Found,
    pieces: Sequence[Piece],
    boxes: Sequence[Box],
    files: HostFiles,
    query: str,
) -> list[_Looked]:
    """Read a file once: the cells of pieces that the query asks for are laid down as they go by."""
    file = RawFile(found, files.worker)
    check_same(file, stamped(found.path))
    ndim = reader.schema.ndim
    looked = [
        _Looked(p, Cutting(boxes, p.box if p.cells != UNKNOWN else None), f"~{query}-{p.number}")
        for p in pieces
    ]
    with ExitStack() as stack:
        writers = [stack.enter_context(files.writing(one.name, reader.schema.arrow)) for one in looked]
        for _, table in reader.cells(found.path):
            if not table.num_rows:
                continue
            coords = Chunk(table, ndim).coords
            for place, some, mine in dealt(table, coords, [one.piece.box for one in looked]):
                writers[place].write_table(some)
                looked[place].cutting.add(mine)
        check_same(file, stamped(found.path))
    for one in looked:
        if one.piece.cells not in (UNKNOWN, one.cutting.whole.cells):
            check_same(file, Found(found.path, -1, ""))
        one.bytes = files.size(one.name) or 0
    files.remove([one.name for one in looked if not one.cutting.asked])
    return looked


# -- a query ends --------------------------------------------------------------------------------------------


def _keep(worker: int, about: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Lay down new pieces beside those that stay, as long as the budget lasts; all others go."""
    cells, files = cells_of(about), HostFiles(about["place"], worker)
    keep: list[str] = own["keep"]
    makes = [(name, [Shard.of_json(s) for s in shards], parts) for name, shards, parts in own["make"]]
    uses = {shard.source.name for _, shards, _ in makes for shard in shards if shard.source.worker == worker}
    files.remove([name for name in files.kept() if name not in uses and name not in keep])
    left = about["budget"] - sum(files.size(name) or 0 for name in keep)
    made: list[list[Any]] = []
    for at, (name, shards, parts) in enumerate(makes):
        table = pa.concat_tables(cells.tables(shards))
        chunk = Chunk.of(table, len(shards[0].box.lo))
        if parts:
            chunk = divided(chunk, [Part(0, count) for count in parts[1]])[parts[0]]
        later = {shard.source.name for _, some, _ in makes[at + 1 :] for shard in some}
        done = {shard.source.name for shard in shards if shard.source.worker == worker}
        files.remove(done.difference(later, keep))
        size = serialized(chunk.table)
        if size <= left:
            left -= files.write(name, chunk.table)
            made.append([name, len(chunk), size])
    return {"made": made, "healed": [found.path for found in cells.healed]}


# -- cells for the driver ------------------------------------------------------------------------------------


def _gather(worker: int, about: Mapping[str, Any], own: Any) -> bytes:
    reader = reader_of(about["definition"])
    boxes = [Box.of(lo, hi) for lo, hi in about["boxes"]]
    shards = [Shard.of_json(shard) for shard in own or ()]
    tables = list(asked(cells_of(about), shards, boxes, reader))
    return pack_table(pa.concat_tables([no_rows(reader.schema.arrow), *tables]))


def asked(
    cells: Cells, shards: Sequence[Shard], boxes: Sequence[Box], reader: CellReader
) -> Iterator[pa.Table]:
    """The cells of shards that are in one of the boxes."""
    for table in cells.tables(shards):
        yield table.filter(pa.array(held(boxes, Chunk(table, reader.schema.ndim).coords)))


def _forget(worker: int, about: Mapping[str, Any], own: Any) -> dict[str, Any]:
    forget_session(about["place"])
    return {}


_ANSWERS: Mapping[str, Callable[[int, Mapping[str, Any], Any], Any]] = {
    "survey": _survey,
    "look": _look,
    "keep": _keep,
    "gather": _gather,
    "forget": _forget,
}
