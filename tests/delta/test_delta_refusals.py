"""Every bad input is refused with a code, the row, the column and a hint."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import everfresh as ef
from everfresh.delta import Delta
from everfresh.delta.coerce import coerce
from everfresh.delta.rows import read_rows
from everfresh.errors import Code, EverfreshError
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
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Column,
    TableSchema,
)

UTC = dt.UTC
NOON = dt.datetime(2024, 1, 31, 12)
PRICE = DECIMAL(15, 2)

# The value in row 1 is the bad one: (type, a good value or None, the bad value, code, part of the message).
BAD_VALUES = [
    (PRICE, Decimal("1.5"), "abc", Code.VALUE, "value 'abc' in column 'x' of row 1 is not a DECIMAL(15,2)"),
    (PRICE, "1.5", "1.555", Code.VALUE, "value '1.555'"),
    (PRICE, 1, Decimal("1.555"), Code.VALUE, "value 1.555 in column 'x'"),
    (PRICE, None, Decimal("NaN"), Code.VALUE, "value NaN"),
    (PRICE, 1.5, float("nan"), Code.VALUE, "value nan"),
    (PRICE, 1.5, float("inf"), Code.VALUE, "value inf"),
    (PRICE, 1.5, 1e300, Code.OVERFLOW, "is outside DECIMAL(15,2)"),
    (PRICE, 1.5, 1e13, Code.OVERFLOW, "is outside"),
    (PRICE, None, Decimal("1e999999"), Code.OVERFLOW, "is outside"),
    (PRICE, None, Decimal("1e-999999"), Code.VALUE, "is not a"),
    (PRICE, None, "", Code.VALUE, "value ''"),
    (PRICE, None, True, Code.TYPE, "is a bool, not a DECIMAL(15,2)"),
    (PRICE, None, dt.date(2024, 1, 1), Code.TYPE, "value 2024-01-01"),
    (BIGINT, 1, 1.5, Code.VALUE, "value 1.5"),
    (BIGINT, 1, True, Code.TYPE, "is a bool"),
    (BIGINT, 1, 2**63, Code.OVERFLOW, "is outside BIGINT"),
    (BIGINT, 1.0, 2.0**63, Code.OVERFLOW, "is outside BIGINT"),
    (BIGINT, 1.0, float("nan"), Code.VALUE, "value nan"),
    (BIGINT, "1", "0x1F", Code.VALUE, "value '0x1F'"),
    (BIGINT, "1", "1_000", Code.VALUE, "value '1_000'"),
    (BIGINT, "1", "99999999999999999999", Code.OVERFLOW, "is outside"),
    (BIGINT, 1, [2], Code.TYPE, "is a list"),
    (BIGINT, 1, {"a": 1}, Code.TYPE, "is a dict"),
    (BIGINT, 1, b"1", Code.TYPE, "is a bytes"),
    (BIGINT, 1, NOON, Code.TYPE, "is a datetime"),
    (TINYINT, 1, 300, Code.OVERFLOW, "value 300 in column 'x' of row 1 is outside TINYINT"),
    (INTEGER, "1", "2147483648", Code.OVERFLOW, "is outside INTEGER"),
    (HUGEINT, 2**70, 10**38, Code.OVERFLOW, "is outside HUGEINT"),
    (HUGEINT, "1", "1.5", Code.VALUE, "is not a HUGEINT"),
    (BOOLEAN, True, 1, Code.TYPE, "is an int, not a BOOLEAN"),
    (BOOLEAN, "yes", "maybe", Code.VALUE, "is not a BOOLEAN"),
    (DOUBLE, 1.5, "x", Code.VALUE, "is not a DOUBLE"),
    (DOUBLE, 1.5, True, Code.TYPE, "is a bool"),
    (DOUBLE, "1.5", "1e400", Code.OVERFLOW, "too large for DOUBLE"),
    (DOUBLE, 1.5, 10**400, Code.OVERFLOW, "too large"),
    (REAL, 1.5, 1e39, Code.OVERFLOW, "too large for REAL"),
    (VARCHAR, "a", 1, Code.TYPE, "is an int, not a VARCHAR"),
    (VARCHAR, "a", b"a", Code.TYPE, "is a bytes"),
    (VARCHAR, "a", "\ud800", Code.VALUE, "is not a VARCHAR"),
    (DATE, dt.date(2024, 1, 1), NOON, Code.VALUE, "value 2024-01-31 12:00:00"),
    (DATE, "2024-01-31", "2024-02-30", Code.VALUE, "is not a DATE"),
    (DATE, "2024-01-31", "31.1.2024", Code.VALUE, "is not a DATE"),
    (DATE, "2024-01-31", "0000-01-01", Code.VALUE, "is not a DATE"),
    (DATE, None, 19000, Code.TYPE, "is an int"),
    (TIMESTAMP, NOON, NOON.replace(tzinfo=UTC), Code.TYPE, "has a time zone"),
    (TIMESTAMP, "2024-01-31", "2024-01-31 10:20:30Z", Code.VALUE, "is not a TIMESTAMP"),
    (TIMESTAMP, "2024-01-31", "2024-01-31 10:20:30.1234567", Code.VALUE, "is not a TIMESTAMP"),
    (TIMESTAMP, NOON, "noon", Code.VALUE, "is not a TIMESTAMP"),
    (TIMESTAMP, None, 0, Code.TYPE, "is an int"),
    (TIMESTAMP, None, pd.Timestamp("2024-01-31 00:00:00.000000001"), Code.VALUE, "is not a TIMESTAMP"),
    (TIMESTAMP, None, np.datetime64("2024-01-31T00:00:00.000000001"), Code.VALUE, "is not a TIMESTAMP"),
    (INTERVAL, dt.timedelta(1), 1, Code.TYPE, "is an int"),
]


def refused(data, schema, *, what="table 't'", op="insert") -> EverfreshError:
    with pytest.raises(EverfreshError) as error:
        read_rows(data, schema, what=what, op=op)
    assert error.value.hint
    assert error.value.place.startswith(what)
    return error.value


def as_arrow(values: list) -> pa.Array | None:
    """The values as Arrow sees them, where it has one type that takes them as they are."""
    try:
        array = pa.array(values)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if repr(array.to_pylist()) == repr(values) else None


@pytest.mark.parametrize(("type_", "good", "bad", "code", "message"), BAD_VALUES)
def test_bad_values(type_, good, bad, code, message):
    schema = TableSchema("t", (Column("x", type_),))
    kinds = [
        [{"x": good}, {"x": bad}, {"x": bad}],
        [(good,), (bad,)],
        {"x": np.array([good, bad], dtype=object)},
    ]
    if not isinstance(bad, (list, dict)):
        kinds.append({"x": [good, bad]})
    array = as_arrow([good, bad])
    if array is not None:
        kinds += [pa.table({"x": array}), pa.table({"x": pa.chunked_array([array[:1], array[1:]])})]
    for data in kinds:
        error = refused(data, schema)
        assert error.code == code
        assert message in error.message
        assert "of row 1" in error.message
        assert error.place == "table 't', row 1, column x"


BAD_ARROW = [
    (BIGINT, pa.array([1, 2**64 - 1], pa.uint64()), Code.OVERFLOW),
    (BIGINT, pa.array([False, True]), Code.TYPE),
    (BOOLEAN, pa.array([0, 1], pa.int8()), Code.TYPE),
    (VARCHAR, pa.array([b"a", b"b"], pa.binary()), Code.TYPE),
    (TIMESTAMP, pa.array([NOON, NOON], pa.timestamp("us", "UTC")), Code.TYPE),
    (TIMESTAMP, pa.array([0, 1001], pa.timestamp("ns")), Code.VALUE),
    (TIMESTAMP, pa.array([0, 2**60], pa.timestamp("s")), Code.VALUE),
    (TIMESTAMP, pa.array([0, 2**60], pa.timestamp("ms")), Code.VALUE),
    (DATE, pa.array([0, 1], pa.timestamp("s")), Code.VALUE),
    (DATE, pa.array([0, 86_400_001], pa.int64()).view(pa.date64()), Code.VALUE),
    (DATE, pa.array([0, 1], pa.time64("us")), Code.TYPE),
    (REAL, pa.array([1.0, 1e39]), Code.OVERFLOW),
    (PRICE, pa.array([Decimal(1), Decimal(10) ** 14], pa.decimal256(50, 0)), Code.OVERFLOW),
    (PRICE, pa.array(["1", "x"]).dictionary_encode(), Code.VALUE),
    (BIGINT, pa.array([[1], [2]]), Code.TYPE),
]


@pytest.mark.parametrize(("type_", "array", "code"), BAD_ARROW)
def test_bad_arrow_columns(type_, array, code):
    first = 1 if code in (Code.VALUE, Code.OVERFLOW) else 0  # of a wrong type every value is wrong
    with pytest.raises(EverfreshError) as error:
        coerce(pa.table({"x": array}), [Column("x", type_)], what="w")
    assert error.value.code == code
    assert error.value.place == f"w, row {first}, column x"
    assert error.value.hint


SCHEMA = TableSchema(
    "orders",
    (Column("id", BIGINT), Column("price", PRICE, nullable=False), Column("note", VARCHAR)),
    key=("id",),
)
KEYLESS = TableSchema("log", (Column("a", BIGINT), Column("b", BIGINT)))
FRAME = pd.DataFrame({"id": [1], "price": [1]})

# (data, schema, operation, code, part of the text)
BAD_SHAPES = [
    ([{"id": 1, "pric": 2}], SCHEMA, "insert", Code.NOT_FOUND, "did you mean 'price'?"),
    ([{"id": 1, "zzz": 2}], SCHEMA, "insert", Code.NOT_FOUND, "columns are: id, price, note"),
    (FRAME.rename(columns={"id": 0}), SCHEMA, "insert", Code.NOT_FOUND, "no column '0'"),
    ([{"id": 1}], SCHEMA, "insert", Code.NULL, "column 'price' is missing"),
    ([{"price": 1}], SCHEMA, "insert", Code.NULL, "column 'id' is missing"),
    ([{"id": 1, "price": 1}, {"id": 2}], SCHEMA, "insert", Code.NULL, "column 'price' of row 1"),
    ([{"id": 1, "price": 1}, {"id": None, "price": 1}], SCHEMA, "insert", Code.NULL, "column 'id' of row 1"),
    (pa.table({"id": [1, 2], "price": [1, None]}), SCHEMA, "insert", Code.NULL, "column 'price' of row 1"),
    ([{"id": 1, "ID": 2, "price": 1}], SCHEMA, "insert", Code.ARGUMENT, "'id' is given twice"),
    (pa.table([[1], [1]], ["id", "id"]), SCHEMA, "insert", Code.ARGUMENT, "'id' is given twice"),
    ([(1, 2)], SCHEMA, "insert", Code.ARGUMENT, "row 0 has 2 values for 3 columns"),
    ([(1, 2, "x"), (1, 2, "x", 4)], SCHEMA, "insert", Code.ARGUMENT, "row 1 has 4 values"),
    ([(1, 2, "x"), {"id": 1}], SCHEMA, "insert", Code.ARGUMENT, "row 1 is by name"),
    ([{"id": 1}, (1, 2, "x")], SCHEMA, "insert", Code.ARGUMENT, "row 1 is by position"),
    ([{"id": 1}, None], SCHEMA, "insert", Code.ARGUMENT, "row 1 is None"),
    ((1, 2, "x"), SCHEMA, "insert", Code.ARGUMENT, "row 0 is an int"),
    (None, SCHEMA, "insert", Code.ARGUMENT, "None is not rows"),
    (42, SCHEMA, "insert", Code.ARGUMENT, "an int is not rows"),
    (b"orders.csv", SCHEMA, "insert", Code.ARGUMENT, "a bytes is not rows"),
    (Delta(inserts=[]), SCHEMA, "insert", Code.ARGUMENT, "a Delta is not rows"),
    (np.zeros((2, 3)), SCHEMA, "insert", Code.ARGUMENT, "a ndarray is not rows"),
    (pl.Series([1]), SCHEMA, "insert", Code.ARGUMENT, "cannot be read as an Arrow table"),
    (pa.array([1]), SCHEMA, "insert", Code.ARGUMENT, "cannot be read as an Arrow table"),
    (FRAME["id"], SCHEMA, "insert", Code.ARGUMENT, "row 0 is an int"),
    ({}, SCHEMA, "insert", Code.ARGUMENT, "an empty dict"),
    (
        {"id": [1, 2], "price": [1]},
        SCHEMA,
        "insert",
        Code.ARGUMENT,
        "'id' has 2 values, column 'price' has 1",
    ),
    ({"id": 1, "price": [1]}, SCHEMA, "insert", Code.ARGUMENT, "'id' is one value"),
    (
        {"id": np.zeros((2, 2)), "price": [1, 2]},
        SCHEMA,
        "insert",
        Code.ARGUMENT,
        "column 'id' cannot be read",
    ),
    ([{"id": 1, "price": 2}], SCHEMA, "delete", Code.ARGUMENT, "lack column 'note'"),
    ([{"price": 2}], SCHEMA, "delete", Code.ARGUMENT, "or exactly the primary key (id)"),
    ([{"id": None}], SCHEMA, "delete", Code.NULL, "column 'id' of row 0"),
    ([{"a": 1}], KEYLESS, "delete", Code.ARGUMENT, "the table has no primary key"),
    ([{"id": 1}, {"id": 2, "price": 2}], SCHEMA, "delete", Code.ARGUMENT, "row 0 lacks column 'price'"),
    ([{"a": 1, "b": 2}], KEYLESS, "update", Code.ARGUMENT, "has no primary key"),
    ([{"price": 2}], SCHEMA, "update", Code.ARGUMENT, "lack column 'id'"),
    ([{"id": 1, "price": None}], SCHEMA, "update", Code.NULL, "column 'price' of row 0"),
    (
        [{"id": 1, "note": "x"}, {"id": 2, "price": 2}],
        SCHEMA,
        "update",
        Code.ARGUMENT,
        "row 0 lacks column 'price'",
    ),
    ("nothing.parquet", SCHEMA, "insert", Code.NOT_FOUND, "there is no file 'nothing.parquet'"),
    ("nothing/*.parquet", SCHEMA, "insert", Code.NOT_FOUND, "no Parquet or CSV files at"),
    ("what://x/y.csv", SCHEMA, "insert", Code.ARGUMENT, "cannot open 'what://x/y.csv'"),
    (__file__, SCHEMA, "insert", Code.ARGUMENT, "by its name"),
]


@pytest.mark.parametrize(("data", "schema", "op", "code", "text"), BAD_SHAPES)
def test_bad_shapes(data, schema, op, code, text):
    error = refused(data, schema, op=op)
    assert error.code == code
    assert text in str(error)


def test_a_failing_relation_is_an_error_about_the_argument():
    relation = duckdb.connect().sql("SELECT CAST('x' || range AS INTEGER) AS id FROM range(3)")
    assert refused(relation, SCHEMA).code == Code.ARGUMENT


@pytest.mark.parametrize(
    ("name", "content", "code", "text"),
    [
        ("x.csv", b"id,price\n1,1.50\n2,1.5a\n", Code.VALUE, "x.csv', row 1, column price"),
        ("x.csv", b"id,price\n1,1.50\n2\n", Code.VALUE, "has 1 fields for 2 columns"),
        ("x.csv", b"id,price\n1,1.50\n2\n", Code.VALUE, "x.csv', row 1)"),
        ("x.csv", b"id,price,note\n1,1.50,\xff\n", Code.ARGUMENT, "save the file as UTF-8"),
        ("x.csv", b"\xff\xfe", Code.ARGUMENT, "save the file as UTF-8"),
        ("x.csv", b"", Code.ARGUMENT, "is empty"),
        ("x.csv", b"id,prize\n", Code.NOT_FOUND, "did you mean 'price'?"),
        ("x.csv", b"id,price\n1,\n", Code.NULL, "column 'price' of row 0"),
        ("x.csv.gz", b"id,price\n1,1\n", Code.ARGUMENT, "cannot read"),
        ("x.parquet", b"PAR1 not really", Code.ARGUMENT, "cannot read"),
    ],
)
def test_bad_files(tmp_path, name, content, code, text):
    (tmp_path / name).write_bytes(content)
    error = refused(tmp_path / name, SCHEMA)
    assert error.code == code
    assert text in str(error)


def test_files_of_different_shapes(tmp_path):
    pq.write_table(pa.table({"id": [1], "price": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1], "note": ["x"]}), tmp_path / "b.parquet")
    assert "other columns" in refused(tmp_path, SCHEMA, op="update").message
    assert refused(tmp_path / "sub", SCHEMA).code == Code.NOT_FOUND
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty", SCHEMA).code == Code.NOT_FOUND


def test_coerce_names_a_column_that_is_not_there():
    with pytest.raises(EverfreshError) as error:
        coerce(pa.table({"x": [1]}), [Column("y", BIGINT)], what="w")
    assert error.value.code == Code.NOT_FOUND


def test_what_cannot_be_read_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    lazy = [
        pl.scan_parquet(tmp_path / "nowhere.parquet"),
        ds.dataset(tmp_path / "broken.parquet", schema=pa.schema({"x": pa.int64()})),
    ]
    for data in [*lazy, "a\0.csv", "\ud800.csv"]:
        with pytest.raises(EverfreshError) as caught:
            read_rows(data, TableSchema("t", (Column("x", BIGINT),)), what="table 't'")
        assert caught.value.code == Code.ARGUMENT


def test_days_that_python_has_not() -> None:
    with ef.connect(engine="local") as db:
        found = db.sql("SELECT DATE '9999-12-31' + 1 AS d")
        assert "10000-01-01" in str(found)
        assert found.to_polars().height == 1
        for read in (found.to_pylist, found.to_pandas):
            with pytest.raises(EverfreshError, match="10000-01-01 in column 'd'") as caught:
                read()
            assert caught.value.code == Code.OVERFLOW


def test_text_that_is_not_unicode() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (s VARCHAR)")
        for text in (
            "INSERT INTO t VALUES ('\ud800')",
            'SELECT 1 AS "\ud800"',
            'CREATE TABLE u ("\ud800" INT)',
        ):
            with pytest.raises(EverfreshError, match="surrogate") as caught:
                db.sql(text)
            assert caught.value.code == Code.SYNTAX
        with pytest.raises(EverfreshError):
            db.apply({"t": [("a",)]}, key="\ud800")
        assert db.apply(t=[("a",)]) == 2
