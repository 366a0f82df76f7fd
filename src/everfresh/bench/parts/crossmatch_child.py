"""A crossmatch on Spark, Parquet to Parquet, in a process of its own; the last line has times and memory.

`python -m everfresh.bench.parts.crossmatch_child '{"left": ..., "right": ..., "out": ..., "heap": "1g"}'`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from everfresh.bench.timing import seconds
from everfresh.bench.tpch_spark import memory

CORES = 2


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure: twice, since the first run has the start of Spark's workers in it."""
    import everfresh as ef
    from everfresh.spark.session import sessions

    settings = {"spark.driver.memory": asked["heap"], "spark.sql.session.timeZone": "UTC"}
    with memory.watched() as peak:
        session = sessions.start(f"local[{CORES}]", settings)

        def match(turn: int) -> None:
            found = ef.arrays.crossmatch(
                session.read.parquet(asked["left"]),
                session.read.parquet(asked["right"]),
                2,
                find=asked["find"],
                left_columns=["id"],
                right_columns=["id"],
            )
            found.write.parquet(f"{asked['out']}/{turn}")

        took = [seconds(lambda turn=turn: match(turn)) for turn in range(2)]  # type: ignore[misc]
        rows = session.read.parquet(f"{asked['out']}/1").count()
        session.stop()
    return {"seconds": took, "rows": rows, **peak()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
