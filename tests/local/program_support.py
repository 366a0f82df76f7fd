"""Hand-built programs over three tables, random histories of these, and the comparison of every map and
relation with its slow twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from everfresh.algebra import Gmr, Kind
from everfresh.calculus import Query, Sum, parse
from everfresh.compiler import Catalog, CompiledView, Effect, ViewDef
from everfresh.delta.bags import WEIGHT, difference, expand, net
from everfresh.expr import Expr, Var, Vector
from everfresh.expr import parse as parse_expr
from everfresh.expr.build import MAKERS
from everfresh.local.codec import Codec
from everfresh.local.pool import Values, wide_to_python
from everfresh.local.recompute import relation
from everfresh.local.state import LocalState
from everfresh.local.twins import program_state, relation_rows
from everfresh.program import MapDef, Part, Partitions, Program, Side, Statement, Trigger, View
from everfresh.sql import parse_and_bind
from everfresh.types import (
    BIGINT,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    NAN,
    VARCHAR,
    Column,
    TableSchema,
    canonical_float,
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
    **{f"#{i}": Var(f"#{i}", BIGINT if i == 0 else HUGEINT, False) for i in range(4)},
    **{
        f"#{j}.{i}": Var(f"#{j}.{i}", BIGINT if i == 0 else HUGEINT, False)
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
        return ViewDef(self.name, "", CompiledView(None, program, view, "auto"))  # type: ignore[arg-type]

    def plain(self, map_: str, **rest: Any) -> ViewDef:
        """A view that shows the keys and components of a map as they are."""
        target = next(m for m in self.maps if m.name == f"{self.name}{map_}")
        outputs = {v.name: f'"{v.name}"' for v in target.keys} | {"n": '"#0"'}
        extra: dict[str, Var] = {}
        for i, kind in enumerate(target.kinds, 1):
            outputs[f"v{i}"] = f'"#{i}"'
            extra[f"#{i}"] = Var(f"#{i}", (BIGINT, HUGEINT, DOUBLE)[kind], False)
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
    return changes


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


# -- comparison ----------------------------------------------------------------------------------------------


def numbers(layout: Any, values: Values) -> list[list[Any]]:
    parts: list[list[Any]] = [values.n.tolist()]
    for kind, at in zip(layout.kinds, layout.offsets, strict=True):
        if kind == Kind.FLOAT:
            terms = values.floats[at : at + 3].T.tolist()
            parts.append([float(sum(map(Fraction, term))) for term in terms])
        elif kind == Kind.WIDE:
            parts.append(wide_to_python(values.ints[at], values.ints[at + 1]))
        else:
            parts.append(values.ints[at].tolist())
    return parts


def rows_of(codec: Codec, words: Any) -> list[Any]:
    vectors = list(codec.vectors(words).values())
    lists = [
        [canonical_float(x) if isinstance(x, float) else x for x in vector.to_pylist()] for vector in vectors
    ]
    return list(zip(*lists, strict=True)) if lists else [()] * words.shape[1]


def contents(store: Any) -> dict[Any, tuple[Any, ...]]:
    """Entries of a map with exact values."""
    slots = store.pool.live()
    parts = numbers(store.layout, store.pool.gather(slots))
    keys = rows_of(store.codec, store.pool.keys_at(slots))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, zip(*parts, strict=True), strict=True))


def gmr(rows: Any) -> Gmr:
    keys = rows_of(rows.codec, rows.words)
    return Gmr((key, (weight,)) for key, weight in zip(keys, rows.weights.tolist(), strict=True))


def check(state: LocalState, note: str = "") -> None:
    """Every map, every derived relation and every view equals its slow twin; chains equal their pools."""
    known = {n: relation(t.schema, *t.rows()) for n, t in state.tables.items()}
    for name, view in state.catalog.views.items():
        program = view.compiled.program
        maps, derived = program_state(program, known)
        for m in program.maps:
            actual = contents(state._store(m.name))
            expected = dict(maps[m.name].items())
            assert actual.keys() == expected.keys(), (note, m.name, actual, expected)
            for key, weight in expected.items():
                for kind, x, y in zip((Kind.COUNT, *m.kinds), weight, actual[key], strict=True):
                    assert x == y if kind != Kind.FLOAT else abs(float(x) - y) < 1e-9, (note, m.name, key)
        for item in program.relations:
            if getattr(item, "always", False) and state._store(item.map).columns:
                continue  # it has a row for every key there could be
            reader, _ = state.wiring.reader(name, item.name)
            assert gmr(reader.all()) == derived[item.name], (note, item.name)
        known[name] = relation_rows(view.compiled.view, maps, {m.name: m for m in program.maps})
        assert_like(gmr(state.maps[name].reader.all()), known[name], (note, name))
    for store in [*state.stores().values(), *state.wiring.tables.values()]:
        check_slices(store)


def assert_like(actual: Gmr, expected: Gmr, note: Any) -> None:
    """Equal, doubles nearly."""

    def rounded(value: Gmr) -> Any:
        return sorted(
            (repr([round(x, 6) + 0.0 if isinstance(x, float) and x == x else x for x in key]), weight)
            for key, weight in value.items()
        )

    assert rounded(actual) == rounded(expected), note


def check_slices(store: Any) -> None:
    live = store.slots()
    for slice_ in store._slices.values():
        words = store.codec.project(store.words(live), slice_.codec)
        at, slots = slice_.probe(words)
        keys = [column.tobytes() for column in words.T.copy()]
        by_key: dict[bytes, set[int]] = {}
        for key, slot in zip(keys, live.tolist(), strict=True):
            by_key.setdefault(key, set()).add(slot)
        found: dict[int, list[int]] = {}
        for i, slot in zip(at.tolist(), slots.tolist(), strict=True):
            found.setdefault(i, []).append(slot)
        for i, key in enumerate(keys):
            assert sorted(found[i]) == sorted(by_key[key]), slice_.names


def view_rows(state: LocalState) -> dict[str, pa.Table]:
    return {name: store.rows() for name, store in state.maps.items()}


def check_changes(before: Mapping[str, pa.Table], changes: Mapping[str, pa.Table], state: LocalState) -> None:
    """Rows before plus the published change are the rows now."""
    for name, after in view_rows(state).items():
        both = [before[name], *([changes[name]] if name in changes else [])]
        total = net(pa.concat_tables(both))
        assert difference(expand(after), expand(total), 0).num_rows == 0, name
        assert name not in changes or changes[name].column(WEIGHT).null_count == 0


__all__ = ["NAN", "F", "Made", "N", "W", "add_table", "add_view", "apply", "check", "check_changes"]
