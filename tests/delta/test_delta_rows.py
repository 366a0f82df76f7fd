"""Every kind of input gives the same Arrow table; columns are matched by name."""

import collections
import dataclasses
import datetime as dt
import gzip
import io
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from everfresh.delta.rows import SparkRows, read_rows
from everfresh.errors import Code, EverfreshError
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Column,
    TableSchema,
)

SCHEMA = TableSchema(
    "orders",
    (
        Column("id", BIGINT, nullable=False),
        Column("price", DECIMAL(15, 2)),
        Column("day", DATE),
        Column("note", VARCHAR),
        Column("rate", DOUBLE),
        Column("open", BOOLEAN),
        Column("seen", TIMESTAMP),
        Column("small", INTEGER),
        Column("huge", HUGEINT),
    ),
    key=("id",),
)
NAMES = SCHEMA.names
ROWS = [
    (
        1,
        Decimal("10.50"),
        dt.date(2024, 1, 31),
        "007",
        0.5,
        True,
        dt.datetime(2024, 1, 31, 10, 20, 30, 123456),
        7,
        2**70,
    ),
    (2, None, None, None, None, None, None, None, None),
    (3, Decimal("-0.01"), dt.date(1999, 12, 31), "", -1e300, False, dt.datetime(1969, 12, 31), -7, -5),
]
DICTS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
COLUMNS = {name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)}
EXPECTED = pa.table({f.name: pa.array(COLUMNS[f.name], f.type) for f in SCHEMA.arrow}, schema=SCHEMA.arrow)
Named = collections.namedtuple("Named", list(reversed(NAMES)))
Data = dataclasses.make_dataclass("Data", NAMES)


class Capsule:
    """An object that speaks only the Arrow stream protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class ArrayCapsule:
    """An object that speaks only the Arrow array protocol."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def loose() -> pa.Table:
    """The same rows in other Arrow types, in two chunks."""
    table = EXPECTED.set_column(0, "ID", EXPECTED["id"].cast(pa.uint8()))
    table = table.set_column(1, "price", table["price"].cast(pa.decimal256(40, 5)))
    table = table.set_column(2, "day", table["day"].cast(pa.timestamp("ns")))
    table = table.set_column(3, "note", table["note"].dictionary_encode())
    table = table.set_column(6, "seen", table["seen"].cast(pa.timestamp("ns")))
    table = table.set_column(7, "small", table["small"].cast(pa.float64()))
    return pa.concat_tables([table.slice(0, 1), table.slice(1)]).select(list(reversed(range(9))))


def pandas_objects() -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(COLUMNS[name], dtype=object) for name in NAMES}).set_index(
        pd.Index([5, 5, 7])
    )


def pandas_own() -> pd.DataFrame:
    """As pandas users have it: integers with a gap are floats, days are timestamps, NULL is NaN or NaT."""
    frame = pandas_objects()
    frame["rate"] = frame["rate"].astype("float64")
    frame["small"] = frame["small"].astype("float64")
    frame["day"] = pd.to_datetime(frame["day"])
    frame["seen"] = pd.to_datetime(frame["seen"])
    frame["note"] = frame["note"].astype("category")
    frame["open"] = frame["open"].astype("boolean")
    return frame


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame({name: pl.Series(COLUMNS[name]) for name in NAMES if name != "huge"}).with_columns(
        pl.Series("huge", [str(v) if v is not None else None for v in COLUMNS["huge"]])
    )


def relation() -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t (id UTINYINT, price DECIMAL(9,2), day DATE, note VARCHAR, rate DOUBLE,"
        "open BOOLEAN, seen TIMESTAMP, small TINYINT, huge HUGEINT)"
    )
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
    return connection.table("t")


KINDS = {
    "table": lambda: EXPECTED,
    "loose table": loose,
    "batch": lambda: EXPECTED.to_batches()[0],
    "reader": lambda: pa.RecordBatchReader.from_batches(
        EXPECTED.schema, EXPECTED.to_batches(max_chunksize=2)
    ),
    "dataset": lambda: pyarrow.dataset.dataset(EXPECTED),
    "struct array": lambda: EXPECTED.to_struct_array().combine_chunks(),
    "stream capsule": lambda: Capsule(loose()),
    "array capsule": lambda: ArrayCapsule(EXPECTED.to_batches()[0]),
    "pandas objects": pandas_objects,
    "pandas own": pandas_own,
    "pandas arrow": lambda: EXPECTED.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": polars_frame,
    "polars lazy": lambda: polars_frame().lazy(),
    "polars chunks": lambda: pl.concat([polars_frame()[:1], polars_frame()[1:]], rechunk=False),
    "duckdb": relation,
    "dicts": lambda: DICTS,
    "dicts, shouting": lambda: [{k.upper(): v for k, v in row.items()} for row in DICTS],
    "dicts, NULL left out": lambda: [{k: v for k, v in row.items() if v is not None} for row in DICTS],
    "dicts of strings": lambda: [{k: None if v is None else str(v) for k, v in row.items()} for row in DICTS],
    "tuples": lambda: ROWS,
    "lists": lambda: [list(row) for row in ROWS],
    "generator": lambda: (row for row in DICTS),
    "zip": lambda: zip(*COLUMNS.values(), strict=True),
    "namedtuples": lambda: [Named(**row) for row in DICTS],
    "dataclasses": lambda: [Data(*row) for row in ROWS],
    "columns": lambda: COLUMNS,
    "columns, tuples": lambda: {k: tuple(v) for k, v in COLUMNS.items()},
    "columns, arrow": lambda: dict(zip(NAMES, EXPECTED.columns, strict=True)),
    "columns, pandas": lambda: {k: pandas_own()[k] for k in NAMES},
    "columns, polars": lambda: {k: polars_frame()[k] for k in NAMES},
    "columns, numpy": lambda: {k: np.array(v, dtype=object) for k, v in COLUMNS.items()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_table(kind):
    table = read_rows(KINDS[kind](), SCHEMA, what="table 'orders'")
    assert table.schema == SCHEMA.arrow
    assert table.to_pylist() == DICTS
    assert all(column.num_chunks == 1 for column in table.columns)


def test_one_dict_is_one_row():
    assert read_rows(DICTS[0], SCHEMA, what="t").to_pylist() == DICTS[:1]


@pytest.mark.parametrize("op", ["insert", "delete", "update"])
@pytest.mark.parametrize("empty", [[], iter(()), pd.DataFrame(), pa.table({}), EXPECTED.slice(0, 0)])
def test_nothing_is_no_rows(empty, op):
    table = read_rows(empty, SCHEMA, what="t", op=op)
    assert table.num_rows == 0
    assert table.schema == SCHEMA.arrow
    assert all(column.num_chunks == 1 for column in table.columns)


def test_nan_is_null_from_pandas_only():
    schema = TableSchema("t", (Column("x", DOUBLE),))
    nan = float("nan")
    for data in (
        pd.DataFrame({"x": [nan]}),
        pd.DataFrame({"x": [nan]}, dtype=object),
        [{"x": pd.NA}],
        {"x": [pd.NaT]},
    ):
        assert read_rows(data, schema, what="t").to_pylist() == [{"x": None}]
    for data in (pa.table({"x": [nan]}), pl.DataFrame({"x": [nan]}), [(nan,)], {"x": np.array([nan])}):
        (value,) = read_rows(data, schema, what="t")["x"].to_pylist()
        assert np.isnan(value)


def test_numpy_records():
    schema = TableSchema("t", (Column("a", BIGINT), Column("b", VARCHAR), Column("c", DATE)))
    data = np.array([(1, "x", "2024-01-31")], dtype=[("a", "i4"), ("b", "U3"), ("c", "M8[D]")])
    assert read_rows(data, schema, what="t").to_pylist() == [{"a": 1, "b": "x", "c": dt.date(2024, 1, 31)}]


# -- deletes and updates -------------------------------------------------------------------------------------

PAIR = TableSchema("p", (Column("a", BIGINT), Column("b", VARCHAR), Column("c", VARCHAR)), key=("b", "a"))


def test_deletes_are_full_rows_or_keys():
    full = read_rows([(1, "x", None)], PAIR, what="t", op="delete")
    assert full.to_pylist() == [{"a": 1, "b": "x", "c": None}]
    for keys in ([{"b": "x", "A": 1}], [("x", 1)], pa.table({"b": ["x"], "a": [1]})):
        assert read_rows(keys, PAIR, what="t", op="delete").to_pylist() == [{"a": 1, "b": "x"}]


def test_updates_hold_some_columns():
    table = read_rows([{"c": None, "b": "x", "a": 1}], PAIR, what="t", op="update")
    assert table.to_pylist() == [{"a": 1, "b": "x", "c": None}]
    assert read_rows([{"b": "x", "a": 1}], PAIR, what="t", op="update").column_names == ["a", "b"]


# -- files ---------------------------------------------------------------------------------------------------


def write_csv(path, table=EXPECTED):
    buffer = io.BytesIO()
    pa_csv.write_csv(table.set_column(8, "huge", table["huge"].cast(pa.string())), buffer)
    data = buffer.getvalue()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_files(tmp_path):
    pq.write_table(EXPECTED, tmp_path / "a.parquet")
    write_csv(tmp_path / "a.csv")
    write_csv(tmp_path / "a.csv.gz")
    for name in ("a.parquet", "a.csv", "a.csv.gz"):
        for path in (tmp_path / name, str(tmp_path / name), (tmp_path / name).as_uri()):
            table = read_rows(path, SCHEMA, what="t")
            assert table.to_pylist() == DICTS
            assert table.schema == SCHEMA.arrow


def test_folders_and_globs(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(EXPECTED.slice(0, 1), folder / "part-0.parquet")
    pq.write_table(EXPECTED.slice(1), folder / "part-1.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").write_bytes(b"x")
    (folder / "readme.txt").touch()
    for path in (
        folder,
        f"{folder}/*.parquet",
        f"{folder}/part-[01].parquet",
        f"{tmp_path}/**/*.parquet",
        folder.as_uri(),
    ):
        table = read_rows(path, SCHEMA, what="t")
        assert table.to_pylist() == DICTS
        assert table["id"].num_chunks == 1


def test_folder_names_are_columns(tmp_path):
    schema = TableSchema("t", (Column("a", BIGINT), Column("day", DATE), Column("city", VARCHAR)))
    for day, city, a in (("2024-01-31", "K%C3%B6ln", 1), ("2024-02-01", "__HIVE_DEFAULT_PARTITION__", 2)):
        folder = tmp_path / f"Day={day}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"a": [a]}), folder / "x.parquet")
    expected = [
        {"a": 1, "day": dt.date(2024, 1, 31), "city": "Köln"},
        {"a": 2, "day": dt.date(2024, 2, 1), "city": None},
    ]
    assert read_rows(tmp_path, schema, what="t").to_pylist() == expected
    assert read_rows(f"{tmp_path}/Day=*", schema, what="t").to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('a,b\n007,""\n,x\n', [("007", ""), (None, "x")]),
        ('﻿A,b\r\n"1,5","x\ny"\r\n', [("1,5", "x\ny")]),
        ("b,a\n", []),
        ("b\nx\n\n", [(None, "x"), (None, None)]),
        ("a,b\nNULL,nan\n", [("NULL", "nan")]),
    ],
)
def test_csv_text(tmp_path, text, rows):
    schema = TableSchema("t", (Column("a", VARCHAR), Column("b", VARCHAR)))
    (tmp_path / "x.csv").write_bytes(text.encode())
    table = read_rows(tmp_path / "x.csv", schema, what="t")
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    (tmp_path / "x.tsv").write_bytes(b"a\tb\n1\t2\n")
    assert read_rows(tmp_path / "x.tsv", schema, what="t").to_pylist() == [{"a": "1", "b": "2"}]


# -- Spark, without Spark ------------------------------------------------------------------------------------


class FakeSparkFrame:
    """What everfresh looks at in a Spark DataFrame."""

    def __init__(self, *columns: str, streaming: bool = False) -> None:
        self.columns, self.isStreaming = list(columns), streaming

    def __arrow_c_stream__(self, requested_schema=None):
        raise AssertionError("a Spark DataFrame stays where it is")


FakeSparkFrame.__module__ = "pyspark.sql.classic.dataframe"


def test_spark_frames_are_wrapped():
    frame = FakeSparkFrame("C", "a", "b")
    rows = read_rows(frame, PAIR, what="t")
    assert rows == SparkRows(frame, (("a", "a"), ("b", "b"), ("c", "C")))
    assert read_rows(FakeSparkFrame("b", "a"), PAIR, what="t").names == (("a", "a"), ("b", "b"))
    for bad, code in (
        (FakeSparkFrame("a", "b", "d"), Code.NOT_FOUND),
        (FakeSparkFrame("c"), Code.NULL),
        (FakeSparkFrame("a", "b", "c", streaming=True), Code.ARGUMENT),
    ):
        with pytest.raises(EverfreshError) as error:
            read_rows(bad, PAIR, what="t")
        assert error.value.code == code
