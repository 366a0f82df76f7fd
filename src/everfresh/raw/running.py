"""One query on the cache: what every engine does alike.

Which pieces the query meets, what becomes of those that it cuts, which are joined, what stays and where. An
engine adds how cells are read and kept (`everfresh.raw.here`, `everfresh.raw.spark`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everfresh.raw.boxes import Box
from everfresh.raw.cache.asking import Ask, Report
from everfresh.raw.cache.eviction import POLICIES, Sizes, Use, lost
from everfresh.raw.cache.joining import Join, moved
from everfresh.raw.cache.memory import Held
from everfresh.raw.cache.placement import WINDOW, Item, Joined, Part, place
from everfresh.raw.catalog import UNKNOWN, Catalog, Piece
from everfresh.raw.cells import CellReader
from everfresh.raw.chunking import Cutting, Halves
from everfresh.raw.files.places import stamped
from everfresh.raw.scan import after, check_same

if TYPE_CHECKING:
    from everfresh.raw.cache.coordinator import Coordinator


@dataclass(frozen=True)
class State:
    """What a query reads and leaves: replaced as a whole, so that nobody who is struck leaves half of it."""

    readers: Mapping[str, CellReader]
    catalogs: Mapping[str, Catalog]
    memory: Held[Any]
    uses: tuple[Use, ...] = ()
    joined: tuple[Joined, ...] = ()
    reports: tuple[Report, ...] = ()

    def known(self) -> State:
        """Without the pieces that are in no catalog any more."""
        there = {number for catalog in self.catalogs.values() for number in catalog.pieces}
        memory = self.memory if there.issuperset(self.memory) else self.memory.only(there)
        uses = tuple(use for use in self.uses if use.pieces <= there)
        return replace(self, memory=memory, uses=uses)


class Run(ABC):
    """One query; what it changes becomes the coordinator's at its end."""

    def __init__(self, of: Coordinator, asks: Sequence[Ask]) -> None:
        self.of, self.asks = of, asks
        self.catalogs = dict(of.catalogs)
        self.memory, self.uses, self.joined = of.state.memory, of.state.uses, of.state.joined
        self.rule = POLICIES[of.options.policy]
        number = of.last.query + 1 if of.last is not None else 1
        self.report = Report(number, tuple(f"{a.array}: {'; '.join(map(str, a.boxes))}" for a in asks))
        self.halves: dict[int, tuple[int, ...]] = {}
        """What became of pieces that were cut."""
        self.whole: dict[int, int] = {}
        """Of which piece a half is."""
        self.gone: dict[str, set[int]] = {}
        self.come: dict[str, list[Piece]] = {}
        self.accessed: list[tuple[str, Piece, int]] = []
        """The pieces with cells of the query, and the bytes of all their cells."""
        self.copies: dict[int, tuple[int, ...]] = {}
        self.again: set[int] = set()
        """Pieces in memory that a policy which goes file by file has let go before it comes to their file."""

    # -- what an engine says -------------------------------------------------------------------------

    @abstractmethod
    def fetch(self, progress: Any) -> None:
        """Look at the pieces that the query meets, those in memory and those that have to be read."""

    @abstractmethod
    def here(self, number: int) -> bool:
        """Whether the cells of a piece are at hand: in memory, or read by this query."""

    @abstractmethod
    def size(self, number: int) -> tuple[int, int]:
        """The cells and bytes of a piece that is here."""

    @abstractmethod
    def stays(self, placed: Mapping[int, tuple[Part, ...]]) -> Held[Any]:
        """The memory with these pieces at these places and no others."""

    # -- what is read --------------------------------------------------------------------------------

    def look(self) -> None:
        """Which pieces the query meets, and which of them are in memory."""
        begin = time.perf_counter()
        self.met = {ask.array: self.catalogs[ask.array].meeting(ask.boxes) for ask in self.asks}
        if self.rule.ordered:
            order = [
                [(p.number, self._expected(ask.array, p)) for p in pieces]
                for ask in self.asks
                for _, pieces in by_file(self.met[ask.array])
            ]
            recent = [(n, self.memory.nbytes(n)) for use in reversed(self.uses) for n in use.pieces]
            self.again = lost(recent, order, self.of.options.total)
        self.planned(begin)

    def held(self, number: int) -> bool:
        """Whether a piece that the query meets is in memory when the query comes to it."""
        return number in self.memory and number not in self.again

    def _expected(self, array: str, piece: Piece) -> int:
        """The bytes that a piece will take in memory, as far as is known."""
        if piece.number in self.memory:
            return self.memory.nbytes(piece.number)
        if piece.cells == UNKNOWN:
            return self.catalogs[array].files[piece.file].found.size
        return piece.cells * self.of.readers[array].width

    def read(self, progress: Any) -> None:
        """See that pieces in memory are of files that have not changed, and read the others."""
        for ask in self.asks:
            files = self.catalogs[ask.array].files
            for path in dict.fromkeys(p.file for p in self.met[ask.array] if self.held(p.number)):
                check_same(files[path], stamped(path))
        self.fetch(progress)
        for array, gone in self.gone.items():
            self.catalogs[array] = self.catalogs[array].replaced(gone, self.come[array])

    def cut(self, ask: Ask, piece: Piece, cutting: Cutting) -> tuple[list[Piece], Halves | None]:
        """What becomes of a piece that the query meets: itself, with a tight box, or two."""
        halves = cutting.halves(self.of.options.min_cells) if self.rule.cuts else None
        numbers = (next(self.of.numbers), next(self.of.numbers)) if halves is not None else ()
        made = after(piece, cutting, halves, numbers)
        if halves is not None:
            self.report.cut += 1
            self.halves[piece.number] = numbers
            self.whole.update(dict.fromkeys(numbers, piece.number))
        if made != [piece]:
            self.gone.setdefault(ask.array, set()).add(piece.number)
            self.come.setdefault(ask.array, []).extend(made)
        return made, halves

    # -- what is joined ------------------------------------------------------------------------------

    def at(self, array: str, piece: Piece) -> int:
        """Where a piece is when the query begins: in memory, or with the owner of its file."""
        number = self.whole.get(piece.number, piece.number)
        workers = self.memory.workers(number) if number not in self.again else ()
        return workers[0] if workers else self.catalogs[array].files[piece.file].owner

    def join(self, joins: Sequence[Join]) -> None:
        """Which workers have copies of the pieces after the query: those of a plan of its joins."""
        owners = {piece.number: self.at(array, piece) for array, piece, _ in self.accessed}
        sizes = {piece.number: size for _, piece, size in self.accessed}
        pairs: set[tuple[int, int]] = set()
        self.copies = {number: (worker,) for number, worker in owners.items()}
        for one in joins:
            sides = [[p for array, p, _ in self.accessed if array == name] for name in (one.left, one.right)]
            found = moved(one, sides[0], sides[1], owners, sizes, self.of.options.workers)
            self.report.bytes_moved += found.bytes_moved
            pairs.update(found.pairs)
            for number, workers in found.copies.items():
                here = self.copies[number]
                self.copies[number] = here + tuple(w for w in workers if w not in here)
        self.remember(pairs, bool(joins))

    def remember(self, pairs: Iterable[tuple[int, int]], joined: bool) -> None:
        """Which pieces were joined: the history of placement."""
        begin = time.perf_counter()
        self.joined = self._rewritten_pairs()
        if joined:
            hull = self.asks[0].hull if len(self.asks) == 1 else None
            self.joined = (*self.joined, Joined(self.report.query, tuple(sorted(pairs)), hull))[-WINDOW:]
        self.planned(begin)

    # -- what is kept --------------------------------------------------------------------------------

    def decide(self) -> Mapping[int, tuple[Part, ...]]:
        """Evict and place."""
        begin = time.perf_counter()
        query, options = self.report.query, self.of.options
        here = [p for _, p, _ in self.accessed if self.here(p.number)]
        now = uses_of(query, here)
        before = self._rewritten_uses()
        self.known = {number for use in (*before, *now) for number in use.pieces}
        measured = {number: self.size(number) for number in self.known}
        sizes = Sizes(
            {path: f.found.size for c in self.catalogs.values() for path, f in c.files.items()},
            {number: size for number, (_, size) in measured.items()},
        )
        self.kept = self.rule.keeps(before, now, sizes, options.total)
        self.staying = {number for use in self.kept for number in use.pieces}
        items = [self._item(number, *measured[number]) for number in sorted(self.staying)]
        joined = self.joined if options.placement == "dynamic" else ()
        placed = place(items, joined, [options.budget] * options.workers)
        self.planned(begin)
        return placed

    def keep(self) -> None:
        """Evict and place; only this changes what is in memory."""
        placed = self.decide()
        memory = self.stays(placed)
        begin = time.perf_counter()
        self.account(memory)
        self.planned(begin)

    def account(self, memory: Held[Any]) -> None:
        """What stayed, what did not, and why."""
        for number in sorted(self.known - set(memory)):
            if self.here(number):
                staying = number in self.staying
                why = "no worker has room for it" if staying else "worth less than what stays"
                self.report.evicted.append((number, why))
        for number in memory:
            for part in memory.parts(number):
                if part.worker not in self.copies.get(number, (part.worker,)):
                    self.report.bytes_placed += part.bytes
        self.memory = memory
        self.uses = tuple(use for use in self.kept if all(number in memory for number in use.pieces))

    def _item(self, number: int, cells: int, size: int) -> Item:
        here = self.memory.workers(self.whole.get(number, number))
        copies = self.copies.get(number, here)
        owner = self._owner(number)
        if self.of.options.placement == "static":
            copies = (owner,)
        return Item(number, cells, size, copies or (owner,), self.head(number))

    def head(self, number: int) -> int:
        """The bytes that a part of a piece takes beside those of its cells."""
        return 0

    def _owner(self, number: int) -> int:
        for catalog in self.catalogs.values():
            if number in catalog.pieces:
                return catalog.files[catalog.pieces[number].file].owner
        raise AssertionError(f"piece {number} is of no array")

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
            known.update(n for n in self.halves.get(number, (number,)) if self.here(n))
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

    def planned(self, begin: float) -> None:
        """Time since then was planning."""
        self.report.planning += time.perf_counter() - begin


def uses_of(query: int, pieces: Iterable[Piece]) -> list[Use]:
    """The pieces of a query, file by file."""
    return [Use(query, path, frozenset(piece.number for piece in some)) for path, some in by_file(pieces)]


def by_file(pieces: Iterable[Piece]) -> list[tuple[str, list[Piece]]]:
    """Pieces by their files, in the order of the files' names."""
    found: dict[str, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.file, []).append(piece)
    return sorted(found.items())
