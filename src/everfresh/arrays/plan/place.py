"""Where chunks are kept: rules that deal chunks to workers, by name.

Round-robin goes over the chunks in row-major order, as in Example 1 of the paper on similarity joins. A hash
spreads without order; a space-filling curve and k-d splits keep neighbours together. Every rule looks at the
places of chunks only (k-d splits at their cells too), so a chunk that is added later finds its worker by
`hash` alone. Invariant: workers are 0 .. workers - 1, whatever the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from everfresh.arrays.plan.catalog import Chunks, Ints
from everfresh.errors import Code, EverfreshError


def place(chunks: Chunks, rule: str, workers: int) -> Chunks:
    """The chunks, kept as the rule called `rule` says.

    >>> from everfresh.arrays.plan.catalog import Chunks
    >>> row = Chunks.of([[1], [3], [5], [7]], [[1], [3], [5], [7]], cells=[1, 1, 1, 1], start=[1], length=[2])
    >>> place(row, "round-robin", 3).home.tolist()
    [0, 1, 2, 0]
    """
    if workers < 1:
        raise EverfreshError(Code.ARGUMENT, "there is at least one worker", place="workers")
    if rule not in PLACEMENTS:
        raise EverfreshError(
            Code.NOT_FOUND, f"there is no placement '{rule}'", hint="placements are: " + ", ".join(PLACEMENTS)
        )
    return chunks.at(PLACEMENTS[rule](chunks, workers))


def row_major(coords: Ints) -> Ints:
    """The order of chunks, the last dimension fastest."""
    return np.lexsort(coords.T[::-1]).astype(np.int64)


def mixed(coords: Ints) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each chunk's place: the mixing step of splitmix64, once per dimension."""
    key = np.zeros(len(coords), np.uint64)
    with np.errstate(over="ignore"):
        for column in coords.T:
            key = key + column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            key = key ^ (key >> np.uint64(31))
    return key


def hilbert(coords: Ints) -> npt.NDArray[np.uint64]:
    """The place of each point on a Hilbert curve through all of them (any number of dimensions).

    Neighbours on the curve are neighbours in space. The bits of coordinates are turned from the highest to
    the lowest as in Skilling's transposed form, then interleaved; more than 64 bits lose the lowest ones.
    """
    count, dimensions = coords.shape
    if not count:
        return np.empty(0, np.uint64)
    x = [(column - column.min()).astype(np.uint64) for column in coords.T]
    bits = max(1, max(int(column.max()) for column in x).bit_length())
    kept = min(bits, 64 // dimensions)
    x = [column >> np.uint64(bits - kept) for column in x]
    one = np.uint64(1)
    for bit in range(kept - 1, 0, -1):
        high = one << np.uint64(bit)
        below = high - one
        for i in range(dimensions):
            swap = np.where(x[i] & high, np.uint64(0), (x[0] ^ x[i]) & below)
            x[0] = np.where(x[i] & high, x[0] ^ below, x[0] ^ swap)
            x[i] = x[i] ^ swap
    for i in range(1, dimensions):
        x[i] = x[i] ^ x[i - 1]
    turn = np.zeros(count, np.uint64)
    for bit in range(kept - 1, 0, -1):
        high = one << np.uint64(bit)
        turn = np.where(x[-1] & high, turn ^ (high - one), turn)
    return _interleaved([column ^ turn for column in x], kept)


def z_order(coords: Ints) -> npt.NDArray[np.uint64]:
    """The place of each point on a Z curve: the bits of its coordinates, interleaved."""
    count, dimensions = coords.shape
    if not count:
        return np.empty(0, np.uint64)
    x = [(column - column.min()).astype(np.uint64) for column in coords.T]
    bits = max(1, max(int(column.max()) for column in x).bit_length())
    kept = min(bits, 64 // dimensions)
    return _interleaved([column >> np.uint64(bits - kept) for column in x], kept)


def _interleaved(columns: list[npt.NDArray[np.uint64]], bits: int) -> npt.NDArray[np.uint64]:
    key = np.zeros(len(columns[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for column in columns:
            key = (key << np.uint64(1)) | ((column >> np.uint64(bit)) & np.uint64(1))
    return key


# -- the rules ---------------------------------------------------------------------------------------


def _round_robin(chunks: Chunks, workers: int) -> Ints:
    home = np.empty(len(chunks), np.int64)
    home[row_major(chunks.coords)] = np.arange(len(chunks)) % workers
    return home


def _hash(chunks: Chunks, workers: int) -> Ints:
    return (mixed(chunks.coords) % np.uint64(workers)).astype(np.int64)


def _along(curve: Callable[[Ints], npt.NDArray[np.uint64]]) -> Callable[[Chunks, int], Ints]:
    """Ranges of a curve with about as many cells for each worker."""

    def rule(chunks: Chunks, workers: int) -> Ints:
        order = np.argsort(curve(chunks.coords), kind="stable")
        cells = chunks.cells[order]
        middle = np.cumsum(cells) - cells / 2
        home = np.empty(len(chunks), np.int64)
        home[order] = np.minimum(workers * middle / max(int(cells.sum()), 1), workers - 1).astype(np.int64)
        return home

    return rule


def _kd(chunks: Chunks, workers: int) -> Ints:
    """Halve the chunks along their longest side until each worker has a part; parts weigh alike."""
    home = np.zeros(len(chunks), np.int64)
    todo = [(np.arange(len(chunks)), 0, workers)]
    while todo:
        some, first, count = todo.pop()
        if count == 1 or not len(some):
            home[some] = first
            continue
        coords = chunks.coords[some]
        side = int(np.argmax(np.ptp(coords, axis=0)))
        some = some[np.lexsort([*coords.T, coords[:, side]])]
        cells = chunks.cells[some]
        less = count // 2
        cut = int(np.searchsorted(np.cumsum(cells) - cells / 2, cells.sum() * less / count))
        todo += [(some[:cut], first, less), (some[cut:], first + less, count - less)]
    return home


PLACEMENTS: Mapping[str, Callable[[Chunks, int], Ints]] = {
    "round-robin": _round_robin,
    "hash": _hash,
    "hilbert": _along(hilbert),
    "z-order": _along(z_order),
    "k-d": _kd,
}
"""Name -> rule: the worker of each chunk."""
