"""ASOF joins: to each row of the left side the row of the right side that is nearest in an order.

    l ASOF [LEFT] JOIN r ON l.k = r.k AND l.t >= r.t

joins with the last row of `r` that has the same `k` and is not after `l.t`; `>` leaves out equal ones, `<=`
and `<` look for the first row behind. Such a join is a query of other parts, which are maintained anyway:

    y := (SELECT MAX(r.t) FROM r WHERE r.k = l.k AND r.t <= l.t)   for each row of the left side
    l [LEFT] JOIN r' ON r'.k = l.k AND r'.t = y

The extreme is read off an ordered index (`compiler.lowering.next_value`). Of rows of the right side with
the same `k` and `t`, `r'` has one: the first by all columns, ascending, NULLs last; so the result does not
depend on the order in which rows came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.errors import Code
from everfresh.expr import Call, Expr, Var, build
from everfresh.sql.context import Context, VariableNames
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.plan import Aggregate, Filter, Join, Plan, Project, ScalarSubquery, Scan, Window
from everfresh.sql.logical.renaming import defined, renamed
from everfresh.sql.logical.row_calls import AggregateCall, WindowCall
from everfresh.sql.logical.subqueries import names as mentioned
from everfresh.types import BIGINT, fold

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_HINT = "write ON l.k = r.k AND l.t >= r.t: equalities of both sides, and one comparison in order"


@dataclass(frozen=True)
class _Nearest:
    """What an ASOF join asks: equal expressions of both sides, and `left op right`."""

    equal: tuple[tuple[Expr, Expr], ...]
    left: Expr
    op: str
    right: Expr


def asof_join(context: Context, node: Any, kind: str, left: Plan, right: Plan, condition: Expr) -> Plan:
    """The join of two plans by a condition over both; `kind` is `inner` or `left`."""
    asked = _nearest(context, node, left, right, condition)
    fresh = context.names
    keys = tuple((fresh.fresh("key"), e) for _, e in asked.equal)
    when = (fresh.fresh("at"), asked.right)
    keyed = Project(right, (*((v.name, v) for v in right.variables), *keys, when))
    found = (fresh.fresh("nearest"), _extreme(fresh, keyed, keys, when, asked))
    here = Project(left, (*((v.name, v) for v in left.variables), found))
    best = keyed if _is_key(context, right, asked) else _first_of_equals(fresh, keyed, keys, when)
    side = {v.name: v for v in best.variables}
    pairs = [(mine, side[name]) for (name, _), (mine, _) in zip(keys, asked.equal, strict=True)]
    nearest = here.variables[-1]
    both = [build.call("=", a, b) for a, b in (*pairs, (nearest, side[when[0]]))]
    plan = Join(kind, here, best, build.conjunction(both))
    wanted = {v.name for v in (*left.variables, *right.variables)}
    return Project(plan, tuple((v.name, v) for v in plan.variables if v.name in wanted))


def _nearest(context: Context, node: Any, left: Plan, right: Plan, condition: Expr) -> _Nearest:
    """The condition of the join taken apart."""
    mine, theirs = ({v.name for v in side.variables} for side in (left, right))
    equal: list[tuple[Expr, Expr]] = []
    order: list[tuple[Expr, str, Expr]] = []
    for part in conjuncts(condition):
        found = _comparison(part, mine, theirs)
        if found is None:
            raise context.source.unsupported(
                f"the condition {part} in an ASOF JOIN", node, hint=_HINT, keyword="ASOF"
            )
        a, op, b = found
        if op == "=":
            equal.append((a, b))
        else:
            order.append(found)
    if len(order) != 1:
        many = "one comparison by <, <=, > or >=" if not order else "only one comparison by <, <=, > or >="
        raise context.source.error(Code.TYPE, f"an ASOF JOIN needs {many}", node, hint=_HINT, keyword="ASOF")
    return _Nearest(tuple(equal), *order[0])


def _comparison(part: Expr, mine: set[str], theirs: set[str]) -> tuple[Expr, str, Expr] | None:
    """`left op right`, whichever side was written first; None for anything else."""
    if not isinstance(part, Call) or part.op not in ("=", *_MIRRORED):
        return None
    a, b = part.args
    first, second = mentioned(a), mentioned(b)
    if first & theirs and not first & mine:
        a, b, first, second = b, a, second, first
        op = _MIRRORED.get(part.op, part.op)
    else:
        op = part.op
    if not second & theirs or first & theirs or second & mine:
        return None
    return a, op, b


def _extreme(
    names: VariableNames,
    keyed: Plan,
    keys: Sequence[tuple[str, Expr]],
    when: tuple[str, Expr],
    asked: _Nearest,
) -> Expr:
    """The nearest value of the right side's order, of a reading of that side of its own."""
    fresh = {name: names.fresh(name) for name in dict.fromkeys(defined(keyed))}
    there: Plan = renamed(keyed, fresh)
    by = {v.name: v for v in there.variables}
    pairs = [
        build.call("=", mine, by[fresh[name]]) for (name, _), (mine, _) in zip(keys, asked.equal, strict=True)
    ]
    at = by[fresh[when[0]]]
    qualify = Filter(there, build.conjunction([*pairs, build.call(asked.op, asked.left, at)]))
    call = AggregateCall("max" if asked.op in (">", ">=") else "min", (at,))
    return ScalarSubquery(Aggregate(qualify, (), ((names.numbered(call.fn), call),), False))


def _is_key(context: Context, right: Plan, asked: _Nearest) -> bool:
    """Whether no two rows of the right side agree in what is compared."""
    schema = context.catalog.table(right.table) if isinstance(right, Scan) else None
    if schema is None or not schema.key:
        return False
    compared = {e for e in (*(b for _, b in asked.equal), asked.right) if isinstance(e, Var)}
    held = {fold(c.name) for c, v in zip(schema.columns, right.variables, strict=True) if v in compared}
    return {fold(name) for name in schema.key} <= held


def _first_of_equals(
    names: VariableNames, keyed: Plan, keys: Sequence[tuple[str, Expr]], when: tuple[str, Expr]
) -> Plan:
    """One row of those that agree in what is compared."""
    compared = {name for name, _ in (*keys, when)}
    by = tuple(v for v in keyed.variables if v.name in compared)
    order = tuple((v, True, False) for v in keyed.variables if v.name not in compared)
    number = Var(names.numbered("row_number"), BIGINT, False)
    call = WindowCall("row_number", (), by, order, None, BIGINT)
    return Filter(
        Window(keyed, ((number.name, call),)), build.call("=", number, build.cast(build.literal(1), BIGINT))
    )
