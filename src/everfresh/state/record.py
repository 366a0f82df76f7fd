"""The commit record: everything recovery needs of one epoch, in one sealed file.

Implements "Files of a folder" of docs/design/state.md. A record names the digest of the record before
it, so records of one database form a chain that a stray or exchanged record cannot join.

Invariant: `Commit.decode(commit.encode())` equals `commit`, and equal commits encode to equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everfresh.state.files import DIGEST_BYTES, RESTORE, open_sealed, seal

if TYPE_CHECKING:
    from typing_extensions import Buffer

KIND = "commit"


@dataclass(frozen=True)
class Commit:
    """One epoch: a batch or DDL statement that was committed.

    >>> first = Commit(epoch=1, parent="", ddl=("CREATE TABLE t (a BIGINT)",))
    >>> second = Commit(epoch=2, parent=first.digest, keys=("load-17",), sections={"t": b"rows"})
    >>> Commit.decode(second.encode()) == second
    True
    """

    epoch: int
    parent: str
    """The digest of the record of the epoch before; empty for the first."""
    keys: tuple[str, ...] = ()
    """The keys of the batches in this epoch: a batch whose key is found was applied before."""
    ddl: tuple[str, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    """Of each stream that this epoch consumed from, the last batch id."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What else the engine needs, as JSON."""
    sections: Mapping[str, Buffer] = field(default_factory=dict)
    """The bytes of the deltas, by names that the engine chooses."""
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.epoch < 1:
            raise ValueError(f"epochs are numbered from 1, not {self.epoch}")

    def encode(self) -> bytes:
        """The record as a sealed file."""
        header = {
            "epoch": self.epoch,
            "parent": self.parent,
            "keys": self.keys,
            "ddl": self.ddl,
            "sources": dict(self.sources),
            "meta": dict(self.meta),
        }
        data = seal(KIND, header, self.sections)
        object.__setattr__(self, "_digest", data[-DIGEST_BYTES:].hex())
        return data

    @staticmethod
    def decode(data: Buffer, name: str = "", hint: str = RESTORE) -> Commit:
        """Read a record; its sections are views of `data`. A damaged one raises with this name and hint."""
        sealed = open_sealed(data, KIND, name or "a commit record", hint)
        head = sealed.header
        commit = Commit(
            head["epoch"],
            head["parent"],
            tuple(head["keys"]),
            tuple(head["ddl"]),
            head["sources"],
            head["meta"],
            sealed.sections,
        )
        object.__setattr__(commit, "_digest", sealed.digest)
        return commit

    @property
    def digest(self) -> str:
        """What the next record names as its parent."""
        if not self._digest:
            self.encode()
        return self._digest
