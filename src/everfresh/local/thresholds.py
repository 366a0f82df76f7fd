"""The entries that a moving threshold passes, from an index that keeps them in the order of their value.

Implements 6.3 of the notes on SQL: `Crossing` says what is compared with what, `Band` follows the entries
of the map. Where the index cannot answer (a value that cannot be computed, a relation read as it was before),
the product is run over all entries, which is the slow twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everfresh.compiler import Crossing
from everfresh.errors import EverfreshError
from everfresh.expr import Expr, Var, Vector, evaluate_vector, substitute, variables
from everfresh.local.adhoc.frame import take
from everfresh.local.atoms import Found, Picked, Rows
from everfresh.local.cells import Cells, VectorsOf
from everfresh.local.entries import EntryStore
from everfresh.local.followers import Band
from everfresh.local.ordering import atom_vars
from everfresh.local.reading import Reading, ViewReader

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Between:
    """Some entries of a map, or of the map of a relation, as an atom: pairs of a row of the frame and a
    slot."""

    of: Picked | Reading
    at: Ints
    slots: Ints

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """These entries: nothing is bound before them."""
        return self.of.read(self.at, self.slots, want)


def between(crossing: Crossing, change: Rows, atom: Picked | Reading) -> tuple[Ints, Between] | None:
    """What the entries whose condition flips are multiplied by, and these entries; None if they are not known
    without looking at all of them."""
    store = _store(atom)
    if store is None:
        return None
    names = [v.name for v in crossing.change.vars]
    rows = change.join([None] * len(names), 1, range(len(names)))
    env = VectorsOf({names[i]: cells for i, cells in rows.columns.items()})
    held = [v.name for v in atom_vars(crossing.atom)]
    value = substitute(
        crossing.value,
        {v.name: Var(str(held.index(v.name)), v.type, v.nullable) for v in variables(crossing.value)},
    )
    try:
        limits = evaluate_vector(crossing.limit, env, len(rows.at))
        band = store.follower(
            ("band", crossing.atom.name, value, crossing.op), lambda: _band(value, crossing.op, atom, store)
        )
        sums, at, slots = band.crossed(limits, rows.weight[0])  # type: ignore[arg-type]
    except EverfreshError:
        return None
    return sums, Between(atom, at, slots)


def _store(atom: Picked | Reading) -> EntryStore | None:
    """The map whose entries are kept in order; None if they are asked for as they were before."""
    if isinstance(atom, Picked):
        return atom.store if isinstance(atom.store, EntryStore) else None
    reader = atom.reader
    if not isinstance(reader, ViewReader) or reader.store.target.name in atom.before:
        return None
    return reader.store


def _band(value: Expr, op: str, atom: Picked | Reading, store: EntryStore) -> Band:
    """Entries by `value`, whose variables are the numbers of the atom's columns."""
    want = [int(v.name) for v in variables(value)]
    source = atom if isinstance(atom, Picked) else Reading(atom.reader, {})

    def values(slots: Ints, words: Ints) -> Vector:
        found = source.read(np.arange(len(slots)), slots, want)
        env = VectorsOf({str(i): cells for i, cells in found.columns.items()})
        place = np.full(len(slots), -1, np.int64)
        place[found.at] = np.arange(len(found.at))
        return take(evaluate_vector(value, env, len(found.at)), place)

    return Band(store.pool, store.codec, values, value.type, op, (), store.ranks)
