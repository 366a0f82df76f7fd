"""Every kind of input: rows as Arrow, pandas, Polars, Python, Parquet and CSV make the same table."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from everfresh import Code, Delta
from everfresh.database import Database
from everfresh.errors import EverfreshError
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import assert_rows, assert_same

TABLE = """CREATE TABLE t (
    id BIGINT, name VARCHAR, price DECIMAL(9,2), day DATE, ratio DOUBLE, ok BOOLEAN, at TIMESTAMP)"""
VIEW = """CREATE MATERIALIZED VIEW v AS
    SELECT name, COUNT(*) AS n, SUM(price) AS p, SUM(ratio) AS r FROM t GROUP BY name"""
COLUMNS: dict[str, list[Any]] = {
    "id": [1, 2, 3, None],
    "name": ["ann", None, "ann", 'bo, "b"'],
    "price": [Decimal("1.25"), Decimal("2.50"), None, Decimal("-3.00")],
    "day": [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None, dt.date(2000, 1, 1)],
    "ratio": [0.5, -1.25, None, 0.0],
    "ok": [True, False, None, True],
    "at": [
        dt.datetime(2024, 2, 29, 12, 30, 1, 250000),
        None,
        dt.datetime(1969, 12, 31, 23, 59, 59),
        dt.datetime(2000, 1, 1),
    ],
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us")),
    ]
)
EXPECTED = pa.table(COLUMNS, SCHEMA)
TUPLES = list(zip(*COLUMNS.values(), strict=True))


class _Stream:
    """Something that only knows the Arrow C stream."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _pandas(_folder: Path) -> Any:
    return EXPECTED.to_pandas()


def _pandas_of_arrow(_folder: Path) -> Any:
    import pandas

    return EXPECTED.to_pandas(types_mapper=pandas.ArrowDtype)


def _polars(_folder: Path) -> Any:
    import polars

    return polars.from_arrow(EXPECTED)


def _duckdb(_folder: Path) -> Any:
    import duckdb

    return duckdb.from_arrow(EXPECTED)


def _parquet(folder: Path) -> Any:
    pa.parquet.write_table(EXPECTED, folder / "rows.parquet")
    return folder / "rows.parquet"


def _csv(folder: Path) -> Any:
    pa.csv.write_csv(EXPECTED, folder / "rows.csv")
    return str(folder / "rows.csv")


INPUTS: dict[str, Any] = {
    "Arrow table": lambda _: EXPECTED,
    "Arrow batch": lambda _: EXPECTED.to_batches()[0],
    "Arrow reader": lambda _: EXPECTED.to_reader(),
    "chunked Arrow table": lambda _: pa.concat_tables([EXPECTED.slice(0, 1), EXPECTED.slice(1)]),
    "other Arrow types": lambda _: EXPECTED.cast(
        pa.schema(
            [
                ("id", pa.int16()),
                ("name", pa.large_string()),
                ("price", pa.decimal128(20, 4)),
                ("day", pa.date64()),
                ("ratio", pa.float32()),
                ("ok", pa.bool_()),
                ("at", pa.timestamp("ms")),
            ]
        )
    ),
    "Arrow stream": lambda _: _Stream(EXPECTED),
    "pandas": _pandas,
    "pandas of Arrow": _pandas_of_arrow,
    "Polars": _polars,
    "DuckDB": _duckdb,
    "tuples": lambda _: TUPLES,
    "dicts": lambda _: EXPECTED.to_pylist(),
    "dicts of text": lambda _: [
        {name: None if value is None else str(value) for name, value in row.items()}
        for row in EXPECTED.to_pylist()
    ],
    "columns": lambda _: COLUMNS,
    "columns in another order and case": lambda _: {
        name.upper(): COLUMNS[name] for name in reversed(COLUMNS)
    },
    "Parquet": _parquet,
    "CSV": _csv,
}


def _raw(type_: pa.DataType, *buffers: bytes) -> pa.Array:
    """An array of two values over any bytes."""
    return pa.Array.from_buffers(type_, 2, [None, *map(pa.py_buffer, buffers)])


def _numbers(kind: str, *numbers: int) -> bytes:
    return b"".join(n.to_bytes(int(kind), "little", signed=True) for n in numbers)


UNHELD: dict[str, tuple[str, pa.Array, str]] = {
    "text that is not UTF-8": ("name", _raw(pa.string(), _numbers("4", 0, 1, 5), b"acaf\xe9"), "row 1"),
    "text that ends before it begins": ("name", _raw(pa.string(), _numbers("4", 0, 3, 2), b"abc"), "'name'"),
    "an index beyond its dictionary": (
        "name",
        pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["a"]), safe=False),
        "'name'",
    ),
    "a decimal beyond its digits": ("price", _raw(pa.decimal128(9, 2), _numbers("16", 1, 10**20)), "row 1"),
    "a day beyond Python's": ("day", _raw(pa.date32(), _numbers("4", 0, 2_932_897)), "row 1"),
    "a day before Python's": ("day", _raw(pa.date32(), _numbers("4", 0, -719_163)), "row 1"),
    "a moment beyond Python's": ("at", _raw(pa.timestamp("us"), _numbers("8", 0, 2**60)), "row 1"),
    "a moment of a zone": ("at", _raw(pa.timestamp("us", "Nowhere/City"), _numbers("8", 0, 1)), "row 0"),
    "a list": ("name", pa.array([["a"], None]), "row 0"),
}
"""What Arrow permits and no table holds: the column, its values, and where it is found."""


class InputSuite(SuiteBase):
    """What `apply` takes."""

    @pytest.fixture(scope="class")
    @classmethod
    def inbox(cls) -> Any:
        """One database for all kinds: each test empties it."""
        with cls().connect() as db:
            db.sql(f"{TABLE}; {VIEW}")
            yield db

    @pytest.mark.parametrize("kind", INPUTS)
    def test_rows_of_any_kind(self, inbox: Database, kind: str, tmp_path: Path) -> None:
        inbox.apply(t=INPUTS[kind](tmp_path))
        assert_same(EXPECTED, inbox.table("t").to_arrow(), "the table")
        assert_rows(
            inbox.view("v"),
            ("ann", 2, Decimal("1.25"), 0.5),
            (None, 1, Decimal("2.5"), -1.25),
            ('bo, "b"', 1, Decimal(-3), 0.0),
        )
        inbox.apply(t=Delta(deletes=INPUTS[kind](tmp_path)))
        assert len(inbox.table("t")) == 0
        assert len(inbox.view("v")) == 0

    @pytest.mark.parametrize("kind", UNHELD)
    def test_what_arrow_permits_and_no_table_holds(self, inbox: Database, kind: str, tmp_path: Path) -> None:
        name, values, where = UNHELD[kind]
        rows = pa.table({"id": pa.array([1, 2]), name: values})
        full = EXPECTED.slice(0, 2).set_column(SCHEMA.get_field_index(name), name, values)
        given = [rows, full]
        if kind in ("text that is not UTF-8", "a day beyond Python's"):
            pa.parquet.write_table(full, tmp_path / "rows.parquet")
            given.append(tmp_path / "rows.parquet")
        epoch = inbox.epoch
        for batch in given:
            with pytest.raises(EverfreshError, match=name) as caught:
                inbox.apply(t=batch)
            assert where in str(caught.value)
        assert inbox.epoch == epoch
        assert len(inbox.table("t")) == 0

    def test_a_folder_and_a_pattern_of_files(self, db: Database, tmp_path: Path) -> None:
        db.sql(TABLE)
        for i in range(3):
            pa.parquet.write_table(EXPECTED.slice(i, 1), tmp_path / f"part-{i}.parquet")
        pa.parquet.write_table(EXPECTED.slice(3), tmp_path / "part-3.parquet")
        db.apply(t=str(tmp_path / "part-*.parquet"))
        assert_same(EXPECTED, db.table("t").to_arrow(), "by a pattern")
        db.apply(t=Delta(deletes=tmp_path))
        assert len(db.table("t")) == 0

    def test_columns_left_out_are_null(self, db: Database) -> None:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b VARCHAR, c DOUBLE)")
        db.apply(t=[{"a": 1}, {"a": 2, "c": 0.5}])
        db.apply(t={"a": [3], "b": ["x"]})
        assert_rows(db.table("t"), (1, None, None), (2, None, 0.5), (3, "x", None))

    def test_rows_of_nothing(self, db: Database) -> None:
        db.sql(f"{TABLE}; {VIEW}")
        epoch = db.epoch
        empties: list[Any] = [
            [],
            SCHEMA.empty_table(),
            EXPECTED.slice(0, 0).to_pandas(),
            {name: [] for name in COLUMNS},
        ]
        for empty in empties:
            db.apply(t=empty)
        assert db.epoch == epoch + len(empties)
        assert len(db.table("t")) == 0

    def test_files_that_are_not_there_or_not_readable(self, db: Database, tmp_path: Path) -> None:
        db.sql(TABLE)
        epoch = db.epoch
        with refused(Code.NOT_FOUND, "nope.parquet"):
            db.apply(t=tmp_path / "nope.parquet")
        with refused(Code.NOT_FOUND):
            db.apply(t=str(tmp_path / "*.csv"))
        (tmp_path / "bad.parquet").write_bytes(b"this is no Parquet file")
        with refused(Code.ARGUMENT, "bad.parquet"):
            db.apply(t=tmp_path / "bad.parquet")
        (tmp_path / "rows.txt").write_text("a")
        with refused(Code.ARGUMENT, "rows.txt"):
            db.apply(t=tmp_path / "rows.txt")
        (tmp_path / "bad.csv").write_text("id,name\n1,x\nzwei,y\n")
        with refused(Code.VALUE, "zwei", "row 1"):
            db.apply(t=tmp_path / "bad.csv")
        assert db.epoch == epoch

    def test_pandas_missing_values_are_null_and_others_stay(self, db: Database) -> None:
        import numpy
        import pandas

        db.sql("CREATE TABLE t (i BIGINT, x DOUBLE, s VARCHAR)")
        frame = pandas.DataFrame({"i": [1.0, numpy.nan], "x": [numpy.nan, 1.5], "s": ["a", numpy.nan]})
        db.apply(t=frame)
        db.apply(t=[(7, float("nan"), "nan")])
        assert_rows(db.table("t"), (1, None, "a"), (None, 1.5, None), (7, float("nan"), "nan"))
