"""How the queries of a workload are maintained, and how long they take to compile."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from everfresh.compiler import Catalog, CompiledView
from everfresh.program import Partitions
from everfresh.sql import parse_and_bind
from everfresh.workloads.corpus import WORKLOADS, Query

REEVALUATED = "re-evaluated"


@dataclass(frozen=True, slots=True)
class Strategies:
    """How one query is maintained."""

    query: Query
    by_base: dict[str, tuple[str, ...]]
    """The strategies of the statements of each trigger, each once."""
    partitions: int
    """How many relations of the program are recomputed partition by partition."""
    reasons: tuple[str, ...]
    """Why statements are re-evaluated."""
    reevaluated: bool
    """Whether the query is wholly re-evaluated: the map of the view is its plan."""

    @property
    def all(self) -> tuple[str, ...]:
        """All strategies, each once."""
        found = {strategy: None for some in self.by_base.values() for strategy in some}
        return tuple(found)


def catalog_of(tables: Iterable[str]) -> Catalog:
    """A catalog with these tables, for an engine that runs joins."""
    catalog = Catalog(joins=True)
    for ddl in tables:
        (statement,) = parse_and_bind(ddl, catalog)
        catalog, _ = catalog.execute(statement)
    return catalog


def compiled(query: Query, catalog: Catalog | None = None) -> CompiledView:
    """The compiled view of a query, alone in `catalog` (by default the tables of its workload)."""
    if catalog is None:
        catalog = catalog_of(WORKLOADS[query.workload].tables.values())
    (statement,) = parse_and_bind(query.ddl, catalog)
    after, _ = catalog.execute(statement)
    return after.views[query.view].compiled


def compile_all(names: Iterable[str] = ("tpch",)) -> dict[str, float]:
    """The seconds that each query of these workloads takes from text to program, by the name of its view."""
    seconds = {}
    for name in names:
        catalog = catalog_of(WORKLOADS[name].tables.values())
        for query in WORKLOADS[name].queries:
            start = time.perf_counter()
            compiled(query, catalog)
            seconds[query.view] = time.perf_counter() - start
    return seconds


def strategies(query: Query) -> Strategies:
    """How a query is maintained when it is the only view."""
    view = compiled(query)
    statements = [(t.base, s) for t in view.program.triggers for s in t.statements]
    by_base = {
        trigger.base: tuple(dict.fromkeys(s.strategy for s in trigger.statements))
        for trigger in view.program.triggers
    }
    reasons = dict.fromkeys(s.reason for _, s in statements if s.strategy == REEVALUATED and s.reason)
    partitions = sum(isinstance(relation, Partitions) for relation in view.program.relations)
    return Strategies(query, by_base, partitions, tuple(reasons), view.reevaluated)
