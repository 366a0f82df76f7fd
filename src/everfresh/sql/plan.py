"""Logical plans: what a bound query means, as a tree of relational operators.

Every node lists the variables it yields. Invariant: the expressions of a node mention only variables of its
input, all conversions in them are explicit, and the names a node yields are distinct.
"""

from __future__ import annotations

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Expr, Var
from everfresh.rewrite import Node, node
from everfresh.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, HUGEINT, MAX_DIGITS, NULL, Column, SqlType

Named = tuple[str, Expr]


class Plan(Node):
    """A relational operator; prints as an indented tree, inputs below."""

    @property
    def variables(self) -> tuple[Var, ...]:
        """The variables that the plan yields, in order."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Column, ...]:
        """The same as columns of a result."""
        return tuple(Column(v.name, v.type, v.nullable) for v in self.variables)

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """The plans that this one reads."""
        return tuple(child for child in self.children if isinstance(child, Plan))

    def line(self) -> str:
        """The node itself, without its inputs."""
        return type(self).__name__

    def __str__(self) -> str:
        below = [f"  {line}" for plan in self.inputs for line in str(plan).splitlines()]
        return "\n".join([self.line(), *below])


@node
class AggregateCall(Expr):
    """An aggregate function; `count` without arguments counts rows. Only an `Aggregate` may hold one."""

    fn: str
    args: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None

    def check(self) -> None:
        """Raise unless the function takes arguments of these types."""
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
        where = "" if self.filter is None else f" FILTER (WHERE {self.filter})"
        return f"{self.fn}({'DISTINCT ' if self.distinct else ''}{inside}){where}"


def aggregate_type(fn: str, types: list[SqlType]) -> SqlType:
    """The type of an aggregate over arguments of these types.

    >>> print(aggregate_type("sum", [DECIMAL(15, 2)]), aggregate_type("avg", [BIGINT]))
    DECIMAL(38,2) DOUBLE
    """
    arity = (0, 1) if fn == "count" else (1,)
    if len(types) in arity:
        result = BIGINT if fn == "count" else _RESULTS[fn](types[0])
        if result is not None:
            return result
        if fn == "avg" and types[0].name in ("DATE", "TIMESTAMP"):
            raise EverfreshError(Code.UNSUPPORTED, f"avg({types[0]}) is not supported")
    shown = ", ".join(map(str, types))
    raise EverfreshError(Code.TYPE, f"there is no aggregate {fn}({shown})", hint=f"{fn} takes one number")


def _sum_type(of: SqlType) -> SqlType | None:
    if of.is_float:
        return DOUBLE
    if of.name == "DECIMAL":
        return DECIMAL(MAX_DIGITS, of.scale)
    return HUGEINT if of.is_integer or of in (BOOLEAN, NULL) else None


def _avg_type(of: SqlType) -> SqlType | None:
    return DOUBLE if of.is_numeric or of == NULL else None


_RESULTS = {"sum": _sum_type, "avg": _avg_type}


# -- operators -------------------------------------------------------------------------------------------


@node
class Single(Plan):
    """One row without columns: what SELECT reads when there is no FROM."""

    @property
    def variables(self) -> tuple[Var, ...]:
        """None."""
        return ()


@node
class Scan(Plan):
    """All columns of a table or view, in its order; `vars` are the variables that stand for them."""

    table: str
    alias: str
    vars: tuple[Var, ...]

    @property
    def variables(self) -> tuple[Var, ...]:
        """One variable per column of the table."""
        return self.vars

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """None."""
        return ()

    def line(self) -> str:
        """`Scan table AS alias (columns)`."""
        alias = "" if self.alias == self.table else f" AS {self.alias}"
        return f"Scan {self.table}{alias} ({', '.join(v.name for v in self.vars)})"


@node
class Filter(Plan):
    """The rows for which `condition` is TRUE."""

    input: Plan
    condition: Expr

    @property
    def variables(self) -> tuple[Var, ...]:
        """As the input."""
        return self.input.variables

    def line(self) -> str:
        """`Filter condition`."""
        return f"Filter {self.condition}"


@node
class Project(Plan):
    """One row per input row, with the named expressions as its columns."""

    input: Plan
    items: tuple[Named, ...]

    @property
    def variables(self) -> tuple[Var, ...]:
        """One variable per item."""
        return tuple(Var(name, e.type, e.nullable) for name, e in self.items)

    def line(self) -> str:
        """`Project name = expression, ...`."""
        return f"Project {_items(self.items)}"


@node
class Aggregate(Plan):
    """One row per combination of key values that occurs; exactly one row if not `grouped`."""

    input: Plan
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    grouped: bool

    @property
    def variables(self) -> tuple[Var, ...]:
        """The keys, then the aggregates."""
        return tuple(Var(name, e.type, e.nullable) for name, e in (*self.keys, *self.aggregates))

    def line(self) -> str:
        """`Aggregate by keys: aggregates`."""
        by = f"by [{_items(self.keys)}]" if self.grouped else "all"
        return f"Aggregate {by}: {_items(self.aggregates)}"


JOINS = ("inner", "left", "right", "full")


@node
class Join(Plan):
    """Pairs of rows for which `condition` is TRUE (None: all pairs), with rows without partner padded by the kind.

    The variables of both sides have distinct names; a side that may be padded has nullable variables.
    """

    kind: str
    left: Plan
    right: Plan
    condition: Expr | None = None

    @property
    def variables(self) -> tuple[Var, ...]:
        """Those of the left side, then those of the right."""
        left, right = self.left.variables, self.right.variables
        if self.kind in ("right", "full"):
            left = tuple(Var(v.name, v.type, True) for v in left)
        if self.kind in ("left", "full"):
            right = tuple(Var(v.name, v.type, True) for v in right)
        return left + right

    def line(self) -> str:
        """`Join kind on condition`."""
        return f"Join {self.kind}" + (f" on {self.condition}" if self.condition is not None else "")


SET_OPERATIONS = ("union", "intersect", "except")


@node
class SetOperation(Plan):
    """UNION, INTERSECT or EXCEPT of two plans with the same column types; `all` keeps multiplicities. Names are the left's."""

    op: str
    all: bool
    left: Plan
    right: Plan

    @property
    def variables(self) -> tuple[Var, ...]:
        """The left's names; nullable if either side's is."""
        return tuple(
            Var(a.name, a.type, a.nullable or b.nullable)
            for a, b in zip(self.left.variables, self.right.variables, strict=True)
        )

    def line(self) -> str:
        """`Union all`, `Except`, ..."""
        return f"{self.op.capitalize()}{' all' if self.all else ''}"


@node
class WindowCall(Expr):
    """A function over the rows of a partition in an order; only a `Window` may hold one.

    `frame` is ("rows" | "range", start, end) with bounds None (unbounded) or an offset relative to the current row (0), or None for the default
    frame: the whole partition without ORDER BY, else RANGE up to the current row's peers.
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
        return self.fn not in ("row_number", "rank", "dense_rank", "count")


@node
class Window(Plan):
    """The input with one more column per window function."""

    input: Plan
    items: tuple[tuple[str, WindowCall], ...]

    @property
    def variables(self) -> tuple[Var, ...]:
        """The input's, then one per item."""
        return self.input.variables + tuple(Var(n, e.type, e.nullable) for n, e in self.items)

    def line(self) -> str:
        """`Window name = call, ...`."""
        return f"Window {', '.join(name for name, _ in self.items)}"


class Subquery(Expr):
    """An expression that asks a plan. Variables of outer plans stand free in it: names are unique in a whole statement."""


@node
class ScalarSubquery(Subquery):
    """The single value of a plan with one column; NULL over no rows, an error over several."""

    plan: Plan

    @property
    def type(self) -> SqlType:
        """The type of the plan's column."""
        return self.plan.variables[0].type

    @property
    def nullable(self) -> bool:
        """Always: the plan may be empty."""
        return True


@node
class ExistsSubquery(Subquery):
    """Whether a plan has rows."""

    plan: Plan

    @property
    def type(self) -> SqlType:
        """BOOLEAN."""
        return BOOLEAN

    @property
    def nullable(self) -> bool:
        """Never."""
        return False


@node
class QuantifiedSubquery(Subquery):
    """`args op ANY (plan)` or, with `all`, `args op ALL (plan)`; IN is `= ANY`, NOT IN is `<> ALL`.

    `args` and the plan's columns have the same types; with several of them `op` is `=` or `<>` and compares row values.
    """

    args: tuple[Expr, ...]
    op: str
    all: bool
    plan: Plan

    @property
    def type(self) -> SqlType:
        """BOOLEAN."""
        return BOOLEAN

    @property
    def nullable(self) -> bool:
        """May be unknown."""
        return True


@node
class Distinct(Plan):
    """Each row once."""

    input: Plan

    @property
    def variables(self) -> tuple[Var, ...]:
        """As the input."""
        return self.input.variables


@node
class Sort(Plan):
    """The rows in order of `(expression, ascending, nulls first)`, ties in any order."""

    input: Plan
    keys: tuple[tuple[Expr, bool, bool], ...]

    @property
    def variables(self) -> tuple[Var, ...]:
        """As the input."""
        return self.input.variables

    def line(self) -> str:
        """`Sort expression DESC NULLS LAST, ...`."""
        shown = (
            f"{e} {'ASC' if ascending else 'DESC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
            for e, ascending, nulls_first in self.keys
        )
        return f"Sort {', '.join(shown)}"


@node
class Limit(Plan):
    """At most `count` rows after leaving out the first `offset`."""

    input: Plan
    count: int | None
    offset: int = 0

    @property
    def variables(self) -> tuple[Var, ...]:
        """As the input."""
        return self.input.variables

    def line(self) -> str:
        """`Limit count OFFSET offset`."""
        return f"Limit {'ALL' if self.count is None else self.count} OFFSET {self.offset}"


def _items(items: tuple[tuple[str, Expr], ...]) -> str:
    return ", ".join(e.name if isinstance(e, Var) and e.name == n else f"{n} = {e}" for n, e in items)
