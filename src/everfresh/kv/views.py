"""Views over a store, maintained in this process: tables and views made by SQL, maintained from the log.

"Strategies" and "Many views" in docs/design/key-value.md. What is declared is kept in the store, so that
whoever opens it again goes on. Invariant: after `refresh`, `verify` finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.delta.bags import net, weigh
from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.definitions import VIEWS, Definition, base_tables, every, gone_key, new_birth
from everfresh.kv.encoding import keys
from everfresh.kv.protocol.calls import perform
from everfresh.kv.protocol.coordinator import How
from everfresh.kv.protocol.head import HEADS, Head, birth, shown
from everfresh.kv.protocol.sweeping import sweep
from everfresh.kv.runtime.families import Families
from everfresh.kv.runtime.generations import begin, drop, first_head, fresh_group, generations, rebuild
from everfresh.kv.runtime.group import MANAGERS, Group, Kept
from everfresh.kv.runtime.on_engine import MakeEngine
from everfresh.kv.runtime.shared_flow import Layout, SharedFlow
from everfresh.kv.runtime.sql_flow import SqlFlow
from everfresh.kv.sharing.cells import MODES, Mode
from everfresh.kv.store import ABSENT, Conflict, Store, StoredTable
from everfresh.kv.strategies import BATCH, STRATEGIES, strategy
from everfresh.sql import CreateTable, parse_and_bind
from everfresh.types import BIGINT

Flow = SqlFlow | SharedFlow


class Views:
    """The views of a store."""

    def __init__(
        self,
        store: Store,
        *,
        only: Callable[[str], bool] = lambda group: True,
        rebuild_every: float = 0.0,
        workers: int = 1,
        spread: Callable[[str, Flow, How], Kept] | None = None,
        engine: MakeEngine | None = None,
    ) -> None:
        """The views that the store has; maintained are those of the groups that `only` names. What is made
        anew each time is so at most every so many seconds. Families are divided between so many `workers`, or
        kept by what `spread` makes, with managers elsewhere. Programs run on an `engine`, such as
        `everfresh.kv.spark.engines()`, and in this process without one."""
        if workers < 1:
            raise EverfreshError(Code.ARGUMENT, f"views cannot have {workers} workers", hint="1 is the least")
        self.store, self.client = store, Client(store)
        self._workers, self._spread, self._engine = workers, spread, engine
        self._only, self._rebuild_every = only, rebuild_every
        self._rebuilt: dict[str, float] = {}
        store.create_table(HEADS)
        store.create_table(VIEWS)
        known = [d for _, d in every(store)]
        self._definitions = {d.name: d for d in known if not d.dropped}
        self._gone = [d for d in known if d.dropped and d.layout == "own"]
        """Views that were dropped, perhaps by somebody who did not maintain them: their rows may be there."""
        self._families = Families(store, known, engine)
        self._groups: dict[str, Kept] = {}
        for name in dict.fromkeys(d.group for d in self._definitions.values()):
            if self._keeps(name):
                self._open(name)

    def _keeps(self, group: str) -> bool:
        """Whether a group, or a part of it, is maintained here."""
        return self._only(group) or self._spreads(group)

    def _spreads(self, group: str) -> bool:
        if self._spread is None:
            return False
        of = [d for d in self._definitions.values() if d.group == group]
        return of[0].shares and bool(self._families.flow(of[:1]).divided)

    @property
    def names(self) -> list[str]:
        """The names of the views."""
        return sorted(self._definitions)

    @property
    def groups(self) -> list[str]:
        """The names of the view groups: views that commit together."""
        return sorted(self._groups)

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

    # -- views -------------------------------------------------------------------------------------

    def create_view(
        self,
        text: str,
        *,
        key: Sequence[str] = (),
        strategy: str = "SCI",
        batch: int = 0,
        parallel: bool = False,
    ) -> None:
        """Make a view by a CREATE MATERIALIZED VIEW statement. With a key, columns of which no two rows have
        the same, rows are read by it; without, by all columns. `WITH (layout = 'shared')` keeps it with other
        views of its template, as `create_views` does. A `parallel` one follows the log while it reads
        the base, and has less to catch up with when it is read."""
        flow = SqlFlow(text, base_tables(self.store), key, compiled=False)
        if flow.options.get("layout") is not None:
            self.create_views([text], strategy=strategy, batch=batch)
            return
        how, batch = self._strategy(strategy, batch)
        self._is_new(flow.name)
        flow.compile()
        made = Definition(flow.name, text, tuple(key), flow.name, how, batch, born=new_birth())
        if parallel and not STRATEGIES[how].transits:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{how} has no parallel transition",
                hint="take one of " + ", ".join(s.name for s in STRATEGIES.values() if s.transits),
            )
        made = replace(made, parallel=parallel)
        if self._rebuilds(made):
            made = replace(made, group=fresh_group(flow.name))
            begin(self.store, made, flow)
        else:
            self.store.create_table(StoredTable(flow.schema, logged=False))
        self._declare([made])

    def create_views(
        self, texts: Sequence[str], *, strategy: str = "SCI", batch: int = 0, mode: Mode = "auto"
    ) -> None:
        """Make many views at once: those that differ only in constants share one program and commit together,
        and those that are the same are one. Each groups joined rows and shows what it groups by."""
        if mode not in MODES:
            raise EverfreshError(
                Code.ARGUMENT, f"there is no mode '{mode}'", hint="modes are: " + ", ".join(MODES)
            )
        how, batch = self._strategy(strategy, batch)
        if STRATEGIES[how].rebuilds:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"views that share a program are kept, and not made anew as {how} does",
                hint="take SCI or SNI, or create_view for each",
            )
        made = self._families.placed(texts, how, batch, mode, self._is_new)
        self._declare(made)

    def _rebuilds(self, definition: Definition) -> bool:
        return strategy(definition.strategy, self.store).rebuilds

    def _strategy(self, name: str, batch: int) -> tuple[str, int]:
        found = strategy(name, self.store)
        if batch < 0:
            raise EverfreshError(Code.ARGUMENT, f"an epoch cannot take {batch} entries", hint="0 takes all")
        return found.name, (batch or BATCH) if found.batches else batch

    def _is_new(self, name: str) -> None:
        if name in self._definitions or name in self.store.tables():
            raise EverfreshError(Code.EXISTS, f"the store has '{name}' already")

    def _declare(self, made: Sequence[Definition]) -> None:
        """Write definitions, and begin or go on with their groups."""
        for definition in made:
            self.store.put(VIEWS.name, definition.name.encode(), definition.to_bytes())
            self._definitions[definition.name] = definition
        for group in dict.fromkeys(d.group for d in made):
            first = next(d for d in made if d.group == group)
            self._first_head(first)
            if self._only(group):
                self._open(group)

    def _first_head(self, definition: Definition) -> None:
        """A new group of a strategy that loads begins at the logs' ends; a head of a group that had its name
        before is none."""
        key = definition.group.encode()
        row = self.store.get(HEADS.name, key)
        if row is not None and birth(Head.from_bytes(row.value).committed) == definition.born:
            return
        loads = strategy(definition.strategy, self.store).loads
        head = first_head(self.store, definition.born, loads=loads).to_bytes()
        with suppress(Conflict):  # somebody else has just done so
            self.store.put(HEADS.name, key, head, expect=ABSENT if row is None else row.version)

    def _open(self, name: str) -> None:
        of = [d for d in self._definitions.values() if d.group == name]
        if self._rebuilds(of[0]):
            return
        self._first_head(of[0])
        flow = self._flow_of(of)
        if name in self._groups:
            self._groups[name].change(flow)
            return
        plan = strategy(of[0].strategy, self.store)
        how = How(of[0].batch, plan.chunks, plan.tracks, of[0].parallel, of[0].born)
        if isinstance(flow, SharedFlow) and flow.divided and self._spread is not None:
            self._groups[name] = self._spread(name, flow, how)
            return
        count = self._workers if isinstance(flow, SharedFlow) and flow.divided else 1
        managers = MANAGERS if count == 1 else [f"manager {i}" for i in range(count)]
        self._groups[name] = Group(self.store, name, flow, how, managers)

    def _flow_of(self, of: Sequence[Definition]) -> Flow:
        if of[0].shares:
            return self._families.flow(of)
        return SqlFlow(of[0].text, base_tables(self.store), of[0].key, engine=self._engine)

    def drop_view(self, name: str) -> None:
        """Remove a view and its rows."""
        definition = self._definition(name)
        if definition.shares:
            gone = replace(definition, dropped=True)
            self.store.put(VIEWS.name, gone_key(gone), gone.to_bytes())
        self.store.delete(VIEWS.name, name.encode())
        del self._definitions[name]
        group = definition.group
        if self._rebuilds(definition):
            for old in generations(self.store, name):
                drop(self.store, old)
            return
        left = [d for d in self._definitions.values() if d.group == group]
        if not left:
            self._groups.pop(group, None)
            self.store.drop_table(group)
            self.store.delete(HEADS.name, group.encode())
            for key, of in every(self.store):
                if of.group == group:
                    self.store.delete(VIEWS.name, key)
            self._families.forget(group)
            return
        self._count_drop(group)
        if all(d.number != definition.number for d in left):
            self._families.drop(definition)
            if not self._only(group):
                return
            self._open(group)
            self._groups[group].run()  # a new term: what an earlier one still sends is refused
            if definition.layout == "own":
                self._remove(definition)

    def _count_drop(self, group: str) -> None:
        """Let those who remember where the group's views are ask again."""
        while True:
            row = self.store.get(HEADS.name, group.encode())
            if row is None:
                return
            head = Head.from_bytes(row.value)
            try:
                new = replace(head, drops=head.drops + 1).to_bytes()
                self.store.put(HEADS.name, group.encode(), new, expect=row.version)
            except Conflict:  # its coordinator was faster
                continue
            return

    def _remove(self, definition: Definition) -> None:
        """Remove the rows of a view that nobody writes any more."""
        prefix = keys.encode([definition.number], [BIGINT])
        for batch in self.store.scan(definition.group, prefix, keys.after(prefix)):
            for key, _ in batch:
                self.store.delete(definition.group, key)

    def _definition(self, name: str) -> Definition:
        if name not in self._definitions:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no view '{name}'", hint="views are: " + ", ".join(self.names)
            )
        return self._definitions[name]

    # -- maintenance -------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring all views to what the logs have now."""
        for group in self._groups.values():
            group.run()
        for definition in list(self._gone):
            kept = self._groups.get(definition.group)
            if kept is not None and not kept.settled:
                continue  # one that has not heard of it may still write its rows
            if kept is not None:
                self._remove(definition)
            self._gone.remove(definition)
        for definition in [d for d in self._definitions.values() if self._rebuilds(d)]:
            last = self._rebuilt.get(definition.name)
            late = last is None or time.monotonic() - last >= self._rebuild_every
            if self._only(definition.name) and late:
                chunks = strategy(definition.strategy, self.store).chunks
                self._definitions[definition.name] = rebuild(self.store, definition, chunks=chunks)
                self._rebuilt[definition.name] = time.monotonic()

    def metrics(self) -> dict[str, dict[str, int]]:
        """Of each group that is maintained here: how many entries it has taken, and how many the last slice
        had."""
        return {name: {"taken": of.taken, "held": of.held} for name, of in list(self._groups.items())}

    def sweep(self) -> int:
        """Resolve and remove what earlier processes left in the view tables; how many rows."""
        count = 0
        for name in self.groups:
            machine, result = sweep(name, name), None
            try:
                while True:
                    result = perform(self.store, machine.send(result))
            except StopIteration as done:
                count += done.value
        return count

    def trim(self) -> None:
        """Forget the entries of the logs that all views have seen."""
        heads = [self._head(name) for name in self.groups]
        built = (self._head(d.group) for d in self._definitions.values() if self._rebuilds(d))
        heads += [head for head in built if head.loading]
        for partition in self.store.partitions():
            end = self.store.log_end(partition.id).offset
            upto = min((head.cut.of(partition.id).offset for head in heads), default=end)
            self.store.log_trim(partition.id, upto)

    def _head(self, group: str) -> Head:
        row = self.store.get(HEADS.name, group.encode())
        return Head() if row is None else Head.from_bytes(row.value)

    def epoch(self, name: str) -> int:
        """The last epoch of a view that is committed."""
        return shown(self._head(self._definition(name).group).committed)

    def verify(self, name: str) -> pa.Table:
        """Where a view differs from its recomputation from the store's rows as they are now, with `_weight`;
        no rows when it is right."""
        definition = self._definition(name)
        flow = SqlFlow(definition.text, base_tables(self.store), definition.key, compiled=False)
        found = flow.recomputed({table: self.client.scan(table) for table in flow.reads})
        seen = self.client.read(name)
        seen = seen.rename_columns(found.column_names).cast(found.schema)
        return net(pa.concat_tables([weigh(seen), weigh(found, -1)]))


__all__ = ["Flow", "Layout", "Views"]
