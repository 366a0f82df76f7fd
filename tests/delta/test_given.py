"""Rows that queries read beside tables: their names, types and values are DuckDB's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from everfresh.delta.given import Given, given, is_rows
from everfresh.delta.given_files import FileOptions, given_files
from everfresh.errors import Code, EverfreshError
from everfresh.testing.oracle import assert_same


def _files(path: Path, kind: str, **options: Any) -> Given:
    return given_files((str(path),), kind, FileOptions(**options), "a file")


def _shape(columns: Any) -> list[tuple[str, str]]:
    return [(c.name, str(c.type)) for c in columns]


TEXTS = [
    ["true", "f", ""], ["yes", "no"], ["y"], ["1", "0"], [" 1", "2 "], ["+1"], ["007", "8"], ["-0"],
    ["1", "2.5"], ["1e5", "2"], [".5", "5."], ["nan", "1.5"], ["inf", "1"], ["9223372036854775807"],
    ["9223372036854775808", "-1"], ["2020-01-02"], ["2020-02-30"], ["2020-01-02T03:04:05"],
    ["2020-01-02 03:04"], ["2020-01-02 03:04:05.123"], ["2020-01-02 03:04:05+02", "2020-01-02 03:04:05"],
    ["2020-01-02", "2020-01-02 03:04:05"], ["03:04", "3:04:05"], ["NULL"], ["1", "2020-01-02"], ['"1"', "2"],
    ['"a,b"', "ü"], [""], ["-", "."], ["12345678901234567890123"],
]  # fmt: skip


@pytest.mark.parametrize("texts", TEXTS, ids=str)
def test_texts_have_the_types_that_duckdb_finds(texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("h,z\n" + "".join(f"{text},q\n" for text in texts))
    found, expected = _files(path, "csv"), duckdb.sql(f"FROM '{path}'")
    assert _shape(found.columns) == list(zip(expected.columns, map(str, expected.types), strict=True))
    assert str(found.arrow().to_pylist()) == str(
        expected.to_arrow_table().cast(found.arrow().schema).to_pylist()
    )


VALUES = [
    '{"a":1}\n{"a":9223372036854775808}', '{"a":1}{"a":true}', "[1,2]", '{"a":[1,2.5,null]}', '{"a":[]}',
    '[{"a":[{"x":1},{"y":"2"}]},{"b":null,"a":null}, {"b":1.5}]', '{"a":{"x":1}}\n{"a":{"y":"2"}}',
    '{"a":"2020-01-01"}\n{"a":"x"}', '{"a":"2020-01-01T00:00:00Z"}', '{"a":"12:00:00","A":1}',
    '{"a":"f47ac10b-58cc-4372-a567-0e02b2c3d479","b":"true"}', '{"a":[1]}\n{"a":{"b":1}}',
]  # fmt: skip


@pytest.mark.parametrize("text", VALUES)
def test_json_has_the_types_that_duckdb_finds(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    found, expected = _files(path, "json"), duckdb.sql(f"FROM '{path}'")
    assert [str(c.type) for c in found.columns] == list(map(str, expected.types))
    rows = [[str(value) for value in row.values()] for row in found.arrow().to_pylist()]
    assert rows == [[str(value) for value in row] for row in expected.fetchall()]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a;b\n1;x\n", {}),
        ("1,x\n2,z\n", {}),
        ("1,x\n2,z\n", {"header": True}),
        ("a,b\n1,x\n", {"header": False}),
        ("a,b\n1,x\n", {"all_varchar": True}),
        ("a,b\n1,-\n", {"nullstr": "-"}),
        ("a,A\n1,2\n", {}),
        ("k,v\n", {}),
    ],
)
def test_files_of_texts_are_read_as_duckdb_reads_them(text: str, options: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    given_as = "".join(f", {name} = '{value}'" for name, value in options.items())
    expected = duckdb.sql(f"FROM read_csv('{path}'{given_as})").to_arrow_table()
    found = _files(path, "csv", **options).arrow()
    assert_same(expected, found.rename_columns(expected.column_names), tolerance=0)


def test_files_of_one_query_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("Y,z\n2.5,q\n")
    with pytest.raises(EverfreshError) as caught:
        _files(tmp_path / "*.csv", "csv")
    assert "union_by_name" in str(caught.value)
    found = _files(tmp_path / "*.csv", "csv", union_by_name=True)
    assert _shape(found.columns) == [("x", "BIGINT"), ("y", "DOUBLE"), ("z", "VARCHAR")]
    rows = [{"x": 1, "y": 2.0, "z": None}, {"x": None, "y": 2.5, "z": "q"}]
    assert found.arrow().to_pylist() == rows


FRAME = pd.DataFrame(
    {"a": [1, 2], "b": ["x", None], "c": [1.5, np.nan], "d": pd.to_datetime(["2020", "2021"])}
)
ROWS = [
    {"a": 1, "b": "x", "c": 1.5, "d": pd.Timestamp("2020")},
    {"a": 2, "b": None, "c": None, "d": pd.Timestamp("2021")},
]
TYPES = [("a", "BIGINT"), ("b", "VARCHAR"), ("c", "DOUBLE"), ("d", "TIMESTAMP")]


@pytest.mark.parametrize(
    "rows",
    [
        FRAME,
        pa.Table.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME).to_reader(),
        polars.from_pandas(FRAME),
        polars.from_pandas(FRAME).lazy(),
        ROWS,
        {name: [row[name] for row in ROWS] for name in "abcd"},
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_every_kind_are_the_same(rows: Any) -> None:
    assert is_rows(rows)
    found = given(rows, "rows")
    assert _shape(found.columns) == TYPES
    assert found.arrow().to_pylist() == ROWS
    assert found.rows == 2


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"a": 1}, {"a": "x"}], "of no one type"),
        (pa.table({"a": pa.array([1], pa.duration("s"))}), "no SQL type"),
        (pa.table({"a": pa.array([1], pa.timestamp("ns"))}), "microseconds"),
        ([1, 2], "no columns"),
    ],
)
def test_what_has_no_type_is_refused(rows: Any, text: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        given(rows, "rows").arrow()
    assert text in str(caught.value)
    assert caught.value.code in (Code.TYPE, Code.ARGUMENT, Code.VALUE)


def test_a_column_that_nobody_reads_is_not_looked_at() -> None:
    found = given(pa.table({"a": [1], "b": pa.array([1], pa.timestamp("ns"))}), "rows")
    assert found.column(0).to_pylist() == [1]


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    for name, text in (
        ("x.json", '{"a":1}\n{"a":'),
        ("x.parquet", "no"),
        ("x.csv", "a,b\n1,2,3\n"),
        ("y.csv", ""),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(EverfreshError) as caught:
            _files(tmp_path / name, name.split(".")[1]).arrow()
        assert name in str(caught.value)
