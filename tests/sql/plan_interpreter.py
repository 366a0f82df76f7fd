"""The meaning of plans, by definition: nested loops, subqueries asked anew for every row, three-valued logic.

Nothing here is clever, so that it can be read and believed. A row is a dictionary from variable names to
physical values; `env` holds the variables of the plans around a subquery. A table is a list of tuples in
column order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from everfresh import types as ty
from everfresh.errors import Code, EverfreshError
from everfresh.expr import evaluate
from everfresh.expr.library.casts import cast_value
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.subqueries import lateral

Row = dict[str, Any]
Env = Mapping[str, Any]
Tables = Mapping[str, Sequence[tuple[Any, ...]]]
Order = Sequence[tuple[Expr, bool, bool]]


def interpret(plan: p.Plan, tables: Tables, env: Env | None = None) -> list[Row]:
    """The rows of a plan; those of a `Sort` in order."""
    return _Interpreter(tables).rows(plan, {} if env is None else env)


def logical(plan: p.Plan, tables: Tables) -> list[tuple[Any, ...]]:
    """The rows of a plan as a user sees them."""
    columns = plan.columns
    return [tuple(ty.to_logical(r[c.name], c.type) for c in columns) for r in interpret(plan, tables)]


class _Interpreter:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    # -- operators --------------------------------------------------------------------------------------

    def rows(self, plan: p.Plan, env: Env) -> list[Row]:
        match plan:
            case p.Single():
                return [{}]
            case p.Scan():
                names = [v.name for v in plan.vars]
                return [dict(zip(names, row, strict=True)) for row in self.tables[plan.table]]
            case p.Filter():
                return [r for r in self.rows(plan.input, env) if self.value(plan.condition, r, env) is True]
            case p.Project():
                return [{n: self.value(e, r, env) for n, e in plan.items} for r in self.rows(plan.input, env)]
            case p.Unnest():
                return self.unnested(plan, env)
            case p.Join():
                return self.joined(plan, env)
            case p.Aggregate():
                return self.aggregated(plan, env)
            case p.Window():
                return self.windowed(plan, env)
            case p.SetOperation():
                return self.combined(plan, env)
            case p.Distinct():
                once = dict.fromkeys(tuple(r.items()) for r in self.rows(plan.input, env))
                return [dict(pairs) for pairs in once]
            case p.Sort():
                return self.sorted(self.rows(plan.input, env), plan.keys, env)
            case p.Limit():
                kept = self.rows(plan.input, env)[plan.offset :]
                return kept if plan.count is None else kept[: plan.count]
        raise AssertionError(plan)

    def unnested(self, plan: p.Unnest, env: Env) -> list[Row]:
        names, found = [n for n, _ in plan.items], []
        for r in self.rows(plan.input, env):
            codes = [(self.value(e, r, env), e.type) for _, e in plan.items]
            lists = [[] if code is None else ty.coding.elements(code, of) for code, of in codes]
            found += [r | dict(zip(names, row, strict=True)) for row in itertools.zip_longest(*lists)]
        return found

    def joined(self, plan: p.Join, env: Env) -> list[Row]:
        left, each = self.rows(plan.left, env), bool(lateral(plan))
        right = [] if each else self.rows(plan.right, env)
        found: list[Row] = []
        matched_left, matched_right = set(), set()
        for i, a in enumerate(left):
            for j, b in enumerate(self.rows(plan.right, {**env, **a}) if each else right):
                both = a | b
                if plan.condition is None or self.value(plan.condition, both, env) is True:
                    found.append(both)
                    matched_left.add(i)
                    matched_right.add(j)
        no_left = {v.name: None for v in plan.left.variables}
        no_right = {v.name: None for v in plan.right.variables}
        if plan.kind in ("left", "full"):
            found += [a | no_right for i, a in enumerate(left) if i not in matched_left]
        if plan.kind in ("right", "full"):
            found += [no_left | b for j, b in enumerate(right) if j not in matched_right]
        return found

    def combined(self, plan: p.SetOperation, env: Env) -> list[Row]:
        names = [v.name for v in plan.variables]
        left, right = (
            Counter(tuple(r[v.name] for v in side.variables) for r in self.rows(side, env))
            for side in (plan.left, plan.right)
        )
        rows: list[Row] = []
        for row in {**left, **right}:
            times = _MULTIPLICITY[plan.op, plan.all](left[row], right[row])
            rows += [dict(zip(names, row, strict=True))] * times
        return rows

    def sorted(self, rows: list[Row], order: Order, env: Env) -> list[Row]:
        return sorted(rows, key=functools.cmp_to_key(lambda a, b: self.compare(a, b, order, env)))

    def compare(self, a: Row, b: Row, order: Order, env: Env) -> int:
        for expr, ascending, nulls_first in order:
            x, y = self.value(expr, a, env), self.value(expr, b, env)
            if x is None and y is None:
                continue
            if x is None or y is None:
                return -1 if (x is None) == nulls_first else 1
            if _key(x) != _key(y):
                return -1 if (_key(x) < _key(y)) == ascending else 1
        return 0

    # -- expressions ------------------------------------------------------------------------------------

    def value(self, expr: Expr, row: Env, env: Env) -> Any:
        """The value of an expression for a row; what a row does not have comes from around."""
        scope = {**env, **row}
        if not any(isinstance(n, p.Subquery) for n in expr.walk()):
            return evaluate(expr, scope)
        match expr:
            case p.ScalarSubquery():
                rows = self.rows(expr.plan, scope)
                if len(rows) > 1:
                    raise EverfreshError(Code.VALUE, "more than one row in a scalar subquery")
                return rows[0][expr.plan.variables[0].name] if rows else None
            case p.ExistsSubquery():
                return bool(self.rows(expr.plan, scope))
            case p.QuantifiedSubquery():
                return self.quantified(expr, scope)
            case Case():
                for condition, value in expr.arms:
                    if self.value(condition, scope, {}) is True:
                        return self.value(value, scope, {})
                return self.value(expr.default, scope, {})
            case Cast():
                return cast_value(self.value(expr.arg, scope, {}), expr.arg.type, expr.to)
            case Call(op="and"):
                return _all(self.value(a, scope, {}) for a in expr.args)
            case Call(op="or"):
                return _any(self.value(a, scope, {}) for a in expr.args)
            case Call(op="coalesce"):
                values = (self.value(a, scope, {}) for a in expr.args)
                return next((v for v in values if v is not None), None)
            case Call():
                args = tuple(Const(self.value(a, scope, {}), a.type) for a in expr.args)
                return evaluate(Call(expr.op, args), {})
        raise AssertionError(expr)

    def quantified(self, expr: p.QuantifiedSubquery, scope: Env) -> bool | None:
        mine = [Const(self.value(a, scope, {}), a.type) for a in expr.args]
        columns = expr.plan.variables

        def holds(row: Row) -> bool | None:
            theirs = [Const(row[v.name], v.type) for v in columns]
            if len(mine) == 1:
                return evaluate(Call(expr.op, (mine[0], theirs[0])), {})
            equal = _all(evaluate(Call("=", pair), {}) for pair in zip(mine, theirs, strict=True))
            return equal if expr.op == "=" or equal is None else not equal

        return (_all if expr.all else _any)(holds(row) for row in self.rows(expr.plan, scope))

    # -- aggregates -------------------------------------------------------------------------------------

    def aggregated(self, plan: p.Aggregate, env: Env) -> list[Row]:
        groups: dict[tuple[Any, ...], list[Row]] = {} if plan.grouped else {(): []}
        for row in self.rows(plan.input, env):
            groups.setdefault(tuple(self.value(e, row, env) for _, e in plan.keys), []).append(row)
        found: list[Row] = []
        for key, members in groups.items():
            row = {name: value for (name, _), value in zip(plan.keys, key, strict=True)}
            found.append(row | {n: self.aggregate(call, members, env) for n, call in plan.aggregates})
        return found

    def aggregate(self, call: p.AggregateCall, rows: list[Row], env: Env) -> Any:
        kept = [r for r in rows if call.filter is None or self.value(call.filter, r, env) is True]
        if call.order:
            kept = self.sorted(kept, call.order, env)
        values = [tuple(self.value(a, r, env) for a in call.args) for r in kept]
        if call.distinct:
            values = list(dict.fromkeys(values))
        return aggregate(call.fn, [a.type for a in call.args], values)

    # -- windows ----------------------------------------------------------------------------------------

    def windowed(self, plan: p.Window, env: Env) -> list[Row]:
        rows = self.rows(plan.input, env)
        results: list[Row] = [{} for _ in rows]
        for name, call in plan.items:
            partitions: dict[tuple[Any, ...], list[Row]] = {}
            for i, row in enumerate(rows):
                key = tuple(self.value(e, row, env) for e in call.partition)
                partitions.setdefault(key, []).append(row | {"": i})
            for members in partitions.values():
                ranked = self.sorted(members, call.order, env)
                for at, row in enumerate(ranked):
                    results[row[""]][name] = self.window_value(call, ranked, at, env)
        return [row | more for row, more in zip(rows, results, strict=True)]

    def window_value(self, call: p.WindowCall, rows: list[Row], at: int, env: Env) -> Any:
        """The value for the row `at` of a sorted partition."""
        before = [j for j in range(len(rows)) if self.compare(rows[j], rows[at], call.order, env) < 0]
        match call.fn:
            case "row_number":
                return at + 1
            case "rank":
                return len(before) + 1
            case "dense_rank":
                steps = [j for j in before if self.compare(rows[j], rows[j + 1], call.order, env) != 0]
                return len(steps) + 1
            case "percent_rank":
                return len(before) / (len(rows) - 1) if len(rows) > 1 else 0.0
            case "cume_dist":
                peers = [r for r in rows if self.compare(r, rows[at], call.order, env) <= 0]
                return len(peers) / len(rows)
            case "ntile":
                parts = self.value(call.args[0], rows[at], env)
                sizes = [len(rows) // parts + (k < len(rows) % parts) for k in range(parts)]
                return next(k + 1 for k in range(parts) if at < sum(sizes[: k + 1]))
            case "lag" | "lead":
                offset = self.value(call.args[1], rows[at], env)
                if offset is None:
                    return None
                there = at + (offset if call.fn == "lead" else -offset)
                if 0 <= there < len(rows):
                    return self.value(call.args[0], rows[there], env)
                return self.value(call.args[2], rows[at], env)
        inside = [rows[j] for j in range(len(rows)) if self.in_frame(call, rows, at, j, env)]
        values = [tuple(self.value(a, r, env) for a in call.args) for r in inside]
        if call.fn in ("first_value", "last_value"):
            return values[0 if call.fn == "first_value" else -1][0] if values else None
        if call.fn == "nth_value":
            number = self.value(call.args[1], rows[at], env)
            return values[number - 1][0] if number is not None and 1 <= number <= len(values) else None
        return aggregate(call.fn, [a.type for a in call.args], values)

    def in_frame(self, call: p.WindowCall, rows: list[Row], at: int, j: int, env: Env) -> bool:
        """Whether the row `j` of a sorted partition is in the frame of the row `at`."""
        kind, start, end = call.frame or ("range", None, 0)
        if kind == "rows":
            return (start is None or j >= at + start) and (end is None or j <= at + end)
        return (start is None or self.beyond(call, rows[j], rows[at], start, env) >= 0) and (
            end is None or self.beyond(call, rows[j], rows[at], end, env) <= 0
        )

    def beyond(self, call: p.WindowCall, row: Row, current: Row, offset: int, env: Env) -> int:
        """Where a row stands relative to the current row's key plus an offset: before, at or behind it."""
        if offset == 0:
            return self.compare(row, current, call.order, env)
        (expr, ascending, _) = call.order[0]
        mine, bound = self.value(expr, row, env), self.value(expr, current, env)
        if mine is None or bound is None:  # no distance from NULL: NULLs are each other's peers
            return self.compare(row, current, call.order, env)
        distance = mine - bound if ascending else bound - mine
        return (distance > offset) - (distance < offset)


# -- pieces without rows ---------------------------------------------------------------------------------

_MULTIPLICITY: dict[tuple[str, bool], Callable[[int, int], int]] = {
    ("union", True): lambda m, k: m + k,
    ("union", False): lambda m, k: int(m + k > 0),
    ("intersect", True): min,
    ("intersect", False): lambda m, k: int(m > 0 and k > 0),
    ("except", True): lambda m, k: max(m - k, 0),
    ("except", False): lambda m, k: int(m > 0 and k == 0),
}


def _all(truths: Iterable[bool | None]) -> bool | None:
    known = True
    for truth in truths:
        if truth is False:
            return False
        known = known and truth is not None
    return True if known else None


def _any(truths: Iterable[bool | None]) -> bool | None:
    known = True
    for truth in truths:
        if truth is True:
            return True
        known = known and truth is not None
    return False if known else None


def _key(value: Any) -> Any:
    """What orders a value that is not NULL: NaN is the largest number."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def aggregate(fn: str, types: list[ty.SqlType], rows: list[tuple[Any, ...]]) -> Any:
    """An aggregate over the values of its arguments, one tuple per row."""
    if fn == "count" and len(types) != 1:
        return len(rows)
    if fn == "first":
        return rows[0][0] if rows else None
    if fn == "list":
        return ty.coding.from_elements([v for (v,) in rows], ty.LIST(types[0])) if rows else None
    if len(types) > 1:
        return _of_pairs(fn, types, [row for row in rows if None not in row])
    values = [v for (v,) in rows if v is not None]
    if fn == "count":
        return len(values)
    if not values:
        return None
    (of,) = types
    if fn == "median":
        return _quantile(fn, of, values, 0.5)
    match fn:
        case "min" | "max":
            return (min if fn == "min" else max)(values, key=_key)
        case "bool_and" | "bool_or":
            return (all if fn == "bool_and" else any)(values)
        case "sum":
            return math.fsum(values) if of.is_float else sum(values)
        case "avg":
            return (math.fsum(values) if of.is_float else sum(values) / 10**of.scale) / len(values)
    return _spread(fn, [Fraction(v) / 10**of.scale for v in values])


def _of_pairs(fn: str, types: list[ty.SqlType], rows: list[tuple[Any, ...]]) -> Any:
    if fn == "string_agg":
        return rows[0][1].join(text for text, _ in rows) if rows else None
    if fn.startswith("quantile"):
        return _quantile(fn, types[0], [v for v, _ in rows], rows[0][1]) if rows else None
    n, less = len(rows), int(fn == "covar_samp")
    if n <= less:
        return None
    y, x = ([Fraction(row[i]) / 10 ** types[i].scale for row in rows] for i in range(2))
    return float(sum((a - sum(y) / n) * (b - sum(x) / n) for a, b in zip(y, x, strict=True)) / (n - less))


def _quantile(fn: str, of: ty.SqlType, values: list[Any], part: float) -> Any:
    values = sorted(values, key=_key)
    if fn == "quantile_disc":
        return values[max(math.ceil(len(values) * part) - 1, 0)]
    at = (len(values) - 1) * part
    low, high = values[math.floor(at)], values[math.ceil(at)]
    found = low + (high - low) * (at - math.floor(at))
    return int(found) if of.name == "DECIMAL" else float(found)


def _spread(fn: str, values: list[Fraction]) -> float | None:
    n = len(values)
    if fn.endswith("_samp") and n < 2:
        return None
    mean = sum(values) / n
    variance = sum((v - mean) ** 2 for v in values) / (n - 1 if fn.endswith("_samp") else n)
    return math.sqrt(variance) if fn.startswith("stddev") else float(variance)
