"""What a user holds of an array of a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays.cells import Array
from everfresh.arrays.model import ArraySchema
from everfresh.relations import View
from everfresh.types import Column

if TYPE_CHECKING:
    from everfresh.arrays.domain import Arrays
    from everfresh.database import Database


class StoredArray(View):
    """An array of a database: it is read like a view, its cells as rows in row-major order."""

    kind = "array"

    def __init__(self, db: Database, domain: Arrays, name: str) -> None:
        super().__init__(db, name)
        self._domain = domain

    def _check(self, catalog: Any) -> None:
        self._domain.expect(self.name)

    @property
    def value(self) -> Array:
        """The array now, chunk by chunk: what `everfresh.arrays` computes with. It never changes. On Spark
        all its cells are collected."""
        self._db._current()
        return self._domain.array(self.name)

    @property
    def schema(self) -> ArraySchema:
        """Its dimensions and attributes."""
        self._db._current()
        return self._domain.schema(self.name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """A column for each dimension, then for each attribute."""
        return self.schema.columns

    def __len__(self) -> int:
        return self._size[0]

    @property
    def _size(self) -> tuple[int, int]:
        self._db._current()
        return self._domain.size(self.name)

    def on_change(self, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        """Call `fn(changes)` after each batch that changes the array; returns a function that ends it."""
        self._check(None)
        return self._db._listen(self.name, fn)

    def drop(self) -> int:
        """Remove it."""
        return self._db._drop(self.name)

    def __repr__(self) -> str:
        cells, chunks = self._size
        return f"<array {self.name} {self.schema.box_text}: {cells} cells in {chunks} chunks>"
