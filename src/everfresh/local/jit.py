"""How kernels are compiled: they let go of the interpreter while they run, so that threads are of use."""

from __future__ import annotations

from functools import partial

import numba

njit = partial(numba.njit, nogil=True)
