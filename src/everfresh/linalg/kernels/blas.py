"""How many threads BLAS uses while an update runs.

OpenBLAS's threads wait for the next product by spinning, for tens of milliseconds: beside them the threads of
`kernels` get half a processor, and an update by two threads takes as long as by one. So BLAS is *calm* (one
thread) while thin products are computed, and *threaded* again for those that are worth it. The number belongs
to the process: what other threads compute meanwhile is not changed, but may take longer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_depth = 0
_before: list[int] = []


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def threads() -> list[int]:
    """The number of threads of each BLAS of this process now."""
    return [library.get_num_threads() for library in _libraries()]


def _use(counts: list[int]) -> None:
    for library, count in zip(_libraries(), counts, strict=True):
        library.set_num_threads(count)


@contextmanager
def calm(wanted: bool = True) -> Iterator[None]:
    """BLAS on one thread, if `wanted`; the outermost of several restores what was before."""
    global _depth, _before  # noqa: PLW0603
    if not wanted:
        yield
        return
    with _lock:
        if not _depth:
            _before = threads()
            _use([1] * len(_before))
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if not _depth:
                _use(_before)


@contextmanager
def threaded() -> Iterator[None]:
    """As many threads as before `calm`, for one product inside it."""
    with _lock:
        inside = _depth > 0
        if inside:
            _use(_before)
    try:
        yield
    finally:
        if inside:
            with _lock:
                if _depth:
                    _use([1] * len(_before))
