"""What the driver knows of the pieces that workers keep: where each part is and what it takes, no cell."""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.raw.cache.memory import Held
from everfresh.raw.spark.pieces import Source


@dataclass(frozen=True, eq=False)
class Stored:
    """A part of a piece that a worker keeps."""

    source: Source
    cells: int
    bytes: int

    @property
    def worker(self) -> int:
        """Who keeps it."""
        return self.source.worker


class Remote(Held[Stored]):
    """The pieces that workers keep."""
