"""Relations that are read off maps: views, and what stands for a subquery, a HAVING, an outer join's count.

The rows of a `View` are functions of the entries of its map and of its sides at the same keys. They are read
virtually: entries are found by the columns that are keys, and the computed columns are compared after. A
reader may be asked for the rows as they were before some changes of its maps (`before`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Var, Vector, evaluate_vector, satisfied
from everfresh.expr.names import view_of
from everfresh.local.adhoc.frame import take
from everfresh.local.interpret.atoms import Found, Rows
from everfresh.local.interpret.frame_columns import Cells, VectorsOf, assemble, column_cells, same
from everfresh.local.kernels.netting import netted
from everfresh.local.order.extremes import NOTHING, Extremes
from everfresh.local.order.nearest import Nearest
from everfresh.local.order.places import in_order
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import float_rest, float_total, wide_from_int64, wide_to_python
from everfresh.local.store.entries import Before, EntryStore, settled
from everfresh.local.store.pool import Values
from everfresh.local.store.strings import Interner
from everfresh.program import Side, View, component_index, is_unscaled, side_of
from everfresh.types import BIGINT, DOUBLE, SqlType

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows as words of a codec, with weights."""

    codec: Codec
    words: Ints
    weights: Ints

    def __len__(self) -> int:
        return len(self.weights)

    def atom(self) -> Rows:
        """The rows as something a statement reads."""
        return Rows(self.codec, self.words, self.weights)

    def minus(self, other: RowSet) -> RowSet:
        """The net difference."""
        words = np.concatenate([other.words, self.words], axis=1)
        return RowSet(self.codec, *netted(words, np.concatenate([-other.weights, self.weights])))


def added(parts: Sequence[RowSet]) -> RowSet:
    """The net sum; at least one."""
    words = np.concatenate([p.words for p in parts], axis=1)
    return RowSet(parts[0].codec, *netted(words, np.concatenate([p.weights for p in parts])))


class _Aside:
    """One side of a view: its map, and which keys of the view's map it is read at."""

    def __init__(self, side: Side, number: int, store: EntryStore, base: EntryStore) -> None:
        self.side, self.store = side, store
        keys = [c.name for c in base.columns]
        own = store.columns[: len(store.columns) - side.beyond]
        names = [c.name for c in own]
        self.at = [keys.index(n) for n in names] if set(names) <= set(keys) else list(range(len(names)))
        self.codec = Codec(own, store.codec.interner)
        self.number = number
        self.visited = 0
        self.extremes: Extremes | None = None
        self.nearest: Nearest | None = None
        if side.than:
            self.nearest = Nearest(side, store, base)
            self.key = keys.index(side.key)
        elif side.how != "at":
            self.extremes = in_order(side, store)

    def env(
        self, key: Callable[[int], Cells], rows: int, wanted: Mapping[str, SqlType], before: Before
    ) -> dict[str, Cells]:
        """The variables of the side that are wanted, for rows with these keys."""
        mine = {name: type_ for name, type_ in wanted.items() if side_of(name) == self.number}
        if not mine:
            return {}
        if self.nearest is not None:
            seen = self.nearest.visited
            found = self.nearest.at([key(i) for i in self.at], key(self.key), rows, before)
            self.visited += self.nearest.visited - seen
            return dict.fromkeys(mine, Cells.of(found, self.store.codec.interner))
        words, able = assemble(self.codec, [key(i) for i in self.at], rows)
        if self.side.how == "at":
            slots = self.store.pool.find(words)
            if able is not None:
                every = np.full(rows, -1, np.int64)
                every[able] = slots
                slots = every
            values = self.store.entries(slots, before)
            return {name: component_cells(self.store, values, name, mine[name]) for name in mine}
        extremes = self._extremes(before)
        seen = extremes.visited
        found = extremes.at(words)
        self.visited += extremes.visited - seen
        if able is not None:
            place = np.full(rows, -1, np.int64)
            place[able] = np.arange(len(able))
            found = take(found, place)
        return dict.fromkeys(mine, Cells.of(found, self.store.codec.interner))

    def _extremes(self, before: Before) -> Extremes:
        assert self.extremes is not None
        hidden = self.store.target.name in before
        return in_order(self.side, self.store, before) if hidden else self.extremes


class ViewReader:
    """The rows of one view or derived relation."""

    def __init__(self, view: View, store: EntryStore, stores: Callable[[str], EntryStore]) -> None:
        self.view, self.store = view, store
        self.codec = Codec(view.columns, store.codec.interner)
        keys = [c.name for c in store.columns]
        self.sides = [_Aside(s, i, stores(s.map), store) for i, s in enumerate(view.sides, 1)]
        self.key_of = [
            keys.index(e.name) if isinstance(e, Var) and e.name in keys else None for e in view.outputs
        ]
        self.needs = self._needs()
        self._every = frozenset(range(len(view.outputs)))
        self._read: dict[frozenset[int], dict[str, SqlType]] = {}

    def _needs(self) -> tuple[int, ...] | None:
        """The columns that must be bound: one for each key, if there is a row for every key."""
        if not self.view.always or not self.store.columns:
            return None
        return tuple(self.key_of.index(i) for i in range(len(self.store.columns)))

    # -- as an atom --------------------------------------------------------------------------------

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int], before: Before) -> Found:
        """The rows that agree with the bound columns."""
        keys: dict[int, Cells] = {}
        for cells, place in zip(bound, self.key_of, strict=True):
            if cells is not None and place is not None:
                keys.setdefault(place, cells)
        rest = [i for i, cells in enumerate(bound) if cells is not None]
        if rest and not keys:  # only computed columns are bound: all rows, found by those
            return self.all(before).atom().join(bound, rows, want)
        if self.view.always:
            at, slots = np.arange(rows), self._lookup(keys, rows)
        else:
            names = tuple(c.name for i, c in enumerate(self.store.columns) if i in keys)
            at, slots = self.store.probe(names, [keys[i] for i in sorted(keys)], rows)
        visited = len(slots) - self.scanned

        def key(place: int) -> Cells:
            if place in keys:
                return keys[place].take(at)
            return self.store.cells(self.store.columns[place], slots)

        values = self.store.entries(slots, before)
        index, columns, weights = self._rows(key, values, frozenset((*want, *rest)), before)
        at = at if index is None else at[index]
        keep = np.ones(len(at), np.bool_)
        for i in rest:
            place = self.key_of[i]
            if place is None or keys[place] is not bound[i]:
                keep &= same(columns[i], bound[i].take(at))  # type: ignore[union-attr]
        if not keep.all():
            at, weights = at[keep], weights[keep]
            columns = {i: cells.take(keep) for i, cells in columns.items()}
        return Found(at, {i: columns[i] for i in want}, (weights,), visited + self.scanned)

    def read(self, at: Ints, slots: Ints, want: Sequence[int], before: Before) -> Found:
        """The rows of these entries for these rows of a frame."""
        values = self.store.entries(slots, before)
        index, columns, weights = self._rows(
            lambda place: self.store.cells(self.store.columns[place], slots), values, frozenset(want), before
        )
        return Found(at if index is None else at[index], columns, (weights,), len(slots))

    @property
    def scanned(self) -> int:
        """How many entries of sides have been looked at so far to find extremes."""
        return sum(aside.visited for aside in self.sides)

    def _lookup(self, keys: Mapping[int, Cells], rows: int) -> Ints:
        """The slot of each row's key, -1 for none."""
        words, able = assemble(self.store.codec, [keys[i] for i in range(len(self.store.columns))], rows)
        if not self.store.columns:
            live = self.store.slots()
            return np.full(rows, live[0] if len(live) else -1, np.int64)
        found = self.store.pool.find(words)
        if able is None:
            return found
        out = np.full(rows, -1, np.int64)
        out[able] = found
        return out

    # -- at keys -----------------------------------------------------------------------------------

    def at(self, words: Ints, before: Before = NOTHING) -> RowSet:
        """The rows at the keys `words`, each given once."""
        slots = self.store.pool.find(words) if self.store.columns else self._lookup({}, words.shape[1])
        return self._set(words, self.store.entries(slots, before), before)

    def all(self, before: Before = NOTHING) -> RowSet:
        """All rows."""
        return self._set(*self.every(before), before)

    def every(self, before: Before = NOTHING) -> tuple[Ints, Values]:
        """Keys and values of all entries."""
        if self.view.always and not self.store.columns:
            return np.zeros((0, 1), np.int64), self.store.entries(self._lookup({}, 1), before)
        slots = self.store.slots()
        return self.store.words(slots), self.store.entries(slots, before)

    def _set(self, words: Ints, values: Values, before: Before) -> RowSet:
        _, columns, weights = self.columns(words, values, before)
        made, able = assemble(self.codec, columns, len(weights))
        if able is not None:
            raise ValueError(f"a column of '{self.view.name}' that is never NULL is")
        return RowSet(self.codec, made, weights)

    def columns(
        self, words: Ints, values: Values, before: Before = NOTHING, strings: Interner | None = None
    ) -> tuple[Ints | None, list[Cells], Ints]:
        """The rows of entries with these keys and values: which entries give one (None: all), columns,
        weights.

        Computed strings go to `strings` if they become words.
        """
        index, columns, weights = self._rows(
            lambda i: column_cells(self.store.codec, self.store.columns[i], words),
            settled(values),
            self._every,
            before,
            strings,
        )
        return index, [columns[i] for i in sorted(columns)], weights

    def touched(self, changes: Mapping[str, Ints]) -> Ints:
        """The keys of the map at which changes of maps, given by their keys, may change rows."""
        store = self.store
        found = [changes[self.view.map]] if self.view.map in changes else []
        for aside in self.sides:
            words = changes.get(aside.side.map)
            if words is None:
                continue
            if aside.nearest is not None:
                found.append(aside.nearest.touched(words))
                continue
            from_ = aside.store
            cells = [column_cells(from_.codec, c, words) for c in from_.columns[: len(aside.at)]]
            by_key = dict(zip(aside.at, cells, strict=True))
            rows = words.shape[1]
            if len(by_key) == len(store.columns):
                found.append(assemble(store.codec, [by_key[i] for i in range(len(by_key))], rows)[0])
            else:
                names = tuple(c.name for i, c in enumerate(store.columns) if i in by_key)
                _, slots = store.probe(names, [by_key[i] for i in sorted(by_key)], rows)
                found.append(store.words(slots))
        every = np.concatenate(found, axis=1)
        return netted(every, np.ones(every.shape[1], np.int64))[0]

    # -- rows --------------------------------------------------------------------------------------

    def _rows(
        self,
        key: Callable[[int], Cells],
        values: Values,
        want: frozenset[int],
        before: Before,
        strings: Interner | None = None,
    ) -> tuple[Ints | None, dict[int, Cells], Ints]:
        """Which entries give rows (None: all), the wanted columns of the rows, and their weights."""
        view = self.view
        index: Ints | None = None
        if not view.always and not values.n.all():
            index = np.flatnonzero(values.n != 0)
            values = values.take(index)
        cache: dict[int, Cells] = {}

        def key_at(place: int) -> Cells:
            if place not in cache:
                cache[place] = key(place) if index is None else key(place).take(index)
            return cache[place]

        rows = len(values)
        env = self._env(want, key_at, values, rows, before)
        weights = values.n if view.bag else np.ones(rows, np.int64)
        if view.weight is not None:
            found = evaluate_vector(view.weight, VectorsOf(env), rows)
            weights = found.values.astype(np.int64)
            weights = weights if found.valid is None else np.where(found.valid, weights, 0)
        keep = weights != 0
        if view.having is not None:
            keep &= satisfied(view.having, VectorsOf(env), rows)
        if not keep.all():
            chosen = np.flatnonzero(keep)
            env = {name: cells.take(chosen) for name, cells in env.items()}
            cache = {place: cells.take(chosen) for place, cells in cache.items()}
            index = chosen if index is None else index[chosen]
            weights, rows = weights[chosen], len(chosen)
        columns: dict[int, Cells] = {}
        for i in want:
            place, expr = self.key_of[i], view.outputs[i]
            if place is not None:
                columns[i] = key_at(place)
            elif isinstance(expr, Var) and expr.name in env and not expr.type.is_text:
                columns[i] = env[expr.name]  # as it is: nothing is computed, and no string
            else:
                made = evaluate_vector(expr, VectorsOf(env), rows)
                columns[i] = Cells.of(made, self.store.codec.interner if strings is None else strings)
        return index, columns, weights

    def _env(
        self, want: frozenset[int], key: Callable[[int], Cells], values: Values, rows: int, before: Before
    ) -> dict[str, Cells]:
        """The variables that these columns, the filter and the weight read."""
        wanted = self._read.get(want)
        if wanted is None:
            exprs = [e for e in (self.view.having, self.view.weight) if e is not None]
            exprs += [self.view.outputs[i] for i in sorted(want) if self.key_of[i] is None]
            wanted = {n.name: n.type for e in exprs for n in e.walk() if isinstance(n, Var)}
            self._read[want] = wanted
        env: dict[str, Cells] = {}
        names = [c.name for c in self.store.columns]
        for name, type_ in wanted.items():
            if name in names:
                env[name] = key(names.index(name))
            elif side_of(name) == 0:
                env[name] = component_cells(self.store, values, name, type_)
        for aside in self.sides:
            env.update(aside.env(key, rows, wanted, before))
        return env


class Reader(Protocol):
    """What a derived relation offers."""

    codec: Codec
    needs: tuple[int, ...] | None
    """The columns that must be bound before it can be read."""

    @property
    def scanned(self) -> int:
        """How many entries beside those at its keys it has looked at so far."""

    def touched(self, changes: Mapping[str, Ints]) -> Ints:
        """Where changes of its maps, given by their keys, may change rows."""

    def at(self, words: Ints, before: Before = NOTHING) -> RowSet:
        """The rows there, each place given once."""

    def all(self, before: Before = NOTHING) -> RowSet:
        """All rows."""

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int], before: Before) -> Found:
        """The rows that agree with the bound columns."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A relation as an atom, before or after the changes of a step."""

    reader: Reader
    before: Before

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """As the reader finds it."""
        return self.reader.join(bound, rows, want, self.before)

    def read(self, at: Ints, slots: Ints, want: Sequence[int]) -> Found:
        """The rows of some entries of the relation's map."""
        assert isinstance(self.reader, ViewReader)
        return self.reader.read(at, slots, want, self.before)


def component_cells(store: EntryStore, values: Values, name: str, type_: SqlType) -> Cells:
    """`component_vector` as cells: without Python's integers where sums of a wide type are words."""
    interner, index = store.codec.interner, component_index(name)
    if index > 0 and type_.is_wide:
        kind, at = store.layout.kinds[index - 1], store.layout.offsets[index - 1]
        if kind == Kind.COUNT:
            return Cells(type_, interner, wide_from_int64(values.ints[at]), None)
        if kind == Kind.WIDE and (values.ints[at] == values.ints[at + 1] >> 63).all():
            return Cells(type_, interner, (values.ints[at], values.ints[at + 1]), None)
    return Cells.of(component_vector(store, values, name, type_), interner)


def component_vector(store: EntryStore, values: Values, name: str, type_: SqlType) -> Vector:
    """A component of some entries under the type that an expression reads it as, and in its way."""
    index = component_index(name)
    if index == 0:
        return Vector(BIGINT, values.n)
    kind, at = store.layout.kinds[index - 1], store.layout.offsets[index - 1]
    if kind == Kind.FLOAT:
        total = float_rest if is_unscaled(name) else float_total
        return Vector(DOUBLE, total(np.ascontiguousarray(values.floats[at : at + 3])))
    if kind == Kind.COUNT:
        return Vector(type_, values.ints[at].astype(object) if type_.is_wide else values.ints[at])
    low, high = type_.bounds
    words = values.ints[at], values.ints[at + 1]
    if len(values) and (words[0] == words[1] >> 63).all():  # the values are in the low words
        small = words[1]
        if low <= int(small.min()) and int(small.max()) <= high:
            return Vector(type_, small.astype(object) if type_.is_wide else small)
    exact = wide_to_python(*words)
    if any(not low <= value <= high for value in exact):
        raise EverfreshError(
            Code.OVERFLOW,
            f"a sum of view '{view_of(store.target.name)}' is outside {type_}",
            hint="the batch would make an aggregate too large for its type",
        )
    out = np.empty(len(exact), object if type_.is_wide else np.int64)
    out[:] = exact
    return Vector(type_, out)


__all__ = ["Reader", "Reading", "RowSet", "ViewReader", "added"]
