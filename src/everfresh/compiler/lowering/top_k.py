"""Relations that are the first rows of a bag: ORDER BY with LIMIT, ordered by columns.

A bag that is kept in order gives them without being read as a whole, whatever its size. All other relations
of their kind (windows, OFFSET without LIMIT) are recomputed partition by partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everfresh.expr import Var
from everfresh.program import Partitions
from everfresh.sql.logical import plan as p


@dataclass(frozen=True, slots=True)
class Top:
    """Rows `offset` to `offset + limit` of a map that is a bag."""

    keys: tuple[tuple[int, bool, bool], ...]
    """The order: the place of a key of the map, ascending, NULLs first."""
    columns: tuple[int, ...]
    """Which key of the map each column of the relation is."""
    limit: int
    offset: int


def top_of(relation: Partitions[Any]) -> Top | None:
    """The relation as the first rows of its map; None if it is no such thing.

    The order is total: it names every column, so that equal keys do not depend on history.
    """
    match relation.expr:
        case p.Limit(p.Sort(p.Project(p.Scan(_, _, held), items), order), int(limit), offset):
            pass
        case _:
            return None
    if relation.prefix or any(v.type.name == "INTERVAL" for v in held):
        return None
    places = {v.name: i for i, v in enumerate(held)}
    of = {name: places[e.name] for name, e in items if isinstance(e, Var)}
    keys: dict[int, tuple[int, bool, bool]] = {}
    for expr, ascending, nulls_first in order:
        if not isinstance(expr, Var) or expr.name not in of:
            return None
        keys.setdefault(of[expr.name], (of[expr.name], ascending, nulls_first))
    if len(of) != len(items) or len(keys) != len(held):
        return None
    return Top(tuple(keys.values()), tuple(of[name] for name, _ in items), limit, offset)


def first_rows(relation: Partitions[Any]) -> str | None:
    """How such a relation changes, in words; None if it is no such thing."""
    top = top_of(relation)
    if top is None:
        return None
    behind = f" behind the first {top.offset}" if top.offset else ""
    return f"incremental: the first {top.limit} rows{behind}, read in order"
