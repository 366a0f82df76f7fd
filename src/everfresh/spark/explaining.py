"""Where tables and maps are on Spark, and what a batch costs a view there, for people."""

from __future__ import annotations

from typing import Any

from everfresh.compiler import Catalog
from everfresh.distributed import Dist, Placement
from everfresh.distributed.plan.programs import tables_of
from everfresh.options import Options
from everfresh.spark.jobs.programs import batch_program, incremental, placement_of, whole_program
from everfresh.spark.session.observe import Observer


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


def analyzed(view: str, observer: Observer) -> str:
    """What the last batches have cost: the blocks of the last one, as Spark tells, and all units, as their
    tasks told. One job maintains all views, so that a view has no time of its own."""
    batches = list(observer.before)
    if not batches:
        return f"ANALYZE {view}: no batch was applied yet"
    lines = [
        f"ANALYZE {view}: the last {len(batches)} batches, each of which maintains all views together",
        "",
        "BLOCKS OF THE LAST BATCH",
        f"{'ms':>8} {'skew':>6} {'bytes sent':>11}",
    ]
    for block in observer.last().get("blocks", ()):
        ms = max(block["ms"].values(), default=0)
        lines.append(f"{ms:>8} {block['skew']:>6} {block['bytes']:>11}  {block['block']}")
    found: dict[str, list[float]] = {}
    for notes in batches:
        for unit, told in notes.items():
            if isinstance(told, dict) and ("ms" in told or "rows" in told):
                known = found.setdefault(unit, [0, 0, 0])
                known[0] += 1
                known[1] += float(told.get("ms", 0))
                known[2] += int(told.get("rows", 0))
    lines += ["", "UNITS OVER ALL OF THEM", f"{'ms':>10} {'runs':>6} {'rows':>8}"]
    for unit, (runs, spent, rows) in sorted(found.items()):
        lines.append(f"{spent:>10.1f} {runs:>6} {rows:>8}  {unit}")
    return "\n".join(lines)
