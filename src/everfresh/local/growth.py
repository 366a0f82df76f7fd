"""Maps that grow beyond their tables: noticed while they do, and said once.

Most maps have at most one entry for each row of a table. One of a join by an inequality, or of groups joined
with groups, may have one for each pair, which `explain` says beforehand (`everfresh.compiler.pairs`). Here
its size is compared with that of the tables whenever its pool takes more room, so that it costs nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from everfresh.local.entries import EntryStore
from everfresh.local.pool import Pool

_log = logging.getLogger("everfresh")
LEAST: Final = 10_000
"""Entries below which nobody minds."""
TIMES: Final = 4
"""So many entries for each row of the tables are too many."""


def watch(store: EntryStore, view: str, tables: Sequence[Pool]) -> None:
    """Notice, and say once, when the map of a view has many more entries than its tables have rows."""

    def grown(entries: int) -> None:
        if store.outgrown or entries <= LEAST:
            return
        rows = sum(len(pool) for pool in tables)
        if entries > TIMES * max(rows, 1):
            store.outgrown = True
            _log.warning(
                "map %s of view %s has more than %d entries, its tables have %d rows (LARGE MAPS in explain)",
                store.target.name,
                view,
                entries - 1,
                rows,
            )

    store.pool.watch = grown
