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
from everfresh.sql.logical.plan import Aggregate, AggregateCall, Named, Plan
from everfresh.sql.logical.renaming import canonical
from everfresh.sql.logical.row_calls import GroupingCall
from everfresh.sql.queries.grouping_sets import Sets, number_of
from everfresh.sql.source import Source
from everfresh.types import BIGINT

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


class Grouping:
    """What an aggregation groups by and computes; `inputs` are the variables of its rows. `by_sets` of
    keys, a key is another variable than the column that it is, NULL where the set does not have it."""

    def __init__(self, source: Source, inputs: set[str], names: VariableNames, by_sets: bool = False) -> None:
        self.source = source
        self.grouped = False
        self.sets: tuple[frozenset[str], ...] = ()
        self._number = Var(names.fresh("grouping_set"), BIGINT, False) if by_sets else None
        self._inputs = inputs
        self._names = names
        self._keys: dict[Expr, Named] = {}  # by canonical form, as the aggregates
        self._aggregates: dict[AggregateCall, tuple[str, AggregateCall]] = {}

    def over(self, plan: Plan) -> Plan:
        """The aggregation of a plan's rows."""
        if self._number is None:
            return Aggregate(plan, self.keys, self.aggregates, self.grouped)
        return Sets(self.keys, self.sets, self._number.name, self.aggregates, self._names).over(plan)

    @property
    def keys(self) -> tuple[Named, ...]:
        """The keys in order."""
        return tuple(self._keys.values())

    @property
    def aggregates(self) -> tuple[tuple[str, AggregateCall], ...]:
        """The aggregates in order of appearance, equal ones once."""
        return tuple(self._aggregates.values())

    def add_key(self, hint: str, expr: Expr) -> str:
        """Group by `expr` too; the name of the key."""
        self.grouped = True
        key = canonical(expr)
        if key in self._keys:
            return self._keys[key][0]
        if self._number is not None:
            name = self._names.fresh(hint if hint.isidentifier() else "key")
        elif isinstance(expr, Var) and expr.name in self._inputs:
            name = expr.name
        else:
            name = hint if hint.isidentifier() and self._names.take(hint) else self._names.numbered("key")
        self._keys[key] = (name, expr)
        return name

    def lift(self, expr: Expr, tree: Any, binder: Binder) -> Expr:
        """`expr` over the rows of the aggregation; `tree` is what it was bound from, for the message."""
        lifted: Expr = self._lift(expr, tree, binder, False)
        return lifted

    def _lift(self, node: Any, tree: Any, binder: Binder, inside: bool) -> Any:
        """`inside` the plan of a subquery, aggregates are its own, and so are most variables."""
        if isinstance(node, Expr) and not isinstance(node, Const):
            found = self._keys.get(canonical(node))
            if found is not None:
                return Var(found[0], node.type, node.nullable or not self._everywhere(found[0]))
        if isinstance(node, GroupingCall) and not inside:
            return self._grouping(node, tree)
        if isinstance(node, AggregateCall) and not inside:
            return self._aggregate(node)
        if isinstance(node, Var) and node.name in self._inputs:
            raise self._loose(node, tree, binder)
        return node.map_children(
            lambda child: self._lift(child, tree, binder, inside or isinstance(child, Plan))
        )

    def _everywhere(self, key: str) -> bool:
        """Whether all sets have a key."""
        return all(key in s for s in self.sets)

    def _grouping(self, call: GroupingCall, tree: Any) -> Expr:
        keys = [self._keys.get(canonical(arg)) for arg in call.args]
        if None in keys:
            wrong = call.args[keys.index(None)]
            raise self.source.error(
                Code.TYPE, f"GROUPING takes keys of GROUP BY, not {wrong}", tree, keyword="GROUPING"
            )
        if self._number is None:
            return Const(0, BIGINT)
        bits = [[int(k is not None and k[0] not in s) for k in keys] for s in self.sets]
        return number_of([int("".join(map(str, row)), 2) for row in bits], self._number)

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
