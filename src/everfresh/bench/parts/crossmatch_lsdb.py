"""LSDB as a peer: its own catalogs are made first, then matched by two processes of Dask; run by a Python
that has LSDB and nothing of everfresh.

`python crossmatch_lsdb.py '{"left": ..., "right": ..., "folder": ...}'`: the last line has times and rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

CORES = 2
TURNS = 4
MARGIN, RADIUS = 5, 2
"""Arcseconds: of the margins that LSDB keeps with a catalog, and within which partners are."""


def processor_seconds() -> float:
    """Processor time of this process and all below it so far, with what those that have ended took."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    found, last = {os.getpid()}, set[int]()
    while found != last:
        last = set(found)
        found |= {process for process, told in stats.items() if int(told[1]) in found}
    ticks = sum(int(told) for process in found for told in stats[process][11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


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
    took, processor = [], []
    with Client(n_workers=CORES, threads_per_worker=1, dashboard_address=None):
        for turn in range(TURNS):
            started, before = time.perf_counter(), processor_seconds()
            left = lsdb.open_catalog(folder / "left", columns=["ra", "dec", "id"])
            right = lsdb.open_catalog(
                folder / "right", columns=["ra", "dec", "id"], margin_cache=folder / "right_margin"
            )
            found = left.crossmatch(right, n_neighbors=1, radius_arcsec=RADIUS)
            found.write_catalog(folder / f"found{turn}", catalog_name="found")
            took.append(time.perf_counter() - started)
            processor.append(processor_seconds() - before)
        rows = len(lsdb.open_catalog(folder / "found1"))
    told = {"prepared": prepared, "seconds": took, "processor": processor, "rows": rows}
    return {**told, "version": lsdb.__version__}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
