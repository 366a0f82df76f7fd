"""Faults on purpose, for tests: one function, called at every point where a crash must be survived.

A fault is the text of `Options.fault`,
`point:kind[:unit[:times]]`:

- `point` names the place, such as `mid-commit`; a call at another place does nothing;
- `kind` is `raise` (an `InjectedFault`), `exit` (the process ends at once), `kill` (by SIGKILL) or
  `sleep=SECONDS`;
- `unit` restricts it to one worker; `*`, the default, is any;
- `times` bounds how often it fires over all processes, by flag files created with O_EXCL in a scratch
  folder.

Invariant: without a fault a call returns at once and touches nothing.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from everfresh.errors import Code, EverfreshError

FLAG = "fault-"
"""What the names of flag files start with."""

_GRAMMAR = re.compile(
    r"(?P<point>[\w-]+):(?P<kind>raise|exit|kill|sleep=(?P<seconds>\d+(\.\d+)?))"
    r"(:(?P<unit>\*|\d+)(:(?P<times>\d+))?)?"
)


class InjectedFault(RuntimeError):
    """What a fault of kind `raise` raises."""


@dataclass(frozen=True, slots=True)
class _Fault:
    point: str
    kind: str
    seconds: float = 0.0
    unit: int | None = None
    times: int | None = None


def crash(point: str, fault: str | None, unit: int | None = None, scratch: Path | None = None) -> None:
    """Fail here if `fault` says so.

    >>> crash("mid-commit", None)
    >>> crash("mid-commit", "after-commit:raise")
    >>> crash("mid-commit", "mid-commit:raise")
    Traceback (most recent call last):
    everfresh.state.faults.InjectedFault: mid-commit
    """
    if fault is None:
        return
    spec = _parse(fault)
    if spec.point != point or (spec.unit is not None and spec.unit != unit):
        return
    if spec.times is not None and not _claim(spec, scratch):
        return
    if spec.kind == "raise":
        raise InjectedFault(point)
    if spec.kind == "exit":
        os._exit(9)
    if spec.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(spec.seconds)


@functools.lru_cache
def _parse(fault: str) -> _Fault:
    match = _GRAMMAR.fullmatch(fault)
    if match is None:
        raise EverfreshError(
            Code.ARGUMENT,
            f"'{fault}' is not a fault",
            place="Options.fault",
            hint="a fault is point:kind[:unit[:times]], and kind is raise, exit, kill or sleep=SECONDS",
        )
    point, kind, seconds, unit, times = match.group("point", "kind", "seconds", "unit", "times")
    return _Fault(
        point,
        kind,
        seconds=float(seconds or 0),
        unit=None if unit in (None, "*") else int(unit),
        times=int(times) if times else None,
    )


def _claim(spec: _Fault, scratch: Path | None) -> bool:
    """Take one of the times that a fault may fire; False when all are taken, by whatever process."""
    if scratch is None:
        raise ValueError("a fault that is limited in times needs a scratch folder")
    scratch.mkdir(parents=True, exist_ok=True)
    for number in range(spec.times or 0):
        try:
            fd = os.open(scratch / f"{FLAG}{spec.point}-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            continue
        os.close(fd)
        return True
    return False
