"""Views over a store, maintained in this process: tables and views made by SQL, maintained from the log.

"Strategies" in docs/design/key-value.md: this is IN, every entry of the log in epochs of what has arrived. A
view begins at the start of the log and has seen everything that is in it after `refresh`. What is declared is
kept in the store, so that whoever opens it again goes on. Invariant: after `refresh`, `verify` finds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.delta.bags import net, weigh
from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.protocol.calls import perform
from everfresh.kv.protocol.head import HEADS, Head
from everfresh.kv.protocol.sweeping import sweep
from everfresh.kv.runtime.group import Group
from everfresh.kv.runtime.sql_flow import SqlFlow
from everfresh.kv.store import Store, StoredTable
from everfresh.sql import CreateTable, parse_and_bind
from everfresh.types import VARCHAR, Column, TableSchema

_VIEWS = StoredTable(
    TableSchema("_ef_views", (Column("name", VARCHAR), Column("definition", VARCHAR)), ("name",)),
    logged=False,
)


class Views:
    """The views of a store."""

    def __init__(self, store: Store) -> None:
        self.store, self.client = store, Client(store)
        store.create_table(HEADS)
        store.create_table(_VIEWS)
        self._groups: dict[str, Group] = {}
        self._flows: dict[str, SqlFlow] = {}
        for batch in store.scan(_VIEWS.name):
            for _, row in batch:
                definition = json.loads(row.value)
                flow = SqlFlow(definition["text"], self._bases(), definition["key"])
                self._open(flow)

    @property
    def names(self) -> list[str]:
        """The names of the views."""
        return sorted(self._flows)

    def create_table(self, text: str) -> None:
        """Make base tables by CREATE TABLE statements; each has a primary key."""
        for statement in parse_and_bind(text, Catalog(joins=True)):
            if not isinstance(statement, CreateTable):
                raise EverfreshError(Code.ARGUMENT, "this is not a CREATE TABLE statement")
            if not statement.schema.key:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"table '{statement.schema.name}' has no primary key",
                    hint="rows of a key-value store are found by a key: declare one with PRIMARY KEY",
                )
            self.store.create_table(StoredTable(statement.schema))

    def create_view(self, text: str, *, key: Sequence[str] = ()) -> None:
        """Make a view by a CREATE MATERIALIZED VIEW statement. With a key, columns of which no two rows have
        the same, rows are read by it; without, by all columns."""
        flow = SqlFlow(text, self._bases(), key)
        if flow.name in self.store.tables():
            raise EverfreshError(Code.EXISTS, f"the store has '{flow.name}' already")
        self.store.create_table(StoredTable(flow.schema, logged=False))
        definition = json.dumps({"text": text, "key": list(key)})
        self.store.put(_VIEWS.name, flow.name.encode(), definition.encode())
        self._open(flow)

    def drop_view(self, name: str) -> None:
        """Remove a view and its rows."""
        self._flow(name)
        self.store.delete(_VIEWS.name, name.encode())
        self.store.drop_table(name)
        self.store.delete(HEADS.name, name.encode())
        del self._flows[name], self._groups[name]

    def _bases(self) -> dict[str, TableSchema]:
        tables = self.store.tables().items()
        return {name: table.schema for name, table in tables if table.logged and table.before_images}

    def _open(self, flow: SqlFlow) -> None:
        self._flows[flow.name] = flow
        self._groups[flow.name] = Group(self.store, flow.name, flow)

    def _flow(self, name: str) -> SqlFlow:
        if name not in self._flows:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no view '{name}'", hint="views are: " + ", ".join(self.names)
            )
        return self._flows[name]

    def refresh(self) -> None:
        """Bring all views to what the logs have now."""
        for group in self._groups.values():
            group.run()

    def sweep(self) -> int:
        """Resolve and remove what earlier processes left in the view tables; how many rows."""
        count = 0
        for name in self.names:
            machine, result = sweep(name, name), None
            try:
                while True:
                    result = perform(self.store, machine.send(result))
            except StopIteration as done:
                count += done.value
        return count

    def trim(self) -> None:
        """Forget the entries of the logs that all views have seen."""
        heads = []
        for name in self.names:
            row = self.store.get(HEADS.name, name.encode())
            heads.append(Head() if row is None else Head.from_bytes(row.value))
        for partition in self.store.partitions():
            upto = min((head.cut.of(partition.id).offset for head in heads), default=0)
            self.store.log_trim(partition.id, upto)

    def epoch(self, name: str) -> int:
        """The last epoch of a view that is committed."""
        self._flow(name)
        row = self.store.get(HEADS.name, name.encode())
        return 0 if row is None else Head.from_bytes(row.value).committed

    def verify(self, name: str) -> pa.Table:
        """Where a view differs from its recomputation from the store's rows as they are now, with `_weight`;
        no rows when it is right."""
        flow = self._flow(name)
        found = flow.recomputed({table: self.client.scan(table) for table in flow.tables})
        seen = self.client.read(name)
        seen = seen.rename_columns(found.column_names).cast(found.schema)
        return net(pa.concat_tables([weigh(seen), weigh(found, -1)]))
