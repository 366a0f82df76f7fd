"""From a catalog and a placement to distributed programs: the passes of chapter 5, in their order.

Each pass can be left out, for comparison (section 5.5.3); what comes out is right in any case. A program is
made for the tables that a batch changes and for where their changes are: on every worker if each reads the
whole batch and keeps its part (which saves the first exchange), anywhere if the batch is spread already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from everfresh.compiler import Catalog
from everfresh.distributed.plan.arrival import at_arrival
from everfresh.distributed.plan.fusion import connected, fused, single
from everfresh.distributed.plan.ir import DistributedProgram, PlacedChange, Temp, table_of
from everfresh.distributed.plan.lower import Known, Lowering, MapsApart
from everfresh.distributed.plan.placement import Limits, Placement, placed, with_replicated
from everfresh.distributed.plan.programs import Programs, only, tables_of
from everfresh.distributed.plan.spec import check
from everfresh.distributed.plan.subexpressions import pruned, shared
from everfresh.distributed.plan.tags import RANDOM, REPLICATED, Tag
from everfresh.local.interpret.join_order import products
from everfresh.program import Program


@dataclass(frozen=True, slots=True)
class Passes:
    """Which optimisations are made."""

    simplify: bool = True
    """Push transformers down and remove them (5.3.1)."""
    common: bool = True
    """Compute and send once what is computed and sent alike."""
    dead: bool = True
    """Leave out what nobody reads."""
    fusion: bool = True
    """Merge blocks."""


ALL = Passes()
NAIVE = Passes(False, False, False, False)


def distributed(
    catalog: Catalog,
    placement: Placement,
    changed: Sequence[str],
    given: Tag | Mapping[str, Tag] = REPLICATED,
    passes: Passes = ALL,
    rows: bool = True,
    known: Known | None = None,
) -> DistributedProgram:
    """The program of a batch that changes these tables; `given` says where their changes are, `rows` whether
    the rows of tables are kept (the thesis keeps maps alone). `known` is what was found for the statements of
    this catalog before."""
    prefix = _prefix(catalog)
    temps = _changes(catalog, changed, given, prefix)
    lowering = Lowering(
        Programs(catalog), placement, passes.simplify, prefix, known={} if known is None else known
    )
    instructions = lowering.run(temps)
    if not rows:
        instructions = tuple(i for i in instructions if not isinstance(i, PlacedChange))
    check(instructions, temps.values())
    if passes.common:
        instructions = at_arrival(shared(instructions), temps)
        check(instructions, temps.values())
    if passes.dead:
        instructions, temps = pruned(instructions, temps)
        check(instructions, temps.values())
    blocks = single(instructions)
    if passes.fusion:
        blocks = fused(blocks)
        check([i for b in blocks for i in b.instructions], temps.values())
    return DistributedProgram(tuple(temps.items()), connected(blocks))


def _changes(
    catalog: Catalog, changed: Sequence[str], given: Tag | Mapping[str, Tag], prefix: str
) -> dict[str, Temp]:
    """The changes of tables that a batch comes with."""
    return {
        name: Temp(f"{prefix}{i}", catalog.schemas[name], (), _given(given, name), name)
        for i, name in enumerate(changed)
    }


def best(
    catalog: Catalog,
    sizes: Mapping[str, int] | None = None,
    *,
    by: Mapping[str, str] | None = None,
    kept: Placement | None = None,
    limits: Limits = Limits(),  # noqa: B008
    known: Known | None = None,
) -> Placement:
    """A settled placement; a view whose batches would take more than two stages is partitioned by the column
    that takes the fewest. `known` takes what is found for statements on the way."""
    chosen, known = dict(by or {}), {} if known is None else known
    first = settled(catalog, placed(catalog, sizes, by=chosen, kept=kept, limits=limits), known)
    for name, view in catalog.views.items():
        maps = [] if view.compiled.reevaluated else view.compiled.program.maps
        if name in chosen or not maps or (kept is not None and maps[0].name in kept.maps):
            continue
        alone = only(catalog, name)
        least = _cost(alone, first, name, known)
        tried = [_of(alone, first)]
        columns = dict.fromkeys(v.name for m in maps for v in m.keys)
        for column in islice(columns, max(1, (_LARGE // _size(view.compiled.program)) ** 2)):
            if least[0] <= _ENOUGH:
                break
            other = placed(alone, sizes, by={**chosen, name: column}, kept=kept, limits=limits)
            if other in tried:  # columns that are joined with each other ask for the same
                continue
            tried.append(other)
            try:
                cost = _cost(alone, other, name, known)
            except MapsApart:
                cost = _cost(alone, settled(alone, other, known), name, known)
            if cost < least:
                least, chosen[name] = cost, column
    if chosen == dict(by or {}):
        return first
    return settled(catalog, placed(catalog, sizes, by=chosen, kept=kept, limits=limits), known)


def _of(catalog: Catalog, placement: Placement) -> Placement:
    """What a placement says of a catalog's tables and maps."""
    maps = [m.name for view in catalog.views.values() for m in view.compiled.program.maps]
    return Placement(placement.tables, {name: placement.maps[name] for name in maps})


_ENOUGH = 2  # stages of a batch that is spread over the workers
_LARGE = 4_000  # factors of the products of a program for which one column is tried; smaller ones try more


def _size(program: Program[Any]) -> int:
    """The factors in the products of a program: what it takes to place them."""
    statements = (s for trigger in program.triggers for s in trigger.statements)
    return max(1, sum(len(factors) for s in statements for _, factors in products(s.expr)))


def _cost(catalog: Catalog, placement: Placement, view: str, known: Known) -> tuple[int, int]:
    changed = [t for t in tables_of(catalog, view) if t not in catalog.static]
    program = distributed(catalog, placement, changed, RANDOM, rows=False, known=known)
    return program.stages, program.exchanges


def settled(catalog: Catalog, placement: Placement, known: Known | None = None) -> Placement:
    """A placement under which every statement can be run: maps that one joins with each other, and that are
    apart, are kept on every worker. It takes no more than to lower them."""
    programs, prefix, known = Programs(catalog), _prefix(catalog), {} if known is None else known
    everything = [*catalog.tables, *(n for n, v in catalog.views.items() if v.compiled.reevaluated)]
    while True:
        try:
            for name in everything:
                for given in (REPLICATED, RANDOM):
                    changes = _changes(catalog, (name,), given, prefix)
                    Lowering(programs, placement, True, prefix, True, known).run(changes)
            return placement
        except MapsApart as apart:
            names = {n for n in apart.maps if placement.maps.get(n, REPLICATED) != REPLICATED}
            together = [u.maps for u in programs.schedule.units if names & {*u.maps}]
            names |= {m for maps in together for m in maps}
            tables = {table for n in apart.maps if (table := table_of(n)) is not None}
            if not names and all(placement.tables[t] == REPLICATED for t in tables):
                raise
            placement = with_replicated(placement, names)
            placement = Placement({**placement.tables, **dict.fromkeys(tables, REPLICATED)}, placement.maps)


def _given(given: Tag | Mapping[str, Tag], name: str) -> Tag:
    return given[name] if isinstance(given, Mapping) else given


def _prefix(catalog: Catalog) -> str:
    """What the names of temporaries begin with: no map's or table's does."""
    prefix = "temp"
    names = [*catalog.names(), *(m.name for v in catalog.views.values() for m in v.compiled.program.maps)]
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix
