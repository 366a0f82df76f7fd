"""Filling views over rows that are there: TPC-DS beside DuckDB, and views over one long group.

Each measurement runs in a fresh interpreter, as `python -m everfresh.bench.parts.fill_views KIND ...`, so
that the growth of the process is its own. What comes back are plain numbers.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.bench.parts.process import python
from everfresh.datasets.cache import generated, plain
from everfresh.datasets.tpcds import ENVIRONMENT
from everfresh.errors import Code, EverfreshError

GROUPS: dict[str, str] = {
    "latest row, = (SELECT MAX ...)": """SELECT a.k, a.x FROM t a
        WHERE a.x = (SELECT MAX(b.x) FROM t b WHERE b.g = a.g)""",
    "latest row, join with the maximum": """SELECT a.k, a.x FROM t a
        JOIN (SELECT g, MAX(x) AS m FROM t GROUP BY g) b ON a.g = b.g AND a.x = b.m""",
    "latest row, >= ALL": "SELECT a.k, a.x FROM t a WHERE a.x >= ALL (SELECT b.x FROM t b WHERE b.g = a.g)",
    "latest row, NOT EXISTS": """SELECT a.k, a.x FROM t a
        WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.g = a.g AND b.x > a.x)""",
    "next event": "SELECT a.k, (SELECT MIN(b.x) FROM t b WHERE b.g = a.g AND b.x > a.x) AS nxt FROM t a",
    "previous event": "SELECT a.k, (SELECT MAX(b.x) FROM t b WHERE b.g = a.g AND b.x < a.x) AS prv FROM t a",
}
"""Views over t (k, g, x) that join it with itself, group by group."""

_TPCDS = """
import sys, json, time, pathlib, duckdb, duckdb_extension_tpcds
sf, folder = sys.argv[1:]
home = pathlib.Path(duckdb_extension_tpcds.__file__).parent
(extension,) = home.glob(f"extensions/v{duckdb.__version__}/tpcds.duckdb_extension")
con = duckdb.connect()
con.execute("SET threads = 1")
con.execute(f"LOAD '{extension}'")
con.execute(f"CALL dsdgen(sf = {sf})")
tables = {}
for (name,) in con.execute("SELECT table_name FROM information_schema.tables").fetchall():
    con.execute(f"COPY {name} TO '{folder}/{name}.parquet'")
    tables[name] = con.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = ? "
        "ORDER BY ordinal_position", [name]).fetchall()
queries = {}
for number, text in con.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
    took = []
    for _ in range(3):
        start = time.perf_counter()
        con.execute(text).fetchall()
        took.append(time.perf_counter() - start)
    queries[number] = {"text": text.strip().rstrip(";"), "duckdb": min(took)}
table = {"tables": tables, "queries": queries}
con.execute(f"COPY (SELECT ? AS content) TO '{folder}/index.parquet'", [json.dumps(table)])
"""


@dataclass(frozen=True, slots=True)
class Fill:
    """One view: seconds to create it over no rows and over all of them, DuckDB's for its query, and by how
    many MB the process grew. `refused`: why there is no such view."""

    name: str
    empty: float = 0.0
    filled: float = 0.0
    duckdb: float = 0.0
    grown: float = 0.0
    refused: str = ""

    @property
    def fill(self) -> float:
        """Seconds that the rows cost."""
        return max(self.filled - self.empty, 0.0)

    @property
    def limit(self) -> float:
        """Ten times DuckDB, or two seconds."""
        return max(10 * self.duckdb, 2.0)


def tpcds_fills(
    sf: float = 0.1,
    queries: Sequence[int] | None = None,
    folder: Path | str | None = None,
    generator: Path | str = ENVIRONMENT,
) -> Iterator[Fill]:
    """Each query of TPC-DS (or some, by number) as a view over tables of this scale factor, one after the
    other."""
    home, index = tpcds_everything(sf, folder, generator)
    for number, query in sorted(index["queries"].items(), key=lambda item: int(item[0])):
        if queries is None or int(number) in queries:
            found = json.loads(python("-m", __name__, "tpcds", str(home), number).splitlines()[-1])
            yield Fill(f"Q{number}", duckdb=query["duckdb"], **found)


def group_fills(rows: int = 100_000) -> dict[str, dict[str, float]]:
    """The views of `GROUPS` over one group of so many rows: seconds to create each over the rows, to create
    it first and give it the rows in one batch, and for a batch of one row more; MB by which either grew."""
    return {
        name: {
            how + what: value
            for how in ("after ", "before ")
            for what, value in json.loads(
                python("-m", __name__, "group", how.strip(), name, str(rows)).splitlines()[-1]
            ).items()
        }
        for name in GROUPS
    }


def tpcds_everything(
    sf: float, folder: Path | str | None, generator: Path | str
) -> tuple[Path, dict[str, Any]]:
    """The folder with all tables, and what is in it: columns, queries, DuckDB's times."""

    def make(fresh: Path) -> None:
        if not Path(generator).exists():
            raise EverfreshError(
                Code.ENVIRONMENT, "the TPC-DS generator is not installed", hint="make .venvs/tpc"
            )
        done = subprocess.run(
            [str(generator), "-c", _TPCDS, f"{sf:g}", str(fresh)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"the TPC-DS generator failed: {done.stderr.strip()}",
                hint="make .venvs/tpc",
            )

    file = generated("tpcds-all", sf, ["index"], folder, make)["index"]
    return file.parent, json.loads(pq.read_table(file).column(0)[0].as_py())


# -- in a process of its own -------------------------------------------------------------------------


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _measure_query(home: Path, number: str) -> dict[str, Any]:
    """Create a view of TPC-DS over no rows, and over all of the tables that it reads."""
    import everfresh as ef

    index = json.loads(pq.read_table(home / "index.parquet").column(0)[0].as_py())
    text = index["queries"][number]["text"]
    ddl = f"CREATE MATERIALIZED VIEW v AS {text}"
    found: dict[str, Any] = {}
    for step in ("warm", "empty", "filled"):  # the first time, modules are imported and kernels loaded
        with ef.connect(engine="local") as db:
            for name, columns in index["tables"].items():
                db.sql(create_table(name, columns))
            if step == "filled":
                for name in index["tables"]:
                    if name in text:
                        db.apply(**{name: plain(pq.read_table(home / f"{name}.parquet"))})
            before = _memory()
            try:
                found[step] = _timed(lambda db=db: db.sql(ddl))  # type: ignore[misc]
            except EverfreshError as error:
                return {"refused": error.message}
            found["grown"] = _memory() - before
    found.pop("warm")
    return found


def create_table(name: str, columns: Sequence[tuple[str, str]]) -> str:
    """Facts are known by their first key columns of the specification, dimensions by their first column."""
    wanted = {
        "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
        **{
            f"{kind}_{what}": _key(kind, what)
            for kind in ("store", "catalog", "web")
            for what in ("sales", "returns")
        },
    }
    key = wanted.get(name, (columns[0][0],))
    shown = ", ".join(f"{column} {type_}{' NOT NULL' * (column in key)}" for column, type_ in columns)
    return f"CREATE TABLE {name} ({shown}, PRIMARY KEY ({', '.join(key)}))"


def _key(kind: str, what: str) -> tuple[str, str]:
    prefix = kind[0] + what[0]
    return f"{prefix}_item_sk", f"{prefix}_{'ticket' if kind == 'store' else 'order'}_number"


def _measure_group(how: str, name: str, rows: int) -> dict[str, float]:
    """Create a view over one group, before its rows or after them."""
    import everfresh as ef

    ddl = f"CREATE MATERIALIZED VIEW v AS {GROUPS[name]}"
    table = pa.table({"k": range(rows), "g": [1] * rows, "x": range(rows)})
    _warm(ddl)
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
        if how == "after":
            db.apply(t=table)
            before = _memory()
            seconds = _timed(lambda: db.sql(ddl))
        else:
            db.sql(ddl)
            before = _memory()
            seconds = _timed(lambda: db.apply(t=table))
        grown = _memory() - before
        one = _timed(lambda: db.apply(t=[(rows, 1, rows // 2)]))
    return {"seconds": seconds, "MB": grown, "one row": one}


def _warm(ddl: str) -> None:
    """Load what is compiled once for a machine."""
    import everfresh as ef

    for first in (True, False):
        with ef.connect(engine="local") as db:
            db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
            if first:
                db.sql(ddl)
            db.apply(t=[(k, 1, k) for k in range(1000)])
            if not first:
                db.sql(ddl)
            db.apply(t=[(1000, 1, 500)])


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "tpcds":
        print(json.dumps(_measure_query(Path(rest[0]), rest[1])))
    else:
        print(json.dumps(_measure_group(rest[0], rest[1], int(rest[2]))))
