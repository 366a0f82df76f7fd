"""The local engine on TPC-H, an order book and TPC-DS: every query, batch size and strategy, and its peers.

A query sees a stream of the tables that it reads, with all their columns, as the only view of a database. The
rate *inside* counts the work of the view on converted batches (`cells.INSIDE`); *db.apply* is what a user
waits for. Every cell, with phases and memory, is written beside the report, to `NAME.cells.json`.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

from everfresh.bench import Report, Settings
from everfresh.bench.tpch_local.plan import OPTIONS, Plan, plan_of
from everfresh.errors import Code, EverfreshError

if TYPE_CHECKING:
    from everfresh.bench.tpch_local.cells import Cell, Subject
    from everfresh.bench.tpch_local.events import Events
    from everfresh.workloads import Query

__all__ = ["DESCRIPTION", "NAME", "OPTIONS", "reads", "run"]

NAME = "tpch-local"
DESCRIPTION = "the local engine: TPC-H, finance and TPC-DS by batch size, against its peers and the thesis"

BOOK = 10_000
"""Live orders of both sides of the book."""


def run(settings: Settings) -> Report:
    """Measure."""
    from everfresh.bench.tpch_local import bars, scenarios, strategies

    plan = plan_of(settings)
    report = Report(NAME)
    cells: list[Cell] = []
    for section in ("inserts", "churn"):
        if section in plan.sections:
            cells += _streamed(report, settings, plan, section, _of_query)
    if cells:
        bars.add_rows(report, cells)
        bars.add_summary(report, cells)
        bars.add_bars(report, plan, cells, {q.view for q in plan.queries if _flat(q)})
    if "strategies" in plan.sections:
        compared = _streamed(report, settings, plan, "strategies", strategies.strategies)
        bars.add_choices(report, compared, ", in turns")
        cells += compared
    if cells and settings.json is not None:
        beside = settings.json.with_suffix(".cells.json")
        beside.write_text(json.dumps([cell.to_json() for cell in cells], indent=1) + "\n", encoding="utf-8")
    if "refresh" in plan.sections:
        scenarios.refresh(report, settings, plan, reads)
    if "micro" in plan.sections:
        scenarios.micro(report, settings, plan)
    if "durability" in plan.sections:
        scenarios.durability(report, settings, plan)
    return report


def reads(query: Query) -> list[str]:
    """The tables that a query reads."""
    from everfresh.workloads import WORKLOADS, compiled

    bases = compiled(query).bases
    return [name for name in WORKLOADS[query.workload].tables if name in bases]


def _flat(query: Query) -> bool:
    """Whether a query of TPC-H, as the thesis has it, is maintained without relations in between."""
    from everfresh.workloads import WORKLOADS, compiled

    return query.workload == "tpch" and not compiled(WORKLOADS["thesis"].query(query.name)).program.relations


# -- streams ---------------------------------------------------------------------------------------


def _streamed(
    report: Report, settings: Settings, plan: Plan, section: str, measured: Callable[..., list[Cell]]
) -> list[Cell]:
    cells: list[Cell] = []
    data = cache(partial(_events, plan, section))
    for query in plan.queries:
        if section == "churn" and query.workload != "tpch":
            continue
        try:
            stream, events = data(query.workload)
        except EverfreshError as error:
            if error.code != Code.ENVIRONMENT:
                raise
            report.skip(f"{query.view}, {section}", str(error))
            continue
        cells += measured(report, settings, plan, query, stream, events.only(reads(query)))
    return cells


def _events(plan: Plan, section: str, workload: str) -> tuple[str, Events]:
    """The name of a stream, and the stream over all tables of a workload."""
    from everfresh.bench.tpch_local import events
    from everfresh.datasets import orderbook, tpcds, tpch

    if workload == "finance":
        rows = max(int(1_000_000 * plan.sf), 1000)
        live = min(BOOK // 2, rows // 4)
        return "book", events.book(orderbook.orders(rows), live)
    data = tpcds.read(plan.sf) if workload == "tpcds" else tpch.read(plan.sf)
    return (section, events.churn(data)) if section == "churn" else ("inserts", events.in_turn(data))


def _of_query(
    report: Report, settings: Settings, plan: Plan, query: Query, stream: str, events: Events
) -> list[Cell]:
    from everfresh.bench.tpch_local import pathway
    from everfresh.bench.tpch_local.cells import Cell, measure, warm

    cells = []
    for how, make in _subjects(plan, query, stream, events).items():
        try:
            warm(make, events)
            for size in plan.sizes:
                settings.note(f"{query.view}, {stream}, {how}, batches of {size:,}")
                gc.collect()
                subject = make()
                try:
                    cell = Cell(query.view, stream, how, size)
                    cells.append(measure(cell, subject, events, plan.seconds, plan.patience))
                finally:
                    subject.close()
        except (EverfreshError, ImportError) as error:
            report.skip(f"{query.view}, {stream}, {how}", str(error))
    if "pathway" in plan.peers and stream == "inserts":
        cells += pathway.cells(report, settings, plan, query, events)
    return cells


def _subjects(plan: Plan, query: Query, stream: str, events: Events) -> Mapping[str, Callable[[], Subject]]:
    """What keeps the query fresh, by name; in the churn stream only the default and DuckDB."""
    from everfresh.bench.tpch_local.cells import DuckDB, Everfresh
    from everfresh.workloads import WORKLOADS
    from everfresh.workloads.strategies import catalog_of

    modes = [mode for mode in plan.modes if stream != "churn" or mode == "auto"]
    found: dict[str, Callable[[], Subject]] = {
        mode: lambda mode=mode: Everfresh(  # type: ignore[misc]
            query, events.tables, mode, "background" if plan.quick else "now", plan.clock
        ).create()
        for mode in modes
    }
    for form in plan.forms:
        compile = "off" if form == "interpreter" else form
        found[form] = lambda compile=compile: Everfresh(  # type: ignore[misc]
            query, events.tables, "auto", compile, plan.clock
        ).create()
    if "duckdb" in plan.peers:
        schemas = dict(catalog_of(WORKLOADS[query.workload].tables.values()).tables)
        found["DuckDB, one thread"] = lambda: DuckDB(query.text, events.tables, schemas, plan.clock)
    return found
