"""One run in a process of its own: load, make views, apply batches; the last line has times and memory.

`python -m everfresh.bench.tpch_spark.child '{"sf": ..., "files": ..., ...}'`. The driver's Python holds no
row: tables and batches are files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from everfresh.bench import Settings, median
from everfresh.bench.parts.process import python
from everfresh.bench.timing import seconds
from everfresh.bench.tpch_spark import memory
from everfresh.bench.tpch_spark.data import Files
from everfresh.bench.tpch_spark.plan import Plan, plan_of
from everfresh.bench.tpch_spark.refresh import load, warm_up
from everfresh.bench.tpch_spark.sessions import options, started
from everfresh.datasets import tpch


def run(plan: Plan, files: Files, **asked: Any) -> dict[str, Any]:
    """What `main` measures in a fresh process with this plan."""
    asked = {
        "sf": plan.sf,
        "quick": plan.quick,
        "workers": plan.workers,
        "memory": plan.memory,
        "queries": ",".join(query.view for query in plan.queries),
        "files": str(files.folder),
        "shares": list(files.shares),
        "rounds": files.rounds,
        "master": "",
        "warm": 0,
        **asked,
    }
    found: dict[str, Any] = json.loads(
        python("-m", "everfresh.bench.tpch_spark.child", json.dumps(asked)).splitlines()[-1]
    )
    return found


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure."""
    import everfresh as ef

    given = {name: str(asked[name]) for name in ("workers", "memory", "queries")}
    plan = plan_of(Settings(quick=asked["quick"], sf=asked["sf"], options=given))
    files = Files(Path(asked["files"]), tuple(asked["shares"]), asked["rounds"])
    plan = replace(plan, shares=files.shares, rounds=files.rounds)
    tables = [table for table in tpch.TABLES if table not in tpch.FIXED]
    with (
        tempfile.TemporaryDirectory(prefix="everfresh-bench-") as folder,
        memory.watched() as peak,
        started(plan, asked["master"]) as session,
        ef.connect(Path(folder) / "db", spark=session, options=options(plan)) as db,
    ):
        loaded = seconds(partial(load, db, files))
        made = {query.view: seconds(partial(db.sql, query.ddl)) for query in plan.queries}
        if asked["warm"]:
            warm_up(db, files, tables, asked["warm"])
        took: dict[str, list[float]] = {}
        for turn in range(plan.rounds):
            for share in plan.shares:
                for kind, batch in files.kinds(tables, share, turn):
                    took.setdefault(f"{share:g} %, {kind}", []).append(seconds(partial(db.apply, batch)))
                db.apply(files.undo(tables, share, turn))
        return {
            "loaded": loaded,
            "made": made,
            "batches": {name: median(some) for name, some in took.items()},
            "driver": memory.own_peak(),
            **peak(),
        }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
