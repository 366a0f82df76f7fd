"""What the driver keeps: small results, and small maps that only such results are computed from.

It is a unit like those of the workers, with a chain of segments of its own, but it is changed by the driver:
after a job, by its block of the program, from what the tasks' answers hold; before the commit record, which
holds its segment or names it. Reads of such views start no job.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from everfresh.distributed.worker.execute import Journal
from everfresh.distributed.worker.wire import Held
from everfresh.local.store.arena import give_back
from everfresh.spark.jobs.exchange import came, ran
from everfresh.spark.jobs.job import DRIVER, Base, Job, World, unpack_control
from everfresh.spark.jobs.map_tasks import FILLING, site_of, step
from everfresh.spark.state.chain import bring_to, pack_snapshot

if TYPE_CHECKING:
    from typing_extensions import Buffer


_LITTLE = 1 << 16  # bytes of messages that are worked on in memory that is kept


def gathered(job: Job, payloads: list[bytes]) -> list[tuple[dict[str, Any], Any]]:
    """Run the driver's block of a job with what came for it: what was done to its unit, if anything."""
    program = job.program
    if program is None or not (payloads or job.kind in FILLING):
        return []
    started = time.perf_counter()
    unit, how = bring_to(job.bases[DRIVER], job.world)
    site, block, size = site_of(job, unit), program.driver, sum(map(len, payloads))

    def run() -> tuple[Journal, dict[str, Held]]:
        # Nothing that came stays beside what is made of it.
        return ran(site, block, came(block.inputs, payloads, site.state.interner))[0], {}

    control, _ = step(job, unit, site, run, started, how)
    if size > _LITTLE:
        give_back()
    return [unpack_control(control)]


def packed(base: Base, world: World) -> list[Buffer]:
    """The driver's unit as a snapshot of it holds it, in chunks that are good until it changes."""
    unit, _ = bring_to(base, world)
    return pack_snapshot(unit, world, unit.version)
