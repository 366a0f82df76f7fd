"""What the cells have to reach, and the tables that people read: rates by batch size, where time goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from everfresh.bench.report import Report
from everfresh.bench.tpch_local import published
from everfresh.bench.tpch_local.cells import Cell
from everfresh.bench.tpch_local.plan import FORMS, Plan

DEFAULT = "auto"
AT = 10_000
ALL = 22
WITHIN = 1.1
"""How much slower the default may be than the best of all strategies."""
ABOVE_THESIS = ("q05", "q09", "q11", "q15", "q16", "q20", "q22")


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; 0 where there is none.

    >>> geometric_mean([1.0, 100.0]), geometric_mean([])
    (10.0, 0.0)
    """
    logs = [math.log(value) for value in values if value > 0]
    return round(math.exp(sum(logs) / len(logs)), 12) if logs else 0.0


# -- tables ----------------------------------------------------------------------------------------


def add_rows(report: Report, cells: Sequence[Cell]) -> None:
    """A row for each query and way of maintaining it, with a column per batch size; the thesis beside it."""
    for (query, stream), of_query in _grouped(cells, lambda cell: (cell.query, cell.stream)).items():
        for (how,), of_how in _grouped(of_query, lambda cell: (cell.how,)).items():
            last = of_how[-1]
            more: dict[str, Any] = {}
            if last.sizes:
                more = {"maps": last.sizes["number of maps"], "MB": last.sizes["bytes"] / 1e6}
            ours = bool(last.phases)
            _rates(report, query, stream, how, "inside" if ours else "its call", of_how, "inside", more)
            if how == "by row":
                _rates(report, query, stream, how, "one compiled call", of_how, "called", {})
            elif ours:
                _rates(report, query, stream, how, "db.apply", of_how, "rate", {})
        if stream != "churn":
            _published(report, query, [cell.size for cell in of_query])


def _rates(
    report: Report,
    query: str,
    stream: str,
    how: str,
    where: str,
    cells: Sequence[Cell],
    rate: str,
    more: Mapping[str, Any],
) -> None:
    rates = {f"{cell.size:,}": getattr(cell, rate) for cell in cells}
    seen = min(cell.reached for cell in cells)
    report.row(query=query, stream=stream, how=how, where=where, **rates, **more, reached=seen)


def _published(report: Report, query: str, sizes: Iterable[int]) -> None:
    wanted = sorted(set(sizes))
    for system in ("DBToaster", "PostgreSQL, IVM", "PostgreSQL, re-evaluation"):
        figures = published.by_batch_size(query, system)
        rates = {f"{size:,}": figures.get(str(size)) for size in wanted}
        if figures:
            report.row(query=query, stream=published.MARK, how=system, where="Table A.1", **rates)
    single = published.single_tuple(query)
    if single:
        rates = {"1": single["DBTOASTER"]} if 1 in wanted else {}
        report.row(
            query=query, stream=published.MARK, how="DBToaster, single tuples", where="Figure 4.3", **rates
        )


def add_summary(report: Report, cells: Sequence[Cell]) -> None:
    """Geometric means over the queries of each workload, and the shares of the phases, by batch size."""
    mine = [cell for cell in cells if cell.how == DEFAULT]
    for (workload, stream), some in _grouped(mine, lambda cell: (_workload(cell), cell.stream)).items():
        by_size = _grouped(some, lambda cell: (cell.size,))
        for where, rate in (("inside", "inside"), ("db.apply", "rate")):
            means = {
                f"{size:,}": geometric_mean(getattr(cell, rate) for cell in of)
                for (size,), of in by_size.items()
            }
            what = f"{workload}, geometric mean of {len({cell.query for cell in some})}"
            report.row(query=what, stream=stream, how=DEFAULT, where=where, **means)
        got = {f"{size:,}": _processor(of) for (size,), of in by_size.items()}
        report.row(query=workload, stream=stream, how=DEFAULT, where="% processor time", **got)
        for phase in ("outside the engine", *some[0].phases):
            shares = {f"{size:,}": _share(phase, of) for (size,), of in by_size.items()}
            report.row(query=workload, stream=stream, how=DEFAULT, where=f"% {phase}", **shares)


def _processor(cells: Sequence[Cell]) -> float:
    """How much of the measured time this process had a processor, in percent: near 100 on a quiet machine."""
    return 100 * sum(cell.cpu for cell in cells) / sum(cell.seconds for cell in cells)


def _share(phase: str, cells: Sequence[Cell]) -> float:
    """The mean share of a phase in the time of `db.apply`, in percent."""
    shares = []
    for cell in cells:
        known = sum(cell.phases.values())
        shares.append((cell.phases[phase] if phase in cell.phases else cell.seconds - known) / cell.seconds)
    return 100 * sum(shares) / len(shares)


def _workload(cell: Cell) -> str:
    return cell.query.partition("_")[0]


def _grouped(
    cells: Iterable[Cell], key: Callable[[Cell], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[Cell]]:
    found: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(key(cell), []).append(cell)
    return found


# -- bars ------------------------------------------------------------------------------------------


def add_bars(report: Report, plan: Plan, cells: Sequence[Cell], flat: set[str]) -> None:
    """The bars on the insert stream that these cells can tell."""
    inserts = [cell for cell in cells if cell.stream in ("inserts", "book")]
    mine = [cell for cell in inserts if cell.how == DEFAULT]
    tpch = [cell for cell in mine if _workload(cell) == "tpch"]
    _rates_at(report, [cell for cell in tpch if cell.size == AT], flat)
    _above_thesis(report, plan, [cell for cell in tpch if cell.size == AT])
    _by_row(report, [cell for cell in inserts if cell.how == "by row" and cell.size == AT], flat)
    _single(report, [cell for cell in inserts if cell.how == "by row" and cell.size == AT])
    add_choices(report, inserts)
    _pathway(report, inserts)


def _rates_at(report: Report, cells: Sequence[Cell], flat: set[str]) -> None:
    whole = f"batch {AT:,}, TPC-H"
    if not cells:
        report.skip(whole, f"no cell with batches of {AT:,}")
        return
    for where, mean, least in (
        ("inside", geometric_mean(cell.inside for cell in cells), 3e6),
        ("db.apply", geometric_mean(cell.rate for cell in cells), 1e6),
    ):
        what = f"{whole}, geometric mean of {ALL}, {where}"
        if len(cells) == ALL:
            report.at_least(what, mean, least, "tuples/s")
        else:
            report.skip(what, f"needs all of them; of {len(cells)} it is {mean:,.0f}")
    slow = min(cells, key=lambda cell: cell.inside)
    report.at_least(f"{whole}, the slowest ({slow.query}), inside", slow.inside, 1e5, "tuples/s")
    some = [cell for cell in cells if cell.query in flat]
    if some:
        slow = min(some, key=lambda cell: cell.inside)
        what = f"{whole}, the slowest flat one of {len(some)} ({slow.query}), inside"
        report.at_least(what, slow.inside, 5e5, "tuples/s")


def _above_thesis(report: Report, plan: Plan, cells: Sequence[Cell]) -> None:
    for cell in cells:
        if cell.query.removeprefix("tpch_") not in ABOVE_THESIS:
            continue
        figure = published.by_batch_size(cell.query)[str(AT)]
        what = f"{cell.query} at scale factor 1, batch {AT:,}, above the thesis"
        if plan.sf < 1:
            report.skip(what, f"needs --sf 1; at {plan.sf:g} it is {cell.inside:,.0f} against {figure:,.0f}")
        else:
            report.at_least(what, cell.inside, float(figure or 0), "tuples/s")


def _by_row(report: Report, cells: Sequence[Cell], flat: set[str]) -> None:
    """Single tuples inside of one compiled call."""
    some = [cell for cell in cells if cell.query in flat and _workload(cell) == "tpch"]
    what = f"row by row inside one compiled call, {len(some)} flat queries"
    if not some:
        report.skip(what, f"no cell 'by row' with batches of {AT:,}")
        return
    report.at_least(f"{what}, geometric mean", geometric_mean(cell.called for cell in some), 2e6, "tuples/s")
    slow = min(some, key=lambda cell: cell.called)
    report.at_least(f"{what}, the slowest ({slow.query})", slow.called, 3e5, "tuples/s")


def _single(report: Report, cells: Sequence[Cell]) -> None:
    """A refresh after each row, inside of one compiled call."""
    for name, least in (("finance_vwap", 5e5), ("finance_mst", 5e5), ("finance_psp", 2e5)):
        for cell in cells:
            if cell.query == name:
                what = f"{name}, row by row inside one compiled call"
                report.at_least(what, cell.called, least, "refreshes/s")


def add_choices(report: Report, cells: Sequence[Cell], how: str = "") -> None:
    """The bars on the default strategy among all of ours; `how` says how they were measured."""
    _best(report, cells, how)
    _memory(report, cells, how)


def _best(report: Report, cells: Sequence[Cell], how: str) -> None:
    """The default against the best strategy, by all work after conversion."""
    worst, all_ = (0.0, ""), 0
    ways = [c for c in cells if c.phases and c.how not in FORMS]
    for (query, size), some in _grouped(ways, lambda c: (c.query, c.size)).items():
        mine = [cell for cell in some if cell.how == DEFAULT]
        if mine and len(some) > 1:
            best = max(some, key=lambda cell: cell.upkeep)
            worst = max(worst, (best.upkeep / mine[0].upkeep, f"{query}, batch {size:,}: {best.how}"))
            all_ += 1
    if all_:
        what = f"the default against the best strategy{how}, worst of {all_} ({worst[1]})"
        report.below(what, worst[0], WITHIN, "times its time")
    else:
        report.skip(f"the default against the best strategy{how}", "only one was measured")


def _memory(report: Report, cells: Sequence[Cell], how: str) -> None:
    """Memory at the end of the stream, base tables included, against first-order with projection."""
    ended = [c for c in cells if _workload(c) == "tpch" and c.reached == 1 and c.sizes]
    good = total = 0
    for some in _grouped(ended, lambda cell: (cell.query,)).values():
        held = {cell.how: cell.sizes["bytes"] for cell in some}
        if DEFAULT in held and "first-order-projected" in held:
            total += 1
            good += held[DEFAULT] <= held["first-order-projected"]
    what = f"memory at most that of first-order with projection{how}"
    if total < ALL:
        report.skip(what, f"needs all {ALL} queries to their end; of {total} it holds for {good}")
    else:
        report.at_least(f"{what}, of {ALL} queries", good, 18)


def _pathway(report: Report, cells: Sequence[Cell]) -> None:
    what = "against Pathway, the least ratio, db.apply"
    ratios = []
    for some in _grouped(cells, lambda cell: (cell.query, cell.size)).values():
        rate = {cell.how: cell.rate for cell in some}
        if DEFAULT in rate and rate.get("pathway"):
            ratios.append(rate[DEFAULT] / rate["pathway"])
    if ratios:
        report.at_least(f"{what} of {len(ratios)}", min(ratios), 10.0, "times")
    else:
        report.skip(what, "no cell of both")
