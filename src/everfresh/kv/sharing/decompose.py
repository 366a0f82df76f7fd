"""Decomposed pre-aggregation: Algorithms 5.1 and 5.2 of the thesis, and disjoint cells for maintenance.

Section 5.1.2 of the thesis on key-value views. A predicate is a tree of intervals over attributes. `decomp`
cuts each attribute's intervals into disjoint ones, which get tags; `keys` are the thesis's P_dec. Those keys
overlap: a row with both Y1 and Z2 is in both, and a view that adds them counts it twice. So aggregates are
kept by *cell*: one tag per attribute, "none" included. Invariant: a row is in exactly one cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from everfresh.kv.sharing.intervals import Interval


@dataclass(frozen=True, slots=True)
class Within:
    """An attribute is in an interval."""

    attribute: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class And:
    """All of these hold."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of these holds."""

    parts: tuple[Predicate, ...]


Predicate = Within | And | Or
Tag = str
Key = tuple[Tag, ...]
Cell = tuple["Tag | None", ...]


def decomp(intervals: Sequence[Interval]) -> list[Interval]:
    """Disjoint intervals that cover the same (Algorithm 5.1, which wants C disjoint and no empty sets)."""
    cells: list[Interval] = []
    for interval in intervals:
        rest, new = [interval], []
        for cell in cells:
            both = cell.meet(interval)
            if both is None:
                new.append(cell)
                continue
            new += [*cell.without(interval), both]
            rest = [piece for part in rest for piece in part.without(cell)]
        cells = new + rest
    return sorted(cells)


class Decomposition:
    """The tags of some predicates, and what rows and views have to do with them."""

    def __init__(self, predicates: Sequence[Predicate]) -> None:
        self.predicates = tuple(predicates)
        found: dict[str, list[Interval]] = {}
        for predicate in predicates:
            _collect(predicate, found)
        self.tags: dict[str, dict[Tag, Interval]] = {
            attribute: {f"{attribute}{i}": cell for i, cell in enumerate(decomp(intervals), 1)}
            for attribute, intervals in sorted(found.items())
        }

    def covering(self, part: Within) -> list[Tag]:
        """The tags of a condition (5.1.5): those that it meets, all of which it contains."""
        of = self.tags[part.attribute].items()
        return [tag for tag, cell in of if cell.meet(part.interval) is not None]

    def keys(self) -> set[Key]:
        """P_dec (5.1.6)."""
        return {key for predicate in self.predicates for key in self._eval(predicate)}

    def _eval(self, predicate: Predicate) -> list[Key]:
        """Algorithm 5.2: a conjunction concatenates, a disjunction enumerates."""
        match predicate:
            case Within():
                return [(tag,) for tag in self.covering(predicate)]
            case Or(parts):
                return [key for part in parts for key in self._eval(part)]
            case And(parts):
                every = product(*map(self._eval, parts))
                return [tuple(tag for key in keys for tag in key) for keys in every]

    def cell(self, row: Mapping[str, Any]) -> Cell:
        """The cell of a row: for each attribute its tag, None if it is in no interval (NULL is in none)."""
        return tuple(
            None
            if row[attribute] is None
            else next((tag for tag, interval in tags.items() if row[attribute] in interval), None)
            for attribute, tags in self.tags.items()
        )

    def cells(self) -> list[Cell]:
        """All cells."""
        return list(product(*((None, *tags) for tags in self.tags.values())))

    def cells_of(self, predicate: Predicate) -> set[Cell]:
        """The cells whose rows a predicate takes."""
        return {cell for cell in self.cells() if self._holds(predicate, cell)}

    def _holds(self, predicate: Predicate, cell: Cell) -> bool:
        match predicate:
            case Within():
                return cell[list(self.tags).index(predicate.attribute)] in self.covering(predicate)
            case And(parts):
                return all(self._holds(part, cell) for part in parts)
            case Or(parts):
                return any(self._holds(part, cell) for part in parts)


def _collect(predicate: Predicate, found: dict[str, list[Interval]]) -> None:
    if isinstance(predicate, Within):
        found.setdefault(predicate.attribute, []).append(predicate.interval)
        return
    for part in predicate.parts:
        _collect(part, found)
