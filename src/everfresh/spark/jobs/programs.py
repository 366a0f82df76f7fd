"""Which views run as distributed programs on Spark, where their maps are, and the programs of their batches.

A batch takes one stage if every task may read all of it, else as many as its longest view: tasks that hold
the tables' rows send what follows from their change alone; tasks that hold maps do everything else, level by
level (`everfresh.spark.jobs.stages`). Small results are on the driver. A view whose program has no levels, or
reads the rows of tables, is re-evaluated.

A view over views is a program over the tables below them, as if their definitions stood in its own: it needs
no view to have changed first, and shares no map with one.

What is decided when a view is created depends on the sizes of its tables then. It is kept with the view's
text (`Record.engine`), so that driver and tasks agree on it for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from everfresh.calculus import Rel
from everfresh.compiler import WIDE, Catalog, CompiledView, Effect, reevaluated
from everfresh.compiler.altering import altered
from everfresh.compiler.compile import Setting
from everfresh.compiler.ddl_log import Record, record_of, with_engine
from everfresh.compiler.lowering.static_tables import filled_once
from everfresh.distributed import RANDOM, REPLICATED, Dist, Known, Limits, Placement, best, distributed
from everfresh.distributed.plan.early import done_early
from everfresh.distributed.plan.ir import DistributedProgram, map_id
from everfresh.distributed.plan.programs import tables_of
from everfresh.distributed.plan.tags import LOCAL, Tag, parse_tag
from everfresh.errors import EverfreshError
from everfresh.expr import TokenStream, stored, unstored
from everfresh.program import Progress
from everfresh.spark.jobs.stages import HOMES, MAPS, MOST, Levels, Staged, levels_of, staged, whole
from everfresh.sql import parse_and_bind
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.inlining import inlined

Ddl = tuple[tuple[str, str], ...]
DRIVER_HOME = "driver"


def no_catalog() -> Catalog:
    """The catalog of an empty database."""
    return Catalog(joins=True, share=False, wide=WIDE)


def executed(
    catalog: Catalog,
    statement: Any,
    sizes: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> tuple[Catalog, Effect]:
    """The catalog after a DDL statement, and what to do for it; `sizes` are the rows of the tables."""
    made, effect = catalog.execute(statement, sizes, progress=progress)
    view = effect.create_view
    if view is None or view.compiled.reevaluated:
        return _altered(made, effect), effect
    try:
        made, effect = _over_tables(catalog, statement, made, effect, sizes)
        decided = {**_decided(made, view.name, sizes or {}), "wide": catalog.wide}
    except _Recomputed as why:
        decided = {"why": str(why)}
    entry = with_engine(effect.text, decided)
    made = replace(made, ddl=(*made.ddl[:-1], (view.name, entry)))
    return _anew(made, replace(effect, text=entry), decided)


def replayed(catalog: Catalog, entry: str) -> tuple[Catalog, Effect]:
    """`executed` for one statement as commit records keep it: nothing is decided again. A view that does not
    say from how many columns on it reads some of a table's has maps of whole rows."""
    dialect, record, text = record_of(entry)
    then = replace(catalog, wide=record.engine.get("wide"))
    (statement,) = parse_and_bind(text, then, dialect)
    made, effect = then.execute(statement, None, record)
    if effect.create_view is None:
        return replace(_altered(made, effect), wide=catalog.wide), effect
    if "maps" in record.engine:
        made, effect = _over_tables(then, statement, made, effect, None, record)
    made, effect = _anew(made, effect, record.engine)
    return replace(made, wide=catalog.wide), effect


class _Recomputed(Exception):
    """Why a view is computed anew after each batch."""


def _over_tables(
    catalog: Catalog,
    statement: Any,
    made: Catalog,
    effect: Effect,
    sizes: Mapping[str, int] | None,
    record: Record | None = None,
) -> tuple[Catalog, Effect]:
    """A new view as a program over tables: views that it reads by their definitions, static tables with
    triggers that run when it is filled. Its plan stays as it is: what it depends on follows from it."""
    view = effect.create_view
    assert view is not None
    plan = inlined(statement.plan, _plans(made))
    fixed = [n for n in dict.fromkeys(s.table for s in p.scans(plan)) if made.tables[n].static]
    if plan is statement.plan and not fixed:
        return made, effect
    changing = {n: replace(t, static=False) for n, t in catalog.tables.items()}
    try:
        _, other = replace(catalog, tables=changing).execute(replace(statement, plan=plan), sizes, record)
    except EverfreshError as error:  # the strategy that was asked for is of the plan over views
        raise _Recomputed(error.message) from error
    found = other.create_view
    assert found is not None
    if found.compiled.reevaluated:
        raise _Recomputed(found.compiled.program.triggers[0].statements[0].reason)
    compiled = replace(filled_once(found.compiled, fixed), plan=view.compiled.plan)
    view = replace(view, compiled=compiled)
    made = replace(made, views={**made.views, view.name: view}, ddl=(*made.ddl[:-1], (view.name, other.text)))
    return made, replace(effect, text=other.text, create_view=view)


def _plans(catalog: Catalog) -> dict[str, p.Plan]:
    return {name: view.compiled.plan for name, view in catalog.views.items()}


def _altered(catalog: Catalog, effect: Effect) -> Catalog:
    """Programs over an altered table that views read through other views follow it, too."""
    if effect.alter_table is None:
        return catalog
    old, new, _ = effect.alter_table
    through = {
        name: replace(view, compiled=altered(view.compiled, old, new))
        for name, view in catalog.views.items()
        if not view.compiled.reevaluated
        and old.name not in view.compiled.bases
        and old.name in tables_of(catalog, name)
    }
    return replace(catalog, views={**catalog.views, **through})


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
    """Where the maps of a view are and which units hold its rows."""
    why = _outside(catalog.views[view].compiled)
    if why is not None:
        raise _Recomputed(why)
    alone = incremental(catalog, view)
    target = alone.views[view].compiled.map.name
    known: Known = {}
    for limits in (Limits(), Limits(driver=0)):  # what the driver would send back to workers is not there
        placement = best(alone, sizes, limits=limits, known=known)
        levels = levels_of(_filling(alone, placement, view, known))
        if levels is not None:
            local = placement.maps[target] == LOCAL
            home = DRIVER_HOME if local else HOMES[levels.get(map_id(target), MAPS)]
            maps = {stored(name): str(tag) for name, tag in placement.maps.items()}
            return {"home": home, "maps": maps, **({"levels": dict(levels)} if levels else {})}
    raise _Recomputed(
        f"its distributed program takes more than {MOST} stages, or changes a map by what was made of it"
        " elsewhere"
    )


def _outside(compiled: CompiledView) -> str | None:
    """What keeps a view from being run as a program of its own on Spark."""
    own = {r.name for r in compiled.program.relations}
    exprs = [s.expr for t in compiled.program.triggers for s in t.statements]
    read = {n.name for e in exprs for n in e.walk() if isinstance(n, Rel) and not n.delta} - own
    return f"its program reads the rows of {', '.join(sorted(read))}" if read else None


@lru_cache(maxsize=64)
def decisions(ddl: Ddl) -> Mapping[str, Mapping[str, Any]]:
    """What was decided for each view."""
    found = ((name, record_of(entry)[1].engine) for name, entry in ddl)
    return {name: decided for name, decided in found if decided}  # a statement behind the first says nothing


def home_of(catalog: Catalog, view: str) -> str:
    """The units that hold a view's rows: of the driver, or of a stage."""
    home: str = decisions(catalog.ddl).get(view, {}).get("home", HOMES[MAPS])
    return home


def levels_in(catalog: Catalog) -> Levels:
    """The stages that touch the maps of all views. Earlier releases had results alone in a stage of their
    own."""
    found: dict[str, int] = {}
    for view, decided in decisions(catalog.ddl).items():
        if "levels" in decided:
            found.update(decided["levels"])
        elif decided.get("home") == HOMES[MAPS + 1]:
            found[map_id(catalog.views[view].compiled.map.name)] = MAPS + 1
    return found


@lru_cache(maxsize=64)
def _tags(ddl: Ddl) -> Mapping[str, Any]:
    return {
        view if name == view else unstored(name): _tag(text)
        for view, decided in decisions(ddl).items()
        for name, text in decided.get("maps", {}).items()
    }


def _tag(text: str) -> Tag:
    """A tag; earlier releases wrote columns like `a$b` without quotes."""
    tag = parse_tag(TokenStream(text))
    if not isinstance(tag, Dist):
        return tag
    return Dist(tuple(c if c.startswith(("$", "#", "~")) else str(c) for c in tag.columns))


def placement_of(catalog: Catalog) -> Placement:
    """Where the rows of tables are, and the maps of all views that run as programs."""
    tables = {
        n: Dist(tuple(c for c in t.names if c in (t.key or t.names))) for n, t in catalog.tables.items()
    }
    return Placement(tables, _tags(catalog.ddl))


def over_tables(catalog: Catalog) -> Catalog:
    """The catalog as programs see it: those of views over views read the tables below them."""
    plans = _plans(catalog)
    views = {
        n: v if v.compiled.reevaluated else replace(v, compiled=_standing(v.compiled, plans))
        for n, v in catalog.views.items()
    }
    return replace(catalog, views=views)


def _standing(compiled: CompiledView, plans: Mapping[str, p.Plan]) -> CompiledView:
    plan = inlined(compiled.plan, plans)
    return compiled if plan is compiled.plan else replace(compiled, plan=plan)


def incremental(catalog: Catalog, view: str | None = None) -> Catalog:
    """The catalog with the views alone that run as programs (or just `view`)."""
    known = over_tables(catalog)
    views = {
        n: v for n, v in known.views.items() if not v.compiled.reevaluated and (view is None or n == view)
    }
    return replace(known, views=views)


# -- programs --------------------------------------------------------------------------------------


def _filling(
    alone: Catalog, placement: Placement, view: str, known: Known | None = None
) -> DistributedProgram:
    bases = [t for t in alone.tables if t in alone.views[view].compiled.bases]
    changed = sorted(bases, key=lambda name: not alone.tables[name].static)  # see `compiler.static`
    return done_early(distributed(alone, placement, changed, RANDOM, rows=False, known=known))


def load_program(catalog: Catalog, view: str) -> Staged:
    """What fills a new view: all rows of its tables as one change."""
    program = _filling(incremental(catalog, view), placement_of(catalog), view)
    found = staged(program, levels_in(catalog))
    assert found is not None, "it was tried when the view was created"
    return found


def batch_program(catalog: Catalog, changed: frozenset[str]) -> Staged:
    """What a batch does that changes these tables, each row where its table has it."""
    alone = incremental(catalog)
    order = tuple(t for t in catalog.tables if t in changed)
    program = distributed(alone, placement_of(catalog), order, RANDOM, rows=False)
    found = staged(done_early(program), levels_in(catalog))
    assert found is not None, "views that run alone run together"
    return found


def whole_program(catalog: Catalog, changed: frozenset[str]) -> Staged | None:
    """The same for a batch that every task reads; None if that takes more than one stage."""
    alone = incremental(catalog)
    order = tuple(t for t in catalog.tables if t in changed)
    found = whole(distributed(alone, placement_of(catalog), order, REPLICATED, rows=False))
    levels = levels_in(catalog)
    return found if found is not None and not any(map_id(m) in levels for m in found.maps) else None
