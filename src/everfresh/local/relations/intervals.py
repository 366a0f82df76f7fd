"""Where a condition on a running sum holds, read off an ordered index ("Running sums", docs/design/sql.md).

The entries of the map in the order of their key cut the values of the key into pieces: before the first, from
one to the next, behind the last. In a piece the running sum is the same. While no entry is negative it grows
or falls from piece to piece: a condition that compares it with a limit holds from some piece on, or up to
one, and that piece is found by one descent in the prefix sums. Otherwise all pieces are tried, in one pass,
which is the slow twin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.compiler import MIRRORED
from everfresh.expr import Call, Case, Cast, Const, Expr, Var, Vector, evaluate_vector, satisfied, variables
from everfresh.local.interpret.atoms import Found, Picked
from everfresh.local.interpret.frame_columns import Cells
from everfresh.local.order.extremes import NOTHING
from everfresh.local.order.range_join import band_of
from everfresh.local.order.value_index import Band
from everfresh.local.relations.view_reader import RowSet, component_vector
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import wide_from_python, wide_to_python
from everfresh.local.store.entries import Before, EntryStore
from everfresh.local.store.pool import Values
from everfresh.program import Intervals, component, component_index, side_of
from everfresh.types import SqlType

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunningLimit:
    """`component op limit`, in units of which `factor` are one of the component's, and compared as `type`;
    `empty`: whether it may hold over no entry."""

    component: int
    op: str
    limit: Expr
    factor: int
    empty: bool
    type: SqlType


def limit_of(having: Expr) -> RunningLimit | None:
    """A condition as a comparison of one running component with what comes from sides; None if it is
    another, or is not monotone in the component."""
    if isinstance(having, Call) and having.op == "not" and isinstance(having.args[0], Call):
        inner, opposite = having.args[0], {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
        if inner.op not in opposite or inner.nullable:
            return None
        having = Call(opposite[inner.op], inner.args)
    if not isinstance(having, Call) or having.op not in ("<", "<=", ">", ">="):
        return None
    left, right = having.args
    for own, op, limit in ((left, having.op, right), (right, MIRRORED[having.op], left)):
        if any("." not in v.name for v in variables(limit)):
            continue
        found = _component(own)
        if found is not None:
            component, factor, empty = found
            return RunningLimit(component, op, limit, factor, empty, own.type)
    return None


def _component(expr: Expr) -> tuple[int, int, bool] | None:
    """A running component, perhaps with more digits, and NULL over no entry or not."""
    factor = 1
    while True:
        match expr:
            case Cast(arg, to) if to.is_exact and arg.type.is_exact and to.scale >= arg.type.scale:
                factor *= 10 ** (to.scale - arg.type.scale)
                expr = arg
            case Call("*", (Const(int(times), of), arg) | (arg, Const(int(times), of))) if (
                times > 0 and expr.type.is_exact and expr.type.scale == of.scale + arg.type.scale
            ):
                factor *= times
                expr = arg
            case _:
                break
    match expr:
        case Case(((Call("=", (Var(count), Const(0))), Const(None)),), Var(name)):
            if count == component(0) and side_of(name) == 0:
                return component_index(name), factor, False
        case Var(name) if side_of(name) == 0:
            return component_index(name), factor, True
    return None


class IntervalReader:
    """The rows of one such relation."""

    needs: tuple[int, ...] | None = None

    def __init__(self, relation: Intervals, store: EntryStore, stores: Callable[[str], EntryStore]) -> None:
        self.relation, self.store = relation, store
        self.codec = Codec(relation.columns, store.codec.interner)
        self._sides = [stores(side.map) for side in relation.sides]
        self._key = store.columns[0]
        self._limit = limit_of(relation.having)
        self._after = int(relation.op in (">=", "<"))  # pieces begin behind an entry, or with it
        self._suffix = relation.op in (">", ">=")
        self._read = {v.name: v.type for v in variables(relation.having)}
        kinds = store.layout.kinds
        if (
            self._limit is not None
            and self._limit.component
            and kinds[self._limit.component - 1] == Kind.FLOAT
        ):
            self._limit = None
        self.scanned = 0

    def touched(self, changes: Mapping[str, Ints]) -> Ints:
        """The one place that there is."""
        return np.zeros((0, 1), np.int64)

    def at(self, words: Ints, before: Before = NOTHING) -> RowSet:
        """The rows, whatever `words` says."""
        return self.all(before)

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int], before: Before) -> Found:
        """All rows, found by the bound columns."""
        return self.all(before).atom().join(bound, rows, want)

    def all(self, before: Before = NOTHING) -> RowSet:
        """All rows."""
        found = None
        if self._limit is not None and self.store.target.name not in before:
            found = self._descend(self._limit, before)
        pieces = self._tried(before) if found is None else found
        type_ = self._key.type
        vectors = [
            Vector(type_, np.array(ends, object if type_.is_wide else np.int64).reshape(-1))
            for ends in ([low for low, _ in pieces], [high for _, high in pieces])
        ]
        words = self.codec.encode_vectors(vectors, len(pieces))
        return RowSet(self.codec, words, np.ones(len(pieces), np.int64))

    # -- one descent -------------------------------------------------------------------------------

    def _descend(self, limit: RunningLimit, before: Before) -> list[tuple[int, int]] | None:
        """The interval, or none; None if the sum is not monotone."""
        value = Var(self._key.name, self._key.type, False)
        band = band_of(value, Picked(self.store, ()), self.store, [c.name for c in self.store.columns])
        if not band.monotone(limit.component) or not band.monotone(0):
            return None
        self.scanned += 1
        vector = evaluate_vector(limit.limit, self._side_env(before, 1), 1)
        if vector.valid is not None and not vector.valid[0]:
            return []
        bound, exact = divmod(int(vector.values[0]), limit.factor)
        last, total = len(band), band.total(limit.component)
        if total * limit.factor > limit.type.bounds[1]:
            return None  # to raise what the condition raises
        first = 0
        if limit.op in ("<", "<="):  # the sum is at most `most`
            most = bound - (limit.op == "<" and not exact)
            if self._suffix:
                first = band.reaches(limit.component, total - most)
            else:
                last = band.reaches(limit.component, most + 1) - 1
        else:
            least = bound + (limit.op == ">" or bool(exact))
            if self._suffix:
                last = band.reaches(limit.component, total - least + 1) - 1
            else:
                first = band.reaches(limit.component, least)
        if not limit.empty:
            count = band.total(0)
            if self._suffix:
                last = min(last, band.reaches(0, count) - 1)
            else:
                first = max(first, band.reaches(0, 1))
        return [(self._start(band, first), self._stop(band, last))] if first <= last else []

    def _start(self, band: Band, piece: int) -> int:
        return self._key.type.bounds[0] if piece == 0 else band.value_at(piece - 1) + self._after

    def _stop(self, band: Band, piece: int) -> int:
        return self._key.type.bounds[1] if piece == len(band) else band.value_at(piece) + self._after - 1

    # -- one pass ----------------------------------------------------------------------------------

    def _tried(self, before: Before) -> list[tuple[int, int]]:
        """All pieces, those that touch put together."""
        store = self.store
        slots = store.slots()
        values = store.entries(slots, before)
        there = np.flatnonzero(values.n)
        slots, values = slots[there], values.take(there)
        keys = store.cells(self._key, slots).vector.values
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order].tolist(), values.take(order)
        m = len(keys)
        self.scanned += m
        env = dict(self._side_env(before, m + 1))
        running = self._running(values)
        for name, type_ in self._read.items():
            if "." not in name:
                env[name] = component_vector(store, running, name, type_)
        holds = satisfied(self.relation.having, env, m + 1)
        low, high = self._key.type.bounds
        starts = [low, *(k + self._after for k in keys)]
        stops = [*(k + self._after - 1 for k in keys), high]
        found: list[tuple[int, int]] = []
        for piece in np.flatnonzero(
            holds & (np.array(starts, object) <= np.array(stops, object)).astype(bool)
        ):
            if found and found[-1][1] + 1 == starts[piece]:
                found[-1] = found[-1][0], stops[piece]
            else:
                found.append((starts[piece], stops[piece]))
        return found

    def _running(self, values: Values) -> Values:
        """The sums of each piece: over the entries before it, or from it on."""
        m, layout = len(values), self.store.layout
        out = Values.zeros(layout, m + 1)
        out.n[:] = _cumulated(values.n, self._suffix)
        for kind, at in zip(layout.kinds, layout.offsets, strict=True):
            if kind == Kind.COUNT:
                out.ints[at] = _cumulated(values.ints[at], self._suffix)
            elif kind == Kind.WIDE:
                sums = _cumulated(np.array(wide_to_python(*values.ints[at : at + 2]), object), self._suffix)
                out.ints[at], out.ints[at + 1] = wide_from_python(sums.tolist())
            else:
                out.floats[at] = _cumulated(values.floats[at : at + 3].sum(axis=0), self._suffix)
        return out

    def _side_env(self, before: Before, rows: int) -> dict[str, Vector]:
        env = {}
        for name, type_ in self._read.items():
            if "." in name:
                side, _ = name[1:].split(".")
                store = self._sides[int(side) - 1]
                live = store.slots()
                slots = np.full(rows, live[0] if len(live) else -1, np.int64)
                values = store.entries(slots, before)
                env[name] = component_vector(store, values, name, type_)
        return env


def _cumulated(x: NDArray[Any], suffix: bool) -> NDArray[Any]:
    zero = np.zeros(1, x.dtype)
    if suffix:
        return np.concatenate([np.cumsum(x[::-1])[::-1], zero])
    return np.concatenate([zero, np.cumsum(x)])
