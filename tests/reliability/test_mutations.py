"""Deliberately broken rules: the random histories must find each of them, or they show nothing.

Each mutation is a way the local engine could be wrong. One that survives means that the generator never
makes what it breaks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import everfresh as ef
import everfresh.compiler.lowering.lower
from everfresh.calculus import Bind, Cond, Prod, Rel
from everfresh.calculus.spec import SpecError
from everfresh.expr import Const
from everfresh.local import state
from everfresh.local.batch import steps
from everfresh.local.interpret import interpreter as joined
from everfresh.local.relations import view_reader as reading
from everfresh.local.store import map_store as mapstore
from everfresh.local.store import resolution
from everfresh.testing.forgetting import forget_compiled
from everfresh.testing.histories import random_history
from everfresh.testing.oracle import DuckOracle
from everfresh.testing.replay import Difference, run_history

WITHIN = 15
"""In how many histories a mutation must be found."""

delta = sys.modules["everfresh.calculus.delta"]
lower: Any = sys.modules["everfresh.compiler.lowering.lower"]
Patch = Callable[[Any, str, Any], None]


def delta_of_a_product_forgets_conditions(patch: Patch) -> None:
    right = delta.RULES[Prod]
    patch(
        delta,
        "RULES",
        delta.RULES
        | {Prod: lambda q, names: right(Prod(tuple(f for f in q.factors if not isinstance(f, Cond))), names)},
    )


def delta_of_a_relation_is_the_relation(patch: Patch) -> None:
    patch(delta, "RULES", delta.RULES | {Rel: lambda q, names: q})


def conditions_are_ignored(patch: Patch) -> None:
    patch(joined, "_STEPS", joined._STEPS | {Cond: lambda *args: None})


def bound_values_are_ignored(patch: Patch) -> None:
    right = joined._STEPS[Bind]

    def wrong(frame: Any, step: Any, *args: Any) -> None:
        right(frame, step, *args)
        name = step.factor.var.name
        if name in frame.columns:
            frame.columns[name] = frame.columns[name].take(np.zeros(frame.rows, np.int64))

    patch(joined, "_STEPS", joined._STEPS | {Bind: wrong})


def an_unknown_condition_counts_as_true(patch: Patch) -> None:
    def wrong(expr: Any, env: Any, rows: int) -> Any:
        found = joined.evaluate_vector(expr, env, rows)
        return found.values if found.valid is None else found.values | ~found.valid

    patch(joined, "satisfied", wrong)


def the_sign_of_weights_is_dropped(patch: Patch) -> None:
    _change_weights(patch, np.abs)


def multiplicities_are_one(patch: Patch) -> None:
    _change_weights(patch, np.sign)


def a_group_is_there_while_its_sums_are_not_zero(patch: Patch) -> None:
    right = reading.ViewReader._rows

    def wrong(self: Any, key: Any, values: Any, *args: Any) -> Any:
        if self.store.layout.kinds and not self.view.always:
            there = values.ints.any(axis=0) | values.floats.any(axis=0)
            values = replace(values, n=np.where(there, values.n, 0))
        return right(self, key, values, *args)

    patch(reading.ViewReader, "_rows", wrong)


def groups_of_null_are_lost(patch: Patch) -> None:
    right = steps.run_prepared

    def wrong(statement: Any, names: Any) -> Any:
        found = right(statement, names)
        keep = np.ones(len(found), np.bool_)
        for key in statement.store.codec.vectors(found.words).values():
            keep &= True if key.valid is None else key.valid
        return replace(
            found, words=np.ascontiguousarray(found.words[:, keep]), values=found.values.take(keep)
        )

    patch(steps, "run_prepared", wrong)


def null_counts_in_count_and_avg(patch: Patch) -> None:
    right = lower.build.call
    patch(
        lower.build,
        "call",
        lambda op, *args: Const(1, right(op, *args).type) if op == "not_null01" else right(op, *args),
    )


def filter_is_ignored(patch: Patch) -> None:
    right = lower.aggregate
    patch(
        lower, "aggregate", lambda call, *args, **kwargs: right(replace(call, filter=None), *args, **kwargs)
    )


def having_is_ignored(patch: Patch) -> None:
    _change_view(patch, having=None)


def an_aggregate_over_nothing_has_no_row(patch: Patch) -> None:
    _change_view(patch, always=False)


def rows_come_once(patch: Patch) -> None:
    _change_view(patch, bag=False)


def changes_forget_what_was_there(patch: Patch) -> None:
    right = mapstore.MapStore._published

    def wrong(self: Any, words: Any, old: Any, new: Any) -> Any:
        found = right(self, words, old, new)
        return found.filter(np.array([w > 0 for w in found.column("_weight").to_pylist()], np.bool_))

    patch(mapstore.MapStore, "_published", wrong)


def changes_are_of_counts_only(patch: Patch) -> None:
    right = mapstore.MapStore._published

    def wrong(self: Any, words: Any, old: Any, new: Any) -> Any:
        return self.no_change() if (new.n == old.n).all() else right(self, words, old, new)

    patch(mapstore.MapStore, "_published", wrong)


def a_late_view_is_not_loaded(patch: Patch) -> None:
    patch(state, "load", lambda *args: None)


def a_batch_reaches_only_its_first_table(patch: Patch) -> None:
    right = state.LocalState.changing
    patch(state.LocalState, "changing", lambda self, nets: right(self, dict(list(nets.items())[:1])))


def equal_rows_of_a_batch_are_one(patch: Patch) -> None:
    right = resolution._net

    def wrong(words: Any, weights: Any) -> Any:
        found, total, first = right(words, weights)
        return found, np.sign(total), first

    patch(resolution, "_net", wrong)


def an_infinity_is_a_nan(patch: Patch) -> None:
    right = lower.build.call
    patch(lower.build, "call", lambda op, *args: right("is_nan01" if op == "is_ninf01" else op, *args))


MUTATIONS = [
    delta_of_a_product_forgets_conditions,
    delta_of_a_relation_is_the_relation,
    conditions_are_ignored,
    bound_values_are_ignored,
    an_unknown_condition_counts_as_true,
    the_sign_of_weights_is_dropped,
    multiplicities_are_one,
    a_group_is_there_while_its_sums_are_not_zero,
    groups_of_null_are_lost,
    null_counts_in_count_and_avg,
    filter_is_ignored,
    having_is_ignored,
    an_aggregate_over_nothing_has_no_row,
    rows_come_once,
    changes_forget_what_was_there,
    changes_are_of_counts_only,
    a_late_view_is_not_loaded,
    a_batch_reaches_only_its_first_table,
    equal_rows_of_a_batch_are_one,
    an_infinity_is_a_nan,
]


def _change_weights(patch: Patch, how: Any) -> None:
    right = steps.Rows
    patch(steps, "Rows", lambda codec, words, weights: right(codec, words, how(weights)))


def _change_view(patch: Patch, **changes: Any) -> None:
    right = everfresh.compiler.compile.lower

    def wrong(*args: Any, **how: Any) -> Any:
        lowered = right(*args, **how)
        return replace(lowered, view=replace(lowered.view, **changes))

    patch(sys.modules["everfresh.compiler.compile"], "lower", wrong)


def first_difference() -> int | None:
    """The first history that shows a difference."""
    oracle = DuckOracle()
    try:
        for seed in range(WITHIN):
            try:
                with ef.connect(engine="local") as db:
                    run_history(db, oracle, random_history(seed, 60, 6), None)
            except (Difference, SpecError, ValueError, ef.EverfreshError):
                return seed
    finally:
        oracle.close()
    return None


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """What the compiler remembers of expressions is that of its rules: none of other rules may stay."""
    forget_compiled()
    yield
    forget_compiled()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__.replace("_", " "))
def test_mutations_are_found(mutation: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch.setattr)
    assert first_difference() is not None, f"not found in {WITHIN} histories"


def test_without_a_mutation_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "WITHIN", 3)
    assert first_difference() is None


def test_a_damaged_map_is_found_by_verify() -> None:
    with ef.connect(engine="local") as db:
        db.sql(
            "CREATE TABLE t (g VARCHAR, x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, "
            "COUNT(*) AS n FROM t GROUP BY g"
        )
        db.apply(t=[("a", 1), ("b", 2)])
        assert db.view("v").verify().num_rows == 0
        store = db._engine._state.maps["v"]
        slots = store.pool.live()
        values = store.pool.gather(slots[:1])
        values.n[:] = 1
        store.pool.commit(store.pool.add(store.pool.keys_at(slots[:1]), values))
        assert sorted(db.view("v").verify().column("_weight").to_pylist()) == [-1, 1]
