"""Files of a domain that are no units: written under fresh names, found by whoever is told a name, and
removed when nothing names them any more.

A domain whose triggers run in the driver keeps what is large in such files (blocks of a matrix, factors to
be added to them), in a folder of its own below the database's. They go through the `Store`, so that they may
lie in a folder or in an object store. Invariant: a file never changes once its name was given away; what the
last manifest names stays until the next one is written.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from everfresh.state import is_url, store_of

if TYPE_CHECKING:
    from typing_extensions import Buffer


class NamedFiles:
    """The files of one owner in a database."""

    def __init__(self, root: str, owner: str) -> None:
        self.root, self.owner = root, owner
        self._store = store_of(root)

    def place(self, name: str) -> str:
        """Where a file is, for messages and caches."""
        return f"{self.root}/{self.owner}/{name}"

    def write(self, name: str, data: Buffer | list[Buffer]) -> None:
        """Write a file; another attempt writes the same. It need not be on the disk yet: see `settle`."""
        self._store.replace(f"{self.owner}/{name}", data, durable=False)

    def view(self, name: str) -> memoryview:
        """The contents of a file, mapped where that can be; `FileNotFoundError` if there is none."""
        return self._store.view(f"{self.owner}/{name}")

    def settle(self, names: Collection[str]) -> None:
        """Wait until files are on the disk: a manifest is about to name them."""
        for name in sorted(names):
            self._store.settle(f"{self.owner}/{name}")

    def remove(self, names: Collection[str]) -> None:
        """Remove files."""
        for name in names:
            self._store.remove(f"{self.owner}/{name}")

    def names(self) -> list[str]:
        """All files that are there."""
        return [name.removeprefix(f"{self.owner}/") for name in self._store.names(self.owner)]

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the files that nothing names."""
        kept = set(names)
        self.remove([name for name in self.names() if name not in kept])
        if not is_url(self.root):  # where folders are there without a file in them
            for where, _, _ in os.walk(Path(self.root) / self.owner, topdown=False):
                with suppress(OSError):  # it has files
                    os.rmdir(where)
