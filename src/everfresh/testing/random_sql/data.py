"""Random schemas, views over them, and the history of a seed: all made before anything runs.

Values come from small domains that the tables share, so that joins hit; columns of one name have one type, so
that joins by name are possible. Doubles are multiples of 1/8 and decimals of 1/4: sums are exact in any
order.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

from everfresh.testing.histories import Change, History, Source, State, step
from everfresh.testing.random_sql.grammar import Queries, Tables
from everfresh.testing.random_sql.tree import Query
from everfresh.testing.random_sql.weights import BATCHES, Choices
from everfresh.types import Column, TableSchema, parse_type

BATCH_COUNT = 7

_TYPES: dict[str, tuple[str, str, tuple[Any, ...]]] = {  # letter: type, kind, values
    "i": ("INTEGER", "number", (1, 0, 2, 3, -1, 5)),
    "b": ("BIGINT", "number", (1, 2, 0, 3, 7, -2)),
    "m": ("DECIMAL(9,2)", "number", tuple(Decimal(x) for x in ("1.00", "2.00", "1.25", "-0.75", "0.00"))),
    "d": ("DOUBLE", "number", (1.0, 0.5, 2.0, 0.0, -1.125)),
    "s": ("VARCHAR", "text", ("a", "b", "", "ab", "A")),
    "t": ("DATE", "date", tuple(dt.date(2024, *md) for md in ((1, 31), (2, 29), (3, 1), (2, 1)))),
    "o": ("BOOLEAN", "truth", (True, False)),
}


@dataclass(frozen=True)
class Case:
    """A history and its views as trees, in the order in which they are created."""

    history: History
    trees: tuple[tuple[str, Query], ...]

    def with_views(self, trees: tuple[tuple[str, Query], ...]) -> Case:
        """The same with other views."""
        views = tuple((name, tree.sql()) for name, tree in trees)
        return Case(replace(self.history, views=views), trees)


def random_case(seed: int, views: int = 5, used: Counter[str] | None = None) -> Case:
    """The case of a seed; productions are counted in `used`."""
    used = Counter() if used is None else used
    rng = Random(seed)
    sources = _sources(rng)
    tables: Tables = {
        s.schema.name: tuple((c.name, _TYPES[c.name[0]][1]) for c in s.schema.columns) for s in sources
    }
    trees: list[tuple[str, Query]] = []
    readable: Tables = {}
    for number in range(views):
        query, columns = Queries(rng, used, tables, readable).view()
        trees.append((f"v{number}", query))
        readable[f"v{number}"] = columns
    made = tuple(batches(rng, State(sources), used))
    history = History(seed, tuple(s.schema for s in sources), (), made)
    return Case(history, ()).with_views(tuple(trees))


def _sources(rng: Random) -> tuple[Source, ...]:
    return tuple(_source(rng, f"t{i}") for i in range(rng.choice((2, 2, 3, 3, 4))))


def _source(rng: Random, name: str) -> Source:
    letters = ["i", *rng.choices("ibmdsto", weights=(3, 2, 2, 2, 4, 2, 2), k=rng.randint(1, 3))]
    names = [f"{letter}{letters[:n].count(letter)}" for n, letter in enumerate(letters)]
    key = (names[0],) if rng.random() < 0.35 else ()
    columns, domains = [], []
    for n, letter in zip(names, letters, strict=True):
        type_, _, values = _TYPES[letter]
        columns.append(Column(n, parse_type(type_), nullable=n not in key and rng.random() < 0.8))
        domains.append(tuple(range(-1, 7)) if n in key else values[: rng.randint(3, 6)])
    return Source(TableSchema(name, tuple(columns), key), tuple(domains))


def batches(rng: Random, state: State, used: Counter[str]) -> Iterator[tuple[Change, ...]]:
    """The batches of one history: rows to begin with, then changes of all kinds."""
    choices = Choices(rng, used, 0)
    names = list(state.sources)
    yield tuple(_inserts(rng, state, [n for n in names for _ in range(rng.randint(2, 6))]))
    for _ in range(BATCH_COUNT - 1):
        yield tuple(_batch(rng, state, names, choices.choose(BATCHES)))


def _batch(rng: Random, state: State, names: list[str], kind: str) -> Iterator[Change]:
    table = rng.choice(names)
    rows = state.rows[table]
    match kind:
        case "empty batch":
            return
        case "delete all of a table" | "delete everything":
            for name in names if kind == "delete everything" else [table]:
                for row in list(state.rows[name]):
                    yield state.delete(name, row)
        case "come and go":
            for change in list(_inserts(rng, state, [table])):
                yield change
                yield state.delete(table, change.row)
        case "go and come" if rows:
            row = rng.choice(rows)
            yield state.delete(table, row)
            yield state.insert(table, row)
        case "update of a key" if rows:
            yield from _moved(rng, state, table)
        case "duplicates" if rows and not state.sources[table].schema.key:
            yield from [state.insert(table, rng.choice(rows)) for _ in range(rng.randint(1, 3))]
        case "all tables":
            for name in names:
                yield from step(rng, state, name)
        case _:
            some = rng.sample(names, min(len(names), rng.randint(1, 3)))
            for _ in range(rng.randint(1, 6)):
                yield from step(rng, state, rng.choice(some))


def _inserts(rng: Random, state: State, tables: list[str]) -> Iterator[Change]:
    for table in tables:
        row = state.fresh(rng, table)
        if row is not None:
            yield state.insert(table, row)


def _moved(rng: Random, state: State, table: str) -> Iterator[Change]:
    """A row whose first column, by which tables are joined, becomes another."""
    old = rng.choice(state.rows[table])
    yield state.delete(table, old)
    source = state.sources[table]
    taken = {row[0] for row in state.rows[table]} if source.schema.key else set()
    free = [value for value in source.domains[0] if value not in taken and value != old[0]]
    if free:
        yield state.insert(table, (rng.choice(free), *old[1:]))
