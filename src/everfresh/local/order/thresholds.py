"""The entries that a moving threshold passes, from an index that keeps them in the order of their value.

Implements "Thresholds" of docs/design/sql.md: `Crossing` says what is compared with what, `Band` follows the
entries of the map. Where the index cannot answer (a value that cannot be computed, a relation read as it was
before), the product is run over all entries, which is the slow twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everfresh.compiler import Crossing
from everfresh.errors import EverfreshError
from everfresh.local.interpret.atoms import Found, Rows, part
from everfresh.local.interpret.frame_columns import Cells, VectorsOf
from everfresh.local.interpret.join_order import atom_vars
from everfresh.local.order.range_join import Source, asked, band_of, held_in_order
from everfresh.local.store.entries import EntryStore

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Between:
    """Some entries of a map, or of the map of a relation, as an atom: pairs of a row of the frame and a
    slot."""

    of: Source
    at: Ints
    slots: Ints

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """These entries: nothing is bound before them."""
        return self.of.read(self.at, self.slots, want)


def between(crossing: Crossing, change: Rows, atom: Source) -> tuple[Ints, Between] | None:
    """What the entries whose condition flips are multiplied by, and these entries; None if they are not known
    without looking at all of them."""
    store = held_in_order(atom)
    if not isinstance(store, EntryStore):
        return None
    names = [v.name for v in crossing.change.vars]
    rows = part(change, crossing.change).join([None] * len(names), 1, range(len(names)))
    env = VectorsOf({names[i]: cells for i, cells in rows.columns.items()})
    held = [v.name for v in atom_vars(crossing.atom)]
    try:
        band = band_of(crossing.range.value, atom, store, held)
        limits = asked(crossing.range, band, env, len(rows.at))
        sums, at, slots = band.crossed(limits, rows.weight[0])  # type: ignore[arg-type]
    except EverfreshError:
        return None
    return sums, Between(atom, at, slots)
