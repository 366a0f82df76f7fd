"""Maps that grow beyond their tables: noticed while they do, and said once.

Most maps have at most one entry for each row of a table. One of a join by an inequality, or of groups joined
with groups, may have one for each pair, which `explain` says beforehand
(`everfresh.compiler.viewlet.pair_maps`). Here its size is compared with that of the tables when its pool has
taken more room, so that it costs nothing else: at once while a view is filled, and at the end of a batch,
whose rows may enter maps before tables.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from everfresh.local.store.pool import Pool

if TYPE_CHECKING:
    from everfresh.local.store.entries import EntryStore

_log = logging.getLogger("everfresh")
LEAST: Final = 10_000
"""Entries below which nobody minds."""
TIMES: Final = 4
"""So many entries for each row of the tables are too many."""


class Growth:
    """What is known of the size of one map of a view."""

    def __init__(self, store: EntryStore, view: str, tables: Sequence[Pool]) -> None:
        self._store, self._view, self._tables = store, view, tables
        self.due = False
        """Whether the pool has grown since the map was last looked at."""
        self.at_once = False
        """Whether the tables have all rows that the map is made of."""

    def __call__(self, entries: int) -> None:
        """The pool of the map takes more room, for so many entries."""
        self.due = entries > LEAST
        if self.due and self.at_once:
            self.settled(entries)

    def settled(self, entries: int) -> None:
        """Tables and map agree: say it if the map is too large."""
        self.due = False
        if self._store.outgrown:
            return
        rows = sum(len(pool) for pool in self._tables)
        if entries > max(LEAST, TIMES * rows):
            self._store.outgrown = True
            _log.warning(
                "map %s of view %s has %d entries or more, its tables have %d rows (LARGE MAPS in explain)",
                self._store.target.name,
                self._view,
                entries,
                rows,
            )
