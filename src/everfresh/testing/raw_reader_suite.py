"""What a reader of raw files must satisfy: `everfresh.raw.files.protocol.Reader`.

A subclass says how a file with given rows is written, and which reader it is for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.raw.files.protocol import BATCH, Reader

ROWS = 3 * BATCH // 2


class RawReaderSuite(ABC):
    """Tests of one format."""

    reader: Reader

    @abstractmethod
    def write(self, path: Path, rows: pa.Table) -> Path:
        """A file with these rows, which are numbers without NULLs, called after `path`."""

    def spoil(self, path: Path) -> None:
        """Make a file one that is damaged."""
        path.write_bytes(path.read_bytes()[:40] + b"\0" * 40)

    @staticmethod
    def rows(count: int) -> pa.Table:
        """Rows of several types."""
        return pa.table(
            {
                "x": pa.array(np.arange(-50, count - 50, dtype=np.int64)),
                "y": pa.array(np.linspace(-1.5, 2.5, count)),
                "small": pa.array((np.arange(count) % 100).astype(np.int16)),
            }
        )

    def read(self, path: Path, wanted: list[str]) -> pa.Table:
        """All rows of a file."""
        return pa.Table.from_batches(self.reader.rows(str(path), wanted))

    def test_rows_come_as_they_were_written(self, tmp_path: Path) -> None:
        """In the order of the file, with the columns that are asked for, in their order."""
        rows = self.rows(100)
        path = self.write(tmp_path / "some", rows)
        assert str(path).endswith(self.reader.endings)
        assert sorted(self.reader.columns(str(path)).names) == sorted(rows.column_names)
        for wanted in (["x", "y", "small"], ["y"], ["small", "x"]):
            found = self.read(path, wanted)
            assert found.column_names == wanted
            for column in wanted:
                assert found.column(column).to_pylist() == pytest.approx(rows.column(column).to_pylist())

    def test_a_file_is_read_again_the_same(self, tmp_path: Path) -> None:
        """Twice, and twice at once."""
        path = self.write(tmp_path / "some", self.rows(100))
        one, other = (iter(self.reader.rows(str(path), ["x"])) for _ in range(2))
        assert pa.Table.from_batches(one).equals(pa.Table.from_batches(other))

    def test_a_header_holds_for_every_row(self, tmp_path: Path) -> None:
        """Ranges may be wider than the rows, and never narrower."""
        rows = self.rows(100)
        path = self.write(tmp_path / "some", rows)
        for column, (least, greatest) in self.reader.ranges(str(path)).items():
            values = rows.column(column).to_pylist()
            assert least <= min(values)
            assert max(values) <= greatest

    def test_batches_are_bounded(self, tmp_path: Path) -> None:
        """However many rows a file has."""
        path = self.write(tmp_path / "many", self.rows(ROWS))
        sizes = [batch.num_rows for batch in self.reader.rows(str(path), ["x"])]
        assert sum(sizes) == ROWS
        assert max(sizes) <= 4 * BATCH

    def test_a_file_without_rows(self, tmp_path: Path) -> None:
        """It has columns all the same."""
        path = self.write(tmp_path / "none", self.rows(0))
        assert "x" in self.reader.columns(str(path)).names
        assert sum(batch.num_rows for batch in self.reader.rows(str(path), ["x"])) == 0

    def test_a_damaged_file_is_refused_by_name(self, tmp_path: Path) -> None:
        """With the code `damaged`."""
        path = self.write(tmp_path / "some", self.rows(100))
        self.spoil(path)
        with pytest.raises(EverfreshError) as caught:
            self.read(path, list(self.reader.columns(str(path)).names))
        assert caught.value.code == Code.DAMAGED
        assert str(path) in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """Is an error, not another exception."""
        with pytest.raises(EverfreshError):
            self.read(tmp_path / f"none{self.reader.endings[0]}", ["x"])
