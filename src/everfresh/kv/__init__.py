"""Key-value views: SQL views over key-value stores, strongly consistent, kept fresh from the store's log.

Chapters 4 to 6 of the thesis on key-value views; docs/key-value-views.md is for users, and
docs/design/key-value.md has the decisions. Importing this loads no store's client library.

>>> from everfresh import kv
>>> views = kv.Views(kv.memory_store())
>>> views.create_table("CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT)")
>>> views.create_view("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
>>> client = kv.Client(views.store)
>>> _ = client.put("t", {"id": 1, "x": 2})
>>> views.refresh()
>>> client.read("n").to_pylist()
[{'n': 1}]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everfresh.kv.client import Client
    from everfresh.kv.process.remote import RemoteStore
    from everfresh.kv.store import etcd_store, memory_store, redis_store, rocks_store
    from everfresh.kv.views import Views

__all__ = [
    "Client",
    "RemoteStore",
    "Views",
    "etcd_store",
    "memory_store",
    "redis_store",
    "rocks_store",
]

# Loaded when first asked for: what a process does not use it does not wait for.
_LAZY = {
    "Client": "client",
    "RemoteStore": "process.remote",
    "Views": "views",
    "etcd_store": "store",
    "memory_store": "store",
    "redis_store": "store",
    "rocks_store": "store",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"everfresh.kv.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'everfresh.kv' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
