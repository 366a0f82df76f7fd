"""A statement over the change of one table, or of one over all of it, run by the interpreter by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.calculus import MapRef, Query, Rel
from everfresh.compiler import Crossing
from everfresh.expr import Vector
from everfresh.local.interpret.atoms import Atom, Rows
from everfresh.local.interpret.interpreter import PoolDelta, run_terms
from everfresh.local.interpret.join_order import ordered
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Touched
from everfresh.local.store.strings import Interner
from everfresh.types import Column


class OneChange:
    """What the names of a statement stand for: the rows of one relation, with weights."""

    def __init__(
        self,
        columns: Sequence[Column],
        values: Mapping[str, Vector],
        weights: NDArray[np.int64],
        interner: Interner,
    ) -> None:
        self.interner, self.many, self.visited = interner, False, 0
        codec = Codec(tuple(columns), interner)
        words = codec.encode_vectors([values[c.name] for c in columns], len(weights))
        self._rows = Rows(codec, words, weights)

    def atom(self, _factor: Rel | MapRef) -> Atom:
        """The rows."""
        return self._rows

    def needs(self, _atom: Rel) -> None:
        """They can be read with nothing bound."""

    def between(self, _crossing: Crossing) -> tuple[Any, Atom] | None:
        """No thresholds are kept."""

    def of(self, store: EntryStore, expr: Query) -> PoolDelta:
        """What a statement adds to its map."""
        terms = ordered(expr, store.target.keys, self.needs)
        return run_terms(terms, store.target.keys, store.codec, store.layout, self)

    def add(self, store: EntryStore, expr: Query) -> Touched:
        """Add it; `commit` or `rollback` must follow."""
        found = self.of(store, expr)
        return store.add_words(found.words, found.values)
