"""What the cache nodes hold: pieces of files, whole or in parts, by worker.

Invariant: no worker holds more than its budget; the parts of a piece together are its cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.raw.placement import Part


@dataclass(frozen=True, eq=False)
class Kept:
    """A part of a piece at a worker."""

    worker: int
    chunk: Chunk


class Memory:
    """The pieces that are in memory."""

    def __init__(self, budgets: Sequence[int]) -> None:
        self.budgets = tuple(budgets)
        self._parts: Mapping[int, tuple[Kept, ...]] = {}

    def __contains__(self, piece: int) -> bool:
        return piece in self._parts

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def chunk(self, piece: int) -> Chunk:
        """The cells of a piece."""
        parts = self._parts[piece]
        if len(parts) == 1:
            return parts[0].chunk
        return Chunk.of(pa.concat_tables([part.chunk.table for part in parts]), parts[0].chunk.ndim)

    def workers(self, piece: int) -> tuple[int, ...]:
        """Where a piece is kept, the worker with most of it first."""
        parts = self._parts.get(piece, ())
        return tuple(part.worker for part in sorted(parts, key=lambda one: -len(one.chunk)))

    def parts(self, piece: int) -> tuple[Kept, ...]:
        """The parts of a piece."""
        return self._parts.get(piece, ())

    def nbytes(self, piece: int) -> int:
        """What a piece takes."""
        return sum(part.chunk.nbytes for part in self._parts[piece])

    def used(self) -> list[int]:
        """The bytes that each worker holds."""
        found = [0] * len(self.budgets)
        for parts in self._parts.values():
            for part in parts:
                found[part.worker] += part.chunk.nbytes
        return found

    def keeping(self, placed: Mapping[int, tuple[Part, ...]], chunks: Mapping[int, Chunk]) -> Memory:
        """The memory that holds these pieces at these places, and no others; `chunks` has what this one does
        not hold. What is not cut or moved stays the same object."""
        after = Memory(self.budgets)
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
        after._parts = found
        return after


def alone(chunk: Chunk) -> Chunk:
    """A chunk with buffers of its own: what a filter or a slice left may hold on to more than its cells."""
    return Chunk(chunk.table.take(np.arange(len(chunk))).combine_chunks(), chunk.ndim)


def divided(chunk: Chunk, parts: Sequence[Part]) -> list[Chunk]:
    """The cells of a piece in parts, along the longest side of its box, from its end."""
    if len(parts) == 1:
        return [chunk]
    lo, hi = chunk.box
    order = np.argsort(chunk.coords[int((hi - lo).argmax())], kind="stable")[::-1]
    cuts = np.cumsum([0, *(part.cells for part in parts)])
    return [Chunk(chunk.table.take(np.sort(order[a:b])), chunk.ndim) for a, b in pairwise(cuts)]
