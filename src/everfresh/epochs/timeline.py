"""Where a database stands among its epochs, and what takes it to the next: both engines go by this.

An epoch exists when its commit record does. A record names the digest of the one before; keys of batches
and numbers of streams are known from the records, and kept with a snapshot. Invariant: everything here is of
one epoch, and equals what following the records from the newest snapshot gives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.state import Commit, CommitStore, read_commit

KEYS_KEPT = 10_000
"""The keys of the last batches that had one."""


@dataclass(slots=True)
class EpochDraft:
    """An epoch that is done, but for its record."""

    epoch: int
    keys: tuple[str, ...] = ()
    ddl: tuple[str, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)

    def record(self, parent: str) -> Commit:
        """The record of the epoch."""
        return Commit(
            self.epoch,
            parent,
            keys=self.keys,
            ddl=self.ddl,
            sources=self.sources,
            meta=self.meta,
            sections=self.sections,
        )


class Timeline:
    """The last epoch, and what has to be known of those before."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Before the first epoch."""
        self.epoch = 0
        self.digest = ""
        self.keys: OrderedDict[str, int] = OrderedDict()
        self.sources: dict[str, int] = {}
        self.log_bytes = 0
        """Of the records since the last snapshot, and of what they name."""
        self.snapshot_epoch = self.snapshot_bytes = 0

    def write(self, commits: CommitStore, drafts: Sequence[EpochDraft]) -> list[Commit]:
        """Write the records of the next epochs, all of them or none. Whoever loses that race stops."""
        digest, records, data = self.digest, [], []
        for draft in drafts:
            record = draft.record(digest)
            data.append(record.encode())
            records.append(record)
            digest = record.digest
        first = drafts[0].epoch
        if not commits.create_all(first, data):
            raise EverfreshError(
                Code.FENCED,
                f"epoch {first} was committed by another writer",
                hint="this handle is out of date: close it and open the database again",
            )
        return records

    def advance(self, record: Commit, named: int = 0) -> None:
        """Take up an epoch, whose record names so many bytes elsewhere."""
        self.digest = record.digest
        self.pass_on(record.epoch, record.keys, record.sources)
        self.log_bytes += named + sum(memoryview(section).nbytes for section in record.sections.values())

    def pass_on(self, epoch: int, keys: Sequence[str], sources: Mapping[str, int]) -> None:
        """Move to an epoch."""
        self.epoch = epoch
        if sources:
            self.sources.update(sources)
        for key in keys:
            self.keys[key] = epoch
            if len(self.keys) > KEYS_KEPT:
                self.keys.popitem(last=False)

    def follow(
        self,
        commits: CommitStore,
        last: int,
        replay: Callable[[Commit], None],
        restart: Callable[[], bool],
        root: str,
    ) -> None:
        """Replay records up to `last`. Where the next one does not continue this timeline, it was trimmed or
        withdrawn: `restart` starts again from the newest snapshot, and says whether that may help."""
        while self.epoch < last:
            record = read_commit(commits, self.epoch + 1)
            if record is not None and record.parent == self.digest:
                replay(record)
                continue
            stuck = self.epoch
            if not restart():
                raise EverfreshError(
                    Code.DAMAGED,
                    f"the log of {root} has no record that takes epoch {stuck} to the next",
                    hint="restore the folder from a backup",
                )

    def check_end(self, last: int, root: str) -> None:
        """Raise if the records end before the snapshot that was taken."""
        if last < self.epoch:
            raise EverfreshError(
                Code.DAMAGED,
                f"the log of {root} ends with epoch {last}, before the snapshot of epoch {self.epoch}",
                hint="restore the folder from a backup",
            )

    # -- snapshots ---------------------------------------------------------------------------------

    def to_meta(self) -> dict[str, Any]:
        """What a snapshot says of the timeline."""
        return {"keys": list(self.keys.items()), "sources": dict(self.sources), "digest": self.digest}

    def load(self, epoch: int, meta: Mapping[str, Any], size: int) -> None:
        """Stand where a snapshot of so many bytes was taken."""
        self.epoch = self.snapshot_epoch = epoch
        self.digest = meta["digest"]
        self.keys = OrderedDict((key, at) for key, at in meta["keys"])
        self.sources = dict(meta.get("sources", {}))
        self.log_bytes, self.snapshot_bytes = 0, size

    def taken(self, epoch: int, log_bytes: int, size: int) -> None:
        """A snapshot of an epoch was taken, with so many bytes, that stands for so many of the log."""
        self.snapshot_epoch, self.snapshot_bytes = epoch, size
        self.log_bytes -= log_bytes
