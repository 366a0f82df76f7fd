"""Hand-built programs over three tables, random histories of these, and the comparison of every map and
relation with its slow twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from everfresh.algebra import Kind
from everfresh.calculus import Query, Sum, parse, relations
from everfresh.compiler import Catalog, CompiledView, Effect, ViewDef
from everfresh.delta.bags import WEIGHT, difference, expand, net
from everfresh.expr import Expr, Var, Vector
from everfresh.expr import parse as parse_expr
from everfresh.expr.build import MAKERS
from everfresh.local.state import LocalState
from everfresh.program import (
    MapDef,
    Part,
    Partitions,
    Program,
    Side,
    Statement,
    Trigger,
    View,
    component,
    side_component,
)
from everfresh.sql import parse_and_bind
from everfresh.sql.logical import plan as p
from everfresh.testing.state_check import check, contents
from everfresh.types import (
    BIGINT,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    NAN,
    VARCHAR,
    Column,
    TableSchema,
)

N, W, F = Kind.COUNT, Kind.WIDE, Kind.FLOAT
TABLES = {
    "r": TableSchema("r", (Column("a", BIGINT), Column("b", BIGINT)), ()),
    "s": TableSchema("s", (Column("b", BIGINT), Column("c", BIGINT, False), Column("d", DOUBLE, False)), ()),
    "t": TableSchema("t", (Column("c", BIGINT), Column("e", VARCHAR), Column("p", DECIMAL(9, 2), False)), ()),
    "k": TableSchema("k", (Column("i", BIGINT, False), Column("e", VARCHAR), Column("x", BIGINT)), ("i",)),
}
VALUES: dict[str, dict[str, list[Any]]] = {
    "r": {"a": [None, 1, 2], "b": [None, 1, 2, 3]},
    "s": {"b": [None, 1, 2, 3], "c": [0, 1, 2, 5], "d": [0.5, 0.1, -0.1, 1e17, -1e17]},
    "t": {"c": [None, 1, 2], "e": [None, "", "ä", "z", "Z"], "p": [1, 250, 99999]},
    "k": {"i": [1, 2, 3, 4, 5, 6], "e": [None, "x", "y"], "x": [None, 1, 2]},
}
COMPONENTS = {
    **{component(i): Var(component(i), BIGINT if i == 0 else HUGEINT, False) for i in range(4)},
    **{
        side_component(j, i): Var(side_component(j, i), BIGINT if i == 0 else HUGEINT, False)
        for j in (1, 2, 3)
        for i in range(3)
    },
}


class Made:
    """A program being written down: maps, relations and triggers as text."""

    def __init__(self, name: str, views: Mapping[str, tuple[Column, ...]] | None = None) -> None:
        self.name = name
        self.columns: dict[str, tuple[Column, ...]] = {n: t.columns for n, t in TABLES.items()}
        self.columns.update(views or {})
        self.maps: list[MapDef[Query]] = []
        self.relations: list[Any] = []
        self.triggers: dict[str, list[Statement[Query]]] = {}

    def query(self, text: str) -> Query:
        return parse(text, self.columns, {m.name: m.keys for m in self.maps})

    def map(self, name: str, kinds: tuple[Kind, ...], definition: str) -> Made:
        query = self.query(definition)
        first = query
        while not isinstance(first, Sum):
            first = first.children[0]  # type: ignore[assignment]
        self.maps.append(MapDef(f"{self.name}{name}", first.group, kinds, query))
        return self

    def expr(self, text: str, map_: MapDef[Any], extra: Mapping[str, Var]) -> Expr:
        return parse_expr(text, {v.name: v for v in map_.keys} | COMPONENTS | dict(extra), MAKERS)

    def view(self, name: str, map_: str, outputs: Mapping[str, str], extra: Mapping[str, Var] | None = None,
             **rest: Any) -> View:  # fmt: skip
        target = next(m for m in self.maps if m.name == f"{self.name}{map_}")
        made = {n: self.expr(text, target, extra or {}) for n, text in outputs.items()}
        for what in ("having", "weight"):
            if what in rest:
                rest[what] = self.expr(rest[what], target, extra or {})
        sides = tuple(Side(f"{self.name}{m}", how) for m, how in rest.pop("sides", ()))
        columns = tuple(Column(n, e.type, e.nullable) for n, e in made.items())
        return View(name, target.name, columns, tuple(made.values()), sides=sides, **rest)

    def relation(self, name: str, map_: str, outputs: Mapping[str, str], **rest: Any) -> Made:
        made = self.view(name, map_, outputs, **rest)
        self.relations.append(made)
        self.columns[name] = made.columns
        return self

    def partitions(self, name: str, map_: str, prefix: int, sql: str) -> Made:
        target = next(m for m in self.maps if m.name == f"{self.name}{map_}")
        columns = tuple(Column(v.name, v.type, v.nullable) for v in target.keys)
        catalog = Catalog(tables={"w": TableSchema("w", columns, ())})
        (statement,) = parse_and_bind(f"CREATE MATERIALIZED VIEW v AS {sql}", catalog)
        plan = statement.plan
        self.relations.append(Partitions(name, target.name, plan.columns, plan, prefix))
        self.columns[name] = plan.columns
        return self

    def on(self, base: str, **statements: str) -> Made:
        made = [Statement(f"{self.name}{m}", "+=", self.query(text)) for m, text in statements.items()]
        self.triggers.setdefault(base, []).extend(made)
        return self

    def done(self, view: View) -> ViewDef:
        triggers = tuple(Trigger(base, tuple(of)) for base, of in self.triggers.items())
        program: Program[Any] = Program(tuple(self.maps), triggers, tuple(self.relations))
        return ViewDef(self.name, "", CompiledView(self._plan(), program, view, "auto"))

    def _plan(self) -> p.Plan:
        """A plan that reads the same tables and views: all that is asked of it."""
        derived = {r.name for r in self.relations}
        bases = dict.fromkeys(n for m in self.maps for n in relations(m.definition) if n not in derived)
        plan: p.Plan = p.Single()
        for base in bases:
            plan = p.Join("inner", plan, p.Scan(base, base, ()))
        return plan

    def plain(self, map_: str, **rest: Any) -> ViewDef:
        """A view that shows the keys and components of a map as they are."""
        target = next(m for m in self.maps if m.name == f"{self.name}{map_}")
        outputs = {v.name: f'"{v.name}"' for v in target.keys} | {"n": "#0"}
        extra: dict[str, Var] = {}
        for i, kind in enumerate(target.kinds, 1):
            outputs[f"v{i}"] = f"#{i}"
            extra[component(i)] = Var(component(i), (BIGINT, HUGEINT, DOUBLE)[kind], False)
        return self.done(self.view(self.name, map_, outputs, extra, **rest))


def state_of(*views: ViewDef, tables: Mapping[str, TableSchema] = TABLES) -> LocalState:
    """Tables, and views over nothing."""
    state = LocalState()
    for schema in tables.values():
        add_table(state, schema)
    for view in views:
        add_view(state, view)
    return state


def add_table(state: LocalState, schema: TableSchema) -> None:
    catalog = replace(state.catalog, tables={**state.catalog.tables, schema.name: schema})
    state.execute(catalog, Effect("", create_table=schema), 1)


def add_view(state: LocalState, view: ViewDef, progress: Any = None) -> None:
    catalog = replace(state.catalog, views={**state.catalog.views, view.name: view})
    with state.altering():
        state.execute(catalog, Effect("", create_view=view), 1, progress)


def arrow(schema: TableSchema, rows: list[Any]) -> pa.Table:
    return pa.table(
        {
            c.name: Vector.from_pylist([row[i] for row in rows], c.type).to_arrow()
            for i, c in enumerate(schema.columns)
        }
    )


def nets(state: LocalState, batch: Mapping[str, tuple[list[Any], list[Any]]]) -> dict[str, Any]:
    found = {}
    for name, (come, go) in batch.items():
        schema = state.tables[name].schema
        parts = [Part(name, "insert", arrow(schema, come), ""), Part(name, "delete", arrow(schema, go), "")]
        found[name] = state.tables[name].resolve(parts)
    return {name: change for name, change in found.items() if len(change)}


def apply(state: LocalState, batch: Mapping[str, tuple[list[Any], list[Any]]]) -> dict[str, pa.Table]:
    with state.changing(nets(state, batch)) as changes:
        pass
    return {name: change.table for name, change in changes.items()}


Batch = dict[str, tuple[list[Any], list[Any]]]


def history(seed: int, batches: int, most: int = 5) -> Iterator[Batch]:
    """Random batches over several tables: duplicates, NULLs, deletes, all gone near the end, re-inserts."""
    random = Random(seed)
    live: dict[str, list[Any]] = {name: [] for name in TABLES}
    gone: dict[str, list[Any]] = {name: [] for name in TABLES}
    for number in range(batches):
        batch: Batch = {}
        for table in random.sample(list(TABLES), random.randrange(1, len(TABLES) + 1)):
            go = [row for row in live[table] if random.random() < (1 if number == batches - 2 else 0.3)]
            come = []
            for _ in range(random.randrange(most + 1)):
                again = gone[table] and random.random() < 0.3
                row = (
                    random.choice(gone[table]) if again else tuple(map(random.choice, VALUES[table].values()))
                )
                come.append(row)
            if TABLES[table].key:
                there = {row[0] for row in live[table]} - {row[0] for row in go}
                come = list({row[0]: row for row in come if row[0] not in there}.values())
            for row in go:
                live[table].remove(row)
            live[table] += come
            gone[table] += go
            batch[table] = (come, go)
        yield batch


def split(batches: Iterator[Batch], size: int | None) -> Iterator[Batch]:
    """The same changes in batches of `size` rows of one table each; None: everything at once."""
    if size is None:
        total: Batch = {}
        for batch in batches:
            for table, (come, go) in batch.items():
                both = total.setdefault(table, ([], []))
                both[0].extend(come)
                both[1].extend(go)
        yield total
        return
    for batch in batches:
        for table, (come, go) in batch.items():
            changes = [(row, False) for row in go] + [(row, True) for row in come]
            for i in range(0, len(changes), size):
                part = changes[i : i + size]
                yield {table: ([r for r, new in part if new], [r for r, new in part if not new])}


def view_rows(state: LocalState) -> dict[str, pa.Table]:
    return {name: store.rows() for name, store in state.maps.items()}


def check_changes(before: Mapping[str, pa.Table], changes: Mapping[str, pa.Table], state: LocalState) -> None:
    """Rows before plus the published change are the rows now."""
    for name, after in view_rows(state).items():
        both = [before[name], *([changes[name]] if name in changes else [])]
        total = net(pa.concat_tables(both))
        assert difference(expand(after), expand(total), 0).num_rows == 0, name
        assert name not in changes or changes[name].column(WEIGHT).null_count == 0


__all__ = [
    "NAN",
    "F",
    "Made",
    "N",
    "W",
    "add_table",
    "add_view",
    "apply",
    "check",
    "check_changes",
    "contents",
]
