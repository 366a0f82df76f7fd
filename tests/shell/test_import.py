"""What `import everfresh` loads, and how long it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

HEAVY = ["pyspark", "numba", "pandas", "polars", "duckdb", "sqlglot", "rich", "click"]


def imported() -> dict[str, Any]:
    code = (
        "import json, sys, time; started = time.perf_counter(); import everfresh;"
        "print(json.dumps({'seconds': time.perf_counter() - started, 'modules': list(sys.modules)}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_import_loads_nothing_heavy():
    loaded = set(imported()["modules"])
    assert "everfresh" in loaded
    assert not loaded & set(HEAVY)


def test_import_is_quick():
    """The bar is 0.3 s (`everfresh bench start`); the best of five stands a busy machine."""
    assert min(imported()["seconds"] for _ in range(5)) < 0.3
