"""The cost model of this machine: bytes over a socket, bytes of a file, cells in a join, each timed once.

What is timed takes a fraction of a second. A file that was just written is read from what the system keeps of
it, so on a machine with memory to spare the disk is as fast as that; on a cluster of many hosts give
`CostModel` the figures of its network.
"""

from __future__ import annotations

import socket
import tempfile
from threading import Thread
from time import perf_counter

import numpy as np

from everfresh.arrays.join import Cells, total
from everfresh.arrays.plan import CostModel
from everfresh.arrays.shape import Linf

_PIECE = 1 << 20
_CELLS = 200_000


def calibrated(megabytes: int = 32, threads: int = 1) -> CostModel:
    """The cost model with the times of this machine, for workers with so many threads."""
    size = megabytes * _PIECE
    return CostModel(_network(size) / size, _disk(size) / size, joining(), threads)


def _network(size: int) -> float:
    """Seconds to send so many bytes to another thread through a socket."""
    here, there = socket.socketpair()
    with here, there:
        piece = bytes(_PIECE)

        def send() -> None:
            for _ in range(size // _PIECE):
                here.sendall(piece)

        started, left = perf_counter(), size // _PIECE * _PIECE
        sender = Thread(target=send, daemon=True)
        sender.start()
        while left:
            left -= len(there.recv(_PIECE))
        sender.join()
        return perf_counter() - started


def _disk(size: int) -> float:
    """Seconds to read so many bytes of a file."""
    with tempfile.TemporaryFile() as file:
        for _ in range(size // _PIECE):
            file.write(bytes(_PIECE))
        file.flush()
        file.seek(0)
        started = perf_counter()
        while file.read(_PIECE):
            pass
        return perf_counter() - started


def joining() -> float:
    """Seconds that a cell takes in a join, on either side: neighbours are counted."""
    coords = np.random.default_rng(1).integers(0, 120, (3, _CELLS))
    cells = Cells.of(coords)
    total(cells, cells, Linf(1))  # the kernel is loaded
    started = perf_counter()
    total(cells, cells, Linf(1))
    return (perf_counter() - started) / (2 * _CELLS)
