"""Stores that are no folder: object stores, by `obstore`, and file systems that pyarrow reaches.

An object store has a conditional put (`If-None-Match` and its like), so that of two writers one wins; a put
is whole or absent, and durable when it is answered. A file system of pyarrow has no such call: its `create`
looks first, which is enough for one writer and no more. Keys, regions and endpoints come from the environment
of each process, as obstore and pyarrow read it (`AWS_*`, `GOOGLE_*`, `AZURE_*`, `HADOOP_*`).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from everfresh.errors import Code, EverfreshError

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _joined(data: Buffer | list[Buffer]) -> bytes:
    return b"".join(data) if isinstance(data, list) else bytes(data)


class ObjectFiles:
    """Objects below a prefix of a bucket."""

    exclusive = True

    def __init__(self, root: str) -> None:
        self.root = root
        try:
            import obstore
        except ImportError:
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"'{root}' is in an object store, and the package obstore is not installed",
                hint="pip install 'everfresh[objects]', on every worker node too",
            ) from None
        self._api = obstore
        self._store = _opened(root)

    def _ask(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Ask the store; what it refuses is an error of the system, as with files."""
        try:
            return call(self._store, *args, **named)
        except (OSError, self._api.exceptions.AlreadyExistsError):
            raise
        except self._api.exceptions.BaseError as error:
            raise OSError(f"{self.root}: {str(error).strip().splitlines()[0]}") from error

    def read(self, name: str) -> bytes:
        """Get the object."""
        return bytes(self._ask(lambda store: self._api.get(store, name).bytes()))

    def view(self, name: str) -> memoryview:
        """Get the object."""
        return memoryview(self.read(name))

    def create(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> bool:
        """Put the object if there is none."""
        try:
            self._ask(self._api.put, name, _joined(data), mode="create")
        except self._api.exceptions.AlreadyExistsError:
            return False
        return True

    def replace(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> None:
        """Put the object."""
        self._ask(self._api.put, name, _joined(data))

    def settle(self, name: str) -> None:
        """It is durable when the put is answered."""

    def remove(self, name: str) -> None:
        """Delete the object."""
        with contextlib.suppress(FileNotFoundError):
            self._ask(self._api.delete, name)

    def size(self, name: str) -> int | None:
        """Ask for its head."""
        try:
            return int(self._ask(self._api.head, name)["size"])
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """List the prefix."""
        pages = self._ask(lambda store: list(self._api.list(store, folder or None)))
        return sorted(str(found["path"]) for page in pages for found in page)


def _opened(root: str) -> Any:
    from obstore.store import LocalStore, MemoryStore, from_url

    url = urlsplit(root)
    if url.scheme == "memory":
        return MemoryStore()
    if url.scheme == "obstore+file":
        return LocalStore(Path(unquote(url.path)), mkdir=True)
    return from_url(root)


class ArrowFiles:
    """A folder of a file system that pyarrow reaches: for one writer, which nobody holds others off from."""

    exclusive = False

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        self.root = root
        try:
            found, path = fs.FileSystem.from_uri(root.removeprefix("arrow+"))
        except (ValueError, OSError) as error:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"'{root}' is no place for a database: {error}",
                hint="give a path, or s3://, gs://, az:// or hdfs://",
            ) from error
        found.create_dir(path)
        self._fs, self._api = fs.SubTreeFileSystem(path, found), fs

    def read(self, name: str) -> bytes:
        """Read the file."""
        with self._fs.open_input_stream(name) as stream:
            return bytes(stream.read())

    def view(self, name: str) -> memoryview:
        """Read the file."""
        return memoryview(self.read(name))

    def create(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> bool:
        """Look, and write if there is none."""
        if self.size(name) is not None:
            return False
        self.replace(name, data)
        return True

    def replace(self, name: str, data: Buffer | list[Buffer], durable: bool = True) -> None:
        """Move a temporary into place."""
        folder, _, _ = name.rpartition("/")
        if folder:
            self._fs.create_dir(folder)
        temporary = f"{name}.{uuid.uuid4().hex}.tmp"
        with self._fs.open_output_stream(temporary) as stream:
            for chunk in data if isinstance(data, list) else [data]:
                stream.write(chunk)
        try:
            self._fs.move(temporary, name)
        except OSError:  # some move over nothing that is there
            self.remove(name)
            self._fs.move(temporary, name)

    def settle(self, name: str) -> None:
        """It is durable when it is put."""

    def remove(self, name: str) -> None:
        """Delete the file."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(name)

    def size(self, name: str) -> int | None:
        """Ask the file system."""
        found = self._fs.get_file_info(name)
        return None if found.type == self._api.FileType.NotFound else int(found.size)

    def names(self, folder: str) -> list[str]:
        """List the folder and what is below."""
        chosen = self._api.FileSelector(folder, recursive=True, allow_not_found=True)
        found = self._fs.get_file_info(chosen)
        return sorted(str(one.path) for one in found if one.type == self._api.FileType.File)
