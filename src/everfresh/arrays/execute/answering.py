"""A query run by logical workers in this process, stage by stage as workers of a cluster do it.

Each worker folds what it joins, groups and result chunks have owners, and what moves is counted. Invariant:
the rows are those of `everfresh.arrays.evaluate` over whole arrays, for any number of workers and any plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import coordinates
from everfresh.arrays.execute.catalog import DEFAULT_PLACEMENT, Catalog
from everfresh.arrays.execute.joining import landed_of, prepared
from everfresh.arrays.execute.local import Measured, Positions, run_local
from everfresh.arrays.execute.route import by_keys, parts
from everfresh.arrays.execute.split import GROUPS, Folding
from everfresh.arrays.execute.work import Work
from everfresh.arrays.execute.worker import Batch
from everfresh.arrays.plan import Plan, PlanOptions


@dataclass(frozen=True, eq=False)
class LocalQuery:
    """A statement for workers over arrays in memory, and its plan."""

    work: Work
    arrays: tuple[Array, ...]
    catalogs: tuple[Catalog, ...]
    workers: int
    plan: Plan | None

    @staticmethod
    def of(
        work: Work,
        arrays: Mapping[str, Array],
        workers: int,
        rules: Mapping[str, str] | None = None,
        options: PlanOptions | None = None,
    ) -> LocalQuery:
        """A statement over these arrays, dealt to so many workers by the rules of their names."""
        held = tuple(arrays[source.name] for source in work.sources)
        rules = rules or {}
        catalogs = tuple(
            Catalog.of(a.schema, a.chunks, workers, rules.get(s.name, DEFAULT_PLACEMENT))
            for s, a in zip(work.sources, held, strict=True)
        )
        plan = None
        if work.spec is not None:
            landed = None
            if not work.spec.mapping.keeps_order:
                seen = {n: work.sources[0].chunk(chunk) for n, chunk in held[0].chunks.items()}
                landed = landed_of(work.spec, {n: chunk for n, chunk in seen.items() if len(chunk)})
            right = catalogs[1] if len(catalogs) > 1 else None
            plan = prepared(work.spec, catalogs[0], right, workers, options, landed)
        return LocalQuery(work, held, catalogs, workers, plan)

    def run(self) -> tuple[pa.Table, Measured | None]:
        """The rows, and what was measured."""
        work = self.work
        folding = [Folding(work.cut) for _ in range(self.workers)]
        measured: Measured | None = None
        if self.plan is not None:
            right = self.catalogs[1] if len(self.catalogs) > 1 else None
            other = self.arrays[1].chunks if right is not None else None

            def join(worker: int, batch: Batch) -> None:
                for block in work.joined(batch):
                    folding[worker].add(block)

            places = Positions(self.catalogs[0], right)
            measured = run_local(self.plan, places, self.arrays[0].chunks, other, join)
        elif work.equi is not None:
            for worker, block in enumerate(self._by_equality()):
                if block is not None:
                    folding[worker].add(block)
        else:
            (catalog,), (array,) = self.catalogs, self.arrays
            for number, home in zip(catalog.number.tolist(), catalog.home.tolist(), strict=True):
                for block in work.scanned([array.chunks[number]]):
                    folding[home].add(block)
        return self._ended([one.done() for one in folding], measured), measured

    def _by_equality(self) -> list[pa.Table | None]:
        """The pairs that each worker finds of a JOIN, whose rows were given to the owners of their keys."""
        equi = self.work.equi
        assert equi is not None
        both: list[list[list[pa.Table]]] = []
        for side, array in enumerate(self.arrays):
            shares: list[list[pa.Table]] = [[] for _ in range(self.workers)]
            for rows in self.work.scanned(array.chunks.values(), side):
                for to, some in equi.shares(side, rows, self.workers):
                    shares[to].append(some)
            both.append(shares)
        return [equi.joined(left, right) for left, right in zip(*both, strict=True)]

    def _ended(self, found: list[pa.Table], measured: Measured | None) -> pa.Table:
        work = self.work
        if work.cut.where != GROUPS:
            return work.cut.last(found)
        shares: list[list[pa.Table]] = [[] for _ in range(self.workers)]
        for worker, rows in enumerate(found):
            for to, some in parts(rows, by_keys(rows, work.cut.keys, self.workers)):
                shares[to].append(some)
                if measured is not None and to != worker:
                    measured.rows_moved[worker] += some.num_rows
        rows = pa.concat_tables([work.cut.last(share) for share in shares])
        return padded(work, self.arrays[0], rows) if work.padded is not None else rows


def padded(work: Work, array: Array, rows: pa.Table) -> pa.Table:
    """APPLY's rows, with those of the cells that have no partners."""
    source = work.sources[0]
    chunks = [source.chunk(chunk).coords for chunk in array.chunks.values()]
    return with_alone(work, chunks, rows)


def with_alone(work: Work, chunks: list[np.ndarray], rows: pa.Table) -> pa.Table:
    """Rows of groups of cells, and the values over nothing for cells of `chunks` that have none."""
    assert work.padded is not None
    ndim = work.sources[0].schema.ndim
    mine = np.unique(np.concatenate([np.empty((ndim, 0), np.int64), *chunks], axis=1), axis=1)
    both = np.concatenate([mine, coordinates(rows, ndim)], axis=1)
    cells, times = np.unique(both, axis=1, return_counts=True)
    alone = cells[:, times == 1]
    nothing = work.padded.last([work.padded.first(())])
    values = nothing.take(np.zeros(alone.shape[1], np.int64)).columns
    more = pa.Table.from_arrays([*(pa.array(row) for row in alone), *values], rows.column_names)
    return pa.concat_tables([rows, more.cast(rows.schema)])
