"""The MK tree: which keys were touched, as intervals of keys that follow each other.

Section 6.2.3 of the thesis on key-value views. Keys whose last column is an integer merge with their
neighbours, so a table that was changed everywhere takes one interval; other keys are points. New keys wait in
a buffer, which is merged when it is full. Invariant: the tree has a key exactly if it was added.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from everfresh.types import TableSchema

BUFFER = 4096


def steps(schema: TableSchema) -> bool:
    """Whether keys of a table have neighbours: their last column is an integer."""
    return schema.column((schema.key or schema.names)[-1]).type.is_integer


def successor(key: bytes) -> bytes:
    """The next key of a table whose last column is an integer.

    >>> successor(b"\\x01\\x00"), successor(b"\\x01\\xff")
    (b'\\x01\\x01', b'\\x02\\x00')
    """
    if key == b"\xff" * len(key):
        return key + b"\0"
    return (int.from_bytes(key, "big") + 1).to_bytes(len(key), "big")


class MKTree:
    """A set of keys.

    >>> tree = MKTree(steps=True)
    >>> for n in (3, 1, 2, 7):
    ...     tree.add(bytes([1, n]))
    >>> tree.intervals, bytes([1, 2]) in tree, bytes([1, 4]) in tree, len(list(tree))
    (2, True, False, 4)
    """

    def __init__(self, *, steps: bool, buffer: int = BUFFER) -> None:
        self._steps, self._size = steps, buffer
        self._los: list[bytes] = []
        self._his: list[bytes] = []
        self._waiting: set[bytes] = set()

    def add(self, key: bytes) -> None:
        """Add a key."""
        self._waiting.add(key)
        if len(self._waiting) >= self._size:
            self._merge()

    def __contains__(self, key: bytes) -> bool:
        at = bisect_right(self._los, key) - 1
        return key in self._waiting or (at >= 0 and key < self._his[at])

    def __iter__(self) -> Iterator[bytes]:
        """The keys in their order."""
        self._merge()
        for lo, hi in zip(self._los, self._his, strict=True):
            yield lo
            if self._steps:
                key = successor(lo)
                while key < hi:
                    yield key
                    key = successor(key)

    @property
    def intervals(self) -> int:
        """How many intervals there are."""
        self._merge()
        return len(self._los)

    def _after(self, key: bytes) -> bytes:
        return successor(key) if self._steps else key + b"\0"

    def _merge(self) -> None:
        if not self._waiting:
            return
        new = [(key, self._after(key)) for key in self._waiting if not self._held(key)]
        self._waiting.clear()
        los, his = list[bytes](), list[bytes]()
        for lo, hi in sorted([*zip(self._los, self._his, strict=True), *new]):
            if self._steps and his and lo == his[-1] and len(lo) == len(los[-1]):
                his[-1] = hi
            else:
                los.append(lo)
                his.append(hi)
        self._los, self._his = los, his

    def _held(self, key: bytes) -> bool:
        at = bisect_right(self._los, key) - 1
        return at >= 0 and key < self._his[at]


__all__ = ["MKTree", "steps", "successor"]
