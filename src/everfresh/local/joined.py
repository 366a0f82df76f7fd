"""Statements that join changes with maps, run factor by factor over vectors.

A product is evaluated from left to right, as the calculus says: a frame of bound variables with weights
starts as one empty row; a relation atom or a map joins it with the entries that agree on the bound variables
(through a slice), a condition filters, a binding adds a column, the values end it. The slow twin is the
reference evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everfresh.calculus import Bind, Cond, MapRef, Neg, Plus, Prod, Query, Rel, Sum, Value
from everfresh.expr import Vector, evaluate_vector, satisfied
from everfresh.expr.vector import concat
from everfresh.local.codec import Codec
from everfresh.local.columnar import MapDelta
from everfresh.local.slices import Slice, every_pair
from everfresh.program import MapDef
from everfresh.types import Column

Ints = NDArray[np.int64]


class Atom(Protocol):
    """What a relation atom or a map read offers: its columns, and the entries that agree with given
    values."""

    columns: tuple[Column, ...]

    def probe(self, names: tuple[str, ...], vectors: Sequence[Vector], rows: int) -> tuple[Ints, Ints]:
        """Pairs of row number and slot that agree on the columns `names`."""

    def read(self, slots: Ints, names: Sequence[str]) -> dict[str, Vector]:
        """Some columns of some slots."""

    def counts(self, slots: Ints) -> Ints:
        """The multiplicities of some slots."""


class Rows:
    """Rows given as words, with weights: a change, or a whole table while a view is loaded."""

    def __init__(self, codec: Codec, words: Ints, weights: Ints) -> None:
        self.columns = codec.columns
        self._codec, self._words, self._weights = codec, words, weights
        self._slices: dict[tuple[str, ...], Slice] = {}

    def probe(self, names: tuple[str, ...], vectors: Sequence[Vector], rows: int) -> tuple[Ints, Ints]:
        """Through a slice that is built at the first use."""
        slots = np.arange(len(self._weights))
        if not names:
            return every_pair(rows, slots)
        if names not in self._slices:
            built = Slice([c for c in self.columns if c.name in names], self._codec)
            built.add(slots, self._words)
            self._slices[names] = built
        return self._slices[names].probe(vectors, rows)

    def read(self, slots: Ints, names: Sequence[str]) -> dict[str, Vector]:
        """Decoded from the words."""
        return self._codec.vectors(np.ascontiguousarray(self._words[:, slots]), names)

    def counts(self, slots: Ints) -> Ints:
        """The weights."""
        return self._weights[slots]


@dataclass
class _Frame:
    """Bound variables and weights, row by row."""

    columns: dict[str, Vector]
    weights: Ints
    components: tuple[Vector, ...] = ()

    def take(self, index: Ints) -> None:
        self.columns = {name: vector.take(index) for name, vector in self.columns.items()}
        self.weights = self.weights[index]


Source = Callable[[Any], Atom]


def run_joined(target: MapDef[Any], expr: Query, source: Source) -> MapDelta:
    """What a statement adds to its map; `source` gives what a relation atom or a map read stands for."""
    terms = expr.terms if isinstance(expr, Plus) else (expr,)
    deltas = [_term(target, term.body if isinstance(term, Sum) else term, source) for term in terms]
    return MapDelta(
        tuple(concat([d.keys[i] for d in deltas]) for i in range(len(target.keys))),
        np.concatenate([d.n for d in deltas]),
        tuple(concat([d.components[i] for d in deltas]) for i in range(len(target.kinds))),
    )


def _term(target: MapDef[Any], term: Query, source: Source) -> MapDelta:
    sign = 1
    while isinstance(term, Neg):
        sign, term = -sign, term.body
    factors = term.factors if isinstance(term, Prod) else (term,)
    frame = _Frame({}, np.full(1, sign, np.int64))
    needed = _needed(target, factors)
    for factor in factors:
        _STEPS[type(factor)](frame, factor, source, needed)
    return MapDelta(tuple(frame.columns[v.name] for v in target.keys), frame.weights, frame.components)


def _needed(target: MapDef[Any], factors: Sequence[Query]) -> set[str]:
    """The variables that something beside one atom reads: the others are never decoded."""
    seen: dict[str, int] = {}
    for factor in factors:
        if isinstance(factor, Rel | MapRef):
            for var in {v.name for v in (factor.vars if isinstance(factor, Rel) else factor.keys)}:
                seen[var] = seen.get(var, 0) + 1
        else:
            for node in factor.walk():
                if hasattr(node, "name"):
                    seen[node.name] = 2
    return {v.name for v in target.keys} | {name for name, times in seen.items() if times > 1}


def _join(frame: _Frame, factor: Rel | MapRef, source: Source, needed: set[str]) -> None:
    atom = source(factor)
    vars_ = factor.vars if isinstance(factor, Rel) else factor.keys
    column_of = {v.name: c.name for v, c in zip(vars_, atom.columns, strict=True)}
    shared = [name for name in column_of if name in frame.columns]
    # The slice's columns come in the order of the atom's.
    shared.sort(key=lambda name: [c.name for c in atom.columns].index(column_of[name]))
    at, slots = atom.probe(
        tuple(column_of[name] for name in shared),
        [frame.columns[name] for name in shared],
        len(frame.weights),
    )
    frame.take(at)
    frame.weights = frame.weights * atom.counts(slots)
    new = [name for name in column_of if name not in frame.columns and name in needed]
    found = atom.read(slots, [column_of[name] for name in new])
    frame.columns.update({name: found[column_of[name]] for name in new})


def _filter(frame: _Frame, factor: Cond, _source: Source, _needed: set[str]) -> None:
    keep = satisfied(factor.condition, frame.columns, len(frame.weights))
    frame.take(np.flatnonzero(keep))


def _bind(frame: _Frame, factor: Bind, _source: Source, _needed: set[str]) -> None:
    frame.columns[factor.var.name] = evaluate_vector(factor.expr, frame.columns, len(frame.weights))


def _values(frame: _Frame, factor: Value, _source: Source, _needed: set[str]) -> None:
    rows = len(frame.weights)
    frame.components = tuple(evaluate_vector(item, frame.columns, rows) for item in factor.items)


_STEPS: dict[type[Query], Callable[..., None]] = {
    Rel: _join,
    MapRef: _join,
    Cond: _filter,
    Bind: _bind,
    Value: _values,
}
