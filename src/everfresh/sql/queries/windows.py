"""Window functions: binding a call with OVER, and the calls of one SELECT, collected for its `Window`.

An expression of SELECT, QUALIFY or ORDER BY is first bound with `WindowCall` nodes inside; `Windows.lift`
then replaces them by the variables that a `Window` yields. FILTER becomes a CASE around the argument, since
every aggregate leaves out NULLs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build, coerce, evaluate
from everfresh.expr.nodes import Const, Expr, Var
from everfresh.sql import refusals
from everfresh.sql.context import VariableNames
from everfresh.sql.logical.plan import AggregateCall, Plan, WindowCall
from everfresh.sql.logical.renaming import canonical
from everfresh.sql.logical.row_calls import WHOLE
from everfresh.sql.queries.aggregates import aggregate_name, arguments, sort_key
from everfresh.sql.queries.composed import COMPOSED
from everfresh.sql.scope import Scope
from everfresh.sql.source import near, words
from everfresh.types import BIGINT, DOUBLE, INTERVAL, SqlType, fold

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder

Frame = tuple[str, int | None, int | None]

_RANKS: dict[type[Any], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
}
_VALUES: dict[type[Any], str] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
ONLY_OVER = {**_RANKS, **_VALUES}  # functions that need OVER
_DAY = 86_400_000_000
_FUNCTIONS = (
    "ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, "
    "NTH_VALUE, SUM, COUNT, AVG, MIN, MAX, STDDEV, VARIANCE, COVAR, BOOL_AND and BOOL_OR have OVER"
)
_HINT = "a frame's bound is a constant, in whole units of the sort key: numbers, or days for dates"


class Windows:
    """The window functions of one SELECT."""

    def __init__(self, names: VariableNames) -> None:
        self._names = names
        self._calls: dict[WindowCall, tuple[str, WindowCall]] = {}

    @property
    def items(self) -> tuple[tuple[str, WindowCall], ...]:
        """The calls in order of appearance, equal ones once."""
        return tuple(self._calls.values())

    def lift(self, expr: Expr) -> Expr:
        """The expression over the rows of the `Window`."""
        if isinstance(expr, WindowCall):
            key = canonical(expr)
            if key not in self._calls:
                self._calls[key] = (self._names.numbered(expr.fn), expr)
            return Var(self._calls[key][0], expr.type, expr.nullable)
        # plans of subqueries have windows of their own, already in place
        return expr.map_children(lambda child: child if isinstance(child, Plan) else self.lift(child))


# -- one call --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Over:
    """The parts of OVER (...) as trees."""

    partition: tuple[Any, ...]
    order: Any
    frame: Any


def bind_window(binder: Binder, node: Any) -> Expr:
    """A call with OVER."""
    source = binder.source
    call, where = node.this, None
    if isinstance(call, exp.Filter):
        call, where = call.this, call.expression.this
    if isinstance(call, (exp.IgnoreNulls, exp.RespectNulls)):
        raise source.unsupported(f"{words(call)} in a window function", call.this)
    if node.args.get("over") != "OVER" or node.args.get("first"):
        raise source.unsupported(f"{node.args.get('over')} as a window", node)
    if binder.within or binder.over or not binder.windows:
        inside = binder.within or ("another window function" if binder.over else "")
        message = f"cannot stand inside {inside}" if inside else f"cannot stand in {binder.clause}"
        raise source.error(
            Code.TYPE,
            f"a window function {message}",
            node,
            hint="use QUALIFY" if binder.clause in ("WHERE", "HAVING") and not inside else None,
        )
    over = _over(binder, node, frozenset())
    inner = replace(binder, over=True)
    partition = tuple(inner.bind(p) for p in over.partition)
    order = tuple(sort_key(inner, o) for o in (over.order.expressions if over.order is not None else ()))
    fn, args, of = _call(inner, call, where)
    frame = None if fn in (*_RANKS.values(), "lag", "lead") else _frame(inner, over.frame, order)
    return WindowCall(fn, args, partition, order, frame, of)


def _call(binder: Binder, call: Any, where: Any) -> tuple[str, tuple[Expr, ...], SqlType]:
    source = binder.source
    fn = aggregate_name(call)
    if fn in WHOLE or fn in COMPOSED:
        raise source.unsupported(f"{str(fn).upper()} OVER", call, hint=_FUNCTIONS)
    if fn is not None:
        args, distinct, _ = arguments(binder, call, fn)
        if distinct:
            raise source.unsupported(f"{fn.upper()}(DISTINCT ...) OVER", call)
        of = AggregateCall(fn, tuple(args)).type
        if where is not None:
            condition = binder.condition(where)
            args = [build.case([(condition, a)]) for a in args or [build.literal(1)]]
        return fn, tuple(args), of
    fn = ONLY_OVER.get(type(call))
    if fn is None:
        name = refusals.written(source, call) or words(call)
        raise source.unsupported(f"{name} OVER", call, hint=_FUNCTIONS)
    if where is not None:
        raise source.error(Code.TYPE, f"{fn} takes no FILTER", call)
    if fn == "ntile":
        return fn, (_whole(binder, call.this, fn),), BIGINT
    if type(call) in _RANKS:
        if any(call.args.values()):
            raise source.error(Code.TYPE, f"{fn} takes no arguments", call)
        return fn, (), DOUBLE if fn in ("percent_rank", "cume_dist") else BIGINT
    value = binder.bind(call.this)
    if fn not in ("lag", "lead", "nth_value"):
        return fn, (value,), value.type
    offset, default = call.args.get("offset"), call.args.get("default")
    steps: Expr = Const(1, BIGINT) if offset is None else _whole(binder, offset, fn)
    if fn == "nth_value":
        if offset is None:
            raise source.error(Code.TYPE, "nth_value takes a value and a number", call)
        return fn, (value, steps), value.type
    other: Expr = Const(None, value.type)
    if default is not None:
        other = binder.converted(binder.bind(default), value.type, default)
    return fn, (value, steps, other), value.type


def _whole(binder: Binder, tree: Any, fn: str) -> Expr:
    """The number that a function counts by."""
    given = binder.bind(tree)
    if not (given.type.is_integer or coerce.is_literal(given)):
        what = "number" if fn in ("ntile", "nth_value") else "offset"
        raise binder.source.error(Code.TYPE, f"the {what} of {fn} is a whole number", tree)
    return binder.converted(given, BIGINT, tree)


def _over(binder: Binder, node: Any, seen: frozenset[str]) -> _Over:
    """The parts of a window, with those of the named window it builds on."""
    partition, order = tuple(node.args.get("partition_by") or ()), node.args.get("order")
    frame = node.args.get("spec")
    base = node.args.get("alias")
    if base is None:
        return _Over(partition, order, frame)
    name = fold(base.name)
    if name not in binder.named or name in seen:
        raise binder.source.error(
            Code.NOT_FOUND,
            f"there is no window '{base.name}'",
            base,
            hint=near(base.name, binder.named, "windows"),
        )
    named = _over(binder, binder.named[name], seen | {name})
    if partition or (order is not None and named.order is not None):
        what = "PARTITION BY" if partition else "ORDER BY"
        raise binder.source.error(Code.SYNTAX, f"window '{base.name}' has its own {what}", base)
    return _Over(named.partition, order if order is not None else named.order, frame or named.frame)


# -- frames ----------------------------------------------------------------------------------------------


def _frame(binder: Binder, spec: Any, order: tuple[tuple[Expr, bool, bool], ...]) -> Frame | None:
    if spec is None:
        return None
    source = binder.source
    kind = str(spec.args.get("kind") or "").lower()
    if kind not in ("rows", "range"):
        raise source.unsupported(f"a window frame in {kind.upper()}", spec, keyword=kind.upper())
    if spec.args.get("exclude"):
        raise source.unsupported("EXCLUDE in a window frame", spec, keyword="EXCLUDE")
    start = _bound(binder, spec, "start", kind, order)
    end = 0 if spec.args.get("end") is None else _bound(binder, spec, "end", kind, order)
    if kind == "range" and not order and (start, end) != (None, 0):
        kind, start, end = "rows", None, None  # all rows are peers
    if kind == "range" and (start, end) == (None, None):
        kind = "rows"
    return None if (kind, start, end) == ("range", None, 0) else (kind, start, end)


def _bound(
    binder: Binder, spec: Any, which: str, kind: str, order: tuple[tuple[Expr, bool, bool], ...]
) -> int | None:
    """One end of a frame: an offset in the direction of the order, or None if unbounded."""
    source, value, side = binder.source, spec.args.get(which), str(spec.args.get(f"{which}_side") or "")
    if value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        if side != ("PRECEDING" if which == "start" else "FOLLOWING"):
            raise source.error(Code.SYNTAX, f"a frame cannot {which} at UNBOUNDED {side}", spec)
        return None
    if not isinstance(value, exp.Expr):
        raise source.error(Code.SYNTAX, "a window frame cannot be read", spec)
    if kind == "range" and len(order) != 1:
        raise source.error(Code.TYPE, "a RANGE frame with an offset needs one ORDER BY expression", value)
    if any(isinstance(part, (exp.Column, exp.Query)) for part in value.walk()):
        raise source.unsupported("a bound of a window frame that is not a constant", value)
    expr = replace(binder, scope=Scope(source), aliases={}, clause="a window frame").bind(value)
    amount = evaluate(expr, {})
    if amount is None:
        raise source.error(Code.VALUE, "the bound of a window frame cannot be NULL", value)
    units = _units(expr.type, amount, order[0][0].type) if kind == "range" else None
    if kind == "rows" and expr.type.is_integer:
        units = amount
    if units is None:
        raise source.unsupported(f"this bound of a {kind.upper()} frame", value, hint=_HINT)
    if units < 0:
        raise source.error(Code.VALUE, "the bound of a window frame cannot be negative", value)
    return -units if side == "PRECEDING" else units


def _units(type_: SqlType, amount: Any, key: SqlType) -> int | None:
    """An offset in the physical units of a sort key; None if it is not a whole number of them."""
    if type_ == INTERVAL:
        months, days, micros = amount
        if months or (key.name == "DATE" and micros):
            return None
        units = {"DATE": days, "TIMESTAMP": days * _DAY + micros}.get(key.name)
        return None if units is None else int(units)
    if not type_.is_exact or not (key.is_exact or (key.name == "DATE" and type_.is_integer)):
        return None
    whole, rest = divmod(amount * 10**key.scale, 10**type_.scale)
    return None if rest else int(whole)
