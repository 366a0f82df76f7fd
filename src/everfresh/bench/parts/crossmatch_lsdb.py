"""LSDB as a peer: its own catalogs are made first, then matched by two processes of Dask; run by a Python
that has LSDB and nothing of everfresh.

`python crossmatch_lsdb.py '{"left": ..., "right": ..., "folder": ...}'`: the last line has times and rows.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

CORES = 2
MARGIN, RADIUS = 5, 2
"""Arcseconds: of the margins that LSDB keeps with a catalog, and within which partners are."""


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Make catalogs and match them."""
    import lsdb
    import pandas as pd
    from dask.distributed import Client

    folder = Path(asked["folder"])
    started = time.perf_counter()
    for name in ("left", "right"):
        frame = pd.read_parquet(asked[name])
        made = lsdb.from_dataframe(
            frame, catalog_name=name, ra_column="ra", dec_column="dec", margin_threshold=MARGIN
        )
        made.write_catalog(folder / name, catalog_name=name)
        if made.margin is not None:
            made.margin.write_catalog(folder / f"{name}_margin", catalog_name=f"{name}_margin")
    prepared = time.perf_counter() - started
    took = []
    with Client(n_workers=CORES, threads_per_worker=1, dashboard_address=None):
        for turn in range(2):
            started = time.perf_counter()
            left = lsdb.open_catalog(folder / "left", columns=["ra", "dec", "id"])
            right = lsdb.open_catalog(
                folder / "right", columns=["ra", "dec", "id"], margin_cache=folder / "right_margin"
            )
            found = left.crossmatch(right, n_neighbors=1, radius_arcsec=RADIUS)
            found.write_catalog(folder / f"found{turn}", catalog_name="found")
            took.append(time.perf_counter() - started)
        rows = len(lsdb.open_catalog(folder / "found1"))
    return {"prepared": prepared, "seconds": took, "rows": rows, "version": lsdb.__version__}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
