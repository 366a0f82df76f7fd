"""A process that has everything loaded and forks children: one to kill costs milliseconds, not seconds.

Reads lines of JSON on standard input; `{"path", "acks", "count", "pause", "options"}` starts a child that
opens the database, says `ready PID`, applies all batches and says `done`. When a child has ended, `gone
STATUS` follows. No threads are running when it forks: Arrow is told to use none.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from reliability_workload import Workload, acknowledger, create, options, workload

import everfresh as ef


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def child(request: dict[str, Any]) -> None:
    with ef.connect(request["path"], engine="local", options=options(**request["options"])) as db:
        say(f"ready {os.getpid()}")
        workload(request["count"]).apply(db, acknowledger(Path(request["acks"]), request["pause"]))
        say("done")


def warm_up(count: int) -> None:
    """Load every kernel and make the batches, so that children begin with all of it."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    workload(count)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            with ef.connect(Path(folder) / "db", engine="local", options=options()) as db:
                if db.epoch == 0:
                    create(db)
                Workload(30).apply(db, lambda number, epoch: None)
                for view in db.views.values():
                    view.to_arrow()


def main() -> None:
    warm_up(int(sys.argv[1]))
    say("warm")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(json.loads(line))
                status = 0
            except BaseException as problem:
                say(f"failed {problem!r}")
            os._exit(status)
        _, status = os.waitpid(pid, 0)
        say(f"gone {status}")


if __name__ == "__main__":
    main()
