"""UNNEST in the SELECT list.

Several stand side by side. Rows are taken apart behind WHERE, GROUP BY, HAVING, windows and QUALIFY, before
DISTINCT, ORDER BY and LIMIT; before the groups are made only if GROUP BY names what is taken apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code
from everfresh.expr import build, element
from everfresh.expr.nodes import Const, Expr
from everfresh.sql.context import VariableNames
from everfresh.sql.logical.plan import Plan, Unnest
from everfresh.sql.logical.renaming import canonical
from everfresh.sql.logical.row_calls import UnnestCall
from everfresh.types import NULL, SqlType

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


def unnest_call(binder: Binder, node: Any) -> Expr:
    """UNNEST(list) in an expression."""
    source = binder.source
    if node.expressions:
        what = str(getattr(node.expressions[0], "name", "")).lower() or "a second argument"
        raise source.unsupported(
            f"UNNEST with {what}",
            node,
            hint="take one level apart after the other: FROM t, UNNEST(t.lists) AS u(l), UNNEST(u.l) AS w(x)",
        )
    if not binder.lists or binder.within or binder.over:
        where = f"inside {binder.within}" if binder.within else f"in {binder.clause}"
        raise source.error(
            Code.TYPE,
            f"UNNEST cannot stand {where}",
            node,
            hint="take the list apart in FROM: FROM t, UNNEST(t.list) AS u(x)",
        )
    values = replace(binder, lists=False, clause="UNNEST").bind(node.this)
    if values == Const(None, NULL):
        values = build.cast(values, SqlType("LIST", inner=(NULL,)))
    if values.type.name != "LIST":
        hint = "a struct is taken apart as a column of its own: SELECT UNNEST(s)"
        raise source.error(
            Code.TYPE,
            f"UNNEST takes a list, not a {values.type}",
            node,
            hint=hint if values.type.name == "STRUCT" else None,
        )
    return UnnestCall(values)


class Unnests:
    """The lists of one SELECT that are taken apart together."""

    def __init__(self, names: VariableNames) -> None:
        self.names = names
        self.items: dict[Expr, tuple[str, Expr]] = {}

    def lift(self, expr: Expr, known: bool = False) -> Expr:
        """The expression with a variable for each UNNEST; if `known`, for those that were there before."""
        if isinstance(expr, UnnestCall):
            key = canonical(expr.list)
            if key not in self.items:
                if known:
                    return expr
                self.items[key] = (self.names.numbered("unnest"), expr.list)
            return element(*self.items[key])
        return expr.map_children(lambda c: c if isinstance(c, Plan) else self.lift(c, known))

    def over(self, plan: Plan) -> Plan:
        """The rows, taken apart."""
        return Unnest(plan, tuple(self.items.values())) if self.items else plan
