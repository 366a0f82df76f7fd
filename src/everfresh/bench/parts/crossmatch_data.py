"""Catalogs for `everfresh bench crossmatch`: points all over the sky, a part of which are in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SEED = 20
JITTER = 0.5 / 3600
"""Degrees between two sights of one source, about."""


def catalogs(lefts: int, rights: int, crowd: float = 0.0) -> tuple[Any, Any]:
    """Two Arrow tables of points. Half of the right ones are left ones seen again, the others are anywhere; a
    share of all, `crowd`, is within a degree of one place."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(SEED)

    def sky(count: int) -> Any:
        dec = np.rad2deg(np.arcsin(rng.uniform(-1, 1, count)))
        ra = rng.uniform(0, 360, count)
        some = int(crowd * count)
        dec[:some], ra[:some] = 20 + rng.normal(0, 0.5, some), 120 + rng.normal(0, 0.5, some)
        return np.stack([ra, dec])

    left = sky(lefts)
    again = left[:, rng.integers(0, lefts, rights // 2)]
    dec = np.clip(again[1] + rng.normal(0, JITTER, again.shape[1]), -90, 90)
    ra = again[0] + rng.normal(0, JITTER, again.shape[1]) / np.maximum(np.cos(np.deg2rad(dec)), 1e-9)
    right = np.concatenate([np.stack([ra % 360, dec]), sky(rights - rights // 2)], axis=1)
    right = right[:, rng.permutation(rights)]
    return tuple(
        pa.table({"ra": ra, "dec": dec, "id": np.arange(len(ra)), "mag": rng.normal(18, 2, len(ra))})
        for ra, dec in (left, right)
    )


def write(folder: Path, lefts: int, rights: int, crowd: float = 0.0, files: int = 8) -> tuple[Path, Path]:
    """Both catalogs as folders of Parquet files."""
    import pyarrow.parquet as pq

    found = []
    for name, table in zip(("left", "right"), catalogs(lefts, rights, crowd), strict=True):
        place = folder / name
        place.mkdir(parents=True)
        step = -(-table.num_rows // files)
        for k in range(files):
            pq.write_table(table.slice(k * step, step), place / f"{k}.parquet")
        found.append(place)
    return found[0], found[1]
