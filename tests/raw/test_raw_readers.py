"""Formats: what a reader gives is what was written; what is none of its files is refused."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from raw_files import WRITERS

import everfresh as ef
from everfresh.errors import Code, EverfreshError
from everfresh.raw.files import places
from everfresh.raw.files.formats import FORMATS, format_of
from everfresh.raw.files.hdf5 import whole_chunks
from everfresh.raw.files.places import found, stamped
from everfresh.raw.files.protocol import BATCH
from everfresh.testing.raw_reader_suite import RawReaderSuite

ROWS = RawReaderSuite.rows(100)


class Formats(RawReaderSuite):
    """A format, by its writer."""

    writer: str

    def write(self, path: Path, rows: pa.Table) -> Path:
        return WRITERS[self.writer](path, rows)


class TestCsv(Formats):
    reader, writer = FORMATS["csv"], "csv"

    def spoil(self, path: Path) -> None:
        path.write_text("x,y\n1,2\n3\n")


class TestPackedCsv(Formats):
    reader, writer = FORMATS["csv"], "csv_gz"


class TestParquet(Formats):
    reader, writer = FORMATS["parquet"], "parquet"


class TestFits(Formats):
    reader, writer = FORMATS["fits"], "fits"


class TestHdf5Records(Formats):
    reader, writer = FORMATS["hdf5"], "hdf5_records"


class TestHdf5Columns(Formats):
    reader, writer = FORMATS["hdf5"], "hdf5_columns"


class TestZarr(Formats):
    reader, writer = FORMATS["zarr"], "zarr"

    def spoil(self, path: Path) -> None:
        (path / "zarr.json").write_text("no")


def test_numbers_that_become_fractions_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everfresh.raw.files.csv._BLOCK", 64)
    path = tmp_path / "mag.csv"
    path.write_text("id,mag\n" + "".join(f"{2**60 + k},{k}\n" for k in range(30)) + "7,1.5\n8,2\n")
    reader = format_of(str(path))
    batches = list(reader.rows(str(path), ["id", "mag"]))
    mag = [value for batch in batches for value in batch.column("mag").to_pylist()]
    assert mag == [*range(30), 1.5, 2]
    assert batches[0].column("id")[0].as_py() == 2**60, "whole numbers are exact as long as they are"


def test_dense_datasets_and_fill_values(tmp_path: Path) -> None:
    import h5py
    import zarr

    values = np.arange(12, dtype=np.float64).reshape(3, 4)
    values[1, 2] = np.nan
    with h5py.File(tmp_path / "d.h5", "w") as file:
        made = file.create_dataset("flux", data=values)
        made.attrs["axes"] = ["row", "col"]
        count = file.create_dataset("count", data=np.full((3, 4), -1))
        count.attrs["_FillValue"] = -1
    group = zarr.open_group(tmp_path / "d.zarr", mode="w")
    group.create_array("flux", data=values, fill_value=np.nan, dimension_names=["row", "col"])
    for path in ("d.h5", "d.zarr"):
        reader = format_of(path)
        name = str(tmp_path / path)
        assert reader.ranges(name) == {"row": (0, 2), "col": (0, 3)}
        rows = pa.Table.from_batches(reader.rows(name, ["row", "col", "flux"])).to_pylist()
        assert len(rows) == 11
        assert {"row": 2, "col": 3, "flux": 11.0} in rows
    with_count = format_of("d.h5").rows(str(tmp_path / "d.h5"), ["count"])
    assert pa.Table.from_batches(with_count).column("count").null_count == 11


def test_fits_of_several_kinds(tmp_path: Path) -> None:
    from astropy.io import fits

    columns = [
        fits.Column("ID", "K", array=np.arange(5)),
        fits.Column("FLUX", "2E", array=np.arange(10, dtype=np.float32).reshape(5, 2)),
        fits.Column("NAME", "8A", array=np.array(["a", "b c", "", "d", "e"])),
        fits.Column("OK", "L", array=np.array([True, False, True, True, False])),
        fits.Column("BIG", "I", bzero=32768, array=np.array([0, 1, 40_000, 3, 65_535], np.uint16)),
    ]
    path = str(tmp_path / "night.fits")
    fits.BinTableHDU.from_columns(columns).writeto(path)
    reader = format_of(path)
    schema = reader.columns(path)
    assert schema.names == ["ID", "FLUX_0", "FLUX_1", "NAME", "OK", "BIG"]
    rows = pa.Table.from_batches(reader.rows(path, schema.names))
    assert rows.column("FLUX_1").to_pylist() == [1, 3, 5, 7, 9]
    assert rows.column("NAME").to_pylist() == ["a", "b c", "", "d", "e"]
    assert rows.column("OK").to_pylist() == [True, False, True, True, False]
    assert rows.column("BIG").to_pylist() == [0, 1, 40_000, 3, 65_535]
    assert rows.schema.equals(schema)


@pytest.mark.parametrize("packed", [False, True])
def test_fits_as_stored_equals_what_astropy_gives(tmp_path: Path, packed: bool) -> None:
    """Rows are read as bytes where the numbers of a table are those that are stored, else by astropy."""
    from astropy.io import fits as library

    random = np.random.default_rng(3)
    kinds = {"B": np.uint8, "I": np.int16, "J": np.int32, "K": np.int64, "E": np.float32, "D": np.float64}
    columns = [
        library.Column(kind, f"{width}{kind}", array=(random.normal(0, 99, (50, width)) ** 2).astype(type_))
        for width, (kind, type_) in enumerate(kinds.items(), 1)
    ]
    columns.append(library.Column("N", "J", null=7, array=np.arange(50, dtype=np.int32)))
    columns.append(library.Column("T", "4A", array=np.array(["ab"] * 50)))
    columns.append(library.Column("S", "I", bzero=32768, array=np.arange(40_000, 40_050, dtype=np.uint16)))
    path = str(tmp_path / ("t.fits.gz" if packed else "t.fits"))
    library.HDUList([library.PrimaryHDU(), library.BinTableHDU.from_columns(columns)]).writeto(path)
    reader = format_of(path)
    names = reader.columns(path).names
    plain = [name for name in names if name not in ("T", "S")]
    stored = pa.Table.from_batches(reader.rows(path, plain))
    by_astropy = pa.Table.from_batches(reader.rows(path, names))
    assert by_astropy.select(plain).equals(stored)
    with library.open(path) as file:
        for name in plain:
            field, _, k = name.partition("_")
            values = np.asarray(file[1].data[field]).reshape(50, -1)[:, int(k or 0)]
            known = [
                None if name == "N" and v == 7 else v for v in values.tolist()
            ]  # TNULL, as in its Tables
            assert stored.column(name).to_pylist() == known


@pytest.mark.parametrize("fields", [["b"], ["b", "x"]])
def test_batches_outlive_those_that_follow(tmp_path: Path, fields: list[str]) -> None:
    """Records of all batches lie in the same room, columns do not."""
    import h5py
    from astropy.io import fits as library

    rows = BATCH + 9
    values = {"b": (np.arange(rows) % 251).astype(np.uint8), "x": np.arange(rows, dtype=np.int64)}
    records = np.empty(rows, [(name, values[name].dtype) for name in fields])
    for name in fields:
        records[name] = values[name]
    library.HDUList([library.PrimaryHDU(), library.BinTableHDU(records)]).writeto(tmp_path / "r.fits")
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file.create_dataset("rows", data=records)
    for path in (str(tmp_path / "r.fits"), str(tmp_path / "r.h5")):
        found = pa.Table.from_batches(list(format_of(path).rows(path, fields)))
        for name in fields:
            assert (found.column(name).to_numpy() == values[name]).all()


def test_a_fits_file_that_was_cut_off_is_damaged(tmp_path: Path) -> None:
    path = WRITERS["fits"](tmp_path / "cut", RawReaderSuite.rows(5000))
    path.write_bytes(path.read_bytes()[:20_000])
    with (
        pytest.raises(EverfreshError, match=r"cut\.fits") as caught,
        pytest.warns(UserWarning, match="trunc"),
    ):
        list(format_of(str(path)).rows(str(path), ["x"]))
    assert caught.value.code == Code.DAMAGED


def test_whole_chunks_of_hdf5_are_unpacked_once(tmp_path: Path) -> None:
    import h5py

    rows = np.arange(3 * BATCH)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        for name, size in (("few", 1465), ("many", BATCH + 1), ("all", 5 * BATCH)):
            made = file.create_dataset(name, data=rows, chunks=(min(size, len(rows)),), compression="gzip")
            assert whole_chunks(made) % made.chunks[0] == 0
            assert 0 < whole_chunks(made) <= 4 * BATCH
        assert whole_chunks(file.create_dataset("plain", data=rows)) == BATCH
        huge = file.create_dataset("huge", (5 * BATCH,), "i8", chunks=(5 * BATCH,))
        assert whole_chunks(huge) == BATCH, "batches are bounded, whatever a file does"


def test_patterns_folders_and_stamps(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "note.txt", "in/c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    names = [Path(one.path).name for one in found(str(tmp_path), (".csv",))]
    assert names == ["a.csv", "b.csv"]
    assert len(found(f"{tmp_path}/**/*.csv", (".csv",))) == 3
    before = stamped(str(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_text("x\n22\n")
    assert stamped(str(tmp_path / "a.csv")) != before


def test_files_of_an_object_store(tmp_path: Path) -> None:
    for name, writer in WRITERS.items():
        writer(tmp_path / f"store-{name}", ROWS)
    root = f"obstore+file://{tmp_path}"
    listed = found(f"{root}/store-*", ())
    assert len(listed) == len(WRITERS), "a Zarr is one file"
    for one in listed:
        rows = pa.Table.from_batches(format_of(one.path).rows(one.path, ["x"]))
        assert rows.column("x").to_pylist() == ROWS.column("x").to_pylist()
        assert stamped(one.path) == one
    for name in ("nothing.csv", "nothing.zarr"):
        with pytest.raises(EverfreshError, match=name):
            stamped(f"{root}/{name}")
    with places.opened(listed[0].path) as stream:
        assert isinstance(stream, io.BufferedReader)
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE EXTERNAL ARRAY a <small: INT> [x=-50,49,10] FROM '{root}/store-*.parquet'")
        assert db.sql("SELECT COUNT(*) AS n FROM a WHERE x < 0").to_pylist() == [{"n": 50}]


def test_a_format_nobody_knows() -> None:
    with pytest.raises(EverfreshError, match="ending"):
        format_of("a.dat")
    with pytest.raises(EverfreshError, match="formats are"):
        format_of("a.dat", "xls")
