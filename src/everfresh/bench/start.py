"""What starting costs: importing everfresh, the first batch in-process, the first batch on Spark.

Every figure is taken in fresh processes, with bytecode cached as in an installed package.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from everfresh.bench import Settings
from everfresh.bench.parts.process import has_java, python
from everfresh.bench.report import Report
from everfresh.bench.timing import median, repeat

NAME = "start"
DESCRIPTION = "what importing everfresh, connecting and the first batch cost"

IMPORT_LIMIT = 0.3
HEAVY = ("pyspark", "numba", "pandas", "polars", "duckdb", "pyarrow", "numpy", "sqlglot", "rich", "click")
MUST_NOT_LOAD = ("pyspark", "numba")

_IMPORT = f"""
import json, sys, time
started = time.perf_counter()
import everfresh
took = time.perf_counter() - started
print(json.dumps({{"seconds": took, "loaded": [m for m in {HEAVY!r} if m in sys.modules]}}))
"""

_FIRST_BATCH = """
import json, sys, time
times, last = {}, time.perf_counter()
def lap(name):
    global last
    now = time.perf_counter()
    times[name], last = now - last, now

def main(engine):
    import everfresh as ef
    lap("import")
    with ef.connect(engine=engine) as db:
        lap("connect")
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INTEGER, x DECIMAL(15,2))")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY k")
        lap("table and view")
        for turn, name in enumerate(("first batch", "second batch")):
            db.apply(t=[(turn * 1000 + i, i % 10, i) for i in range(1000)])
            lap(name)
        assert db.view("v").to_arrow().num_rows == 10
        lap("read the view")
    lap("close")
    print(json.dumps(times))

if __name__ == "__main__":
    main(sys.argv[1])
"""


def run(settings: Settings) -> Report:
    """Measure starting."""
    report = Report(NAME)
    _measure_import(settings, report)
    _measure_local(settings, report)
    _measure_spark(settings, report)
    return report


def _measure_import(settings: Settings, report: Report) -> None:
    rounds = 3 if settings.quick else 7
    settings.note(f"importing everfresh in {rounds} fresh interpreters")
    _child(_IMPORT)  # writes the bytecode
    runs = [_child(_IMPORT) for _ in range(rounds)]
    took = median([one["seconds"] for one in runs])
    loaded = runs[0]["loaded"]
    detail = f"loads {', '.join(loaded)}" if loaded else "loads nothing heavy"
    report.row(what="import everfresh", seconds=took, detail=detail)
    version = repeat(lambda: python("-m", "everfresh", "--version"), rounds)
    report.row(what="everfresh --version", seconds=median(version), detail="the whole process")
    report.below("import everfresh", took, IMPORT_LIMIT, "s")
    for module in MUST_NOT_LOAD:
        report.truth(f"import everfresh leaves {module} alone", module not in loaded)


def _measure_local(settings: Settings, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-") as cache:
        for state in ("cold", "warm"):
            settings.note(f"the first batch in-process, {state} kernel cache")
            times = _child(_FIRST_BATCH, "local", NUMBA_CACHE_DIR=cache, XDG_CACHE_HOME=cache)
            _row(report, f"local engine, {state} kernel cache", times)


def _measure_spark(settings: Settings, report: Report) -> None:
    what = "Spark engine, new session"
    if settings.quick:
        report.skip(what, "takes half a minute: not with --quick")
        return
    if not has_java():
        report.skip(what, "there is no Java here")
        return
    settings.note("the first batch on Spark, with a new session")
    _row(report, what, _child(_FIRST_BATCH, "spark"))


def _row(report: Report, what: str, times: dict[str, float]) -> None:
    detail = ", ".join(f"{name} {took:.3f}" for name, took in times.items())
    until = sum(times[name] for name in ("import", "connect", "table and view", "first batch"))
    report.row(what=f"first batch, {what}", seconds=until, detail=detail)


def _child(code: str, *args: str, **env: str) -> Any:
    """What `code` prints as JSON in its last line, run by a fresh interpreter."""
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-") as folder:
        script = os.path.join(folder, "child.py")  # a file: worker processes may import the main module
        with open(script, "w", encoding="utf-8") as file:
            file.write(code)
        return json.loads(python(script, *args, **env).splitlines()[-1])
