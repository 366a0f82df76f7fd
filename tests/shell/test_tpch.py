"""The TPC-H data set: its files, its types, and streams whose deletes are of rows that are there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from everfresh.datasets import Batch, tpch
from everfresh.datasets.cache import cache_folder
from everfresh.errors import EverfreshError

SF = 0.001


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


def test_files_are_made_once_and_whole(folder: Path):
    files = tpch.generate(SF, folder)
    assert list(files) == list(tpch.TABLES)
    assert {file.parent for file in files.values()} == {folder / "tpch-0.001"}
    stamps = [file.stat().st_mtime_ns for file in files.values()]
    assert tpch.generate(SF, folder) == files
    assert [file.stat().st_mtime_ns for file in files.values()] == stamps
    assert os.listdir(folder) == ["tpch-0.001"]


def test_a_broken_folder_is_made_anew(tmp_path: Path):
    files = tpch.generate(SF, tmp_path)
    files["orders"].unlink()
    assert tpch.generate(SF, tmp_path)["orders"].exists()


def test_the_cache_is_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "everfresh"


def test_columns_are_those_of_the_statements(folder: Path):
    """Names, order, types and NOT NULL in the data are what CREATE TABLE says."""
    sql_types = {
        pa.int64(): "BIGINT",
        pa.int32(): "INTEGER",
        pa.string(): "VARCHAR",
        pa.date32(): "DATE",
        pa.decimal128(15, 2): "DECIMAL(15,2)",
    }
    for table, rows in tpch.read(SF, folder=folder).items():
        declared = re.findall(r"^    (\w+) (\S+) NOT NULL", tpch.TABLES[table], re.MULTILINE)
        assert [(field.name, sql_types[field.type]) for field in rows.schema] == declared
        key = re.search(r"PRIMARY KEY \((.*)\)", tpch.TABLES[table])
        assert key is not None
        names = key[1].split(", ")
        assert rows.group_by(names).aggregate([]).num_rows == rows.num_rows


def test_the_statements_run(folder: Path):
    import everfresh

    with everfresh.connect(engine="local") as db:
        for statement in tpch.TABLES.values():
            db.sql(statement)
        for batch in tpch.stream(SF, 3, folder=folder):
            db.apply({t: everfresh.Delta(inserts=b.inserts, deletes=b.deletes) for t, b in batch.items()})
        assert set(db.tables) == set(tpch.TABLES)


def keys(rows: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


@pytest.mark.parametrize(("batches", "deletes"), [(1, 0.5), (4, 0.0), (7, 0.1), (20, 0.9)])
def test_a_stream_inserts_everything_once_and_deletes_what_is_there(
    folder: Path, batches: int, deletes: float
):
    data = tpch.read(SF, folder=folder)
    there: dict[str, set[tuple[object, ...]]] = {table: set() for table in data}
    inserted = dict.fromkeys(data, 0)
    deleted = dict.fromkeys(data, 0)
    stream = list(tpch.stream(SF, batches, deletes, folder=folder))
    assert len(stream) == batches
    for batch in stream:
        for table, change in batch.items():
            assert change.rows > 0
            assert change.inserts.schema == change.deletes.schema == data[table].schema
            gone, come = keys(change.deletes), keys(change.inserts)
            assert len(set(gone)) == len(gone)
            assert set(gone) <= there[table]
            assert not set(come) & there[table]
            there[table] = (there[table] - set(gone)) | set(come)
            inserted[table] += len(come)
            deleted[table] += len(gone)
    assert inserted == {table: rows.num_rows for table, rows in data.items()}
    assert deleted["region"] == deleted["nation"] == 0
    if batches == 1 or deletes == 0:
        assert not any(deleted.values())
    else:
        expected = deletes * inserted["orders"] * (batches - 1) / batches
        assert deleted["orders"] == pytest.approx(expected, rel=0.1)


def test_an_order_comes_and_goes_with_its_lineitems(folder: Path):
    for batch in tpch.stream(SF, 5, 0.2, folder=folder):
        for side in ("inserts", "deletes"):
            orders = set(getattr(batch["orders"], side)["o_orderkey"].to_pylist())
            assert set(getattr(batch["lineitem"], side)["l_orderkey"].to_pylist()) == orders


def test_the_same_arguments_give_the_same_batches(folder: Path):
    def stream(seed: int) -> Iterator[Batch]:
        return (batch["orders"] for batch in tpch.stream(SF, 3, seed=seed, tables=["orders"], folder=folder))

    assert list(stream(1)) == list(stream(1))
    assert list(stream(1)) != list(stream(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: tpch.generate(0, folder),
        lambda folder: tpch.generate(float("nan"), folder),
        lambda folder: tpch.read(SF, ["order"], folder),
        lambda folder: next(tpch.stream(SF, 0, folder=folder)),
        lambda folder: next(tpch.stream(SF, 2, 1.5, folder=folder)),
    ],
)
def test_wrong_arguments_are_refused(folder: Path, call):
    with pytest.raises(EverfreshError):
        call(folder)


def test_a_generator_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no disk >&2; exit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(tpch, "generator", lambda: broken)
    with pytest.raises(EverfreshError, match="no disk"):
        tpch.generate(SF, tmp_path / "cache")
    assert os.listdir(tmp_path / "cache") == []
