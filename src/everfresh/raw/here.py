"""A query on the cache of this process: files are read here, and the cells of all workers are in one memory.

Cells of pieces that may stay are kept while files are read, up to twice the budget; beyond that only those
that are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from everfresh.arrays.cells import Array, split
from everfresh.arrays.chunk import Chunk
from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.boxes import held
from everfresh.raw.cache.asking import Ask
from everfresh.raw.cache.eviction import Sizes
from everfresh.raw.cache.memory import Memory
from everfresh.raw.cache.placement import Part
from everfresh.raw.catalog import Piece
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cutting
from everfresh.raw.running import Run, by_file, uses_of
from everfresh.raw.scan import Limit, scan_file

if TYPE_CHECKING:
    from everfresh.raw.cache.coordinator import Coordinator

_log = logging.getLogger("everfresh")
_LEAST = 64 << 20
"""Bytes of one file that may be kept while it is read, if anything is cached."""


class HereRun(Run):
    """One query, with the cells here."""

    memory: Memory

    def __init__(self, of: Coordinator, asks: Sequence[Ask]) -> None:
        super().__init__(of, asks)
        self.chunks: dict[int, Chunk] = {}
        """Pieces that this query read or cut, with all of their cells."""
        self.cells: dict[str, list[pa.Table]] = {}
        """What it asks for."""
        self.candidates = 0
        """Bytes of the pieces that were read and may stay."""

    def fetch(self, progress: Progress | None) -> None:
        """File by file: look at the pieces in memory, and read the file if there are others."""
        waiting = sum(
            any(not self.held(p.number) for p in pieces)
            for ask in self.asks
            for _, pieces in by_file(self.met[ask.array])
        )
        done = 0
        for ask in self.asks:
            for path, pieces in by_file(self.met[ask.array]):
                for piece in pieces:
                    if self.held(piece.number):
                        self._hit(ask, piece)
                missing = [piece for piece in pieces if not self.held(piece.number)]
                if missing:
                    if progress is not None:
                        progress(f"reading files of {ask.array}", done, waiting)
                    self._scan(ask, path, missing)
                    done += 1

    def _hit(self, ask: Ask, piece: Piece) -> None:
        chunk = self.memory.chunk(piece.number)
        cutting = Cutting(ask.boxes, piece.box, self.rule.cuts)
        cutting.add(chunk.coords)
        if cutting.asked:
            self.report.hits += 1
            self._asked(ask, chunk, cutting)
        self._became(ask, piece, cutting, chunk)

    def _scan(self, ask: Ask, path: str, pieces: Sequence[Piece]) -> None:
        reader, file = self.of.readers[ask.array], self.catalogs[ask.array].files[path]
        budget = self.of.options.total
        limit = Limit(max(2 * budget, _LEAST) if budget else 0)
        try:
            touched = scan_file(reader, file, pieces, ask.boxes, limit, self.rule.cuts)
        except EverfreshError as error:
            if error.code != Code.DAMAGED or reader.definition.option("damaged") != "skip":
                raise
            _log.warning("array '%s' is read without %s: %s", ask.array, path, error.message)
            self.report.skipped.append(path)
            return
        self.report.files_read.append(path)
        self.report.bytes_read += file.found.size
        for one in touched:
            self.report.misses += one.cutting.asked > 0
            chunk = None
            if one.whole is not None:
                chunk = Chunk(_all(one.whole, reader).combine_chunks(), reader.schema.ndim)
                if one.cutting.asked:
                    self._asked(ask, chunk, one.cutting)
            elif one.asked:
                self.cells.setdefault(ask.array, []).append(_all(one.asked, reader))
            self._became(ask, one.piece, one.cutting, chunk)
        if self.candidates > 2 * budget:
            self._thin(budget)

    def _asked(self, ask: Ask, chunk: Chunk, cutting: Cutting) -> None:
        """The cells of a chunk that the query asks for."""
        table = chunk.table
        if cutting.asked < cutting.whole.cells:
            table = table.filter(pa.array(held(ask.boxes, chunk.coords)))
        self.cells.setdefault(ask.array, []).append(table)

    def _thin(self, budget: int) -> None:
        """Of what was read so far keep only what would stay if nothing else was in memory."""
        read = [(piece, size) for _, piece, size in self.accessed if self._is_new(piece.number)]
        files = {p: f.found.size for c in self.catalogs.values() for p, f in c.files.items()}
        sizes = Sizes(files, {piece.number: size for piece, size in read})
        kept = self.rule.keeps([], uses_of(self.report.query, [p for p, _ in read]), sizes, budget)
        staying = {number for use in kept for number in use.pieces}
        for piece, _ in read:
            if piece.number not in staying:
                del self.chunks[piece.number]
        self.candidates = sum(size for piece, size in read if piece.number in staying)

    def _is_new(self, number: int) -> bool:
        """Whether a piece was read by this query, and its cells are here."""
        return number in self.chunks and not self.held(self.whole.get(number, number))

    def _became(self, ask: Ask, piece: Piece, cutting: Cutting, chunk: Chunk | None) -> None:
        """Cut a piece, if the query does; note what has cells of the query."""
        made, halves = self.cut(ask, piece, cutting)
        chunks: list[Chunk | None] = [chunk]
        asked = [cutting.asked]
        if halves is not None:
            asked, chunks = [halves.below.asked, halves.above.asked], [None, None]
            if chunk is not None:
                low = halves.cut.below(chunk.coords)
                parts = (chunk.table.filter(pa.array(mask)).combine_chunks() for mask in (low, ~low))
                chunks = [Chunk(part, chunk.ndim) for part in parts]
        hit = self.held(piece.number)
        for one, side, used in zip(made, chunks, asked, strict=False):
            if used:
                size = one.cells * self.of.readers[ask.array].width if side is None else side.nbytes
                self.accessed.append((ask.array, one, size))
            if side is not None and (used or hit) and (halves is not None or not hit):
                self.chunks[one.number] = side
                self.candidates += 0 if hit else side.nbytes

    # -- what is kept --------------------------------------------------------------------------------

    def here(self, number: int) -> bool:
        """Whether the cells of a piece are at hand."""
        return number in self.chunks or number in self.memory

    def _held(self, number: int) -> Chunk:
        return self.chunks[number] if number in self.chunks else self.memory.chunk(number)

    def size(self, number: int) -> tuple[int, int]:
        """The cells and bytes of a piece that is here."""
        chunk = self._held(number)
        return len(chunk), chunk.nbytes

    def stays(self, placed: Mapping[int, tuple[Part, ...]]) -> Memory:
        """The memory with these pieces."""
        return self.memory.keeping(placed, self.chunks)

    # -- the answer ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """The cells that the query asks for."""
        found = {}
        for ask in self.asks:
            reader = self.of.readers[ask.array]
            found[ask.array] = array_of(_all(self.cells.get(ask.array, ()), reader), reader)
        return found


def array_of(table: pa.Table, reader: CellReader) -> Array:
    """Cells in any order as an array."""
    schema = reader.schema
    chunks = {n: Chunk.of(rows, schema.ndim) for n, rows in split(table, schema).items()}
    return Array(schema, dict(sorted(chunks.items())))


def _all(tables: Sequence[pa.Table], reader: CellReader) -> pa.Table:
    return pa.concat_tables(tables) if tables else reader.schema.arrow.empty_table()
