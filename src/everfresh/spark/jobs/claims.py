"""Which worker a task of a one-stage job serves: one whose units its process has, if there is one.

Spark hands the partitions of a job to its processes as it likes, and a process that is given another worker's
number has to load that worker's units, or to catch up with what others did to them. All tasks of a job of one
stage are told the same, so none has to serve the number of its partition: each claims a worker. The claims of
a job are numbered files, made exclusively and one after the other; a claim is made by somebody who has read
all before it, for a partition and a worker that have none. So everybody reads the same, a task that is run
again or twice finds what its partition has, and as many tasks as there are workers serve them all.

In an object store a look at the claims would cost more than it saves: there the partition decides.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence

from everfresh.spark.jobs.job import Job
from everfresh.spark.jobs.messages import refused
from everfresh.state import is_url

_CLAIM = struct.Struct(">II")
_PATIENCE, _PAUSE = 10.0, 0.001


def claimed(job: Job, partition: int, workers: Sequence[int], held: Callable[[int], int]) -> int:
    """The worker, one of `workers`, that the task of a partition serves; `held` says how much of a worker's
    state this process has."""
    if len(workers) == 1 or is_url(job.world.root):
        return workers[partition]
    own = workers[partition]
    wanted = sorted(workers, key=lambda worker: (-held(worker), worker != own, worker))
    taken: dict[int, int] = {}
    while partition not in taken:
        found = _read(job, len(taken))
        if found is not None:
            if found[0] in taken or found[1] not in workers or found[1] in taken.values():
                raise refused(_name(job, len(taken)), "it is no claim of a task")
            taken[found[0]] = found[1]
            continue
        worker = next(w for w in wanted if w not in taken.values())
        job.world.store.create(_name(job, len(taken)), _CLAIM.pack(partition, worker), durable=False)
    return taken[partition]


def forget(job: Job, workers: int) -> None:
    """Remove the claims of a job that is over."""
    if not is_url(job.world.root):
        for number in range(workers):
            job.world.store.remove(_name(job, number))


def _read(job: Job, number: int) -> tuple[int, int] | None:
    """A claim: its partition and worker; None if there is none of this number."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            data = job.world.store.read(_name(job, number))
        except FileNotFoundError:
            return None
        if len(data) == _CLAIM.size:
            partition, worker = _CLAIM.unpack(data)
            return partition, worker
        if time.monotonic() > until:  # where files are not made whole at once, by a task that was killed then
            raise refused(_name(job, number), "it is cut short")
        time.sleep(_PAUSE)


def _name(job: Job, number: int) -> str:
    return f"inbox/{job.nonce}.{number}"
