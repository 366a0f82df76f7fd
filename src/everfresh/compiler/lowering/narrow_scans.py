"""Scans of wide tables with the columns that are read: a view costs what these do, whatever else is there.

A column is read if an expression mentions its variable, or if what stands above a scan takes all columns of
its rows: a set operation, DISTINCT, or the end of the plan. Tables of few columns are left whole, so that
their programs read as the table was declared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from everfresh.expr import Var
from everfresh.sql.logical import plan as p

WIDE = 64
"""Columns from which on a table is wide."""
_SOME = (p.Project, p.Aggregate)
"""What takes only those columns of its input that it names."""
_ON = (p.Filter, p.Join, p.Sort, p.Limit, p.Window, p.Unnest)
"""What takes as many columns of its input as are taken of itself, and those that it names."""


def narrowed(plan: p.Plan, wide: int | None = WIDE, views: Collection[str] = ()) -> p.Plan:
    """The plan with those columns of wide tables, not of `views`, that something reads; where `wide` is None,
    the plan itself.

    >>> from everfresh.types import BIGINT
    >>> a, b, c = (Var(name, BIGINT) for name in "abc")
    >>> narrowed(p.Project(p.Scan("t", "t", (a, b, c)), (("b", b),)), 2).input.line()
    'Scan t (b)'
    """
    if wide is None:
        return plan
    tables = (n for n in _plans(plan) if isinstance(n, p.Scan) and n.table not in views)
    scans = {scan for scan in tables if len(scan.vars) >= wide}
    if not scans:
        return plan
    plan = _bare(plan)
    read: set[str] = set()
    _read(plan, True, read)

    def visit(node: Any) -> Any:
        if not isinstance(node, p.Scan):
            return node.map_children(visit)
        if node not in scans:
            return node
        # A row that is only counted has a column all the same.
        places = tuple(i for i, v in enumerate(node.vars) if v.name in read) or (0,)
        if len(places) == len(node.vars):
            return node
        return replace(node, vars=tuple(node.vars[i] for i in places), places=places)

    return visit(plan)  # type: ignore[no-any-return]


def _bare(node: Any) -> Any:
    """The plan without what EXISTS selects: `EXISTS (SELECT * ...)` reads none of it."""
    node = node.map_children(_bare)
    if isinstance(node, p.ExistsSubquery) and isinstance(node.plan, p.Project):
        return replace(node, plan=replace(node.plan, items=()))
    return node


def _plans(node: Any) -> Iterator[Any]:
    """All nodes but the variables of scans, of which there may be thousands."""
    yield node
    if not isinstance(node, p.Scan):
        for child in node.children:
            yield from _plans(child)


def _read(node: Any, whole: bool, read: set[str]) -> None:
    """Add the names of the variables that `node` and what is below it read; `whole` if all of its columns
    are taken."""
    if isinstance(node, p.Scan):
        if whole:
            read.update(v.name for v in node.vars)
        return
    if isinstance(node, Var):
        read.add(node.name)
        return
    below = whole if isinstance(node, _ON) else not isinstance(node, _SOME)
    for child in node.children:
        _read(child, below if isinstance(child, p.Plan) else True, read)
