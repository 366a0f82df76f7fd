"""Parquet files read as they are, against the way that reads everything.

Mutations that these catch: a NULL, a float or a type that passes, a column of a key or of a bag that comes as
a dictionary, a file of several left out, columns in the file's order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everfresh.delta.parquet import read_exact
from everfresh.delta.rows import read_rows
from everfresh.errors import EverfreshError
from everfresh.types import BIGINT, DECIMAL, DOUBLE, VARCHAR, Column, TableSchema

COLUMNS = (
    Column("k", BIGINT, nullable=False),
    Column("name", VARCHAR, nullable=False),
    Column("price", DECIMAL(15, 2)),
    Column("note", VARCHAR),
    Column("size", DOUBLE),
)
KEYED = TableSchema("t", COLUMNS, ("k", "name"))
BAG = TableSchema("t", COLUMNS)


def rows(count: int = 1000) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "name": pa.array([f"n{n % 3}" for n in numbers]),
            "price": pa.array([n / 4 if n % 5 else None for n in numbers]).cast(pa.decimal128(15, 2)),
            "note": pa.array([f"a long note, {n % 4}" if n % 7 else None for n in numbers]),
            "size": pa.array([float(n) for n in numbers]),
        }
    )


def changed(name: str, values: Any) -> pa.Table:
    given = rows()
    return given.set_column(given.column_names.index(name), name, pa.array(values))


def plain(table: pa.Table) -> pa.Table:
    return table.set_column(3, "note", table.column("note").cast(pa.string()))


@pytest.mark.parametrize("schema", [KEYED, BAG])
@pytest.mark.parametrize("group", [100, 1000])
def test_the_same_rows(tmp_path: Path, schema: TableSchema, group: int) -> None:
    other_order = ["size", "note", "k", "price", "name"]
    pq.write_table(rows().select(other_order), tmp_path / "a.parquet", row_group_size=group)
    pq.write_table(rows(10), tmp_path / "b.parquet")
    for path in (tmp_path / "a.parquet", tmp_path, tmp_path / "[ab].parquet"):
        found = read_exact([str(path)], schema, "t", "insert")
        assert found is not None
        assert plain(found).to_pylist() == read_rows(path, schema, what="t").to_pylist()
        encoded = {f.name for f in found.schema if pa.types.is_dictionary(f.type)}
        assert encoded <= ({"note"} if schema.key else set())
        assert all(column.num_chunks == 1 for column in found.columns)
    one = read_exact([str(tmp_path / "b.parquet")], KEYED, "t", "delete")
    assert one is not None
    assert plain(one).to_pylist() == rows(10).to_pylist()


def test_few_strings_come_as_a_dictionary(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    for note, encoded in ((None, True), ([f"a note of its own, {n}" for n in range(1000)], False)):
        pq.write_table(rows() if note is None else changed("note", note), file)
        found = read_exact([str(file)], KEYED, "t", "insert")
        assert found is not None
        assert pa.types.is_dictionary(found.schema.field("note").type) == encoded
        assert found.schema.field("name").type == pa.string()


@pytest.mark.parametrize(
    "given",
    [
        changed("name", [None] * 1000),
        changed("k", [None, *range(999)]),
        changed("k", [float(n) for n in range(1000)]),
        changed("note", list(range(1000))),
        rows().drop_columns(["price"]),
        rows().rename_columns(["K", "name", "price", "note", "size"]),
        rows().append_column("more", pa.array(range(1000))),
        rows().append_column("_change_type", pa.array(["insert"] * 1000)),
    ],
)
def test_others_are_read_the_other_way(tmp_path: Path, given: pa.Table) -> None:
    pq.write_table(given, tmp_path / "a.parquet")
    assert read_exact([str(tmp_path / "a.parquet")], KEYED, "t", "insert") is None


def test_floats_are_canonical(tmp_path: Path) -> None:
    pq.write_table(changed("size", [-0.0] * 1000), tmp_path / "a.parquet")
    found = read_exact([str(tmp_path / "a.parquet")], KEYED, "t", "insert")
    assert found is not None
    assert {str(x) for x in found.column("size").to_pylist()} == {"0.0"}


def test_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,name,price,note,size\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    for path in ("a.csv", "broken.parquet", "absent.parquet"):
        assert read_exact([str(tmp_path / path)], KEYED, "t", "insert") is None
    folder = tmp_path / "by" / "name=x"
    folder.mkdir(parents=True)
    pq.write_table(rows(), folder / "a.parquet")
    assert read_exact([str(tmp_path / "by")], KEYED, "t", "insert") is None


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_that_is_not_utf8_is_left_to_the_way_that_says_so(tmp_path: Path, dictionary: bool) -> None:
    count = 1000
    offsets, data = np.arange(count + 1, dtype=np.int32), b"\xe9" * count
    note = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    path = str(tmp_path / "rows.parquet")
    pq.write_table(rows(count).set_column(3, "note", note), path, use_dictionary=dictionary)
    assert read_exact([path], KEYED, "table 't'", "insert") is None
    with pytest.raises(EverfreshError, match="row 0 is not UTF-8"):
        read_rows(path, KEYED, what="table 't'")
