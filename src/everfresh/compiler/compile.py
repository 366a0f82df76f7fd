"""From a view's plan to its maintenance program.

lower -> simplify -> check; then for every base relation: delta -> simplify -> check -> one statement. For a query over one table the
delta reads nothing but the change (its degree is zero), so one map per view is all there is: first-order and higher-order
maintenance coincide.
"""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.calculus import DELTA, QUERY, STATEMENT, Query, check, delta, relations
from everfresh.compiler.lower import lower
from everfresh.compiler.passes import simplify
from everfresh.errors import Code, EverfreshError
from everfresh.expr import quote_name
from everfresh.program import MapDef, Program, Statement, Trigger, View
from everfresh.sql import plan as p
from everfresh.types import INTERVAL, NULL

_REFUSED = (INTERVAL, NULL)  # types of expressions that no table has
STRATEGIES = ("auto", "higher-order", "first-order")


@dataclass(frozen=True, slots=True)
class CompiledView:
    """A view ready to run: its plan, its program, and how its rows are read."""

    plan: p.Plan
    program: Program[Query]
    view: View
    strategy: str

    @property
    def tables(self) -> tuple[str, ...]:
        """The base relations the view reads."""
        return tuple(trigger.base for trigger in self.program.triggers)

    @property
    def map(self) -> MapDef[Query]:
        """The map that holds the view."""
        return self.program.map(self.view.map)


def compile_view(name: str, plan: p.Plan, strategy: str = "auto") -> CompiledView:
    """The maintenance program of the view `name` defined by `plan`."""
    if strategy not in STRATEGIES:
        raise EverfreshError(
            Code.UNSUPPORTED, f"strategy '{strategy}' is not available", hint="strategies are: " + ", ".join(STRATEGIES)
        )
    lowered = lower(name, plan)
    for column in (*plan.columns, *lowered.keys):
        if column.type in _REFUSED:
            raise EverfreshError(
                Code.UNSUPPORTED, f"column '{column.name}' of a view cannot be of type {column.type}",
                hint="CAST it to a type that a table can have",
            )
    definition = check(simplify(lowered.query), QUERY)
    target = MapDef(lowered.view.map, lowered.keys, lowered.kinds, definition)
    triggers = []
    for base in relations(lowered.query):
        change = check(simplify(check(delta(definition, {base}), DELTA)), STATEMENT) if base in relations(definition) else None
        statements = () if change is None else (
            Statement(target.name, "+=", change, "incremental", "reads only the change of " + quote_name(base)),
        )
        triggers.append(Trigger(base, statements))
    return CompiledView(plan, Program((target,), tuple(triggers)), lowered.view, strategy)
