"""The changes of a feed as signed rows: what a part of kind "change" adds to a net change.

A full row is arithmetic: what was there counts -1, what is there counts +1, and the images in between
cancel, in whatever order they come (`+A -A +B -B`). Two kinds of changes do not name the row that they take
away, and find it by the primary key: a delete by key, and an `update_postimage` whose key has no preimage in
its version. They take the row that the change of the same key before them left (in the order of versions,
and within one deletes before inserts before updates), or else the stored one. Where there is none, such an
update adds its row (an update that changed the key is one of those), and such a delete is refused.

Invariant: the result depends on the multiset of changes only, never on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.delta.feeds import CHANGE_TYPE, COMMIT_VERSION, DELETE_KEY, INSERT, POSTIMAGE, PREIMAGE
from everfresh.errors import Code, EverfreshError
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Layout, Pool, Values
from everfresh.program import Part

if TYPE_CHECKING:
    from everfresh.local.store.table import Table

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Signed:
    """Rows of one sign, and which rows of the feed they come from."""

    words: Ints
    weight: int
    rows: Ints


def signed_changes(table: Table, part: Part, encode: Callable[[pa.Table], Ints]) -> list[Signed]:
    """The rows that a feed takes away and adds, in the order of its rows, as `encode` has their words."""
    kinds = part.rows.column(CHANGE_TYPE).to_numpy()
    full = np.flatnonzero(kinds != DELETE_KEY)
    names = list(table.schema.names)
    words = np.zeros((table.codec.words, len(kinds)), np.int64)
    words[:, full] = encode(part.rows.select(names).take(full))
    gone, come = np.flatnonzero((kinds != DELETE_KEY) & (kinds < INSERT)), np.flatnonzero(kinds >= INSERT)
    found = [
        Signed(np.ascontiguousarray(words[:, gone]), -1, gone),
        Signed(np.ascontiguousarray(words[:, come]), 1, come),
    ]
    if table.schema.key:
        taken = _taken(table, part, kinds, words)
        if taken is not None:
            found.insert(0, taken)
    return found


def _taken(table: Table, part: Part, kinds: NDArray[np.int8], words: Ints) -> Signed | None:
    """The rows that go without being named in full."""
    if not (kinds == DELETE_KEY).any() and not (kinds == POSTIMAGE).any():
        return None
    columns = [c for c in table.schema.columns if c.name in table.schema.key]
    keys = Codec(columns, table.codec.interner).encode(part.rows.select([c.name for c in columns]))
    ids = _numbered(keys)
    versions = (
        part.rows.column(COMMIT_VERSION).to_numpy()
        if COMMIT_VERSION in part.rows.column_names and COMMIT_VERSION not in table.schema.names
        else np.zeros(len(kinds), np.int64)
    )
    order = np.lexsort((kinds, versions, ids))
    ids, versions, kinds = ids[order], versions[order], kinds[order]
    first_of_key = _starts(ids)
    group = np.cumsum(first_of_key | _starts(versions)) - 1  # of one key and version
    paired = np.bincount(group, kinds == PREIMAGE)[group] > 0
    by_key = kinds == DELETE_KEY
    blind = by_key | ((kinds == POSTIMAGE) & ~paired)
    at = np.flatnonzero(blind)
    if not len(at):
        return None
    _once(table, part, group, kinds == POSTIMAGE, ~paired, order)
    start, before = first_of_key[at], np.maximum(at - 1, 0)
    stored = np.where(start, table.pool.find(np.ascontiguousarray(keys[:, order[at]])), -1)
    left = ~start & (kinds[before] >= INSERT)
    there = left | (stored >= 0)
    missing = by_key[at] & ~there
    if missing.any():
        row = int(order[at[missing]].min())
        raise EverfreshError(
            Code.MISSING_ROW,
            f"there is no row to delete with key {table.key_text(part.rows, row)}",
            place=f"{part.what}, row {part.number(row)}",
            hint=f"every delete must name a row of '{table.schema.name}' that exists",
        )
    taken = np.where(left, words[:, order[before]], table.pool.keys_at(stored))[:, there]
    return Signed(np.ascontiguousarray(taken), -1, order[at[there]])


def _once(table: Table, part: Part, group: Ints, posts: Mask, unpaired: Mask, order: Ints) -> None:
    """Refuse two updates of one key in one version: which is the later?"""
    twice = posts & unpaired & (np.bincount(group, posts)[group] > 1)
    if twice.any():
        row = int(order[twice].min())
        raise EverfreshError(
            Code.DUPLICATE_KEY,
            f"the row with key {table.key_text(part.rows, row)} is updated twice",
            place=f"{part.what}, row {part.number(row)}",
            hint=f"give the preimages too, or the order of the changes in a column '{COMMIT_VERSION}'",
        )


def _starts(values: Ints) -> Mask:
    """Where a value differs from the one before it."""
    found: Mask = np.ones(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found


def _numbered(keys: Ints) -> Ints:
    """A number for each key, the same for equal ones."""
    pool = Pool(keys.shape[0], Layout(()))
    counts = Values.zeros(Layout(()), keys.shape[1])
    counts.n[:] = 1
    pool.add(keys, counts)
    return pool.find(keys)
