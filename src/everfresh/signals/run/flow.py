"""What passes between operators in a step: a run of rows for each group of the step, in order of time.

All flows of a step are over the same groups. Times are ticks, or absolute indices where a signal is uniform;
`progress` is in the same unit: everything of a group before it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
END = 1 << 62
"""Later than any time: the end of data."""
NEVER = (1 << 62) + (1 << 61)
"""Progress that does not come."""


@dataclass(slots=True)
class Flow:
    """The rows that an operator gives in a step."""

    offsets: Array
    """Rows of group g are those from `offsets[g]` to `offsets[g + 1]`."""
    at: Array
    values: Array
    """By component, then by row; windows have a third dimension."""
    progress: Array
    end: Array | None = None
    """Ends of lifetimes, where events are no samples."""

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.at)

    def kept(self, mask: Array) -> Flow:
        """Some of the rows."""
        sums = np.zeros(len(mask) + 1, np.int64)
        np.cumsum(mask, out=sums[1:])
        end = None if self.end is None else self.end[mask]
        return Flow(sums[self.offsets], self.at[mask], self.values[:, mask], self.progress, end)


@dataclass(slots=True)
class Step:
    """The groups of a step."""

    slots: Array
    count: int
    """How many slots there are in all."""


class Kept(Protocol):
    """A piece of state, in rows by slot."""

    def grow(self, count: int) -> None:
        """Have rows for so many slots."""
        ...

    def save(self, slots: Array) -> Any:
        """What `restore` needs to take back changes of these slots."""
        ...

    def restore(self, slots: Array, saved: Any) -> None:
        """Take back what happened to these slots."""
        ...

    def encode(self) -> dict[str, Array]:
        """The state as arrays."""
        ...

    def decode(self, arrays: dict[str, Array]) -> None:
        """The inverse of `encode`."""
        ...

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        ...


class Operator:
    """A step of a pipeline: takes the flows of its inputs, gives one, and keeps state by slot.

    `due` and `when` say what happens without events: at what progress of an input an operator has
    something to do for a group, and what progress an input needs for a progress of the output.
    """

    def __init__(self, inputs: Sequence[int] = ()) -> None:
        self.inputs = tuple(inputs)
        self.due_sides: tuple[int, ...] = (0,)
        """Of which inputs `due` is the progress."""
        self.state: tuple[Kept, ...] = ()

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """Advance every group of the step."""
        raise NotImplementedError

    def due(self, slots: Array) -> Array | None:
        """The least progress of the input at which something happens without events; None: never."""
        return None

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """The least progress of an input that gives this progress of the output."""
        return progress
