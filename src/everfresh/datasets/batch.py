"""One table's part of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that come and full rows that go; either may be empty, and both have the table's schema."""

    inserts: pa.Table
    deletes: pa.Table

    @property
    def rows(self) -> int:
        """How many rows change."""
        return int(self.inserts.num_rows + self.deletes.num_rows)
