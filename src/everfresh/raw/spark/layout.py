"""From where pieces are, and where they are to be, to what workers do: lay down, lay aside, send.

Invariant: what is to be kept somewhere is there when it is laid down: it was there, the join has brought it,
or it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from everfresh.raw.cache.placement import Part
from everfresh.raw.spark.memory import Remote, Stored
from everfresh.raw.spark.pieces import Shard, Source

Make = tuple[str, list[Shard], tuple[int, tuple[int, ...]] | None]
"""A file to lay down: its name, what it is made of, and which part of that it is."""


@dataclass
class Layout:
    """What each worker does so that pieces are where they are to be."""

    query: str
    keep: dict[int, list[str]] = field(default_factory=dict)
    make: dict[int, list[Make]] = field(default_factory=dict)
    aside: dict[int, dict[str, str]] = field(default_factory=dict)
    """What a join brings, by position in its plan."""
    moves: dict[int, list[Any]] = field(default_factory=dict)
    planned: dict[int, list[Stored]] = field(default_factory=dict)
    """The parts of each piece, if all goes well: those that are made have no bytes yet."""

    def stay(self, number: int, parts: tuple[Stored, ...]) -> None:
        """A piece stays as it is."""
        self.planned[number] = list(parts)
        for part in parts:
            self.keep.setdefault(part.worker, []).append(part.source.name)

    def place(
        self,
        number: int,
        shard: Shard,
        parts: tuple[Part, ...],
        brought: Mapping[int, int],
    ) -> None:
        """A piece is laid down; `brought` has the workers that a join brings it to, with its position."""
        counts = tuple(part.cells for part in parts) if len(parts) > 1 else ()
        self.planned[number] = []
        for k, part in enumerate(parts):
            to, which = part.worker, (k, counts) if counts else None
            name = f"p{number}.{k}" if counts else f"p{number}"
            made = Source(shard.source.array, to, name, shard.source.found, shard.box, counts, k)
            here, passing = shard, f"~{self.query}-a{number}.{k}"
            if to != shard.source.worker:
                here = Shard(replace(made, name=passing), shard.box)
                if to in brought and which is None:
                    self.aside.setdefault(to, {})[str(brought[to])] = passing
                else:
                    told = [passing, to, [shard.to_json()], which]
                    self.moves.setdefault(shard.source.worker, []).append(told)
                    which = None
            self.make.setdefault(to, []).append((name, [here], which))
            self.planned[number].append(Stored(made, part.cells, 0))

    def told(self, worker: int) -> dict[str, Any]:
        """What a worker is asked to keep."""
        makes = [
            [name, [shard.to_json() for shard in shards], which]
            for name, shards, which in self.make.get(worker, ())
        ]
        return {"keep": self.keep.get(worker, []), "make": makes}

    def after(self, budgets: tuple[int, ...], made: Mapping[str, tuple[int, int]]) -> Remote:
        """What is kept, given the cells and bytes of the files that were laid down."""
        found: dict[int, tuple[Stored, ...]] = {}
        for number, parts in self.planned.items():
            there = [_made(part, made) for part in parts if part.bytes or part.source.name in made]
            if len(there) == len(parts):
                found[number] = tuple(there)
        return Remote(budgets, found)


def _made(part: Stored, made: Mapping[str, tuple[int, int]]) -> Stored:
    cells, size = made.get(part.source.name, (part.cells, part.bytes))
    return replace(part, cells=cells, bytes=size)
