"""Spark SQL of what is computed from many rows: aggregates, window functions, the answers of subqueries.

Everything is over columns of a SELECT below, so that no expression is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from everfresh.errors import Code
from everfresh.expr.nodes import Const, Expr, Var, substitute
from everfresh.spark.sql.text import (
    WIDE,
    expr_sql,
    fail,
    let,
    literal,
    micros,
    order_key,
    spark_type,
    unscaled,
    unsupported,
)
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import PAIRS
from everfresh.sql.logical.subqueries import SEVERAL
from everfresh.types import BIGINT, DOUBLE, INTEGER, INTERVAL, MAX_DIGITS, NULL, SqlType

Columns = dict[str, Var]
"""By the name of a variable, the column that holds it."""

Key = tuple[str, SqlType, bool, bool]
"""What rows are sorted by: a text, its type, whether ascending, whether NULLs come first."""

ANSWER = "\0"  # begins the variables that stand for subqueries


@dataclass(frozen=True, slots=True)
class Rows:
    """A SELECT: the columns of its variables and answers, and those of the outer combination, if any."""

    sql: str
    columns: Columns
    outer: Columns = field(default_factory=dict)

    @property
    def all(self) -> Columns:
        """Where to find which variable."""
        return {**self.outer, **self.columns}

    def text(self, expr: Expr) -> str:
        """An expression over these rows."""
        by: dict[str, Expr] = {**self.outer, **self.columns}
        return expr_sql(substitute(expr, by))

    @property
    def d(self) -> list[str]:
        """The columns of the outer combination."""
        return [v.name for v in self.outer.values()]

    def select(self, tail: str = "") -> Rows:
        """The same without the answers of subqueries, and with more text behind FROM."""
        columns = {n: v for n, v in self.columns.items() if not n.startswith(ANSWER)}
        listed = [v.name for v in columns.values()] + self.d
        return Rows(f"{only(listed)} FROM ({self.sql}){tail}", columns, self.outer)


def select(items: Mapping[str, str]) -> str:
    """SELECT of texts by the names of their columns."""
    return "SELECT " + (", ".join(f"{text} AS {column}" for column, text in items.items()) or "0 AS nothing")


def only(columns: Iterable[str]) -> str:
    """SELECT of columns."""
    return "SELECT " + (", ".join(columns) or "0 AS nothing")


def same(left: Iterable[str], right: Iterable[str]) -> list[str]:
    """Conditions that values are identical: NULL is NULL."""
    return [f"{a} <=> {b}" for a, b in zip(left, right, strict=True)]


def all_of(conditions: Sequence[str]) -> str:
    """The conjunction of conditions."""
    return " AND ".join(conditions) or "TRUE"


def group_by(columns: Iterable[str]) -> str:
    """GROUP BY, nothing if there are no columns."""
    text = ", ".join(columns)
    return f" GROUP BY {text}" if text else ""


def at_most_one(plan: p.Plan) -> bool:
    """Whether a plan can be seen to have no more than one row."""
    match plan:
        case p.Single() | p.Aggregate(grouped=False):
            return True
        case p.Limit(count=count) if count is not None and count <= 1:
            return True
        case p.Project() | p.Filter() | p.Sort() | p.Distinct() | p.Window() | p.Limit():
            return at_most_one(plan.input)
    return False


# -- functions over many rows --------------------------------------------------------------------------------


def aggregate_sql(
    fn: str, column: str, of: SqlType, to: SqlType, *, distinct: bool = False, over: str = ""
) -> str:
    """An aggregate of a column of type `of`, with the type `to`; `over` follows every aggregate in it.

    >>> aggregate_sql("max", "c0", INTEGER, INTEGER, over=" OVER (ORDER BY c1)")
    'max(c0) OVER (ORDER BY c1)'
    """
    if of == NULL and fn != "count":
        return f"any_value(CAST(NULL AS {spark_type(to)})){over}"
    kept = "DISTINCT " if distinct else ""
    match fn:
        case "count":
            return f"count({kept}{order_key(column, of)}){over}"
        case "sum":
            return _sum(kept, column, of, over)
        case "avg":
            total = _sum(kept, column, of, over)
            if of.name == "DECIMAL":
                total = unscaled(total, SqlType("DECIMAL", MAX_DIGITS, of.scale))
            scale = literal(Const(float(10**of.scale), DOUBLE))
            return f"(CAST({total} AS DOUBLE) / (CAST(count({kept}{column}){over} AS DOUBLE) * {scale}) + 0D)"
        case "min" | "max" if of == INTERVAL:
            keyed = f"named_struct('k', {order_key(column, of)}, 'v', {column})"
            return f"({fn}(CASE WHEN {column} IS NOT NULL THEN {keyed} END){over}).v"
        case "min" | "max" | "bool_and" | "bool_or":
            return f"{fn}({column}){over}"
    return f"({fn}({kept}CAST({column} AS DOUBLE)){over} + 0D)"


def _sum(kept: str, column: str, of: SqlType, over: str) -> str:
    if of.is_float:
        return f"sum({kept}CAST({column} AS DOUBLE)){over}"
    column = f"CAST({column} AS INT)" if of.name == "BOOLEAN" else column
    return f"sum({kept}CAST({column} AS DECIMAL(38,{of.scale}))){over}"


def sort_keys(keys: Iterable[Key]) -> str:
    """What follows ORDER BY."""
    return ", ".join(
        f"{order_key(text, of)} {'ASC' if up else 'DESC'} NULLS {'FIRST' if first else 'LAST'}"
        for text, of, up, first in keys
        if of != NULL
    )


_BY_PLACE = ("row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value")


def window_sql(
    calls: dict[str, p.WindowCall],
    texts: Iterator[tuple[str, SqlType]],
    outer: list[str],
    ties: list[tuple[str, SqlType]],
    below: str,
) -> str:
    """A SELECT of the columns `ties` and `outer`, and of a window function for each name of a column.

    `texts` are the arguments, partitions and sort keys of the calls, in order, over the SELECT `below`; all
    are computed in a SELECT of their own, then the place of each row in its partition, where ties are broken
    by all columns, and then the functions.
    """
    inner, places, made = ["*"], ["*"], [column for column, _ in ties]
    for c, call in calls.items():
        columns = []
        for i in range(len(call.args) + len(call.partition) + len(call.order)):
            text, of = next(texts)
            columns.append((f"{c}_{i}", of))
            inner.append(f"{text} AS {c}_{i}")
        args, rest = columns[: len(call.args)], columns[len(call.args) :]
        by = [order_key(*part) for part in rest[: len(call.partition)]] + outer
        keys = zip(rest[len(call.partition) :], call.order, strict=True)
        order = [(text, of, up, first) for (text, of), (_, up, first) in keys]
        partition = f"PARTITION BY {', '.join(by)} " if by else ""
        if call.fn in _BY_PLACE or (call.frame is not None and call.frame[0] == "rows"):
            every = sort_keys([*order, *((*tie, True, False) for tie in ties)]) or "0"
            places.append(f"row_number() OVER ({partition}ORDER BY {every}) AS {c}_p")
        made.append(f"{_window(call, c, args, order, partition)} AS {c}")
    made += outer
    placed = f"SELECT {', '.join(places)} FROM (SELECT {', '.join(inner)} FROM ({below}))"
    return f"SELECT {', '.join(made)} FROM ({placed})"


def _window(
    call: p.WindowCall,
    c: str,
    args: list[tuple[str, SqlType]],
    order: list[Key],
    partition: str,
) -> str:
    """A window function over columns; `{c}_p` is the place of a row where that is needed."""
    to = spark_type(call.type)
    column, of = args[0] if args else ("1", INTEGER)
    match call.fn:
        case "row_number":
            return f"CAST({c}_p AS BIGINT)"
        case "rank" | "dense_rank":
            return f"CAST({call.fn}() OVER ({partition}ORDER BY {sort_keys(order) or '0'}) AS BIGINT)"
        case "percent_rank" | "cume_dist":
            return f"{call.fn}() OVER ({partition}ORDER BY {sort_keys(order) or '0'})"
        case "ntile":
            return _ntile(f"{c}_p", column, partition)
        case "lag" | "lead":
            return _neighbour(call, c, args, partition)
    frame = _frame(call, c, order)
    if frame is None:  # no row has any row in its frame
        return "0L" if call.fn == "count" else f"CAST(NULL AS {to})"
    over = f" OVER ({partition}{frame})"
    if call.fn in ("first_value", "last_value"):
        fn = "min_by" if call.fn == "first_value" else "max_by"
        return f"{fn}({column}, {c}_p){over}" if of != NULL else f"CAST(NULL AS {to})"
    if call.fn == "nth_value":
        return _nth(column, args[1][0], f"{c}_p", to, over) if of != NULL else f"CAST(NULL AS {to})"
    if call.fn in PAIRS:
        return f"({call.fn}(CAST({column} AS DOUBLE), CAST({args[1][0]} AS DOUBLE)){over} + 0D)"
    return aggregate_sql(call.fn, column, of, call.type, over=over)


def _ntile(place: str, into: str, partition: str) -> str:
    """Which of so many parts of nearly the same size a row is in, by its place; the first ones are larger."""
    size = f"count(1) OVER ({partition.strip()})"
    least, more, at = "(@1 DIV @2)", "(@1 % @2)", "(@0 - 1)"
    edge = f"({more} * ({least} + 1))"
    smaller = f"{more} + ({at} - {edge}) DIV greatest({least}, 1L)"
    part = f"CASE WHEN {at} < {edge} THEN {at} DIV ({least} + 1) ELSE {smaller} END + 1"
    wrong = fail(Code.VALUE, "NTILE divides rows into one part or more", "BIGINT")
    return let(
        f"CASE WHEN @2 < 1 THEN {wrong} WHEN @2 >= 1 THEN {part} END", f"CAST({place} AS BIGINT)", size, into
    )


def _nth(value: str, number: str, place: str, to: str, over: str) -> str:
    """A value by its place in the frame."""
    every = f"array_sort(collect_list(struct({place} AS p, {value} AS v)){over})"
    inside = "@1 BETWEEN 1 AND size(@0)"
    return let(f"CAST(CASE WHEN {inside} THEN element_at(@0, CAST(@1 AS INT)).v END AS {to})", every, number)


def _neighbour(call: p.WindowCall, c: str, args: list[tuple[str, SqlType]], partition: str) -> str:
    """LAG and LEAD: by Spark's own if the offset is constant, else from an array of the partition."""
    (value, of), (offset, _), (default, _) = args
    steps, sign = call.args[1], 1 if call.fn == "lead" else -1
    if of == NULL or (isinstance(steps, Const) and steps.value is None):
        return f"CAST(NULL AS {spark_type(of)})"
    if isinstance(steps, Const):
        if abs(steps.value) >= 2**31:
            return default
        return f"lead({value}, {sign * steps.value}, {default}) OVER ({partition}ORDER BY {c}_p)"
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    every = f"collect_list(struct({value} AS v)) OVER ({partition}ORDER BY {c}_p {frame})"
    place = f"CAST({c}_p AS {WIDE}) + ({sign}) * {offset}"
    inside = "@1 BETWEEN 1 AND size(@0)"
    arms = f"WHEN {inside} THEN element_at(@0, CAST(@1 AS INT)).v WHEN @1 IS NOT NULL THEN @2"
    return let(f"CASE {arms} END", every, place, default)


def _frame(call: p.WindowCall, c: str, order: list[Key]) -> str | None:
    """ORDER BY and the frame; None if it is empty whatever the rows are."""
    kind, start, end = call.frame or ("range", None, 0 if order else None)
    if start is None and end is None:
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    if start is not None and end is not None and start > end:
        return None
    if kind == "rows":
        largest = 2**31 - 1
        if (start or 0) > largest or (end or 0) < -largest:
            return None
        start = None if start is not None and start < -largest else start
        end = None if end is not None and end > largest else end
        bounds = [_bound(n, str, side) for n, side in ((start, "PRECEDING"), (end, "FOLLOWING"))]
        return f"ORDER BY {c}_p ROWS BETWEEN {' AND '.join(bounds)}"
    if start or end:
        ((text, of, up, first),) = order
        order = [(_units(text, of), BIGINT, up, first)]
    bounds = [_bound(n, _number, side) for n, side in ((start, "PRECEDING"), (end, "FOLLOWING"))]
    return f"ORDER BY {sort_keys(order) or '0'} RANGE BETWEEN {' AND '.join(bounds)}"


def _number(n: int) -> str:
    return f"CAST('{n}' AS {WIDE})"


def _bound(n: int | None, number: Callable[[int], str], side: str) -> str:
    if not n:
        return f"UNBOUNDED {side}" if n is None else "CURRENT ROW"
    return f"{number(abs(n))} {'PRECEDING' if n < 0 else 'FOLLOWING'}"


def _units(text: str, of: SqlType) -> str:
    """A sort key as DECIMAL(38,0), in physical units."""
    if of.name == "DATE":
        return f"CAST(unix_date({text}) AS {WIDE})"
    return f"CAST({micros(text)} AS {WIDE})" if of.name == "TIMESTAMP" else unscaled(text, of)


# -- answers of subqueries -----------------------------------------------------------------------------------

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_EXTREME = {"<": "max", "<=": "max", ">": "min", ">=": "min"}


@dataclass(slots=True)
class AskedSubquery:
    """A subquery that the rows of `base` ask: `keys` are the columns that say which combination is theirs.

    `args` are its arguments over `base`, `found` its rows, `q` begins the names of the columns it adds.
    """

    base: str
    q: str
    keys: list[str]
    args: list[str]
    found: Rows
    joins: list[str] = field(default_factory=list)

    def join(
        self, items: Sequence[str], by: Sequence[str] = (), on: Sequence[str] = (), where: str = "",
        grouped: bool = True,
    ) -> None:  # fmt: skip
        """Join what is known of each combination; with `by`, of each combination and those values."""
        keys = [f"{self.q}_{len(self.joins)}{d}" for d in self.found.d]
        columns = [f"{d} AS {key}" for d, key in zip(self.found.d, keys, strict=True)]
        sql = f"{only([*columns, *items])} FROM ({self.found.sql}){where}"
        sql += group_by([*self.found.d, *by]) if grouped else ""
        self.joins.append(f" LEFT JOIN ({sql}) ON {all_of([*same(self.keys, keys), *on])}")

    def value(self, query: p.Subquery) -> str:
        """The value of the subquery on a row of `base` with the joins."""
        match query:
            case p.ExistsSubquery():
                return self.exists()
            case p.ScalarSubquery():
                return self.scalar(query)
            case p.QuantifiedSubquery():
                return self.quantified(query)
        raise unsupported(f"the subquery {type(query).__name__}")

    def exists(self) -> str:
        """Whether there is a row."""
        self.join([f"count(1) AS {self.q}_n"])
        return f"coalesce({self.q}_n > 0, FALSE)"

    def scalar(self, query: p.ScalarSubquery) -> str:
        """The only value."""
        value = self.found.columns[query.plan.variables[0].name].name
        if at_most_one(query.plan):
            self.join([f"{value} AS {self.q}_v"], grouped=False)
            return f"{self.q}_v"
        self.join([f"any_value({value}) AS {self.q}_v", f"count(1) AS {self.q}_n"])
        several = fail(Code.VALUE, SEVERAL, spark_type(query.type))
        return f"CASE WHEN {self.q}_n > 1 THEN {several} ELSE {self.q}_v END"

    def quantified(self, query: p.QuantifiedSubquery) -> str:
        """`args op ANY`; ALL is the negation of ANY with the opposite comparison."""
        types = [v.of for v in query.plan.variables]
        members = [self.found.columns[v.name] for v in query.plan.variables]
        asking = [order_key(a, t) for a, t in zip(self.args, types, strict=True)]
        asked = [order_key(m.name, t) for m, t in zip(members, types, strict=True)]
        op = _OPPOSITE[query.op] if query.all else query.op
        if len(types) > 1:
            true, false = self._rows_alike(op, asking, asked)
        elif op in _EXTREME:
            true, false = self._ordered(op, asking[0], asked[0])
        else:
            true, false = self._alike(op, asking[0], asked[0])
        yes, no = ("FALSE", "TRUE") if query.all else ("TRUE", "FALSE")
        return f"CASE WHEN {true} THEN {yes} WHEN {false} THEN {no} END"

    def _ordered(self, op: str, x: str, s: str) -> tuple[str, str]:
        """Against the largest or the smallest member: one comparison decides."""
        n, m, best = (f"{self.q}_{part}" for part in "nmb")
        self.join([f"count(1) AS {n}", f"count({s}) AS {m}", f"{_EXTREME[op]}({s}) AS {best}"])
        return f"{x} {op} {best}", f"coalesce({n}, 0) = 0 OR ({n} = {m} AND NOT ({x} {op} {best}))"

    def _alike(self, op: str, x: str, s: str) -> tuple[str, str]:
        """By the number of all members, of those that are not NULL, and of those equal to x."""
        n, m, e, v = (f"{self.q}_{part}" for part in "nmev")
        self.join([f"count(1) AS {n}", f"count({s}) AS {m}"])
        there = f" WHERE {s} IS NOT NULL"
        self.join([f"{s} AS {v}", f"count(1) AS {e}"], by=[s], on=[f"{x} = {v}"], where=there)
        known = f"{x} IS NOT NULL AND {n} = {m}"
        if op == "=":
            return f"{e} IS NOT NULL", f"coalesce({n}, 0) = 0 OR ({known} AND {e} IS NULL)"
        other = f"{m} - coalesce({e}, 0)"
        return f"{x} IS NOT NULL AND {other} > 0", f"coalesce({n}, 0) = 0 OR ({known} AND {other} = 0)"

    def _rows_alike(self, op: str, xs: list[str], ss: list[str]) -> tuple[str, str]:
        """By the number of members that are equal to the row value, and of those that may be."""
        n, m, e = (f"{self.q}_{part}" for part in "nme")
        if op == "<>":
            self.join([f"count(1) AS {n}"])
        keys = [f"{self.q}_k{i}" for i in range(len(self.keys))]
        values = [f"{self.q}_x{i}" for i in range(len(xs))]
        named = dict(zip([*keys, *values], [*self.keys, *xs], strict=True))
        pairs = [f"{x} = {s}" for x, s in zip(values, ss, strict=True)]
        perhaps = [f"coalesce({pair}, TRUE)" for pair in pairs]
        counts = f"count(1) AS {m}, count(CASE WHEN {all_of(pairs)} THEN 1 END) AS {e}"
        asking = f"SELECT DISTINCT * FROM ({select(named)} FROM {self.base})"
        sql = (
            f"SELECT {', '.join(named)}, {counts} FROM ({asking})"
            f" JOIN ({self.found.sql}) ON {all_of([*same(keys, self.found.d), *perhaps])}{group_by(named)}"
        )
        self.joins.append(f" LEFT JOIN ({sql}) ON {all_of(same(named.values(), named))}")
        if op == "=":
            return f"{e} > 0", f"{m} IS NULL"
        return f"{n} > coalesce({m}, 0)", f"coalesce({n}, 0) = coalesce({e}, 0)"
