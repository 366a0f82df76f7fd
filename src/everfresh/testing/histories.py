"""Random schemas, rows and histories, each a pure function of its seed.

A history is generated whole before anything runs: nothing in it depends on the system under test, nor on the
order of a dictionary that holds its state. Values come from small domains with one hot value and many NULLs,
so that groups empty and refill and counts go 0, 1, 2, 1, 0. Doubles are multiples of 1/8, so that sums are
exact in any order and a comparison is an exact one.

Implements "Random queries" of docs/design/sql.md.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any, TypeVar

from everfresh.testing.oracle import Row, canonical
from everfresh.testing.queries import random_view
from everfresh.types import Column, SqlType, TableSchema, parse_type, quoted

_T = TypeVar("_T")

NULLS = 0.18
DELETES = 0.45

_DOMAINS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "SMALLINT": [0, 1, -1, 2, 7, -90, 100],
    "INTEGER": [0, 1, -1, 3, 12, 500, -900],
    "BIGINT": [0, 1, -1, 5, 10, 2**40, -(2**40)],
    "HUGEINT": [0, 1, -3, 8, 2**70, -(2**70)],
    "REAL": [0.0, 0.5, -1.25, 3.0, 0.125, 100.75],
    "DOUBLE": [0.0, 0.5, -1.25, 3.0, 0.125, 2048.875, -2048.875],
    "DECIMAL(9,2)": [Decimal("0.00"), Decimal("1.25"), Decimal("-1.25"), Decimal("0.01"), Decimal("99.99")],
    "DECIMAL(30,4)": [
        Decimal("0.0000"),
        Decimal("0.0001"),
        Decimal("-7.5000"),
        Decimal("123456789012345678.9012"),
    ],
    "VARCHAR": ["", "a", "A", "ab", "ä b", "50%", "_", "O'Hara"],
    "DATE": [
        dt.date(1969, 12, 31),
        dt.date(2000, 2, 29),
        dt.date(2024, 1, 31),
        dt.date(2024, 2, 1),
        dt.date(2024, 2, 29),
    ],
    "TIMESTAMP": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 30, 1, 250000),
        dt.datetime(2024, 3, 1),
    ],
}
_WILD = [float("nan"), float("inf"), float("-inf")]
_KEY_TYPES = ["BIGINT", "INTEGER", "VARCHAR", "DATE"]


@dataclass(frozen=True, slots=True)
class Change:
    """One row that comes (weight 1) or goes (weight -1)."""

    table: str
    weight: int
    row: Row


@dataclass(frozen=True)
class History:
    """Tables, views over them, and changes grouped into the batches they were made as."""

    seed: int
    schemas: tuple[TableSchema, ...]
    views: tuple[tuple[str, str], ...]
    """Names and queries."""
    batches: tuple[tuple[Change, ...], ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """All single changes, in order: every prefix of them is a valid state."""
        return tuple(change for batch in self.batches for change in batch)

    def cut(self, size: int | None) -> Iterator[tuple[Change, ...]]:
        """The same changes in batches of `size`: 0 for all at once, None for as they were made."""
        if size is None:
            yield from self.batches
            return
        changes = self.changes
        size = size or max(1, len(changes))
        for start in range(0, len(changes), size):
            yield changes[start : start + size]

    def text(self) -> str:
        """The history as SQL and changes, for people."""
        lines = [f"-- seed {self.seed}", *(schema.ddl + ";" for schema in self.schemas)]
        lines += [f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query};" for name, query in self.views]
        for number, batch in enumerate(self.batches):
            lines.append(f"-- batch {number}")
            lines += [f"{'insert' if c.weight > 0 else 'delete'} {c.table} {c.row}" for c in batch]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The history as a file that `from_json` reads, whatever becomes of the generator."""
        return json.dumps(
            {
                "seed": self.seed,
                "tables": [
                    {
                        "name": s.name,
                        "key": s.key,
                        "columns": [(c.name, str(c.type), c.nullable) for c in s.columns],
                    }
                    for s in self.schemas
                ],
                "views": self.views,
                "batches": [
                    [(c.table, c.weight, [_to_text(v) for v in c.row]) for c in batch]
                    for batch in self.batches
                ],
            },
            indent=1,
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(text: str) -> History:
        """The inverse of `to_json`."""
        data = json.loads(text)
        schemas = tuple(
            TableSchema(
                t["name"],
                tuple(Column(n, parse_type(type_), null) for n, type_, null in t["columns"]),
                tuple(t["key"]),
            )
            for t in data["tables"]
        )
        by_name = {schema.name: schema for schema in schemas}

        def change(table: str, weight: int, values: list[Any]) -> Change:
            columns = by_name[table].columns
            return Change(
                table, weight, canonical(_from_text(v, c.type) for v, c in zip(values, columns, strict=True))
            )

        batches = tuple(tuple(change(*item) for item in batch) for batch in data["batches"])
        return History(data["seed"], schemas, tuple((n, q) for n, q in data["views"]), batches)


def _to_text(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | str) else str(value)


def _from_text(text: Any, type_: SqlType) -> Any:
    if text is None or type_.name in ("BOOLEAN", "VARCHAR"):
        return text
    readers: dict[str, Callable[[str], Any]] = {
        "DECIMAL": Decimal,
        "DOUBLE": float,
        "REAL": float,
        "DATE": dt.date.fromisoformat,
        "TIMESTAMP": dt.datetime.fromisoformat,
    }
    return readers.get(type_.name, int)(text)


# -- schemas and rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A table and where its rows come from."""

    schema: TableSchema
    domains: tuple[tuple[Any, ...], ...]

    def row(self, rng: Random, key: Row | None = None) -> Row:
        """A random row, with the given key if there is one."""
        values = []
        for column, domain in zip(self.schema.columns, self.domains, strict=True):
            if key is not None and column.name in self.schema.key:
                values.append(key[self.schema.key.index(column.name)])
            elif column.nullable and rng.random() < NULLS:
                values.append(None)
            else:
                values.append(domain[0] if rng.random() < 0.4 else rng.choice(domain))
        return canonical(values)

    def key_of(self, row: Row) -> Row:
        """The key columns of a row."""
        return tuple(row[self.schema.names.index(name)] for name in self.schema.key)

    def all_keys(self) -> list[Row]:
        """All keys there can be, in a fixed order."""
        keys: list[Row] = [()]
        for column, domain in zip(self.schema.columns, self.domains, strict=True):
            if column.name in self.schema.key:
                keys = [(*key, value) for key in keys for value in domain]
        return keys


def _source(rng: Random, name: str) -> Source:
    key: tuple[str, ...] = ()
    columns: list[Column] = []
    if rng.random() < 0.5:
        parts = 1 if rng.random() < 0.7 else 2
        columns = [Column(f"k{i}", parse_type(rng.choice(_KEY_TYPES)), nullable=False) for i in range(parts)]
        key = tuple(c.name for c in columns)
    kinds = [
        rng.choice(["VARCHAR", "DOUBLE"] if rng.random() < 0.35 else list(_DOMAINS))
        for _ in range(rng.randint(2, 5))
    ]
    columns += [
        Column(f"c{i}", parse_type(kind), nullable=rng.random() < 0.85) for i, kind in enumerate(kinds)
    ]
    return Source(
        TableSchema(name, tuple(columns), key), tuple(_domain(rng, c, c.name in key) for c in columns)
    )


def _domain(rng: Random, column: Column, key: bool) -> tuple[Any, ...]:
    kind = str(column.type)
    if key and kind != "VARCHAR":
        start = dt.date(2024, 2, 26) if kind == "DATE" else -1
        return tuple(start + dt.timedelta(i) if isinstance(start, dt.date) else start + i for i in range(7))
    if key:
        return tuple("abcdefg")
    domain = rng.sample(_DOMAINS[kind], min(len(_DOMAINS[kind]), rng.randint(3, 6)))
    if kind in ("DOUBLE", "REAL") and rng.random() < 0.5:
        domain += rng.sample(_WILD, rng.randint(1, 2))
    return tuple(domain)


# -- histories -----------------------------------------------------------------------------------------------


class State:
    """What the tables hold while a history is made; lists, so that a choice never depends on a hash."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self.sources = {s.schema.name: s for s in sources}
        self.rows: dict[str, list[Row]] = {name: [] for name in self.sources}

    def insert(self, table: str, row: Row) -> Change:
        """The change that adds a row."""
        self.rows[table].append(row)
        return Change(table, 1, row)

    def delete(self, table: str, row: Row) -> Change:
        """The change that takes a row away."""
        self.rows[table].remove(row)
        return Change(table, -1, row)

    def fresh(self, rng: Random, table: str) -> Row | None:
        """A row that may be inserted; None if all keys are taken."""
        source = self.sources[table]
        if not source.schema.key:
            if self.rows[table] and rng.random() < 0.2:
                return rng.choice(self.rows[table])
            return source.row(rng)
        taken = {source.key_of(row) for row in self.rows[table]}
        free = [key for key in source.all_keys() if key not in taken]
        return source.row(rng, rng.choice(free)) if free else None


def random_history(seed: int, size: int = 60, views: int = 6) -> History:
    """The history of a seed: 1 to 3 tables, `views` views, about `size` single changes."""
    rng = Random(seed)
    sources = tuple(_source(rng, f"t{i}") for i in range(rng.choice([1, 1, 2, 3])))
    schemas = tuple(source.schema for source in sources)
    queries = tuple((f"v{i}", random_view(rng, rng.choice(schemas))) for i in range(views))
    state = State(sources)
    batches: list[tuple[Change, ...]] = []
    count = 0
    while count < size:
        batch = tuple(_batch(rng, state))
        batches.append(batch)
        count += len(batch)
    return History(seed, schemas, queries, tuple(batches))


def _batch(rng: Random, state: State) -> Iterator[Change]:
    names = list(state.sources)
    kind = rng.random()
    table = rng.choice(names)
    if kind < 0.05:
        return
    if kind < 0.10:
        for row in list(state.rows[table]):
            yield state.delete(table, row)
        return
    if kind < 0.18 and state.rows[table]:
        row = rng.choice(state.rows[table])
        yield state.delete(table, row)
        yield state.insert(table, row)
        return
    several = names if kind < 0.4 else [table]
    for _ in range(rng.randint(1, 6)):
        yield from step(rng, state, rng.choice(several))


def step(rng: Random, state: State, table: str) -> Iterator[Change]:
    """An insert, a delete, or an update, which is both."""
    rows, kind = state.rows[table], rng.random()
    if rows and kind < DELETES - 0.1:
        yield state.delete(table, rng.choice(rows))
    elif rows and kind < 0.6:  # an update: it may move the row to another group, or to another key
        source, old = state.sources[table], rng.choice(rows)
        yield state.delete(table, old)
        new = source.row(rng, source.key_of(old) if rng.random() < 0.8 else None)
        row = canonical(b if rng.random() < 0.5 else a for a, b in zip(old, new, strict=True))
        free = state.fresh(rng, table)
        taken = {source.key_of(r) for r in state.rows[table]} if source.schema.key else set()
        if not source.schema.key or source.key_of(row) not in taken:
            yield state.insert(table, row)
        elif free is not None:
            yield state.insert(table, free)
    else:
        row_or_none = state.fresh(rng, table)
        if row_or_none is not None:
            yield state.insert(table, row_or_none)


# -- shrinking -----------------------------------------------------------------------------------------------


def is_valid(history: History) -> bool:
    """Whether every single change is possible where it stands."""
    keys = {s.name: [s.names.index(k) for k in s.key] for s in history.schemas}
    rows: dict[str, Counter[Row]] = {s.name: Counter() for s in history.schemas}
    taken: dict[str, Counter[Row]] = {s.name: Counter() for s in history.schemas}
    for change in history.changes:
        key = tuple(change.row[i] for i in keys[change.table])
        rows[change.table][change.row] += change.weight
        taken[change.table][key] += change.weight
        if rows[change.table][change.row] < 0 or (key and taken[change.table][key] > 1):
            return False
    return True


def shrink(history: History, fails: Callable[[History], bool], tries: int = 400) -> History:
    """A smaller history that still fails: fewer views, batches, changes; at most `tries` are tried."""
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(history):
            if left <= 0:
                break
            if not is_valid(smaller):
                continue
            left -= 1
            if fails(smaller):
                history, progress = smaller, True
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    for view in history.views if len(history.views) > 1 else ():
        yield replace(history, views=(view,))
    used = {c.table for c in history.changes}
    if len(used) < len(history.schemas) and any(s.name in used for s in history.schemas):
        kept = tuple(
            s for s in history.schemas if s.name in used or any(s.name in q for _, q in history.views)
        )
        if len(kept) < len(history.schemas):
            yield replace(history, schemas=kept)
    yield from smaller_batches(history)


def smaller_batches(history: History) -> Iterator[History]:
    """The history with fewer batches, or fewer changes in one."""
    for part in _without_runs(history.batches):
        yield replace(history, batches=part)
    for i, batch in enumerate(history.batches):
        for rest in _without_runs(batch):
            yield replace(history, batches=(*history.batches[:i], rest, *history.batches[i + 1 :]))


def _without_runs(items: tuple[_T, ...]) -> Iterator[tuple[_T, ...]]:
    """The items without one run of them, long runs first."""
    length = len(items) // 2
    while length >= 1:
        for start in range(0, len(items), length):
            yield items[:start] + items[start + length :]
        length //= 2
    if len(items) == 1:
        yield ()


def net_of(changes: Iterable[Change]) -> dict[str, Counter[Row]]:
    """The net weight of each row, by table."""
    result: dict[str, Counter[Row]] = {}
    for change in changes:
        result.setdefault(change.table, Counter())[change.row] += change.weight
    return result
