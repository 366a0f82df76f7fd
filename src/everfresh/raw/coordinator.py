"""The coordinator of the cache (section 3 of `004`): what a query reads from files, what stays, and where.

A query says which boxes of which arrays it needs. Pieces that meet them are in memory, or their file is read,
once; pieces are cut along the query; the pieces that hold cells of it are joined by a plan of
`everfresh.arrays.plan`, from which it follows which copies there are; then the policy says what stays, and
the placement where. The coordinator has boxes, sizes and the history of queries; the cells are the workers'.

Invariants: an answer does not depend on what is in memory; after an exception everything is as it was before
the query. One query at a time.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from everfresh.arrays.cells import Array, split
from everfresh.arrays.chunk import Chunk
from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.boxes import Box, held
from everfresh.raw.catalog import Catalog, Piece
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cutting
from everfresh.raw.eviction import POLICIES, Sizes, Use
from everfresh.raw.files.places import stamped
from everfresh.raw.joining import Join, moved
from everfresh.raw.memory import Memory, alone
from everfresh.raw.placement import WINDOW, Item, Joined, Part, place
from everfresh.raw.scan import Limit, after, check_same, scan_file

_log = logging.getLogger("everfresh")
PLACEMENTS = ("dynamic", "static")
GIB = 1 << 30
_LEAST = 64 << 20
"""Bytes of one file that may be kept while it is read, if anything is cached."""


@dataclass(frozen=True)
class CacheOptions:
    """How much is cached, and how."""

    workers: int = 1
    budget: int = GIB
    """Bytes for each worker."""
    policy: str = "cost"
    placement: str = "dynamic"
    min_cells: int = 4096
    """A piece with fewer cells is only cut where a query meets its box and none of its cells."""

    def __post_init__(self) -> None:
        if self.policy not in POLICIES or self.placement not in PLACEMENTS:
            raise EverfreshError(
                Code.ARGUMENT,
                f"there is no policy '{self.policy}' with placement '{self.placement}'",
                hint=f"policies are: {', '.join(POLICIES)}; placements: {', '.join(PLACEMENTS)}",
            )
        if self.workers < 1 or self.budget < 0 or self.min_cells < 0:
            raise EverfreshError(
                Code.ARGUMENT,
                "a cache has at least one worker, and neither a budget nor min_cells below 0",
                hint="configure(workers=2, budget=500_000_000)",
            )


@dataclass(frozen=True)
class Ask:
    """The boxes of one array that a query needs."""

    array: str
    boxes: tuple[Box, ...]

    @property
    def hull(self) -> Box:
        """One box for all."""
        found = self.boxes[0]
        for box in self.boxes[1:]:
            found = found.hull(box)
        return found


@dataclass
class Report:
    """What one query did."""

    query: int
    asked: tuple[str, ...] = ()
    hits: int = 0
    """Pieces with cells of the query that were in memory."""
    misses: int = 0
    """Those that were read."""
    files_read: list[str] = field(default_factory=list)
    bytes_read: int = 0
    bytes_moved: int = 0
    """By joins, from worker to worker."""
    bytes_placed: int = 0
    """By keeping pieces where no copy of them was."""
    cut: int = 0
    evicted: list[tuple[int, str]] = field(default_factory=list)
    """Pieces that were let go, each with the reason."""
    skipped: list[str] = field(default_factory=list)
    """Files that could not be read and were left out, as their array asks."""
    seconds: float = 0.0
    planning: float = 0.0
    """Of these for looking up, cutting, evicting and placing: all but reading and joining."""


@dataclass(frozen=True)
class State:
    """What a query reads and leaves: replaced as a whole, so that nobody who is struck leaves half of it."""

    readers: Mapping[str, CellReader]
    catalogs: Mapping[str, Catalog]
    memory: Memory
    uses: tuple[Use, ...] = ()
    joined: tuple[Joined, ...] = ()
    reports: tuple[Report, ...] = ()

    def known(self) -> State:
        """Without the pieces that are in no catalog any more."""
        there = {number for catalog in self.catalogs.values() for number in catalog.pieces}
        memory = self.memory
        if not there.issuperset(memory):
            parts = {n: tuple(Part(p.worker, len(p.chunk)) for p in memory.parts(n)) for n in memory}
            memory = memory.keeping({n: some for n, some in parts.items() if n in there}, {})
        uses = tuple(use for use in self.uses if use.pieces <= there)
        return replace(self, memory=memory, uses=uses)


class Coordinator:
    """The catalogs of all external arrays of a database, their cache, and the history of queries."""

    def __init__(self, options: CacheOptions | None = None) -> None:
        self.options = options or CacheOptions()
        self.lock = threading.RLock()
        self.state = State({}, {}, self._empty())
        self.numbers = itertools.count(1)
        self.told: Callable[[Sequence[str]], None] = lambda names: None
        """Called when the boxes of these arrays have become finer."""

    def _empty(self) -> Memory:
        return Memory([self.options.budget] * self.options.workers)

    @property
    def readers(self) -> Mapping[str, CellReader]:
        """What reads the files of each array."""
        return self.state.readers

    @property
    def catalogs(self) -> Mapping[str, Catalog]:
        """The files and pieces of each array."""
        return self.state.catalogs

    @property
    def memory(self) -> Memory:
        """What is cached."""
        return self.state.memory

    @property
    def last(self) -> Report | None:
        """What the last query did."""
        return self.state.reports[-1] if self.state.reports else None

    # -- what there is -------------------------------------------------------------------------------

    def configure(self, options: CacheOptions) -> None:
        """Other budgets or policies: the cache begins empty. Where files have one piece each the catalogs
        are made coarse."""
        with self.lock:
            catalogs = self.catalogs
            if options.workers != self.options.workers:
                catalogs = {name: one.owned(options.workers) for name, one in catalogs.items()}
            if not POLICIES[options.policy].cuts:
                catalogs = {name: self._coarse(one) for name, one in catalogs.items()}
            self.options = options
            self.state = replace(self.state, catalogs=catalogs)
            self.clear()

    def clear(self) -> None:
        """Let everything in memory go, and forget the history."""
        with self.lock:
            self.state = replace(self.state, memory=self._empty(), uses=(), joined=())

    def _coarse(self, catalog: Catalog) -> Catalog:
        pieces: dict[str, Piece] = {}
        for one in catalog.pieces.values():
            other = pieces.get(one.file)
            if other is None:
                pieces[one.file] = replace(one, number=next(self.numbers))
            else:
                pieces[one.file] = replace(other, box=other.box.hull(one.box), cells=other.cells + one.cells)
        return Catalog(catalog.files, {one.number: one for one in pieces.values()})

    def put(self, name: str, reader: CellReader, catalog: Catalog) -> None:
        """An array is there, or is another one now: pieces that are gone leave the cache."""
        with self.lock:
            most = max(catalog.pieces, default=0)
            self.numbers = itertools.count(max(next(self.numbers), most + 1))
            readers, catalogs = {**self.readers, name: reader}, {**self.catalogs, name: catalog}
            self.state = replace(self.state, readers=readers, catalogs=catalogs).known()

    def drop(self, name: str) -> None:
        """An array is gone."""
        with self.lock:
            readers = {n: one for n, one in self.readers.items() if n != name}
            catalogs = {n: one for n, one in self.catalogs.items() if n != name}
            self.state = replace(self.state, readers=readers, catalogs=catalogs).known()

    # -- queries -------------------------------------------------------------------------------------

    def answer(
        self, asks: Sequence[Ask], joins: Sequence[Join] = (), progress: Progress | None = None
    ) -> dict[str, Array]:
        """The cells of each array that a query needs, as arrays that hold no others."""
        with self.lock:
            begin = time.perf_counter()
            run = _Run(self, asks)
            run.look()
            run.read(progress)
            run.join(joins)
            run.keep()
            found = run.arrays()
            run.report.seconds = time.perf_counter() - begin
            reports = (*self.state.reports[-999:], run.report)
            self.state = State(self.readers, run.catalogs, run.memory, run.uses, run.joined, reports)
            if run.gone:
                self.told(list(run.gone))
            return found


class _Run:
    """One query; what it changes becomes the coordinator's at its end."""

    def __init__(self, of: Coordinator, asks: Sequence[Ask]) -> None:
        self.of, self.asks = of, asks
        self.catalogs = dict(of.catalogs)
        self.memory, self.uses, self.joined = of.state.memory, of.state.uses, of.state.joined
        self.rule = POLICIES[of.options.policy]
        number = of.last.query + 1 if of.last is not None else 1
        self.report = Report(number, tuple(f"{a.array}: {'; '.join(map(str, a.boxes))}" for a in asks))
        self.chunks: dict[int, Chunk] = {}
        """Pieces that this query read or cut, with all of their cells."""
        self.cells: dict[str, list[pa.Table]] = {}
        """What it asks for."""
        self.halves: dict[int, tuple[int, ...]] = {}
        """What became of pieces that were cut."""
        self.whole: dict[int, int] = {}
        """Of which piece a half is."""
        self.gone: dict[str, set[int]] = {}
        self.come: dict[str, list[Piece]] = {}
        self.candidates = 0
        """Bytes of the pieces that were read and may stay."""
        self.accessed: list[tuple[str, Piece, int]] = []
        """The pieces with cells of the query, and the bytes of all their cells."""

    # -- what is read --------------------------------------------------------------------------------

    def look(self) -> None:
        """Which pieces the query meets, and which of them are in memory."""
        begin = time.perf_counter()
        self.met = {ask.array: self.catalogs[ask.array].meeting(ask.boxes) for ask in self.asks}
        self._planned(begin)

    def read(self, progress: Progress | None) -> None:
        """Read the files of pieces that are not in memory, and look at those that are."""
        waiting = [
            (ask, path, pieces)
            for ask in self.asks
            for path, pieces in _by_file(p for p in self.met[ask.array] if p.number not in self.memory)
        ]
        for ask in self.asks:
            self._check(ask, {p.file for p in self.met[ask.array] if p.number in self.memory})
            for piece in self.met[ask.array]:
                if piece.number in self.memory:
                    self._hit(ask, piece)
        for done, (ask, path, pieces) in enumerate(waiting):
            if progress is not None:
                progress(f"reading files of {ask.array}", done, len(waiting))
            self._scan(ask, path, pieces)
        for array, gone in self.gone.items():
            self.catalogs[array] = self.catalogs[array].replaced(gone, self.come[array])

    def _check(self, ask: Ask, paths: Iterable[str]) -> None:
        files = self.catalogs[ask.array].files
        for path in paths:
            check_same(files[path], stamped(path))

    def _hit(self, ask: Ask, piece: Piece) -> None:
        chunk = self.memory.chunk(piece.number)
        cutting = Cutting(ask.boxes, piece.box)
        cutting.add(chunk.coords)
        inside = held(ask.boxes, chunk.coords)
        if inside.any():
            self.report.hits += 1
            whole = inside.all()
            self._asked(ask, chunk.table if whole else chunk.table.filter(pa.array(inside)))
        self._became(ask, piece, cutting, chunk)

    def _scan(self, ask: Ask, path: str, pieces: Sequence[Piece]) -> None:
        reader, file = self.of.readers[ask.array], self.catalogs[ask.array].files[path]
        budget = self.of.options.budget * self.of.options.workers
        limit = Limit(max(2 * budget, _LEAST) if budget else 0)
        try:
            touched = scan_file(reader, file, pieces, ask.boxes, limit)
        except EverfreshError as error:
            if error.code != Code.DAMAGED or reader.definition.option("damaged") != "skip":
                raise
            _log.warning("array '%s' is read without %s: %s", ask.array, path, error.message)
            self.report.skipped.append(path)
            return
        self.report.files_read.append(path)
        self.report.bytes_read += file.found.size
        for one in touched:
            chunk = None
            if one.whole is not None:
                chunk = alone(Chunk.of(_all(one.whole, reader), reader.schema.ndim))
                inside = held(ask.boxes, chunk.coords)
                if inside.any():
                    self._asked(ask, chunk.table if inside.all() else chunk.table.filter(pa.array(inside)))
                    self.report.misses += 1
            elif one.asked:
                self._asked(ask, _all(one.asked, reader))
                self.report.misses += 1
            self._became(ask, one.piece, one.cutting, chunk)
        if self.candidates > 2 * budget:
            self._thin(budget)

    def _thin(self, budget: int) -> None:
        """Of what was read so far keep only what may stay: the pieces of this query come before others, so
        that what does not fit beside them now will not later."""
        read = [(piece, size) for _, piece, size in self.accessed if self._is_new(piece.number)]
        files = {p: f.found.size for c in self.catalogs.values() for p, f in c.files.items()}
        sizes = Sizes(files, {piece.number: size for piece, size in read})
        kept = self.rule.keeps([], _uses(self.report.query, [p for p, _ in read]), sizes, budget)
        staying = {number for use in kept for number in use.pieces}
        for piece, _ in read:
            if piece.number not in staying:
                del self.chunks[piece.number]
        self.candidates = sum(size for piece, size in read if piece.number in staying)

    def _is_new(self, number: int) -> bool:
        """Whether a piece was read by this query, and its cells are here."""
        return number in self.chunks and self.whole.get(number, number) not in self.memory

    def _asked(self, ask: Ask, table: pa.Table) -> None:
        self.cells.setdefault(ask.array, []).append(table)

    def _became(self, ask: Ask, piece: Piece, cutting: Cutting, chunk: Chunk | None) -> None:
        """Cut a piece, if the query does; note what has cells of the query."""
        begin = time.perf_counter()
        halves = cutting.halves(self.of.options.min_cells) if self.rule.cuts else None
        numbers = (next(self.of.numbers), next(self.of.numbers)) if halves is not None else ()
        made = after(piece, cutting, halves, numbers)
        sides: list[Chunk | None] = [chunk]
        if halves is not None:
            self.report.cut += 1
            self.halves[piece.number] = numbers
            self.whole.update(dict.fromkeys(numbers, piece.number))
            sides = [None, None]
            if chunk is not None:
                low = halves.cut.below(chunk.coords)
                sides = [alone(Chunk(chunk.table.filter(pa.array(mask)), chunk.ndim)) for mask in (low, ~low)]
        if made != [piece]:
            self.gone.setdefault(ask.array, set()).add(piece.number)
            self.come.setdefault(ask.array, []).extend(made)
        hit = piece.number in self.memory
        for one, side in zip(made, sides, strict=False):
            used = cutting.asked > 0 and any(one.box.met(box) for box in ask.boxes)
            if used:
                used = self._note(ask, one, side)
            if side is not None and (used or hit) and (halves is not None or not hit):
                self.chunks[one.number] = side
                self.candidates += 0 if hit else side.nbytes
        self._planned(begin)

    def _note(self, ask: Ask, piece: Piece, chunk: Chunk | None) -> bool:
        """Note a piece if it has cells of the query."""
        if chunk is None:
            self.accessed.append((ask.array, piece, piece.cells * self._width(ask.array)))
            return True
        used = bool(held(ask.boxes, chunk.coords).any())
        if used:
            self.accessed.append((ask.array, piece, chunk.nbytes))
        return used

    def _width(self, array: str) -> int:
        some = self.cells.get(array)
        return max(1, some[-1].nbytes // max(1, some[-1].num_rows)) if some else 16

    # -- what is joined and kept ---------------------------------------------------------------------

    def join(self, joins: Sequence[Join]) -> None:
        """Which workers have copies of the pieces after the query: those of a plan of its joins."""
        owners = {piece.number: self._at(array, piece) for array, piece, _ in self.accessed}
        sizes = {piece.number: size for _, piece, size in self.accessed}
        pairs: set[tuple[int, int]] = set()
        self.copies: dict[int, tuple[int, ...]] = {number: (worker,) for number, worker in owners.items()}
        for one in joins:
            sides = [[p for array, p, _ in self.accessed if array == name] for name in (one.left, one.right)]
            found = moved(one, sides[0], sides[1], owners, sizes, self.of.options.workers)
            self.report.bytes_moved += found.bytes_moved
            pairs.update(found.pairs)
            for number, workers in found.copies.items():
                here = self.copies[number]
                self.copies[number] = here + tuple(w for w in workers if w not in here)
        begin = time.perf_counter()
        self.joined = self._rewritten_pairs()
        if joins:
            hull = self.asks[0].hull if len(self.asks) == 1 else None
            self.joined = (*self.joined, Joined(self.report.query, tuple(sorted(pairs)), hull))[-WINDOW:]
        self._planned(begin)

    def _at(self, array: str, piece: Piece) -> int:
        """Where a piece is when the query begins: in memory, or with the owner of its file."""
        workers = self.memory.workers(self.whole.get(piece.number, piece.number))
        return workers[0] if workers else self.catalogs[array].files[piece.file].owner

    def keep(self) -> None:
        """Evict and place."""
        begin = time.perf_counter()
        query, options = self.report.query, self.of.options
        here = [p for _, p, _ in self.accessed if p.number in self.chunks or p.number in self.memory]
        now = _uses(query, here)
        before = self._rewritten_uses()
        known = {number for use in (*before, *now) for number in use.pieces}
        sizes = Sizes(
            {path: f.found.size for c in self.catalogs.values() for path, f in c.files.items()},
            {number: self._held(number).nbytes for number in known},
        )
        kept = self.rule.keeps(before, now, sizes, options.budget * options.workers)
        staying = sorted({number for use in kept for number in use.pieces})
        items = [self._item(number, sizes.pieces[number]) for number in staying]
        joined = self.joined if options.placement == "dynamic" else ()
        placed = place(items, joined, [options.budget] * options.workers)
        memory = self.memory.keeping(placed, self.chunks)
        self._account(memory, known, set(staying))
        self.memory = memory
        self.uses = tuple(use for use in kept if all(number in memory for number in use.pieces))
        self._planned(begin)

    def _held(self, number: int) -> Chunk:
        return self.chunks[number] if number in self.chunks else self.memory.chunk(number)

    def _item(self, number: int, size: int) -> Item:
        here = self.memory.workers(self.whole.get(number, number))
        copies = self.copies.get(number, here)
        owner = self._owner(number)
        if self.of.options.placement == "static":
            copies = (owner,)
        return Item(number, len(self._held(number)), size, copies or (owner,))

    def _owner(self, number: int) -> int:
        for catalog in self.catalogs.values():
            if number in catalog.pieces:
                return catalog.files[catalog.pieces[number].file].owner
        raise AssertionError(f"piece {number} is of no array")

    def _account(self, memory: Memory, known: set[int], staying: set[int]) -> None:
        for number in sorted(known - set(memory)):
            if number in self.memory or number in self.chunks:
                why = "worth less than what stays" if number not in staying else "no worker has room for it"
                self.report.evicted.append((number, why))
        for number in memory:
            for part in memory.parts(number):
                if part.worker not in self.copies.get(number, (part.worker,)):
                    self.report.bytes_placed += part.chunk.nbytes

    def _rewritten_uses(self) -> list[Use]:
        """The uses of earlier queries, pieces that were cut replaced by those halves that are in memory."""
        found = []
        for use in self.uses:
            pieces = frozenset(self._halves(use.pieces))
            if pieces:
                found.append(replace(use, pieces=pieces))
        return found

    def _halves(self, pieces: Iterable[int]) -> set[int]:
        known: set[int] = set()
        for number in pieces:
            new = self.halves.get(number, (number,))
            known.update(n for n in new if n in self.chunks or n in self.memory)
        return known

    def _rewritten_pairs(self) -> tuple[Joined, ...]:
        """The pairs of earlier queries, between those halves that their boxes meet."""
        if not self.halves:
            return self.joined
        boxes = {n: p.box for c in self.catalogs.values() for n, p in c.pieces.items()}

        def new(number: int, box: Box | None) -> list[int]:
            halves = self.halves.get(number, (number,))
            return [n for n in halves if n in boxes and (box is None or boxes[n].met(box) is not None)]

        return tuple(
            replace(
                one,
                pairs=tuple((a, b) for x, y in one.pairs for a in new(x, one.box) for b in new(y, one.box)),
            )
            for one in self.joined
        )

    def _planned(self, begin: float) -> None:
        self.report.planning += time.perf_counter() - begin

    # -- the answer ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """The cells that the query asks for."""
        found = {}
        for ask in self.asks:
            reader = self.of.readers[ask.array]
            some = self.cells.get(ask.array)
            table = _all(some, reader) if some else reader.schema.arrow.empty_table()
            chunks = {
                n: Chunk.of(rows, reader.schema.ndim) for n, rows in split(table, reader.schema).items()
            }
            found[ask.array] = Array(reader.schema, dict(sorted(chunks.items())))
        return found


def _uses(query: int, pieces: Iterable[Piece]) -> list[Use]:
    """The pieces of a query, file by file."""
    return [Use(query, path, frozenset(piece.number for piece in some)) for path, some in _by_file(pieces)]


def _all(tables: Sequence[pa.Table], reader: CellReader) -> pa.Table:
    return pa.concat_tables(tables) if tables else reader.schema.arrow.empty_table()


def _by_file(pieces: Iterable[Piece]) -> list[tuple[str, list[Piece]]]:
    found: dict[str, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.file, []).append(piece)
    return list(found.items())
