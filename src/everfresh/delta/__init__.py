"""Data in, data compared: what a caller hands over becomes Arrow tables of a schema; bags of rows are netted.

| module | what |
|---|---|
| `changes` | `Delta`, the public way to write inserts, deletes and updates of one table |
| `rows`, `files` | every accepted kind of input, matched to a schema by column name |
| `values` | what one Python value means in a column: the reference rules |
| `casts`, `coerce` | the same rules on whole Arrow columns, and the errors that name row and column |
| `sound` | what Arrow permits and no table holds |
| `bags` | multisets of rows with weights: net, expand, subtract, difference |
| `show` | a table as text or HTML |

Invariant: importing this package imports neither pyarrow nor numpy (`import everfresh` stays light); names
resolve lazily. No name here is also a module's, or the import of that module would hide it: `coerce` is taken
from `delta.coerce`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everfresh.delta.bags import EPOCH, WEIGHT, difference, expand, net, subtract
    from everfresh.delta.changes import Delta
    from everfresh.delta.rows import SparkRows, read_local, read_rows
    from everfresh.delta.show import render, render_html

__all__ = [
    "EPOCH",
    "WEIGHT",
    "Delta",
    "SparkRows",
    "difference",
    "expand",
    "net",
    "read_local",
    "read_rows",
    "render",
    "render_html",
    "subtract",
]

_HOME = {
    "Delta": "changes",
    "read_local": "rows",
    "read_rows": "rows",
    "SparkRows": "rows",
    "render": "show",
    "render_html": "show",
    "EPOCH": "bags",
    "WEIGHT": "bags",
    "difference": "bags",
    "expand": "bags",
    "net": "bags",
    "subtract": "bags",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
