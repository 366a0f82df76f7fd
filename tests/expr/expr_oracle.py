"""DuckDB as the oracle of expressions: one table with a column of every type, and what it answers."""

from __future__ import annotations

import functools
from typing import Any

import duckdb
import pyarrow as pa

from everfresh.expr import Var, Vector
from everfresh.expr.library.readers import read
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    SqlType,
    parse_type,
)

TYPES: dict[str, SqlType] = {
    "b": BOOLEAN,
    "c": BOOLEAN,
    "ti": TINYINT,
    "si": SMALLINT,
    "i": INTEGER,
    "j": INTEGER,
    "bi": BIGINT,
    "h": HUGEINT,
    "m": DECIMAL(15, 2),
    "n": DECIMAL(9, 3),
    "w": DECIMAL(30, 4),
    "r": REAL,
    "d": DOUBLE,
    "e": DOUBLE,
    "s": VARCHAR,
    "t": VARCHAR,
    "da": DATE,
    "db": DATE,
    "ts": TIMESTAMP,
    "iv": INTERVAL,
}
VARS = {name: Var(name, type_) for name, type_ in TYPES.items()}


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET threads=1").fetchall()
    con.execute("SET error_on_division_by_zero=true").fetchall()
    return con


def load(columns: dict[str, Vector]) -> None:
    """Make `columns` the table `rows` of the oracle, with an `id` that keeps their order."""
    rows = len(next(iter(columns.values())))
    data = {"id": pa.array(range(rows))} | {name: column.to_arrow() for name, column in columns.items()}
    con = connection()
    con.register("incoming", pa.table(data))
    hugeints = ", ".join(f"{n}::HUGEINT AS {n}" for n, v in columns.items() if v.type == HUGEINT)
    source = f"SELECT * REPLACE ({hugeints or 'id AS id'}) FROM incoming"
    con.execute(f"CREATE OR REPLACE TABLE rows AS {source}").fetchall()
    con.unregister("incoming")


def ask(sql: str) -> tuple[SqlType | None, list[Any]]:
    """The type and the physical values of an expression on every row of `rows`; raises duckdb.Error."""
    query = f"SELECT typeof({sql}) AS type, {sql} AS x FROM rows ORDER BY id"
    table = connection().sql(query).to_arrow_table()
    name = table["type"][0].as_py().replace("FLOAT", "REAL")
    if name == '"NULL"':
        return None, table["x"].to_pylist()
    if name == "INTERVAL":  # DuckDB's own Arrow form wraps long ones
        texts = connection().sql(f"SELECT CAST({sql} AS VARCHAR) AS x FROM rows ORDER BY id").fetchall()
        return INTERVAL, [None if text is None else read(text, INTERVAL) for (text,) in texts]
    return parse_type(name), Vector.from_arrow(table["x"], parse_type(name)).to_pylist()


CAUSES = {  # what DuckDB says, and the code it corresponds to
    "needed scale": "type",
    "division by zero": "division-by-zero",
    "could not convert string": "value",
    "invalid date field": "value",
    "invalid timestamp field": "value",
    "field value out of range": "value",
    "date out of range: ": "value",
    "interval value is out of range": "value",
    "not recognized": "value",
    "like pattern must not end": "value",
    "invalid escape string": "value",
    "insufficient padding": "value",
    "period must be greater than 0": "value",
    "month intervals cannot have": "value",
    "could not convert day to": "overflow",
    "overflow": "overflow",
    "out of range": "overflow",
    "could not cast value": "overflow",
    "failed to cast decimal value": "overflow",
    "not in timestamp range": "overflow",
    "cannot create a string of size": "overflow",
    "no function matches": "type",
    "could not choose a best candidate": "type",
    "explicit cast is required": "type",
    "unimplemented type for cast": "type",
    "must be a constant": "type",
}


def cause(error: duckdb.Error) -> str:
    """The code that corresponds to what DuckDB says."""
    text = str(error).lower()
    return next((code for part, code in CAUSES.items() if part in text), f"unknown: {text}")
