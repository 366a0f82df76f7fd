"""Which views run as distributed programs on Spark, and the programs of their batches.

A batch takes two or three stages: tasks that hold the tables' rows send what follows from their change
alone; tasks that hold maps do everything else; and, where a view's result is partitioned otherwise than the
maps that it is computed from, tasks that hold results add what came for them. A view whose program takes
more, or reads the rows of tables or other views, is re-evaluated; that follows from the catalog alone, so
driver and tasks agree on it without being told. So does the placement: what is decided for a view depends on
nothing but its own text and its tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from everfresh.calculus import Rel
from everfresh.compiler import Catalog, Effect, compile_view
from everfresh.compiler.compile import Setting
from everfresh.distributed import RANDOM, Limits, Placement, best, distributed
from everfresh.spark.stages import Staged, staged

_LIMITS = Limits(driver=0)  # the driver holds no state


def no_catalog(joins: bool) -> Catalog:
    """The catalog of an empty database."""
    return Catalog(joins=True, share=False, intervals=False) if joins else Catalog()


def executed(catalog: Catalog, statement: Any) -> tuple[Catalog, Effect]:
    """The catalog after a DDL statement, and what to do for it."""
    return _adapted(*catalog.execute(statement))


def replayed(catalog: Catalog, entry: str) -> tuple[Catalog, Effect]:
    """`executed` for one statement as commit records keep it."""
    return _adapted(*catalog.replay(entry))


def _adapted(catalog: Catalog, effect: Effect) -> tuple[Catalog, Effect]:
    """A new view that cannot run here is re-evaluated."""
    view = effect.create_view
    if not catalog.joins or view is None or view.compiled.reevaluated or _runs(catalog, view.name):
        return catalog, effect
    held = view.compiled.view.map
    setting = Setting("" if held == view.name else held, frozenset(), ())
    compiled = compile_view(view.name, view.compiled.plan, "re-evaluate", catalog.views, True, None, setting)
    view = replace(view, compiled=compiled)
    return replace(catalog, views={**catalog.views, view.name: view}), replace(effect, create_view=view)


def _runs(catalog: Catalog, view: str) -> bool:
    compiled = catalog.views[view].compiled
    own = {r.name for r in compiled.program.relations}
    exprs = [s.expr for t in compiled.program.triggers for s in t.statements]
    read = {n.name for e in exprs for n in e.walk() if isinstance(n, Rel) and not n.delta}
    if compiled.program.static or not read <= own or not set(compiled.bases) <= set(catalog.tables):
        return False
    return _staged(catalog, view) is not None


def incremental(catalog: Catalog, view: str | None = None) -> Catalog:
    """The catalog with the views alone that run as programs (or just `view`)."""
    views = {
        n: v for n, v in catalog.views.items() if not v.compiled.reevaluated and (view is None or n == view)
    }
    return replace(catalog, views=views)


_PLACED: dict[tuple[Any, ...], Placement] = {}
_STAGED: dict[tuple[Any, ...], Staged | None] = {}


def placement_of(catalog: Catalog) -> Placement:
    """Where the maps of all views that run as programs are."""
    maps: dict[str, Any] = {}
    for name in incremental(catalog).views:
        maps.update(_placed_view(incremental(catalog, name)).maps)
    return Placement(dict.fromkeys(catalog.tables, RANDOM), maps)


def _key(alone: Catalog) -> tuple[Any, ...]:
    """What the placement and the program of one view depend on."""
    ((name, view),) = alone.views.items()
    tables = tuple(schema.ddl for n, schema in alone.tables.items() if n in view.compiled.bases)
    return name, view.text, view.compiled.split, tables


def _placed_view(alone: Catalog) -> Placement:
    key = _key(alone)
    if key not in _PLACED:
        _PLACED[key] = best(alone, limits=_LIMITS)
    return _PLACED[key]


def load_program(catalog: Catalog, view: str) -> Staged:
    """What fills a new view: all rows of its tables as one change."""
    found = _staged(catalog, view)
    assert found is not None
    return found


def _staged(catalog: Catalog, view: str) -> Staged | None:
    alone = incremental(catalog, view)
    key = _key(alone)
    if key not in _STAGED:
        changed = tuple(t for t in catalog.tables if t in catalog.views[view].compiled.bases)
        program = distributed(alone, _placed_view(alone), changed, RANDOM, rows=False)
        first = staged(program, frozenset())
        _STAGED[key] = staged(program, first.late) if first is not None and first.late else first
    return _STAGED[key]


def results_of(catalog: Catalog) -> frozenset[str]:
    """The views whose maps are held apart from those that they are computed from."""
    return frozenset(n for n in incremental(catalog).views if load_program(catalog, n).late)


@lru_cache(maxsize=64)
def _batch(ddl: tuple[Any, ...], changed: tuple[str, ...], keep: _Kept) -> Staged:
    catalog = incremental(keep.catalog)
    late = frozenset(catalog.views[n].compiled.map.name for n in results_of(catalog))
    found = staged(distributed(catalog, placement_of(catalog), changed, RANDOM, rows=False), late)
    assert found is not None, "views that run alone run together"
    return found


class _Kept:
    """A catalog that is not compared: its DDL says which it is."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)

    def __hash__(self) -> int:
        return 0


def batch_program(catalog: Catalog, changed: set[str]) -> Staged:
    """What a batch does that changes these tables."""
    order = tuple(t for t in catalog.tables if t in changed)
    return _batch(tuple(catalog.ddl), order, _Kept(catalog))
