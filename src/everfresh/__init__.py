"""everfresh keeps derived data fresh: views that are maintained incrementally, in-process and on Apache
Spark.

>>> import everfresh as ef
>>> db = ef.connect(engine="local")
>>> db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, price DECIMAL(15,2))")
1
>>> db.sql("CREATE MATERIALIZED VIEW spend AS "
...        "SELECT customer, SUM(price) AS total FROM orders GROUP BY customer")
2
>>> db.apply(orders=[(1, "ann", "10.50"), (2, "bob", "3.00"), (3, "ann", "1.25")])
3
>>> db.apply(orders=ef.Delta(deletes=[{"id": 1}]))
4
>>> db.sql("SELECT * FROM spend ORDER BY customer").to_pylist()
[{'customer': 'ann', 'total': Decimal('1.25')}, {'customer': 'bob', 'total': Decimal('3.00')}]
>>> db.close()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everfresh._version import __version__
from everfresh.delta.changes import Delta
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options

if TYPE_CHECKING:
    from everfresh import arrays, kv, linalg, signals
    from everfresh.database import Database, connect
    from everfresh.linalg.domain.handles import LinearView
    from everfresh.relations import Result, Table, View
    from everfresh.sources import Stream

__all__ = [
    "Code",
    "Database",
    "Delta",
    "EverfreshError",
    "LinearView",
    "Options",
    "Result",
    "Stream",
    "Table",
    "View",
    "__version__",
    "arrays",
    "connect",
    "kv",
    "linalg",
    "signals",
]

# Loaded when first asked for, so that `import everfresh` stays light.
_LAZY = {
    "connect": "database",
    "Database": "database",
    "LinearView": "linalg.domain.handles",
    "Result": "relations",
    "Stream": "sources",
    "Table": "relations",
    "View": "relations",
}


def __getattr__(name: str) -> Any:
    if name in ("arrays", "kv", "linalg", "signals"):
        return import_module(f"everfresh.{name}")
    if name in _LAZY:
        return getattr(import_module(f"everfresh.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'everfresh' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
