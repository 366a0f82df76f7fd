"""What statements cost: time and rows of each over the last batches, once somebody has asked.

Nothing is measured before `EXPLAIN ANALYZE` has been asked of a view: a batch then looks at a clock twice for
each statement, step and map. A compiled function runs several statements in one call; its time is divided
among them by the entries that they visited. Statements that run beside each other in threads are each as long
as they took. Invariant: what a batch that was refused has cost is not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everfresh.expr import stored, told

if TYPE_CHECKING:
    from everfresh.compiler import CompiledView

KEPT = 100
"""Batches that are looked back at."""
Key = tuple[str, str, int]
"""A view, what changes, and the number of its statement, or: the view, a relation and STEP; '', a map or a
table and ADD."""
STEP, ADD, ANEW = -1, -2, -3


@dataclass(slots=True)
class Spent:
    """What something has cost in some batches."""

    runs: int = 0
    seconds: float = 0.0
    rows: int = 0
    visited: int = 0
    made: int = 0

    def add(self, other: Spent) -> None:
        """With what it has cost elsewhere."""
        self.runs += other.runs
        self.seconds += other.seconds
        self.rows += other.rows
        self.visited += other.visited
        self.made += other.made


class Measured:
    """What the last batches have cost.

    >>> measured = Measured()
    >>> measured.begin(); measured.add(("v", "t", 0), 0.5, rows=3, visited=6, made=1)
    >>> measured.begin(); measured.forget()
    >>> measured.batches, measured.total()[("v", "t", 0)]
    (1, Spent(runs=1, seconds=0.5, rows=3, visited=6, made=1))
    """

    def __init__(self) -> None:
        self._last: deque[dict[Key, Spent]] = deque(maxlen=KEPT)

    @property
    def batches(self) -> int:
        """How many are known."""
        return len(self._last)

    def begin(self) -> None:
        """A batch begins."""
        self._last.append({})

    def forget(self) -> None:
        """It was refused."""
        if self._last:
            self._last.pop()

    def add(self, key: Key, seconds: float, *, rows: int = 0, visited: int = 0, made: int = 0) -> None:
        """Something took so long."""
        if self._last:
            known = self._last[-1].setdefault(key, Spent())
            known.add(Spent(1, seconds, rows, visited, made))

    def share(self, seconds: float, rows: int, of: Iterable[tuple[Key, int, int]]) -> None:
        """Several statements took so long together; of each, what it visited and made."""
        known = list(of)
        whole = sum(visited + 1 for _, visited, _ in known)
        for key, visited, made in known:
            self.add(key, seconds * (visited + 1) / whole, rows=rows, visited=visited, made=made)

    def total(self) -> dict[Key, Spent]:
        """What everything has cost."""
        found: dict[Key, Spent] = {}
        for batch in list(self._last):
            for key, spent in batch.items():
                found.setdefault(key, Spent()).add(spent)
        return found


def analyzed(compiled: CompiledView, measured: Measured, sharing: Mapping[str, Sequence[str]]) -> str:
    """What the program of a view has cost, as text."""
    found = measured.total()
    view = compiled.view.name
    head = f"ANALYZE {view}: the last {measured.batches} batches"
    if not measured.batches:
        return (
            f"ANALYZE {view}: no batch was measured yet; those from now on are, until the database is closed"
        )
    owner = {name: views[0] for name, views in sharing.items()}
    rows: list[tuple[str, Spent | None]] = []
    every = Spent()
    for line, keys in _lines(compiled, owner):
        spent = Spent()
        for key in keys:
            if key in found:
                spent.add(found[key])
        rows.append((line, spent if keys else None))
        every.add(spent)
    lines = [f"{head}, {_ms(every.seconds)} ms in it", ""]
    lines.append(f"{'ms':>10} {'runs':>6} {'rows':>8} {'visited':>8} {'made':>8}")
    for line, cost in rows:
        if cost is None:
            lines.append(f"{'':>10} {'':>6} {'':>8} {'':>8} {'':>8}  {line}")
            continue
        numbers = f"{cost.runs:>6} {cost.rows:>8} {cost.visited:>8} {cost.made:>8}"
        lines.append(f"{_ms(cost.seconds):>10} {numbers}  {line}")
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


def _lines(compiled: CompiledView, owner: Mapping[str, str]) -> Iterator[tuple[str, list[Key]]]:
    """The parts of a program, with what they are known by."""
    from everfresh.compiler.listing import shower

    view, program, show = compiled.view.name, compiled.program, shower(compiled)
    if compiled.reevaluated:
        yield "computed anew", [(view, "", ANEW)]
    relations = {relation.name for relation in program.relations}
    for trigger in program.triggers:
        if trigger.base in relations:
            yield f"step of {told(trigger.base)}", [(view, trigger.base, STEP)]
        yield f"ON {told(trigger.base)}", []
        for index, s in enumerate(trigger.statements):
            yield f"  {stored(s.target)} {s.op} {show(s.expr)}", [(view, trigger.base, index)]
    stepped = {trigger.base for trigger in program.triggers}
    for relation in program.relations:
        if relation.name not in stepped:
            yield f"step of {told(relation.name)}", [(view, relation.name, STEP)]
    yield "MAPS", []
    for m in (*program.maps, *program.shared):
        of = owner.get(m.name, view)
        beside = "" if of == view else f" (kept by {of})"
        yield f"  {stored(m.name)}{beside}", [("", m.name, ADD)]
