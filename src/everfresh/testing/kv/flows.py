"""Views for simulations: sums, minima and joins of small tables, as dataflows and as functions of the base.

Rows of the base are JSON `[group, number]`. Invariant: after any changes the rows of a flow are what
`rows_of` says of the base; a test holds this without any protocol.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from everfresh.kv.protocol.dataflow import Contribution, OneRound, ViewRow
from everfresh.kv.protocol.timeline import Change

VIEW = "v"
Base = Mapping[tuple[str, bytes], bytes]
"""Rows by table and key."""


def value_of(group: str, number: int) -> bytes:
    """A row of the base."""
    return json.dumps([group, number]).encode()


class _Flow(OneRound):
    tables: tuple[str, ...] = ("r",)
    version = 1

    def is_new(self, row: ViewRow, version: int) -> bool:
        """All rows are of one view."""
        return version < self.version

    def blank(self, worker: int, workers: int) -> Any:
        """The maps of one worker, empty."""
        return defaultdict(Counter)

    def route(self, changes: Sequence[Change], workers: int) -> list[Contribution]:
        """What goes and what comes, by group."""
        found = []
        for change in changes:
            for value, weight in ((change.before, -1), (change.after, 1)):
                if value is not None:
                    group, number = json.loads(value)
                    found.append(Contribution(group, (change.table, change.key, number, weight)))
        return found

    def apply(self, maps: Any, given: Iterable[Contribution]) -> list[ViewRow]:
        """Change the maps; the view rows that have changed."""
        by_group: dict[Any, list[Any]] = defaultdict(list)
        for contribution in given:
            by_group[contribution.key].append(contribution.delta)
        rows = []
        for group, deltas in sorted(by_group.items()):
            before = self.shown(group, maps[group])
            self.change(maps[group], deltas)
            after = self.shown(group, maps[group])
            for key in sorted({*before, *after}):
                if before.get(key) != after.get(key):
                    rows.append(ViewRow(VIEW, key, after.get(key)))
        return rows

    def change(self, of: Counter[Any], deltas: Sequence[Any]) -> None:
        """Add to the map of one group. What is there -1 times stays: it shows that something is wrong."""
        for table, key, number, weight in deltas:
            of[table, key, number] += weight
            if not of[table, key, number]:
                del of[table, key, number]

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """The view rows of one group."""
        raise NotImplementedError

    def rows_of(self, base: Base) -> dict[bytes, bytes]:
        """The view of a base."""
        groups: dict[str, Counter[Any]] = defaultdict(Counter)
        for (table, key), value in base.items():
            group, number = json.loads(value)
            groups[group][table, key, number] += 1
        return {k: v for group, of in groups.items() for k, v in self.shown(group, of).items()}


class SumFlow(_Flow):
    """SELECT group, SUM(number) FROM r GROUP BY group: kept as sum and count, and not by record."""

    def change(self, of: Counter[Any], deltas: Sequence[Any]) -> None:
        """Add to sum and count."""
        for _, _, number, weight in deltas:
            of["sum"] += number * weight
            of["n"] += weight

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """One row, if the group has records."""
        if "n" not in of:  # of `rows_of`: by record
            of = {"sum": sum(number for _, _, number in of), "n": len(of)}
        return {group.encode(): b"%d" % of["sum"]} if of["n"] else {}


class MinFlow(_Flow):
    """SELECT group, MIN(number) FROM r GROUP BY group."""

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """One row, if the group has records."""
        return {group.encode(): b"%d" % min(number for _, _, number in of)} if of else {}


class DeltaFlow(_Flow):
    """SELECT key, group, number FROM r: every record is a row."""

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """A row for each record of the group."""
        return _rows((b"%s|%s" % (group.encode(), key), number, n) for (_, key, number), n in of.items())


class TopFlow(_Flow):
    """The two greatest numbers of each group."""

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """A row for each place."""
        listed = sorted(((number, key) for (_, key, number) in of), reverse=True)[:2]
        return {b"%s|%d" % (group.encode(), i): repr(found).encode() for i, found in enumerate(listed)}


def _rows(found: Iterable[tuple[bytes, Any, int]]) -> dict[bytes, bytes]:
    """Rows by key, with how often each is there."""
    rows: dict[bytes, list[Any]] = defaultdict(list)
    for key, value, n in found:
        rows[key].append((value, n))
    return {key: repr(sorted(of)).encode() for key, of in rows.items()}


class _TwoTables(_Flow):
    tables = ("r", "s")

    def sides(self, of: Any) -> tuple[list[tuple[bytes, int, int]], list[tuple[bytes, int, int]]]:
        """The records of both tables that have one value of the join's column."""
        left = [(key, number, n) for (table, key, number), n in of.items() if table == "r"]
        right = [(key, number, n) for (table, key, number), n in of.items() if table == "s"]
        return left, right


class HalfFlow(_TwoTables):
    """Records of r whose group s has (semi), or has not (anti)."""

    def __init__(self, anti: bool) -> None:
        self.anti = anti

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """A row for each record that counts."""
        left, right = self.sides(of)
        if bool(right) == self.anti:
            return {}
        return _rows((b"%s|%s" % (group.encode(), key), number, n) for key, number, n in left)


class JoinFlow(_TwoTables):
    """SELECT * FROM r JOIN s USING (group); an outer join keeps what has no partner on the other side."""

    def __init__(self, left: bool = False, right: bool = False) -> None:
        self.keeps = left, right

    def shown(self, group: str, of: Any) -> dict[bytes, bytes]:
        """A row for each pair."""
        left, right = self.sides(of)
        if self.keeps[0] and not right:
            return _rows((b"%s|%s|" % (group.encode(), key), number, n) for key, number, n in left)
        if self.keeps[1] and not left:
            return _rows((b"%s||%s" % (group.encode(), key), number, n) for key, number, n in right)
        pairs: dict[bytes, list[tuple[int, int, int]]] = defaultdict(list)
        for a, x, n in left:
            for b, y, m in right:
                pairs[b"%s|%s|%s" % (group.encode(), a, b)].append((x, y, n * m))
        return {key: repr(sorted(of)).encode() for key, of in pairs.items()}
