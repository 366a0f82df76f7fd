"""Where a view's maps are, and what a batch costs: `explain(distributed=True)`."""

from __future__ import annotations

from collections.abc import Iterator

from everfresh.compiler import Catalog
from everfresh.distributed.plan.compile import distributed
from everfresh.distributed.plan.ir import DistributedProgram
from everfresh.distributed.plan.placement import Placement
from everfresh.distributed.plan.programs import only, tables_of
from everfresh.distributed.plan.tags import RANDOM, REPLICATED
from everfresh.distributed.plan.text import to_text
from everfresh.expr.tokens import indented


def explained(catalog: Catalog, placement: Placement, view: str) -> str:
    """The tags of a view's maps and tables, jobs and stages per changed table, and the blocks for a batch
    that changes all of its tables."""
    return "\n".join(_lines(catalog, placement, view))


def _lines(catalog: Catalog, placement: Placement, view: str) -> Iterator[str]:
    alone = only(catalog, view)
    compiled = catalog.views[view].compiled
    program = compiled.program
    yield f"DISTRIBUTED {view}"
    yield from (f"  MAP {m.name} {placement.maps[m.name]}" for m in (*program.maps, *program.shared))
    tables = tables_of(alone, view)
    yield from (f"  TABLE {t} {placement.tables[t]}" for t in tables)
    if compiled.reevaluated:
        yield "  the view is computed anew, where its engine does that"
    changed = [t for t in tables if t not in catalog.static]
    for some in [(t,) for t in changed] + ([tuple(changed)] if len(changed) > 1 else []):
        whole, spread = (counted(alone, placement, some, given) for given in (True, False))
        what = ", ".join(some)
        yield f"  ON CHANGE {what}: {_shown(whole)}; {_shown(spread)} if the batch is spread over the workers"
    yield indented(to_text(distributed(alone, placement, changed)), "  ")


def _shown(program: DistributedProgram) -> str:
    jobs, stages = program.jobs, program.stages
    return f"{jobs} job{'s' * (jobs != 1)}, {stages} stage{'s' * (stages != 1)}"


def counted(
    catalog: Catalog, placement: Placement, changed: tuple[str, ...], whole: bool, *, rows: bool = True
) -> DistributedProgram:
    """The program of a batch that every worker reads (`whole`), or that is spread over the workers."""
    given = REPLICATED if whole else RANDOM
    return distributed(catalog, placement, changed, given, rows=rows)


def complexity(
    catalog: Catalog, placement: Placement, view: str, *, whole: bool = False, rows: bool = False
) -> tuple[int, int]:
    """Jobs and stages that a batch takes that changes all tables of a view: the numbers of Table 5.1, which
    is of a batch that is spread over the workers, and keeps no rows of tables."""
    alone = only(catalog, view)
    changed = tuple(t for t in tables_of(alone, view) if t not in catalog.static)
    program = counted(alone, placement, changed, whole, rows=rows)
    return program.jobs, program.stages


__all__ = ["complexity", "explained"]
