"""Where raw files lie: found by a pattern, opened, and told apart from what they were.

A pattern is a path with wildcards (`nights/*.fits`, `**` for any depth) or a folder, local or in an object
store (`s3://bucket/nights/*.parquet`). A *stamp* changes when a file is written anew: its size and the time,
or the tag of the object store.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import io
import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from everfresh.errors import Code, EverfreshError
from everfresh.state import is_url

FOLDERS = (".zarr",)
"""Endings of folders that are one file."""
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Found:
    """A file: where it is, its bytes, and its stamp."""

    path: str
    size: int
    stamp: str


def found(pattern: str, endings: tuple[str, ...]) -> list[Found]:
    """The files of a pattern, by their paths; of a folder those with one of these endings."""
    if is_url(pattern):
        return _objects(pattern, endings)
    path, packs = absolute(pattern), tuple(end for end in endings if end in FOLDERS)
    if os.path.isdir(path) and not path.endswith(packs):
        names = [name for name in glob.glob(os.path.join(glob.escape(path), "*")) if name.endswith(endings)]
    else:
        names = glob.glob(path, recursive=True)
    if packs != endings:  # of others a folder is no file
        names = [name for name in names if not os.path.isdir(name) or name.endswith(packs)]
    return [stamped(name) for name in sorted(names)]


def absolute(pattern: str) -> str:
    """A pattern that means the same from any folder."""
    return pattern if is_url(pattern) else os.path.abspath(os.path.expanduser(pattern))


def is_there(pattern: str) -> bool:
    """Whether the folder that a pattern looks into is there, whatever is in it."""
    if is_url(pattern):
        return False
    parts = Path(absolute(pattern)).parts
    fixed = list(itertools.takewhile(lambda part: not glob.has_magic(part), parts))
    return os.path.isdir(os.path.join(*(fixed[:-1] if len(fixed) == len(parts) else fixed)))


def stamped(path: str) -> Found:
    """A file as it is now."""
    if is_url(path):
        url = _Url.of(path)
        if path.rstrip("/").endswith(FOLDERS):
            parts = [_found(url, one) for page in url.ask("list", url.name) for one in page]
            if not parts:
                raise missing(path, FileNotFoundError("there is nothing in it"))
            return _folder(path, parts)
        return _found(url, url.ask("head", url.name))
    try:
        kept = os.stat(path)
        if not os.path.isdir(path):
            return Found(path, kept.st_size, f"{kept.st_mtime_ns}:{kept.st_size}")
        inside = [os.stat(each) for each in sorted(map(str, Path(path).rglob("*")))]
    except OSError as error:
        raise missing(path, error) from error
    size = sum(each.st_size for each in inside)
    return Found(path, size, f"{max(e.st_mtime_ns for e in [kept, *inside])}:{size}:{len(inside)}")


def missing(path: str, error: Exception) -> EverfreshError:
    """A file that is not there, or cannot be opened."""
    return EverfreshError(
        Code.ENVIRONMENT,
        f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
        hint="REFRESH the array if its files have changed",
    )


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file to read; one of an object store is read by ranges."""
    if is_url(path):
        import obstore

        url = _Url.of(path)
        with told(path):
            stream = io.BufferedReader(_Ranges(obstore.open_reader(url.store, url.name)), 1 << 20)
        with stream:
            yield stream
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise missing(path, error) from error
    with os.fdopen(descriptor, "rb") as handle:
        yield handle


class _Ranges(io.RawIOBase):
    """An object, read where it is asked for."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def seekable(self) -> bool:
        """Any place of it can be read."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        place: int = self._reader.seek(offset, whence)
        return place

    def tell(self) -> int:
        """The place."""
        place: int = self._reader.tell()
        return place

    def readinto(self, buffer: Any) -> int:
        """Read on."""
        data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def told(path: str) -> Iterator[None]:
    """A block in which what an object store refuses becomes an error that names the file."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (OSError, BaseError) as error:
        raise missing(path, Exception(str(error).strip().splitlines()[0])) from error


def store_at(path: str) -> tuple[Any, str]:
    """The object store of a URL, and the name there."""
    url = _Url.of(path)
    return url.store, url.name.rstrip("/")


@dataclass(frozen=True)
class _Url:
    """A place in an object store: its store, and the name there."""

    root: str
    name: str
    store: Any

    @staticmethod
    def of(path: str) -> _Url:
        scheme, _, rest = path.partition("://")
        bucket, _, name = ("", "", rest.lstrip("/")) if scheme == "obstore+file" else rest.partition("/")
        return _Url(f"{scheme}://{bucket}", name, _store(scheme, bucket))

    def ask(self, call: str, *args: Any) -> Any:
        """Ask the store."""
        import obstore

        with told(f"{self.root}/{self.name}"):
            return getattr(obstore, call)(self.store, *args)


_stores: dict[str, Any] = {}


def _store(scheme: str, bucket: str) -> Any:
    key = f"{scheme}://{bucket}"
    if key not in _stores:
        try:
            from obstore.store import LocalStore, MemoryStore, from_url
        except ImportError:
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"'{key}' is in an object store, and the package obstore is not installed",
                hint="pip install 'everfresh[objects]'",
            ) from None
        local = {"memory": MemoryStore, "obstore+file": lambda: LocalStore(Path("/"))}
        _stores[key] = local[scheme]() if scheme in local else from_url(key)
    return _stores[key]


def _found(url: _Url, told: Mapping[str, Any]) -> Found:
    stamp = told.get("e_tag") or str(told["last_modified"])
    return Found(f"{url.root}/{told['path']}", int(told["size"]), f"{stamp}:{told['size']}")


def _folder(path: str, inside: list[Found]) -> Found:
    """Objects that are one file together."""
    told = "\n".join(f"{one.path} {one.stamp}" for one in sorted(inside, key=lambda one: one.path))
    return Found(path, sum(one.size for one in inside), blake2b(told.encode(), digest_size=16).hexdigest())


def _whole(listed: list[Found]) -> list[Found]:
    """Objects, with those of a folder that is one file as that file."""
    alone: list[Found] = []
    folders: dict[str, list[Found]] = {}
    for one in listed:
        path = next(
            (one.path[: m.end() - 1] for end in FOLDERS if (m := re.search(re.escape(end) + "/", one.path))),
            "",
        )
        folders.setdefault(path, []).append(one) if path else alone.append(one)
    return [*alone, *(_folder(path, inside) for path, inside in folders.items())]


def _objects(pattern: str, endings: tuple[str, ...]) -> list[Found]:
    url = _Url.of(pattern)
    wild = _WILD.search(url.name)
    prefix = url.name[: wild.start()].rpartition("/")[0] if wild else url.name.rstrip("/")
    listed = _whole([_found(url, one) for page in url.ask("list", prefix or None) for one in page])
    if not wild and not any(one.path == f"{url.root}/{url.name}" for one in listed):
        return sorted((one for one in listed if one.path.endswith(endings)), key=lambda one: one.path)
    if not wild and not listed:
        listed = [stamped(pattern)]
    name = re.compile(fnmatch.translate(f"{url.root}/{url.name}"))
    deep = "**" in url.name
    return sorted(
        (
            one
            for one in listed
            if name.match(one.path) and (deep or one.path.count("/") == pattern.count("/"))
        ),
        key=lambda one: one.path,
    )
