"""Snapshots in tasks: units of some workers, whatever they hold, written to files as some epoch left them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from everfresh.errors import EverfreshError
from everfresh.spark.jobs.job import CONTROL, ERROR, Job, Message, pack_control, pack_error
from everfresh.spark.jobs.tasks import Batches, claimed_worker, drain, emit, freeze, job_of
from everfresh.spark.state.chain import open_for_snapshot, write_snapshot
from everfresh.spark.state.content import Role, register, worker_of
from everfresh.state import crash


def snapshot_block(
    root: str, told: str, roles: Sequence[Role], workers: Sequence[int], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Write the units of a job, each at the version it names, to files. The job is named here, not by the
    session: batches run on it meanwhile."""
    register(*roles)
    job = job_of(root, told)
    drain(batches)
    worker = claimed_worker(job, workers)
    try:
        out = list(_written(job, worker))
    except EverfreshError as error:
        out = [(worker, ERROR, pack_error(error.to_dict()))]
    yield from emit(out)
    freeze()


def _written(job: Job, worker: int) -> Iterator[Message]:
    for name in job.bases:
        if worker_of(name) != worker:
            continue
        crash("opening-snapshot", job.world.fault, worker, job.world.inbox)
        unit = open_for_snapshot(job.bases[name], job.world)
        unit.content.reclaim(job.world, now=True)  # it stands at a version that is committed
        file = write_snapshot(unit, job.world, unit.version)
        crash("mid-snapshot", job.world.fault, worker, job.world.inbox)
        tag = unit.version[1]
        header = {"unit": name, "nonce": job.nonce, "tag_in": tag, "tag": tag, "snapshot": file}
        yield worker, CONTROL, pack_control(header)
