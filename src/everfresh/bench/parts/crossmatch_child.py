"""A crossmatch on Spark, Parquet to Parquet, in a process of its own; the last line has times and memory.

`python -m everfresh.bench.parts.crossmatch_child '{"left": ..., "right": ..., "out": ..., "heap": "1g"}'`. If
`frames` is true the sides are DataFrames, and Spark writes the result.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from everfresh.bench.parts.crossmatch_lsdb import processor_seconds
from everfresh.bench.timing import seconds
from everfresh.bench.tpch_spark import memory

CORES = 2
TURNS = 4
"""The first has the start of Spark's workers in it."""


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure."""
    import everfresh as ef
    from everfresh.spark.session import sessions

    settings = {"spark.driver.memory": asked["heap"], "spark.sql.session.timeZone": "UTC"}
    columns: dict[str, Any] = {"left_columns": ["id"], "right_columns": ["id"], "find": asked["find"]}
    took, processor = [], []
    with memory.watched() as peak:
        session = sessions.start(f"local[{CORES}]", settings)

        def match(out: str) -> None:
            if asked.get("frames"):
                left, right = (session.read.parquet(asked[n]).filter("dec > -100") for n in ("left", "right"))
                ef.arrays.crossmatch(left, right, 2, **columns).write.parquet(out)
            else:
                ef.arrays.crossmatch(asked["left"], asked["right"], 2, **columns, spark=session, into=out)

        for turn in range(TURNS):
            before = processor_seconds()
            took.append(seconds(lambda out=f"{asked['out']}/{turn}": match(out)))  # type: ignore[misc]
            processor.append(processor_seconds() - before)
        rows = session.read.parquet(f"{asked['out']}/1").count()
        session.stop()
    return {"seconds": took, "processor": processor, "rows": rows, **peak()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
