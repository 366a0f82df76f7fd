"""What a segment says of the rows of a table, and how that is replayed.

| section | of a table | holds |
|---|---|---|
| `gone/...` | with a primary key | the keys of the rows that have gone |
| `table/...` | with a primary key | the rows that have come, after those have gone |
| `table/...` | without one | the rows that have changed, with how often each is there now (0: no more) |

Rows that have come as they were given are written as they were given. Nothing has to be computed to replay a
section. The columns of a table without a key may go by other names by then: they are known by their places.
(A unit with a key is written anew when they are renamed.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from everfresh.local.store.pool import Layout, Values
from everfresh.local.store.table import Net, Table
from everfresh.program import Part
from everfresh.state import pack_table
from everfresh.types import arrow_schema

GONE, ROWS = "gone", "table"
_N = "_n"


def row_sections(identity: str, table: Table, change: Net, parts: Sequence[Part]) -> Mapping[str, bytes]:
    """What an applied change, made of these parts of a batch, did to a table."""
    rows = f"{ROWS}/{identity}"
    if not table.schema.key:
        after = table.pool.gather(table.pool.find(change.words)).n
        return {rows: pack_table(table.codec.decode(change.words).append_column(_N, pa.array(after)))}
    sections = {}
    goes = np.flatnonzero(change.weights < 0)
    if len(goes):
        keys = table.codec.decode(change.words.take(goes, axis=1), table.schema.key)
        sections[f"{GONE}/{identity}"] = pack_table(keys)
    if len(goes) < len(change):
        come = _given(table, parts, len(change) - len(goes))
        if come is None:
            come = table.codec.decode(change.words[:, change.weights > 0])
        sections[rows] = pack_table(come)
    return sections


def _given(table: Table, parts: Sequence[Part], count: int) -> pa.Table | None:
    """The rows that come, `count` of them, as they were given; None if others do."""
    if any(part.op not in ("insert", "delete") for part in parts):
        return None
    given = [part.rows for part in parts if part.op == "insert"]
    if sum(rows.num_rows for rows in given) != count:  # one that goes and comes again is no change
        return None
    types = arrow_schema(table.schema.columns).types
    if (
        any(rows.schema != given[0].schema for rows in given)
        or [*map(_plain, given[0].schema.types)] != types
    ):
        return None
    return given[0] if len(given) == 1 else pa.concat_tables(given).combine_chunks()


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def replay_rows(kind: str, table: Table, image: pa.Table) -> None:
    """Bring a table forward by one section."""
    codec, pool = table.codec, table.pool
    if kind == GONE:
        slots = pool.find(codec.part(table.schema.key).encode(image))
        codec.texts.release(pool.keys_at(slots)[codec.kept_words].ravel())
        pool.remove(slots)
        return
    values = Values.zeros(Layout(()), image.num_rows)
    values.n[:] = 1 if table.schema.key else image.column(_N).to_numpy()
    rows = image if table.schema.key else image.drop_columns([_N]).rename_columns(list(table.schema.names))
    pool.put(codec.encode(rows), values)
