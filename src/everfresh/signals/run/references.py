"""Reference tables: one row for each group, of no time. A change of a row computes its group anew.

A reference is a reading whose rows hold for ever: its watermark is the end of data, and no row is late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.signals import faults
from everfresh.signals.nodes import Reading
from everfresh.signals.run.flow import END, Array, Flow, Operator, Step
from everfresh.signals.run.keys import Keys
from everfresh.signals.run.source import Events, Source
from everfresh.signals.run.state import Columns


class Rows(Source):
    """The rows of a reference table."""

    def __init__(self, reading: Reading, schema: pa.Schema, keys: Keys) -> None:
        super().__init__(reading, schema, keys)
        self.watermark = END

    def read(self, table: pa.Table) -> Events:
        """Rows hold from the beginning to the end."""
        return self._events(table, np.zeros(len(table), np.int64))[0]

    def _ends_of(self, start: Array) -> Array:
        return np.full(len(start), END, np.int64)

    def pass_by(self, table: pa.Table, changed: Array) -> None:
        """Groups that are computed anew read their rows anew."""

    def rise(self, to: int | None) -> None:
        """No time passes."""

    def _overlap(self, slots: Array, offsets: Array, events: Events, row: int) -> Any:
        group = int(np.searchsorted(offsets, row, "right")) - 1
        return faults.twice(self.reading.table, self.keys.names(slots[group : group + 1])[0])


class JoinRows(Operator):
    """The values of the reference row beside those of each event; events of groups without one are left out,
    or have NaN."""

    def __init__(self, left: int, right: int, width: int, dtype: Any, outer: bool) -> None:
        super().__init__((left, right))
        self._outer = outer
        self._s = Columns(known=(np.bool_, (), False), row=(dtype, (width,), np.nan))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The events with their rows."""
        flow, rows = flows
        some = np.diff(rows.offsets) > 0
        if some.any():
            slots = step.slots[some]
            self._s["known"][slots] = True
            self._s["row"][slots] = rows.values[:, rows.offsets[1:][some] - 1].T
        group = np.repeat(step.slots, np.diff(flow.offsets))
        values = np.concatenate([flow.values, self._s["row"][group].T])
        made = Flow(flow.offsets, flow.at, values, flow.progress, flow.end)
        return made if self._outer else made.kept(self._s["known"][group])

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """References do not wait."""
        return progress if side == 0 else np.full(len(progress), -END, np.int64)
