"""Rows of a file as cells of an array, batch by batch.

The columns of a file are a relation, and each dimension and attribute of the array an expression over it, in
SQL and by SQL's code. A coordinate that is a fraction lies in the cell below it. What cannot be a cell, a row
without a place or outside of the array's ranges, is refused with its row, or left out where that was asked
for.

Invariant: the cells of a file do not depend on how its rows are cut into batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.delta.casts import canonical, fast_cast, plain
from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Call, Cast, Const, Var
from everfresh.local.adhoc import execute
from everfresh.raw.boxes import Box, Mask
from everfresh.raw.definition import CreateExternal
from everfresh.raw.files.formats import format_of
from everfresh.raw.files.protocol import Reader, corrupt
from everfresh.sql.logical.plan import Plan, Project, Scan
from everfresh.sql.scalars import bind_select
from everfresh.types import BIGINT, Column, from_arrow, no_rows, quoted, to_arrow

_FILE = "file"
_SAFE = float(1 << 62)


class CellReader:
    """Reads the files of one external array."""

    def __init__(self, definition: CreateExternal) -> None:
        self.definition = definition
        self.schema = definition.schema
        self._range = Box.of(self.schema.lo, self.schema.hi)
        self._lenient = definition.option("outside") == "skip"
        self._plans: dict[pa.Schema, Plan] = {}

    @cached_property
    def width(self) -> int:
        """About how many bytes a cell takes in memory."""
        return sum(_width(field.type) for field in self.schema.arrow)

    def format(self, path: str) -> Reader:
        """The reader of a file."""
        return format_of(path, self.definition.option("format"))

    def cells(self, path: str) -> Iterator[tuple[int, pa.Table]]:
        """The cells of a file, batch by batch, each with how many rows have been read."""
        reader, done = self.format(path), 0
        try:
            columns = self._columns(path, reader)
        except EverfreshError as error:
            # Columns of text that have no values tell no type.
            if error.code == Code.TYPE and not any(batch.num_rows for batch in reader.rows(path, [])):
                return
            raise
        for batch in reader.rows(path, columns):
            cells = self._cells(pa.Table.from_batches([batch]), path, done)
            done += batch.num_rows
            yield done, cells

    def header_box(self, path: str) -> Box | None:
        """The box that a header tells; None where it does not tell it of all dimensions.

        Dimensions that are a column, or one times and plus constants, are known by the column's range.
        """
        reader = self.format(path)
        ranges = {name.lower(): both for name, both in reader.ranges(path).items()}
        if not ranges:
            return None
        file = reader.columns(path)
        corners: list[list[int]] = []
        plan = self._plan(_readable(file))
        assert hasattr(plan, "items")
        for dimension, (_, expr) in zip(self.schema.dimensions, plan.items, strict=False):
            names = {v.name for v in _variables(expr)}
            if len(names) != 1 or not _keeps_order(expr):
                return None
            both = ranges.get(next(iter(names)).lower())
            if both is None or any(value is None or value != value for value in both):
                return None
            try:
                corners.append(self._ends(file, next(iter(names)), both, dimension.name))
            except pa.ArrowException:  # the header says what no value of the column is
                return None
        lo, hi = zip(*((min(ends), max(ends)) for ends in corners), strict=True)
        return Box.of(lo, hi).met(self._range)

    def _ends(self, file: pa.Schema, column: str, both: tuple[Any, Any], dimension: str) -> list[int]:
        """Where the ends of a column's range lie in a dimension."""
        field = next(f for f in file if f.name.lower() == column.lower())
        rows = pa.table({f.name: pa.nulls(2, f.type) for f in file})
        given = rows.set_column(file.get_field_index(field.name), field.name, pa.array(both, field.type))
        found = execute(self._plan(_readable(file)), {_FILE: _plain(given)}.__getitem__)
        return [math.floor(value) for value in found.column(dimension).to_pylist()]

    # -- rows ----------------------------------------------------------------------------------------

    def _columns(self, path: str, reader: Reader) -> list[str]:
        """The columns of a file that cells are made of."""
        given = reader.columns(path)
        file = _readable(given)
        try:
            plan = self._plan(file)
        except EverfreshError as error:
            raise error.at(path) from None
        assert isinstance(plan, Project)
        scan = plan.input
        used = {v.name for _, expr in plan.items for v in _variables(expr)}
        names = [f.name for f, v in zip(file, scan.variables, strict=True) if v.name in used]
        twice = [name for name in names if given.names.count(name) > 1]
        if twice:
            raise corrupt(path, ValueError(f"there are several columns '{twice[0]}'"))
        return names or [file.names[0]]

    def _plan(self, file: pa.Schema) -> Plan:
        """The query that makes cells of the rows of a file with these columns."""
        if file not in self._plans:
            relation = {_FILE: tuple(Column(f.name, from_arrow(f.type) or BIGINT) for f in file)}
            items = [
                f"{self.definition.expression(d.name)} AS {quoted(d.name)}" for d in self.schema.dimensions
            ]
            items += [
                f"CAST({self.definition.expression(a.name)} AS {a.type}) AS {quoted(a.name)}"
                for a in self.schema.attributes
            ]
            found = bind_select(f"SELECT {', '.join(items)} FROM {_FILE}", relation, kept=True)
            if not (isinstance(found, Project) and isinstance(found.input, Scan)) or found.subqueries:
                raise EverfreshError(
                    Code.UNSUPPORTED,
                    "an expression over more than one row of a file makes no cells of its rows",
                    hint="leave aggregates, windows and subqueries out",
                )
            for dimension, column in zip(self.schema.dimensions, found.columns, strict=False):
                if not column.type.is_numeric:
                    raise EverfreshError(
                        Code.TYPE,
                        f"dimension '{dimension.name}' would be {column.type}, and is a number",
                        hint=f"say what it is: ({dimension.name} = CAST(... AS BIGINT))",
                    )
            self._plans[file] = found
        return self._plans[file]

    def _cells(self, rows: pa.Table, path: str, done: int) -> pa.Table:
        rows = _plain(rows)
        try:
            plan = self._plan(rows.schema)
            found = taken(plan, rows)
            if found is None:
                found = execute(plan, {_FILE: rows}.__getitem__)
        except EverfreshError as error:
            raise error.at(f"{path}, rows {done} to {done + rows.num_rows - 1}") from None
        wrong = np.zeros(found.num_rows, np.bool_)
        for k, dimension in enumerate(self.schema.dimensions):
            index, bad = _indices(found.column(k), dimension.lo, dimension.hi)
            if bad is not None:
                wrong |= bad
            found = found.set_column(k, dimension.name, index)
        if wrong.any():
            if not self._lenient:
                raise self._outside(rows, found, path, done, int(np.flatnonzero(wrong)[0]))
            found = found.filter(pa.array(~wrong))
        for attribute in self.schema.attributes:
            if not attribute.nullable and found.column(attribute.name).null_count:
                raise EverfreshError(
                    Code.NULL, f"attribute '{attribute.name}' is NOT NULL and NULL in a row", place=path
                )
        return found if found.schema.equals(self.schema.arrow) else found.cast(self.schema.arrow)

    def _outside(self, rows: pa.Table, found: pa.Table, path: str, done: int, row: int) -> EverfreshError:
        place = execute(self._plan(rows.schema), {_FILE: rows.slice(row, 1)}.__getitem__)
        shown = ", ".join(
            f"{d.name} = {place.column(k)[0].as_py()}" for k, d in enumerate(self.schema.dimensions)
        )
        return EverfreshError(
            Code.VALUE,
            f"{shown} is outside of {self.schema.box_text}",
            place=f"{path}, row {done + row}",
            hint="create the array with wider ranges, or WITH (outside = 'skip')",
        )


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # text
        return 24


def taken(plan: Plan, rows: pa.Table) -> pa.Table | None:
    """The result of a plan that only takes columns of a file, or makes numbers wider; None for another plan.

    What `execute` gives, without a copy of every column.
    """
    if not isinstance(plan, Project) or not isinstance(plan.input, Scan):
        return None
    scan = plan.input
    places = {v.name: k for v, k in zip(scan.vars, scan.places or range(len(scan.vars)), strict=True)}
    columns = []
    for _, expr in plan.items:
        of = expr.arg if isinstance(expr, Cast) else expr
        if not isinstance(of, Var) or not (of.type.is_integer or of.type.is_float) or of.type.is_wide:
            return None
        array = rows.column(places[of.name]).chunk(0)
        if isinstance(expr, Cast):
            if not (expr.to.is_float if of.type.is_float else expr.to.is_integer or expr.to.is_float):
                return None
            wider = fast_cast(array, expr.to)
            if wider is None:
                return None
            array = wider
        columns.append(canonical(array))
    return pa.Table.from_arrays(columns, names=[c.name for c in plan.columns])


def _indices(column: pa.ChunkedArray, lo: int, hi: int) -> tuple[pa.Array, Mask | None]:
    """Coordinates as indices, and which are none, if one is not."""
    if pa.types.is_integer(column.type):
        filled = column.fill_null(lo) if column.null_count else column
        values = filled.cast(pa.int64()).to_numpy()
        absent = None
    else:
        numbers = column.cast(pa.float64()).fill_null(np.nan).to_numpy()
        there = np.abs(numbers) < _SAFE  # not NaN either
        absent = None if there.all() else ~there
        values = np.floor(numbers if absent is None else np.where(absent, lo, numbers)).astype(np.int64)
    if column.null_count:
        nulls = np.asarray(column.is_null().to_numpy(), np.bool_)
        absent = nulls if absent is None else absent | nulls
    if absent is None and (not len(values) or (values.min() >= lo and values.max() <= hi)):
        return pa.array(values), None
    wrong = (values < lo) | (values > hi)
    return pa.array(values), wrong if absent is None else wrong | absent


def _readable(file: pa.Schema) -> pa.Schema:
    """The columns of a file that SQL has a type for, as they are handed to it."""
    return _plain(no_rows(file)).schema


def _plain(rows: pa.Table) -> pa.Table:
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        array = plain(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
        kind = from_arrow(array.type)
        if kind is not None:
            target = to_arrow(kind)
            columns[name] = array if array.type == target else array.cast(target, safe=False)
    return pa.table(columns)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _variables(node: Any) -> Iterator[Any]:
    for each in _nodes(node):
        if isinstance(each, Var):
            yield each


def _keeps_order(expr: Any) -> bool:
    """Whether an expression over one column rises, or falls, with it: constants times and plus."""
    match expr:
        case Var():
            return True
        case Cast(arg, to):
            return to.is_numeric and _keeps_order(arg)
        case Call(op, (left, right)) if op in ("+", "-", "*", "/"):
            if op == "/":
                return isinstance(right, Const) and _keeps_order(left)
            one, other = (right, left) if isinstance(left, Const) else (left, right)
            return isinstance(other, Const) and _keeps_order(one)
        case Call("floor" | "neg" | "-", (arg,)):
            return _keeps_order(arg)
    return False
