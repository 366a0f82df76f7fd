"""A plan over views as a plan over the tables below them: a scan of a view becomes the view's own plan.

The variables of a view's plan get names that nothing else has, once for each scan of it, so that a name means
one variable in what comes out, too. The rows are the same: a view has the rows of its plan.

>>> from everfresh.sql.logical.plan_text import parse_plan
>>> from everfresh.types import INTEGER, Column
>>> tables = {"t": (Column("x", INTEGER),), "v": (Column("y", INTEGER),)}
>>> view = parse_plan("Project y = x + 1\\n  Scan t (x)", tables)
>>> print(inlined(parse_plan("Filter y > 1\\n  Scan v (y)", tables), {"v": view}))
Filter y > 1
  Project y = x + 1
    Scan t (x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from everfresh.expr.nodes import Var
from everfresh.rewrite import Node
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.renaming import defined, renamed


def inlined(plan: p.Plan, views: Mapping[str, p.Plan]) -> p.Plan:
    """The plan with the plans of `views` in place of scans of them, those below included."""
    if not any(scan.table in views for scan in p.scans(plan)):
        return plan
    names = _Names({n.name for n in plan.walk() if isinstance(n, Var)} | set(defined(plan)))

    def visit(node: Any) -> Any:
        if isinstance(node, p.Scan):
            return visit(_standing(views[node.table], node.vars, names)) if node.table in views else node
        return node.map_children(visit)

    found: p.Plan = visit(plan)
    return found


class _Names:
    """Names that are given out once."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def fresh(self, *nodes: Node) -> dict[str, str]:
        """A name for each variable that plans in or below some nodes introduce."""
        return {name: self._one(name) for name in dict.fromkeys(n for node in nodes for n in defined(node))}

    def _one(self, name: str) -> str:
        found, i = name, 1
        while found in self.taken:
            found, i = f"{name}_{i}", i + 1
        self.taken.add(found)
        return found


def _standing(plan: p.Plan, vars_: Sequence[Var], names: _Names) -> p.Plan:
    """A view's plan that yields `vars_`, all other variables with names of their own. The names that it
    yields by itself are the user's: they may mean something else below (`everfresh.sql.logical.plan`)."""
    to = {old.name: new.name for old, new in zip(plan.variables, vars_, strict=True)}
    match plan:
        case p.Sort() | p.Limit() | p.Distinct():
            inside = {**names.fresh(*plan.subqueries), **to}
            below = _standing(plan.input, vars_, names)
            return plan.map_children(lambda c: below if c is plan.input else renamed(c, inside))
        case p.Project(below, items):
            inside = names.fresh(below, *(e for _, e in items))
            return p.Project(
                renamed(below, inside), tuple((to[name], renamed(e, inside)) for name, e in items)
            )
    inside = names.fresh(plan)
    return p.Project(renamed(plan, inside), tuple((to[v.name], renamed(v, inside)) for v in plan.variables))
