"""Which views run as distributed programs on Spark, where their maps are, and the programs of their batches.

A batch takes one stage if every task may read all of it, else up to three: tasks that hold the tables' rows
send what follows from their change alone; tasks that hold maps do everything else; and, where a view's result
is partitioned otherwise than the maps that it is computed from, tasks that hold results add what came for
them. Small results are on the driver. A view whose program takes more, or reads the rows of tables or other
views, is re-evaluated.

What is decided when a view is created depends on the sizes of its tables then. It is kept with the view's
text (`Record.engine`), so that driver and tasks agree on it for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from everfresh.calculus import Rel
from everfresh.compiler import Catalog, CompiledView, Effect, reevaluated
from everfresh.compiler.compile import Setting
from everfresh.compiler.entries import record_of, with_engine
from everfresh.distributed import RANDOM, REPLICATED, Dist, Limits, Placement, best, distributed
from everfresh.distributed.tags import LOCAL, parse_tag
from everfresh.expr.tokens import TokenStream
from everfresh.spark.stages import Staged, staged, whole

Ddl = tuple[tuple[str, str], ...]
DRIVER_HOME, MAPS_HOME, RESULTS_HOME = "driver", "maps", "results"


def no_catalog() -> Catalog:
    """The catalog of an empty database."""
    return Catalog(joins=True, share=False, intervals=False)


def executed(
    catalog: Catalog, statement: Any, sizes: Mapping[str, int] | None = None
) -> tuple[Catalog, Effect]:
    """The catalog after a DDL statement, and what to do for it; `sizes` are the rows of the tables."""
    catalog, effect = catalog.execute(statement, sizes)
    view = effect.create_view
    if view is None or view.compiled.reevaluated:
        return catalog, effect
    decided = _decided(catalog, view.name, sizes or {})
    entry = with_engine(effect.text, decided)
    catalog = replace(catalog, ddl=(*catalog.ddl[:-1], (view.name, entry)))
    return _anew(catalog, replace(effect, text=entry), decided)


def replayed(catalog: Catalog, entry: str) -> tuple[Catalog, Effect]:
    """`executed` for one statement as commit records keep it: nothing is decided again."""
    catalog, effect = catalog.replay(entry)
    return _anew(catalog, effect, record_of(entry)[1].engine)


def _anew(catalog: Catalog, effect: Effect, decided: Mapping[str, Any]) -> tuple[Catalog, Effect]:
    """A new view that cannot run as a program is re-evaluated."""
    view = effect.create_view
    if view is None or "why" not in decided:
        return catalog, effect
    held = view.compiled.view.map
    setting = Setting("" if held == view.name else held, frozenset(), ())
    view = replace(view, compiled=reevaluated(view.name, view.compiled.plan, decided["why"], setting))
    return replace(catalog, views={**catalog.views, view.name: view}), replace(effect, create_view=view)


# -- decisions -------------------------------------------------------------------------------------


def _decided(catalog: Catalog, view: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Where the maps of a view are and which units hold its rows, or why it is re-evaluated."""
    why = _outside(catalog, catalog.views[view].compiled)
    if why is not None:
        return {"why": why}
    alone = incremental(catalog, view)
    target = alone.views[view].compiled.map.name
    for limits in (Limits(), Limits(driver=0)):  # what the driver would send back to workers is not there
        placement = best(alone, sizes, limits=limits)
        found = _load(alone, placement, view)
        if found is not None and found.late <= {target}:
            local = placement.maps[target] == LOCAL
            home = DRIVER_HOME if local else RESULTS_HOME if found.late else MAPS_HOME
            return {"home": home, "maps": {name: str(tag) for name, tag in placement.maps.items()}}
    return {"why": "its distributed program takes more than three stages"}


def _outside(catalog: Catalog, compiled: CompiledView) -> str | None:
    """What keeps a view from being run as a program of its own on Spark."""
    for base in compiled.bases:
        if base in catalog.views:
            return f"a view over the view {base} is not maintained incrementally on Spark"
    if compiled.program.static:
        return f"a view over the static table {compiled.program.static[0]} is not incremental on Spark"
    own = {r.name for r in compiled.program.relations}
    exprs = [s.expr for t in compiled.program.triggers for s in t.statements]
    read = {n.name for e in exprs for n in e.walk() if isinstance(n, Rel) and not n.delta} - own
    return f"its program reads the rows of {', '.join(sorted(read))}" if read else None


@lru_cache(maxsize=64)
def decisions(ddl: Ddl) -> Mapping[str, Mapping[str, Any]]:
    """What was decided for each view."""
    found = {name: record_of(entry)[1].engine for name, entry in ddl}
    return {name: decided for name, decided in found.items() if decided}


def home_of(catalog: Catalog, view: str) -> str:
    """The units that hold a view's rows: of the driver, of maps, or of results."""
    home: str = decisions(catalog.ddl).get(view, {}).get("home", MAPS_HOME)
    return home


@lru_cache(maxsize=64)
def _tags(ddl: Ddl) -> Mapping[str, Any]:
    texts = {n: t for decided in decisions(ddl).values() for n, t in decided.get("maps", {}).items()}
    return {name: parse_tag(TokenStream(text)) for name, text in texts.items()}


def placement_of(catalog: Catalog) -> Placement:
    """Where the rows of tables are, and the maps of all views that run as programs."""
    tables = {
        n: Dist(tuple(c for c in t.names if c in (t.key or t.names))) for n, t in catalog.tables.items()
    }
    return Placement(tables, _tags(catalog.ddl))


def incremental(catalog: Catalog, view: str | None = None) -> Catalog:
    """The catalog with the views alone that run as programs (or just `view`)."""
    views = {
        n: v for n, v in catalog.views.items() if not v.compiled.reevaluated and (view is None or n == view)
    }
    return replace(catalog, views=views)


# -- programs --------------------------------------------------------------------------------------


def _load(alone: Catalog, placement: Placement, view: str) -> Staged | None:
    changed = tuple(t for t in alone.tables if t in alone.views[view].compiled.bases)
    program = distributed(alone, placement, changed, RANDOM, rows=False)
    first = staged(program, frozenset())
    return staged(program, first.late) if first is not None and first.late else first


def load_program(catalog: Catalog, view: str) -> Staged:
    """What fills a new view: all rows of its tables as one change."""
    found = _load(incremental(catalog, view), placement_of(catalog), view)
    assert found is not None, "it was tried when the view was created"
    return found


def batch_program(catalog: Catalog, changed: frozenset[str]) -> Staged:
    """What a batch does that changes these tables, each row where its table has it."""
    alone = incremental(catalog)
    homes = {n: home_of(catalog, n) for n in alone.views}
    late = frozenset(alone.views[n].compiled.map.name for n, home in homes.items() if home == RESULTS_HOME)
    order = tuple(t for t in catalog.tables if t in changed)
    found = staged(distributed(alone, placement_of(catalog), order, RANDOM, rows=False), late)
    assert found is not None, "views that run alone run together"
    return found


def whole_program(catalog: Catalog, changed: frozenset[str]) -> Staged | None:
    """The same for a batch that every task reads; None if that takes more than one stage."""
    alone = incremental(catalog)
    order = tuple(t for t in catalog.tables if t in changed)
    found = whole(distributed(alone, placement_of(catalog), order, REPLICATED, rows=False))
    late = {v.compiled.map.name for n, v in alone.views.items() if home_of(catalog, n) == RESULTS_HOME}
    return found if found is not None and not found.maps & late else None
