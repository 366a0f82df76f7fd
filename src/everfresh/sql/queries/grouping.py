"""The keys and aggregates of one aggregation, collected while the expressions above it are bound.

An expression of SELECT, HAVING or ORDER BY is first bound over the input rows, with `AggregateCall` nodes
inside; `lift` then replaces keys and aggregates by the variables that an `Aggregate` yields. Invariant: a
lifted expression mentions no variable of the input, not even inside of a subquery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Const, Expr, Var
from everfresh.sql.context import VariableNames
from everfresh.sql.logical.plan import AggregateCall, Named, Plan
from everfresh.sql.logical.renaming import canonical
from everfresh.sql.source import Source

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


class Grouping:
    """What an aggregation groups by and computes; `inputs` are the variables of its rows."""

    def __init__(self, source: Source, inputs: set[str], names: VariableNames) -> None:
        self.source = source
        self.grouped = False
        self._inputs = inputs
        self._names = names
        self._keys: dict[Expr, Named] = {}  # by canonical form, as the aggregates
        self._aggregates: dict[AggregateCall, tuple[str, AggregateCall]] = {}

    @property
    def keys(self) -> tuple[Named, ...]:
        """The keys in order."""
        return tuple(self._keys.values())

    @property
    def aggregates(self) -> tuple[tuple[str, AggregateCall], ...]:
        """The aggregates in order of appearance, equal ones once."""
        return tuple(self._aggregates.values())

    def add_key(self, hint: str, expr: Expr) -> None:
        """Group by `expr` too."""
        self.grouped = True
        key = canonical(expr)
        if key in self._keys:
            return
        if isinstance(expr, Var) and expr.name in self._inputs:
            name = expr.name
        else:
            name = hint if hint.isidentifier() and self._names.take(hint) else self._names.numbered("key")
        self._keys[key] = (name, expr)

    def lift(self, expr: Expr, tree: Any, binder: Binder) -> Expr:
        """`expr` over the rows of the aggregation; `tree` is what it was bound from, for the message."""
        lifted: Expr = self._lift(expr, tree, binder, False)
        return lifted

    def _lift(self, node: Any, tree: Any, binder: Binder, inside: bool) -> Any:
        """`inside` the plan of a subquery, aggregates are its own, and so are most variables."""
        if isinstance(node, Expr) and not isinstance(node, Const):
            found = self._keys.get(canonical(node))
            if found is not None:
                return Var(found[0], node.type, node.nullable)
        if isinstance(node, AggregateCall) and not inside:
            return self._aggregate(node)
        if isinstance(node, Var) and node.name in self._inputs:
            raise self._loose(node, tree, binder)
        return node.map_children(
            lambda child: self._lift(child, tree, binder, inside or isinstance(child, Plan))
        )

    def _aggregate(self, call: AggregateCall) -> Var:
        key = canonical(call)
        if key not in self._aggregates:
            self._aggregates[key] = (self._names.numbered(call.fn), call)
        return Var(self._aggregates[key][0], call.type, call.nullable)

    def _loose(self, var: Var, tree: Any, binder: Binder) -> EverfreshError:
        def is_it(node: Any) -> bool:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return False
            try:
                found = binder.scope.resolve(node)
            except EverfreshError:  # a name inside of a subquery may mean something else out here
                return False
            return found is not None and found[1].name == var.name and not node.find_ancestor(exp.AggFunc)

        node = next((n for n in tree.walk() if is_it(n)), tree)
        return self.source.error(
            Code.TYPE,
            f"column '{var.name}' must appear in GROUP BY or be used in an aggregate function",
            node,
            hint=f"add {var.name} to GROUP BY, or aggregate it",
        )
