"""A store in memory that loses acknowledged writes: its partitions have replicas that may be behind, and one
may be promoted at any call. For tests of what views do then.

A promotion takes rows, entries and fences of a partition back to those of the replica, all of them to the
same moment, and gives it another `life`; what the store knows of its tables is not lost.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.kv.protocol import calls
from everfresh.kv.store.embedded import EmbeddedStore
from everfresh.kv.store.partition import PartitionCore
from everfresh.kv.store.protocol import Caps
from everfresh.kv.store.space import MemorySpace


class LossyStore(EmbeddedStore):
    """A store whose protocol calls fail now and then, with partitions that go back to a replica."""

    caps = Caps(durable=False, splits=False, loses=True)

    def __init__(self, partitions: int, seed: int) -> None:
        self._random = Random(seed)
        self.often = 0.0
        """How often a call goes wrong, as long as there are faults `left`."""
        self.left = 0
        self.lost = 0
        """How many entries were lost."""
        super().__init__(MemorySpace(), lambda id_: MemorySpace(), lambda id_: None, partitions)
        self._partitions = {i: replace(p, life="0") for i, p in self._partitions.items()}
        self._replicas = {i: core.space.pin() for i, core in self._cores.items()}

    def replicate(self, partition: int) -> None:
        """Let the replica of a partition have all that there is."""
        self._replicas[partition] = self._cores[partition].space.pin()

    def promote(self, partition: int) -> None:
        """Go on with the replica of a partition."""
        replica, end = self._replicas[partition], self.log_end(partition).offset
        assert isinstance(replica, MemorySpace)
        self._cores[partition] = PartitionCore(replica.pin(), lambda: self._tables)
        life = str(int(self._partitions[partition].life) + 1)
        self._partitions[partition] = replace(self._partitions[partition], life=life)
        self.lost += end - self.log_end(partition).offset

    def fail(self) -> None:
        """Something goes wrong, or a replica catches up."""
        partition = self._random.choice(list(self._partitions))
        self.promote(partition) if self._random.random() < 0.3 else self.replicate(partition)

    def perform(self, call: Any) -> Any:
        """A protocol call; it may fail before it is done or after, and the store may change before."""
        goes_wrong = self.left > 0 and self._random.random() < self.often
        self.left -= goes_wrong
        lost = goes_wrong and self._random.random() < 0.25
        if goes_wrong and not lost:
            self.fail()
        if lost and self._random.random() < 0.5:
            raise _no_answer()
        answer = calls.perform(_Plain(self), call)
        if lost:
            raise _no_answer()
        return answer


class _Plain:
    """The store without its `perform`."""

    def __init__(self, store: LossyStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name == "perform":
            raise AttributeError(name)
        return getattr(self._store, name)


def _no_answer() -> EverfreshError:
    return EverfreshError(Code.ENVIRONMENT, "the answer to a call was lost")
