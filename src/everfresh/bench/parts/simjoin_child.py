"""Similarity joins by Spark's tasks, in a process of its own; the last line has times, bytes and matches.

`python -m everfresh.bench.parts.simjoin_child ASKED`: ASKED is JSON with `cores`, `workers`, `algorithms`,
`nights`, and `quick`, whether places are few.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import replace
from typing import Any

from everfresh.bench.parts.crossmatch_lsdb import processor_seconds
from everfresh.bench.parts.simjoin_workloads import cells_of

_TURNS = 3
"""Runs of each join; the first has the loading of chunks and of kernels in it and does not count."""


def main(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure: each workload by each algorithm, over the same chunks."""
    import everfresh as ef
    from everfresh.spark.session import sessions

    session = sessions.start(f"local[{asked['cores']}]", {"spark.driver.memory": "1g"})
    found = []
    options = ef.Options(workers=asked["workers"], durable=False)
    for name, array, shape in cells_of(asked["quick"], lambda *_: None, asked["nights"]):
        with ef.connect(engine="spark", spark=session, options=options) as db:
            db.sql(array.schema.ddl)
            db.apply({array.schema.name: array.to_arrow()})
            on = " AND ".join(f"r.{each} = l.{each}" for each in array.schema.dimension_names)
            sides = f"{array.schema.name} AS l SIMILARITY JOIN {array.schema.name} AS r"
            text = f"SELECT COUNT(*) AS n FROM {sides} ON ({on}) WITH SHAPE {shape}"
            domain = db._domain("array")
            for algorithm in asked["algorithms"]:
                domain.plan_options = replace(domain.plan_options, algorithm=algorithm)
                found.append({"what": name, "algorithm": algorithm, **_timed(db, domain, text)})
    session.stop()
    return found


def _timed(db: Any, domain: Any, text: str) -> dict[str, Any]:
    """One join, some times; what moved is what the plan says."""
    walls, processor = [], []
    for _ in range(_TURNS):
        before, started = processor_seconds(), time.perf_counter()
        ((matches,),) = db.sql(text).fetchall()
        walls.append(time.perf_counter() - started)
        processor.append(processor_seconds() - before)
    query, measured = domain.last
    measured.check(query.plan)
    into, load = measured.links.sum(axis=0), query.plan.load_of_workers
    return {
        "seconds": statistics.median(walls[1:]),
        "processor": statistics.median(processor[1:]),
        "matches": matches,
        "bytes": int(into.sum()),
        "most_received": int(into.max()),
        "mean_received": float(into.mean()),
        "spread": float(load.max() / load.mean()),
        "makespan": query.plan.makespan,
        "receive": measured.receive.tolist(),
        "joining": measured.seconds.tolist(),
        "overlap": measured.overlap,
        "thread_spread": measured.thread_spread,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
