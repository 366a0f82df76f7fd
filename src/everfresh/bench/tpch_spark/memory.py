"""Memory: the driver's Python process at two scale factors, and everything that a database needs together.

Everything is this process and all below it: the JVM, and the Python processes of tasks. Pages that several of
them share are counted once (PSS); the sum is looked at every second, and the largest counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_EVERY = 1.0


def own_peak() -> int:
    """The largest resident size that this process ever had, in bytes."""
    return _kilobytes(Path("/proc/self/status"), "VmHWM")


@contextmanager
def watched() -> Iterator[Callable[[], dict[str, int]]]:
    """Watch this process and all below it; gives a function that says the peaks, by kind of process."""
    peaks: dict[str, int] = {}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_EVERY):
            for name, size in sizes(os.getpid()).items():
                peaks[name] = max(peaks.get(name, 0), size)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: dict(peaks)
    finally:
        stop.set()
        thread.join()


def sizes(root: int) -> dict[str, int]:
    """Bytes of a process and all below it: `everything`, `jvm`, and `tasks`, the Python processes."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, last = {root}, set[int]()
    while found != last:
        last = set(found)
        found |= {process for process, parent in parents.items() if parent in found}
    sums = {"everything": 0, "jvm": 0, "tasks": 0}
    for process in found:
        size = _kilobytes(Path(f"/proc/{process}/smaps_rollup"), "Pss")
        sums["everything"] += size
        if process != root:
            sums["jvm" if _is_java(process) else "tasks"] += size
    return sums


def _is_java(process: int) -> bool:
    try:
        return "java" in Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return False


def _kilobytes(file: Path, name: str) -> int:
    """A figure in kB of one of the kernel's files, in bytes; 0 where the process is gone."""
    try:
        line = next(line for line in file.read_text().splitlines() if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return 0
    return 1024 * int(line.split()[1])
