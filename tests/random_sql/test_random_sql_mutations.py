"""Deliberately broken rules of the compiler and of plans: random SQL must find each within some histories.

A mutation is a way in which maintenance could be wrong. One that survives means that the generator does not
make what it breaks. The number beside each is how many histories it may take, about four times what it takes
today. (`tests/reliability` has such a list for the flat views of one table.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import everfresh.compiler.lower
import everfresh.local.adhoc.run  # noqa: F401
from everfresh.calculus import Cond, Prod, product, union
from everfresh.compiler import Catalog
from everfresh.expr import Call
from everfresh.local import mapstore, state
from everfresh.local.adhoc import aggregate, graph, join, run, window
from everfresh.local.adhoc.subquery import Answers
from everfresh.sql import plan as p
from everfresh.testing.random_sql.data import random_case
from everfresh.testing.random_sql.drive import Judge

delta: Any = sys.modules["everfresh.calculus.delta"]
lower: Any = sys.modules["everfresh.compiler.lower"]
Patch = pytest.MonkeyPatch


# -- deltas of joins -----------------------------------------------------------------------------------------


def no_cross_term(patch: Patch) -> None:
    """Δ(A * B) = ΔA * B + A * ΔB: wrong where both change, as in a self-join."""

    def wrong(q: Any, names: Any) -> Any:
        terms = []
        for i, factor in enumerate(q.factors):
            change = delta.delta(factor, names)
            if change != delta.ZERO:
                terms.append(product(*q.factors[:i], change, *q.factors[i + 1 :]))
        return union(*terms) if terms else delta.ZERO

    patch.setitem(delta.RULES, Prod, wrong)


def sign_of_the_cross_term(patch: Patch) -> None:
    """Δ(A * B) = ΔA * B + A * ΔB - ΔA * ΔB."""
    right = delta.RULES[Prod]

    def wrong(q: Any, names: Any) -> Any:
        found = right(q, names)
        terms = found.terms if isinstance(found, delta.Plus) else (found,)
        several = [sum(getattr(n, "delta", False) is True for n in t.walk()) > 1 for t in terms]
        return union(*(delta.Neg(t) if s else t for t, s in zip(terms, several, strict=True)))

    patch.setitem(delta.RULES, Prod, wrong)


def null_guard_dropped(patch: Patch) -> None:
    """`x = y` as a shared variable, without `x IS NOT NULL`."""
    right = lower.unified

    def wrong(factors: Any, columns: Any) -> Any:
        parts, columns = right(factors, columns)
        guards = [f for f in parts if f not in factors and isinstance(f, Cond) and _is_guard(f.condition)]
        return tuple(f for f in parts if f not in guards), columns

    patch.setattr(lower, "unified", wrong)


def _is_guard(condition: Any) -> bool:
    inner = condition.args[0] if isinstance(condition, Call) and condition.op == "not" else None
    return isinstance(inner, Call) and inner.op == "is_null"


def deletes_add(patch: Patch) -> None:
    """The sign of a change is lost where it is joined."""
    right = state.run_joined
    patch.setattr(state, "run_joined", lambda *args: (d := right(*args)) and replace(d, n=np.abs(d.n)))


def old_and_new_swapped(patch: Patch) -> None:
    """All triggers of a batch read the state before it: changes of two tables do not meet."""
    right, statements = state.LocalState.changing, state.LocalState._statements

    @contextmanager
    def wrong(self: Any, nets: Any) -> Iterator[Any]:
        before = {name: statements(self, name, change) for name, change in nets.items()}
        self._statements = lambda name, change: before[name]
        try:
            with right(self, nets) as changes:
                yield changes
        finally:
            del self._statements

    patch.setattr(state.LocalState, "changing", wrong)


def count_by_sum(patch: Patch) -> None:
    """A group is there while one of its sums is not zero."""
    right = mapstore.MapStore.rows_of

    def wrong(self: Any, words: Any, values: Any) -> Any:
        if len(self.layout.kinds) and not self.view.always:
            there = (values.ints != 0).any(axis=0) | (values.floats != 0).any(axis=0)
            words, values = np.ascontiguousarray(words[:, there]), values.take(there)
        return right(self, words, values)

    patch.setattr(mapstore.MapStore, "rows_of", wrong)


def views_over_views_stay(patch: Patch) -> None:
    """A change of a table reaches the views over it, not the views over them."""
    right = Catalog.affected_by

    def wrong(self: Any, names: Any) -> Any:
        names = set(names)
        return tuple(view for view in right(self, names) if names.intersection(view.compiled.bases))

    patch.setattr(Catalog, "affected_by", wrong)


# -- conditions and subqueries -------------------------------------------------------------------------------


def true_and_false_swapped(patch: Patch) -> None:
    """ALL answers where it is false."""
    right = Answers.quantified
    patch.setattr(
        Answers, "quantified", lambda self, args, op, all_, *more: right(self, args, op, False, *more)
    )


def not_in_by_not_exists(patch: Patch) -> None:
    """A NULL member, or NULL asking, counts as not equal."""
    right = Answers._equal

    def wrong(self: Any, *args: Any) -> Any:
        equal, perhaps = right(self, *args)
        return equal, np.zeros_like(perhaps)

    patch.setattr(Answers, "_equal", wrong)


def exists_of_one(patch: Patch) -> None:
    """EXISTS holds where there is exactly one row: counts instead of truth."""
    right = Answers.exists
    patch.setattr(
        Answers, "exists", lambda self, ids: replace_values(right(self, ids), self._sizes[ids] == 1)
    )


def replace_values(vector: Any, values: Any) -> Any:
    return type(vector)(vector.type, values)


def null_equals_null(patch: Patch) -> None:
    """`=` of a join compares by identity."""
    _keys_are(patch, same=True)


def null_differs_from_null(patch: Patch) -> None:
    """IS NOT DISTINCT FROM of a join is `=`."""
    _keys_are(patch, same=False)


def _keys_are(patch: Patch, same: bool) -> None:
    right = join.key_of

    def wrong(*args: Any) -> Any:
        key = right(*args)
        return None if key is None else replace(key, same=same)

    patch.setattr(join, "key_of", wrong)
    patch.setattr(graph, "key_of", wrong)


# -- aggregates, outer joins, sets, windows, LIMIT -----------------------------------------------------------


def missing_group_is_null(patch: Patch) -> None:
    """COUNT over no rows is NULL, as the default of a missing group."""
    right = run.aggregate

    def wrong(rows: Any, *args: Any) -> Any:
        found = right(rows, *args)
        return found.with_valid(rows.sizes > 0) if rows.fn == "count" else found

    patch.setattr(run, "aggregate", wrong)


def distinct_ignored(patch: Patch) -> None:
    """COUNT(DISTINCT x) is COUNT(x)."""
    right = run.aggregate
    patch.setattr(run, "aggregate", lambda rows, distinct, *args: right(rows, False, *args))


def distinct_ignores_filter(patch: Patch) -> None:
    """Values are made distinct before FILTER, so that the row that is kept may be the wrong one."""
    right = run.aggregate

    def wrong(rows: Any, distinct: bool, kept: Any, words: Any) -> Any:
        return right(rows, distinct, None if distinct else kept, words)

    patch.setattr(run, "aggregate", wrong)


def largest_for_smallest(patch: Patch) -> None:
    """MIN is MAX."""
    patch.setitem(aggregate.FUNCTIONS, "min", aggregate.FUNCTIONS["max"])


def sample_for_population(patch: Patch) -> None:
    """VAR_POP divides by n - 1."""
    patch.setitem(aggregate.FUNCTIONS, "var_pop", aggregate.FUNCTIONS["var_samp"])


def no_padding_on_the_right(patch: Patch) -> None:
    """FULL JOIN is LEFT JOIN."""
    _join_as(patch, {"full": "left"})


def no_padding_on_the_left(patch: Patch) -> None:
    """LEFT JOIN keeps no row without partner."""
    _join_as(patch, {"left": "inner"})


def _join_as(patch: Patch, kinds: dict[str, str]) -> None:
    right = run.outer_join

    def wrong(plan: Any, *args: Any) -> Any:
        return right(p.Join(kinds.get(plan.kind, plan.kind), *plan.inputs, plan.condition), *args)

    patch.setattr(run, "outer_join", wrong)


def all_forgotten(patch: Patch) -> None:
    """UNION ALL is UNION, and so on."""
    _set_as(patch, all_=False)


def all_everywhere(patch: Patch) -> None:
    """UNION is UNION ALL, and so on."""
    _set_as(patch, all_=True)


def _set_as(patch: Patch, all_: bool) -> None:
    right = run._kept
    patch.setattr(run, "_kept", lambda plan, *args: right(p.SetOperation(plan.op, all_, *plan.inputs), *args))


def one_row_too_many(patch: Patch) -> None:
    """LIMIT takes the row after its last."""
    right = run._OPERATORS[p.Limit]

    def wrong(self: Any, plan: Any, outer: Any) -> Any:
        more = plan.count + 1 if plan.count is not None else None
        return right(self, p.Limit(plan.input, more, plan.offset), outer)

    patch.setitem(run._OPERATORS, p.Limit, wrong)


def ranks_are_dense(patch: Patch) -> None:
    """RANK leaves no gaps."""
    patch.setitem(window._RANKS, "rank", window._RANKS["dense_rank"])


def groups_for_every_combination(patch: Patch) -> None:
    """DISTINCT is ignored."""
    patch.setitem(run._OPERATORS, p.Distinct, lambda self, plan, outer: self.frame(plan.input, outer))


MUTATIONS: dict[Callable[[Patch], None], int] = {
    no_cross_term: 100,
    sign_of_the_cross_term: 100,
    null_guard_dropped: 100,
    deletes_add: 30,
    old_and_new_swapped: 60,
    count_by_sum: 100,
    views_over_views_stay: 15,
    true_and_false_swapped: 60,
    not_in_by_not_exists: 60,
    exists_of_one: 60,
    null_equals_null: 30,
    null_differs_from_null: 100,
    missing_group_is_null: 15,
    distinct_ignored: 60,
    distinct_ignores_filter: 100,
    largest_for_smallest: 15,
    sample_for_population: 60,
    no_padding_on_the_right: 60,
    no_padding_on_the_left: 30,
    all_forgotten: 60,
    all_everywhere: 60,
    one_row_too_many: 30,
    ranks_are_dense: 100,
    groups_for_every_combination: 60,
}
"""The broken rules, and in how many histories each must be found."""


def first_difference(histories: int) -> int | None:
    """The first seed that shows a difference."""
    judge = Judge()
    try:
        for seed in range(histories):
            if judge.problem(random_case(seed).history) is not None:
                return seed
    finally:
        judge.close()
    return None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_mutations_are_found(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    assert first_difference(MUTATIONS[mutation]) is not None, mutation.__doc__


def test_without_a_mutation_nothing_is_found() -> None:
    assert first_difference(3) is None
