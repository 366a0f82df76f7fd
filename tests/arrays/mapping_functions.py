"""Functions that tests map cells by."""

from __future__ import annotations

from typing import Any

import numpy as np


def mirrored(coords: Any) -> Any:
    """Falls with each index: carries boxes to boxes."""
    return np.stack([3 - coords[1], -2 * coords[0]])


def scattered(coords: Any) -> Any:
    """Keeps no order."""
    return (coords * 7919) % 11


def wrong(coords: Any) -> Any:
    """Gives no indices."""
    return coords * 0.5


def untouched() -> None:
    """Takes nothing."""


number = 5
