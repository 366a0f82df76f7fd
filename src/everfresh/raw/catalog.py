"""What the coordinator knows of an external array: its files and their pieces, never a cell.

A *piece* is a box of one file. The pieces of a file have tight boxes that do not overlap and hold all of its
cells: queries cut them (`everfresh.raw.chunking`). Until a file has been read once, its one piece has the box
of its header, or of the whole array, and no number of cells.

A catalog is a value: a query or REFRESH makes the next one. Invariants: every piece is of a file that is
there; the pieces of a file are disjoint; pieces keep their numbers until they are cut, and numbers are not
used again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from everfresh.raw.boxes import Box, Ints, overlapping
from everfresh.raw.files.places import Found

UNKNOWN = -1
"""The cells of a piece of a file that has not been read."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file: as it was when it was looked at, and the worker that reads it."""

    found: Found
    owner: int

    @property
    def path(self) -> str:
        """Where it is."""
        return self.found.path


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of a file, and how many cells of it are there."""

    number: int
    file: str
    box: Box
    cells: int = UNKNOWN


@dataclass(frozen=True)
class Catalog:
    """The files and pieces of one array."""

    files: Mapping[str, RawFile] = field(default_factory=dict)
    pieces: Mapping[int, Piece] = field(default_factory=dict)

    @cached_property
    def _columns(self) -> tuple[Ints, Ints, Ints]:
        """Numbers and boxes, a row for each piece."""
        numbers = np.fromiter(self.pieces, np.int64, len(self.pieces))
        if not len(numbers):
            return numbers, np.empty((0, 0), np.int64), np.empty((0, 0), np.int64)
        lo = np.array([p.box.lo for p in self.pieces.values()], np.int64)
        hi = np.array([p.box.hi for p in self.pieces.values()], np.int64)
        return numbers, lo, hi

    def meeting(self, boxes: Iterable[Box]) -> list[Piece]:
        """The pieces that have room for a cell of one of the boxes."""
        numbers, lo, hi = self._columns
        if not len(numbers):
            return []
        found = np.zeros(len(numbers), np.bool_)
        for box in boxes:
            found |= overlapping(lo, hi, box)
        return [self.pieces[int(number)] for number in numbers[found]]

    def of_file(self, path: str) -> list[Piece]:
        """The pieces of one file."""
        return [piece for piece in self.pieces.values() if piece.file == path]

    def replaced(self, gone: Iterable[int], come: Iterable[Piece]) -> Catalog:
        """The catalog with some pieces in the place of others."""
        dropped = set(gone)
        pieces = {n: piece for n, piece in self.pieces.items() if n not in dropped}
        return Catalog(self.files, {**pieces, **{piece.number: piece for piece in come}})

    def without(self, paths: Iterable[str]) -> Catalog:
        """The catalog without some files."""
        gone = set(paths)
        return Catalog(
            {path: file for path, file in self.files.items() if path not in gone},
            {n: piece for n, piece in self.pieces.items() if piece.file not in gone},
        )

    def extended(self, files: Iterable[RawFile], pieces: Iterable[Piece]) -> Catalog:
        """The catalog with more files; one that is empty has no piece."""
        return Catalog(
            {**self.files, **{file.path: file for file in files}},
            {**self.pieces, **{piece.number: piece for piece in pieces}},
        )

    # -- as text -------------------------------------------------------------------------------------

    def to_text(self) -> str:
        """The catalog as JSON, a line for each file."""
        by_file: dict[str, list[Any]] = {path: [] for path in self.files}
        for piece in self.pieces.values():
            by_file[piece.file].append([piece.number, piece.box.lo, piece.box.hi, piece.cells])
        return "\n".join(
            json.dumps([f.found.path, f.found.size, f.found.stamp, f.owner, by_file[path]])
            for path, f in self.files.items()
        )

    @staticmethod
    def of_text(text: str) -> Catalog:
        """The inverse of `to_text`.

        >>> file = RawFile(Found("a.csv", 10, "1:10"), 0)
        >>> one = Catalog({"a.csv": file}, {7: Piece(7, "a.csv", Box((1,), (3,)), 2)})
        >>> Catalog.of_text(one.to_text()) == one
        True
        """
        files, pieces = {}, {}
        for line in text.splitlines():
            path, size, stamp, owner, told = json.loads(line)
            files[path] = RawFile(Found(path, size, stamp), owner)
            for number, lo, hi, cells in told:
                pieces[number] = Piece(number, path, Box.of(lo, hi), cells)
        return Catalog(files, pieces)

    def owned(self, workers: int) -> Catalog:
        """The catalog with its files dealt to so many workers."""
        dealt = {
            path: replace(file, owner=k % workers)
            for k, (path, file) in enumerate(sorted(self.files.items()))
        }
        return Catalog(dealt, self.pieces)
