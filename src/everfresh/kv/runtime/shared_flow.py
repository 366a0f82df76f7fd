"""The views of one template as a dataflow: one program for all of them, cells, and each view's rows.

"Many views" in docs/design/key-value.md. Each manager runs the program over its part of the base, and sends
what becomes of the core to those that have the groups: they add it up and write the views' rows. All views
lie in one table of the store, whose key begins with the view's number (layout `own`), or the core lies there,
one row for each group, and a read adds up what is its view's (layout `shared`): then a change is one write
per group, whatever the number of views. Invariant: a view's rows are those that its own program would give.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np
import pyarrow as pa

from everfresh.delta.bags import split
from everfresh.expr import Expr, Var, Vector, evaluate_vector, variables
from everfresh.kv.encoding import RowCodec
from everfresh.kv.encoding.columns import columns
from everfresh.kv.protocol.dataflow import EVERYONE, At, Contribution, ViewRow
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.runtime.core_program import Program
from everfresh.kv.runtime.on_engine import MakeEngine, OnEngine
from everfresh.kv.sharing.cells import Cells, Mode, Part, Totals
from everfresh.kv.sharing.spreading import divided, places
from everfresh.kv.sharing.template import NotShared, Range, Shared, Template, holds
from everfresh.local.adhoc.keys import Groups, Words
from everfresh.local.state import LocalState
from everfresh.sql import CreateView
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema

Layout = Literal["own", "shared"]
NUMBER, CORE = "_view", "_cells"


@dataclass(frozen=True, slots=True)
class Numbered:
    """A view of a template: its number, its ranges, and since which version of the definitions it is."""

    number: int
    ranges: tuple[Range, ...]
    since: int


@dataclass
class _Maps:
    workers: int
    state: LocalState | OnEngine
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

    rounds = 2

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
        engine: MakeEngine | None = None,
    ) -> None:
        self.name, self.template, self.layout, self.mode, self.version = name, template, layout, mode, version
        self.program = Program(tables, CreateView(name=f"{name}_core", plan=template.core), engine)
        self.tables = self.program.tables
        self.views = list(views)
        self.cells = Cells.of(template, [view.ranges for view in self.views])
        self._numbers = np.array([view.number for view in self.views], np.int64)
        self._since = {view.number: view.since for view in self.views}
        self.divided = divided(template, tables)
        """The tables of which each manager has a part, and the columns that say which."""
        self._bases = {name: RowCodec(tables[name]) for name in self.divided}
        self.keys = group_keys(template)
        self.schema = schema_of(name, template, layout)
        self.codec = RowCodec(self.schema)
        self._key_codec = RowCodec(TableSchema("_keys", (Column(NUMBER, BIGINT), *template.keys)))
        self._words = Words()

    # -- the dataflow ------------------------------------------------------------------------------

    @property
    def identity(self) -> int:
        """Of which views it is."""
        return crc32(repr(sorted(self._since.items())).encode())

    def blank(self, worker: int = 0, workers: int = 1) -> _Maps:
        """The views over empty tables; what is not grouped is the first worker's."""
        totals = Totals(1 + len(self.template.sums))
        return _Maps(workers, self.program.blank(), totals, {}, [], {}, started=worker != 0)

    def route(self, changes: Sequence[Change], workers: int = 1) -> list[Contribution]:
        """Rows of tables that are divided to who has them, those of others to everyone."""
        if not changes:
            return []
        if workers == 1 or not self.divided:
            return [Contribution(At(0), tuple(changes))]
        mine: list[list[Change]] = [[] for _ in range(workers)]
        for table in self.divided:
            for worker, some in enumerate(self._parted([c for c in changes if c.table == table], workers)):
                mine[worker] += some
        found = [Contribution(At(worker), tuple(of)) for worker, of in enumerate(mine) if of]
        rest = tuple(c for c in changes if c.table not in self.divided)
        return [*found, Contribution(EVERYONE, rest)] if rest else found

    def _parted(self, changes: Sequence[Change], workers: int) -> list[list[Change]]:
        """Changes of a table by worker: a record may leave one and come to another."""
        found: list[list[Change]] = [[] for _ in range(workers)]
        if not changes:
            return found
        table = changes[0].table
        codec, column = self._bases[table], self.divided[table]

        def at(pairs: list[tuple[bytes, bytes]]) -> list[int]:
            listed = columns(codec, pairs, [column]).columns if pairs else []
            of: list[int] = places(listed, len(pairs), workers).tolist()
            return of

        before = iter(at([(c.key, c.before) for c in changes if c.before is not None]))
        after = iter(at([(c.key, c.after) for c in changes if c.after is not None]))
        for change in changes:
            goes = next(before) if change.before is not None else None
            comes = next(after) if change.after is not None else None
            if goes == comes and goes is not None:
                found[goes].append(change)
                continue
            if goes is not None:
                found[goes].append(Change(table, change.key, change.before, None))
            if comes is not None:
                found[comes].append(Change(table, change.key, None, change.after))
        return found

    def forward(self, maps: _Maps, given: Iterable[Contribution]) -> list[Contribution]:
        """Run the program over this manager's part; what becomes of the core, to who has the groups."""
        changed = self.program.apply(maps.state, [change for of in given for change in of.delta])
        if changed is None or not changed.num_rows:
            return []
        n = len(self.template.keys)
        if maps.workers == 1 or not n:
            return [Contribution(At(0), changed)]
        at = places(changed.columns[:n], changed.num_rows, maps.workers)
        return [
            Contribution(At(worker), changed.take(np.flatnonzero(at == worker)))
            for worker in np.unique(at).tolist()
        ]

    def apply(self, maps: _Maps, given: Iterable[Contribution]) -> list[ViewRow]:
        """Add up what has become of the core; the rows that have changed."""
        tables = [of.delta for of in given]
        return self.shown(maps, pa.concat_tables(tables) if tables else None)

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
        codes: dict[tuple[Any, ...], bytes] = {}
        for key, at, change in zip(keys, attributes, values.T.tolist(), strict=True):
            encoded = codes.get(key)
            if encoded is None:
                encoded = codes[key] = self.codec.encode_key((0, *key))
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
