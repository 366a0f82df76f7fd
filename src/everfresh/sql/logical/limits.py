"""LIMIT without ORDER BY: where its rows must be fixed, it takes the first ones by all columns.

That is ORDER BY ALL: the same rows whatever the order in which they came, and on every engine.
"""

from __future__ import annotations

from everfresh.sql.logical.plan import Limit, Plan, Project, Sort
from everfresh.sql.logical.row_calls import SortKey

ORDERED_BY_ALL = "LIMIT without ORDER BY: the first rows by all columns, as ORDER BY ALL says"


def all_columns(plan: Plan) -> tuple[SortKey, ...]:
    """The keys of ORDER BY ALL."""
    return tuple((v, True, False) for v in plan.variables)


def ordered_by_all(limit: Limit) -> Limit:
    """The limit, over rows in an order."""
    below = limit.input
    return limit if is_sorted(below) else Limit(Sort(below, all_columns(below)), limit.count, limit.offset)


def is_sorted(plan: Plan) -> bool:
    """Whether the rows of a plan come in an order."""
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Sort)


def fixed(plan: Plan) -> Plan:
    """A query's plan, ordered by all columns if it ends in a LIMIT without an order."""
    match plan:
        case Project(below, items):
            return Project(fixed(below), items)
        case Limit():
            return ordered_by_all(plan)
    return plan


def takes_any_rows(plan: Plan) -> bool:
    """Whether a LIMIT of the plan has no order but that of all columns."""
    return any(
        not is_sorted(n.input) or (isinstance(n.input, Sort) and n.input.keys == all_columns(n.input.input))
        for n in plan.walk()
        if isinstance(n, Limit)
    )
