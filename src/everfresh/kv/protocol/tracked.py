"""Bases read by keys: which records a slice of a log touches, and what they were at its end.

Sections 6.2.3 and 6.3.2 of the thesis on key-value views. Of the slice only the keys are kept, in MK trees;
the rows are got from the store, of a snapshot or one by one while others write. What was written since the
slice's end is taken back by first before-images. Invariant: the rows are those at the end of the slice,
whenever this is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everfresh.kv.store import Position, Store
from everfresh.kv.tracking import MKTree, steps

BATCH = 1024
Found = list[tuple[str, bytes, "bytes | None"]]


def tracked_rows(
    store: Store, partition: int, tables: Sequence[str], after: Position, upto: Position, snapshot: bool
) -> Found:
    """The rows of the keys that a slice touches."""
    schemas = store.tables()
    trees: dict[str, MKTree] = {}
    for entry in store.log(partition, after, upto.offset - after.offset):
        if entry.table in tables:
            tree = trees.get(entry.table)
            if tree is None:
                tree = trees[entry.table] = MKTree(steps=steps(schemas[entry.table].schema))
            tree.add(entry.key)
    rows: dict[tuple[str, bytes], bytes | None] = {}
    view = store.snapshot() if snapshot else None
    try:
        for table, tree in trees.items():
            for keys in _batches(tree):
                found = (view or store).multi_get(table, keys)
                rows |= {(table, k): None if r is None else r.value for k, r in zip(keys, found, strict=True)}
    finally:
        if view is not None:
            view.close()
    undone: set[tuple[str, bytes]] = set()
    for id_, begin in _logs(store, partition, upto):
        for entry in store.log(id_, begin, store.log_end(id_).offset - begin.offset):
            place = (entry.table, entry.key)
            if place in rows and place not in undone:
                undone.add(place)
                rows[place] = entry.before
    return [(*place, value) for place, value in sorted(rows.items())]


def _batches(tree: MKTree) -> Iterator[list[bytes]]:
    keys = list(tree)
    for at in range(0, len(keys), BATCH):
        yield keys[at : at + BATCH]


def _logs(store: Store, partition: int, upto: Position) -> Iterator[tuple[int, Position]]:
    """The rest of a partition's log, and the logs of all that came from it."""
    every, begins = {p.id: p for p in store.partitions()}, [(partition, upto)]
    for id_, begin in begins:  # which grows meanwhile
        yield id_, begin
        if not every[id_].open:
            begins += [(child, store.log_end(id_)) for child in every[id_].children]


__all__ = ["tracked_rows"]
