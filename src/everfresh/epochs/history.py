"""The changes of the last epochs, by name: what `changes(since)` and `at=` are answered from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from everfresh.delta.bags import EPOCH, net, subtract, weigh
from everfresh.epochs.domain import Published
from everfresh.program.engine import check_epoch
from everfresh.state import pack_table, unpack_table
from everfresh.types import no_rows

P = TypeVar("P", bound=Published)


class RowChange:
    """A change of rows that is made when it is asked for, or was made."""

    __slots__ = ("_make", "_table")

    def __init__(self, make: Callable[[], pa.Table]) -> None:
        self._make: Callable[[], pa.Table] | None = make
        self._table: pa.Table | None = None

    @property
    def table(self) -> pa.Table:
        """The rows that came and went, with `_weight`."""
        if self._table is None:
            assert self._make is not None
            self._table, self._make = self._make(), None
        return self._table


class History(Generic[P]):
    """What was published in the last epochs: `kept` of them, as far back as `since` at most. An epoch in
    which nothing was published need not be added."""

    def __init__(
        self,
        kept: int,
        made: Callable[[Callable[[], pa.Table]], P],
        since: int = 0,
        mapping: Callable[[], MutableMapping[str, P]] = dict,
    ) -> None:
        self._epochs: deque[tuple[int, MutableMapping[str, P]]] = deque()
        self._kept, self._made, self._since, self._mapping = kept, made, since, mapping

    def add(self, epoch: int, changes: MutableMapping[str, P]) -> None:
        """An epoch is committed, and this was published."""
        self._epochs.append((epoch, changes))
        while self._epochs and self._epochs[0][0] <= epoch - self._kept:
            self._epochs.popleft()

    def prune(self, created: Mapping[str, int]) -> None:
        """Forget the changes that nobody can ask for: of objects that are gone, or were made after them."""
        for epoch, changes in self._epochs:
            for name in [n for n in changes if created.get(n, epoch) >= epoch]:
                del changes[name]

    def epochs(self) -> Iterator[MutableMapping[str, P]]:
        """What was published, epoch by epoch."""
        return (changes for _, changes in self._epochs)

    def __iter__(self) -> Iterator[P]:
        return (change for _, changes in self._epochs for change in changes.values())

    def oldest(self, last: int) -> int:
        """The earliest epoch that can be asked for, if `last` is the last."""
        return max(self._since, last - self._kept)

    def after(self, name: str, since: int, created: int) -> list[tuple[int, pa.Table]]:
        """The changes of an object in the epochs after `since`."""
        since = max(since, created)
        return [(epoch, some[name].table) for epoch, some in self._epochs if epoch > since and name in some]

    def at(self, name: str, rows: pa.Table, at: int, created: int) -> pa.Table:
        """The rows of an object at an earlier epoch, given those of the last."""
        later = [table for _, table in self.after(name, at, created)]
        return subtract(rows, net(pa.concat_tables(later))) if later else rows

    def changes(
        self,
        name: str,
        since: int | None,
        created: int,
        last: int,
        rows: Callable[[], pa.Table],
        schema: pa.Schema,
    ) -> pa.Table:
        """The change of each epoch after `since`, with `_epoch`; what an object held when it was created is
        its first. `rows` are those of the last epoch, `schema` is that of changes, with `_weight`."""
        oldest = self.oldest(last)
        since = oldest if since is None else since
        check_epoch(name, since, oldest, last)
        parts = self.after(name, since, created)
        if since < created:
            parts.insert(0, (created, net(weigh(self.at(name, rows(), created, created)))))
        return with_epochs(parts, schema)

    # -- snapshots ---------------------------------------------------------------------------------

    def to_sections(self, prefix: str, table: Callable[[P], pa.Table]) -> dict[str, bytes]:
        """The changes as sections of a snapshot; `table` makes the rows of one."""
        sections = {}
        for epoch, changes in list(self._epochs):
            sections[f"{prefix}{epoch}"] = b""
            for name, change in changes.items():
                rows = table(change)
                if rows.num_rows:
                    sections[f"{prefix}{epoch}/{name}"] = pack_table(rows)
        return sections

    def load(self, prefix: str, sections: Mapping[str, Any]) -> None:
        """The inverse of `to_sections`."""
        known: dict[int, MutableMapping[str, P]] = {}
        for section, data in sections.items():
            if section.startswith(prefix):
                epoch, _, name = section.removeprefix(prefix).partition("/")
                changes = known.setdefault(int(epoch), self._mapping())
                if name:
                    changes[name] = self._made(partial(unpack_table, data))
        if known:
            self._epochs.extend((epoch, known[epoch]) for epoch in sorted(known))
            self._since = self._epochs[0][0] - 1


def with_epochs(parts: list[tuple[int, pa.Table]], schema: pa.Schema) -> pa.Table:
    """Changes of several epochs as one table with `_epoch`; `schema` is that of one change."""
    schema = schema.append(pa.field(EPOCH, pa.int64(), nullable=False))
    tables = [
        t.append_column(EPOCH, pa.array(np.full(t.num_rows, epoch, np.int64))).cast(schema)
        for epoch, t in parts
        if t.num_rows
    ]
    return pa.concat_tables(tables) if tables else no_rows(schema)
