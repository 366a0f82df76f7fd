"""What a user holds of a view of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everfresh.arrays.handle import StoredArray

if TYPE_CHECKING:
    from everfresh.arrays.views.domain import ArraysAndViews


class ArrayView(StoredArray):
    """A view of arrays: always equal to its query over what it reads."""

    kind = "array view"
    _domain: ArraysAndViews

    @property
    def definition(self) -> str:
        """The statement that made it."""
        self._db._current()
        return str(self._domain.views[self.name].statement)

    @property
    def reads(self) -> tuple[str, ...]:
        """The arrays and views that it reads."""
        return self._domain.views[self.name].reads

    def svg(self, attribute: str | None = None) -> str:
        """The cells, shaded by an attribute (the first with numbers), and their chunks, as SVG; on Spark with
        the worker of each chunk, and the load of each worker."""
        from everfresh.arrays.views.picture import svg_of

        return svg_of(self.value, attribute, self._domain.homes(self.name))

    def plot(self, attribute: str | None = None, axes: Any = None) -> Any:
        """The same drawn by matplotlib, on `axes` if given; returns the axes."""
        from everfresh.arrays.views.picture import plot

        return plot(self.value, attribute, axes, self._domain.homes(self.name))

    def __repr__(self) -> str:
        value = self.value
        return (
            f"<array view {self.name} {value.schema.box_text}: {len(value)} cells "
            f"in {len(value.chunks)} chunks>"
        )
