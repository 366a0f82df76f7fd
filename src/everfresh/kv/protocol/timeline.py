"""Timelines of records, condensed: one change per record, from its first before-image to its last image.

Section 4.3.4 and 4.3.5 of the thesis on key-value views; "Record timelines" in docs/design/key-value.md. An
epoch is a slice of the log, so its keys are the active updates of the thesis's timeline buffer, and what
follows in the log is what the buffer would hold. Invariant: the condensed changes of consecutive slices, one
after the other, do to the base what their entries do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from everfresh.kv.store import Entry, LogDiverged


class Change(NamedTuple):
    """What becomes of a record: None is absence."""

    table: str
    key: bytes
    before: bytes | None
    after: bytes | None


def condense(entries: Iterable[Entry], tables: Collection[str], keep_first: bool = True) -> list[Change]:
    """The changes of the records of these tables, in the order of their keys; none where a record is again
    what it was. Raises `LogDiverged` if an entry's before-image is not what the entry before left. Without
    `keep_first` an update forgets the before-image of the one it replaces, as a timeline buffer does that is
    overwritten: for simulations of what goes wrong then."""
    changes: dict[tuple[str, bytes], Change] = {}
    for entry in entries:
        if entry.table not in tables:
            continue
        place = (entry.table, entry.key)
        first = changes.get(place) if keep_first else None
        if first is not None and first.after != entry.before:
            raise LogDiverged(f"an entry of {entry.table} does not follow on the one before")
        changes[place] = Change(*place, entry.before if first is None else first.before, entry.after)
    return [change for _, change in sorted(changes.items()) if change.before != change.after]
