"""A plan run once, operator by operator, over frames; correlated subqueries are unnested, not run per row.

`QueryRun.frame(plan, outer)` is the plan for all outer combinations at once: its rows carry the combination
they stand for, from the lowest operator that mentions an outer variable upwards, where grouping, windows, set
operations and LIMIT count it as one more key. A frame without that column is the same for every combination.
(Neumann and Kemper, "Unnesting Arbitrary Queries", 2015.)

Invariant: the rows of combination i are those of the plan with the outer variables set to its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.expr import FOLD, Expr, Var, Vector, evaluate_vector, spread
from everfresh.local.adhoc.aggregate import Input, aggregate
from everfresh.local.adhoc.frame import (
    AROUND,
    Computed,
    D,
    Frame,
    Ints,
    Outer,
    PickedRows,
    TableColumns,
    stack,
)
from everfresh.local.adhoc.graph import flatten, join_graph
from everfresh.local.adhoc.join import is_true, outer_join
from everfresh.local.adhoc.keys import Groups, Words, sort_index, within
from everfresh.local.adhoc.subquery import SubqueryAnswers
from everfresh.local.adhoc.window import window
from everfresh.rewrite import rewrite
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.subqueries import answered, free, has_subquery, lateral, names, subqueries
from everfresh.types import BIGINT

Source = Callable[[str], pa.Table]

CHUNK = 1 << 20
"""Candidate pairs of a join that are looked at together."""


class QueryRun:
    """One query being run; `source` gives the rows of a table or view by name."""

    def __init__(self, source: Source, chunk: int = CHUNK) -> None:
        self.source, self.chunk = source, chunk
        self.words = Words()
        self._tables: dict[str, tuple[PickedRows, int]] = {}
        self._once: dict[p.Plan, Frame] = {}

    # -- expressions ----------------------------------------------------------------------------------------

    def evaluate(self, expr: Expr, frame: Frame) -> Vector:
        """`expr` on every row; each subquery in it becomes a column first."""
        if isinstance(expr, Var):
            return frame[expr.name]
        if has_subquery(expr):  # what the others decide is not asked
            frame, expr = self._answered(rewrite(expr, FOLD), frame)
        return evaluate_vector(expr, frame, frame.rows)

    def _answered(self, expr: Expr, frame: Frame) -> tuple[Frame, Expr]:
        answers: dict[Expr, Var] = {}
        vectors: dict[str, Vector] = {}
        for query in dict.fromkeys(subqueries(expr)):
            name = f"\0q{len(answers)}"
            answers[query] = Var(name, query.type, query.nullable)
            vectors[name] = self._ask(query, frame)
        return frame.having(vectors), answered(expr, answers)

    def _ask(self, query: p.Subquery, frame: Frame) -> Vector:
        """A subquery's value on every row: once for each combination of the outer values that it mentions.
        A scalar one that mentions none is asked even if there are no rows."""
        plan = query.plan
        mentioned = sorted(free(plan))
        if not frame.rows and (mentioned or not isinstance(query, p.ScalarSubquery)):
            return Vector.from_pylist([], query.type)
        if not mentioned:
            if plan not in self._once:
                self._once[plan] = self.frame(plan, None)
            ids, outer, found = np.zeros(frame.rows, np.int64), Outer({}, 1), self._once[plan]
        else:
            ids, outer = self._combinations(frame, mentioned)
            found = self.frame(plan, outer)
        answers = SubqueryAnswers(found, outer.rows, self.words)
        columns = [v.name for v in plan.variables]
        match query:
            case p.ExistsSubquery():
                return answers.exists(ids)
            case p.ScalarSubquery():
                return answers.scalar(columns[0], ids)
            case p.QuantifiedSubquery(args, op, all_, _):
                asking = [self.evaluate(arg, frame) for arg in args]
                return answers.quantified(asking, op, all_, [found[name] for name in columns], ids)
        raise TypeError(f"no way to ask {type(query).__name__}")

    def _combinations(self, frame: Frame, mentioned: Sequence[str]) -> tuple[Ints, Outer]:
        vectors = {name: frame[name] for name in mentioned}
        groups = Groups(self.words.of(list(vectors.values()), frame.rows))
        first = groups.first()
        return groups.of_rows, Outer({n: v.take(first) for n, v in vectors.items()}, groups.count)

    def _bound(self, frame: Frame, exprs: Sequence[Expr], outer: Outer | None) -> Frame:
        """The frame, with the outer combinations if `exprs` mention them."""
        if outer is None or D in frame or not any(names(e) - frozenset(frame) for e in exprs):
            return frame
        return outer.expand(frame)

    # -- operators ------------------------------------------------------------------------------------------

    def frame(self, plan: p.Plan, outer: Outer | None) -> Frame:
        """The rows of `plan`; for every combination of `outer` if it mentions one."""
        if outer is not None and not free(plan):
            outer = None
        return _OPERATORS[type(plan)](self, plan, outer)

    def _single(self, plan: p.Single, outer: Outer | None) -> Frame:
        return Frame({}, 1)

    def _scan(self, plan: p.Scan, outer: Outer | None) -> Frame:
        if plan.table not in self._tables:
            table = self.source(plan.table)
            self._tables[plan.table] = PickedRows(TableColumns(table, plan.vars)), table.num_rows
        part, rows = self._tables[plan.table]  # further scans share what the first has converted
        return Frame({v.name: (part, name) for v, name in zip(plan.vars, part.source, strict=True)}, rows)

    def _given(self, plan: p.Given, outer: Outer | None) -> Frame:
        part = PickedRows(TableColumns(plan.rows, plan.vars))
        return Frame({v.name: (part, v.name) for v in plan.vars}, plan.rows.rows)

    def _graph(self, plan: p.Filter | p.Join, outer: Outer | None) -> Frame:
        if isinstance(plan, p.Join) and lateral(plan):
            return self._lateral(plan, outer)
        if isinstance(plan, p.Join) and plan.kind != "inner":
            return self._outer_join(plan, outer)
        leaves, conditions = flatten(plan)
        frames = [self.frame(leaf, outer) for leaf in leaves]
        return join_graph(frames, conditions, outer, self.words, self.evaluate, self.chunk)

    def _outer_join(self, plan: p.Join, outer: Outer | None) -> Frame:
        left, right = (self.frame(child, outer) for child in plan.inputs)
        if outer is not None:  # a side that is padded must know for which combination
            left = outer.expand(left) if plan.kind != "right" else left
            right = outer.expand(right) if plan.kind != "left" else right
        return outer_join(plan, (left, right), outer, self.words, self.evaluate, self.chunk)

    def _lateral(self, plan: p.Join, outer: Outer | None) -> Frame:
        """The right side for all combinations of the left values that it mentions, joined by these."""
        left = self.frame(plan.left, outer)
        mentioned = sorted(free(plan.right))
        if outer is not None and not frozenset(mentioned) <= frozenset(left):
            left = outer.expand(left)
        ids, combinations = self._combinations(left, mentioned)
        right = combinations.expand(self.frame(plan.right, combinations))
        around = {AROUND: D} if D in left else {}
        left = left.renamed({**{n: n for n in left if n != D}, **around}).having({D: Vector(BIGINT, ids)})
        out = outer_join(plan, (left, right), None, self.words, self.evaluate, self.chunk)
        back = {D: AROUND} if around else {}
        return out.renamed({**{n: n for n in out if n not in (D, AROUND)}, **back})

    def _project(self, plan: p.Project, outer: Outer | None) -> Frame:
        frame = self._bound(self.frame(plan.input, outer), [e for _, e in plan.items], outer)
        copies = {name: e.name for name, e in plan.items if isinstance(e, Var)}
        made = {name: e for name, e in plan.items if not isinstance(e, Var)}
        out = frame.renamed(copies).having(Computed(made, partial(self.evaluate, frame=frame)))
        d = frame.d
        return out if outer is None or d is None else outer.attach(out, d)

    def _unnest(self, plan: p.Unnest, outer: Outer | None) -> Frame:
        frame = self._bound(self.frame(plan.input, outer), [e for _, e in plan.items], outer)
        lists = [e for _, e in plan.items]
        if any(map(has_subquery, lists)):
            asked: dict[str, Vector] = {f"\0l{i}": self.evaluate(e, frame) for i, e in enumerate(lists)}
            held, lists = frame.having(asked), [Var(n, v.type) for n, v in asked.items()]
        else:
            held = frame
        index, found = spread(lists, held, held.rows)
        return frame.take(index).having({n: v for (n, _), v in zip(plan.items, found, strict=True)})

    def _aggregate(self, plan: p.Aggregate, outer: Outer | None) -> Frame:
        exprs = [e for _, e in (*plan.keys, *plan.aggregates)]
        frame = self._bound(self.frame(plan.input, outer), exprs, outer)
        d = frame.d
        keys = {name: self.evaluate(e, frame) for name, e in plan.keys}
        if not plan.grouped:  # one row per combination, also for those without rows
            ids = np.zeros(frame.rows, np.int64) if d is None else d
            count, first = (1 if d is None or outer is None else outer.rows), None
        else:
            by = [*keys.values(), *([frame[D]] if d is not None else [])]
            groups = Groups(self.words.of(by, frame.rows))
            ids, count, first = groups.of_rows, groups.count, groups.first()
        made = {name: vector.take(first) for name, vector in keys.items()} if first is not None else {}
        for name, call in plan.aggregates:
            args = [self.evaluate(arg, frame) for arg in call.args]
            kept = None if call.filter is None else is_true(self.evaluate(call.filter, frame))
            order = tuple((self.evaluate(e, frame), *how) for e, *how in call.order)
            rows = Input(call.fn, args, call.type, ids, count, order)  # type: ignore[arg-type]
            made[name] = aggregate(rows, call.distinct, kept, self.words)
        out = Frame.of(made, count)
        if d is None or outer is None:
            return out
        return outer.attach(out, np.arange(count) if first is None else d[first])

    def _set_operation(self, plan: p.SetOperation, outer: Outer | None) -> Frame:
        sides = [self.frame(child, outer) for child in plan.inputs]
        columns = [[v.name for v in child.variables] for child in plan.inputs]
        if outer is not None:
            sides = [outer.expand(side) for side in sides]
            columns = [[*own, D] for own in columns]
        both = stack(sides, columns)
        words = self.words.of([both[name] for name in columns[0]], both.rows)
        out = both.take(_kept(plan, words, sides[0].rows))
        d = out.d
        return out if outer is None or d is None else outer.attach(out, d)

    def _distinct(self, plan: p.Distinct, outer: Outer | None) -> Frame:
        frame = self.frame(plan.input, outer)
        vectors = [frame[v.name] for v in plan.variables]
        if D in frame:
            vectors.append(frame[D])
        return frame.take(Groups(self.words.of(vectors, frame.rows)).first())

    def _sort(self, plan: p.Sort, outer: Outer | None) -> Frame:
        frame = self._bound(self.frame(plan.input, outer), [e for e, _, _ in plan.keys], outer)
        keys = [(self.evaluate(e, frame), ascending, first) for e, ascending, first in plan.keys]
        return frame.take(sort_index(keys, frame.rows))

    def _limit(self, plan: p.Limit, outer: Outer | None) -> Frame:
        frame = self.frame(plan.input, outer)
        d = frame.d
        place = np.arange(frame.rows) if d is None else within(d)
        keep = place >= plan.offset
        if plan.count is not None:
            keep &= place < plan.offset + plan.count
        return frame.filter(keep)

    def _window(self, plan: p.Window, outer: Outer | None) -> Frame:
        exprs: list[Expr] = [call for _, call in plan.items]
        frame = self._bound(self.frame(plan.input, outer), exprs, outer)
        ties = [frame[v.name] for v in plan.input.variables]
        made = {name: window(call, frame, ties, self.words, self.evaluate) for name, call in plan.items}
        return frame.having(made)


def _kept(plan: p.SetOperation, words: Ints, left: int) -> Ints:
    """Which rows of both sides, the left ones first, a set operation keeps."""
    rows = words.shape[1]
    if plan.op == "union" and plan.all:
        return np.arange(rows)
    groups = Groups(words)
    if plan.op == "union":
        return groups.first()
    of_left = groups.of_rows[:left]
    right = np.bincount(groups.of_rows[left:], minlength=groups.count)[of_left]
    place = within(of_left)
    if plan.all:
        keep = place < right if plan.op == "intersect" else place >= right
    else:
        keep = (place == 0) & ((right > 0) == (plan.op == "intersect"))
    return np.flatnonzero(keep)


_OPERATORS: dict[type[p.Plan], Callable[[QueryRun, Any, Outer | None], Frame]] = {
    p.Single: QueryRun._single,
    p.Scan: QueryRun._scan,
    p.Given: QueryRun._given,
    p.Filter: QueryRun._graph,
    p.Join: QueryRun._graph,
    p.Project: QueryRun._project,
    p.Unnest: QueryRun._unnest,
    p.Aggregate: QueryRun._aggregate,
    p.SetOperation: QueryRun._set_operation,
    p.Distinct: QueryRun._distinct,
    p.Sort: QueryRun._sort,
    p.Limit: QueryRun._limit,
    p.Window: QueryRun._window,
}
