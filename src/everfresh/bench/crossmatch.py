"""Crossmatch: two catalogs of the sky, local and on Spark, against astropy and LSDB.

Local: table to table, against astropy's `search_around_sky` on the same arrays, in turns; both give the same
pairs. Spark: Parquet to Parquet in a process of its own, with what all its processes need together. LSDB
runs in an environment of its own (`make .venvs/lsdb`) on catalogs that it has partitioned and given margins
before; its time begins after that. Everfresh is measured on the plain files that these catalogs were made of,
which is less than LSDB is given, and on LSDB's own catalogs, which is the same but for the margins, which it
does not read. All use two processes, and each figure is the median of the runs behind the first; wall time is
compared, and the processor time of all processes, which other work on the machine disturbs less.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from everfresh.bench import Settings
from everfresh.bench.parts import crossmatch_data, crossmatch_lsdb
from everfresh.bench.parts.asked import Asked
from everfresh.bench.parts.process import has_java, python
from everfresh.bench.report import Report
from everfresh.bench.timing import interleave, median

NAME = "crossmatch"
DESCRIPTION = "crossmatches of catalogs of the sky, local and on Spark, against astropy and LSDB"
OPTIONS = {"only": "parts of: local, first, spark, crowd"}
PARTS = ("local", "first", "spark", "crowd")
RADIUS = 2
LEFT, RIGHT, SPARK = 1_000_000, 100_000, 5_000_000
HEAP = "1g"
AGAINST_ASTROPY, AGAINST_LSDB, FIRST_CALL, MEMORY = 8.0, 3.0, 0.5, 6.0
LSDB = Path(__file__).parents[3] / ".venvs" / "lsdb" / "bin" / "python"
"""The Python of the environment with LSDB, in a checkout."""
_FIRST = """
import numpy as np, everfresh as ef, time
r = np.random.default_rng(0)
a, b = ({"ra": r.uniform(0, 360, 1000), "dec": r.uniform(-90, 90, 1000)} for _ in range(2))
t = time.perf_counter()
ef.arrays.crossmatch(a, b, 2)
print(time.perf_counter() - t)
"""


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    asked = Asked(settings.options, OPTIONS).names("only", PARTS, PARTS)
    if "local" in asked:
        _local(report, settings)
    if "first" in asked:
        _first(report)
    if "spark" in asked or "crowd" in asked:
        _on_spark(report, settings, asked)
    return report


def _local(report: Report, settings: Settings) -> None:
    import everfresh as ef

    lefts, rights = (LEFT // 10, RIGHT // 10) if settings.quick else (LEFT, RIGHT)
    what = f"{lefts:,} by {rights:,} points, {RADIUS} arcsec"
    if importlib.util.find_spec("astropy") is None:
        report.skip(what, "astropy is not installed")
        return
    from astropy import units
    from astropy.coordinates import SkyCoord, search_around_sky

    settings.note(what)
    a, b = crossmatch_data.catalogs(lefts, rights)

    def matched() -> Any:
        return ef.arrays.crossmatch(a, b, RADIUS, left_columns=["id"], right_columns=["id", "mag"])

    def searched() -> Any:
        points = [SkyCoord(t["ra"].to_numpy() * units.deg, t["dec"].to_numpy() * units.deg) for t in (a, b)]
        i, j, _, _ = search_around_sky(*points, RADIUS * units.arcsec)
        return i, j, a.select(["id"]).take(i), b.select(["id", "mag"]).take(j)

    ours = matched()
    pairs = [(ours.column("left_row").to_numpy(), ours.column("right_row").to_numpy()), searched()[:2]]
    sets = [set(zip(i.tolist(), j.tolist(), strict=True)) for i, j in pairs]
    report.truth(f"{what}: the pairs of astropy", sets[0] == sets[1])
    took = interleave({"everfresh": matched, "astropy": searched}, 2 if settings.quick else 5)
    for how, times in took.items():
        report.row(what=what, how=how, seconds=median(times), pairs=len(sets[0]))
    ratios = [theirs / mine for mine, theirs in zip(took["everfresh"], took["astropy"], strict=True)]
    report.at_least(f"{what}: astropy / everfresh", median(ratios), AGAINST_ASTROPY, "times")


def _first(report: Report) -> None:
    took = min(float(python("-c", _FIRST)) for _ in range(3))
    report.below("first call in a fresh process, 1,000 by 1,000 points", took, FIRST_CALL, "s")


def _on_spark(report: Report, settings: Settings, asked: Sequence[str]) -> None:
    count = SPARK // 50 if settings.quick else SPARK
    what = f"{count:,} by {count:,} points, {RADIUS} arcsec, Parquet to Parquet on Spark"
    if not has_java():
        report.skip(what, "there is no Java for Spark")
        return
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-") as name:
        folder = Path(name)
        run = partial(_spark_run, report, settings)
        if "spark" in asked:
            left, right = crossmatch_data.write(folder / "flat", count, count)
            ours = [run(f"{what}, plain files", folder / "out", left, right)]
            run(f"{what}, plain files as DataFrames", folder / "frames", left, right, frames=True)
            theirs = _lsdb(report, settings, what, folder / "lsdb", left, right)
            if theirs is not None:
                catalogs = folder / "lsdb" / "left", folder / "lsdb" / "right"
                ours.append(run(f"{what}, LSDB's catalogs", folder / "hats", *catalogs))
                for found, given in zip(ours, ("plain files", "the same catalogs"), strict=True):
                    _against(report, f"{what}, {given}", found, theirs)
        if "crowd" in asked:
            crowd = crossmatch_data.write(folder / "crowd", count, count, crowd=0.5)
            run(f"{what}, half of them in one square degree", folder / "skew", *crowd)


def _against(report: Report, what: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Everfresh on files, LSDB on its catalogs."""
    report.truth(f"{what}: as many pairs as LSDB", theirs["rows"] == ours["rows"])
    for kind in ("seconds", "processor"):
        ratio = later(theirs[kind]) / later(ours[kind])
        name = "wall time" if kind == "seconds" else "processor time"
        report.at_least(f"{what}: {name}, LSDB on its catalogs / everfresh", ratio, AGAINST_LSDB, "times")


def later(values: Sequence[float]) -> float:
    """The median of the runs behind the first, which has the start of workers in it."""
    return median(values[1:])


def _spark_run(
    report: Report, settings: Settings, what: str, out: Path, left: Path, right: Path, frames: bool = False
) -> dict[str, Any]:
    settings.note(what)
    asked: dict[str, Any] = {"left": str(left), "right": str(right), "out": str(out), "heap": HEAP}
    asked |= {"find": "best", "frames": frames}
    found: dict[str, Any] = json.loads(
        python("-m", "everfresh.bench.parts.crossmatch_child", json.dumps(asked)).splitlines()[-1]
    )
    memory = found["everything"] / 2**30
    report.row(
        what=what,
        how="everfresh",
        seconds=later(found["seconds"]),
        first=found["seconds"][0],
        processor=later(found["processor"]),
        pairs=found["rows"],
        gib=memory,
        jvm_gib=found["jvm"] / 2**30,
        tasks_gib=found["tasks"] / 2**30,
    )
    report.below(f"{what}: memory of all processes", memory, MEMORY, "GiB")
    return found


def _lsdb(
    report: Report, settings: Settings, what: str, folder: Path, left: Path, right: Path
) -> dict[str, Any] | None:
    if not LSDB.exists():
        report.skip(f"{what}: LSDB", "LSDB is not installed (make .venvs/lsdb)")
        return None
    settings.note(f"{what}: LSDB")
    asked = json.dumps({"left": str(left), "right": str(right), "folder": str(folder)})
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = run([str(LSDB), str(crossmatch_lsdb.__file__), asked])
    if done.returncode != 0:
        report.skip(f"{what}: LSDB", (done.stderr.strip().splitlines() or ["no message"])[-1])
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    how = f"LSDB {found['version']}"
    report.row(
        what=what,
        how=how,
        seconds=later(found["seconds"]),
        first=found["seconds"][0],
        processor=later(found["processor"]),
        pairs=found["rows"],
    )
    report.row(what=what, how=f"{how}, its catalogs made", seconds=found["prepared"])
    return found
