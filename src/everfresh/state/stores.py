"""Where the files of a database lie: by name below one root, in a folder or in an object store.

| root | store |
|---|---|
| a path, `file:///path` | `LocalFiles`: the folder |
| `s3://`, `gs://`, `az://`, `abfs://`, `memory://name`, `obstore+file:///path` | `ObjectFiles` |
| `hdfs://`, `arrow+file:///path` | `ArrowFiles`: what pyarrow reaches |

Of several that `create` a name one wins: commits rest on it. A store that cannot promise that is not
`exclusive`. Whatever is there under a name is whole. Names use `/` everywhere.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from everfresh.errors import Code, EverfreshError
from everfresh.state.files import RESTORE, create_file, replace_file, sync_file, sync_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OBJECTS = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "memory", "obstore+file")


class Store(Protocol):
    """The files of one database."""

    root: str
    exclusive: bool
    """Whether `create` holds against other writers."""

    def read(self, name: str) -> bytes:
        """The contents of a file; `FileNotFoundError` if there is none."""
        ...

    def view(self, name: str) -> memoryview:
        """The same, without reading all of it where that can be."""
        ...

    def create(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> bool:
        """Create a file, whole; False if there is one. Its contents may be in chunks."""
        ...

    def replace(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> None:
        """Put a file in place, whole; its contents may be in chunks."""
        ...

    def settle(self, name: str) -> None:
        """Wait until a file that was put without waiting is on the disk."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def size(self, name: str) -> int | None:
        """The size of a file; None if there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of all files below a folder, however deep."""
        ...


def is_url(place: object) -> bool:
    """Whether a place is no path.

    >>> is_url("s3://bucket/shop"), is_url("file:///shop"), is_url("shop")
    (True, False, False)
    """
    return isinstance(place, str) and bool(_URL.match(place)) and not place.startswith("file://")


def local_path(place: str | Path) -> Path:
    """The path of a place that is one.

    >>> str(local_path("file:///shop%20a"))
    '/shop a'
    """
    text = str(place)
    return Path(unquote(urlsplit(text).path) if text.startswith("file://") else text)


@functools.lru_cache(maxsize=64)
def store_of(root: str) -> Store:
    """The store of a root: the same object for all of a process, so that connections are kept."""
    if not is_url(root):
        return LocalFiles(root)
    from everfresh.state.objects import ArrowFiles, ObjectFiles

    return ObjectFiles(root) if urlsplit(root).scheme in _OBJECTS else ArrowFiles(root)


def scratch_of(root: str) -> Path:
    """A folder of this machine that belongs to a root, for the flags of injected faults."""
    url = urlsplit(root)
    if not is_url(root) or url.scheme.endswith("+file"):
        return Path(unquote(url.path) if is_url(root) else root) / "inbox"
    return Path(tempfile.gettempdir()) / f"everfresh-{uuid.uuid5(uuid.NAMESPACE_URL, root)}"


class LocalFiles:
    """A folder of a file system with links and atomic renames."""

    exclusive = True

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = Path(root)

    def read(self, name: str) -> bytes:
        """Read the file."""
        return self._at(name).read_bytes()

    def view(self, name: str) -> memoryview:
        """Map the file into memory."""
        with self._at(name).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def create(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> bool:
        """By a link from a temporary."""
        return create_file(self._made(name), data, durable)

    def replace(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> None:
        """By renaming a temporary."""
        replace_file(self._made(name), data, durable)

    def settle(self, name: str) -> None:
        """The contents, then the name."""
        path = self._at(name)
        sync_file(path)
        sync_folder(path.parent)

    def remove(self, name: str) -> None:
        """Unlink the file."""
        self._at(name).unlink(missing_ok=True)

    def size(self, name: str) -> int | None:
        """Ask the file system."""
        try:
            return self._at(name).stat().st_size
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """Walk the folder."""
        found = []
        for where, _, files in os.walk(self._folder / folder):
            below = Path(where).relative_to(self._folder)
            found += [(below / file).as_posix() for file in files]
        return sorted(found)

    def _made(self, name: str) -> Path:
        path = self._at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _at(self, name: str) -> Path:
        """The path of a file. Records and manifests, which anybody may have written, name files: none leads
        out of the folder."""
        if (".." in name and ".." in name.split("/")) or name.startswith("/"):
            raise EverfreshError(
                Code.DAMAGED, f"'{name}' is no file of the database in {self.root}", hint=RESTORE
            )
        return self._folder / name
