"""Prefix consistency by witness: each read names the epoch that it shows, and each commit the logs' prefixes.

"Levels and the checker" in docs/design/key-value.md. The base is replayed to the prefixes that the commit
names, and its view compared with what was read. To accept proves strong consistency, since prefixes of all
logs are vectors that grow with the epochs; to refuse says only that the claim is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everfresh.testing.kv.histories import Commit, Read, State, Violation, ended_before

Write = tuple[Any, Any]
"""A key of the base and its new value, None if it goes."""


def violation(
    logs: Mapping[int, Sequence[Write]],
    commits: Sequence[Commit],
    reads: Sequence[Read],
    view: Callable[[Mapping[Any, Any]], State],
) -> Violation | None:
    """Why reads are not prefix consistent as they claim; None if they are."""
    states: dict[int, State] = {0: view({})}
    base: dict[Any, Any] = {}
    done = dict.fromkeys(logs, 0)
    for commit in sorted(commits, key=lambda c: c.epoch):
        for partition, upto in commit.offsets.items():
            if upto < done[partition]:
                return Violation(
                    "prefix", f"epoch {commit.epoch} has less of log {partition} than one before"
                )
            for key, value in logs[partition][done[partition] : upto]:
                if value is None:
                    base.pop(key, None)
                else:
                    base[key] = value
            done[partition] = upto
        states[commit.epoch] = view(base)
    for read in reads:
        if read.claimed not in states:
            return Violation(
                "prefix", f"a read claims epoch {read.claimed}, which was not committed", (read,)
            )
        if read.state != states[read.claimed]:
            why = f"epoch {read.claimed} is {states[read.claimed]}, and {read.state} was read"
            return Violation("prefix", why, (read,))
    return _backward(reads)


def _backward(reads: Sequence[Read]) -> Violation | None:
    """A read of an earlier epoch than one that had ended before it."""
    by_end = sorted(reads, key=lambda r: r.end)
    newest, at = None, 0
    last: dict[str, Read] = {}
    for read in sorted(reads, key=lambda r: r.begin):
        while at < len(by_end) and by_end[at].end < read.begin:
            if newest is None or (by_end[at].claimed or 0) > (newest.claimed or 0):
                newest = by_end[at]
            at += 1
        for other in (newest, last.get(read.session)):
            if other is not None and ended_before(other, read) and (other.claimed or 0) > (read.claimed or 0):
                why = f"epoch {read.claimed} was read after epoch {other.claimed}"
                return Violation("strong", why, (other, read))
        if read.session:
            last[read.session] = read
    return None
