"""Files that are not quite what their names, headers or columns say; patterns and folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_files import csv, parquet

import everfresh as ef
from everfresh.errors import Code, EverfreshError
from everfresh.raw.cells import CellReader
from everfresh.raw.definition import parse

ROWS = pa.table({"RA": [1.2, 8.7], "DEC": [1.0, 8.0], "MAG": [10.0, 11.0]})


def create(db: ef.Database, files: str | Path, rest: str = "(ra = RA, dec = DEC, mag = MAG)") -> int:
    ddl = f"CREATE EXTERNAL ARRAY sky <mag: DOUBLE> [ra=0,9,2; dec=0,9,2] FROM '{files}' {rest}"
    return db.sql(ddl)  # type: ignore[return-value]


def cells(db: ef.Database, where: str = "") -> list[tuple[Any, ...]]:
    return db.sql(f"SELECT * FROM sky {where} ORDER BY ALL").fetchall()  # type: ignore[union-attr]


def _fits(path: Path, **header: Any) -> None:
    from astropy.io import fits
    from astropy.table import Table

    made = fits.BinTableHDU(Table({name: ROWS.column(name).to_numpy() for name in ROWS.column_names}))
    for name, value in header.items():
        made.header[name] = value
    made.writeto(path)


def test_a_header_that_leaves_cells_out_is_told(tmp_path: Path) -> None:
    _fits(tmp_path / "a.fits", TDMIN1=0.0, TDMAX1=2.0, TDMIN2=0.0, TDMAX2=2.0)
    with ef.connect(engine="local") as db:
        create(db, tmp_path)
        with pytest.raises(EverfreshError, match="outside of the ranges in its header") as caught:
            cells(db)
        assert caught.value.code == Code.DAMAGED
        db.sql("DROP ARRAY sky")
        create(db, tmp_path, "(ra = RA, dec = DEC, mag = MAG) WITH (damaged = 'skip')")
        assert cells(db) == []
        assert len(db.cache.last.skipped) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("ends", [("abc", 9.0), (5.0, 1.0)])
def test_a_header_without_ranges_is_none(tmp_path: Path, ends: tuple[Any, Any]) -> None:
    _fits(tmp_path / "a.fits", TDMIN1=ends[0], TDMAX1=ends[1], TDMIN2=0.0, TDMAX2=9.0)
    with ef.connect(engine="local") as db:
        create(db, tmp_path)
        assert cells(db) == [(1, 1, 10.0), (8, 8, 11.0)]


def test_numbers_that_stand_for_none_are_null(tmp_path: Path) -> None:
    from astropy.table import MaskedColumn, Table

    gone = [False, True, False]
    masked = {
        "RA": MaskedColumn([1, 2, 3], mask=[False, False, True]),
        "MAG": MaskedColumn(np.array([1, 2, 3], np.int16), mask=gone),
        "U": MaskedColumn(np.array([1, 2, 3], np.uint16), mask=gone),
        "V": MaskedColumn([[1, 2], [3, 4], [5, 6]], mask=[[False, True], [False, False], [False, False]]),
    }
    Table(masked).write(tmp_path / "a.fits")
    with ef.connect(engine="local") as db:
        db.sql(f"""CREATE EXTERNAL ARRAY sky <mag: INT, u: INT, v_0: INT, v_1: INT> [ra=0,9,2]
                   FROM '{tmp_path}' WITH (outside = 'skip')""")
        assert cells(db) == [(1, 1, 1, 1, None), (2, None, None, 3, 4)]


def test_a_file_without_rows_has_no_cells(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("RA,DEC,MAG\n")
    with ef.connect(engine="local") as db:
        create(db, tmp_path)
        assert cells(db) == []
        csv(tmp_path / "b", ROWS)
        db.sql("REFRESH sky")
        assert len(cells(db)) == 2


def test_an_array_of_no_files_is_empty_after_a_refresh(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    csv(folder / "a", ROWS)
    with ef.connect(engine="local") as db:
        create(db, folder / "*.csv")
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM sky")
        (folder / "a.csv").unlink()
        db.sql("REFRESH sky")
        assert cells(db) == []
        assert db.view("n").to_pylist() == [{"n": 0}]
        folder.rmdir()  # a folder that is not there is no empty one: a disk may not be mounted
        with pytest.raises(EverfreshError, match="there is no file"):
            db.sql("REFRESH sky")


def test_formats_by_name_and_columns_named_twice(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("RA,RA,DEC,MAG\n1,1,1,1\n")
    with ef.connect(engine="local") as db:
        with pytest.raises(EverfreshError, match="several columns 'RA'"):
            create(db, tmp_path / "*.dat", "(ra = RA, dec = DEC) WITH (format = 'csv')")
        create(db, tmp_path / "*.dat", "(ra = DEC, dec = DEC) WITH (format = 'csv')")
        assert cells(db) == [(1, 1, 1.0)]


def test_only_columns_that_cells_are_made_of_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("A,RA,B,MAG,C,DEC\n1,1,1,1,2,1\n")
    reader = CellReader(
        parse(
            "CREATE EXTERNAL ARRAY s <mag: DOUBLE, one: INT> [ra=0,9,2; dec=0,9,2] "
            f"FROM '{tmp_path}' (dec = FLOOR(DEC / 2), one = 1)"
        )
    )
    asked: list[list[str]] = []
    file = reader.format(str(tmp_path / "a.csv"))

    class Watched:
        name, endings = file.name, file.endings
        columns, ranges = file.columns, file.ranges

        def rows(self, path: str, columns: Any) -> Any:
            asked.append(list(columns))
            return file.rows(path, columns)

    reader.format = lambda path: Watched()  # type: ignore[method-assign,assignment]
    ((_, found),) = reader.cells(str(tmp_path / "a.csv"))
    assert asked == [["RA", "MAG", "DEC"]]
    assert found.to_pylist() == [{"ra": 1, "dec": 0, "mag": 1.0, "one": 1}]


def test_folders_named_like_files(tmp_path: Path) -> None:
    """A folder of Parquet files may be called `sky.parquet`; among files a folder is none."""
    (tmp_path / "sky.parquet").mkdir()
    for name in ("part-0", "part-1"):
        parquet(tmp_path / "sky.parquet" / name, ROWS)
    pq.write_table(ROWS.slice(1), tmp_path / "other.parquet")
    with ef.connect(engine="local") as db:
        create(db, tmp_path / "sky.parquet")
        assert len(cells(db)) == 4
        db.sql("DROP ARRAY sky")
        create(db, tmp_path / "*.parquet")
        assert cells(db) == [(8, 8, 11.0)]


def test_a_pattern_means_the_same_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files").mkdir()
    csv(tmp_path / "files" / "a", ROWS)
    monkeypatch.chdir(tmp_path)
    with ef.connect(str(tmp_path / "db"), engine="local") as db:
        create(db, "files/*.csv")
    monkeypatch.chdir(os.sep)
    csv(tmp_path / "files" / "b", ROWS)
    with ef.connect(str(tmp_path / "db"), engine="local") as db:
        db.sql("REFRESH sky")
        assert len(cells(db)) == 4


@pytest.mark.parametrize("ra", ["SUM(RA)", "ROW_NUMBER() OVER ()", "RA + (SELECT 1)"])
def test_a_cell_is_made_of_one_row(tmp_path: Path, ra: str) -> None:
    csv(tmp_path / "a", ROWS)
    with ef.connect(engine="local") as db, pytest.raises(EverfreshError, match="more than one row"):
        db.sql(f"CREATE EXTERNAL ARRAY s <> [ra=0,99,9] FROM '{tmp_path}' (ra = {ra})")


def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    csv(tmp_path / "a", ROWS)
    with ef.connect(engine="local") as db:
        create(db, tmp_path)
        with pytest.raises(EverfreshError, match="cannot be written"):
            db.cache.plot("sky", path=str(tmp_path / "none" / "x.svg"))
