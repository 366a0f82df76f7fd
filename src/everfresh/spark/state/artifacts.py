"""What has been compiled, for the processes of a cluster: a fresh worker reads it and compiles nothing.

A catalog and a staged program follow from the DDL (and from what a batch changes), and are known by a digest
of that. The driver makes them, and leaves each as a message in the inbox before the first job that needs it;
it never reads one. A task is told the digest of the message, and keeps what it has read. A process that finds
no catalog there makes it itself; a program it must find, since the temporaries of driver and tasks have to be
the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from everfresh.spark.jobs.messages import opened, written
from everfresh.spark.jobs.packed import packed, packed_catalog, unpacked, unpacked_catalog
from everfresh.spark.jobs.stages import Staged
from everfresh.state import store_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEPT = 256
_KNOWN: OrderedDict[tuple[str, str], Any] = OrderedDict()
"""By name, and by what was told of it: nothing of what is made here."""
_LEFT: dict[tuple[str, str], str] = {}
"""What this process has left, by root and name: what is to be told of it."""
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class ArtifactKind:
    """A kind of things that are compiled: how one becomes a message, and is read from one."""

    name: str
    pack: Callable[[Any], tuple[Mapping[str, Any], Mapping[str, Buffer]]]
    unpack: Callable[[Mapping[str, Any], Mapping[str, Buffer], str], Any]


CATALOG = ArtifactKind("catalog", packed_catalog, unpacked_catalog)
PROGRAM = ArtifactKind(
    "program",
    lambda program: ({}, {"program": packed(program)}),
    lambda _, sections, what: unpacked(sections["program"], Staged, what),
)


@lru_cache(maxsize=64)
def digest_of(ddl: tuple[str, ...]) -> str:
    """What a catalog is known by."""
    state = blake2b(digest_size=16)
    for entry in ddl:
        state.update(f"{len(entry)} {entry}".encode())
    return state.hexdigest()


def name_of(kind: str, digest: str, changed: Iterable[str] = ()) -> str:
    """The name of something compiled from a catalog, for some tables or a view."""
    if not changed:
        return f"{kind}-{digest}"
    what = blake2b("\n".join(sorted(changed)).encode(), digest_size=8).hexdigest()
    return f"{kind}-{digest}-{what}"


def known(name: str, make: Callable[[], Any], told: str = "") -> Any:
    """What a name stands for, as this process knows it, or made."""
    with _LOCK:
        if (name, told) in _KNOWN:
            _KNOWN.move_to_end((name, told))
            return _KNOWN[name, told]
    return _kept(name, make(), told)


def left(root: str, name: str, told: str, kind: ArtifactKind, make: Callable[[], Any]) -> Any:
    """What a name stands for in a task: as its process knows it, as the driver left it, or made."""

    def read() -> Any:
        where = _file(name, told)
        try:
            data = store_of(root).view(where)
        except OSError:
            return make()
        message = opened(data, kind.name, where, told)
        return kind.unpack(message.header, message.sections, where)

    return known(name, read, told)


def leave(root: str, name: str, value: Any, kind: ArtifactKind) -> str:
    """Driver: leave something for tasks; what they are to be told."""
    store = store_of(root)
    told = _LEFT.get((root, name), "")
    with _LOCK:
        same = _KNOWN.get((name, told)) is value  # what was forgotten and made again may differ
    if not told or not same or store.size(_file(name, told)) is None:
        chunks, told = written(kind.name, *kind.pack(value))
        store.replace(_file(name, told), chunks, durable=False)
        _LEFT[root, name] = told
    _kept(name, value, told)
    return told


def leave_again(root: str) -> None:
    """Driver: tasks found damage. What this process has left is written anew when it is needed next."""
    for known_root, name in list(_LEFT):
        if known_root == root:
            _LEFT.pop((known_root, name), None)


def _file(name: str, told: str) -> str:
    """Where a message is: two drivers may pack one thing differently, and neither takes the other's away."""
    return f"inbox/{name}-{told}"


def _kept(name: str, value: Any, told: str) -> Any:
    with _LOCK:
        _KNOWN[name, told] = value
        _KNOWN.move_to_end((name, told))
        if len(_KNOWN) > _KEPT:
            _KNOWN.popitem(last=False)
    return value


def missing(name: str) -> Any:
    """What a task does that does not find a program."""
    raise RuntimeError(f"the driver left no {name} in the inbox")
