"""What planning knows of an operator that it has made: where it is, and what its rows carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.signals.payload import Array, Payload

Evaluate = Callable[[Array, Array], Array]
"""A function of times and of the arguments that events carry, by component."""


@dataclass(frozen=True)
class Made:
    """An operator by its place, and what its rows carry."""

    at: int
    payload: Payload
    function: Evaluate | None = None
    """The function of which the rows carry the arguments; `payload` is of its values."""
    width: int = 0
    """How many components the rows have."""
    dtype: Any = np.float64
    points: bool = False
    """Whether all events are points."""
