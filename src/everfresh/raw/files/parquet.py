"""Parquet, by pyarrow: the statistics of its row groups are a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.raw.files.places import opened
from everfresh.raw.files.protocol import BATCH, Ranges, corrupt


class Parquet:
    """Columns of Parquet."""

    name = "parquet"
    endings: tuple[str, ...] = (".parquet", ".pq")

    def columns(self, path: str) -> pa.Schema:
        """As the footer has them."""
        with _file(path) as found:
            schema: pa.Schema = found.schema_arrow
            return schema.remove_metadata()

    def ranges(self, path: str) -> Ranges:
        """Of the columns for which every row group has statistics."""
        with _file(path) as found:
            ranges: dict[str, tuple[Any, Any]] = {}
            for k, name in enumerate(found.schema_arrow.names):
                if found.metadata.num_columns != len(found.schema_arrow.names):
                    break  # nested columns: leaves are numbered otherwise
                groups = [found.metadata.row_group(g).column(k) for g in range(found.num_row_groups)]
                told = [g.statistics for g in groups if g.is_stats_set and g.statistics.has_min_max]
                if groups and len(told) == len(groups):
                    ranges[name] = (min(s.min for s in told), max(s.max for s in told))
            return ranges

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Row group by row group."""
        done = 0
        with _file(path) as found:
            batches = found.iter_batches(BATCH, columns=list(columns))
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError) as error:
                    raise corrupt(path, error, done) from error
                if batch is None:
                    return
                done += batch.num_rows
                yield batch.select(list(columns))


@contextmanager
def _file(path: str) -> Iterator[Any]:
    with opened(path) as handle:
        try:
            found = pq.ParquetFile(handle)
        except (pa.ArrowException, OSError) as error:
            raise corrupt(path, error) from error
        with found:
            yield found
