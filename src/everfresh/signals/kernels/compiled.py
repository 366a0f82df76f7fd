"""How the loops of signals are compiled: without reassociation or contraction, so that bits are the same
for every cut of a batch, and without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

Kernel = Callable[..., Any]


def compiled(function: Kernel) -> Kernel:
    """The function as a kernel that is kept on disk."""
    made: Kernel = numba.njit(cache=True, nogil=True, fastmath=False, error_model="numpy")(function)
    return made


def compiled_here(function: Kernel) -> Kernel:
    """A kernel around functions that a user gave: compiled in this process, kept for as long as it lives."""
    made: Kernel = numba.njit(nogil=True, fastmath=False, error_model="numpy")(function)
    return made
