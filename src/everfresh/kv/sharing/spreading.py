"""Which manager has which rows of the base, so that several keep the views of one template.

"Many views" in docs/design/key-value.md; strategies 1 and 2 of section 5.2 of the thesis on key-value views.
A core adds up joined rows, so it is the sum of the cores of any division of them. Tables that are equated
with each other in one column are divided by it, the others are with everyone. Invariant: every joined row is
with exactly one worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from everfresh.expr import Call, Expr, Var
from everfresh.kv.sharing.template import Template
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.types import SqlType, TableSchema

Array = np.ndarray[Any, Any]


def divided(template: Template, tables: Mapping[str, TableSchema]) -> dict[str, str]:
    """The tables of a template that are divided, and by which column; none if there is no way to.

    Of several columns that one is taken which leaves the fewest tables with everyone, and of these the
    fewest that are the *many* of a join, as lineitem is.
    """
    core = template.core
    assert isinstance(core, p.Aggregate)
    if not all(_is_plain(key.type) for key in template.keys):
        return {}
    scans = Counter(n.table for n in core.walk() if isinstance(n, p.Scan))
    found = _Linear(core.input)
    columns = {
        name: (scan.table, tables[scan.table].names[place])
        for scan in found.scans
        if scans[scan.table] == 1
        for place, name in _places(scan)
        if _is_plain(tables[scan.table].columns[place].type)
    }
    classes = [
        dict(columns[name] for name in sorted(of, reverse=True) if name in columns) for of in found.classes()
    ]
    alone = [{table: tables[table].key[0]} for table in dict.fromkeys(t for t, _ in columns.values())]
    many = {table for of in classes for table, column in of.items() if tables[table].key != (column,)}

    def left(of: Mapping[str, str]) -> tuple[int, int, str]:
        others = [table for table in scans if table not in of]
        return len(many.intersection(others)), len(others), repr(sorted(of.items()))

    usable = [of for of in (*classes, *alone) if of and of.items() <= {*columns.values()}]
    return min(usable, key=left, default={})


def _is_plain(type_: SqlType) -> bool:
    """Whether values that are equal are written in one way only."""
    return not type_.is_float and type_.name != "INTERVAL"


def _places(scan: p.Scan) -> Iterator[tuple[int, str]]:
    places = range(len(scan.vars)) if scan.places is None else scan.places
    return zip(places, (v.name for v in scan.vars), strict=True)


class _Linear:
    """The scans whose rows are in at most one joined row each time, and which of their columns are equal in
    all joined rows."""

    def __init__(self, plan: p.Plan) -> None:
        self.scans: list[p.Scan] = []
        self._same: dict[str, str] = {}
        self._types: dict[str, SqlType] = {}
        self._visit(plan)

    def classes(self) -> list[list[str]]:
        """Variables that are equal, of scans."""
        found: dict[str, list[str]] = {}
        for scan in self.scans:
            for v in scan.vars:
                found.setdefault(self._first(v.name), []).append(v.name)
        return [of for of in found.values() if len(of) > 1]

    def _visit(self, plan: p.Plan) -> None:
        if isinstance(plan, p.Scan):
            self.scans.append(plan)
            self._types |= {v.name: v.type for v in plan.vars}
        elif isinstance(plan, p.Filter):
            self._visit(plan.input)
            self._equate(plan.condition)
        elif isinstance(plan, p.Project):
            self._visit(plan.input)
            for name, e in plan.items:
                if isinstance(e, Var):
                    self._types[name] = e.type
                    self._join(name, e.name)
        elif isinstance(plan, p.Join):
            if plan.kind in ("inner", "cross", "left"):
                self._visit(plan.left)
            if plan.kind in ("inner", "cross", "right"):
                self._visit(plan.right)
            if plan.kind == "inner" and plan.condition is not None:
                self._equate(plan.condition)

    def _equate(self, condition: Expr) -> None:
        for of in conjuncts(condition):
            if isinstance(of, Call) and of.op == "=":
                left, right = of.args
                if isinstance(left, Var) and isinstance(right, Var) and left.type == right.type:
                    self._join(left.name, right.name)

    def _join(self, one: str, other: str) -> None:
        self._same[self._first(one)] = self._first(other)

    def _first(self, name: str) -> str:
        while self._same.get(name, name) != name:
            name = self._same[name]
        return name


def places(columns: Sequence[pa.ChunkedArray], rows: int, workers: int) -> Array:
    """Which worker has each row, by its values in some columns; the same in all processes.

    >>> column = pa.chunked_array([pa.array([5, None, 5, 7])])
    >>> a, b, c, d = places([column], 4, 1000).tolist()
    >>> (a == c, len({a, b, d}))
    (True, 3)
    """
    found = np.zeros(rows, np.uint64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        hashes = [crc32(repr(value).encode()) for value in encoded.dictionary.to_pylist()]
        of = np.array(hashes, np.uint64)[encoded.indices.to_numpy(zero_copy_only=False)]
        found = (found * np.uint64(0x9E3779B97F4A7C15)) ^ of
    found ^= found >> np.uint64(15)
    return (found % np.uint64(workers)).astype(np.int64)


__all__ = ["divided", "places"]
