"""Functions over many rows: aggregates and window functions, typed on construction as DuckDB types them.

They are expressions only in that they have arguments, a type and a place in a plan: an `Aggregate` or a
`Window` holds them, nothing evaluates them for one row.
"""

from __future__ import annotations

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Expr
from everfresh.rewrite import node
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    LIST,
    MAX_DIGITS,
    NULL,
    VARCHAR,
    SqlType,
)

SortKey = tuple[Expr, bool, bool]
"""An expression, whether it ascends, and whether NULLs come first."""


@node
class AggregateCall(Expr):
    """An aggregate function over the rows for which `filter` is TRUE; only an `Aggregate` may hold one.

    `count` without arguments counts rows; with several it is distinct and counts the different rows of
    values, NULLs in them or not. All others leave out rows with a NULL among their arguments, but for those
    of `KEEPING`, and are NULL over nothing. `order` is that of the rows, where it matters (`ORDERED`).
    """

    fn: str
    args: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    order: tuple[SortKey, ...] = ()

    def check(self) -> None:
        """Raise unless the function takes arguments of these types."""
        if self.fn == "count" and len(self.args) > 1 and not self.distinct:
            shown = ", ".join(str(a.type) for a in self.args)
            message = f"there is no aggregate count({shown})"
            raise EverfreshError(Code.TYPE, message, hint="write count(DISTINCT ...), or count one value")
        object.__setattr__(self, "_type", aggregate_type(self.fn, [a.type for a in self.args]))

    @property
    def type(self) -> SqlType:
        """The type as DuckDB gives it."""
        return self._type  # type: ignore[attr-defined,no-any-return]

    @property
    def nullable(self) -> bool:
        """A count is never NULL; the others are, over nothing."""
        return self.fn != "count"

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.args)) if self.args else "*"
        if self.order:
            inside += f" ORDER BY {', '.join(sort_key(str(e), *how) for e, *how in self.order)}"
        where = "" if self.filter is None else f" FILTER (WHERE {self.filter})"
        return f"{self.fn}({'DISTINCT ' if self.distinct else ''}{inside}){where}"


@node
class GroupingCall(Expr):
    """GROUPING(key, ...): as bits, which of the keys are not in the set by which a row is grouped. It
    stands in expressions only while a query is bound: the set is known where its aggregation is."""

    args: tuple[Expr, ...]

    @property
    def type(self) -> SqlType:
        """BIGINT."""
        return BIGINT

    @property
    def nullable(self) -> bool:
        """Never."""
        return False

    def __str__(self) -> str:
        return f"grouping({', '.join(map(str, self.args))})"


def aggregate_type(fn: str, types: list[SqlType]) -> SqlType:
    """The type of an aggregate over arguments of these types.

    >>> print(aggregate_type("sum", [DECIMAL(15, 2)]), aggregate_type("avg", [BIGINT]))
    DECIMAL(38,2) DOUBLE
    """
    if fn == "count":
        return BIGINT
    if fn in WHOLE and len(types) == WHOLE[fn]:
        result = _WHOLE_RESULTS[fn](types[0])
        if result is not None and (len(types) == 1 or fn not in QUANTILES or types[1] == DOUBLE):
            return result
    elif fn in PAIRS and len(types) == 2:
        if all(_mean_type(t) is not None for t in types):
            return DOUBLE
    elif len(types) == 1 and fn in _RESULTS:
        result = _RESULTS[fn](types[0])
        if result is not None:
            return result
        if fn == "avg" and types[0].name in ("DATE", "TIMESTAMP", "INTERVAL"):
            raise EverfreshError(Code.UNSUPPORTED, f"avg({types[0]}) is not supported")
    shown = ", ".join(map(str, types))
    takes = {"min": "value", "max": "value", "bool_and": "BOOLEAN", "bool_or": "BOOLEAN"}.get(fn, "number")
    raise EverfreshError(Code.TYPE, f"there is no aggregate {fn}({shown})", hint=f"{fn} takes one {takes}")


def _sum_type(of: SqlType) -> SqlType | None:
    if of.is_float:
        return DOUBLE
    if of.name == "DECIMAL":
        return DECIMAL(MAX_DIGITS, of.scale)
    return HUGEINT if of.is_integer or of in (BOOLEAN, NULL) else None


def _mean_type(of: SqlType) -> SqlType | None:
    return DOUBLE if of.is_numeric or of == NULL else None


def _same_type(of: SqlType) -> SqlType | None:
    return of


def _truth_type(of: SqlType) -> SqlType | None:
    return BOOLEAN if of in (BOOLEAN, NULL) else None


def _between_type(of: SqlType) -> SqlType | None:
    """That of a value between two others."""
    if of.name in ("DECIMAL", "TIMESTAMP"):
        return of
    return DOUBLE if of.is_integer or of.is_float or of == NULL else None


def _middle_type(of: SqlType) -> SqlType | None:
    """The same; of values that nothing is between, the lower one of the middle."""
    return _between_type(of) or (of if of in (VARCHAR, BOOLEAN) else None)


def _integer_type(of: SqlType) -> SqlType | None:
    return of if of.is_integer else INTEGER if of == NULL else None


def _text_type(of: SqlType) -> SqlType | None:
    return VARCHAR if of in (VARCHAR, NULL) else None


def _list_type(of: SqlType) -> SqlType | None:
    return None if of == INTERVAL else LIST(of)


WHOLE = {
    "median": 1, "quantile_cont": 2, "quantile_disc": 2, "mode": 1, "arg_min": 2, "arg_max": 2, "product": 1,
    "bit_and": 1, "bit_or": 1, "bit_xor": 1, "string_agg": 2, "first": 1, "last": 1, "any_value": 1,
    "list": 1,
}  # fmt: skip
"""Aggregates that need all values of a group, by the number of their arguments: no sum of them would do."""
ORDERED = ("string_agg", "list", "first", "last", "any_value")
"""Those of them whose value depends on the order of the rows."""
KEEPING = ("first", "last", "list")
"""Those of them that see NULLs."""
PAIRS = ("covar_pop", "covar_samp")
"""Aggregates of pairs of numbers, which sums of products make."""
QUANTILES = ("median", "quantile_cont", "quantile_disc")
"""Aggregates whose value is at a fraction of the values in their order."""
_WHOLE_RESULTS = {
    "median": _middle_type, "quantile_cont": _between_type, "quantile_disc": _same_type, "mode": _same_type,
    "arg_min": _same_type, "arg_max": _same_type, "product": _mean_type, "bit_and": _integer_type,
    "bit_or": _integer_type, "bit_xor": _integer_type, "string_agg": _text_type,
    "first": _same_type, "last": _same_type, "any_value": _same_type,
    "list": _list_type,
}  # fmt: skip
_RESULTS = {
    "sum": _sum_type, "avg": _mean_type, "min": _same_type, "max": _same_type,
    "stddev_samp": _mean_type, "stddev_pop": _mean_type, "var_samp": _mean_type, "var_pop": _mean_type,
    "bool_and": _truth_type, "bool_or": _truth_type,
}  # fmt: skip


RANKS = {
    "row_number": BIGINT, "rank": BIGINT, "dense_rank": BIGINT, "percent_rank": DOUBLE, "cume_dist": DOUBLE,
}  # fmt: skip
"""Window functions without arguments that look at the whole partition, with their types."""


@node
class WindowCall(Expr):
    """A function over the rows of a partition in an order; only a `Window` may hold one.

    `fn` is `row_number`, `rank`, `dense_rank`, `percent_rank`, `cume_dist`, `ntile` (args: BIGINT), `lag` or
    `lead` (args: value, offset BIGINT, default of the value's type), `first_value`, `last_value`, `nth_value`
    (args: value, BIGINT), or an aggregate (`count` without arguments counts rows).
    `order` is `(expression, ascending, nulls first)`. Ranks, `lag` and `lead` look at the whole partition,
    the others at the frame.

    `frame` is ("rows" | "range", start, end) with bounds None (unbounded) or an offset from the current row
    in the direction of the order, in rows for "rows" and in physical units of the only sort key for "range",
    where 0 means the row's peers; or None for the default frame: the whole partition without ORDER BY, else
    RANGE up to the current row's peers.
    """

    fn: str
    args: tuple[Expr, ...]
    partition: tuple[Expr, ...]
    order: tuple[tuple[Expr, bool, bool], ...]
    frame: tuple[str, int | None, int | None] | None
    of: SqlType

    @property
    def type(self) -> SqlType:
        """The type as DuckDB gives it."""
        return self.of

    @property
    def nullable(self) -> bool:
        """Ranks and counts never are."""
        return self.fn not in (*RANKS, "count")

    def __str__(self) -> str:
        parts = [f"PARTITION BY {', '.join(map(str, self.partition))}"] if self.partition else []
        if self.order:
            parts.append(f"ORDER BY {', '.join(sort_key(str(e), *how) for e, *how in self.order)}")
        if self.frame is not None:
            kind, start, end = self.frame
            bounds = ("unbounded" if b is None else f"{b:+d}" for b in (start, end))
            parts.append(f"{kind.upper()} {' .. '.join(bounds)}")
        inside = ", ".join(map(str, self.args)) if self.args or self.fn != "count" else "*"
        return f"{self.fn}({inside}) OVER ({' '.join(parts)})"


def sort_key(expr: str, ascending: bool, nulls_first: bool) -> str:
    """A sort key as text."""
    return f"{expr} {'ASC' if ascending else 'DESC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


@node
class UnnestCall(Expr):
    """UNNEST in an expression of a SELECT, until its rows are taken apart."""

    list: Expr

    @property
    def type(self) -> SqlType:
        """That of the values of the list."""
        return self.list.type.inner[0]

    @property
    def nullable(self) -> bool:
        """Always: a list beside it may be longer."""
        return True

    def __str__(self) -> str:
        return f"unnest({self.list})"
