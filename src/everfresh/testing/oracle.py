"""DuckDB as the oracle: the base tables mirrored as multisets, any query over them answered from scratch.

The mirror is plain Python (a `Counter` of rows per table), so nothing of everfresh's own storage or
arithmetic takes part in what is expected. A table goes to DuckDB when a query comes and it has changed since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from everfresh.delta.bags import WEIGHT, difference
from everfresh.delta.show import render
from everfresh.types import (
    HUGEINT,
    NAN,
    VARCHAR,
    SqlType,
    TableSchema,
    parse_type,
    quoted,
    to_arrow,
    to_physical,
)
from everfresh.types.exchange import arrow_of

Row = tuple[Any, ...]


class DuckOracle:
    """A DuckDB connection that holds a copy of every base table.

    >>> from everfresh.types import BIGINT, Column
    >>> oracle = DuckOracle()
    >>> oracle.create(TableSchema("t", (Column("a", BIGINT),)))
    >>> oracle.apply("t", inserts=[(1,), (1,), (2,)], deletes=[(1,)])
    >>> oracle.query("SELECT SUM(a) AS s FROM t").to_pylist()
    [{'s': Decimal('3')}]
    >>> oracle.close()
    """

    def __init__(self) -> None:
        import duckdb

        self._con: Any = duckdb.connect()
        self._con.execute("SET threads=1")
        self._con.execute("SET TimeZone='UTC'")
        self._con.execute("SET error_on_division_by_zero=true")
        self.tables: dict[str, TableSchema] = {}
        self.rows: dict[str, Counter[Row]] = {}
        self._stale: set[str] = set()
        self._views: list[str] = []

    def create(self, schema: TableSchema) -> None:
        """Mirror a new, empty table; one of that name is replaced."""
        self.tables[schema.name] = schema
        self.rows[schema.name] = Counter()
        self._stale.add(schema.name)

    def drop(self, name: str) -> None:
        """Forget a table."""
        del self.tables[name], self.rows[name]
        self._stale.discard(name)
        self._con.execute(f"DROP TABLE IF EXISTS {quoted(name)}")

    def create_view(self, name: str, query: str) -> None:
        """A view that other queries may read; raises `duckdb.Error` if DuckDB does not have the query."""
        self._load()
        self._con.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {query}")
        self._views.append(name)

    def drop_views(self) -> None:
        """Forget all views."""
        for name in self._views:
            self._con.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
        self._views.clear()

    def apply(self, table: str, inserts: Iterable[Row] = (), deletes: Iterable[Row] = ()) -> None:
        """Change a table; a delete takes away exactly one copy, which must be there."""
        net: Counter[Row] = Counter()
        for row in inserts:
            net[canonical(row)] += 1
        for row in deletes:
            net[canonical(row)] -= 1
        rows = self.rows[table]
        for row, weight in net.items():
            if rows[row] + weight < 0:
                raise ValueError(f"{row} cannot be deleted from '{table}': it is there {rows[row]} times")
            rows[row] += weight
            if not rows[row]:
                del rows[row]
        self._stale.add(table)

    def table(self, name: str) -> pa.Table:
        """The rows of a mirrored table."""
        schema, rows = self.tables[name], list(self.rows[name].elements())
        arrays = [_array([row[i] for row in rows], c.type) for i, c in enumerate(schema.columns)]
        return pa.Table.from_arrays(arrays, schema=schema.arrow)

    def query(self, sql: str) -> pa.Table:
        """The result of a query, in the Arrow types that everfresh promises; raises `duckdb.Error`."""
        self._load()
        relation = self._con.sql(sql)
        types = [parse_type(str(t).replace("FLOAT", "REAL")) for t in relation.types]
        found = relation.to_arrow_table()
        arrays = [
            column.cast(to_arrow(t)) if not t.is_text or t == VARCHAR else _array(column.to_pylist(), t)
            for column, t in zip(found.columns, types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=found.column_names)

    def _load(self) -> None:
        for name in sorted(self._stale):
            columns = ", ".join(
                f"{quoted(c.name)}::{c.type} AS {quoted(c.name)}"
                if c.type == HUGEINT or "ENUM" in str(c.type)
                else quoted(c.name)
                for c in self.tables[name].columns
            )
            self._con.register("incoming", self.table(name))
            self._con.execute(f"CREATE OR REPLACE TABLE {quoted(name)} AS SELECT {columns} FROM incoming")
            self._con.unregister("incoming")
        self._stale.clear()

    def close(self) -> None:
        """Let go of the connection."""
        self._con.close()


def _array(values: list[Any], type_: SqlType) -> pa.Array:
    if not type_.is_text or type_ == VARCHAR:
        return pa.array(values, to_arrow(type_))
    return arrow_of([to_physical(_thawed(value, type_), type_) for value in values], type_)


class BatchOracle(DuckOracle):
    """The oracle for data sets: its tables live in DuckDB and change there, batch by batch, as Arrow.

    >>> from everfresh.types import BIGINT, Column
    >>> oracle = BatchOracle()
    >>> oracle.create(TableSchema("t", (Column("a", BIGINT),)))
    >>> rows = pa.table({"a": [1, 1, 2]})
    >>> oracle.change("t", rows, rows.slice(0, 0))
    >>> oracle.change("t", rows.slice(0, 0), rows.slice(0, 1))
    >>> oracle.query("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY a").to_pylist()
    [{'a': 1, 'n': 1}, {'a': 2, 'n': 1}]
    >>> oracle.close()
    """

    def create(self, schema: TableSchema) -> None:
        """Make an empty table, without its constraints."""
        self.tables[schema.name] = schema
        columns = ", ".join(f"{quoted(c.name)} {c.type}" for c in schema.columns)
        self._con.execute(f"CREATE OR REPLACE TABLE {quoted(schema.name)} ({columns})")

    def change(self, table: str, inserts: pa.Table, deletes: pa.Table) -> None:
        """Take `deletes` away, one copy for each row, all of which must be there; then add `inserts`."""
        if deletes.num_rows:
            self._con.register("outgoing", deletes)
            gone = self._con.execute(self._deletion(self.tables[table])).fetchone()[0]
            self._con.unregister("outgoing")
            if gone != deletes.num_rows:
                raise ValueError(
                    f"{deletes.num_rows} rows cannot be deleted from '{table}': {gone} are there"
                )
        if inserts.num_rows:
            self._con.register("incoming", inserts)
            self._con.execute(f"INSERT INTO {quoted(table)} SELECT * FROM incoming")
            self._con.unregister("incoming")

    @staticmethod
    def _deletion(schema: TableSchema) -> str:
        name = quoted(schema.name)
        if schema.key:
            same = " AND ".join(f"{name}.{quoted(k)} = outgoing.{quoted(k)}" for k in schema.key)
            return f"DELETE FROM {name} USING outgoing WHERE {same}"
        columns = ", ".join(map(quoted, schema.names))
        same = " AND ".join(f"s.{quoted(c)} IS NOT DISTINCT FROM g.{quoted(c)}" for c in schema.names)
        return f"""DELETE FROM {name} WHERE rowid IN (
            SELECT s.row FROM (SELECT *, rowid AS row, row_number() OVER (PARTITION BY {columns}) AS nth
                               FROM {name}) AS s
            JOIN (SELECT {columns}, count(*) AS n FROM outgoing GROUP BY ALL) AS g
            ON {same} AND s.nth <= g.n)"""


def canonical(row: Iterable[Any]) -> Row:
    """A row whose equality is that of SQL's groups: NaN is one value."""
    return tuple(_frozen(x) for x in row)


def _frozen(value: Any) -> Any:
    """A value that has a hash."""
    if isinstance(value, float) and value != value:
        return NAN
    if isinstance(value, dict):
        return tuple((name, _frozen(part)) for name, part in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _thawed(value: Any, type_: SqlType) -> Any:
    if value is None or not type_.is_nested:
        return value
    if type_.name == "LIST":
        return [_thawed(part, type_.inner[0]) for part in value]
    found = dict(value)
    if type_.name == "MAP":
        return {key: _thawed(part, type_.inner[1]) for key, part in found.items()}
    return {n: _thawed(found.get(n), t) for n, t in zip(type_.names, type_.inner, strict=True)}


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[Row]:
    """Rows as a multiset of tuples."""
    return Counter(canonical(row.values()) for row in rows)


def assert_same(expected: pa.Table, actual: pa.Table, what: str = "result", tolerance: float = 1e-9) -> None:
    """Fail, showing both, unless the tables hold the same rows in columns of the same names and types.

    DOUBLE and REAL match within `tolerance`; the order of rows does not count.
    """
    shapes = [[(field.name, str(field.type)) for field in table.schema] for table in (expected, actual)]
    if shapes[0] != shapes[1]:
        raise AssertionError(f"{what}: columns differ\nexpected {shapes[0]}\nactual   {shapes[1]}")
    names = [f"its {name}" if name == WEIGHT else name for name in expected.column_names]
    rest = difference(expected.rename_columns(names), actual.rename_columns(names), tolerance)
    if rest.num_rows:
        raise AssertionError(
            f"{what} differs (weight > 0: missing, < 0: too many)\n{render(rest)}\n"
            f"expected\n{render(expected)}\nactual\n{render(actual)}"
        )


def assert_rows(relation: Any, *rows: Row) -> None:
    """Fail unless a view, table or result holds exactly `rows`, in any order; numbers compare by value."""
    found = Counter(tuple(map(_plain, row.values())) for row in relation.to_pylist())
    wanted = Counter(tuple(map(_plain, row)) for row in rows)
    if found != wanted:
        raise AssertionError(
            f"missing {list((wanted - found).elements())}, too many {list((found - wanted).elements())}"
        )


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return NAN
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value
