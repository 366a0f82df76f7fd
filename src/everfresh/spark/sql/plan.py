"""Spark SQL from plans: operator by operator, subqueries unnested into joins.

Spark restricts where correlated subqueries may stand and what they may contain, so none are left to it. The
rows of a subquery are computed for all combinations of the outer values that it mentions at once: a relation
of distinct combinations is joined in at the lowest operator that mentions one, and counts as one more key
from there on (Neumann and Kemper, "Unnesting Arbitrary Queries", 2015; as `everfresh.local.adhoc` does). The
answers are then joined to the rows that ask. ANY and ALL are decided by counting, as SQL defines them.

Invariant: in the text of a plan the columns c0, c1, ... are its variables (Spark does not tell `x` from `X`);
d0, d1, ... are the outer combination a row stands for, missing if the rows are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from everfresh.expr.nodes import Const, Expr, Var
from everfresh.spark.sql.evaluated import elements, read_back
from everfresh.spark.sql.rows import (
    ANSWER,
    AskedSubquery,
    Columns,
    Rows,
    aggregate_sql,
    all_of,
    group_by,
    only,
    same,
    select,
    sort_keys,
    window_sql,
)
from everfresh.spark.sql.text import name, order_key, spark_type, unsupported, zero
from everfresh.spark.sql.whole_aggregates import pair_sql, row_struct, whole_sql
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.row_calls import PAIRS, WHOLE
from everfresh.sql.logical.subqueries import answered, free, has_subquery, lateral, names, subqueries
from everfresh.types import BOOLEAN, INTEGER, INTERVAL


@dataclass(frozen=True, slots=True)
class OuterRelation:
    """The distinct combinations of some outer variables: a shared relation with the columns d0, d1, ..."""

    table: str
    columns: Columns


def _numbered(variables: Iterable[Var], start: int = 0) -> Columns:
    return {v.name: Var(f"c{i}", v.of, v.null) for i, v in enumerate(variables, start)}


def _unsteady(plan: p.Plan) -> bool:
    """Whether a plan run twice may differ: by the order of rows that tie, or of doubles that are added."""
    for node in plan.walk():
        if isinstance(node, p.Limit):
            return True
        if isinstance(node, (p.AggregateCall, p.WindowCall)) and node.args:
            inexact = node.args[0].type.is_float and node.fn in ("sum", "avg")
            if inexact or node.fn.startswith(("var_", "stddev_")):
                return True
    return False


# -- plans ---------------------------------------------------------------------------------------------------


class Writer:
    """One statement being written; what several parts of it read is shared in its WITH."""

    def __init__(
        self, plan: p.Plan, source: Callable[[str], str], beside: Callable[[Any], str] | None = None
    ) -> None:
        self._plan, self._source, self._beside = plan, cache(source), beside
        self._shared: list[str] = []
        self._asked = 0

    def text(self) -> str:
        """The plan with its own names and types of columns."""
        rows = self._rows(self._plan, None)
        named = enumerate(self._plan.columns)
        columns = [f"CAST(c{i} AS {spark_type(c.type)}) AS {name(c.name)}" for i, c in named]
        shared = f"WITH {', '.join(self._shared)} " if self._shared else ""
        return f"{shared}{only(columns)} FROM ({rows.sql})"

    def _share(self, sql: str, once: bool = False) -> str:
        """The name of a relation; it is computed only `once` if twice might not give the same."""
        table = f"everfresh_q{len(self._shared)}"
        if once:  # Spark keeps what is not deterministic, and inlines the rest
            sql = f"SELECT * FROM ({sql}) WHERE rand() < 2"
        self._shared.append(f"{table} AS ({sql})")
        return table

    def _rows(self, plan: p.Plan, outer: OuterRelation | None) -> Rows:
        """The rows of a plan; for every combination of `outer` if it mentions one."""
        if type(plan) not in _OPERATORS:
            raise unsupported(f"the operator {type(plan).__name__}")
        if outer is not None and not free(plan):
            outer = None
        return _OPERATORS[type(plan)](self, plan, outer)

    def _expanded(self, rows: Rows, outer: OuterRelation | None) -> Rows:
        """The rows for every combination."""
        if outer is None or rows.outer:
            return rows
        return Rows(f"SELECT * FROM ({rows.sql}) CROSS JOIN {outer.table}", rows.columns, outer.columns)

    def _ready(
        self, rows: Rows, exprs: Sequence[Expr], plan: p.Plan, outer: OuterRelation | None
    ) -> tuple[Rows, list[Expr]]:
        """The rows with the outer combinations and the answers of subqueries that `exprs` ask for."""
        if any(names(e) - rows.columns.keys() for e in exprs):
            rows = self._expanded(rows, outer)
        return self._answered(rows, exprs, any(map(_unsteady, plan.inputs)))

    def _answered(self, rows: Rows, exprs: Sequence[Expr], once: bool) -> tuple[Rows, list[Expr]]:
        """The rows with one more column per subquery, and the expressions over them."""
        queries = list(dict.fromkeys(q for e in exprs for q in subqueries(e)))
        if not queries:
            return rows, list(exprs)
        arguments = [a for q in queries if isinstance(q, p.QuantifiedSubquery) for a in q.args]
        rows, asking = self._answered(rows, arguments, once)
        texts = dict(zip(arguments, map(rows.text, asking), strict=True))
        base = self._share(rows.sql, once)
        columns = dict(rows.columns)
        answers: dict[Expr, Expr] = {}
        values, joins = [f"{base}.*"], []
        for query in queries:
            asked = self._ask(query, base, rows, texts)
            values.append(f"{asked.value(query)} AS {asked.q}")
            joins += asked.joins
            columns[ANSWER + asked.q] = Var(asked.q, query.type, query.nullable)
            answers[query] = Var(ANSWER + asked.q, query.type, query.nullable)
        sql = f"SELECT {', '.join(values)} FROM {base}{''.join(joins)}"
        return Rows(sql, columns, rows.outer), [answered(e, answers) for e in exprs]

    def _ask(self, query: p.Subquery, base: str, rows: Rows, texts: dict[Expr, str]) -> AskedSubquery:
        """The rows of a subquery for the combinations of `base` that it mentions."""
        self._asked += 1
        keys, outer = self._combinations(query.plan, base, rows)
        args = query.args if isinstance(query, p.QuantifiedSubquery) else ()
        found = self._rows(query.plan, outer)
        return AskedSubquery(base, f"q{self._asked}", keys, [texts[a] for a in args], found)

    def _combinations(self, plan: p.Plan, base: str, rows: Rows) -> tuple[list[str], OuterRelation | None]:
        """The columns of `base` that a plan mentions, and the combinations of their values."""
        mentioned = {n: rows.all[n] for n in sorted(free(plan))}
        keys = [v.name for v in mentioned.values()]
        if not mentioned:
            return keys, None
        own = {n: Var(f"d{j}", v.of, v.null) for j, (n, v) in enumerate(mentioned.items())}
        named = {f"d{j}": key for j, key in enumerate(keys)}
        return keys, OuterRelation(self._share(f"SELECT DISTINCT * FROM ({select(named)} FROM {base})"), own)

    # -- one input ------------------------------------------------------------------------------------------

    def _single(self, plan: p.Single, outer: OuterRelation | None) -> Rows:
        return Rows(only([]), {})

    def _scan(self, plan: p.Scan, outer: OuterRelation | None) -> Rows:
        return self._read(self._source(plan.table), plan.vars)

    def _given(self, plan: p.Given, outer: OuterRelation | None) -> Rows:
        if self._beside is None:
            raise unsupported(f"'{plan.name}' here")
        return self._read(self._beside(plan.rows), plan.vars)

    def _read(self, relation: str, vars_: Sequence[Var]) -> Rows:
        """The rows of what Spark knows by a name."""
        columns = _numbered(vars_)
        items = {v.name: f"({v.name} + {zero(v.of)})" if v.of.is_float else v.name for v in columns.values()}
        return Rows(f"{select(items)} FROM {name(relation)} AS t({', '.join(items)})", columns)

    def _filter(self, plan: p.Filter, outer: OuterRelation | None) -> Rows:
        return self._where(self._rows(plan.input, outer), conjuncts(plan.condition), plan, outer)

    def _where(
        self, rows: Rows, conditions: Sequence[Expr], plan: p.Plan, outer: OuterRelation | None
    ) -> Rows:
        """The rows on which all conditions are true; those with subqueries are asked last."""
        for late in (False, True):
            some = [c for c in conditions if has_subquery(c) == late]
            if some:
                ready, asking = self._ready(rows, some, plan, outer)
                rows = ready.select(f" WHERE {all_of([ready.text(c) for c in asking])}")
        return rows

    def _project(self, plan: p.Project, outer: OuterRelation | None) -> Rows:
        rows, exprs = self._ready(self._rows(plan.input, outer), [e for _, e in plan.items], plan, outer)
        items = {f"c{i}": rows.text(e) for i, e in enumerate(exprs)} | {d: d for d in rows.d}
        return Rows(f"{select(items)} FROM ({rows.sql})", _numbered(plan.variables), rows.outer)

    def _unnest(self, plan: p.Unnest, outer: OuterRelation | None) -> Rows:
        """Each row with each element of an array, or of several, side by side."""
        lists = [e for _, e in plan.items]
        rows, exprs = self._ready(self._rows(plan.input, outer), lists, plan, outer)
        kept = [v.name for n, v in rows.columns.items() if not n.startswith(ANSWER)]
        columns = _numbered(plan.variables)
        made = list(columns.values())[len(kept) :]
        texts = [elements(rows.text(e), e.type) for e in exprs]
        if len(lists) > 1:  # of which one may be NULL
            texts = [f"coalesce({text}, CAST(array() AS ARRAY<STRING>))" for text in texts]
        held = {c: c for c in [*kept, *rows.d]} | {v.name: t for v, t in zip(made, texts, strict=True)}
        names = [v.name for v in made]
        several = len(names) > 1
        each = {v.name: read_back(f"one.{v.name}" if several else "one", v.of) for v in made}
        items = {c: c for c in kept} | each | {d: d for d in rows.d}
        below = f"({select(held)} FROM ({rows.sql}))"
        one = f"arrays_zip({', '.join(names)})" if several else names[0]
        return Rows(f"{select(items)} FROM {below} LATERAL VIEW explode({one}) AS one", columns, rows.outer)

    def _aggregate(self, plan: p.Aggregate, outer: OuterRelation | None) -> Rows:
        """Keys and arguments come from a SELECT of their own, an argument only where its FILTER is TRUE."""
        exprs = [e for _, e in plan.keys]
        for _, call in plan.aggregates:
            exprs += [*call.args, *([call.filter] if call.filter is not None else [])]
            exprs += [e for e, _, _ in call.order]
        rows, ready = self._ready(self._rows(plan.input, outer), exprs, plan, outer)
        rest = iter(ready)
        keys = [Var(f"c{i}", e.type, e.nullable) for i, (_, e) in enumerate(plan.keys)]
        inner = {v.name: rows.text(next(rest)) for v in keys} | {d: d for d in rows.d}
        made = {v.name: f"min({v.name})" if v.of == INTERVAL else v.name for v in keys}  # one of equal ones
        for i, (_, call) in enumerate(plan.aggregates, len(keys)):
            args = [rows.text(next(rest)) for _ in call.args]
            if call.fn in WHOLE or call.fn in PAIRS:
                kept = None if call.filter is None else rows.text(next(rest))
                order = [rows.text(next(rest)) for _ in call.order]
                inner[f"a{i}"] = row_struct(call, args, order, kept)
                made[f"c{i}"] = (whole_sql if call.fn in WHOLE else pair_sql)(call, f"a{i}")
                continue
            argument, of = (args[0], call.args[0].type) if len(args) == 1 else ("1", INTEGER)
            if len(args) > 1:  # a row value is not NULL even if its parts are
                parts = (order_key(a, e.type) for a, e in zip(args, call.args, strict=True))
                argument = f"struct({', '.join(parts)})"
            if call.filter is not None:
                argument = f"CASE WHEN {rows.text(next(rest))} THEN {argument} END"
            inner[f"a{i}"] = argument
            made[f"c{i}"] = aggregate_sql(call.fn, f"a{i}", of, call.type, distinct=call.distinct)
        by = [*(order_key(v.name, v.of) for v in keys), *rows.d]
        if plan.grouped and not by:
            inner["a"] = "0"
            by = ["a"]
        made |= {d: d for d in rows.d}
        out = Rows(f"{select(made)} FROM ({select(inner)} FROM ({rows.sql})){group_by(by)}",
                   _numbered(plan.variables), rows.outer)  # fmt: skip
        return out if plan.grouped or outer is None else self._always(out, plan, outer)

    def _always(self, rows: Rows, plan: p.Aggregate, outer: OuterRelation) -> Rows:
        """One row for every combination, also for those over nothing."""
        if not rows.outer:
            return rows
        items = {f"c{i}": f"coalesce(c{i}, 0L)" if call.fn == "count" else f"c{i}"
                 for i, (_, call) in enumerate(plan.aggregates)}  # fmt: skip
        found = {**{c: c for c in items}, **{f"e{j}": d for j, d in enumerate(rows.d)}}
        on = all_of(same(rows.d, [f"e{j}" for j in range(len(rows.d))]))
        items |= {d: d for d in rows.d}
        sql = f"{select(items)} FROM {outer.table} LEFT JOIN ({select(found)} FROM ({rows.sql})) ON {on}"
        return replace(rows, sql=sql)

    def _window(self, plan: p.Window, outer: OuterRelation | None) -> Rows:
        below = self._rows(plan.input, outer)
        exprs = [e for _, call in plan.items for e in call.children]
        rows, ready = self._ready(below, [e for e in exprs if isinstance(e, Expr)], plan, outer)
        texts = iter([(rows.text(e), e.type) for e in ready])
        ties = [(v.name, v.of) for v in below.columns.values()]
        calls = {f"c{i}": call for i, (_, call) in enumerate(plan.items, len(ties))}
        sql = window_sql(calls, texts, rows.d, ties, rows.sql)
        return Rows(sql, _numbered(plan.variables), rows.outer)

    def _distinct(self, plan: p.Distinct, outer: OuterRelation | None) -> Rows:
        return _distinct(self._rows(plan.input, outer))

    def _sort(self, plan: p.Sort, outer: OuterRelation | None) -> Rows:
        rows, keys = self._sorted(self._rows(plan.input, outer), plan, outer)
        return replace(rows, sql=f"SELECT * FROM ({rows.sql}) ORDER BY {keys}").select()

    def _sorted(self, rows: Rows, sort: p.Sort, outer: OuterRelation | None) -> tuple[Rows, str]:
        """The rows with what a sort asks for, and its keys."""
        rows, exprs = self._ready(rows, [e for e, _, _ in sort.keys], sort, outer)
        keys = zip(exprs, sort.keys, strict=True)
        return rows, sort_keys((rows.text(e), e.type, up, first) for e, (_, up, first) in keys) or "0"

    def _limit(self, plan: p.Limit, outer: OuterRelation | None) -> Rows:
        if outer is None:
            rows = self._rows(plan.input, None)
            offset = min(plan.offset, 2**31 - 1)  # Spark counts in 32 bits
            count = "" if plan.count is None or plan.count + offset >= 2**31 else f" LIMIT {plan.count}"
            return rows.select(f"{count}{f' OFFSET {offset}' if offset else ''}")
        keys = "0"
        if isinstance(plan.input, p.Sort):
            rows, keys = self._sorted(self._rows(plan.input.input, outer), plan.input, outer)
        else:
            rows = self._rows(plan.input, outer)
        place = f"row_number() OVER (PARTITION BY {', '.join(rows.d)} ORDER BY {keys})"
        kept = [f"place > {plan.offset}"]
        if plan.count is not None:
            kept.append(f"place <= {plan.offset + plan.count}")
        placed = replace(rows, sql=f"SELECT *, {place} AS place FROM ({rows.sql})")
        return placed.select(f" WHERE {all_of(kept)}")

    # -- two inputs -----------------------------------------------------------------------------------------

    def _lateral(self, plan: p.Join, outer: OuterRelation | None) -> Rows:
        """The right side for all combinations of the left values that it mentions, joined by these."""
        left = self._rows(plan.left, outer)
        if free(plan.right) - left.columns.keys():
            left = self._expanded(left, outer)
        base = self._share(left.sql, _unsteady(plan.left))
        keys, combinations = self._combinations(plan.right, base, left)
        right = self._expanded(self._rows(plan.right, combinations), combinations)
        columns = _numbered(plan.right.variables, start := len(left.columns))
        moved = {f"c{start + i}": v.name for i, v in enumerate(right.columns.values())}
        moved |= {f"e{j}": d for j, d in enumerate(right.d)}
        both = Rows("", {**left.all, **columns})
        now = [c for c in conjuncts(plan.condition) if not has_subquery(c)]
        late = [c for c in conjuncts(plan.condition) if has_subquery(c)]
        if late and plan.kind != "inner":
            raise unsupported("a subquery in ON of a LEFT JOIN LATERAL")
        on = [*same(keys, [f"e{j}" for j in range(len(keys))]), *(both.text(c) for c in now)]
        found = Rows("", _numbered(plan.variables), left.outer)
        items = {c: c for c in [*(v.name for v in found.columns.values()), *left.d]}
        sql = f"FROM {base} {plan.kind.upper()} JOIN ({select(moved)} FROM ({right.sql})) ON {all_of(on)}"
        return self._where(replace(found, sql=f"{select(items)} {sql}"), late, plan, outer)

    def _join(self, plan: p.Join, outer: OuterRelation | None) -> Rows:
        if lateral(plan):
            return self._lateral(plan, outer)
        left, right = (self._rows(side, outer) for side in plan.inputs)
        if plan.kind in ("left", "full"):  # a side that is padded must know for which combination
            left = self._expanded(left, outer)
        if plan.kind in ("right", "full"):
            right = self._expanded(right, outer)
        start = len(left.columns)
        items = {f"c{start + i}": v.name for i, v in enumerate(right.columns.values())}
        moved = {n: Var(f"e{j}", v.of, v.null) for j, (n, v) in enumerate(right.outer.items())}
        items |= {v.name: d for v, d in zip(moved.values(), right.d, strict=True)}
        right = Rows(f"{select(items)} FROM ({right.sql})", _numbered(plan.right.variables, start), moved)
        if plan.kind == "inner":
            return self._pairs(left, right, plan, outer)
        if has_subquery(plan.condition or Const(True, BOOLEAN)):
            return self._padded(left, right, plan, outer)
        return _joined(left, right, plan, conjuncts(plan.condition), plan.kind, outer)

    def _pairs(self, left: Rows, right: Rows, plan: p.Join, outer: OuterRelation | None) -> Rows:
        """Pairs; what asks a subquery, or a combination that neither side has, is asked of them."""
        there = left.all.keys() | right.all.keys()
        conditions = conjuncts(plan.condition)
        now = [c for c in conditions if not has_subquery(c) and names(c) <= there]
        rows = _joined(left, right, plan, now, "inner", outer)
        return self._where(rows, [c for c in conditions if c not in now], plan, outer)

    def _padded(self, left: Rows, right: Rows, plan: p.Join, outer: OuterRelation | None) -> Rows:
        """An outer join whose condition asks subqueries: the pairs, and the rows whose values are in none."""
        once = _unsteady(plan)
        left, right = (replace(s, sql=f"SELECT * FROM {self._share(s.sql, once)}") for s in (left, right))
        pairs = self._pairs(left, right, plan, outer)
        table = self._share(pairs.sql, once)
        columns = [*pairs.columns.values(), *pairs.outer.values()]
        parts = [f"SELECT * FROM {table}"]
        for side in [s for s, k in ((left, "left"), (right, "right")) if plan.kind in (k, "full")]:
            own = {v.name: v.name for v in side.columns.values()} | dict(zip(pairs.d, side.d, strict=True))
            items = {v.name: own.get(v.name, f"CAST(NULL AS {spark_type(v.of)})") for v in columns}
            paired = f"SELECT DISTINCT * FROM ({select({f'p_{c}': c for c in own})} FROM {table})"
            on = all_of(same(own, [f"p_{c}" for c in own]))
            padded = f"{select(items)} FROM ({side.sql})"
            parts.append(f"SELECT * FROM ({padded}) LEFT ANTI JOIN ({paired}) ON {on}")
        return replace(pairs, sql=" UNION ALL ".join(parts))

    def _set_operation(self, plan: p.SetOperation, outer: OuterRelation | None) -> Rows:
        left, right = (self._expanded(self._rows(side, outer), outer).select() for side in plan.inputs)
        columns = _numbered(plan.variables)
        both = [*columns.values(), *left.outer.values()]
        if plan.op == "union":
            rows = Rows(f"{left.sql} UNION ALL {right.sql}", columns, left.outer)
            return rows if plan.all else _distinct(rows)
        if all(v.of != INTERVAL for v in both):
            op = f"{plan.op.upper()}{' ALL' if plan.all else ''}"
            return Rows(f"({left.sql}) {op} ({right.sql})", columns, left.outer)
        keys = [order_key(v.name, v.of) for v in both]
        counted = {f"g{i}": key for i, key in enumerate(keys)}
        right_sql = f"{select({**counted, 'n': 'count(1)'})} FROM ({right.sql}){group_by(keys)}"
        place = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY 0) AS place"
        kept = {
            ("intersect", True): "place <= n", ("except", True): "place > coalesce(n, 0)",
            ("intersect", False): "place = 1 AND n > 0", ("except", False): "place = 1 AND n IS NULL",
        }[plan.op, plan.all]  # fmt: skip
        sql = f"SELECT *, {place} FROM ({left.sql}) LEFT JOIN ({right_sql}) ON {all_of(same(keys, counted))}"
        return Rows(sql, columns, left.outer).select(f" WHERE {kept}")


def _joined(
    left: Rows, right: Rows, plan: p.Join, conditions: Sequence[Expr], kind: str, outer: OuterRelation | None
) -> Rows:
    """Two sides with different names of columns, joined as they are."""
    both = Rows("", {**right.all, **left.all})
    on = same(left.d, right.d) if left.outer and right.outer else []
    on += [both.text(c) for c in conditions]
    kept = right if kind == "right" or not left.outer else left
    items = {v.name: v.name for v in (*left.columns.values(), *right.columns.values())}
    items |= {f"d{j}": d for j, d in enumerate(kept.d)}
    first = left.sql
    if kind == "full" and left.outer:  # whichever side is there knows the combination
        first = f"SELECT *, 1 AS on_left FROM ({left.sql})"
        items |= {a: f"CASE WHEN on_left IS NULL THEN {b} ELSE {a} END"
                  for a, b in zip(left.d, right.d, strict=True)}  # fmt: skip
    how = f"{kind.upper()} JOIN ({right.sql}) ON {all_of(on)}"
    if kind == "inner" and not on:
        how = f"CROSS JOIN ({right.sql})"
    columns = _numbered(plan.variables)
    combination = outer.columns if outer is not None and kept.outer else {}
    return Rows(f"{select(items)} FROM ({first}) {how}", columns, combination)


def _distinct(rows: Rows) -> Rows:
    """Each row once; of equal intervals one stands for all."""
    columns = [*rows.columns.values(), *rows.outer.values()]
    if all(v.of != INTERVAL for v in columns):
        return replace(rows, sql=f"SELECT DISTINCT * FROM ({rows.select().sql})")
    items = {v.name: f"min({v.name})" if v.of == INTERVAL else v.name for v in columns}
    grouped = group_by(order_key(v.name, v.of) for v in columns)
    return replace(rows, sql=f"{select(items)} FROM ({rows.sql}){grouped}")


_OPERATORS: dict[type[p.Plan], Callable[[Writer, Any, OuterRelation | None], Rows]] = {
    p.Single: Writer._single, p.Scan: Writer._scan, p.Given: Writer._given, p.Filter: Writer._filter,
    p.Project: Writer._project, p.Aggregate: Writer._aggregate, p.Window: Writer._window,
    p.Distinct: Writer._distinct, p.Sort: Writer._sort, p.Limit: Writer._limit, p.Join: Writer._join,
    p.SetOperation: Writer._set_operation, p.Unnest: Writer._unnest,
}  # fmt: skip
