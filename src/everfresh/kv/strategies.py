"""How a view is made and kept: the strategies of chapter 6 of the thesis on key-value views.

| strategy | begins with | then |
|---|---|---|
| IN | nothing: the log from its start | every entry, in epochs of what has arrived |
| IMB | nothing: the log from its start | slices of a batch, condensed |
| SNI, SNIMB | a snapshot | as IN, as IMB |
| SCI, SCIMB | a scan, beside which others write | as IN, as IMB |
| ISN | a snapshot | the keys of what changed, their rows of a snapshot |
| ISC | a scan | the keys of what changed, their rows one by one |
| SN | a snapshot | the same again, in a generation of its own |
| SC | a scan | the same again, in a generation of its own |

Invariant: whatever the strategy, a reader sees the view of one state of the base, and none before the first
is complete.
"""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store import Store

BATCH = 10_000
"""How many entries of a log an epoch of a batching strategy takes, if nobody says."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a strategy means to the runtime."""

    name: str
    loads: bool
    """Whether it begins with the base as it is, and not with the log's start."""
    chunks: bool
    """Whether it reads the base by a scan, and not from one snapshot."""
    batches: bool = False
    rebuilds: bool = False
    """Whether a refresh makes the view anew."""
    tracks: bool = False
    """Whether of changes only the keys are kept, and records are read anew."""

    @property
    def transits(self) -> bool:
        """Whether its beginning may run beside the log (a parallel transition)."""
        return self.loads and not (self.rebuilds or self.tracks)


STRATEGIES = {
    s.name: s
    for s in (
        Strategy("IN", loads=False, chunks=False),
        Strategy("IMB", loads=False, chunks=False, batches=True),
        Strategy("SNI", loads=True, chunks=False),
        Strategy("SNIMB", loads=True, chunks=False, batches=True),
        Strategy("SCI", loads=True, chunks=True),
        Strategy("SCIMB", loads=True, chunks=True, batches=True),
        Strategy("ISN", loads=True, chunks=False, tracks=True),
        Strategy("ISC", loads=True, chunks=True, tracks=True),
        Strategy("SN", loads=True, chunks=False, rebuilds=True),
        Strategy("SC", loads=True, chunks=True, rebuilds=True),
    )
}


def strategy(name: str, store: Store) -> Strategy:
    """A strategy by its name, if the store can do what it needs."""
    found = STRATEGIES.get(name.upper())
    if found is None:
        raise EverfreshError(
            Code.ARGUMENT, f"there is no strategy '{name}'", hint="strategies are: " + ", ".join(STRATEGIES)
        )
    if not found.chunks and found.loads and store.caps.snapshot == "none":
        other = found.name.replace("SN", "SC", 1)
        raise EverfreshError(
            Code.UNSUPPORTED, f"this store has no snapshots, which {found.name} needs", hint=f"take {other}"
        )
    return found
