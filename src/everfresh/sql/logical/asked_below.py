"""Subqueries of windows, of ORDER BY and of aggregates of all values, asked by a projection below.

A row asks for an answer once, as a column of its own, and what is above sees the column. So what is
recomputed over many rows at once, from these rows alone, is over plain columns.

>>> from everfresh.expr import Var
>>> from everfresh.types import BIGINT
>>> x, y = Var("x", BIGINT), Var("y", BIGINT)
>>> largest = p.ScalarSubquery(p.Limit(p.Scan("s", "s", (y,)), 1))
>>> print(asked_below(p.Sort(p.Scan("t", "t", (x,)), ((largest, True, False),))))
Project x
  Sort $q0 ASC NULLS LAST
    Project x, $q0 = scalar#1
      scalar#1:
        Limit 1 OFFSET 0
          Scan s (y)
      Scan t (x)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from everfresh.expr import Made, Var
from everfresh.expr.nodes import Expr
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import WHOLE
from everfresh.sql.logical.subqueries import answered, subqueries


def asked_below(plan: p.Plan) -> p.Plan:
    """The plan with the subqueries of windows, sorts and such aggregates in projections below these."""
    names = (Made(f"$q{i}") for i in count())
    return _visited(plan, names)  # type: ignore[no-any-return]


def _visited(node: Any, names: Iterator[str]) -> Any:
    node = node.map_children(lambda c: _visited(c, names))
    whole = isinstance(node, p.Aggregate) and any(call.fn in WHOLE for _, call in node.aggregates)
    if not (whole or isinstance(node, p.Window | p.Sort)):
        return node
    exprs = [c for c in node.children if isinstance(c, Expr)]
    asked = dict.fromkeys(query for e in exprs for query in subqueries(e))
    if not asked:
        return node
    answers: dict[Expr, Expr] = {q: Var(next(names), q.type, q.nullable) for q in asked}
    below = p.Project(
        node.input,
        (*((v.name, v) for v in node.input.variables), *((v.name, q) for q, v in answers.items())),  # type: ignore[attr-defined]
    )
    above = node.map_children(lambda c: below if c is node.input else answered(c, answers))
    if whole:
        return above
    return p.Project(above, tuple((v.name, v) for v in node.variables))
