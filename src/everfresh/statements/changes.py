"""INSERT, UPDATE, DELETE and MERGE: each is one batch, and may return the rows that it changes.

What changes is computed from the last epoch, by the engine; a batch with it is committed while the lock is
still held. RETURNING is a query over these rows alone, and is answered in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh import sql as s
from everfresh.delta import SparkRows, read_rows
from everfresh.delta.coerce import coerce_column
from everfresh.delta.feeds import is_feed, named
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, evaluate
from everfresh.expr.nodes import Const
from everfresh.program import Batch, OnConflict, Part
from everfresh.relations import Result
from everfresh.sql.constraints import filled
from everfresh.statements.rows import fetched, plain_rows, upserted
from everfresh.types import Column, SqlType, TableSchema, no_rows, to_arrow

if TYPE_CHECKING:
    from everfresh.database import Database

Change = s.Insert | s.Update | s.Delete | s.Merge


@dataclass
class Changed:
    """What a statement does to the rows of its table: the parts of its batch, and what RETURNING reads of."""

    parts: list[Part]
    returned: pa.Table | None = None


class RowChanges:
    """Runs the statements that change rows; the lock is held by whoever calls."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @property
    def _engine(self) -> Any:
        """What rows are computed by: the engine, or the transaction that has begun."""
        return self._db._transaction or self._db._writable()

    def run(self, statement: Change) -> Result | int:
        """Commit a statement; the epoch, or what it returns."""
        found = self.of(statement)
        epoch = self._db._commit(Batch(tuple(found.parts)))
        if statement.returning is None:
            return epoch
        assert found.returned is not None
        return self.answer(statement, found.returned)

    def answer(self, statement: Change, rows: pa.Table) -> Result:
        """RETURNING of these rows."""
        from everfresh.local import adhoc

        assert statement.returning is not None
        return Result(adhoc.execute(statement.returning.plan, lambda _: rows))

    def of(self, statement: Change) -> Changed:
        """What a statement changes."""
        schema = self._engine.catalog.tables[statement.table]
        match statement:
            case s.Insert():
                return self._insert(statement, schema)
            case s.Update():
                return self._update(statement, schema)
            case s.Delete():
                return self._delete(statement, schema)
        return self._merge(statement, schema)

    # -- INSERT ------------------------------------------------------------------------------------

    def _insert(self, statement: s.Insert, schema: TableSchema) -> Changed:
        engine, what = self._engine, f"INSERT INTO {schema.name}"
        if statement.plan is not None:
            rows = self._selected(statement.plan, statement.returning is not None)
            rows = engine.read_input(_renamed(rows, statement.columns), schema, what, "insert")
        else:
            rows = constants(statement, schema, what)
        conflict = statement.conflict
        if conflict is None:
            return Changed([Part(schema.name, "insert", rows, what)], rows if statement.returning else None)
        action = OnConflict(conflict.assignments if conflict.action == "update" else (), conflict.where)
        found = Changed([Part(schema.name, "upsert", rows, what, action)])
        if statement.returning is not None:
            become = upserted(schema, engine.read(schema.name), rows, action)[1]
            found.returned = filled(schema, plain_rows(schema, become))
        return found

    # -- UPDATE, DELETE ----------------------------------------------------------------------------

    def _update(self, statement: s.Update, schema: TableSchema) -> Changed:
        what, wanted = f"UPDATE {schema.name}", statement.returning is not None
        if statement.plan is not None:
            old, new = self._halves(self._selected(statement.plan, wanted), schema)
        else:
            found = self._engine.matching(schema.name, statement.where, statement.assignments)
            old, new = (fetched(rows, schema) for rows in found) if wanted else found
            new = _given(new, schema) if isinstance(new, SparkRows) else new
        if isinstance(new, pa.Table):
            new = _read(new, schema, what)
        parts = [Part(schema.name, "delete", old, what), Part(schema.name, "insert", new, what)]
        return Changed(parts, new if wanted else None)

    def _delete(self, statement: s.Delete, schema: TableSchema) -> Changed:
        what, wanted = f"DELETE FROM {schema.name}", statement.returning is not None
        if statement.plan is not None:
            rows, _ = self._halves(self._selected(statement.plan, wanted), schema)
        else:
            rows, _ = self._engine.matching(schema.name, statement.where)
            rows = fetched(rows, schema) if wanted else rows
        return Changed([Part(schema.name, "delete", rows, what)], rows if wanted else None)

    # -- MERGE -------------------------------------------------------------------------------------

    def _merge(self, statement: s.Merge, schema: TableSchema) -> Changed:
        """All rows are computed before any is changed. They come to this process, since a row that several
        rows of the source want to change is an error."""
        what = f"MERGE INTO {schema.name}"
        gone: list[pa.Table] = []
        come: list[pa.Table] = []
        told: list[tuple[str, pa.Table]] = []
        touched: set[Any] = set()
        for clause in statement.clauses:
            rows = self._selected(clause.plan, True)
            old, new = self._halves(rows, schema)
            if clause.action != "insert":
                _once(schema, rows, touched)
                gone.append(old)
            if clause.action != "delete":
                new = _read(old if clause.action == "insert" else new, schema, what)
                come.append(new)
            told.append((clause.action.upper(), old if clause.action == "delete" else new))
        parts = []
        if gone:
            parts.append(Part(schema.name, "delete", pa.concat_tables(gone).cast(schema.arrow), what))
        if come:
            parts.append(Part(schema.name, "insert", pa.concat_tables(come).cast(schema.arrow), what))
        if statement.returning is None:
            return Changed(parts)
        shown = [
            rows.add_column(0, "merge_action", pa.array([action] * rows.num_rows, pa.string())).cast(
                pa.schema([pa.field("merge_action", pa.string()), *schema.arrow])
            )
            for action, rows in told
        ]
        empty = no_rows(pa.schema([pa.field("merge_action", pa.string()), *schema.arrow]))
        return Changed(parts, pa.concat_tables([empty, *shown]))

    # -- rows --------------------------------------------------------------------------------------

    def _selected(self, plan: Any, here: bool) -> Any:
        """The rows of a plan; `here`: in this process, as an Arrow table."""
        rows = self._engine.select(plan)
        return rows.fetch() if here and not isinstance(rows, pa.Table) else rows

    def _halves(self, rows: Any, schema: TableSchema) -> tuple[Any, Any]:
        """The table's columns of a plan of changes, and those that come behind them."""
        n = len(schema.columns)
        if isinstance(rows, pa.Table):
            old = rows.select(list(range(n))).rename_columns(list(schema.names)).cast(schema.arrow)
            behind = list(range(n, min(2 * n, rows.num_columns)))
            return old, rows.select(behind).rename_columns(list(schema.names)[: len(behind)])
        names = [f"c{i}" for i in range(len(rows.columns))]
        frame = rows.frame.toDF(*names)
        old, new = (
            _given(SparkRows(frame, tuple(zip(schema.names, some, strict=False))), schema) if some else None
            for some in (names[:n], names[n : 2 * n])
        )
        return old, new


def _read(rows: pa.Table, schema: TableSchema, what: str) -> pa.Table:
    """Rows of a table as it takes them, with what is computed of them."""
    given = read_rows(rows.select(list(schema.given)), schema, what=what)
    assert isinstance(given, pa.Table)
    return filled(schema, given)


def _given(rows: SparkRows, schema: TableSchema) -> SparkRows:
    """The columns of rows that a table is given; the rest is computed where they arrive."""
    names = tuple(pair for pair in rows.names if pair[0] in schema.given)
    return SparkRows(rows.df.select(*(f"`{there.replace('`', '``')}`" for _, there in names)), names)


def _once(schema: TableSchema, rows: pa.Table, touched: set[Any]) -> None:
    """Raise if a row is to be changed twice; rows without a key have a number behind their columns."""
    places = [schema.names.index(name) for name in schema.key] if schema.key else [rows.num_columns - 1]
    known = zip(*(rows.column(i).to_pylist() for i in places), strict=True)
    for key in known:
        if key in touched:
            raise EverfreshError(
                Code.DUPLICATE_KEY,
                f"a row of '{schema.name}' is matched by several rows of the source of MERGE",
                place=", ".join(f"{name} = {value!r}" for name, value in zip(schema.key, key, strict=False))
                or None,
                hint="let the source have one row for each: SELECT DISTINCT ON (key) ...",
            )
        touched.add(key)


def part_of(schema: TableSchema, op: Any, rows: Any, what: str) -> Part:
    """Rows as they were read, with their operation: a delete may be by the key, and the rows of a change feed
    say themselves what it is."""
    if isinstance(rows, pa.Table) and rows.num_columns == len(schema.columns):
        return Part(schema.name, op, rows, what)  # exactly the table's columns: neither of them
    if op == "delete" and not set(schema.given) <= set(_names(rows)):
        return Part(schema.name, "delete_key", rows, what)
    if op == "insert" and is_feed(_names(rows), schema):
        return Part(schema.name, "change", rows, named(what))
    return Part(schema.name, op, rows, what)


def _names(rows: Any) -> list[str]:
    return [name for name, _ in rows.names] if isinstance(rows, SparkRows) else list(rows.column_names)


def _renamed(rows: Any, names: tuple[str, ...]) -> Any:
    return rows.rename_columns(list(names)) if isinstance(rows, pa.Table) else rows.frame.toDF(*names)


def constants(statement: s.Insert, schema: TableSchema, what: str) -> pa.Table:
    """The rows of VALUES as an Arrow table; columns that are not named are NULL. Those of one type are made
    and looked at at once, and are parts of one array: a wide row has many."""
    together: dict[SqlType, list[Any]] = {}
    starts: dict[str, tuple[SqlType, int]] = {}
    given = statement.rows or []
    for index, name in enumerate(statement.columns):
        column = schema.column(name)
        values = together.setdefault(column.type, [])
        starts[name] = column.type, len(values)
        for row, exprs in enumerate(given):
            expr = exprs[index]
            try:
                values.append(expr.value if type(expr) is Const else evaluate(expr, {}))
            except EverfreshError as error:
                raise error.at(f"{what}, row {row}, column {name}") from error
    arrays = {type_: Vector.from_pylist(values, type_).to_arrow() for type_, values in together.items()}
    if len(starts) == len(schema.columns) and all(map(_sound, arrays.values(), arrays)):
        slices = (arrays[type_].slice(at, len(given)) for type_, at in map(starts.__getitem__, schema.names))
        return pa.Table.from_arrays(list(slices), schema=schema.arrow)
    table = pa.table({name: arrays[type_].slice(at, len(given)) for name, (type_, at) in starts.items()})
    rows = read_rows(table, schema, what=what)
    assert isinstance(rows, pa.Table)
    return filled(schema, rows)


def _sound(values: pa.Array, of: SqlType) -> bool:
    """Whether any column of a type takes all of these values as they are."""
    if values.null_count or values.type != to_arrow(of):
        return False
    try:
        return coerce_column(values, Column("values", of), what="VALUES") is values
    except EverfreshError:
        return False
