"""The default strategy beside all others, on the same batches in turns.

The ways to maintain a query run side by side: a block of batches through one, then the same block through the
next, so that what else happens on the machine falls on all of them. A way whose program is, word for word,
that of another is not run again: it has the figures of that one, and the row says so.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everfresh.bench import Report, Settings
from everfresh.bench.tpch_local import bars
from everfresh.bench.tpch_local.cells import SKIPPED, WINDOWS, Cell, Everfresh, Subject, warm
from everfresh.bench.tpch_local.events import Events
from everfresh.bench.tpch_local.plan import Plan
from everfresh.compiler.listing import listing
from everfresh.errors import EverfreshError
from everfresh.workloads import Query

BLOCK = 0.05
"""The seconds that the first runs before the next has its turn."""
_DEFAULT = bars.DEFAULT


def strategies(
    report: Report, settings: Settings, plan: Plan, query: Query, stream: str, events: Events
) -> list[Cell]:
    """The cells of one query, in each way and batch size, and its row: the time of the default over that of
    the best."""
    if _DEFAULT not in plan.modes:
        report.skip(f"{query.view}, strategies", f"needs how={_DEFAULT}")
        return []
    same, refused = _programs(plan, query, events)
    for mode, why in refused.items():
        report.skip(f"{query.view}, strategies, {mode}", why)
    ways = {mode: _maker(plan, query, events, mode) for mode in same if same[mode] == mode}
    cells: list[Cell] = []
    for mode, make in ways.items():
        settings.note(f"{query.view}, strategies, {mode}, to warm up")
        warm(make, events)
    for size in plan.sizes:
        settings.note(f"{query.view}, strategies, batches of {size:,}")
        own = [Cell(query.view, stream, mode, size) for mode in ways]
        gc.collect()
        subjects: list[Subject] = []
        try:
            subjects += (make() for make in ways.values())
            in_turns(own, subjects, events, plan.seconds, plan.patience)
        finally:
            for subject in subjects:
                subject.close()
        by_mode = {cell.how: cell for cell in own}
        cells += (replace(by_mode[first], how=mode) for mode, first in same.items())
    _rows(report, query, cells, same)
    return cells


def _programs(plan: Plan, query: Query, events: Events) -> tuple[dict[str, str], dict[str, str]]:
    """For each mode, the first mode that has the same program; and why a mode is refused."""
    first: dict[str, str] = {}
    same, refused = {}, {}
    for mode in plan.modes:
        subject = Everfresh(query, events.tables, mode, "off")
        try:
            subject.create()
            text = listing(subject.db.catalog.views[query.view].compiled)
            same[mode] = first.setdefault(text, mode)
        except EverfreshError as error:
            refused[mode] = str(error)
        finally:
            subject.close()
    return same, refused


def _maker(plan: Plan, query: Query, events: Events, mode: str) -> Callable[[], Subject]:
    compile = "background" if plan.quick else "now"
    return lambda: Everfresh(query, events.tables, mode, compile, plan.clock).create()


def in_turns(
    cells: Sequence[Cell], subjects: Sequence[Subject], events: Events, seconds: float, patience: float
) -> None:
    """Run the stream through all subjects, each measured on the same batches: for `seconds` each on average,
    and `patience` times that in all."""
    began, at, total, turn = time.perf_counter(), 0, len(events), 0
    size, limit = cells[0].size, patience * seconds * len(cells)
    done: list[dict[str, float]] = [{} for _ in subjects]
    for window in range(WINDOWS):
        end = total * (window + 1) // WINDOWS
        share = seconds * len(cells) * (window + 1) / WINDOWS
        before = [subject.phases() for subject in subjects]
        while at < end and (sum(cell.seconds for cell in cells) < share or not cells[0].batches):
            order = [(turn + i) % len(cells) for i in range(len(cells))]
            block: list[tuple[Any, int]] = []
            spent = 0.0
            while at < end and spent < BLOCK:
                high = min(at + size, total)
                block.append((subjects[0].prepare(events.batch(at, high)), high - at))
                spent += _apply(cells[order[0]], subjects[order[0]], *block[-1])
                at = high
            for i in order[1:]:
                for prepared, count in block:
                    _apply(cells[i], subjects[i], prepared, count)
            turn += 1
            if time.perf_counter() - began > limit:
                break
        for i, subject in enumerate(subjects):
            for name, value in subject.phases().items():
                done[i][name] = done[i].get(name, 0.0) + value - before[i].get(name, 0.0)
        for reached, batch in events.batches(at, end, SKIPPED):
            if time.perf_counter() - began > limit:
                break
            for subject in subjects:
                subject.skip(subject.prepare(batch))
            at = reached
        if at < end:
            break
    for cell, subject, phases in zip(cells, subjects, done, strict=True):
        cell.phases, cell.sizes, cell.reached = phases, subject.sizes(), at / total


def _apply(cell: Cell, subject: Subject, prepared: Any, count: int) -> float:
    took = subject.apply(prepared)
    cell.seconds, cell.cpu = cell.seconds + took.seconds, cell.cpu + took.cpu
    cell.longest = max(cell.longest, took.seconds)
    cell.tuples, cell.batches = cell.tuples + count, cell.batches + 1
    return took.seconds


def _rows(report: Report, query: Query, cells: Sequence[Cell], same: Mapping[str, str]) -> None:
    """A row for each way, its time over the default's by batch size; what equals another is said there."""
    rates = {(cell.how, cell.size): cell.upkeep for cell in cells}
    sizes = dict.fromkeys(cell.size for cell in cells)
    held = {cell.how: cell.sizes["bytes"] / 1e6 for cell in cells}
    for mode, first in same.items():
        if mode != first:
            report.row(query=query.view, stream="strategies", how=mode, where=f"the program of {first}")
            continue
        times = {f"{size:,}": rates[_DEFAULT, size] / rates[mode, size] for size in sizes}
        report.row(
            query=query.view, stream="strategies", how=mode, where="time / default's", **times, MB=held[mode]
        )
    worst = {f"{size:,}": max(rates[mode, size] for mode in same) / rates[_DEFAULT, size] for size in sizes}
    report.row(query=query.view, stream="strategies", how=_DEFAULT, where="time / the best's", **worst)
