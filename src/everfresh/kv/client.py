"""Clients of a store with views: rows of base tables in, consistent rows of views out.

"Atomic updates of many rows" in docs/design/key-value.md. Reads need nothing but the store: the head of a
view's group says which states are committed. Invariants: `read` gives the view at one epoch; `read_row`
takes at most two gets, and one client's reads of a row never go back.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from everfresh.delta.bags import WEIGHT, expand
from everfresh.errors import Code, EverfreshError
from everfresh.kv import split
from everfresh.kv.encoding import RowCodec
from everfresh.kv.protocol.calls import perform
from everfresh.kv.protocol.reading import read_row, read_view
from everfresh.kv.store import NOBODY, Store, StoredTable
from everfresh.kv.store import Client as Who
from everfresh.types import to_logical, to_physical

Row = Mapping[str, Any]


class Client:
    """Reads and writes rows."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._codecs: dict[str, tuple[StoredTable, RowCodec]] = {}

    # -- base tables -------------------------------------------------------------------------------

    def put(self, table: str, row: Row, *, who: Who = NOBODY) -> int:
        """Write a row of a base table; returns its version."""
        codec = self._codec(table, view=False)
        missing = {*codec.schema.names} ^ {*row}
        if missing:
            raise EverfreshError(
                Code.ARGUMENT,
                f"a row of '{table}' has the columns {', '.join(codec.schema.names)}",
                hint="amiss: " + ", ".join(sorted(missing)),
            )
        for name in codec.schema.names:
            if row[name] is None and (name in codec.schema.key or not codec.schema.column(name).nullable):
                raise EverfreshError(Code.NULL, f"column '{name}' of '{table}' takes no NULL")
        values = [self._physical(codec, name, row[name]) for name in codec.schema.names]
        return self.store.put(table, *codec.encode(values), client=who)

    def delete(self, table: str, *key: Any, who: Who = NOBODY) -> int:
        """Remove a row of a base table by its key."""
        codec = self._codec(table, view=False)
        return self.store.delete(table, self._key(codec, key), client=who)

    def get(self, table: str, *key: Any) -> dict[str, Any] | None:
        """A row of a base table."""
        codec = self._codec(table, view=False)
        encoded = self._key(codec, key)
        row = self.store.get(table, encoded)
        return None if row is None else self._shown(codec, encoded, row.value)

    def scan(self, table: str) -> pa.Table:
        """The rows of a base table, each as it is when it is read."""
        codec = self._codec(table, view=False)
        pairs = (pair for batch in self.store.scan(table) for pair in batch)
        return codec.arrow(codec.decode(key, row.value) for key, row in pairs)

    # -- views -------------------------------------------------------------------------------------

    def read(self, view: str) -> pa.Table:
        """The rows of a view, all of one epoch."""
        codec = self._codec(view, view=True)
        rows, _ = self._run(read_view(view, view))
        table = codec.arrow(codec.decode(key, value) for key, value in rows)
        return expand(table) if table.column_names[-1:] == [WEIGHT] else table

    def read_row(self, view: str, *key: Any) -> dict[str, Any] | None:
        """A row of a view by its key."""
        codec = self._codec(view, view=True)
        encoded = self._key(codec, key)
        value, _ = self._run(read_row(view, view, encoded))
        return None if value is None else self._shown(codec, encoded, value)

    def plain(self, view: str, *key: Any) -> dict[str, Any] | None:
        """A row of a view as a reader sees it who knows of no heads: whole and committed, perhaps stale."""
        codec = self._codec(view, view=True)
        encoded = self._key(codec, key)
        row = self.store.get(view, encoded)
        value = split.whole(split.unpack(None if row is None else row.value))
        return None if value is None else self._shown(codec, encoded, value)

    # -- values ------------------------------------------------------------------------------------

    def _codec(self, name: str, *, view: bool) -> RowCodec:
        table = self.store.tables().get(name)
        if table is None or table.logged == view:
            kind = "view" if view else "table"
            names = sorted(n for n, t in self.store.tables().items() if t.logged != view and n[:3] != "_ef")
            raise EverfreshError(
                Code.NOT_FOUND, f"the store has no {kind} '{name}'", hint=f"{kind}s are: " + ", ".join(names)
            )
        known = self._codecs.get(name)
        if known is None or known[0] != table:
            known = self._codecs[name] = table, RowCodec(table.schema)
        return known[1]

    def _key(self, codec: RowCodec, key: Sequence[Any]) -> bytes:
        names = [codec.schema.names[i] for i in codec.key]
        if len(names) != len(key):
            return codec.encode_key(key)  # which says what is wrong
        values = zip(names, key, strict=True)
        return codec.encode_key([self._physical(codec, name, value) for name, value in values])

    def _physical(self, codec: RowCodec, name: str, value: Any) -> Any:
        column = codec.schema.column(name)
        if value is None:
            return None  # a group of a view may be that of NULL
        try:
            # Through Arrow: it knows what fits a type.
            typed = pa.scalar(value, codec.schema.arrow.field(name).type).as_py()
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise EverfreshError(
                Code.VALUE,
                f"{value!r} is no {column.type}",
                place=f"column '{name}' of '{codec.schema.name}'",
            ) from error
        return to_physical(typed, column.type)

    def _shown(self, codec: RowCodec, key: bytes, value: bytes) -> dict[str, Any]:
        row = codec.decode(key, value)
        columns = codec.schema.columns
        return {c.name: to_logical(v, c.type) for c, v in zip(columns, row, strict=True)}

    def _run(self, machine: Generator[Any, Any, Any]) -> Any:
        result: Any = None
        while True:
            try:
                call = machine.send(result)
            except StopIteration as done:
                return done.value
            result = perform(self.store, call)


__all__ = ["Client", "Row"]
