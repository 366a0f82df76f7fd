"""Snapshots: everything up to one epoch, in one sealed file that is opened by mapping it into memory.

Implements "Files of a folder" of docs/design/state.md: `snaps/0000000040` holds the state at epoch 40. The
local engine keeps its pools in the sections; on Spark the file is the manifest, and `meta` names the files
of the units.

Invariant: a snapshot is whole or absent, and recovery from it and the records after it gives the same state
as the records alone. A damaged snapshot is never passed over in silence: the records that could replace it
may be trimmed.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.state.faults import crash
from everfresh.state.files import open_sealed, replace_file, seal_chunks, sync_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer

KIND = "snapshot"
_NAME = re.compile(r"\d{10}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one epoch; `sections` are views of the mapped file, which lives as long as any of them."""

    epoch: int
    meta: dict[str, Any]
    sections: dict[str, memoryview]


class SnapshotStore:
    """The snapshots of one database.

    >>> import tempfile
    >>> store = SnapshotStore(Path(tempfile.mkdtemp()), durable=False)
    >>> store.write(40, {"pool": b"..."}, {"tables": ["t"]})
    >>> store.latest().epoch, store.latest(at_most=39)
    (40, None)
    """

    def __init__(self, folder: Path, durable: bool, fault: str | None = None) -> None:
        self._root = folder
        self._folder = folder / "snaps"
        self._durable = durable
        self._fault = fault

    def write(self, epoch: int, sections: Mapping[str, Buffer], meta: dict[str, Any]) -> None:
        """Put the snapshot of an epoch in place; one that is there says the same, and is replaced."""
        self._folder.mkdir(parents=True, exist_ok=True)
        chunks = seal_chunks(KIND, {"epoch": epoch, "meta": meta}, sections)
        replace_file(self._path(epoch), chunks, self._durable, before_publish=self._crash)

    def _crash(self) -> None:
        crash("mid-snapshot", self._fault, scratch=self._root / "inbox")

    def latest(self, at_most: int | None = None) -> Snapshot | None:
        """The newest snapshot, or the newest at or below an epoch; one that fails its checks raises."""
        while True:
            epochs = [epoch for epoch in self.list() if at_most is None or epoch <= at_most]
            if not epochs:
                return None
            try:
                return self._open(epochs[-1], epochs[-2] if len(epochs) > 1 else None)
            except FileNotFoundError:  # dropped since it was listed
                continue

    def list(self) -> list[int]:
        """The epochs there are snapshots of, in order."""
        try:
            return sorted(int(name) for name in os.listdir(self._folder) if _NAME.fullmatch(name))
        except FileNotFoundError:
            return []

    def drop(self, below_epoch: int) -> None:
        """Remove what is older than the newest snapshot at or below an epoch, from which that is rebuilt."""
        for epoch in [epoch for epoch in self.list() if epoch <= below_epoch][:-1]:
            self._path(epoch).unlink(missing_ok=True)
        if self._durable and self._folder.exists():
            sync_folder(self._folder)

    def _path(self, epoch: int) -> Path:
        return self._folder / f"{epoch:010d}"

    def _open(self, epoch: int, older: int | None) -> Snapshot:
        path = self._path(epoch)
        with open(path, "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0  # which cannot be mapped
            data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return opened(data, str(path), epoch, older)


def opened(data: Buffer, name: str, epoch: int, older: int | None) -> Snapshot:
    """The snapshot of an epoch in these bytes; `older` is that of one before, if there is one."""
    hint = "restore the file from a backup of the folder"
    if older is not None:
        hint += f", or move it away to start from that of epoch {older}, if the log reaches back to it"
    sealed = open_sealed(data, KIND, name, hint)
    if sealed.header["epoch"] != epoch:
        raise EverfreshError(
            Code.DAMAGED, f"{name} is the snapshot of epoch {sealed.header['epoch']}", hint=hint
        )
    return Snapshot(epoch, sealed.header["meta"], sealed.sections)
