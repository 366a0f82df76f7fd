"""A process with a Spark session of its own that applies the batches of the workload until it is killed.

Arguments: the database, the file of acknowledgements, the number of batches, and the options that
differ, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reliability_workload import acknowledger, options, workload

import everfresh as ef


def main() -> None:
    path, acks, count, changes = sys.argv[1:]
    with ef.connect(path, engine="spark", options=options(**json.loads(changes))) as db:
        print("ready", flush=True)
        workload(int(count)).apply(db, acknowledger(Path(acks)))
        print("done", flush=True)


if __name__ == "__main__":
    main()
