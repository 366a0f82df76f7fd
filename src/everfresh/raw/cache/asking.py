"""What the cache of external arrays is asked and told: options, the boxes of a query, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field

from everfresh.errors import Code, EverfreshError
from everfresh.raw.boxes import Box
from everfresh.raw.cache.eviction import POLICIES

PLACEMENTS = ("dynamic", "static")
GIB = 1 << 30


@dataclass(frozen=True)
class CacheOptions:
    """How much is cached, and how."""

    workers: int = 1
    budget: int = GIB
    """Bytes for each worker."""
    policy: str = "cost"
    placement: str = "dynamic"
    min_cells: int = 4096
    """A piece with fewer cells is only cut where a query meets its box and none of its cells."""

    @property
    def total(self) -> int:
        """Bytes of all workers."""
        return self.workers * self.budget

    def __post_init__(self) -> None:
        if self.policy not in POLICIES or self.placement not in PLACEMENTS:
            raise EverfreshError(
                Code.ARGUMENT,
                f"there is no policy '{self.policy}' with placement '{self.placement}'",
                hint=f"policies are: {', '.join(POLICIES)}; placements: {', '.join(PLACEMENTS)}",
            )
        if self.workers < 1 or self.budget < 0 or self.min_cells < 0:
            raise EverfreshError(
                Code.ARGUMENT,
                "a cache has at least one worker, and neither a budget nor min_cells below 0",
                hint="configure(workers=2, budget=500_000_000)",
            )


@dataclass(frozen=True)
class Ask:
    """The boxes of one array that a query needs."""

    array: str
    boxes: tuple[Box, ...]

    @property
    def hull(self) -> Box:
        """One box for all."""
        found = self.boxes[0]
        for box in self.boxes[1:]:
            found = found.hull(box)
        return found


@dataclass
class Report:
    """What one query did."""

    query: int
    asked: tuple[str, ...] = ()
    hits: int = 0
    """Pieces with cells of the query that were in memory."""
    misses: int = 0
    """Those that were read."""
    files_read: list[str] = field(default_factory=list)
    bytes_read: int = 0
    bytes_moved: int = 0
    """By joins, from worker to worker."""
    bytes_placed: int = 0
    """By keeping pieces where no copy of them was."""
    cut: int = 0
    evicted: list[tuple[int, str]] = field(default_factory=list)
    """Pieces that were let go, each with the reason."""
    skipped: list[str] = field(default_factory=list)
    """Files that could not be read and were left out, as their array asks."""
    seconds: float = 0.0
    planning: float = 0.0
    """Of these for looking up, cutting, evicting and placing: all but reading and joining."""
