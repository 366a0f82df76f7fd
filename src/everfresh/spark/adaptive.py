"""Whether a batch is followed change by change, or the views that it touches are filled anew.

Both cost time by the row: a batch by its rows, filling by the rows that the tables have after it. What a row
costs a view is learnt from filling it when it is made, and from batches. Filling anew pays where little is
left: a batch that deletes most of a table, or is larger than what it is applied to. Either way the view's
change is published as the difference of its rows.

Filling anew is one more step of the units that hold the view's maps: everything is taken out of the maps, and
the view's program runs with all rows of its tables as one change; what both did counts as one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everfresh.algebra import Kind
from everfresh.compiler import Catalog
from everfresh.delta import SparkRows
from everfresh.distributed.plan.programs import tables_of
from everfresh.distributed.worker.execute import Site
from everfresh.local.interpret.interpreter import PoolDelta
from everfresh.local.store.pool import Layout, Values
from everfresh.program import Batch

_log = logging.getLogger("everfresh.batches")

AUTO, INCREMENTAL, RECOMPUTE = "auto", "incremental", "recompute"

PER_ROW = 3e-6
"""Seconds for a row of one view until something is known (TPC-H on two workers: 1 to 5 microseconds)."""
PER_STORED = 1.5e-6
"""Seconds for a row of a batch to be stored in its table."""
PER_JOB = 0.1
"""Seconds of a job, whatever its rows are."""
ENOUGH = 10_000
"""Rows from which a time says something about a row."""
_WEIGHT, _APART = 0.3, 4.0
_COME = {"insert": 1, "upsert": 1, "delete": -1, "delete_key": -1}


# -- the choice ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RefreshEstimate:
    """What a batch would cost in either way, in seconds."""

    rows: int
    left: int
    """Rows of the views' tables after the batch, a table counted for each view that reads it."""
    incremental: float
    recompute: float

    @property
    def best(self) -> str:
        """The cheaper way."""
        return RECOMPUTE if self.recompute < self.incremental else INCREMENTAL


@dataclass
class Costs:
    """What a row costs, by view. The first time of a kind is not learnt from: programs are compiled in it."""

    fill: dict[str, float] = field(default_factory=dict)
    """Seconds for a row of the tables when the view is filled."""
    follow: dict[str, float] = field(default_factory=dict)
    """Seconds for a row of a batch, storing it in its table apart."""
    store: float = PER_STORED
    """Seconds for a row of a batch to be stored in its table."""
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def estimate(self, rows: int, left: Mapping[str, int]) -> RefreshEstimate:
        """A batch of `rows` rows that touches the views in `left`, which has the rows of their tables."""
        each = {view: self._of(view) for view in left}
        stored = PER_JOB + rows * self.store
        again = sum(PER_JOB + each[view][0] * count for view, count in left.items())
        follow = rows * sum(follow for _, follow in each.values())
        return RefreshEstimate(rows, sum(left.values()), stored + follow, stored + again)

    def _of(self, view: str) -> tuple[float, float]:
        """What a row costs when a view is filled, and when it follows; the same program does both, so they do
        not differ by much."""
        known = self.follow.get(view, self.fill.get(view, PER_ROW))
        fill, follow = self.fill.get(view, known), self.follow.get(view, known)
        return min(fill, _APART * follow), min(follow, _APART * fill)

    def filled(self, view: str, rows: int, seconds: float) -> None:
        """A view was filled from this many rows."""
        self._learn("fill", self.fill, (view,), rows, seconds - PER_JOB)

    def followed(self, views: Sequence[str], rows: int, seconds: float) -> None:
        """A batch was stored, and followed by these views."""
        self._learn("follow", self.follow, views, rows, seconds - PER_JOB - rows * self.store)

    def stored(self, rows: int, seconds: float) -> None:
        """A batch was stored, and nothing else."""
        known = {"": self.store}
        self._learn("store", known, ("",), rows, seconds - PER_JOB)
        self.store = known[""]

    def _learn(
        self, kind: str, known: dict[str, float], views: Sequence[str], rows: int, seconds: float
    ) -> None:
        if rows < ENOUGH or not views:
            return
        each = max(seconds, 0.0) / rows / len(views)
        for view in views:
            if (kind, view) in self._seen:
                known[view] = known[view] + _WEIGHT * (each - known[view]) if view in known else each
            self._seen.add((kind, view))

    def forget(self, view: str) -> None:
        """A view that is made anew."""
        self.fill.pop(view, None)
        self.follow.pop(view, None)
        self._seen -= {("fill", view), ("follow", view)}


def counted(batch: Batch) -> int | None:
    """How many rows a batch has, if that is known without a job."""
    if any(isinstance(part.rows, SparkRows) for part in batch.parts):
        return None
    return sum(int(part.rows.num_rows) for part in batch.parts)


def rows_left(
    batch: Batch, views: Sequence[str], catalog: Catalog, sizes: Mapping[str, int]
) -> dict[str, int]:
    """How many rows the tables of each view have after a batch; `sizes` are those before."""
    after = dict(sizes)
    for part in batch.parts:
        if not isinstance(part.rows, SparkRows):
            after[part.table] += _COME.get(part.op, 0) * int(part.rows.num_rows)
    bases = {view: tables_of(catalog, view) for view in views}
    return {view: sum(max(after.get(t, 0), 0) for t in some) for view, some in bases.items()}


def choose(way: str, costs: Costs, rows: int | None, left: Mapping[str, int]) -> str:
    """How the views in `left` are refreshed after a batch of `rows` rows (None: nobody has counted them)."""
    if not left:
        return INCREMENTAL
    known = costs.estimate(rows, left) if rows is not None else None
    chosen = way if way != AUTO else known.best if known is not None else INCREMENTAL
    level = logging.INFO if chosen == RECOMPUTE else logging.DEBUG
    if known is not None:
        _log.log(
            level,
            "%d rows, %d in the tables after them: incremental %.3f s, recomputing %.3f s; %s%s",
            known.rows,
            known.left,
            known.incremental,
            known.recompute,
            chosen,
            "" if way == AUTO else ", as the options say",
        )
    else:
        _log.log(level, "rows that are not counted: %s", chosen)
    return chosen


# -- filling anew, in tasks and on the driver ------------------------------------------------------


def contents(site: Site) -> dict[str, PoolDelta]:
    """What takes everything out of a place's maps."""
    found = {}
    for name, store in site.state.stores().items():
        slots = store.slots()
        if len(slots):
            found[name] = PoolDelta(store.words(slots), negated(store.pool.gather(slots), store.layout))
    return found


def negated(values: Values, layout: Layout) -> Values:
    """What brings entries to nothing.

    >>> import numpy as np
    >>> some = Values(np.array([2]), np.array([[0], [5], [7]]), np.array([[1.5], [0.0], [0.0]]))
    >>> negated(some, Layout((Kind.WIDE, Kind.FLOAT, Kind.COUNT))).ints.tolist()
    [[-1], [-5], [-7]]
    """
    ints = -values.ints
    for kind, row in zip(layout.kinds, layout.offsets, strict=True):
        if kind == Kind.WIDE:  # 128 bits in two words
            high, low = values.ints[row], values.ints[row + 1]
            ints[row] = ~high + (low == 0)
    return Values(-values.n, ints, -values.floats)
