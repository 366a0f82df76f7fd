"""Rows of tables as streams and signals: where every query begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.aggregate import PayloadType
from everfresh.signals.queries.base import UNITS, Ticks, query, ticks


def reading(
    table: str,
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    value: str | Sequence[str] | None = None,
    end: str | None = None,
    duration: Ticks | None = None,
    where: str | None = None,
    lateness: Ticks = 0,
    late: str = "refuse",
    deletes: str = "revise",
    order: str = "table",
    retain: Ticks | None = None,
    idle: Ticks | None = None,
    nan: str = "keep",
    overlap: bool = False,
    unit: str = "us",
    type: PayloadType | None = None,
) -> Any:
    """Rows of a table as a signal, or with `overlap=True` as a stream. `value` is `"value"` if not given.
    After a pause of more than `idle` a group begins anew: filters that feed back forget.
    `type` gives values of several columns arithmetic of their own."""
    for name, given, allowed in (
        ("late", late, ("refuse", "drop", "revise")),
        ("deletes", deletes, ("revise", "refuse")),
        ("order", order, ("table", "group")),
        ("nan", nan, ("keep", "missing")),
        ("unit", unit, (*UNITS, "d")),
    ):
        if given not in allowed:
            raise EverfreshError(
                Code.ARGUMENT, f"{name}={given!r} is none of {', '.join(map(repr, allowed))}", place="reading"
            )
    if end is not None and duration is not None:
        raise EverfreshError(Code.ARGUMENT, "end= and duration= are given, and one of them is enough")
    length = None if duration is None else ticks(duration, unit, "duration")
    if length is not None and length < 1:
        raise faults.period(f"duration {length} is not positive", "a point lasts one tick")
    waits = ticks(lateness, unit, "lateness")
    if waits < 0:
        raise faults.period(f"lateness {waits} is negative", "0 refuses what is late")
    rest = None if idle is None else ticks(idle, unit, "idle")
    if rest is not None and rest < 0:
        raise faults.period(f"idle {rest} is negative", "the longest pause after which a group goes on")
    node = n.Reading(
        table, time, _names(key), _names("value" if value is None else value), end, length, where, waits,
        late, order, nan, overlap, unit, deletes, rest,
        None if retain is None else ticks(retain, unit, "retain"),
        None if type is None else type.node(),
    )  # fmt: skip
    return query(node)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


class Reference:
    """A table with one row for each group: what is known of a sensor, say, and may change."""

    def __init__(self, node: n.Reading) -> None:
        self.node = node


def reference(table: str, *, key: str | Sequence[str], value: str | Sequence[str]) -> Reference:
    """Rows of a table to be joined to a signal by its key; `value` are columns of numbers."""
    return Reference(n.Reading(table, "", _names(key), _names(value), late="revise", order="group"))
