"""How a served store's views keep up: what managers tell, and when the logs were where.

Invariant: `staleness` is never less than how long ago the first entry was written that a view has not seen,
but for the time between two samples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from everfresh.kv.store import Cut, Store

SAMPLE = 0.02
SAMPLES = 5_000


class Load:
    """What is heard of managers, and samples of the logs' ends."""

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}
        self._ends: deque[tuple[float, dict[int, int]]] = deque(maxlen=SAMPLES)

    def beat(self, name: str, groups: Mapping[str, Mapping[str, int]]) -> None:
        """A manager says that it is there, and what its groups have done."""
        now = time.monotonic()
        before = self._heard.get(name, now)
        self._heard[name] = now
        for group, of in groups.items():
            known = self._groups.get((name, group), {"taken": 0})
            done = of["taken"] - known["taken"]
            rate = max(0.0, done / (now - before)) if now > before else 0.0
            self._groups[name, group] = {**of, "rate": round(rate, 1)}
        for place in [p for p in self._groups if p[0] == name and p[1] not in groups]:
            del self._groups[place]

    def beats(self) -> dict[str, float]:
        """How many seconds ago each manager was heard of."""
        now = time.monotonic()
        return {name: round(now - at, 3) for name, at in self._heard.items()}

    def of(self, group: str) -> dict[str, Any]:
        """What is known of a group: updates a second, and how many entries its last slice had."""
        known = [of for (_, name), of in self._groups.items() if name == group]
        return {"updates_per_s": sum(of["rate"] for of in known), "buffered": sum(of["held"] for of in known)}

    def wrote(self, store: Store) -> None:
        """Somebody has written: remember where the logs end, now and then."""
        now = time.monotonic()
        if not self._ends or now - self._ends[-1][0] > SAMPLE:
            self._ends.append((now, {p.id: store.log_end(p.id).offset for p in store.partitions()}))

    def staleness(self, cut: Cut) -> float:
        """How long ago there was something in the logs that a cut does not have; 0.0 if it has all."""
        now = time.monotonic()
        for at, ends in self._ends:
            if any(end > cut.of(id_).offset for id_, end in ends.items()):
                return round(now - at, 3)
        return 0.0
