"""What has been compiled, for the processes of a cluster: a fresh worker reads it and compiles nothing.

A catalog and a staged program follow from the DDL (and from what a batch changes), and are known by a digest
of that. A process keeps those it has seen; the driver leaves each in the inbox before the first job that
needs it. A process that finds no catalog there makes it itself; a program it must find, since the temporaries
of driver and tasks have to be the same.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from everfresh.state import store_of

_KEPT = 128
_KNOWN: OrderedDict[str, Any] = OrderedDict()
_LOCK = threading.Lock()


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


def compiled(root: str, name: str, make: Callable[[], Any]) -> Any:
    """What `name` stands for: as this process knows it, as the driver left it, or made."""
    with _LOCK:
        if name in _KNOWN:
            _KNOWN.move_to_end(name)
            return _KNOWN[name]
    try:
        value = pickle.loads(store_of(root).read(f"inbox/{name}"))
    except OSError:
        value = make()
    with _LOCK:
        _KNOWN[name] = value
        if len(_KNOWN) > _KEPT:
            _KNOWN.popitem(last=False)
    return value


def leave(root: str, name: str, make: Callable[[], Any]) -> Any:
    """`compiled` in the driver, which leaves it for its tasks."""
    value = compiled(root, name, make)
    store = store_of(root)
    if store.size(f"inbox/{name}") is None:
        store.replace(f"inbox/{name}", pickle.dumps(value, pickle.HIGHEST_PROTOCOL), durable=False)
    return value


def missing(name: str) -> Any:
    """What a task does that does not find a program."""
    raise RuntimeError(f"the driver left no {name} in the inbox")
