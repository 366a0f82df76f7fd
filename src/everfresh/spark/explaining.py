"""Where tables and maps are on Spark, and what a batch costs a view there, for people."""

from __future__ import annotations

from typing import Any

from everfresh.compiler import Catalog
from everfresh.distributed import Dist, Placement
from everfresh.distributed.plan.programs import tables_of
from everfresh.options import Options
from everfresh.spark.jobs.programs import batch_program, incremental, placement_of, whole_program


def placed(catalog: Catalog) -> Placement:
    """Where tables and maps are, also those of views that are computed anew."""
    anew = [v.compiled.map for v in catalog.views.values() if v.compiled.reevaluated]
    maps = {m.name: Dist(tuple(v.name for v in m.keys)) for m in anew}
    known = placement_of(catalog)
    return Placement(known.tables, {**maps, **known.maps})


def explained(catalog: Catalog, view: str, workers: int, options: Options) -> dict[str, Any]:
    """What the engine adds to a view's explanation."""
    compiled = catalog.views[view].compiled
    known: dict[str, Any] = {
        "place": str(placed(catalog).maps[compiled.map.name]),
        "workers": workers,
    }
    through = [base for base in compiled.bases if base in catalog.views]
    if through and not compiled.reevaluated:
        known["reads"] = f"the tables below {', '.join(through)}"
    if not compiled.reevaluated:
        changed = frozenset(tables_of(catalog, view)) - catalog.static
        alone = incremental(catalog, view)
        stages = batch_program(alone, changed).stages
        one = stages == 1 or whole_program(alone, changed) is not None
        known["stages per batch"] = (
            f"1 if every task may read it (up to {options.whole_bytes:,} bytes of full rows), else {stages}"
            if one and stages > 1
            else str(stages)
        ) + ", one more for a DataFrame"
    return known
