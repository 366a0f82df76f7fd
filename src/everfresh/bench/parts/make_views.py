"""How long it takes to create a view: chains, stars, outer joins, and the texts of TPC-DS, over empty tables.

Each case is a `Case`, the statements that make its tables and the query of its view; `made` creates the view
in a database in memory of its own and says what that took. What is measured is the time of the processor, so
that other processes do not count.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import everfresh
from everfresh.datasets.tpcds import ENVIRONMENT
from everfresh.errors import Code, EverfreshError


@dataclass(frozen=True, slots=True)
class Case:
    """A view to create."""

    name: str
    tables: tuple[str, ...]
    query: str


@dataclass(frozen=True, slots=True)
class Made:
    """What creating a view took."""

    name: str
    seconds: float
    maps: int
    relations: int
    incremental: bool
    """Whether every statement costs as much as the change and what agrees with it, and none more."""
    refused: str = ""
    """Why there is no view, if there is none."""


def made(case: Case) -> Made:
    """Create a view over empty tables."""
    (found,) = made_in(case.tables, [case])
    return found


def made_in(tables: Sequence[str], cases: Sequence[Case]) -> list[Made]:
    """Create views over the same tables, one after the other; each is dropped before the next."""
    with everfresh.connect(engine="local") as db:
        for ddl in tables:
            db.sql(ddl)
        return [_made(db, case) for case in cases]


def _made(db: everfresh.Database, case: Case) -> Made:
    start = time.process_time()
    try:
        db.sql(f"CREATE MATERIALIZED VIEW made AS {case.query}")
    except EverfreshError as error:
        return Made(case.name, time.process_time() - start, 0, 0, False, str(error).splitlines()[0])
    seconds = time.process_time() - start
    program = db.catalog.views["made"].compiled.program
    strategies = {s.strategy for trigger in program.triggers for s in trigger.statements}
    db.sql("DROP MATERIALIZED VIEW made")
    return Made(case.name, seconds, len(program.maps), len(program.relations), strategies <= {"incremental"})


# -- joins -----------------------------------------------------------------------------------------------


def chain(tables: int, kind: str = "JOIN") -> Case:
    """Tables that each refer to the next."""
    joins = (f"{kind} t{i} ON t{i - 1}.nx = t{i}.id" for i in range(1, tables))
    return _joined(f"chain of {tables}, {kind}", tables, joins)


def by_key(tables: int, kind: str = "FULL JOIN") -> Case:
    """Tables joined on their keys."""
    joins = (f"{kind} t{i} ON t{i - 1}.id = t{i}.id" for i in range(1, tables))
    return _joined(f"{tables} by key, {kind}", tables, joins)


def using(tables: int, kind: str = "FULL JOIN") -> Case:
    """Tables joined by USING, so that each join compares what the ones before have found."""
    joins = (f"{kind} t{i} USING (id)" for i in range(1, tables))
    return _joined(f"{tables} with USING, {kind}", tables, joins)


def _joined(name: str, tables: int, joins: Iterable[str]) -> Case:
    ddl = tuple(
        f"CREATE TABLE t{i} (id BIGINT NOT NULL, nx BIGINT, v BIGINT, PRIMARY KEY (id))"
        for i in range(tables)
    )
    columns = ", ".join(f"t{i}.v AS v{i}" for i in range(tables))
    return Case(name, ddl, f"SELECT {columns} FROM t0 {' '.join(joins)}")


def with_itself(times: int, kind: str = "FULL JOIN") -> Case:
    """One table joined with itself, by its key."""
    ddl = ("CREATE TABLE t (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id))",)
    columns = ", ".join(f"t{i}.v AS v{i}" for i in range(times))
    joins = " ".join(f"{kind} t t{i} ON t{i - 1}.id = t{i}.id" for i in range(1, times))
    return Case(f"{times} of one table, {kind}", ddl, f"SELECT {columns} FROM t t0 {joins}")


def star(dimensions: int) -> Case:
    """A table of facts with its dimensions, summed by two of them."""
    keys = ", ".join(f"k{i} BIGINT" for i in range(dimensions))
    ddl = (
        f"CREATE TABLE f (id BIGINT NOT NULL, m BIGINT, {keys}, PRIMARY KEY (id))",
        *(f"CREATE TABLE d{i} (id BIGINT NOT NULL, a BIGINT, PRIMARY KEY (id))" for i in range(dimensions)),
    )
    joins = " ".join(f"JOIN d{i} ON k{i} = d{i}.id" for i in range(dimensions))
    query = f"SELECT d0.a, d1.a AS b, SUM(m) AS s FROM f {joins} GROUP BY d0.a, d1.a"
    return Case(f"star of {dimensions}", ddl, query)


JOINS: tuple[Case, ...] = (
    *(chain(n) for n in (6, 8, 12)),
    star(20),
    *(make(12, kind) for kind in ("LEFT JOIN", "FULL JOIN") for make in (chain, by_key, using)),
    with_itself(60),
)
"""The cases that have a bar: one second each, ten for the last."""


# -- TPC-DS ----------------------------------------------------------------------------------------------

KEYS: dict[str, tuple[str, ...]] = {
    "call_center": ("cc_call_center_sk",),
    "catalog_page": ("cp_catalog_page_sk",),
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "customer": ("c_customer_sk",),
    "customer_address": ("ca_address_sk",),
    "customer_demographics": ("cd_demo_sk",),
    "date_dim": ("d_date_sk",),
    "household_demographics": ("hd_demo_sk",),
    "income_band": ("ib_income_band_sk",),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
    "item": ("i_item_sk",),
    "promotion": ("p_promo_sk",),
    "reason": ("r_reason_sk",),
    "ship_mode": ("sm_ship_mode_sk",),
    "store": ("s_store_sk",),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "time_dim": ("t_time_sk",),
    "warehouse": ("w_warehouse_sk",),
    "web_page": ("wp_web_page_sk",),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
    "web_site": ("web_site_sk",),
}
"""The tables of TPC-DS with their keys, as the specification has them."""

_SCRIPT = """
import json, pathlib, duckdb, duckdb_extension_tpcds
home = pathlib.Path(duckdb_extension_tpcds.__file__).parent
(extension,) = home.glob(f"extensions/v{duckdb.__version__}/tpcds.duckdb_extension")
con = duckdb.connect()
con.execute(f"LOAD '{extension}'")
con.execute("CALL dsdgen(sf = 0)")
columns = "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY table_name, column_index"
queries = "SELECT query_nr, query FROM tpcds_queries()"
print(json.dumps([con.execute(text).fetchall() for text in (columns, queries)]))
"""


def tpcds(python: Path | str = ENVIRONMENT) -> tuple[tuple[str, ...], list[Case]]:
    """The statements that make the tables of TPC-DS, and its 99 queries, as the generator's environment
    (`make .venvs/tpc`) has them."""
    if not Path(python).exists():
        raise EverfreshError(
            Code.ENVIRONMENT,
            "the TPC-DS generator is not installed",
            place=str(python),
            hint="make .venvs/tpc",
        )
    run = [str(python), "-c", _SCRIPT]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    found, queries = json.loads(done.stdout)
    columns: dict[str, list[str]] = {table: [] for table in KEYS}
    for table, name, of in found:
        if table in KEYS:
            columns[table].append(f"{name} {of}{' NOT NULL' if name in KEYS[table] else ''}")
    tables = tuple(
        f"CREATE TABLE {table} ({', '.join(columns[table])}, PRIMARY KEY ({', '.join(key)}))"
        for table, key in KEYS.items()
    )
    return tables, [Case(f"Q{n}", tables, text.strip().rstrip(";")) for n, text in queries]
