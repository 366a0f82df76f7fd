"""Points on the sphere for property tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from everfresh.arrays.sky.sphere import Sky


@st.composite
def skies(draw: Any, most: int = 30) -> Any:
    """Points in one of the places where a mistake would show."""
    count = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    spread = draw(st.sampled_from([1e-3, 0.1, 3.0, 60.0]))
    where = draw(st.sampled_from(["seam", "north", "south", "poles", "all"]))
    ra = rng.normal(0, spread, count) if where == "seam" else rng.uniform(-400, 800, count)
    match where:
        case "seam":
            dec = np.clip(rng.normal(0, spread, count), -90, 90)
        case "north" | "south":
            dec = 90 - np.abs(np.clip(rng.normal(0, spread, count), -180, 180))
            dec = dec if where == "north" else -dec
        case "poles":
            dec = rng.choice([-90.0, 90.0, 89.9999, -89.9999, 0.0], count)
        case _:
            dec = rng.uniform(-90, 90, count)
    return Sky.of(ra, dec, [rng.integers(-3, 4, count).astype(float)])
