"""Clients of a store with views: rows of base tables in, consistent rows of views out.

"Atomic updates of many rows" in docs/design/key-value.md. Reads need nothing but the store: the head of a
view's group says which states are committed. Invariants: `read` gives the view at one epoch; `read_row`
takes at most two gets, and one client's reads of a row never go back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from everfresh.delta.bags import WEIGHT, expand
from everfresh.errors import Code, EverfreshError
from everfresh.kv import split
from everfresh.kv.definitions import VIEWS, Definition, base_tables, definitions
from everfresh.kv.encoding import RowCodec, keys
from everfresh.kv.encoding.columns import columns
from everfresh.kv.encoding.keys import after
from everfresh.kv.protocol.calls import perform
from everfresh.kv.protocol.head import Head, birth
from everfresh.kv.protocol.reading import BeingMade, read_head, read_row, read_view
from everfresh.kv.runtime.core_program import one_view
from everfresh.kv.runtime.shared_flow import NUMBER, recomposed
from everfresh.kv.sharing.template import Shared, shared
from everfresh.kv.store import NOBODY, Store, StoredTable
from everfresh.kv.store import Client as Who
from everfresh.types import BIGINT, Column, TableSchema, to_logical, to_physical

Row = Mapping[str, Any]
_T = TypeVar("_T")
_TRIES = 20
"""How often a read asks for a definition that is another each time."""


@dataclass(frozen=True, slots=True)
class _View:
    """Where a view's rows are."""

    version: int
    group: str
    codec: RowCodec
    born: int
    shares: bool
    drops: int
    number: int | None = None
    prefix: bytes | None = None
    recompose: Shared | None = None


class Client:
    """Reads and writes rows."""

    def __init__(self, store: Store, *, fresh_for: float = 1.0) -> None:
        """A client asks again for the definition of a view after so many seconds. One that is dropped and
        made again under the same name is never read as the old one: epochs tell them apart."""
        self.store, self.fresh_for = store, fresh_for
        self._codecs: dict[str, tuple[StoredTable, RowCodec]] = {}
        self._views: dict[str, tuple[float, _View]] = {}

    def forget(self) -> None:
        """Ask the store again where views are."""
        self._views.clear()

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
        pairs = [(key, row.value) for batch in self.store.scan(table) for key, row in batch]
        return columns(codec, pairs, codec.schema.names)

    # -- views -------------------------------------------------------------------------------------

    def read(self, view: str) -> pa.Table:
        """The rows of a view, all of one epoch."""
        return self._of(view, self._whole)

    def read_row(self, view: str, *key: Any) -> dict[str, Any] | None:
        """A row of a view by its key."""
        return self._of(view, lambda found: self._row(found, key))

    def plain(self, view: str, *key: Any) -> dict[str, Any] | None:
        """A row of a view as a reader sees it who knows of no heads: whole and committed, perhaps stale."""
        found = self._view(view)
        encoded = self._encoded(found, key)
        row = self.store.get(found.group, encoded)
        return self._shown_row(found, encoded, split.whole(split.unpack(None if row is None else row.value)))

    def _of(self, name: str, read: Callable[[_View], tuple[_T, int, Head | None]]) -> _T:
        """What a read gives, of the view that has the name now: what is remembered of it may be of one that
        was dropped."""
        for _ in range(_TRIES):
            remembered = name in self._views
            found = self._view(name)
            try:
                what, epoch, head = read(found)
            except split.MovedOn:
                self._views.pop(name, None)
                continue
            except EverfreshError as error:
                if error.code != Code.NOT_FOUND or not remembered:
                    raise
                self._views.pop(name, None)
                continue
            except BeingMade:
                break
            if birth(epoch) == found.born and (head is None or head.drops == found.drops):
                return what
            self._views.pop(name, None)
        raise EverfreshError(
            Code.NOT_FOUND,
            "the view is being made, of data that were there or anew since writes were lost",
            hint="it can be read after the next refresh",
        )

    def _whole(self, found: _View) -> tuple[pa.Table, int, Head | None]:
        lo, hi = (b"", None) if found.prefix is None else (found.prefix, after(found.prefix))
        rows, epoch = self._run(read_view(found.group, found.group, lo, hi))
        head = self._run(read_head(found.group)) if found.shares else None
        if found.recompose is not None:
            groups = (found.codec.decode(key, value) for key, value in rows)
            every = recomposed(found.recompose, ((row[1:-1], row[-1]) for row in groups))
            schema = TableSchema("view", found.recompose.template.columns)
            return RowCodec(schema).arrow(every), epoch, head
        table = columns(found.codec, rows, found.codec.schema.names)
        if found.prefix is not None:
            return table.remove_column(0), epoch, head
        return (expand(table) if table.column_names[-1:] == [WEIGHT] else table), epoch, head

    def _row(self, found: _View, key: Sequence[Any]) -> tuple[dict[str, Any] | None, int, Head | None]:
        encoded = self._encoded(found, key)
        ask = found.shares or self.store.caps.loses  # where a row may be an earlier one than was read before
        value, epoch, head = self._run(read_row(found.group, found.group, encoded, ask=ask))
        return self._shown_row(found, encoded, value), epoch, head

    def _encoded(self, found: _View, key: Sequence[Any]) -> bytes:
        return self._key(found.codec, key if found.number is None else (found.number, *key))

    def _shown_row(self, found: _View, encoded: bytes, value: bytes | None) -> dict[str, Any] | None:
        if found.recompose is not None:
            groups = [] if value is None else [found.codec.decode(encoded, value)]
            rows = recomposed(found.recompose, ((row[1:-1], row[-1]) for row in groups))
            return self._named(found.recompose.template.columns, rows[0]) if rows else None
        if value is None:
            return None
        shown = self._named(found.codec.schema.columns, found.codec.decode(encoded, value))
        shown.pop(NUMBER, None)
        return shown

    def _view(self, name: str) -> _View:
        until, known = self._views.get(name, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        # The count of dropped views comes before the definition: a drop in between is noticed by it.
        drops = self._run(read_head(known.group)).drops if known is not None and known.shares else 0
        row = self.store.get(VIEWS.name, name.encode()) if VIEWS.name in self.store.tables() else None
        until = time.monotonic() + self.fresh_for
        if row is not None and "@" in Definition.from_bytes(row.value).group:
            until = 0.0  # the next generation may be there at any moment
        if row is not None and known is not None and known.version == row.version and known.drops == drops:
            self._views[name] = until, known
            return known
        if row is None:
            raise self._missing(name, "view", sorted(definitions(self.store)))
        what = Definition.from_bytes(row.value)
        if what.shares:
            drops = self._run(read_head(what.group)).drops
            again = self.store.get(VIEWS.name, name.encode())
            if again is None or again.version != row.version:
                return self._view(name)
        codec = self._codec(what.group, view=True)
        found = _View(row.version, what.group, codec, what.born, what.shares, drops)
        if what.shares and what.layout == "own":
            found = replace(found, number=what.number, prefix=keys.encode([what.number], [BIGINT]))
        elif what.shares:
            view = shared(one_view(what.text, base_tables(self.store)).plan)
            found = replace(found, number=0, recompose=view)
        self._views[name] = until, found
        return found

    # -- values ------------------------------------------------------------------------------------

    def _codec(self, name: str, *, view: bool) -> RowCodec:
        table = self.store.tables().get(name)
        if table is None or table.logged == view:
            names = sorted(n for n, t in self.store.tables().items() if t.logged != view and n[:3] != "_ef")
            raise self._missing(name, "view" if view else "table", names)
        known = self._codecs.get(name)
        if known is None or known[0] != table:
            known = self._codecs[name] = table, RowCodec(table.schema)
        return known[1]

    @staticmethod
    def _missing(name: str, kind: str, names: Sequence[str]) -> EverfreshError:
        hint = f"{kind}s are: " + ", ".join(names)
        return EverfreshError(Code.NOT_FOUND, f"the store has no {kind} '{name}'", hint=hint)

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
        return self._named(codec.schema.columns, codec.decode(key, value))

    @staticmethod
    def _named(columns: Sequence[Column], row: Sequence[Any]) -> dict[str, Any]:
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
