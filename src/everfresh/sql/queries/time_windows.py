"""Windows in time as relations: TUMBLE, HOP and SESSION over a table, a view or a query with a time column.

    FROM TUMBLE(t, at, INTERVAL '10 minutes')          each row, with the window in which it lies
    FROM HOP(t, at, hop, size)                         each row once for each window in which it lies
    FROM SESSION(t, at, gap, key, ...)                 each row, with the session of its key in which it lies

Each gives the columns of the relation, and `window_start` and `window_end`, which is not in the window.
They are queries of other parts. TUMBLE is a projection with `time_bucket`. HOP joins with the numbers of the
windows that overlap. A session begins at an event before which there is none for longer than the gap, and
ends the gap after an event behind which there is none: both are asked of ordered indexes
(`compiler.lowering.next_value`),

    starts := events e with e - (SELECT MAX(at) before e) > gap, or none before
    window_start := (SELECT MAX(at) FROM starts WHERE at <= e)

so that an event moves the rows of its own session, and reads no others. Rows without a time are in no window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Expr, Var, build, evaluate
from everfresh.expr.library.civil import DAY_US
from everfresh.sql.context import Context, VariableNames
from everfresh.sql.logical.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    ScalarSubquery,
    Single,
)  # fmt: skip
from everfresh.sql.logical.renaming import defined, renamed
from everfresh.sql.logical.row_calls import AggregateCall
from everfresh.sql.queries.clauses import Query
from everfresh.sql.queries.setops import all_rows
from everfresh.types import DATE, INTERVAL, TIMESTAMP

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder

_MOST_WINDOWS = 1000  # in which one row lies
_SHAPES = {
    "TUMBLE": "TUMBLE(table, time, size [, offset])",
    "HOP": "HOP(table, time, hop, size [, offset])",
    "SESSION": "SESSION(table, time, gap [, key, ...])",
}


def is_time_window(node: Any) -> bool:
    """Whether a relation in FROM is a call of one of the functions."""
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous) and _name(node) in _SHAPES


def _name(node: Any) -> str:
    return str(node.this.name).upper()


@dataclass(frozen=True)
class _Asked:
    """A call, bound: the rows with their time, its other arguments, and where it stands."""

    rows: Plan
    names: tuple[str, ...]
    at: Var
    rest: tuple[Expr, ...]
    context: Context
    node: Any

    @property
    def fresh(self) -> VariableNames:
        """The variable names of the statement."""
        return self.context.names

    def wrong(self, message: str) -> EverfreshError:
        """The refusal of an argument."""
        shape = _SHAPES[_name(self.node)]
        return self.context.source.error(Code.TYPE, message, self.node, hint=f"write {shape}")


def time_window(
    node: Any, context: Context, relation: Callable[[Any], Query], binder: Callable[[Query], Binder]
) -> Query:
    """The rows of a call in FROM; `relation` binds its first argument, `binder` what reads its columns."""
    name, args = _name(node), list(node.this.expressions)
    least, most = {"TUMBLE": (3, 4), "HOP": (4, 5), "SESSION": (3, 64)}[name]
    if not least <= len(args) <= most:
        raise context.source.error(
            Code.TYPE, f"{name} does not take {len(args)} arguments", node, hint=f"write {_SHAPES[name]}"
        )
    of = relation(args[0])
    own = binder(of)
    at, *rest = (own.bind(a) for a in args[1:])
    at = build.cast(at, TIMESTAMP) if at.type == DATE else at
    var = Var(context.names.fresh("at"), at.type, at.nullable)
    asked = _Asked(of.plan, of.names, var, tuple(rest), context, node)
    if at.type != TIMESTAMP and not at.type.is_integer:
        raise asked.wrong(f"the time of {name} is a TIMESTAMP, a DATE or an integer, not {at.type}")
    timed = Project(of.plan, (*((v.name, v) for v in of.plan.variables), (var.name, at)))
    there = Filter(timed, build.call("not", build.call("is_null", var))) if at.nullable else timed
    asked = _Asked(there, of.names, var, asked.rest, context, node)
    plan, start, end = {"TUMBLE": _tumble, "HOP": _hop, "SESSION": _session}[name](asked)
    bounds = ((context.names.fresh("window_start"), start), (context.names.fresh("window_end"), end))
    kept = tuple((v.name, v) for v in of.plan.variables)
    return Query(Project(plan, (*kept, *bounds)), (*of.names, "window_start", "window_end"))


_Windows = tuple[Plan, Expr, Expr]
"""Rows, and the bounds of the window that each is in."""


def _length(asked: _Asked, expr: Expr, what: str) -> tuple[Const, int | None]:
    """A length as a constant, and in units of the time, None if it is of months; raises unless it is above
    zero."""
    if not isinstance(expr, Const):
        try:
            expr = Const(evaluate(expr, {}), expr.type)
        except KeyError:
            raise asked.wrong(f"the {what} is a constant") from None
    wanted = "an INTERVAL" if asked.at.type == TIMESTAMP else "an integer"
    if expr.value is None or (
        expr.type != INTERVAL if asked.at.type == TIMESTAMP else not expr.type.is_integer
    ):
        raise asked.wrong(f"the {what} is {wanted}, as the time is {asked.at.type}")
    if expr.type != INTERVAL:
        units = int(expr.value)
    else:
        months, days, us = expr.value
        if months and (days or us or months < 0):
            raise asked.wrong(f"the {what} is of months above zero, or of days and less")
        units = days * DAY_US + us
        if months:
            return expr, None
    if units <= 0 and what != "offset":
        raise asked.wrong(f"the {what} must be above zero")
    return expr, units


def _bucket(asked: _Asked, width: Const, offset: Expr | None) -> Expr:
    """The start of the bucket of the time."""
    at = asked.at if offset is None else build.call("-", asked.at, offset)
    if asked.at.type == TIMESTAMP:
        start = build.call("time_bucket", width, at)
    else:
        rest = build.call("%", build.call("+", build.call("%", at, width), width), width)
        start = build.call("-", at, rest)
    return start if offset is None else build.call("+", start, offset)


def _offset(asked: _Asked, place: int) -> Expr | None:
    return None if len(asked.rest) <= place else _length(asked, asked.rest[place], "offset")[0]


def _tumble(asked: _Asked) -> _Windows:
    size, _ = _length(asked, asked.rest[0], "size")
    start = Var(asked.fresh.fresh("start"), asked.at.type, asked.at.nullable)
    found = _bucket(asked, size, _offset(asked, 1))
    plan = _with(asked.rows, (start.name, found))
    return plan, start, build.call("+", plan.variables[-1], size)


def _hop(asked: _Asked) -> _Windows:
    hop, step = _length(asked, asked.rest[0], "hop")
    size, length = _length(asked, asked.rest[1], "size")
    if step is None or length is None:
        raise asked.wrong("the hop and the size of HOP are of days and less")
    count = -(-length // step)
    if count > _MOST_WINDOWS:
        raise asked.wrong(f"each row would be in {count} windows, more than {_MOST_WINDOWS}")
    last = _with(asked.rows, (asked.fresh.fresh("start"), _bucket(asked, hop, _offset(asked, 2))))
    back = asked.fresh.fresh("back")
    # Equal variables in all rows: those of the first are those of the union.
    rows = [_single(back if k == 0 else asked.fresh.fresh("back"), _times(hop, k)) for k in range(count)]
    numbers = all_rows(rows)
    pairs = Join("inner", last, numbers)
    start = build.call("-", last.variables[-1], numbers.variables[0])
    plan = _with(pairs, (asked.fresh.fresh("start"), start))
    begun = plan.variables[-1]
    end = build.call("+", begun, size)
    return Filter(plan, build.call("<", asked.at, end)), begun, end


def _single(name: str, value: Expr) -> Plan:
    return Project(Single(), ((name, value),))


def _times(hop: Const, k: int) -> Const:
    if hop.type != INTERVAL:
        return Const(hop.value * k, hop.type)
    months, days, us = hop.value
    return Const((months * k, days * k, us * k), INTERVAL)


def _session(asked: _Asked) -> _Windows:
    gap, units = _length(asked, asked.rest[0], "gap")
    if units is None:
        raise asked.wrong("the gap of SESSION is of days and less")
    keys = tuple((asked.fresh.fresh("key"), e) for part in asked.rest[1:] for e in _never_null(part))
    keyed = _with(asked.rows, *keys)
    keyed_vars = tuple(v for v in keyed.variables if v.name in dict(keys))
    events = Distinct(Project(keyed, tuple((v.name, v) for v in (*keyed_vars, asked.at))))
    start = _edge(asked, keyed, events, keyed_vars, gap, before=True)
    end = _edge(asked, keyed, events, keyed_vars, gap, before=False)
    plan = _with(keyed, (asked.fresh.fresh("start"), start), (asked.fresh.fresh("end"), end))
    first, last = plan.variables[-2:]
    return plan, first, build.call("+", last, gap)


def _never_null(key: Expr) -> list[Expr]:
    """A key as expressions that are equal where keys are the same: NULL is one of them."""
    if not key.nullable:
        return [key]
    missing = build.call("is_null", key)
    return [missing, build.call("coalesce", key, Const(_ZERO.get(key.type.name, 0), key.type))]


_ZERO = {"VARCHAR": "", "BOOLEAN": False, "REAL": 0.0, "DOUBLE": 0.0}


def _edge(asked: _Asked, rows: Plan, events: Plan, keys: tuple[Var, ...], gap: Const, before: bool) -> Expr:
    """Of each row of `rows` the first or the last event of its session: the nearest on that side beyond
    which there is no other within the gap."""
    ours = {v.name: v for v in rows.variables}
    fn, away, side = ("max", "<", "<=") if before else ("min", ">", ">=")
    candidate, names = _again(asked.fresh, events)
    own = {v.name: v for v in candidate.variables}
    mine = own[names[asked.at.name]]
    other, others = _again(asked.fresh, events)
    theirs = {v.name: v for v in other.variables}
    near = _extreme(
        asked.fresh,
        other,
        [build.call("=", own[names[k.name]], theirs[others[k.name]]) for k in keys],
        build.call(away, theirs[others[asked.at.name]], mine),
        fn,
        theirs[others[asked.at.name]],
    )
    held = _with(candidate, (asked.fresh.fresh("near"), near))
    next_ = held.variables[-1]
    apart = (
        build.call("<", build.call("+", next_, gap), mine)
        if before
        else build.call("<", build.call("+", mine, gap), next_)
    )
    edges = Filter(held, build.call("or", build.call("is_null", next_), apart))
    return _extreme(
        asked.fresh,
        edges,
        [build.call("=", ours[k.name], own[names[k.name]]) for k in keys],
        build.call(side, mine, ours[asked.at.name]),
        fn,
        mine,
    )


def _extreme(names: VariableNames, plan: Plan, same: list[Expr], order: Expr, fn: str, of: Var) -> Expr:
    """The least or greatest value of a column, of the rows that agree and are on one side."""
    call = AggregateCall(fn, (of,))
    rows = Filter(plan, build.conjunction([*same, order]))
    return ScalarSubquery(Aggregate(rows, (), ((names.numbered(fn), call),), False))


def _with(plan: Plan, *items: tuple[str, Expr]) -> Plan:
    """The rows with more columns."""
    return Project(plan, (*((v.name, v) for v in plan.variables), *items)) if items else plan


def _again(names: VariableNames, plan: Plan) -> tuple[Plan, dict[str, str]]:
    """Another reading of a plan, and what its variables are called there."""
    fresh = {name: names.fresh(name) for name in dict.fromkeys(defined(plan))}
    found: Plan = renamed(plan, fresh)
    return found, fresh
