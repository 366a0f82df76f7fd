"""A query on the cache of this process: files are read here, and the cells of all workers are in one memory.

Files are read by a few threads, and what they find is taken in the order of the files' names, so that nothing
depends on who is the first. Cells of pieces that may stay are kept while files are read, up to twice the
budget; beyond that only those that are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from everfresh.arrays.cells import Array, split
from everfresh.arrays.chunk import Chunk
from everfresh.errors import Code, EverfreshError
from everfresh.local.workers import cores
from everfresh.progress import Progress
from everfresh.raw.ahead import ahead
from everfresh.raw.cache.asking import Ask
from everfresh.raw.cache.eviction import Sizes
from everfresh.raw.cache.memory import Memory
from everfresh.raw.cache.placement import Part
from everfresh.raw.catalog import Piece
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cutting, Halves
from everfresh.raw.running import Run, by_file, uses_of
from everfresh.raw.scan import Limit, Touched, scan_file
from everfresh.types import no_rows

if TYPE_CHECKING:
    from everfresh.raw.cache.coordinator import Coordinator

_log = logging.getLogger("everfresh")
_LEAST = 64 << 20
"""Bytes of one file that may be kept while it is read, if anything is cached."""
_THREADS = 4
"""Files that are read side by side, at most."""
_ENOUGH = 8 << 20
"""Bytes of files from which that pays."""


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
        order = [
            (ask, path, pieces, [p for p in pieces if not self.held(p.number)])
            for ask in self.asks
            for path, pieces in by_file(self.met[ask.array])
        ]
        reads = [(ask, path, missing) for ask, path, _, missing in order if missing]
        size = sum(self.catalogs[ask.array].files[path].found.size for ask, path, _ in reads)
        threads = min(cores(), _THREADS) if size >= _ENOUGH else 1
        done = 0
        with closing(ahead([self._reading(*each, threads) for each in reads], threads)) as results:
            for ask, path, pieces, missing in order:
                for piece in pieces:
                    if self.held(piece.number):
                        self._hit(ask, piece)
                if missing:
                    if progress is not None:
                        progress(f"reading files of {ask.array}", done, len(reads))
                    self._was_read(ask, path, next(results))
                    done += 1

    def _hit(self, ask: Ask, piece: Piece) -> None:
        chunk = self.memory.chunk(piece.number)
        cutting = Cutting(ask.boxes, piece.box, self.rule.cuts)
        asked = cutting.add(chunk.coords)
        if cutting.asked:
            self.report.hits += 1
            whole = cutting.asked == cutting.whole.cells
            table = chunk.table if whole else chunk.table.filter(pa.array(asked))
            self.cells.setdefault(ask.array, []).append(table)
        made, halves = self.cut(ask, piece, cutting)
        chunks: list[Chunk | None] = [chunk]
        if halves is not None:
            low = halves.cut.below(chunk.coords)
            parts = (chunk.table.filter(pa.array(mask)).combine_chunks() for mask in (low, ~low))
            chunks = [Chunk(part, chunk.ndim) for part in parts]
            self.chunks.update((p.number, c) for p, c in zip(made, chunks, strict=True) if c is not None)
        self._used(ask, made, cutting, halves, chunks)

    def _reading(
        self, ask: Ask, path: str, pieces: Sequence[Piece], threads: int
    ) -> Callable[[], Iterator[list[Touched]]]:
        """What reads a file, beside as many others."""
        reader, file = self.of.readers[ask.array], self.catalogs[ask.array].files[path]
        options = self.of.options
        most = max(2 * options.total // threads, _LEAST) if options.total else 0
        return lambda: scan_file(
            reader, file, pieces, ask.boxes, Limit(most), self.rule.cuts, options.min_cells
        )

    def _was_read(self, ask: Ask, path: str, result: Callable[[], list[Touched]]) -> None:
        reader, file = self.of.readers[ask.array], self.catalogs[ask.array].files[path]
        try:
            touched = result()
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
            self.cells.setdefault(ask.array, []).extend(one.asked)
            made, halves = self.cut(ask, one.piece, one.cutting)
            for piece, chunk in zip(made, one.staying, strict=False):
                if chunk is not None:
                    self.chunks[piece.number] = chunk
                    self.candidates += chunk.nbytes
            self._used(ask, made, one.cutting, halves, one.staying)
        if self.candidates > 2 * self.of.options.total:
            self._thin(self.of.options.total)

    def _used(
        self,
        ask: Ask,
        made: Sequence[Piece],
        cutting: Cutting,
        halves: Halves | None,
        chunks: Sequence[Chunk | None],
    ) -> None:
        """Note what has cells of the query, of what became of a piece."""
        asked = [cutting.asked] if halves is None else [halves.below.asked, halves.above.asked]
        for one, chunk, used in zip(made, chunks, asked, strict=False):
            if used:
                size = one.cells * self.of.readers[ask.array].width if chunk is None else chunk.nbytes
                self.accessed.append((ask.array, one, size))

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
    return pa.concat_tables(tables) if tables else no_rows(reader.schema.arrow)
