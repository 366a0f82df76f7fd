"""The coordinator of the cache (section 3 of `004`): what a query reads from files, what stays, and where.

A query says which boxes of which arrays it needs. Pieces that meet them are in memory, or their file is read,
once; pieces are cut along the query; the pieces that hold cells of it are joined by a plan of
`everfresh.arrays.plan`, from which it follows which copies there are; then the policy says what stays, and
the placement where. The coordinator has boxes, sizes and the history of queries; the cells are the workers'.

Invariants: an answer does not depend on what is in memory; after an exception everything is as it was before
the query. One query at a time.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everfresh.arrays.cells import Array
from everfresh.progress import Progress
from everfresh.raw.cache.asking import Ask, CacheOptions, Report
from everfresh.raw.cache.eviction import POLICIES
from everfresh.raw.cache.joining import Join
from everfresh.raw.cache.memory import Held, Memory
from everfresh.raw.catalog import Catalog, Piece
from everfresh.raw.cells import CellReader
from everfresh.raw.here import HereRun
from everfresh.raw.running import Run, State


class Coordinator:
    """The catalogs of all external arrays of a database, their cache, and the history of queries."""

    def __init__(self, options: CacheOptions | None = None) -> None:
        self.options = options or CacheOptions()
        self.lock = threading.RLock()
        self.state = State({}, {}, self._empty())
        self.numbers = itertools.count(1)
        self.told: Callable[[Sequence[str]], None] = lambda names: None
        """Called when the boxes of these arrays have become finer."""

    def _empty(self) -> Held[Any]:
        return Memory([self.options.budget] * self.options.workers)

    @property
    def readers(self) -> Mapping[str, CellReader]:
        """What reads the files of each array."""
        return self.state.readers

    @property
    def catalogs(self) -> Mapping[str, Catalog]:
        """The files and pieces of each array."""
        return self.state.catalogs

    @property
    def memory(self) -> Held[Any]:
        """What is cached."""
        return self.state.memory

    @property
    def last(self) -> Report | None:
        """What the last query did."""
        return self.state.reports[-1] if self.state.reports else None

    # -- what there is -------------------------------------------------------------------------------

    def configure(self, options: CacheOptions) -> None:
        """Other budgets or policies: the cache begins empty. Where files have one piece each the catalogs
        are made coarse."""
        with self.lock:
            catalogs = self.catalogs
            if options.workers != self.options.workers:
                catalogs = {name: one.owned(options.workers) for name, one in catalogs.items()}
            if not POLICIES[options.policy].cuts:
                catalogs = {name: self._coarse(one) for name, one in catalogs.items()}
            self.options = options
            self.state = replace(self.state, catalogs=catalogs)
            self.clear()

    def clear(self) -> None:
        """Let everything in memory go, and forget the history."""
        with self.lock:
            self.state = replace(self.state, memory=self._empty(), uses=(), joined=())

    def _coarse(self, catalog: Catalog) -> Catalog:
        pieces: dict[str, Piece] = {}
        for one in catalog.pieces.values():
            other = pieces.get(one.file)
            if other is None:
                pieces[one.file] = replace(one, number=next(self.numbers))
            else:
                pieces[one.file] = replace(other, box=other.box.hull(one.box), cells=other.cells + one.cells)
        return Catalog(catalog.files, {one.number: one for one in pieces.values()})

    def put(self, name: str, reader: CellReader, catalog: Catalog) -> None:
        """An array is there, or is another one now: pieces that are gone leave the cache."""
        with self.lock:
            most = max(catalog.pieces, default=0)
            self.numbers = itertools.count(max(next(self.numbers), most + 1))
            readers, catalogs = {**self.readers, name: reader}, {**self.catalogs, name: catalog}
            self.state = replace(self.state, readers=readers, catalogs=catalogs).known()

    def drop(self, name: str) -> None:
        """An array is gone."""
        with self.lock:
            readers = {n: one for n, one in self.readers.items() if n != name}
            catalogs = {n: one for n, one in self.catalogs.items() if n != name}
            self.state = replace(self.state, readers=readers, catalogs=catalogs).known()

    # -- queries -------------------------------------------------------------------------------------

    def answer(
        self, asks: Sequence[Ask], joins: Sequence[Join] = (), progress: Progress | None = None
    ) -> dict[str, Array]:
        """The cells of each array that a query needs, as arrays that hold no others."""
        with self.lock:
            begin = time.perf_counter()
            run = HereRun(self, asks)
            run.look()
            run.read(progress)
            run.join(joins)
            run.keep()
            found = run.arrays()
            self.ended(run, begin)
            return found

    def ended(self, run: Run, begin: float) -> None:
        """A query is over: what it leaves is the state from now on."""
        run.report.seconds = time.perf_counter() - begin
        reports = (*self.state.reports[-999:], run.report)
        self.state = State(self.readers, run.catalogs, run.memory, run.uses, run.joined, reports)
        if run.gone:
            self.told(list(run.gone))
