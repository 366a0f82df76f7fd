"""A view's map in a pool: adding what statements compute, and publishing the view's rows and its own change.

The view's change in a batch is, for each touched entry, minus its row before and plus its row after: what
`changes()` returns and what a view over this view would read as its delta.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import Query
from everfresh.compiler import CompiledView
from everfresh.delta.bags import WEIGHT, net
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Var, Vector, evaluate_vector, satisfied
from everfresh.local.columnar import FlatPlan, flat_plan
from everfresh.local.entries import EntryStore
from everfresh.local.pool import Pool, Touched, Values, float_total, wide_to_python
from everfresh.local.strings import Interner
from everfresh.program import component_index
from everfresh.types import BIGINT, DOUBLE, Column, SqlType, arrow_schema

Ints = NDArray[np.int64]


class MapStore(EntryStore):
    """The map of one view (or of one partition of it)."""

    def __init__(self, compiled: CompiledView, interner: Interner, pool: Pool | None = None) -> None:
        super().__init__(compiled.map, interner, pool)
        self.compiled = compiled
        self.view = compiled.view
        self._types = _component_types(compiled)

    def plans(self, base: str) -> list[FlatPlan]:
        """What to run when `base` changes, for a view over that table alone."""
        trigger = self.compiled.program.trigger(base)
        found = (
            [flat_plan(self.target, s.expr) for s in trigger.statements if isinstance(s.expr, Query)]
            if trigger
            else []
        )
        return [plan for plan in found if plan is not None]

    def load_plan(self) -> FlatPlan | None:
        """How to fill the map from the whole of its table; None if its definition is empty or not over
        one table."""
        definition = self.target.definition
        return flat_plan(self.target, definition) if isinstance(definition, Query) else None

    # -- change ------------------------------------------------------------------------------------

    def replace(self, rows: pa.Table) -> Touched:
        """Make the rows of a re-evaluated view `rows`; `commit` or `rollback` must follow."""
        slots = self.pool.live()
        new = self.codec.encode(rows)
        values = Values.zeros(self.layout, len(slots) + rows.num_rows)
        values.n[: len(slots)] = -self.pool.gather(slots).n
        values.n[len(slots) :] = 1
        return self.pool.add(np.concatenate([self.pool.keys_at(slots), new], axis=1), values)

    def published(self, touched: Touched) -> pa.Table:
        """The change of the view's rows that a change of its map made, with `_weight`."""
        new = self.pool.gather(touched.slots)
        old = touched.old
        changed = (
            (new.n != old.n) | (new.ints != old.ints).any(axis=0) | (new.floats != old.floats).any(axis=0)
        )
        if not changed.any():
            return self.no_change()
        words = self.pool.keys_at(touched.slots[changed])
        before = self.rows_of(words, old.take(changed))
        after = self.rows_of(words, new.take(changed))
        minus = pa.array(-before.column(WEIGHT).to_numpy())
        before = before.set_column(before.num_columns - 1, before.schema.field(WEIGHT), minus)
        return net(pa.concat_tables([before, after]))

    def no_change(self) -> pa.Table:
        """The empty change."""
        return weighted_schema(self.view.columns).empty_table()

    # -- reading -----------------------------------------------------------------------------------

    def rows(self) -> pa.Table:
        """All rows of the view with their multiplicity as `_weight`."""
        slots = self.pool.live()
        if self.view.always and not len(slots):
            return self.rows_of(np.zeros((self.codec.words, 1), np.int64), Values.zeros(self.layout, 1))
        return self.rows_of(self.pool.keys_at(slots), self.pool.gather(slots))

    def rows_of(self, words: Ints, values: Values) -> pa.Table:
        """The rows of some entries: outputs evaluated, HAVING applied; entries with n = 0 have none."""
        if not self.view.always:
            there = values.n != 0
            if not there.all():
                words, values = np.ascontiguousarray(words[:, there]), values.take(there)
        count = len(values.n)
        env = self.codec.vectors(words)
        env.update(self._components(values, count))
        weights = values.n if self.view.bag else np.ones(count, np.int64)
        if self.view.having is not None:
            keep = satisfied(self.view.having, env, count)
            env = {name: vector.filter(keep) for name, vector in env.items()}
            weights, count = weights[keep], int(keep.sum())
        arrays = [evaluate_vector(expr, env, count).to_arrow() for expr in self.view.outputs]
        return pa.Table.from_arrays(
            [*arrays, pa.array(weights, pa.int64())], schema=weighted_schema(self.view.columns)
        )

    def _components(self, values: Values, count: int) -> dict[str, Vector]:
        """The components that the outputs read, under the types they read them."""
        env: dict[str, Vector] = {}
        for name, type_ in self._types.items():
            index = component_index(name)
            if index == 0:
                env[name] = Vector(BIGINT, values.n)
                continue
            kind, at = self.layout.kinds[index - 1], self.layout.offsets[index - 1]
            if kind == Kind.FLOAT:
                env[name] = Vector(DOUBLE, float_total(np.ascontiguousarray(values.floats[at : at + 3])))
            elif kind == Kind.WIDE:
                env[name] = self._wide(type_, wide_to_python(values.ints[at], values.ints[at + 1]), count)
            else:
                env[name] = Vector(
                    type_, values.ints[at].astype(object) if type_.is_wide else values.ints[at]
                )
        return env

    def _wide(self, type_: SqlType, exact: list[int], count: int) -> Vector:
        low, high = type_.bounds
        if any(not low <= value <= high for value in exact):
            raise EverfreshError(
                Code.OVERFLOW,
                f"a sum of view '{self.view.name}' is outside {type_}",
                hint="the batch would make an aggregate too large for its type",
            )
        values = np.empty(count, object)
        values[:] = exact
        return Vector(type_, values)


def _component_types(compiled: CompiledView) -> dict[str, SqlType]:
    """The type under which the outputs read each component."""
    exprs = [*compiled.view.outputs, compiled.view.having or Const(True, BIGINT)]
    return {n.name: n.type for e in exprs for n in e.walk() if isinstance(n, Var) and n.name.startswith("#")}


def weighted_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of rows with `_weight`."""
    return arrow_schema(tuple(columns)).append(pa.field(WEIGHT, pa.int64(), nullable=False))
