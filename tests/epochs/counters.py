"""Counters, a toy domain that is complete: a number that is told to grow, and that grows with each row that
comes in what it reads. It shows how much a domain is, and is what the suite of domains is tried on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import WEIGHT
from everfresh.epochs import Object, Published, Resident, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.types import BIGINT, Column


@dataclass(frozen=True)
class Create:
    """A new counter, which reads these."""

    name: str
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drop:
    """A counter goes."""

    name: str


@dataclass(frozen=True)
class Grow:
    """A change: by how much a counter grows."""

    by: int


class Counters(Resident):
    """Counters by name."""

    name = "counter"
    kind = "counter"

    def __init__(self, history: int = 100) -> None:
        super().__init__(history)
        self.values: dict[str, int] = {}

    def takes(self, given: Any) -> bool:
        return isinstance(given, Grow)

    def dropping(self, name: str) -> Sequence[Drop]:
        return (Drop(name),)

    def columns(self, name: str) -> tuple[Column, ...]:
        return (Column("n", BIGINT, False),)

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        before = dict(self.values)

        def undo() -> None:
            self.values = before

        if isinstance(statement, Drop):
            del self.values[statement.name]
            return statement.name, undo
        self.values[statement.name] = 0
        return Object(statement.name, self.name, self.kind, statement.reads), undo

    def make(
        self, name: str, own: Any, inputs: Mapping[str, Published]
    ) -> tuple[int | None, Published | None, Undo]:
        before = self.values[name]
        by = own if isinstance(own, int) else own.by if own is not None else 0  # a number comes from the log
        for change in inputs.values() if not isinstance(own, int) else ():
            weights = change.table.column(WEIGHT)
            by += pc.sum(pc.filter(weights, pc.greater(weights, 0))).as_py() or 0
        if before + by > 1_000_000:
            raise EverfreshError(Code.VALUE, f"the counter '{name}' is full")
        self.values[name] = before + by

        def undo() -> None:
            self.values[name] = before

        rows = pa.table({"n": [before, before + by], WEIGHT: [-1, 1]})
        return by, RowChange(lambda: rows) if by else None, undo

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        ddl = (json.dumps([type(s).__name__, s.name, *getattr(s, "reads", ())]) for s in statements)
        return Told(tuple(ddl), {"counter/by": json.dumps(changes).encode()})

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        told = [json.loads(text) for text in ddl]
        made = [Create(name, tuple(r)) if what == "Create" else Drop(name) for what, name, *r in told]
        return made, [tuple(pair) for pair in json.loads(bytes(sections["counter/by"]))]

    def rows(self, name: str) -> pa.Table:
        return pa.table({"n": [self.values[name]]})

    def to_sections(self) -> dict[str, bytes]:
        told = [[o.name, list(o.reads), o.created, self.values[o.name]] for o in self.objects.values()]
        past = self.history.to_sections("counter/past/", lambda change: change.table)
        return {"counter/all": json.dumps(told).encode(), **past} if told else {}

    def restore(self, sections: Sections) -> None:
        told = json.loads(bytes(sections["counter/all"])) if sections else []
        self.values = {name: value for name, _, _, value in told}
        self.objects = {n: Object(n, self.name, self.kind, tuple(r), epoch) for n, r, epoch, _ in told}
        self.history.load("counter/past/", sections)

    def verify(self, name: str) -> pa.Table:
        return self.rows(name).slice(0, 0)

    def explain(self, name: str, format: str = "text") -> str:
        return f"{name} counts {', '.join(self.objects[name].reads) or 'what it is told'}"

    def hold(self, db: Any, name: str) -> int:
        return self.values[name]
