"""Earlier values of matrices and of the outputs of views: the last epochs, as what they are got back by.

From the value now one goes back epoch by epoch (`Before.of`); a change of low rank costs its factors to keep.
Invariant: what is asked for at an epoch differs from what was there then by rounding at most. Not more than
`BYTES` are kept: then the oldest epochs go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.delta.bags import weigh
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.run.before import Before, UsedArray
from everfresh.state import pack_arrays, plain, unpack_arrays

BYTES = 256 << 20
ROW = "row"


class Past:
    """What is kept of the last epochs, by name."""

    def __init__(self, kept: int, since: int = 0) -> None:
        self._epochs: deque[tuple[int, dict[str, Before]]] = deque()
        self._kept, self._since, self._bytes = kept, since, 0
        self._begun: dict[str, int] = {}
        """The epochs before which nobody knows what a matrix was."""

    def add(self, epoch: int, changes: Mapping[str, Before | None]) -> None:
        """An epoch is committed that changed these; None if what was before cannot be got back."""
        known = {name: before for name, before in changes.items() if before is not None}
        self._begun.update({name: epoch for name in changes if name not in known})
        self._epochs.append((epoch, known))
        self._bytes += sum(before.nbytes for before in known.values())
        while self._epochs and (self._epochs[0][0] <= epoch - self._kept or self._bytes > BYTES):
            at, gone = self._epochs.popleft()
            self._bytes -= sum(before.nbytes for before in gone.values())
            self._since = max(self._since, at)

    def prune(self, created: Mapping[str, int]) -> None:
        """Forget what nobody can ask for: of matrices that are gone, or were made after it."""
        for epoch, changes in self._epochs:
            for name in [n for n in changes if created.get(n, epoch) >= epoch]:
                self._bytes -= changes.pop(name).nbytes
        self._begun = {name: epoch for name, epoch in self._begun.items() if name in created}

    def oldest(self, name: str, last: int) -> int:
        """The earliest epoch whose value is known."""
        return max(self._since, self._begun.get(name, 0), last - self._kept)

    def back(self, name: str, now: UsedArray, since: int) -> Iterator[tuple[int, UsedArray, UsedArray]]:
        """The epochs after `since` that changed it, last first: with the values after and before."""
        for epoch, changes in reversed(self._epochs):
            if epoch <= since:
                return
            if name in changes:
                before = changes[name].of(now)
                yield epoch, now, before
                now = before

    def at(self, name: str, now: UsedArray, epoch: int) -> UsedArray:
        """The value at an earlier epoch."""
        for _, _, before in self.back(name, now, epoch):
            now = before
        return now

    # -- snapshots ---------------------------------------------------------------------------------

    def to_sections(self, prefix: str) -> dict[str, bytes]:
        """As sections of a snapshot."""
        found = {f"{prefix}since": str(self._since).encode()}
        for epoch, changes in self._epochs:
            for name, before in changes.items():
                found[f"{prefix}{epoch}/{name}"] = pack_arrays(before.to_arrays())
        for name, epoch in self._begun.items():
            found[f"{prefix}begun/{name}"] = str(epoch).encode()
        return found

    def load(self, prefix: str, sections: Mapping[str, Any]) -> None:
        """The inverse of `to_sections`."""
        known: dict[int, dict[str, Before]] = {}
        for section, data in sections.items():
            if not section.startswith(prefix):
                continue
            first, _, name = section.removeprefix(prefix).partition("/")
            if first == "since":
                self._since = _epoch(data)
            elif first == "begun":
                self._begun[name] = _epoch(data)
            else:
                known.setdefault(int(first), {})[name] = Before.from_arrays(unpack_arrays(data))
        self._epochs.extend(sorted(known.items()))
        self._bytes = sum(before.nbytes for changes in known.values() for before in changes.values())


def _epoch(data: Any) -> int:
    found = plain(data, "the past of matrices")
    if not isinstance(found, int):
        raise EverfreshError(Code.DAMAGED, "the past of matrices is damaged: it has no epoch")
    return found


def rows_of(matrix: np.ndarray[Any, Any]) -> pa.Table:
    """A matrix as rows: the number of each, and its entries as c0, c1, ...

    >>> rows_of(np.eye(2)).to_pydict()
    {'row': [0, 1], 'c0': [1.0, 0.0], 'c1': [0.0, 1.0]}
    """
    entries = {f"c{j}": np.ascontiguousarray(matrix[:, j]) for j in range(matrix.shape[1])}
    return pa.table({ROW: np.arange(matrix.shape[0]), **entries})


def difference(after: np.ndarray[Any, Any], before: np.ndarray[Any, Any], columns: int) -> pa.Table:
    """The rows that went and those that came, with `_weight`, as matrices of so many columns: what was wider
    is cut, what was narrower has zeros.

    >>> after, before = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> difference(after, before, 1).to_pylist()
    [{'row': 1, 'c0': 3.0, '_weight': -1}, {'row': 1, 'c0': 2.0, '_weight': 1}]
    """
    after, before = _fitted(after, columns), _fitted(before, columns)
    both = min(len(after), len(before))
    same = np.zeros(max(len(after), len(before)), bool)
    same[:both] = (after[:both] == before[:both]).all(axis=1)
    went, came = (rows.filter(pa.array(~same[: rows.num_rows])) for rows in (rows_of(before), rows_of(after)))
    return pa.concat_tables([weigh(went, -1), weigh(came)])


def _fitted(matrix: np.ndarray[Any, Any], columns: int) -> np.ndarray[Any, Any]:
    if matrix.shape[1] == columns:
        return matrix
    found = np.zeros((matrix.shape[0], columns))
    found[:, : matrix.shape[1]] = matrix[:, :columns]
    return found
