"""One query over external arrays on Spark, seen from the driver: boxes, sizes and decisions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.execute.catalog import Catalog as ChunkCatalog
from everfresh.arrays.execute.work import Work
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.spark.domain import Kept
from everfresh.arrays.spark.queries import Answered, Query, answered, run_job, with_plan
from everfresh.raw.cache.asking import Ask
from everfresh.raw.cache.placement import Part
from everfresh.raw.catalog import Piece
from everfresh.raw.chunking import Cutting, Side
from everfresh.raw.running import Run, by_file
from everfresh.raw.spark.files import head_of
from everfresh.raw.spark.layout import Layout
from everfresh.raw.spark.memory import Remote
from everfresh.raw.spark.pieces import Shard, Source
from everfresh.raw.spark.stages import ABOUT, ASIDE, HEALED, MOVE, MOVES, OURS, PLANS, SHARDS
from everfresh.spark.state.ledger import Draft
from everfresh.state import unpack_table

if TYPE_CHECKING:
    from everfresh.raw.spark.domain import CoordinatorOnSpark

_ROUND = 64
"""Files that a worker reads in one job, so that there is progress to tell of."""


class SparkRun(Run):
    """One query, with the cells at the workers."""

    of: CoordinatorOnSpark
    memory: Remote

    def __init__(self, of: CoordinatorOnSpark, asks: Sequence[Ask]) -> None:
        super().__init__(of, asks)
        self.query = uuid.uuid4().hex[:12]
        self.shards: dict[int, list[Shard]] = {}
        """Where this query finds the cells of pieces that it has asked for."""
        self.fresh: dict[int, tuple[int, int]] = {}
        """The cells and bytes of pieces that it has read or cut, and that may stay."""
        self.brought: dict[int, dict[int, int]] = {}
        """By piece, the workers that its join brings it to, with its position in the plan."""
        self._layout: Layout | None = None

    # -- what is read --------------------------------------------------------------------------------

    def fetch(self, progress: Any) -> None:
        """Ask the workers to read files and to look at pieces in memory."""
        workers = self.of.options.workers
        scans: list[list[Any]] = [[] for _ in range(workers)]
        peeks: list[list[Any]] = [[] for _ in range(workers)]
        cuttings: dict[int, Cutting] = {}
        read: dict[int, int] = {}
        for ask in self.asks:
            for path, pieces in by_file(self.met[ask.array]):
                missing = [piece for piece in pieces if not self.held(piece.number)]
                for piece in pieces:
                    cutting = Cutting(ask.boxes, piece.box if piece.cells >= 0 else None)
                    cuttings[piece.number] = cutting
                    if self.held(piece.number):
                        self._peek(ask, piece, cutting, peeks)
                if missing:
                    file = self.catalogs[ask.array].files[path]
                    told = [[p.number, p.box.lo, p.box.hi, p.cells] for p in missing]
                    scans[file.owner].append([ask.array, path, file.found.size, file.found.stamp, told])
        skipped = self._looked(scans, peeks, cuttings, read, progress)
        for ask in self.asks:
            for path, pieces in by_file(self.met[ask.array]):
                missing = [piece for piece in pieces if not self.held(piece.number)]
                if missing and path not in skipped:
                    self._was_read(ask.array, path)
                for piece in pieces:
                    if self.held(piece.number) or path not in skipped:
                        self._became(ask, piece, cuttings[piece.number], read.get(piece.number, 0))

    def _peek(self, ask: Ask, piece: Piece, cutting: Cutting, peeks: list[list[Any]]) -> None:
        """A piece in memory that the query may cut is looked at where it is; another is asked for whole."""
        if not cutting.cuts:
            cutting.whole.join(Side(piece.cells, piece.cells, piece.box))
            return
        for part in self.memory.parts(piece.number):
            shard = Shard(part.source, piece.box)
            peeks[part.worker].append([ask.array, piece.number, piece.box.lo, piece.box.hi, shard.to_json()])

    def _looked(
        self,
        scans: list[list[Any]],
        peeks: list[list[Any]],
        cuttings: Mapping[int, Cutting],
        read: dict[int, int],
        progress: Any,
    ) -> set[str]:
        """Have the workers look, a few files at a time; the files that cannot be read and are left out."""
        total, skipped = sum(map(len, scans)), set()
        boxes = {a.array: [[b.lo, b.hi] for b in a.boxes] for a in self.asks}
        rounds = max(-(-max(map(len, scans)) // _ROUND), 1 if any(peeks) else 0)
        for at in range(rounds):
            if progress is not None and total:
                done = sum(min(len(some), at * _ROUND) for some in scans)
                progress(f"reading files of {', '.join(a.array for a in self.asks)}", done, total)
            own = [
                {"scans": some[at * _ROUND : (at + 1) * _ROUND], "peeks": peeks[worker] if not at else []}
                for worker, some in enumerate(scans)
            ]
            for told in self.of.ask("look", {"boxes": boxes, "query": self.query}, own):
                for _, number, rows, size in told["pieces"]:
                    cuttings[number].hear(np.array(rows, np.int64))
                    read[number] = size
                for path, why in told["skipped"]:
                    self.of.left_out(path, why)
                    self.report.skipped.append(path)
                    skipped.add(path)
                self._healed(told["healed"])
        return skipped

    def _was_read(self, array: str, path: str) -> None:
        self.report.files_read.append(path)
        self.report.bytes_read += self.catalogs[array].files[path].found.size

    def _healed(self, paths: Sequence[str]) -> None:
        """Files that had to be read again, as pieces of them were gone."""
        for path in paths:
            for array, catalog in self.catalogs.items():
                if path in catalog.files:
                    self._was_read(array, path)
                    break

    def _became(self, ask: Ask, piece: Piece, cutting: Cutting, size: int) -> None:
        """Cut a piece, if the query does; note what has cells of the query."""
        hit = self.held(piece.number)
        if cutting.asked:
            self.report.hits += hit
            self.report.misses += not hit
        if hit:
            shards = [Shard(part.source, piece.box) for part in self.memory.parts(piece.number)]
            size = self.memory.nbytes(piece.number)
        else:
            file = self.catalogs[ask.array].files[piece.file]
            name = f"~{self.query}-{piece.number}"
            shards = [Shard(Source(ask.array, file.owner, name, file.found, piece.box), piece.box)]
        made, halves = self.cut(ask, piece, cutting)
        asked = [halves.below.asked, halves.above.asked] if halves is not None else [cutting.asked]
        for one, used in zip(made, asked, strict=False):
            share = size
            if halves is not None:
                head = head_of(self.of.readers[ask.array].schema.arrow)
                share = head + max(0, size - head) * one.cells // max(1, cutting.whole.cells)
            if used:
                self.accessed.append((ask.array, one, share))
            if used or hit:
                self.shards[one.number] = [replace(shard, box=one.box) for shard in shards]
                if (halves is not None or not hit) and len(shards) == 1:
                    self.fresh[one.number] = (one.cells, share)

    # -- what is kept --------------------------------------------------------------------------------

    def here(self, number: int) -> bool:
        """Whether a piece can be kept."""
        return number in self.fresh or number in self.memory

    def size(self, number: int) -> tuple[int, int]:
        """The cells and bytes of a piece."""
        if number in self.fresh:
            return self.fresh[number]
        return sum(part.cells for part in self.memory.parts(number)), self.memory.nbytes(number)

    def head(self, number: int) -> int:
        """What the file of a piece has beside its cells."""
        for name, catalog in self.catalogs.items():
            if number in catalog.pieces:
                return head_of(self.of.readers[name].schema.arrow)
        return 0

    def layout(self) -> Layout:
        """Evict, place, and say what workers are to do for it."""
        placed, layout = self.decide(), Layout(self.query)
        for number, parts in placed.items():
            if number not in self.fresh:
                here = self.memory.parts(number)
                same = [(one.worker, one.cells) for one in here] == [(p.worker, p.cells) for p in parts]
                if same or len(here) > 1 or len(parts) > 1:
                    layout.stay(number, here)
                    continue
                shard = Shard(here[0].source, here[0].source.stored)
            else:
                (shard,) = self.shards[number]
            layout.place(number, shard, parts, self.brought.get(number, {}))
        self._layout = layout
        return layout

    def stays(self, placed: Mapping[int, tuple[Part, ...]]) -> Remote:
        """Have the workers keep what was decided, and let go of the rest."""
        raise AssertionError("the layout says what stays")

    def keep(self) -> None:
        """Evict and place; workers do what the layout says, unless it has been said already."""
        layout = self._layout or self.layout()
        options = self.of.options
        if layout.moves:
            self._move(layout)
        made: dict[str, tuple[int, int]] = {}
        if layout.make or set(layout.planned) != set(self.memory):
            own = [layout.told(worker) for worker in range(options.workers)]
            for told in self.of.ask("keep", {"budget": options.budget}, own):
                made.update((name, (cells, size)) for name, cells, size in told["made"])
                self._healed(told["healed"])
        self.account(layout.after((options.budget,) * options.workers, made))

    def _move(self, layout: Layout) -> None:
        """Send the pieces that are to be kept where nothing brings them."""
        schemas = {name: reader.schema.ddl for name, reader in self.of.readers.items()}
        pieces = {ABOUT: json.dumps({**self.of.about(), "schemas": schemas}).encode()}
        pieces |= {f"{MOVES}{k}": json.dumps(some).encode() for k, some in layout.moves.items()}
        host = self.of.host
        host.runner.run(Draft(host.ledger()).job("array", pieces=pieces), MOVE)

    # -- the answer ----------------------------------------------------------------------------------

    def homes(self) -> None:
        """Without a join, pieces are where they are."""
        self.copies = {
            n: tuple(dict.fromkeys(s.source.worker for s in some)) for n, some in self.shards.items()
        }
        self.remember((), joined=False)

    def cells(self) -> dict[str, pa.Table]:
        """The cells that the query asks for, in no certain order."""
        found = {}
        for ask in self.asks:
            reader = self.of.readers[ask.array]
            own: list[list[Any]] = [[] for _ in range(self.of.options.workers)]
            for shard in self._of(ask.array):
                own[shard.source.worker].append(shard.to_json())
            about = {"definition": str(reader.definition), "boxes": [[b.lo, b.hi] for b in ask.boxes]}
            tables = [unpack_table(payload) for payload in self.of.ask_for_bytes("gather", about, own)]
            found[ask.array] = pa.concat_tables(tables)
        return found

    def _of(self, array: str) -> Iterator[Shard]:
        for name, piece, _ in self.accessed:
            if name == array:
                yield from self.shards[piece.number]

    def lasting(self, array: str) -> list[Shard]:
        """Where the cells are once the query is over."""
        found = []
        for name, piece, _ in self.accessed:
            if name == array:
                parts = self.memory.parts(piece.number)
                found += [Shard(part.source, piece.box) for part in parts] or self.shards[piece.number]
        return found

    def answer(self, statement: str, work: Work, others: Mapping[str, Kept], options: Any) -> Answered:
        """Run a statement over the pieces, as over chunks of stored arrays."""
        host, draft = self.of.host, Draft(self.of.host.ledger())
        kept, numbers, told = [], [], {}
        for source in work.sources:
            if source.name not in self.of.readers:
                kept.append(others[source.name])
                numbers.append([-1] * len(others[source.name].catalog))
                continue
            shards, pieces, catalog = self._catalog(source.name)
            kept.append(Kept(catalog.schema, OURS + source.name, catalog))
            numbers.append(pieces)
            told[source.name] = [shard.to_json() for shard in shards]
        more = {ABOUT: json.dumps(self.of.about()).encode(), SHARDS: json.dumps(told).encode()}
        query = Query(statement, work, tuple(kept), None, plans=PLANS, more=more)
        query = with_plan(query, host.runner, draft, options)
        self._joined(query, [n for some in numbers for n in some])
        layout = self.layout()
        more |= {f"{ASIDE}{k}": json.dumps(some).encode() for k, some in layout.aside.items()}
        answers = run_job(host.runner, draft, replace(query, more=more))
        for payload in answers.gathered:
            if payload[:1] == HEALED:
                self._healed(json.loads(payload[1:]))
        return answered(query, answers, host.runner.workers)

    def _catalog(self, array: str) -> tuple[list[Shard], list[int], ChunkCatalog]:
        """The pieces of an array as chunks of a plan."""
        schema = undivided(self.of.readers[array].schema)
        shards: list[Shard] = []
        pieces: list[int] = []
        rows: list[tuple[int, int, int]] = []
        for name, piece, size in self.accessed:
            if name != array:
                continue
            some = self.shards[piece.number]
            for shard in some:
                shards.append(shard)
                pieces.append(piece.number)
                share = (max(1, piece.cells // len(some)), max(1, size // len(some)))
                rows.append((shard.source.worker, *share))
        home, counts, sizes = np.array(rows, np.int64).reshape(len(rows), 3).T
        lo = np.array([s.box.lo for s in shards], np.int64).reshape(len(rows), schema.ndim).T
        hi = np.array([s.box.hi for s in shards], np.int64).reshape(len(rows), schema.ndim).T
        return shards, pieces, ChunkCatalog(schema, np.arange(len(rows)), home, counts, sizes, lo, hi)

    def _joined(self, query: Query, numbers: Sequence[int]) -> None:
        """What the plan of the join says: pairs, what is sent, and where copies are."""
        self.copies = {
            n: tuple(dict.fromkeys(s.source.worker for s in some)) for n, some in self.shards.items()
        }
        plan = query.plan
        if plan is None:
            self.remember((), joined=False)
            return
        self.report.bytes_moved += plan.bytes_moved
        for k, worker in zip(plan.send.tolist(), plan.target.tolist(), strict=True):
            number = numbers[k]
            if number >= 0 and len(self.shards[number]) == 1:
                self.copies[number] = (*self.copies[number], worker)
                self.brought.setdefault(number, {})[worker] = k
        pairs = {
            (min(numbers[a], numbers[b]), max(numbers[a], numbers[b]))
            for a, b in zip(plan.first.tolist(), plan.second.tolist(), strict=True)
            if numbers[a] >= 0 and numbers[b] >= 0
        }
        self.remember(pairs, joined=True)


def undivided(schema: ArraySchema) -> ArraySchema:
    """An array with one chunk: pieces lie anywhere, and a plan knows them by their boxes alone."""
    dimensions = tuple(replace(d, chunk=d.hi - d.lo + 1) for d in schema.dimensions)
    return replace(schema, dimensions=dimensions)
