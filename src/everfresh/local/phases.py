"""Where the time of batches goes: seconds by phase, for benchmarks and for people who look for a slow view.

A batch is always in exactly one phase; `to` ends the current one and begins the next. Engines that are not
asked to measure hold `UNTIMED`, whose `to` does nothing.

| phase | what is done in it |
|---|---|
| `resolve` | rows converted to words, deletes and keys checked |
| `statements` | statements evaluated |
| `tables` | the rows of base tables stored |
| `maps` | changes added to maps; slices of maps and tables kept |
| `relations` | relations inside a program read before and after, re-evaluated views computed |
| `publish` | the views' own changes made |
| `commit` | log, history, entries that have come to nothing |
"""

from __future__ import annotations

import time
from collections.abc import Callable

PHASES = ("resolve", "statements", "tables", "maps", "relations", "publish", "commit")


class Untimed:
    """Measures nothing."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase: none."""
        return {}

    def to(self, phase: str) -> None:
        """The batch goes on to a phase."""

    def stop(self) -> None:
        """The batch is over."""


UNTIMED = Untimed()


def phases_of(timing: bool | str) -> Untimed:
    """What measures as the option `timing` asks."""
    if not timing:
        return UNTIMED
    return Phases(time.process_time if timing == "processor" else time.perf_counter)


class Phases(Untimed):
    """Seconds of all batches so far, by phase.

    >>> phases = Phases()
    >>> phases.to("resolve"); phases.to("maps"); phases.stop()
    >>> list(phases.seconds), min(phases.seconds.values()) >= 0
    (['resolve', 'statements', 'tables', 'maps', 'relations', 'publish', 'commit'], True)
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._phase: str | None = None
        self._since = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase, of batches that are over."""
        return dict(self._seconds)

    def to(self, phase: str) -> None:
        """The batch goes on to a phase."""
        now = self._clock()
        if self._phase is not None:
            self._seconds[self._phase] += now - self._since
        self._phase, self._since = phase, now

    def stop(self) -> None:
        """The batch is over, done or failed."""
        if self._phase is not None:
            self.to(self._phase)
            self._phase = None
