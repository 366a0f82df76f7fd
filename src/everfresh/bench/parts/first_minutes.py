"""The first minutes with everfresh: what waits for a compiler when nothing has been compiled before.

Each figure is taken in a fresh process with an empty cache folder of its own. *local*: from importing
everfresh to the end of the first batch, and the second one. *demo*: on Spark, from the session being up to
the first batch of the demo shown. *longest batch*: of a stream of small batches while kernels and triggers
are compiled behind it, against the same stream run by the interpreter with everything compiled.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass

from everfresh.bench.parts.process import python

_LOCAL = """
import time
started = time.perf_counter()
import json
import everfresh as ef
with ef.connect(engine="local") as db:
    db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, price DECIMAL(15,2))")
    db.sql("CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(price) AS total, COUNT(*) AS n"
           " FROM orders GROUP BY customer")
    db.apply(orders=[(1, "ann", "10.50"), (2, "bob", "3.00"), (3, "ann", "1.25")])
    first = time.perf_counter()
    db.apply(orders=ef.Delta(
        inserts=[{"id": 4, "customer": "cy", "price": "7.00"}],
        deletes=[{"id": 1}],
        updates=[{"id": 2, "price": "4.00"}],
    ))
    second = time.perf_counter()
    assert db.view("spend").verify().num_rows == 0
print(json.dumps([first - started, second - first]))
"""

_DEMO = """
import json, time
from everfresh import demo
from everfresh.database import connect
from everfresh.datasets import tpch
from everfresh.delta import Delta

def main():
    tpch.generate(0.01)
    with connect(engine="spark") as db:
        started = time.perf_counter()
        for table in demo.TABLES:
            db.sql(tpch.TABLES[table])
        for name, (_, text) in demo.VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        made = time.perf_counter()
        batch = next(iter(tpch.stream(0.01, 12, tables=demo.TABLES)))
        db.apply({t: Delta(inserts=b.inserts, deletes=b.deletes) for t, b in batch.items()})
        shown = time.perf_counter()
    print(json.dumps([made - started, shown - started]))

if __name__ == "__main__":
    main()
"""

_STREAM = """
import json, sys, time
import everfresh as ef
import pyarrow as pa
from everfresh.local.jit import background

mode, warm, least, most = sys.argv[1], sys.argv[2] == "warm", *map(int, sys.argv[3:])
db = ef.connect(engine="local", options=ef.Options(compile=mode))
db.sql("CREATE TABLE c (id BIGINT PRIMARY KEY, region VARCHAR)")
db.sql("CREATE TABLE o (k BIGINT PRIMARY KEY, cust BIGINT, x BIGINT)")
db.sql("CREATE MATERIALIZED VIEW v AS"
       " SELECT region, SUM(x) AS s FROM o JOIN c ON o.cust = c.id GROUP BY region")
db.apply(c=pa.table({"id": list(range(10_000)), "region": [f"r{i % 5}" for i in range(10_000)]}))
customers, ones = list(range(100)), [1] * 100

def batch(number):
    rows = pa.table({"k": list(range(100 * number, 100 * number + 100)), "cust": customers, "x": ones})
    started = time.perf_counter()
    db.apply(o=rows)
    return time.perf_counter() - started

batch(0)  # asks for all that batches need
if warm:
    background.join()
took = []
while len(took) < most and (len(took) < least or background.waiting()):
    took.append(batch(len(took) + 1))
    time.sleep(0.05)
assert db.view("v").verify().num_rows == 0
took.sort()
print(json.dumps([took[-1], took[len(took) // 2], len(took)]))
"""


@dataclass(frozen=True)
class FirstMinutes:
    """Seconds, each from a process that found nothing compiled."""

    first_batch: float
    """Local: from importing everfresh to the end of the first batch."""
    second_batch: float
    """Local: the second batch alone."""
    longest: float
    """The longest small batch while anything compiles, and the middle one."""
    middle: float
    interpreter_longest: float
    """The same with everything compiled that the interpreter uses, and no trigger."""
    interpreter_middle: float
    demo_views: float | None
    """Spark: from the session being up to the demo's tables and views; None if it was left out."""
    demo_first_batch: float | None
    """Spark: from the session being up to the demo's first batch."""

    @property
    def ratio(self) -> float:
        """The longest batch while anything compiles, in longest batches of the interpreter."""
        return self.longest / self.interpreter_longest


def measure(spark: bool = True, batches: int = 400) -> FirstMinutes:
    """Measure all of it; streams have at most so many batches."""
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-") as root:
        first, second = _child(_LOCAL, os.path.join(root, "local"))
        cache = os.path.join(root, "stream")
        longest, middle, count = _child(_STREAM, cache, "background", "cold", "100", str(batches))
        _child(_STREAM, cache, "off", "warm", "1", "1")  # what was not compiled yet
        same = str(int(count))  # as many: tables grow as far, which takes a batch longer
        their_longest, their_middle, _ = _child(_STREAM, cache, "off", "warm", same, same)
        views, shown = _child(_DEMO, os.path.join(root, "demo")) if spark else (None, None)
    return FirstMinutes(first, second, longest, middle, their_longest, their_middle, views, shown)


def _child(code: str, cache: str, *args: str) -> list[float]:
    """What `code` prints as JSON in its last line, run by a fresh interpreter with its own cache folder."""
    os.makedirs(cache, exist_ok=True)
    script = os.path.join(cache, "child.py")  # a file: worker processes may import the main module
    with open(script, "w", encoding="utf-8") as file:
        file.write(code)
    out = python(script, *args, XDG_CACHE_HOME=cache, NUMBA_CACHE_DIR=os.path.join(cache, "numba"))
    found: list[float] = json.loads(out.splitlines()[-1])
    return found
