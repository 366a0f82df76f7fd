"""Timing: repetition, the median, and alternatives measured in turns so that noise falls on all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def seconds(fn: Callable[[], Any]) -> float:
    """The wall time of one call."""
    started = time.perf_counter()
    fn()
    return time.perf_counter() - started


def repeat(fn: Callable[[], Any], times: int) -> list[float]:
    """The wall times of `times` calls, in order."""
    return [seconds(fn) for _ in range(times)]


def median(values: Sequence[float]) -> float:
    """The middle value.

    >>> median([3.0, 1.0, 2.0])
    2.0
    """
    return statistics.median(values)


def interleave(alternatives: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The wall times of each alternative over `rounds`; each round runs all, in alternating direction."""
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    order = list(alternatives)
    for turn in range(rounds):
        for name in order if turn % 2 == 0 else reversed(order):
            times[name].append(seconds(alternatives[name]))
    return times
