"""A minimal history that still fails: reads are dropped, then records, then versions.

"Levels and the checker" in docs/design/key-value.md. Delta debugging, one thing at a time until nothing more
can go. A record is dropped by `project`, which says what a state is without it; views that cannot say that
keep their records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from everfresh.testing.kv.histories import History, State, Timelines

Fails = Callable[[History], bool]
Project = Callable[[State, int], State]
"""What a state is without the record of this place."""


def smallest(history: History, fails: Fails, project: Project | None = None) -> History:
    """The history with as little in it as fails in the same way."""
    if not fails(history):
        raise ValueError("the history does not fail")
    while True:
        smaller = _step(history, fails, project)
        if smaller is None:
            return history
        history = smaller


def _step(history: History, fails: Fails, project: Project | None) -> History | None:
    for i in range(len(history.reads)):
        tried = replace(history, reads=history.reads[:i] + history.reads[i + 1 :])
        if fails(tried):
            return tried
    versions = history.timelines.versions
    if project is not None and len(versions) > 1:
        for i in range(len(versions)):
            reads = tuple(replace(r, state=project(r.state, i)) for r in history.reads)
            tried = replace(history, timelines=Timelines(versions[:i] + versions[i + 1 :]), reads=reads)
            if fails(tried):
                return tried
    for i, of in enumerate(versions):
        for j in range(len(of)):
            if len(of) > 1:
                fewer = (*versions[:i], of[:j] + of[j + 1 :], *versions[i + 1 :])
                tried = replace(history, timelines=Timelines(fewer))
                if fails(tried):
                    return tried
    return None


def told(history: History) -> str:
    """A history in a few lines: timelines, then reads.

    >>> from everfresh.testing.kv.histories import Read
    >>> print(told(History(Timelines(((15, None),)), (Read(15, 1, 2),))))
    record 0: 15 -> absent
    read 1..2: 15
    """
    lines = [
        f"record {i}: " + " -> ".join("absent" if v is None else str(v) for v in of)
        for i, of in enumerate(history.timelines.versions)
    ]
    lines += [f"read {r.begin}..{r.end}: {r.state}" for r in history.reads]
    return "\n".join(lines)
