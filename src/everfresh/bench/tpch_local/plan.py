"""What a run measures: queries, batch sizes, ways to maintain a view, and how long each cell may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from everfresh.bench import Settings
from everfresh.errors import Code, EverfreshError
from everfresh.workloads import WORKLOADS, Query

SECTIONS = ("inserts", "churn", "refresh", "micro", "durability")
SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
MODES = ("auto", "higher-order", "first-order", "first-order-projected", "re-evaluate")
FORMS = ("interpreter", "by row")
"""Other ways to run the default strategy: nothing compiled; every batch row by row inside compiled calls."""
PEERS = ("duckdb", "pathway")
CLOCKS = ("wall", "processor")
_WORKLOADS = ("tpch", "finance", "tpcds")
_QUICK_QUERIES = ("tpch_q03", "finance_vwap", "tpcds_q03")

OPTIONS = {
    "queries": "names or workloads, such as tpch,finance_vwap; all unless given",
    "sizes": "batch sizes: " + ",".join(map(str, SIZES)),
    "how": "strategies and peers: " + ",".join((*MODES, *FORMS, *PEERS)),
    "sections": ",".join(SECTIONS),
    "seconds": "time of a cell that is measured: 3",
    "patience": "how many times that a cell may take in all, untimed parts of its stream included: 10",
    "clock": "what streams are measured by: wall, or processor where others use the machine",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    sf: float
    queries: tuple[Query, ...]
    sizes: tuple[int, ...]
    modes: tuple[str, ...]
    forms: tuple[str, ...]
    peers: tuple[str, ...]
    sections: tuple[str, ...]
    seconds: float
    patience: float
    clock: str
    quick: bool


def plan_of(settings: Settings) -> Plan:
    """The plan that settings ask for."""
    given, quick = settings.options, settings.quick
    usual = MODES + PEERS if quick else MODES + FORMS + PEERS  # compiling takes more than seconds
    how = _names(given, "how", MODES + FORMS + PEERS, usual)
    return Plan(
        sf=settings.sf or (0.001 if quick else 0.1),
        queries=_queries(given.get("queries", ",".join(_QUICK_QUERIES if quick else _WORKLOADS))),
        sizes=_sizes(given.get("sizes", "1,100" if quick else ",".join(map(str, SIZES)))),
        modes=tuple(mode for mode in MODES if mode in how),
        forms=tuple(form for form in FORMS if form in how),
        peers=tuple(peer for peer in PEERS if peer in how),
        sections=_names(given, "sections", SECTIONS, SECTIONS),
        seconds=_number(given, "seconds", 0.05 if quick else 3.0),
        patience=_number(given, "patience", 10.0),
        clock=_names(given, "clock", CLOCKS, CLOCKS[:1])[0],
        quick=quick,
    )


def _names(
    given: Mapping[str, str], option: str, known: Sequence[str], default: Iterable[str]
) -> tuple[str, ...]:
    names = _split(given[option]) if option in given else tuple(default)
    for name in names:
        if name not in known:
            raise _wrong(option, f"'{name}' is none of {', '.join(known)}")
    return tuple(name for name in known if name in names)


def _queries(text: str) -> tuple[Query, ...]:
    known = {query.view: query for name in _WORKLOADS for query in WORKLOADS[name].queries}
    found: dict[str, Query] = {}
    for name in _split(text):
        some = [view for view in known if view == name or view.startswith(f"{name}_")]
        if not some:
            raise _wrong("queries", f"there is no query '{name}'")
        found.update({view: known[view] for view in some})
    return tuple(query for view, query in known.items() if view in found)


def _sizes(text: str) -> tuple[int, ...]:
    sizes = [int(item) if item.isdigit() else 0 for item in _split(text)]
    if not sizes or min(sizes) < 1:
        raise _wrong("sizes", f"'{text}' are no batch sizes")
    return tuple(sorted(set(sizes)))


def _number(given: Mapping[str, str], option: str, default: float) -> float:
    try:
        value = float(given.get(option, default))
    except ValueError:
        value = 0.0
    if not value > 0:
        raise _wrong(option, f"'{given[option]}' is not a number above zero")
    return value


def _split(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _wrong(option: str, message: str) -> EverfreshError:
    return EverfreshError(Code.ARGUMENT, message, place=option, hint=OPTIONS[option])
