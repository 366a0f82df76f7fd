"""What an epoch does to signal views, and how the log keeps it: JSON for what is said, tables for rows.

A new view is in the log with its rows and state, so that nobody computes them again; a step with the rows
that came and went, once for all views that read the same columns of a table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from everfresh.epochs import Told
from everfresh.epochs.domain import Sections
from everfresh.options import Options
from everfresh.rewrite import Node
from everfresh.signals.domain.functions import found, names_of
from everfresh.signals.domain.view import Stepped, ViewState
from everfresh.signals.nodes import Viewed
from everfresh.signals.text import parse, to_text
from everfresh.state import pack_table, plain, unpack_table
from everfresh.types import no_rows

NEW, STEPS, ROWS = "signal/new/", "signal/steps", "signal/rows/"


@dataclass(frozen=True, eq=False)
class CreateView:
    """A new view, with the rows that it has from the beginning."""

    view: ViewState
    progress: Callable[[str, int, int], None] | None = None
    """Who hears of it while rows that are there are taken, by an engine that does so in its epoch."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.view.name


@dataclass(frozen=True)
class Drop:
    """A view vanishes."""

    name: str


@dataclass(frozen=True)
class Advance:
    """A table has reached a time: no event before it comes any more; None: none at all."""

    table: str
    time: int | None


def reads(query: Node, tables: Sequence[str]) -> tuple[str, ...]:
    """What a view reads: views that it goes on from, and the tables."""
    viewed = [each.view for each in query.walk() if isinstance(each, Viewed)]
    return tuple(dict.fromkeys((*viewed, *tables)))


def said(view: ViewState) -> dict[str, Any]:
    """A view as data: its query as text, and the names of functions."""
    named = names_of(view.query, view.name)
    text = to_text(view.query, named)
    schemas = {name: no_rows(schema) for name, schema in view.schemas.items()}
    told = {name: pack_table(table).hex() for name, table in schemas.items()}
    return {"name": view.name, "text": text, "functions": sorted(set(named.values())), "schemas": told}


def view_of(told: Mapping[str, Any], options: Options | None) -> ViewState:
    """The view that data says, with nothing in it."""
    functions = {name: found(name) for name in told["functions"]}
    schemas = {name: unpack_table(bytes.fromhex(data)).schema for name, data in told["schemas"].items()}
    return ViewState(told["name"], parse(told["text"], functions), schemas, options)


def encode(statements: Sequence[Any], changes: Sequence[tuple[str, Stepped]]) -> Told:
    """Statements and steps as the log keeps them."""
    ddl, sections = [], dict[str, Any]()
    for number, statement in enumerate(statements):
        if isinstance(statement, Drop):
            ddl.append(json.dumps({"do": "drop", "name": statement.name}))
            continue
        ddl.append(json.dumps({"do": "view", "number": number, **said(statement.view)}))
        for name, data in statement.view.to_sections().items():
            sections[f"{NEW}{number}/{name}"] = data
    rows: dict[int, pa.Table] = {}

    def keep(table: pa.Table) -> int:
        rows[id(table)] = table
        return list(rows).index(id(table))

    if changes:
        told = [
            {
                "view": name,
                **{
                    part: {t: keep(table) for t, table in getattr(stepped, part).items()}
                    for part in ("came", "went", "groups")
                },
                "keys": None if stepped.keys is None else [len(stepped.keys), keep(stepped.keys)],
                "times": dict(stepped.times),
                "newest": stepped.newest,
            }
            for name, stepped in changes
        ]
        sections[STEPS] = json.dumps(told).encode()
        sections.update({f"{ROWS}{i}": pack_table(table) for i, table in enumerate(rows.values())})
    return Told(tuple(ddl), sections)


def decode(
    ddl: Sequence[str], sections: Sections, options: Options | None
) -> tuple[list[Any], list[tuple[str, Stepped]]]:
    """The inverse of `encode`."""
    statements: list[Any] = []
    for text in ddl:
        told = plain(text.encode(), "a statement about signals")
        if told["do"] == "drop":
            statements.append(Drop(told["name"]))
            continue
        view = view_of(told, options)
        prefix = f"{NEW}{told['number']}/"
        view.load({n.removeprefix(prefix): d for n, d in sections.items() if n.startswith(prefix)})
        statements.append(CreateView(view))
    changes = []
    tables: dict[int, pa.Table] = {}

    def table_of(number: int) -> pa.Table:
        if number not in tables:
            tables[number] = unpack_table(sections[f"{ROWS}{number}"])
        return tables[number]

    for told in plain(sections[STEPS], "steps of signals") if STEPS in sections else ():
        parts = {part: {t: table_of(i) for t, i in told[part].items()} for part in ("came", "went", "groups")}
        keys = None if told["keys"] is None else table_of(told["keys"][1])
        newest = None if told.get("newest") is None else tuple(told["newest"])
        changes.append((told["view"], Stepped(**parts, times=told["times"], keys=keys, newest=newest)))
    return statements, changes
