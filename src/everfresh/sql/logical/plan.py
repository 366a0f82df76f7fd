"""Logical plans: what a bound query means, as a tree of relational operators.

Every node lists the variables it yields. Invariants: the expressions of a node mention only variables of its
input and, inside of a subquery, of the plans around it; all conversions in them are explicit; the names a
node yields are distinct. A name means one variable in the whole plan, subqueries included: a node that yields
a name of its input again passes the value on (a set operation: the value of either side). Only the outermost
names of a statement are the user's, so that the last `Project` may give a name of its input another meaning.

A plan prints as an indented tree that `plan_text.parse_plan` reads back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from everfresh.expr.names import Made
from everfresh.expr.nodes import Expr, Var, substitute
from everfresh.expr.text import KEYWORDS
from everfresh.expr.tokens import indented, quote_name
from everfresh.expr.unnesting import element
from everfresh.rewrite import Node, node, remembered
from everfresh.sql.logical.row_calls import AggregateCall, WindowCall, sort_key
from everfresh.types import BOOLEAN, Column, SqlType

__all__ = [
    "Aggregate", "AggregateCall", "Distinct", "ExistsSubquery", "Filter", "Given", "Join",
    "Limit", "Named", "Plan", "Project", "QuantifiedSubquery", "ScalarSubquery", "Scan", "SetOperation",
    "Single", "Sort", "Subquery", "Unnest", "Window", "WindowCall",
    "projected", "scans",
]  # fmt: skip

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

    @property
    def subqueries(self) -> tuple[Subquery, ...]:
        """The subqueries in this node's own expressions, in order of appearance."""
        found: list[Subquery] = []
        for child in self.children:
            if isinstance(child, Expr):
                _outermost(child, found)
        return tuple(found)

    def line(self) -> str:
        """The node itself, without its inputs."""
        return type(self).__name__

    def text(self, expr: Expr) -> str:
        """An expression of this node, its subqueries by the labels under which `__str__` prints them."""
        return str(_labelled(expr, self.subqueries))

    def __str__(self) -> str:
        asked: list[str] = []
        for k, subquery in enumerate(self.subqueries, 1):
            asked.append(f"  {_label(subquery, k)}:{subquery.question(self)}")
            asked.append(indented(str(subquery.plan), "    "))
        below = [indented(str(plan), "  ") for plan in self.inputs]
        return "\n".join([self.line(), *asked, *below])


def _outermost(expr: Node, found: list[Subquery]) -> None:
    """Collect the subqueries in an expression that are not inside of another one's plan."""
    for child in expr.children:
        if not isinstance(child, Plan):
            _outermost(child, found)
    if isinstance(expr, Subquery) and expr not in found:
        found.append(expr)


def _label(subquery: Subquery, number: int) -> str:
    return Made(f"{subquery.kind}#{number}")


def _labelled(expr: Expr, subqueries: tuple[Subquery, ...]) -> Expr:
    if isinstance(expr, Subquery):
        return Var(_label(expr, subqueries.index(expr) + 1), expr.type, expr.nullable)
    return expr.map_children(lambda child: _labelled(child, subqueries))


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
    """All columns of a table or view, in its order; `vars` are the variables that stand for them. A compiler
    may leave it with those that are read, at these `places`."""

    table: str
    alias: str
    vars: tuple[Var, ...]
    places: tuple[int, ...] | None = None

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
        alias = "" if self.alias == self.table else f" AS {_name(self.alias)}"
        return f"Scan {_name(self.table)}{alias} ({', '.join(_name(v.name) for v in self.vars)})"


@node
class Given(Plan):
    """Rows that are in no table (`everfresh.delta.given`): a variable of the caller, or files. Only a query
    that is answered once has them; the compiler sees none. They print without their rows."""

    rows: Any
    name: str
    vars: tuple[Var, ...]

    @property
    def variables(self) -> tuple[Var, ...]:
        """One variable per column."""
        return self.vars

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """None."""
        return ()

    def line(self) -> str:
        """`Given name (columns)`."""
        return f"Given {_name(self.name)} ({', '.join(_name(v.name) for v in self.vars)})"


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
        return f"Filter {self.text(self.condition)}"


@node
class Project(Plan):
    """One row per input row, with the named expressions as its columns."""

    input: Plan
    items: tuple[Named, ...]

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """One variable per item."""
        return tuple(Var(name, e.type, e.nullable) for name, e in self.items)

    def line(self) -> str:
        """`Project name = expression, ...`."""
        return f"Project {_items(self, self.items)}"


def projected(plan: Plan, items: Sequence[Named]) -> Plan:
    """The plan with other columns, itself if they are the same; a `Project` on top of it is replaced."""
    if [(v.name, v) for v in plan.variables] == list(items):
        return plan
    if isinstance(plan, Project):
        inside = dict(plan.items)
        return Project(plan.input, tuple((name, substitute(e, inside)) for name, e in items))
    return Project(plan, tuple(items))


@node
class Aggregate(Plan):
    """One row per combination of key values that occurs; exactly one row if not `grouped`."""

    input: Plan
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    grouped: bool

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """The keys, then the aggregates."""
        return tuple(Var(name, e.type, e.nullable) for name, e in (*self.keys, *self.aggregates))

    def line(self) -> str:
        """`Aggregate by keys: aggregates`."""
        by = f"by [{_items(self, self.keys)}]" if self.grouped else "all"
        return f"Aggregate {by}" + (f": {_items(self, self.aggregates)}" if self.aggregates else "")


@node
class Join(Plan):
    """Pairs of rows for which `condition` is TRUE (None: all pairs), and by the kind rows without partner.

    Such rows are padded with NULLs. The variables of both sides have distinct names; those of a side that may
    be padded are nullable above the join, not in its condition. The right side may mention variables of the
    left one (LATERAL, of the kinds inner and left): its rows are then those for the values of each left row.
    """

    kind: str
    left: Plan
    right: Plan
    condition: Expr | None = None

    @cached_property
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
        on = "" if self.condition is None else f" on {self.text(self.condition)}"
        return f"Join {self.kind}{on}"


@node
class Unnest(Plan):
    """The input once for each place in the longest of some lists, with what each list has there, NULL behind
    its end; not at all where they are empty or NULL."""

    input: Plan
    items: tuple[Named, ...]

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """The input's, then one per list."""
        return self.input.variables + tuple(element(name, e) for name, e in self.items)

    def line(self) -> str:
        """`Unnest name = list, ...`."""
        return f"Unnest {_items(self, self.items)}"


@node
class SetOperation(Plan):
    """UNION, INTERSECT or EXCEPT of two plans with the same column types; `all` keeps multiplicities.

    Rows are compared by identity: NULL is the same as NULL. Names are the left's.
    """

    op: str
    all: bool
    left: Plan
    right: Plan

    @cached_property
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
class Window(Plan):
    """The input with one more column per window function."""

    input: Plan
    items: tuple[tuple[str, WindowCall], ...]

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """The input's, then one per item."""
        return self.input.variables + tuple(Var(n, e.type, e.nullable) for n, e in self.items)

    def line(self) -> str:
        """`Window name = call, ...`."""
        return f"Window {_items(self, self.items)}"


class Subquery(Expr):
    """An expression that asks a plan, in which variables of the plans around it stand free."""

    plan: Plan

    @property
    def kind(self) -> str:
        """What it is called in text."""
        return "scalar"

    def question(self, within: Plan) -> str:
        """What is asked about the plan's rows, as printed behind the label."""
        return ""

    def __str__(self) -> str:
        return f"{self.kind}{self.question(self.plan)}\n{indented(str(self.plan), '  ')}"


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
    def kind(self) -> str:
        """`exists`."""
        return "exists"

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

    `args` and the plan's columns have the same types; with several of them `op` is `=` or `<>` and compares
    row values: `=` is the conjunction of the columns' equalities, `<>` its negation, with three values.
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

    @property
    def kind(self) -> str:
        """`any` or `all`."""
        return "all" if self.all else "any"

    def question(self, within: Plan) -> str:
        """`(a, b) = ANY`."""
        shown = ", ".join(within.text(a) for a in self.args)
        return f" {shown if len(self.args) == 1 else f'({shown})'} {self.op} {'ALL' if self.all else 'ANY'}"


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
        return f"Sort {', '.join(sort_key(self.text(e), *how) for e, *how in self.keys)}"


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


@remembered
def scans(plan: Plan) -> tuple[Scan, ...]:
    """The tables and views that a plan reads, subqueries included. What it takes does not depend on how many
    columns they have."""
    found: list[Scan] = []
    left: list[Node] = [plan]
    while left:
        node = left.pop()
        if isinstance(node, Scan):
            found.append(node)
        else:
            left.extend(node.children[::-1])
    return tuple(found)


def _items(plan: Plan, items: tuple[tuple[str, Expr], ...]) -> str:
    same = (isinstance(e, Var) and e.name == n for n, e in items)
    named = ((_name(n), plan.text(e)) for n, e in items)
    return ", ".join(n if s else f"{n} = {e}" for s, (n, e) in zip(same, named, strict=True))


def _name(name: str) -> str:
    return quote_name(name, KEYWORDS)
