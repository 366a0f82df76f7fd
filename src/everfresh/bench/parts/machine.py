"""Measuring a machine for the cost model: a third of a second, on the backend and device of an array.

Invariant: what is measured decides how a program is run, never what it computes; without it the figures of
`cost.CPU` and `cost.CUDA` are taken, so that a choice does not depend on how busy the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from everfresh.linalg.compiler.cost import CPU, CUDA, Machine
from everfresh.linalg.kernels.backend import Array, backend_of

_ROUNDS = 3
_WIDE = 16  # columns of a product that copies its operands


def measure(like: Array, size: int = 0) -> Machine:
    """The machine that computes with arrays like this one."""
    cuda = str(getattr(like, "device", "")).startswith("cuda")
    base = CUDA if cuda else CPU
    n = size or (8000 if cuda else 2400)  # past the cache
    backend = backend_of(like)
    large, small = _filled(backend, n, n, like), _filled(backend, n // 4, n // 4, like)
    thin, one = _filled(backend, n, _WIDE, like), _filled(backend, n, 1, like)
    flops = 2.0 * (n // 4) ** 3 / _best(lambda: small @ small, like)
    moved = 8.0 * n * n
    packed = moved / max(1e-9, _best(lambda: backend.thin(large, thin), like) - 2.0 * _WIDE * n * n / flops)
    stream = moved / _best(lambda: backend.thin(large, one), like)
    well = small + n * backend.eye(n // 4, like)
    inverse = 2.0 * (n // 4) ** 3 / _best(lambda: backend.inv(well), like)
    return replace(
        base,
        name="measured",
        flops=flops,
        packed=min(packed, stream),
        stream=stream,
        inverse=min(inverse, flops),
    )


def _filled(backend: Any, rows: int, columns: int, like: Array) -> Array:
    return backend.zeros(rows, columns, like) + 0.5


def _best(work: Callable[[], Any], like: Array) -> float:
    """The shortest of some runs, the first of which is not counted."""
    times = []
    for _ in range(_ROUNDS + 1):
        started = time.perf_counter()
        result = work()
        float(result[0, 0])  # waits for the device
        times.append(time.perf_counter() - started)
    return min(times[1:])
