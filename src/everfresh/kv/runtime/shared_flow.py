"""The views of one template as a dataflow: one program for all of them, cells, and each view's rows.

"Many views" in docs/design/key-value.md. All views lie in one table of the store, whose key begins with the
view's number (layout `own`), or the core lies there, one row for each group, and a read adds up what is its
view's (layout `shared`): then a change is one write per group, whatever the number of views. Invariant: a
view's rows are those that its own program would give.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from everfresh.delta.bags import split
from everfresh.expr import Expr, Var, Vector, evaluate_vector, variables
from everfresh.kv.encoding import RowCodec
from everfresh.kv.protocol.dataflow import Contribution, ViewRow
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.runtime.core_program import Program
from everfresh.kv.sharing.cells import Cells, Mode, Part, Totals
from everfresh.kv.sharing.template import NotShared, Range, Shared, Template, holds
from everfresh.local.adhoc.keys import Groups, Words
from everfresh.local.state import LocalState
from everfresh.sql import CreateView
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema

Layout = Literal["own", "shared"]
NUMBER, CORE = "_view", "_cells"
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Numbered:
    """A view of a template: its number, its ranges, and since which version of the definitions it is."""

    number: int
    ranges: tuple[Range, ...]
    since: int


@dataclass
class _Maps:
    state: LocalState
    totals: Totals
    groups: dict[bytes, int]
    """A number for each group, by its encoded key."""
    keys: list[tuple[Any, ...]]
    core: dict[bytes, dict[tuple[Any, ...], list[int]]]
    """Layout `shared`: the core's rows by group and attributes."""
    started: bool = False


def group_keys(template: Template) -> tuple[str, ...]:
    """The names under which a view shows its groups' keys. Raises `NotShared` if it does not show all."""
    shown = {e.name: name for name, e in reversed(template.items) if isinstance(e, Var)}
    if any(key.name not in shown for key in template.keys):
        raise NotShared("it does not show all columns that it groups by")
    return tuple(shown[key.name] for key in template.keys)


class SharedFlow:
    """Views of one template."""

    def __init__(
        self,
        name: str,
        tables: Mapping[str, TableSchema],
        template: Template,
        views: Sequence[Numbered],
        *,
        layout: Layout = "own",
        mode: Mode = "auto",
        version: int = 1,
    ) -> None:
        self.name, self.template, self.layout, self.mode, self.version = name, template, layout, mode, version
        self.program = Program(tables, CreateView(name=f"{name}_core", plan=template.core))
        self.tables = self.program.tables
        self.views = list(views)
        self.cells = Cells.of(template, [view.ranges for view in self.views])
        self._numbers = np.array([view.number for view in self.views], np.int64)
        self._since = {view.number: view.since for view in self.views}
        self.keys = group_keys(template)
        self.schema = schema_of(name, template, layout)
        self.codec = RowCodec(self.schema)
        self._key_codec = RowCodec(TableSchema("_keys", (Column(NUMBER, BIGINT), *template.keys)))
        self._words = Words()

    # -- the dataflow ------------------------------------------------------------------------------

    def blank(self) -> _Maps:
        """The views over empty tables."""
        return _Maps(self.program.blank(), Totals(1 + len(self.template.sums)), {}, [], {})

    def route(self, changes: Sequence[Change]) -> list[Contribution]:
        """Everything to one manager, in one message."""
        return [Contribution(_ALL, tuple(changes))] if changes else []

    def apply(self, maps: _Maps, given: Iterable[Contribution]) -> list[ViewRow]:
        """Run the program; the rows that have changed."""
        changes = [change for of in given for change in of.delta]
        return self.shown(maps, self.program.apply(maps.state, changes))

    def is_new(self, row: ViewRow, version: int) -> bool:
        """Whether a row is of a view that was not there in a version of the definitions."""
        if self.layout == "shared":
            return version == 0
        return self._since.get(self.codec.decode_key(row.key)[0], 0) > version

    # -- changes of the core -----------------------------------------------------------------------

    def shown(self, maps: _Maps, changed: pa.Table | None) -> list[ViewRow]:
        """The rows of the store's table that a change of the core's rows changes."""
        found: dict[bytes, bytes | None] = {}
        if not maps.started:
            maps.started = True
            if not self.template.grouped:
                self._group(maps, ())
                if self.layout == "own":
                    width = 1 + len(self.template.sums)
                    nothing = np.zeros((width, len(self.views)), np.int64)
                    at = np.arange(len(self.views))
                    found |= self._rows(maps, at, np.zeros(len(at), np.int64), nothing)
        if changed is not None and changed.num_rows:
            found |= self._core_rows(maps, changed) if self.layout == "shared" else self._own(maps, changed)
        return [ViewRow(self.name, key, value) for key, value in sorted(found.items())]

    def _own(self, maps: _Maps, changed: pa.Table) -> dict[bytes, bytes | None]:
        vectors, values = self._columns(changed)
        n = len(self.template.keys)
        groups = self._numbered(maps, vectors[:n], changed.num_rows)
        local, of_rows = np.unique(groups, return_inverse=True)
        part = Part(self.cells.ids(vectors[n : n + len(self.template.attributes)]), of_rows, values)
        sums = self.cells.changes([part], len(local), self.mode)
        at = local[sums.groups]
        now = maps.totals.add(type(sums)(sums.views, at, sums.values))
        return self._rows(maps, sums.views, at, now)

    def _columns(self, changed: pa.Table) -> tuple[list[Vector], np.ndarray[Any, Any]]:
        """The keys and attributes of changed rows of the core, and the change of their count and sums."""
        rows, weights = split(changed)
        columns = self.template.core.columns
        vectors = [Vector.from_arrow(rows.column(i), column.type) for i, column in enumerate(columns)]
        n = len(self.template.keys) + len(self.template.attributes)
        weight = weights.to_numpy().astype(np.int64)
        listed = [v.values * weight for v in vectors[n:]]
        if all(v.dtype != object or _small(v) for v in listed):
            listed = [v.astype(np.int64) for v in listed]
        return vectors[:n], np.array(listed)

    def _numbered(self, maps: _Maps, keys: Sequence[Vector], rows: int) -> np.ndarray[Any, Any]:
        """The number of each row's group."""
        if not keys:
            return np.full(rows, self._group(maps, ()), np.int64)
        groups = Groups(self._words.of(keys, rows))
        first = groups.first()
        listed = zip(*(key.take(first).to_pylist() for key in keys), strict=True)
        numbers = np.array([self._group(maps, key) for key in listed], np.int64)
        found: np.ndarray[Any, Any] = numbers[groups.of_rows]
        return found

    def _group(self, maps: _Maps, key: tuple[Any, ...]) -> int:
        encoded = self._key_codec.encode_key((0, *key))
        number = maps.groups.setdefault(encoded, len(maps.keys))
        if number == len(maps.keys):
            maps.keys.append(key)
        return number

    def _rows(self, maps: _Maps, views: Any, groups: Any, values: Any) -> dict[bytes, bytes | None]:
        """The rows of views' groups that have these counts and sums by now."""
        keys = [maps.keys[group] for group in groups.tolist()]
        numbers = self._numbers[views].tolist()
        columns = shown_columns(self.template, keys, values)
        gone = (values[0] == 0) if self.template.grouped else np.zeros(len(numbers), np.bool_)
        found: dict[bytes, bytes | None] = {}
        for number, missing, row in zip(numbers, gone.tolist(), zip(*columns, strict=True), strict=True):
            if missing:
                found[self.codec.encode_key(self._key_of(number, row))] = None
            else:
                key, value = self.codec.encode((number, *row))
                found[key] = value
        return found

    def _key_of(self, number: int, row: Sequence[Any]) -> tuple[Any, ...]:
        names = [name for name, _ in self.template.items]
        return (number, *(row[names.index(name)] for name in self.keys))

    def _core_rows(self, maps: _Maps, changed: pa.Table) -> dict[bytes, bytes | None]:
        vectors, values = self._columns(changed)
        n = len(self.template.keys)
        keys = list(zip(*(v.to_pylist() for v in vectors[:n]), strict=True)) or [()] * changed.num_rows
        attributes = zip(*(v.to_pylist() for v in vectors[n:]), strict=True)
        touched: dict[bytes, tuple[Any, ...]] = {}
        for key, at, change in zip(keys, attributes, values.T.tolist(), strict=True):
            encoded = self.codec.encode_key((0, *key))
            touched[encoded] = key
            cells = maps.core.setdefault(encoded, {})
            now = [a + b for a, b in zip(cells.pop(at, [0] * len(change)), change, strict=True)]
            if any(now):
                cells[at] = now
        found: dict[bytes, bytes | None] = {}
        for encoded, key in touched.items():
            cells = maps.core[encoded]
            listed = sorted(([*at, *of] for at, of in cells.items()), key=repr)
            if cells:
                found[encoded] = self.codec.encode((0, *key, json.dumps(listed, ensure_ascii=False)))[1]
            else:
                found[encoded] = None
                del maps.core[encoded]
        return found


def _small(values: np.ndarray[Any, Any]) -> bool:
    return all(-(2**62) < int(v) < 2**62 for v in values)


def schema_of(name: str, template: Template, layout: Layout) -> TableSchema:
    """The store's table of a template's views."""
    number = Column(NUMBER, BIGINT, False)
    if layout == "own":
        return TableSchema(name, (number, *template.columns), (NUMBER, *group_keys(template)))
    columns = (number, *template.keys, Column(CORE, VARCHAR, False))
    return TableSchema(name, columns, (NUMBER, *(key.name for key in template.keys)))


def shown_columns(
    template: Template, keys: Sequence[tuple[Any, ...]], values: np.ndarray[Any, Any]
) -> list[list[Any]]:
    """The columns of views' rows, as physical values, of groups with these keys, counts and sums."""
    rows = len(keys)
    frame: dict[str, Vector] = {
        column.name: Vector.from_pylist([key[i] for key in keys], column.type)
        for i, column in enumerate(template.keys)
    }
    for name, (i, type_) in template.inputs.items():
        frame[name] = Vector.from_pylist([int(x) for x in values[i].tolist()], type_)
    return [_evaluated(expr, frame, rows) for _, expr in template.items]


def _evaluated(expr: Expr, frame: Mapping[str, Vector], rows: int) -> list[Any]:
    return evaluate_vector(expr, {v.name: frame[v.name] for v in variables(expr)}, rows).to_pylist()


def recomposed(view: Shared, groups: Iterable[tuple[tuple[Any, ...], str]]) -> list[tuple[Any, ...]]:
    """A view's rows from the rows of a table of layout `shared`: keys and cells."""
    template, d = view.template, len(view.template.attributes)
    keys, sums = [], []
    for key, text in groups:
        total = [0] * (1 + len(template.sums))
        for cell in json.loads(text):
            if holds(template.shape, view.ranges, cell[:d]):
                total = [a + b for a, b in zip(total, cell[d:], strict=True)]
        if total[0]:
            keys.append(key)
            sums.append(total)
    if not keys and not template.grouped:
        keys, sums = [()], [[0] * (1 + len(template.sums))]
    if not keys:
        return []
    values = np.array(sums, object).T.reshape(1 + len(template.sums), len(keys))
    return list(zip(*shown_columns(template, keys, values), strict=True))


__all__ = ["CORE", "NUMBER", "Layout", "Numbered", "SharedFlow", "group_keys", "recomposed", "schema_of"]
