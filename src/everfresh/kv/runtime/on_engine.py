"""The state of a program that an engine keeps: base tables and one view of a database of its own.

What a batch changes of the view is the engine's answer. Invariants: the database is empty until the first
batch, is at nobody's disposal but the program's, and goes with whoever holds it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from everfresh.delta.bags import EPOCH
from everfresh.program import Batch, Engine, Part

MakeEngine = Callable[[], Engine]


class OnEngine:
    """A program's tables and view in an engine."""

    def __init__(self, make: MakeEngine, statements: Sequence[Any]) -> None:
        self._make, self._statements = make, tuple(statements)
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine; it is made when it is needed, as managers begin anew more often than they work."""
        if self._engine is None:
            engine = self._engine = self._make()
            weakref.finalize(self, engine.close)
            for statement in self._statements:
                engine.execute(statement)
        return self._engine

    def step(self, parts: Mapping[str, Sequence[Part]], view: str) -> pa.Table | None:
        """Change the base: how the view's rows change, with weights; None if they do not."""
        engine = self.engine
        schemas = engine.catalog.tables
        given = tuple(
            Part(table, part.op, engine.read_input(part.rows, schemas[table], part.what, part.op), part.what)
            for table, some in parts.items()
            for part in some
        )
        if not given:
            return None
        epoch = engine.apply(Batch(given)).epoch
        changed = engine.changes(view, epoch - 1)
        return changed.drop_columns([EPOCH]) if changed.num_rows else None

    def rows(self, name: str) -> pa.Table:
        """The rows of the view."""
        return self.engine.read(name)
