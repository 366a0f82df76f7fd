"""Deliberately broken rules of the compiler and of plans: random SQL must find each within some histories.

A mutation is a way in which maintenance could be wrong. One that survives means that the generator does not
make what it breaks. Beside each stands what a view must contain to be worth running, and how many histories
with such views it may take, a few times what it takes today. Those that take long are for the soak.
(`tests/reliability` has such a list for the flat views of one table.)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

import everfresh as ef
import everfresh.compiler.lowering.lower
import everfresh.local.adhoc.run
from everfresh.calculus import Cond, Each, Prod, product, union
from everfresh.compiler import Catalog, Monomial
from everfresh.compiler.lowering import decorrelate as closing
from everfresh.compiler.lowering import partitions, quantified, subqueries
from everfresh.compiler.lowering import products as rows
from everfresh.compiler.viewlet import map_registry as held
from everfresh.compiler.viewlet import materialize
from everfresh.expr import Call, Const, Vector, build, concat
from everfresh.local import state
from everfresh.local.adhoc import aggregate, graph, join, run, window
from everfresh.local.adhoc.subquery import SubqueryAnswers
from everfresh.local.batch import linked_programs as wiring
from everfresh.local.batch import steps
from everfresh.local.interpret import interpreter
from everfresh.local.order import places
from everfresh.local.order.followers import Ordered
from everfresh.local.relations import view_reader as reading
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.queries import pivots
from everfresh.testing.forgetting import forget_compiled
from everfresh.testing.random_sql.data import Case, random_case
from everfresh.testing.random_sql.drive import Judge
from everfresh.testing.state_check import check_state
from everfresh.types import BOOLEAN

delta: Any = sys.modules["everfresh.calculus.delta"]
lower: Any = sys.modules["everfresh.compiler.lowering.lower"]
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


def _is_guard(condition: Any) -> bool:
    inner = condition.args[0] if isinstance(condition, Call) and condition.op == "not" else None
    return isinstance(inner, Call) and inner.op == "is_null"


def deletes_add(patch: Patch) -> None:
    """The sign of a change is lost where it is joined."""
    right = steps.run_prepared

    def wrong(*args: Any) -> Any:
        found = right(*args)
        return replace(found, values=replace(found.values, n=np.abs(found.values.n)))

    patch.setattr(steps, "run_prepared", wrong)


def old_and_new_swapped(patch: Patch) -> None:
    """All tables of a batch change before any statement runs: a trigger reads the new rows of its own table
    and of later ones."""
    right = state.Steps.table

    def wrong(self: Any, name: str, net: Any) -> None:
        table = self._wiring.tables[name]
        self._change(table, net)
        change = steps.Rows(table.codec, net.words, net.weights)
        self._distribute(self._statements(self._wiring.statements(name), change, -1))
        self._units(name)

    assert right is steps.Steps.table
    patch.setattr(steps.Steps, "table", wrong)


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
    right = SubqueryAnswers.quantified
    patch.setattr(
        SubqueryAnswers, "quantified", lambda self, args, op, all_, *more: right(self, args, op, False, *more)
    )


def not_in_by_not_exists(patch: Patch) -> None:
    """A NULL member, or NULL asking, counts as not equal."""
    right = SubqueryAnswers._equal

    def wrong(self: Any, *args: Any) -> Any:
        equal, perhaps = right(self, *args)
        return equal, np.zeros_like(perhaps)

    patch.setattr(SubqueryAnswers, "_equal", wrong)


def exists_of_one(patch: Patch) -> None:
    """EXISTS holds where there is exactly one row: counts instead of truth."""
    right = SubqueryAnswers.exists
    patch.setattr(
        SubqueryAnswers, "exists", lambda self, ids: replace_values(right(self, ids), self._sizes[ids] == 1)
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


# -- lists ---------------------------------------------------------------------------------------------------


def short_lists_end_all(patch: Patch) -> None:
    """Lists side by side are as long as the shortest."""
    right = interpreter.spread

    def wrong(lists: Any, columns: Any, rows: int) -> Any:
        index, found = right(lists, columns, rows)
        each = [np.bincount(right([e], columns, rows)[0], minlength=rows) for e in lists]
        place = np.arange(len(index)) - np.searchsorted(index, index)
        kept = place < np.min(each, axis=0)[index]
        return index[kept], [values.take(kept) for values in found]

    patch.setattr(interpreter, "spread", wrong)


def empty_lists_keep_their_row(patch: Patch) -> None:
    """A list without values has a row with NULL."""
    right = interpreter.spread

    def wrong(lists: Any, columns: Any, rows: int) -> Any:
        index, found = right(lists, columns, rows)
        gone = np.setdiff1d(np.arange(rows), index)
        padded = [concat([v, Vector.nulls(v.type, len(gone)).contiguous()]) for v in found]
        return np.concatenate([index, gone]), padded if len(gone) else found

    patch.setattr(interpreter, "spread", wrong)


def values_of_lists_are_not_compared(patch: Patch) -> None:
    """A list that is taken apart where a value of it is known gives all of its values."""
    right = interpreter._STEPS[Each]

    def wrong(frame: Any, step: Any, *args: Any) -> Any:
        for v in step.factor.vars:
            frame.columns.pop(v.name, None)
        return right(frame, step, *args)

    patch.setitem(interpreter._STEPS, Each, wrong)


def pivots_count_all_rows(patch: Patch) -> None:
    """A column of a PIVOT is over the rows of all values."""
    right = pivots._chosen

    def wrong(source: Any, call: Any, same: Any, *args: Any) -> Any:
        known = [type(same[0])(this=same[0].this.copy(), expression=same[0].this.copy())]
        return right(source, call, known, *args)

    patch.setattr(pivots, "_chosen", wrong)


def unpivots_have_no_nulls(patch: Patch) -> None:
    """INCLUDE NULLS is nothing."""
    right = pivots._unpivot

    def wrong(source: Any, of: Any, pivot: Any, names: Any) -> Any:
        pivot = pivot.copy()
        pivot.set("include_nulls", None)
        return right(source, of, pivot, names)

    patch.setattr(pivots, "_unpivot", wrong)


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


# -- the compiler and derived relations ----------------------------------------------------------------------


def guard_of_unified_keys_dropped(patch: Patch) -> None:
    """`x = y` of two atoms as a shared variable, without `x IS NOT NULL`."""
    right = rows._unify

    def wrong(parts: Any, index: int, fresh: Any) -> Any:
        found = right(parts, index, fresh)
        if found is None:
            return None
        made = [f for f in found[0] if f in parts or not (isinstance(f, Cond) and _is_guard(f.condition))]
        return made, found[1]

    patch.setattr(rows, "_unify", wrong)


def lookups_without_a_default(patch: Patch) -> None:
    """A missing group has no row where it should have the aggregate over nothing."""
    right = lower.Lowering.relate

    def wrong(self: Any, map_name: str, columns: Any, **how: Any) -> Any:
        keyed = bool(self.map(map_name).keys)
        return right(self, map_name, columns, **{**how, "always": how.get("always", False) and not keyed})

    patch.setattr(lower.Lowering, "relate", wrong)


def null_members_ignored(patch: Patch) -> None:
    """NOT IN over a set with a NULL is FALSE, never unknown."""
    right = quantified._counts

    def wrong(*args: Any, **how: Any) -> Any:
        factors, (some, _, *extremes) = right(*args, **how)
        return factors, [some, Const(False, BOOLEAN), *extremes]

    patch.setattr(quantified, "_counts", wrong)


def true_and_false_of_not_in_swapped(patch: Patch) -> None:
    """NOT IN is IN."""
    right = quantified._membership

    def wrong(lowering: Any, query: Any, *args: Any) -> Any:
        return right(lowering, p.QuantifiedSubquery(query.args, "=", False, query.plan), *args)

    patch.setattr(quantified, "_membership", wrong)


def columns_of_a_row_all_unknown(patch: Patch) -> None:
    """A row value with a NULL is not compared in its other columns."""
    right = quantified._likeness

    def wrong(lowering: Any, args: Any, inner: Any, links: Any, members: Any) -> Any:
        lookups, equal, _ = right(lowering, args, inner, links, members)
        return lookups, equal, equal

    patch.setattr(quantified, "_likeness", wrong)


def conditions_of_maps_ignored(patch: Patch) -> None:
    """Maps are one if they differ in a condition alone."""
    right = held._formed

    def wrong(body: Any) -> Any:
        factors = body.factors if isinstance(body, Prod) else (body,)
        return right(product(*(f for f in factors if not isinstance(f, Cond))))

    patch.setattr(held, "_formed", wrong)


def domain_of_the_first_term(patch: Patch) -> None:
    """The domain of a correlated subquery lacks rows: only the first of a sum of products is seen."""
    right = closing.domain
    patch.setattr(closing, "domain", lambda to, free, scope: right(to, free, (*scope[:-1], scope[-1][:1])))


def maps_read_too_early(patch: Patch) -> None:
    """A statement reads a map whose change is still pending."""
    patch.setattr(materialize, "_read_too_early", lambda *args: frozenset())


def sign_of_a_difference_lost(patch: Patch) -> None:
    """SUM(a - b) over two parts of a join is SUM(a) + SUM(b)."""
    right = Monomial.times
    patch.setattr(Monomial, "times", lambda self, number: right(self, abs(number)))


def padding_by_key(patch: Patch) -> None:
    """A row of an outer join is padded if no row has its key, whatever else ON says."""
    right = subqueries.unmatched

    def wrong(lowering: Any, rows: Any, other: Any, condition: Any, scope: Any) -> Any:
        equalities = [c for c in conjuncts(condition) if isinstance(c, Call) and c.op == "="]
        return right(lowering, rows, other, build.conjunction(equalities or [condition]), scope)

    patch.setattr(subqueries, "unmatched", wrong)


def one_row_more_of_each_partition(patch: Patch) -> None:
    """The boundary of the first rows is one too late."""
    right = partitions._over

    def wrong(node: Any, child: Any, linked: Any) -> Any:
        if isinstance(node, p.Limit) and node.count is not None:
            node = p.Limit(node.input, node.count + 1, node.offset)
        return right(node, child, linked)

    patch.setattr(partitions, "_over", wrong)


def relations_read_new(patch: Patch) -> None:
    """Later derived relations are read with their change."""
    right = wiring.Names.atom

    def wrong(self: Any, factor: Any) -> Any:
        found = right(self, factor)
        return replace(found, before={}) if isinstance(found, reading.Reading) else found

    patch.setattr(wiring.Names, "atom", wrong)


def groups_by_their_sums(patch: Patch) -> None:
    """A group is there while one of its components is not zero."""
    right = reading.ViewReader._rows

    def wrong(self: Any, key: Any, values: Any, *args: Any) -> Any:
        if self.store.layout.kinds and not self.view.always:
            there = values.ints.any(axis=0) | values.floats.any(axis=0)
            values = replace(values, n=np.where(there, values.n, 0))
        return right(self, key, values, *args)

    patch.setattr(reading.ViewReader, "_rows", wrong)


def sides_read_old(patch: Patch) -> None:
    """The new row of a relation has the extremes of before the change."""
    at, env = reading.ViewReader.at, reading._Aside.env
    held: dict[int, Any] = {}

    def wrong_at(self: Any, words: Any, before: Any = reading.NOTHING) -> Any:
        after = before is reading.NOTHING
        held.update({id(a): held.get(id(self)) if after else None for a in self.sides})
        held[id(self)] = None if after else before
        return at(self, words, before)

    def wrong_env(self: Any, key: Any, rows: int, wanted: Any, before: Any) -> Any:
        return env(self, key, rows, wanted, held.get(id(self)) or before)

    patch.setattr(reading.ViewReader, "at", wrong_at)
    patch.setattr(reading._Aside, "env", wrong_env)


def old_rows_are_not_taken_back(patch: Patch) -> None:
    """The change of a derived relation is its new rows."""
    right = reading.RowSet.minus
    patch.setattr(
        reading.RowSet, "minus", lambda self, other: right(self, replace(other, weights=0 * other.weights))
    )


def quantiles_one_too_early(patch: Patch) -> None:
    """The place of a quantile among the rows of a group is the one before it."""
    right = places.Places._place

    def wrong(self: Any, rows: Any) -> Any:
        return np.maximum(right(self, rows) - 1, 0)

    patch.setattr(places.Places, "_place", wrong)


def first_is_last(patch: Patch) -> None:
    """Of the rows in an order the last is taken for the first."""
    patch.setattr(Ordered, "first", Ordered.last)


def several_rows_are_one(patch: Patch) -> None:
    """Nobody looks whether a scalar subquery has several rows."""
    patch.setattr(state.LocalState, "check_empty", lambda self, wiring, journal=None: None)


MUTATIONS: dict[Callable[[Patch], None], tuple[str, int]] = {
    no_cross_term: (r"FROM (t\d) .* JOIN \1 ", 12),
    sign_of_the_cross_term: (r"FROM (t\d) .* JOIN \1 ", 12),
    deletes_add: ("", 4),
    old_and_new_swapped: ("JOIN", 60),
    views_over_views_stay: (r"FROM v\d", 20),
    guard_of_unified_keys_dropped: ("JOIN", 12),
    lookups_without_a_default: ("LEFT JOIN|FULL JOIN", 6),
    null_members_ignored: (r"NOT IN \(SELECT", 90),
    true_and_false_of_not_in_swapped: (r"NOT IN \(SELECT", 12),
    columns_of_a_row_all_unknown: (r", \S*\) (NOT IN|<> ALL|= ALL|<> ANY) \(SELECT", 30),
    conditions_of_maps_ignored: ("", 12),
    domain_of_the_first_term: (r"EXISTS|\(SELECT", 40),
    maps_read_too_early: (r"FROM \(SELECT [^()]*FROM (t\d) AS .*GROUP BY.* (RIGHT|FULL) JOIN \1 AS", 60),
    sign_of_a_difference_lost: (r"SUM\(\(\S* - ", 30),
    padding_by_key: ("(LEFT|FULL) JOIN .* ON \\(", 30),
    one_row_more_of_each_partition: (r"LIMIT [12]\b", 20),
    relations_read_new: (r"FROM (v\d) AS .* JOIN \1 AS", 80),
    groups_by_their_sums: (r"SUM\(.* GROUP BY", 12),
    sides_read_old: (r"(MIN|MAX)\(", 20),
    old_rows_are_not_taken_back: ("", 6),
    short_lists_end_all: (r"(ORDINALITY AS|UNNEST\(.*UNNEST\()", 12),
    empty_lists_keep_their_row: (r"(THEN \[|RANGE\()", 12),
    values_of_lists_are_not_compared: (
        r"FROM (t\d) AS r\d+ CROSS JOIN (UNNEST|RANGE).* JOIN [^(]* ON \(?r",
        60,
    ),
    quantiles_one_too_early: (r"(QUANTILE_DISC|MEDIAN)\(", 20),
    first_is_last: (r"FIRST\(", 20),
    pivots_count_all_rows: (r"t\d PIVOT", 12),
    unpivots_have_no_nulls: ("INCLUDE NULLS", 12),
    several_rows_are_one: (r"(,|SELECT|[=<>]) \(SELECT DISTINCT [^()]* AS x0 FROM", 60),
}
"""Broken rules of maintenance: what views must contain, and in how many histories of such views each must be
found."""

REEVALUATED: dict[Callable[[Patch], None], tuple[str, int]] = {
    true_and_false_swapped: (r"ALL \(", 12),
    not_in_by_not_exists: (r"NOT IN \(SELECT", 30),
    exists_of_one: ("EXISTS", 12),
    null_equals_null: ("JOIN", 12),
    null_differs_from_null: ("IS NOT DISTINCT FROM", 200),
    missing_group_is_null: (r"COUNT\(", 12),
    distinct_ignored: (r"(SUM|COUNT)\(DISTINCT", 12),
    distinct_ignores_filter: (r"\(DISTINCT \S*\) FILTER", 30),
    largest_for_smallest: (r"(SELECT|,) MIN\(r\d", 30),
    sample_for_population: (r"(VAR|STDDEV)_POP\(", 6),
    no_padding_on_the_right: ("FULL JOIN", 12),
    no_padding_on_the_left: ("LEFT JOIN", 12),
    all_forgotten: ("(EXCEPT|INTERSECT) ALL", 30),
    all_everywhere: (r"(UNION|EXCEPT|INTERSECT) \(", 12),
    one_row_too_many: (r"LIMIT [12]\b", 20),
    ranks_are_dense: (r"RANK\(\)", 200),
    groups_for_every_combination: ("SELECT DISTINCT", 12),
}
"""Broken rules of plans, over re-evaluated views."""

SLOW = frozenset(
    (
        maps_read_too_early,
        old_and_new_swapped,
        null_differs_from_null,
        ranks_are_dense,
        relations_read_new,
        views_over_views_stay,
        null_members_ignored,
        domain_of_the_first_term,
    )
)
"""Those that take long."""


def cases(pattern: str) -> Iterator[Case]:
    """Cases cut to the views that contain a pattern, and to those that these read."""
    for seed in count():
        case = random_case(seed)
        wanted = {name for name, query in case.history.views if re.search(pattern, query)}
        for name, query in reversed(case.history.views):
            if name in wanted:
                wanted |= set(re.findall(r"\bv\d\b", query))
        if wanted:
            yield case.with_views(tuple(tree for tree in case.trees if tree[0] in wanted))


def first_difference(pattern: str, histories: int, strategy: str | None = None) -> int | None:
    """The first history that shows a difference, counted from 0."""
    judge = Judge(check_state=check_state if strategy is None else None, strategy=strategy)
    try:
        for number, case in enumerate(islice(cases(pattern), histories)):
            if judge.problem(case.history) is not None:
                return number
    finally:
        judge.close()
    return None


def find(mutation: Callable[[Patch], None], patch: Patch) -> None:
    mutation(patch)
    if mutation in MUTATIONS:
        found = first_difference(*MUTATIONS[mutation])
    else:
        found = first_difference(*REEVALUATED[mutation], "re-evaluate")
    assert found is not None, mutation.__doc__


EVERY = (*MUTATIONS, *REEVALUATED)


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """What the compiler remembers of expressions is that of its rules: none of other rules may stay."""
    forget_compiled()
    yield
    forget_compiled()


@pytest.mark.parametrize("mutation", [m for m in EVERY if m not in SLOW], ids=lambda m: m.__name__)
def test_mutations_are_found(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    find(mutation, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("mutation", [m for m in EVERY if m in SLOW], ids=lambda m: m.__name__)
def test_slow_mutations_are_found(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    find(mutation, monkeypatch)


@pytest.mark.parametrize("mutation", [None, maps_read_too_early])
def test_a_map_that_is_read_too_early(mutation: Any, monkeypatch: Patch) -> None:
    """The smallest view in which it shows, for histories with such views are few: the map of the rows of `t`
    is under the padding of the join, and the change of the groups, which come first, is joined with it."""
    if mutation is not None:
        mutation(monkeypatch)
    with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
        db.sql("CREATE TABLE t (i INTEGER)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT MIN(g.a) AS a FROM (SELECT 'a' AS a, i FROM t "
            "GROUP BY 'a', i) AS g RIGHT JOIN t ON (g.i IS NOT NULL OR 1 > t.i)"
        )
        db.apply(t=[(1,)])
        assert (db.view("v").verify().num_rows > 0) == (mutation is not None)


def test_without_a_mutation_nothing_is_found() -> None:
    assert first_difference("", 3) is None
