"""What a user holds of an external array, and of the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays.cells import Array
from everfresh.arrays.model import ArraySchema
from everfresh.errors import Code, EverfreshError
from everfresh.raw.boxes import Box
from everfresh.raw.cache.asking import Ask, CacheOptions, Report
from everfresh.relations import View
from everfresh.types import Column

if TYPE_CHECKING:
    from pathlib import Path

    from everfresh.database import Database
    from everfresh.raw.domain import External


class ExternalArray(View):
    """An array whose cells are in files: it is read like a view, in row-major order."""

    kind = "external array"

    def __init__(self, db: Database, domain: External, name: str) -> None:
        super().__init__(db, name)
        self._domain = domain

    def _check(self, catalog: Any) -> None:
        self._domain.expect(self.name)

    @property
    def schema(self) -> ArraySchema:
        """Its dimensions and attributes."""
        self._db._current()
        return self._domain.reader(self.name).schema

    @property
    def columns(self) -> tuple[Column, ...]:
        """A column for each dimension, then for each attribute."""
        return self.schema.columns

    @property
    def files(self) -> list[str]:
        """The files that it has, as of its creation or the last REFRESH."""
        self._check(None)
        return list(self._domain.cache.catalogs[self.name].files)

    def between(self, lo: Sequence[int], hi: Sequence[int]) -> Array:
        """The cells in a box."""
        schema = self.schema
        if len(lo) != schema.ndim or len(hi) != schema.ndim:
            raise EverfreshError(
                Code.ARGUMENT,
                f"a box in array '{self.name}' has {schema.ndim} first and last indices",
                hint="dimensions are: " + ", ".join(schema.dimension_names),
            )
        return self._domain.cache.answer([Ask(self.name, (Box.of(lo, hi),))])[self.name]

    def refresh(self) -> int:
        """See which files have come, changed or gone; returns the epoch."""
        from everfresh.raw.verbs import refresh

        return refresh(self._db, self.name)

    def on_change(self, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        """Call `fn(changes)` after each refresh that has changed cells; returns a function that ends it. From
        the first time on the cells of the array are kept, so that it is known what goes with a file."""
        from everfresh.raw.following import publishing

        with self._db._lock:
            self._check(None)
            publishing(self._db, self._domain, self.name)
        return super().on_change(fn)

    def follow(self, name: str) -> int:  # type: ignore[override]
        """Make an array with the same cells, which follows this one from now on: what array views and others
        read. Returns the epoch."""
        from everfresh.raw.following import follow

        self._check(None)
        self._db._writable()
        return follow(self._db, self._domain, self.name, name)

    def watch(self, seconds: float = 5.0) -> Callable[[], None]:
        """Refresh every so many seconds, until the returned function is called or the database is closed."""
        if seconds <= 0:
            raise EverfreshError(
                Code.ARGUMENT, f"files cannot be looked at every {seconds} seconds", hint="watch(seconds=5)"
            )
        self._check(None)
        self._domain.watch(self.name, self.refresh, seconds)
        return lambda: self._domain.watch(self.name, None, 0)

    def drop(self) -> int:
        """Forget the array; its files stay."""
        return self._db._drop(self.name)

    def __repr__(self) -> str:
        catalog = self._domain.cache.catalogs[self.name]
        return f"<external array {self.name} {self.schema.box_text}: {len(catalog.files)} files>"


class Cache:
    """The cache of external arrays: what is in it, and what the last queries did."""

    def __init__(self, domain: External) -> None:
        self._domain = domain

    @property
    def options(self) -> CacheOptions:
        """How much is cached, and how."""
        return self._domain.cache.options

    def configure(self, **options: Any) -> None:
        """Change `workers`, the bytes of each as `budget`, `policy` ("cost", "chunk_lru", "file_lru"),
        `placement` ("dynamic", "static") or `min_cells`. The cache begins empty."""
        try:
            made = replace(self.options, **options)
        except TypeError as error:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the cache has no such option: {error}",
                hint="options are: workers, budget, policy, placement, min_cells",
            ) from None
        self._domain.cache.configure(made)

    def clear(self) -> None:
        """Let go of everything that is in memory."""
        self._domain.cache.clear()

    @property
    def last(self) -> Report | None:
        """What the last query did."""
        return self._domain.cache.last

    @property
    def reports(self) -> list[Report]:
        """What the last thousand queries did."""
        return list(self._domain.cache.state.reports)

    def explain(self, format: str = "text") -> str:
        """Boxes, what is cached where, and what the last query read, hit, moved and evicted: as "text" or
        "json"."""
        from everfresh.raw.cache.explain import explained

        return explained(self._domain.cache, format)

    def plot(
        self, array: str | None = None, dimensions: Sequence[str] = (), path: str | Path | None = None
    ) -> str:
        """A picture of the boxes of an array's files, those in memory filled with the colour of their worker:
        SVG, written to `path` if one is given."""
        from everfresh.raw.cache.explain import picture

        return picture(self._domain.cache, array, dimensions, path)

    def __repr__(self) -> str:
        cache = self._domain.cache
        used = sum(cache.memory.used())
        total = cache.options.budget * cache.options.workers
        return f"<cache of external arrays: {len(cache.memory)} pieces, {used} of {total} bytes>"
