"""The keys and aggregates of one aggregation, collected while the expressions above it are bound.

An expression of SELECT, HAVING or ORDER BY is first bound over the input rows, with `AggregateCall` nodes
inside; `lift` then replaces keys and aggregates by the variables that an `Aggregate` yields. Invariant: a
lifted expression mentions no variable of the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Const, Expr, Var, variables
from everfresh.sql.plan import AggregateCall, Named
from everfresh.sql.source import Source

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


class Groups:
    """What an aggregation groups by and computes."""

    def __init__(self, source: Source, inputs: set[str]) -> None:
        self.source = source
        self.grouped = False
        self._inputs = inputs
        self._keys: dict[Expr, str] = {}
        self._aggregates: dict[AggregateCall, str] = {}

    @property
    def keys(self) -> tuple[Named, ...]:
        """The keys in order."""
        return tuple((name, expr) for expr, name in self._keys.items())

    @property
    def aggregates(self) -> tuple[tuple[str, AggregateCall], ...]:
        """The aggregates in order of appearance, equal ones once."""
        return tuple((name, call) for call, name in self._aggregates.items())

    def add_key(self, hint: str, expr: Expr) -> None:
        """Group by `expr` too."""
        self.grouped = True
        if expr not in self._keys:
            self._keys[expr] = expr.name if isinstance(expr, Var) else self._name(hint, "key")

    def lift(self, expr: Expr, tree: Any, binder: Binder) -> Expr:
        """`expr` over the rows of the aggregation; `tree` is what it was bound from, for the message."""
        if expr in self._keys and (variables(expr) or not isinstance(expr, Const)):
            return Var(self._keys[expr], expr.type, expr.nullable)
        if isinstance(expr, AggregateCall):
            return self._aggregate(expr)
        if isinstance(expr, Var):
            raise self._loose(expr, tree, binder)
        return expr.map_children(lambda child: self.lift(child, tree, binder))

    def _aggregate(self, call: AggregateCall) -> Var:
        if call not in self._aggregates:
            self._aggregates[call] = self._name("", call.fn)
        return Var(self._aggregates[call], call.type, call.nullable)

    def _name(self, hint: str, kind: str) -> str:
        """A plain name that nothing else has: the hint if it will do, else `kind` and a number."""
        taken = {n.lower() for n in (*self._inputs, *self._keys.values(), *self._aggregates.values())}
        if hint.isidentifier() and hint.lower() not in taken:
            return hint
        k = 1
        while f"{kind}_{k}" in taken:
            k += 1
        return f"{kind}_{k}"

    def _loose(self, var: Var, tree: Any, binder: Binder) -> EverfreshError:
        def is_it(node: Any) -> bool:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return False
            found = binder.scope.resolve(node)
            return found is not None and found[1] == var and not node.find_ancestor(exp.AggFunc)

        node = next((n for n in tree.walk() if is_it(n)), tree)
        return self.source.error(
            Code.TYPE,
            f"column '{var.name}' must appear in GROUP BY or be used in an aggregate function",
            node,
            hint=f"add {var.name} to GROUP BY, or aggregate it",
        )
