"""The cost model: what a byte over the network, a byte from disk and a cell in a join take.

The paper on similarity joins, sections 4.2 and A: network and disk overlap, so the longer one counts; joins
overlap with both, and count where a worker's threads cannot keep up. `docs/design/arrays.md` has the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.errors import Code, EverfreshError


@dataclass(frozen=True)
class CostModel:
    """Seconds, to be calibrated; the defaults are gigabit Ethernet, a disk of 120 MB/s and one core.

    >>> CostModel().makespan(network=125_000_000, disk=0, cells=0)
    1.0
    """

    t_ntwk: float = 8e-9
    """Seconds to send a byte from one worker to another."""
    t_disk: float = 8.3e-9
    """Seconds to read a byte of a chunk."""
    t_cpu: float = 60e-9
    """Seconds of one core for a cell of either chunk of a pair."""
    threads: int = 1
    """Joins that a worker runs at a time."""

    def __post_init__(self) -> None:
        if min(self.t_ntwk, self.t_disk, self.t_cpu) < 0 or self.threads < 1:
            raise EverfreshError(
                Code.ARGUMENT, "times are at least 0, threads at least 1", place="cost",
                hint="calibrate T_ntwk and T_disk by moving and reading some megabytes",
            )  # fmt: skip

    def makespan(self, network: int, disk: int, cells: int) -> float:
        """Seconds, from bytes at the busiest end of links and at the busiest disk, and cells of a worker."""
        return max(network * self.t_ntwk, disk * self.t_disk, cells * self.t_cpu / self.threads)
