"""What a user holds of a signal view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.relations import View
from everfresh.signals.domain.relational import PLACE, far_apart
from everfresh.signals.queries.base import query
from everfresh.types import Column

if TYPE_CHECKING:
    from everfresh.database import Database
    from everfresh.signals.domain.relational import Form
    from everfresh.signals.domain.signals import Signals


class SignalView(View):
    """A signal view: the rows of its query that are final by the rows and watermarks of its tables.

    Rows have the key columns, the time and the values; those of a windowed signal an array each. In SQL an
    array is a row for each value.
    """

    kind = "signal view"

    def __init__(self, db: Database, domain: Signals, name: str) -> None:
        super().__init__(db, name)
        self._domain = domain

    def _check(self, catalog: Any) -> None:
        self._domain.expect(self.name)

    @property
    def _form(self) -> Form:
        return self._domain.view(self.name).form

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that SQL reads."""
        self._db._current()
        return self._domain.columns(self.name)

    @property
    def query(self) -> Any:
        """The query of the view."""
        self._db._current()
        return query(self._domain.view(self.name).query, self._db)

    @property
    def watermarks(self) -> dict[str, int]:
        """The times, in ticks, that its tables have reached."""
        self._db._current()
        return self._domain.view(self.name).pipeline.watermarks

    @property
    def late(self) -> pa.Table | None:
        """The rows that came too late and are left out, by `late="drop"`; None if there are none."""
        self._db._current()
        return self._domain.late(self.name)

    def _read(self, at: int | None) -> pa.Table:
        return self._form.native(super()._read(at))

    def to_arrow(self, at: int | None = None, ordered: bool = False) -> pa.Table:
        """The rows, now or as of the epoch `at`, in the order in which they were made; or `ordered`, by key
        and time."""
        rows = self._read(at)
        if ordered:
            pipeline = self._domain.view(self.name).pipeline
            names = (*pipeline.key_names, pipeline.time_name)
            rows = rows.sort_by([(name, "ascending") for name in names])
        return rows

    def changes(self, since: int | None = None) -> pa.Table:
        """The rows that became final, or were corrected, in each epoch after `since`, with `_weight` and
        `_epoch`."""
        return self._form.native(super().changes(since))

    def verify(self, bits: bool = True) -> pa.Table:
        """The rows that differ from a run of the query over the whole tables, with `_weight`: in their bits,
        or with `bits=False` by more than a billionth."""
        found = super().verify()
        if bits or not len(found):
            return found
        pipeline = self._domain.view(self.name).pipeline
        known = (*pipeline.key_names, pipeline.time_name, "end", PLACE)
        return far_apart(found, [name for name in known if name in found.column_names])

    def spectrum(self) -> pa.Table:
        """The magnitudes of the view's spectra: a row for each key, time and frequency."""
        from everfresh.signals.pictures import spectrum

        view = self._domain.view(self.name)
        return spectrum(
            view.query, self.to_arrow(ordered=True), view.pipeline.key_names, view.pipeline.time_name
        )

    def plot(self, where: Mapping[str, Any] | None = None, axes: Any = None) -> Any:
        """Draw it with matplotlib: a line for each key, of the spectra of one key a spectrogram. `where` has
        the key whose rows are drawn."""
        from everfresh.signals.pictures import chosen, plot

        view, rows = self._domain.view(self.name), chosen(self.to_arrow(), where)
        return plot(view.query, rows, view.pipeline.key_names, view.pipeline.time_name, axes)

    def svg(self, where: Mapping[str, Any] | None = None) -> str:
        """The same picture as SVG text, without matplotlib."""
        from everfresh.signals.drawing import svg
        from everfresh.signals.pictures import chosen

        view, rows = self._domain.view(self.name), chosen(self.to_arrow(), where)
        return svg(view.query, rows, view.pipeline.key_names, view.pipeline.time_name)

    def drop(self) -> int:
        """Remove the view."""
        return self._db._drop(self.name)
