"""What each pass brings (5.5.3): programs with passes left out one by one.

Jobs, stages and messages are those of the compiled program for a batch that is spread over the workers and
changes all tables of a query. Rows that travel and time are those of the program in one process
(`everfresh.testing.in_process`), on little data: the engine on Spark runs optimised programs only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from everfresh.bench import Report, Settings, median
from everfresh.bench.timing import seconds
from everfresh.bench.tpch_local import reads
from everfresh.bench.tpch_spark.plan import Plan
from everfresh.datasets import tpch
from everfresh.distributed import ALL, NAIVE, RANDOM, Passes, settled
from everfresh.workloads import Query

_SF, _TURNS = 0.01, 3
_WAYS = {
    "all passes": ALL,
    "transformers not pushed down": Passes(simplify=False),
    "no common subexpressions": Passes(common=False),
    "dead code kept": Passes(dead=False),
    "blocks not fused": Passes(fusion=False),
    "none": NAIVE,
}
_SF1 = {
    "lineitem": 6_000_000, "orders": 1_500_000, "partsupp": 800_000, "part": 200_000,
    "customer": 150_000, "supplier": 10_000, "nation": 25, "region": 5,
}  # fmt: skip
"""Rows at scale factor 1, for which maps are placed."""


def measure(report: Report, settings: Settings, plan: Plan) -> None:
    """Compile and run every query in every way."""
    data = tpch.read(0.001 if plan.quick else _SF)
    for query in plan.queries:
        settings.note(f"{query.view}: passes left out")
        for way, found in _ways(plan, query, data):
            report.row(section="ablation", query=query.view, passes=way, **found)


def _ways(plan: Plan, query: Query, data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    from everfresh.distributed import distributed, placed
    from everfresh.local.state import LocalState
    from everfresh.local.store.table import Net
    from everfresh.testing.in_process import InProcess
    from everfresh.workloads.strategies import catalog_of

    catalog = catalog_of([*tpch.TABLES.values(), query.ddl])
    changed = tuple(t for t in reads(query) if t not in tpch.FIXED)
    placement = settled(catalog, placed(catalog, _SF1))
    held = {t: data[t].num_rows // 10 if t in changed else 0 for t in data}
    whole = LocalState.blank(catalog)
    nets = {}
    for table, rows in data.items():
        loaded = rows.slice(held[table])
        nets[table] = Net(whole.tables[table].codec.encode(loaded), np.ones(loaded.num_rows, np.int64))
    with whole.changing(nets):
        pass
    for way, passes in _WAYS.items():
        program = distributed(catalog, placement, changed, RANDOM, passes)
        twin = InProcess(plan.workers, passes, RANDOM, _SF1)
        twin.placement = placement
        twin.scatter(whole)
        times = []
        for turn in range(_TURNS):
            batch = {}
            for table in changed:
                size = held[table] // _TURNS
                batch[table] = (data[table].slice(turn * size, size), np.ones(size, np.int64))
            times.append(seconds(partial(twin.apply, {t: c for t, c in batch.items() if len(c[1])})))
        yield (
            way,
            {
                "jobs": program.jobs,
                "stages": program.stages,
                "blocks": len(program.blocks),
                "messages": program.exchanges,
                "rows": twin.traffic.rows,
                "ms": 1e3 * median(times),
            },
        )
