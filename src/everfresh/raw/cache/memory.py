"""What the cache nodes hold: pieces of files, whole or in parts, by worker.

Invariant: no worker holds more than its budget; the parts of a piece together are its cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.raw.cache.placement import Part


class Placed(Protocol):
    """A part of a piece, wherever its cells are."""

    @property
    def worker(self) -> int:
        """Who keeps it."""
        ...

    @property
    def cells(self) -> int:
        """How many cells it has."""
        ...

    @property
    def bytes(self) -> int:
        """What it takes."""
        ...


P = TypeVar("P", bound=Placed)


class Held(Generic[P]):
    """The pieces that are in memory: a value."""

    def __init__(self, budgets: Sequence[int], parts: Mapping[int, tuple[P, ...]] | None = None) -> None:
        self.budgets = tuple(budgets)
        self._parts: Mapping[int, tuple[P, ...]] = parts or {}

    def __contains__(self, piece: int) -> bool:
        return piece in self._parts

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def workers(self, piece: int) -> tuple[int, ...]:
        """Where a piece is kept, the worker with most of it first."""
        parts = self._parts.get(piece, ())
        return tuple(part.worker for part in sorted(parts, key=lambda one: -one.cells))

    def parts(self, piece: int) -> tuple[P, ...]:
        """The parts of a piece."""
        return self._parts.get(piece, ())

    def nbytes(self, piece: int) -> int:
        """What a piece takes."""
        return sum(part.bytes for part in self._parts[piece])

    def used(self) -> list[int]:
        """The bytes that each worker holds."""
        found = [0] * len(self.budgets)
        for parts in self._parts.values():
            for part in parts:
                found[part.worker] += part.bytes
        return found

    def only(self, pieces: Collection[int]) -> Self:
        """The memory without all others."""
        return type(self)(self.budgets, {n: parts for n, parts in self._parts.items() if n in pieces})


@dataclass(frozen=True, eq=False)
class Kept:
    """A part of a piece whose cells are in this process, in the order in which its file has them."""

    worker: int
    chunk: Chunk

    @property
    def cells(self) -> int:
        """How many cells it has."""
        return len(self.chunk)

    @property
    def bytes(self) -> int:
        """What they take."""
        return self.chunk.nbytes


class Memory(Held[Kept]):
    """The pieces that are in the memory of this process."""

    def chunk(self, piece: int) -> Chunk:
        """The cells of a piece."""
        parts = self._parts[piece]
        if len(parts) == 1:
            return parts[0].chunk
        return Chunk(pa.concat_tables([part.chunk.table for part in parts]), parts[0].chunk.ndim)

    def keeping(self, placed: Mapping[int, tuple[Part, ...]], chunks: Mapping[int, Chunk]) -> Memory:
        """The memory that holds these pieces at these places, and no others; `chunks` has what this one does
        not hold. What is not cut or moved stays the same object."""
        found: dict[int, tuple[Kept, ...]] = {}
        room = list(self.budgets)
        for number, parts in placed.items():
            held = self._parts.get(number, ())
            if [(one.worker, len(one.chunk)) for one in held] != [(p.worker, p.cells) for p in parts]:
                chunk = chunks[number] if number in chunks else self.chunk(number)
                pieces = divided(chunk, parts)
                held = tuple(Kept(p.worker, one) for p, one in zip(parts, pieces, strict=True))
            left = list(room)
            for part in held:
                left[part.worker] -= part.chunk.nbytes
            if min(left) >= 0:
                room, found[number] = left, held
        return Memory(self.budgets, found)


def divided(chunk: Chunk, parts: Sequence[Part]) -> list[Chunk]:
    """The cells of a piece in parts, along the longest side of its box, from its end."""
    if len(parts) == 1:
        return [chunk]
    lo, hi = chunk.box
    order = np.argsort(chunk.coords[int((hi - lo).argmax())], kind="stable")[::-1]
    cuts = np.cumsum([0, *(part.cells for part in parts)])
    return [Chunk(chunk.table.take(np.sort(order[a:b])), chunk.ndim) for a, b in pairwise(cuts)]
