"""Arrays and their views as a domain of a database: views beside `everfresh.arrays.domain`.

A view is stepped after what it reads, by the cells that came and went there; its state never changes, so
taking a step back is putting the last one in its place. A commit record says nothing of views: stepping them
again gives what it gave. A snapshot holds the groups, column by column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.domain import ARRAYS, CHUNK, NO_ARRAYS, PAST, Arrays, CellChange, reads_of
from everfresh.arrays.domain import made as made_arrays
from everfresh.arrays.explained import explained as explained_reads
from everfresh.arrays.views.answers import best
from everfresh.arrays.views.cells import replaced
from everfresh.arrays.views.explain import explained
from everfresh.arrays.views.groups import Groups, sources_of
from everfresh.arrays.views.pipeline import Pipeline, compile_view
from everfresh.arrays.views.stages import Base, Joined
from everfresh.delta.bags import difference
from everfresh.epochs import Object, Published, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state import pack_table, plain, unpack_table
from everfresh.types import Column

GROUPS = "array/groups/"
VIEW = "array view"


class ArraysAndViews(Arrays):
    """Arrays and views of them by name."""

    def __init__(self, history: int = 100) -> None:
        super().__init__(history)
        self.views: dict[str, Pipeline] = {}
        self.states: dict[str, tuple[Any, ...]] = {}

    # -- changes -----------------------------------------------------------------------------------

    def prepare(self, name: str, given: Any) -> CellChange:
        """As in `Arrays`; a view is changed by what it reads alone."""
        with self.lock:
            if name in self.views:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"'{name}' is a view",
                    place=f"array view '{name}'",
                    hint=f"change what it reads: {', '.join(self.views[name].reads)}",
                )
        return super().prepare(name, given)

    def dropping(self, name: str) -> tuple[Any]:
        """The statement that drops an array or a view."""
        return (aql.DropView(name),) if name in self.views else super().dropping(name)

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop an array or a view."""
        if not isinstance(statement, aql.CreateView | aql.DropView):
            return super().define(statement)
        before = self.values, self.views, self.states

        def undo() -> None:
            self.values, self.views, self.states = before

        if isinstance(statement, aql.DropView):
            gone = statement.name
            if gone not in self.views:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"there is no array view '{gone}'",
                    hint=f"array views are: {', '.join(self.views) or 'none yet'}",
                )
            self.values = {n: value for n, value in before[0].items() if n != gone}
            self.views = {n: view for n, view in before[1].items() if n != gone}
            self.states = {n: state for n, state in before[2].items() if n != gone}
            return gone, undo
        pipeline = compile_view(statement, {n: value.schema for n, value in self.values.items()})
        states = pipeline.start(self.values)
        self._add(statement.name, pipeline, states)
        return Object(statement.name, self.name, VIEW, pipeline.reads), undo

    def _add(self, name: str, pipeline: Pipeline, states: tuple[Any, ...]) -> None:
        self.values = {**self.values, name: pipeline.value(states)}
        self.views = {**self.views, name: pipeline}
        self.states = {**self.states, name: states}

    def make(
        self, name: str, own: CellChange | None, inputs: Mapping[str, Published]
    ) -> tuple[CellChange | None, Published | None, Undo]:
        """Change an array by cells, or a view by what it reads."""
        if name not in self.views:
            return super().make(name, own, inputs)
        before = self.values[name], self.states[name]
        states, change = self.views[name].step(
            before[1], self.values, {n: published.table for n, published in inputs.items()}
        )
        self.values[name], self.states[name] = self.views[name].value(states), states

        def undo() -> None:
            self.values[name], self.states[name] = before

        return None, change, undo

    # -- snapshots ---------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot: arrays chunk by chunk, views group by group."""
        with self.lock:
            if not self.objects:
                return {}
            told = []
            sections: dict[str, Any] = {}
            for name, found in self.objects.items():
                if name in self.views:
                    told.append([str(self.views[name].statement), found.created])
                    for k, state in enumerate(self.states[name]):
                        if isinstance(state, Groups):
                            sections[f"{GROUPS}{k}/{name}"] = pack_table(group_table(state))
                    continue
                statement = aql.CreateArray(self.values[name].schema, self.placements[name], *found.reads)
                told.append([str(statement), found.created])
                for number, chunk in self.values[name].chunks.items():
                    sections[f"{CHUNK}{number}/{name}"] = chunk.encode()
            sections[ARRAYS] = json.dumps(told).encode()
            return {**sections, **self.history.to_sections(PAST, lambda change: change.table)}

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        self.values, self.views, self.states = {}, {}, {}
        chunks: dict[str, dict[int, Any]] = {}
        groups: dict[str, dict[int, Any]] = {}
        for section, data in sections.items():
            for prefix, found in ((CHUNK, chunks), (GROUPS, groups)):
                if section.startswith(prefix):
                    number, _, name = section.removeprefix(prefix).partition("/")
                    found.setdefault(name, {})[int(number)] = data
        objects = {}
        for text, created in plain(sections[ARRAYS], "the arrays of a database") if sections else ():
            statement = parse(text)
            if isinstance(statement, aql.CreateArray):
                schema = statement.schema
                self.placements[schema.name] = statement.placement
                held = {
                    number: Chunk.decode(data, schema.ndim)
                    for number, data in sorted(chunks.get(schema.name, {}).items())
                }
                self.values[schema.name] = Array(schema, held)
                reads = reads_of(statement)
                objects[schema.name] = Object(schema.name, self.name, self.kind, reads, created)
            elif isinstance(statement, aql.CreateView):
                reads = self._restore_view(statement, groups.get(statement.name, {}))
                objects[statement.name] = Object(statement.name, self.name, VIEW, reads, created)
            else:
                raise EverfreshError(Code.DAMAGED, f"a snapshot has no array where it says '{text}'")
        self.objects = objects
        self.history.load(PAST, sections)

    def _restore_view(self, statement: aql.CreateView, groups: Mapping[int, Any]) -> tuple[str, ...]:
        pipeline = compile_view(statement, {n: value.schema for n, value in self.values.items()})
        states: list[Any] = []
        for k, stage in enumerate(pipeline.stages):
            inputs = [pipeline.stages[at].value(states[at]) for at in stage.inputs]
            if isinstance(stage, Base):
                inputs = [self.values[stage.name]]
            if isinstance(stage, Joined) and k in groups:
                states.append(groups_of(stage, inputs, unpack_table(groups[k])))
            else:
                states.append(stage.start(inputs))
        self._add(statement.name, pipeline, tuple(states))
        return pipeline.reads

    # -- reading -----------------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Cells, chunks and bytes of each array; of views those of their groups."""
        with self.lock:
            views = dict(self.states)
            arrays = {n: value for n, value in self.values.items() if n not in views}
            known = {name: self.views[name].reads for name in views}
        found = _sizes(arrays)
        for name, states in views.items():
            blocks = [b for state in states if isinstance(state, Groups) for b in state.blocks.values()]
            value = self.views[name].value(states) if name in self.views else None
            found[name] = {
                "kind": VIEW,
                "reads": list(known[name]),
                "cells": len(value) if value is not None else 0,
                "chunks": len(value.chunks) if value is not None else 0,
                "bytes": sum(c.nbytes for b in blocks for c in (b.keys, *b.columns.values())),
            }
        return found

    def answer(self, statement: aql.Statement, others: Mapping[str, Array] = NO_ARRAYS) -> pa.Table:
        """As in `Arrays`; a query that a view answers sooner than the arrays do is answered by it."""
        if isinstance(statement, aql.Query):
            found = best(statement, *self.with_views())
            if found is not None and found.by_view:
                return found.rows()
        return super().answer(statement, others)

    def explained(self, statement: aql.Statement, run: bool = False, options: Options | None = None) -> str:
        """What is read and how many cells meet; whether a view answers it, and what each way costs; and the
        plan for logical workers."""
        arrays, views = self.with_views()
        told = [explained_reads(statement, arrays)]
        if isinstance(statement, aql.Query):
            told.append(str(best(statement, arrays, views) or "full join; no view has its pairs"))
        return "\n".join([*told, super().explained(statement, run, options)])

    def with_views(self) -> tuple[Mapping[str, Array], Mapping[str, tuple[Pipeline, tuple[Any, ...]]]]:
        """All arrays, and the views with their states, at one epoch."""
        with self.lock:
            return dict(self.values), {n: (view, self.states[n]) for n, view in self.views.items()}

    def verify(self, name: str) -> pa.Table:
        """The rows in which a view differs from its recomputation; of arrays as in `Arrays`."""
        with self.lock:
            if name not in self.views:
                return super().verify(name)
            pipeline, arrays, shown = self.views[name], dict(self.values), self.values[name]
        return difference(pipeline.value(pipeline.start(arrays)).table, shown.table)

    def explain(self, name: str, format: str = "text") -> str:
        """What an array is and holds, or how a view is maintained."""
        with self.lock:
            if name not in self.views:
                return super().explain(name, format)
            return explained(self.views[name], self.states[name], format)

    def columns(self, name: str) -> tuple[Column, ...]:
        """An array or view as a relation."""
        with self.lock:
            return self.values[name].schema.columns if name in self.views else super().columns(name)

    def array(self, name: str) -> Array:
        """The value of an array or a view now."""
        with self.lock:
            return super().array(name)

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of an array or a view."""
        from everfresh.arrays.views.handle import ArrayView

        return ArrayView(db, self, name) if name in self.views else super().hold(db, name)


def _sizes(arrays: Mapping[str, Array]) -> dict[str, Any]:
    return {
        name: {
            "cells": len(value),
            "chunks": len(value.chunks),
            "bytes": sum(chunk.nbytes for chunk in value.chunks.values()),
        }
        for name, value in arrays.items()
    }


# -- groups as tables ------------------------------------------------------------------------------------


def group_table(state: Groups) -> pa.Table:
    """All groups: their keys, and a column for each that is kept; Python's numbers as text."""
    found = state.changes
    columns: dict[str, Any] = {"key": pa.array(found.keys)}
    for name, values in found.columns.items():
        if values.dtype.kind != "O":
            columns[name] = pa.array(values)
            continue
        known = values.tolist()
        numbers = any(isinstance(v, int) for v in known)
        shown = [None if v is None else str(v) for v in known]
        columns[f"{name}:{'number' if numbers else 'text'}"] = pa.array(shown, pa.string())
    return pa.table(columns)


def groups_of(stage: Joined, inputs: Sequence[Array], table: pa.Table) -> Groups:
    """The inverse of `group_table`."""
    keys = table.column("key").to_numpy()
    columns: dict[str, Any] = {}
    for label in table.column_names[1:]:
        name, _, kind = label.partition(":")
        if not kind:
            columns[name] = np.ascontiguousarray(table.column(label).to_numpy())
            continue
        known = table.column(label).to_pylist()
        columns[name] = np.empty(len(known), object)
        columns[name][:] = [int(v) if kind == "number" and v is not None else v for v in known]
    volume = stage.definition.numbering.volume
    blocks = replaced({}, keys, keys, columns, volume) if len(keys) else {}
    return Groups(stage.definition, blocks, tuple(sources_of(stage.definition, inputs)))


def made(history: int, host: Any) -> Arrays:
    """The domain, on an engine that offers `host`."""
    return ArraysAndViews(history) if host is None else made_arrays(history, host)
