"""Functions as a user writes them, against DuckDB: over the rows of a table, so that the vectorised evaluator
and the binder are tried too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everfresh as ef

COLUMNS = (
    "a DATE, b DATE, t TIMESTAMP, u TIMESTAMP, i INTEGER, j BIGINT, s VARCHAR, d DOUBLE, k SMALLINT, "
    "h HUGEINT"
)
ROWS = [
    ("2024-01-31", "2023-12-31", "2024-02-29 23:59:59.5", "2023-03-01", 5, 12, "abc,Déf", 0.5, 3, 18),
    ("1969-12-31", "0999-01-01", "1969-12-31 23:59:30", "1970-01-01 00:00:10", 1, -30, "", -2.5, 9, -4),
    ("2000-02-29", "2001-01-01", "2024-01-31 10:00:00", "2024-02-29 09:00:00", 0, 0, "42", 1e300, 0, 0),
    (None,) * 10,
]
DAYS = ["year", "month", "day", "quarter", "week", "isoyear", "decade", "century", "millennium"]
TIMES = ["hour", "minute", "second", "millisecond", "microsecond"]
HERE = Path(__file__).parent
LISTED = (HERE / "functions.txt").read_text().splitlines()
EXPRESSIONS = [
    *(
        f"date_diff('{part}', {x}, {y})"
        for part in [*DAYS, *TIMES, "epoch", "dow", "doy"]
        for x, y in (("b", "a"), ("u", "t"), ("t", "u"), ("a", "u"))
    ),
    *(
        f"date_sub('{part}', {x}, {y})"
        for part in [*DAYS, *TIMES]
        for x, y in (("b", "a"), ("u", "t"), ("t", "u"))
    ),
    *(f"date_part('{part}', {x})" for part in [*DAYS[5:], "era", "yearweek"] for x in "abt"),
    *(line for line in LISTED if not line.startswith("#")),
]
REFUSED = [line for line in (HERE / "functions_refused.txt").read_text().splitlines() if line[0] != "#"]


@pytest.fixture(scope="module")
def both() -> Any:
    """The same table in DuckDB and here."""
    duck = duckdb.connect()
    with ef.connect(engine="local") as db:
        duck.execute(f"CREATE TABLE x ({COLUMNS})")
        db.sql(f"CREATE TABLE x ({COLUMNS})")
        duck.executemany("INSERT INTO x VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
        db.apply(x=ROWS)
        yield duck, db
    duck.close()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_are_those_of_duckdb(both: Any, expression: str) -> None:
    duck, db = both
    query = f"SELECT {expression} AS v FROM x"
    wanted: pa.Table = duck.sql(query).to_arrow_table()
    got = db.sql(query).to_arrow()
    assert repr(got.cast(wanted.schema).column("v").to_pylist()) == repr(wanted.column("v").to_pylist())


@pytest.mark.parametrize("expression", REFUSED)
def test_what_duckdb_refuses_is_refused(both: Any, expression: str) -> None:
    duck, db = both
    query = f"SELECT {expression} AS v FROM x"
    with pytest.raises(duckdb.Error):
        duck.execute(query).fetchall()
    with pytest.raises(ef.EverfreshError):
        db.sql(query)
