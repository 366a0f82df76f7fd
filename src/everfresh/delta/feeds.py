"""Change feeds: rows that say themselves what happened to them, in a column `_change_type`.

The convention is that of the Delta change data feed:

| `_change_type` | the row |
|---|---|
| `insert` | is there now |
| `delete` | was there; all its other columns NULL: the row with that primary key was there |
| `update_preimage` | was there before an update |
| `update_postimage` | is there after it |

`_commit_version` beside it orders the changes of a key; `_commit_timestamp` is accepted and not read. A
table's own column of one of these names wins: then the name means that column.

Invariant: a feed that was read has the table's columns in the table's order, `_change_type` as one of the
kinds below (an int8) and, if it was given, `_commit_version`. Every check here is about single rows, so that
a feed may be read in pieces; only `check_pairs` needs all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from everfresh.delta.bags import comparable
from everfresh.delta.coerce import coerce_column, null_error
from everfresh.errors import Code, EverfreshError
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema, arrow_schema, fold, to_arrow

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

# The kinds of changes. Their order is the order of the changes of one key in one version.
DELETE_KEY, DELETE, PREIMAGE, INSERT, POSTIMAGE = range(5)
TEXTS = {"delete": DELETE, "update_preimage": PREIMAGE, "insert": INSERT, "update_postimage": POSTIMAGE}
_HINT = "a change is 'insert', 'delete', 'update_preimage' or 'update_postimage'"

Kinds = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Feed:
    """Where the columns of a feed that are not the table's stand among the given ones."""

    kind: int
    version: int | None = None
    timestamp: int | None = None

    @property
    def positions(self) -> tuple[int | None, ...]:
        """All of them."""
        return self.kind, self.version, self.timestamp


def find_feed(names: Sequence[Any], schema: TableSchema) -> Feed | None:
    """The columns that make rows a change feed of a table; None if they are not one.

    >>> schema = TableSchema("t", (Column("a", BIGINT),))
    >>> find_feed(["a", "_change_type"], schema)
    Feed(kind=1, version=None, timestamp=None)
    >>> find_feed(["a", "_commit_version"], schema)
    """
    folded = [fold(str(name)) for name in names]
    if CHANGE_TYPE not in folded:
        return None
    own = {fold(name) for name in schema.names}
    found: dict[str, int] = {}
    for index, name in enumerate(folded):
        if name not in own:
            found.setdefault(name, index)
    if CHANGE_TYPE not in found:
        return None
    return Feed(found[CHANGE_TYPE], found.get(COMMIT_VERSION), found.get(COMMIT_TIMESTAMP))


def named(what: str) -> str:
    """What rows are called in errors, once they turned out to be a feed."""
    return what.replace(", inserts", ", changes")


def is_feed(names: Sequence[str], schema: TableSchema) -> bool:
    """Whether rows with these columns are a change feed of a table."""
    return find_feed(names, schema) is not None


def fit_feed(
    columns: Sequence[Any],
    rows: int,
    feed: Feed,
    chosen: Sequence[tuple[Column, int | None]],
    schema: TableSchema,
    what: str,
) -> pa.Table:
    """A feed with the schema's types, from its columns in any form."""
    what = named(what)
    kinds = _kinds(columns[feed.kind], what)
    fields, arrays = [], []
    for column, index in chosen:
        loose = replace(column, nullable=True)  # deletes by key have NULLs where the table takes none
        array = (
            pa.nulls(rows, to_arrow(column.type))
            if index is None
            else coerce_column(columns[index], loose, what=what, required=column.name in schema.key)
        )
        fields.append(pa.field(column.name, array.type))
        arrays.append(array)
    _mark_deletes_by_key(kinds, arrays, schema)
    _check(kinds, arrays, chosen, what)
    fields.append(pa.field(CHANGE_TYPE, pa.int8()))
    arrays.append(pa.array(kinds))
    if feed.version is not None:
        version = coerce_column(
            columns[feed.version], Column(COMMIT_VERSION, BIGINT, nullable=False), what=what
        )
        fields.append(pa.field(COMMIT_VERSION, version.type))
        arrays.append(version)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _kinds(values: Any, what: str) -> Kinds:
    texts = coerce_column(values, Column(CHANGE_TYPE, VARCHAR, nullable=False), what=what)
    places = pc.index_in(texts, pa.array(list(TEXTS)))
    if places.null_count:
        row = pc.index(pc.is_null(places), True).as_py()
        raise EverfreshError(
            Code.VALUE,
            f"'{texts[row].as_py()}' in column '{CHANGE_TYPE}' of row {row} is not a change",
            place=f"{what}, row {row}, column {CHANGE_TYPE}",
            hint=_HINT,
        )
    kinds: Kinds = np.array(list(TEXTS.values()), np.int8)[places.to_numpy(zero_copy_only=False)]
    return kinds


def _mark_deletes_by_key(kinds: Kinds, arrays: Sequence[pa.Array], schema: TableSchema) -> None:
    others = [array for name, array in zip(schema.names, arrays, strict=True) if name not in schema.key]
    if not schema.key or not others:
        return
    alone = kinds == DELETE
    for array in others:
        if not alone.any():
            return
        alone &= pc.is_null(array).to_numpy(zero_copy_only=False)
    kinds[alone] = DELETE_KEY


def _check(
    kinds: Kinds, arrays: Sequence[pa.Array], chosen: Sequence[tuple[Column, int | None]], what: str
) -> None:
    """A column that is left out is NULL in inserts, as everywhere, and unknown in other changes."""
    for (column, index), array in zip(chosen, arrays, strict=True):
        if index is None:
            bad = (kinds != INSERT) & (kinds != DELETE_KEY)
            if bad.any():
                row = int(np.argmax(bad))
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"the changes lack column '{column.name}', and row {row} is not an insert",
                    place=f"{what}, row {row}",
                    hint="updates and deletes have all columns of the table; a delete may have the primary "
                    "key alone",
                )
        if not column.nullable and array.null_count:
            bad = pc.is_null(array).to_numpy(zero_copy_only=False) & (kinds != DELETE_KEY)
            if bad.any():
                raise null_error(column, what, int(np.argmax(bad)) if index is not None else None)


def missing_column(row: Mapping[Any, Any], names: Sequence[Any], schema: TableSchema) -> Any | None:
    """A column that a row of a feed given as dicts should have and has not; None if there is none."""
    kind = next((value for name, value in row.items() if fold(str(name)) == CHANGE_TYPE), None)
    if len(row) == len(names) or kind == "insert":
        return None
    own = {fold(name) for name in schema.names}
    given = {fold(str(name)) for name in row} & own
    if kind == "delete" and schema.key and given == {fold(name) for name in schema.key}:
        return None
    return next((name for name in names if fold(str(name)) in own and name not in row), None)


def check_pairs(rows: pa.Table, schema: TableSchema, what: str) -> None:
    """Refuse a feed of a table without a primary key in which an update has not both its images: nothing
    else would tell which row it is about. `rows` is all of a feed, as it was read."""
    if schema.key or CHANGE_TYPE not in rows.column_names or CHANGE_TYPE in schema.names:
        return
    kinds = rows.column(CHANGE_TYPE).to_numpy()
    signs = (kinds == POSTIMAGE).astype(np.int64) - (kinds == PREIMAGE)
    if COMMIT_VERSION in rows.column_names and COMMIT_VERSION not in schema.names:
        _, groups = np.unique(rows.column(COMMIT_VERSION).to_numpy(), return_inverse=True)
    else:
        groups = np.zeros(len(kinds), np.int64)
    if np.bincount(groups, signs).any():
        raise unpaired(schema, what)


def has_full_images(rows: pa.Table, schema: TableSchema) -> bool:
    """Whether every change of a feed names the rows in full that it takes away: then it is the change that it
    makes, whatever the table holds. `rows` is all of a feed, as it was read."""
    kinds = rows.column(CHANGE_TYPE).to_numpy()
    if not schema.key:
        return True  # see `check_pairs`
    if (kinds == DELETE_KEY).any():
        return False
    if not (kinds == POSTIMAGE).any():
        return True
    by = [*schema.key, *(n for n in (COMMIT_VERSION,) if n in rows.column_names and n not in schema.names)]
    images = rows.select([*by, CHANGE_TYPE]).filter(pa.array((kinds == PREIMAGE) | (kinds == POSTIMAGE)))
    images = pa.Table.from_arrays([comparable(column) for column in images.columns], images.column_names)
    least = images.group_by(by).aggregate([(CHANGE_TYPE, "min")])  # of a key, in a version
    return bool(pc.all(pc.equal(least.column(f"{CHANGE_TYPE}_min"), PREIMAGE)).as_py())


def signed_rows(rows: pa.Table, schema: TableSchema) -> tuple[tuple[pa.Table, int], ...]:
    """The rows that a feed of full images takes away (-1) and adds (1)."""
    come = pc.greater_equal(rows.column(CHANGE_TYPE), INSERT)
    plain = rows.select(list(schema.names)).cast(arrow_schema(schema.columns))
    return (plain.filter(pc.invert(come)), -1), (plain.filter(come), 1)


def unpaired(schema: TableSchema, what: str) -> EverfreshError:
    """The error of an update that lacks one of its images."""
    return EverfreshError(
        Code.ARGUMENT,
        f"the changes have not as many update_preimage as update_postimage rows, and table '{schema.name}' "
        "has no primary key to find the rows by",
        place=what,
        hint="give both images of each update, or a table with a primary key",
    )
