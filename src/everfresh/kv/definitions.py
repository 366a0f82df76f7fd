"""What a store knows of its views: a row for each in a table of its own.

Invariants: a number is given once in a group; views that are the same view have one number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from everfresh.kv.sharing.cells import Mode
from everfresh.kv.store import Store, StoredTable
from everfresh.types import VARCHAR, Column, TableSchema

VIEWS = StoredTable(
    TableSchema("_ef_views", (Column("name", VARCHAR), Column("definition", VARCHAR)), ("name",)),
    logged=False,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A view: its text, where its rows are, and how it is kept."""

    name: str
    text: str
    key: tuple[str, ...]
    group: str
    """The view group: it commits together, and its table of rows has the same name."""
    strategy: str = "SCI"
    batch: int = 0
    """How many entries of a log an epoch takes at most; 0: all."""
    number: int = -1
    """Of a view of a template its number; -1: the view has a program and a table of its own."""
    since: int = 1
    layout: str = "own"
    mode: Mode = "auto"
    parallel: bool = False
    """Whether logs are followed while it is made."""
    born: int = 0
    """Tells its group from one of the same name before it."""
    dropped: bool = False
    """Whether it is gone: as long as its family has views, its number is not given again."""

    @property
    def shares(self) -> bool:
        """Whether it shares a program with other views."""
        return self.number >= 0

    def to_bytes(self) -> bytes:
        """As the value of its row."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(value: bytes) -> Definition:
        """The inverse of `to_bytes`."""
        data: dict[str, Any] = json.loads(value)
        return Definition(**{**data, "key": tuple(data["key"])})


def new_birth() -> int:
    """A birth that no other group has; never 0, that of stores of before."""
    return int.from_bytes(os.urandom(4), "big") >> 1 or 1


def every(store: Store) -> list[tuple[bytes, Definition]]:
    """All definitions with their keys, those of views that are gone too."""
    if VIEWS.name not in store.tables():
        return []
    return [(key, Definition.from_bytes(row.value)) for batch in store.scan(VIEWS.name) for key, row in batch]


def definitions(store: Store) -> dict[str, Definition]:
    """The views of a store by name."""
    return {d.name: d for _, d in every(store) if not d.dropped}


def gone_key(definition: Definition) -> bytes:
    """Where the definition of a view that is gone lies."""
    return f"\0{definition.group}\0{definition.number}".encode()


def base_tables(store: Store) -> Mapping[str, TableSchema]:
    """The tables that views can read."""
    tables = store.tables().items()
    return {name: table.schema for name, table in tables if table.logged and table.before_images}
