"""The values of entries: a count and components, and how the components of a pool lie in arrays.

A component (`Kind`) is COUNT, one int64; WIDE, a 128-bit integer, the signed high word and then the unsigned
low word with its bits as an int64; or FLOAT, three float64: a sum, its rounding errors and theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.local.kernels import pool_values
from everfresh.local.kernels.hashing import Floats, Ints

WORD: Final = (1 << 64) - 1
"""All bits of a word."""
_PIECE: Final = 1 << 13


@dataclass(frozen=True)
class Layout:
    """The components of a pool, and the rows they take in its int and float matrices.

    >>> layout = Layout((Kind.WIDE, Kind.FLOAT, Kind.COUNT))
    >>> layout.int_rows, layout.float_rows, layout.offsets
    (3, 3, (0, 0, 2))
    """

    kinds: tuple[Kind, ...] = ()

    @cached_property
    def int_rows(self) -> int:
        """Rows of the int matrix."""
        return sum((1, 2, 0)[kind] for kind in self.kinds)

    @cached_property
    def float_rows(self) -> int:
        """Rows of the float matrix."""
        return sum((0, 0, 3)[kind] for kind in self.kinds)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Per component: its first row in the matrix of its kind."""
        out, rows = [], [0, 0]
        for kind in self.kinds:
            matrix = kind == Kind.FLOAT
            out.append(rows[matrix])
            rows[matrix] += (1, 2, 3)[kind]
        return tuple(out)


@dataclass(slots=True)
class Values:
    """Counts and components of m entries: `n[m]`, `ints[int_rows, m]`, `floats[float_rows, m]`."""

    n: Ints
    ints: Ints
    floats: Floats

    @staticmethod
    def empty(layout: Layout, m: int) -> Values:
        """Room for `m` entries, not initialised."""
        return Values(
            np.empty(m, np.int64), np.empty((layout.int_rows, m), np.int64), np.empty((layout.float_rows, m))
        )

    @staticmethod
    def zeros(layout: Layout, m: int) -> Values:
        """`m` entries that are zero throughout."""
        return Values(
            np.zeros(m, np.int64), np.zeros((layout.int_rows, m), np.int64), np.zeros((layout.float_rows, m))
        )

    def __len__(self) -> int:
        return len(self.n)

    def take(self, index: Any) -> Values:
        """The entries that a NumPy index (positions, mask or slice) selects."""
        return Values(self.n[index], self.ints[:, index], self.floats[:, index])


def wide_from_int64(x: Ints) -> tuple[Ints, Ints]:
    """(high, low) of int64 values.

    >>> [a.tolist() for a in wide_from_int64(np.array([5, -1]))]
    [[0, -1], [5, -1]]
    """
    low = np.ascontiguousarray(x, np.int64)
    return low >> 63, low


def wide_from_python(values: Sequence[int]) -> tuple[Ints, Ints]:
    """(high, low) of Python integers; `OverflowError` outside 128 bits."""
    high = np.array([v >> 64 for v in values], dtype=np.int64)  # NumPy raises what does not fit
    return high, np.array([v & WORD for v in values], dtype=np.uint64).view(np.int64)


def wide_to_python(high: Ints, low: Ints) -> list[int]:
    """The inverse of `wide_from_python`."""
    words = np.ascontiguousarray(low).view(np.uint64).tolist()
    return [(h << 64) | word for h, word in zip(high.tolist(), words, strict=True)]


def float_total(floats: Floats) -> Floats:
    """The sums that the terms `floats[3, m]` stand for: added exactly, rounded once.

    >>> float_total(np.array([[1e17], [0.5], [-1e-30]])).tolist()
    [1e+17]
    """
    floats = plain_array(floats, np.float64)
    if floats.ndim != 2 or len(floats) != 3:
        raise ValueError(f"a float component has three rows, not shape {floats.shape}")
    out = np.empty(floats.shape[1])
    pool_values.cascade_total(floats, out)
    return out


def float_rest(floats: Floats) -> Floats:
    """What `float_total` leaves of the terms: the sum is that of both, to twice the digits of a double.

    >>> float_rest(np.array([[1e17], [0.5], [-1e-30]])).tolist()
    [0.5]
    """
    total = float_total(floats)
    with np.errstate(invalid="ignore", over="ignore"):
        near = floats[0] - total
        lost = (floats[0] - (near + total)) + ((near + total) - near - total)  # what that rounded away
        rest = float_total(np.array([near, floats[1], floats[2] + lost]))
    return np.where(np.isfinite(rest), rest, 0.0)


def plain_array(x: Any, dtype: Any) -> NDArray[Any]:
    """`x` as the one array type that kernels are compiled for: of `dtype`, contiguous, writable."""
    array: NDArray[Any] = np.ascontiguousarray(x, dtype)
    return array if array.flags.writeable else array.copy()


def pieces(slots: Ints) -> Iterator[Ints]:
    """Slots, some at a time (at least once), for what takes much room beside each.

    >>> [len(some) for some in pieces(np.arange(10_000))]
    [8192, 1808]
    """
    yield slots[:_PIECE]
    for start in range(_PIECE, len(slots), _PIECE):
        yield slots[start : start + _PIECE]
