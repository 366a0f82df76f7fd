"""Ordered spaces of bytes: what a partition of an embedded store is kept in, and one in memory.

A space writes a list of keys at once, and can be pinned: what is read through the pin is the space at that
moment. Invariant: no reader ever sees a part of what one `apply` wrote, except between two calls of `range`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Protocol

Pairs = list[tuple[bytes, bytes]]


class View(Protocol):
    """Reads of a space."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        ...

    def range(self, lo: bytes, hi: bytes | None, limit: int) -> Pairs:
        """The first keys from `lo` to before `hi` with their values, at most `limit`, as of one moment."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Space(View, Protocol):
    """A space that is written by one process."""

    pins: bool
    """Whether a pin costs no more than a read."""

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of several keys."""
        ...

    def apply(self, writes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write all of these or none; None deletes."""
        ...

    def drop(self, lo: bytes, hi: bytes) -> None:
        """Delete the keys from `lo` to before `hi`."""
        ...

    def pin(self) -> View:
        """The space as it is now."""
        ...

    def flush(self) -> None:
        """Have on disk what was written until now."""
        ...


class MemorySpace:
    """A space in memory.

    >>> space = MemorySpace()
    >>> space.apply([(b"b", b"1"), (b"a", b"2")])
    >>> pinned = space.pin()
    >>> space.apply([(b"a", None)])
    >>> space.range(b"", None, 9), pinned.range(b"", None, 9)
    ([(b'b', b'1')], [(b'a', b'2'), (b'b', b'1')])
    """

    pins = False

    def __init__(self, values: dict[bytes, bytes] | None = None, keys: list[bytes] | None = None) -> None:
        self._values = values if values is not None else {}
        self._keys = keys if keys is not None else []

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._values.get(key)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of several keys."""
        return [self._values.get(key) for key in keys]

    def range(self, lo: bytes, hi: bytes | None, limit: int) -> Pairs:
        """The first keys from `lo` to before `hi` with their values."""
        start = bisect_left(self._keys, lo)
        end = len(self._keys) if hi is None else bisect_left(self._keys, hi)
        return [(key, self._values[key]) for key in self._keys[start : min(end, start + limit)]]

    def apply(self, writes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write all of these."""
        for key, value in writes:
            if value is None:
                if self._values.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
            else:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value

    def drop(self, lo: bytes, hi: bytes) -> None:
        """Delete the keys from `lo` to before `hi`."""
        self.apply([(key, None) for key, _ in self.range(lo, hi, len(self._keys))])

    def pin(self) -> MemorySpace:
        """A copy."""
        return MemorySpace(dict(self._values), list(self._keys))

    def flush(self) -> None:
        """There is no disk."""

    def close(self) -> None:
        """Nothing is held."""
