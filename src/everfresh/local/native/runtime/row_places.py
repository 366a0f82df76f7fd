"""Where the rows of a change lie, written for a generated function: a kernel, since NumPy takes a microsecond
to say it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]


@njit(cache=True)
def place_change(context: Ints, place: int, words: Ints, weights: Ints) -> None:
    """Write where a change lies, and how many rows it has, to a place of a context."""
    context[place] = words.ctypes.data
    context[place + 1] = weights.size
    context[place + 2] = weights.ctypes.data
