"""Strong consistency in linear time, of histories whose view states tell which versions they may show.

"Levels and the checker" in docs/design/key-value.md. Values are chosen so that a state can be decoded: record
i contributes `code(version) * B**i` to a sum, or carries its key and version. A read then gives, per record,
the set of versions that it allows. These sets are independent, so the least choice is the best one: reads are
visited by when they begin, and each takes the least allowed version that is not below what reads that had
ended before it took. Invariant: a history is refused exactly if no choice exists.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from everfresh.testing.kv.histories import Read, State, Violation

Allowed = Sequence[Sequence[int]]
"""For each record the versions that a state allows, ascending."""
Decode = Callable[[State], "Allowed | None"]
"""What a state allows; None if it is no state of the view at all."""


def violation(reads: Sequence[Read], decode: Decode, records: int) -> Violation | None:
    """Why these reads are not strongly consistent; None if they are."""
    cut = [(0, -1)] * records  # of the reads that have ended: the version, and the place of the read
    waiting: list[tuple[int, int]] = []  # reads by when they end
    chosen: list[list[int]] = []
    ordered = sorted(reads, key=lambda r: (r.begin, r.end))
    sessions: dict[str, int] = {}
    for i, read in enumerate(ordered):
        allowed = decode(read.state)
        if allowed is None:
            return Violation("weak", f"no state of the base gives {read.state}", (read,))
        while waiting and waiting[0][0] < read.begin:
            _, j = heapq.heappop(waiting)
            cut = [max(floor, (version, j)) for floor, version in zip(cut, chosen[j], strict=True)]
        own = cut
        if read.session and read.session in sessions:
            j = sessions[read.session]
            own = [max(floor, (version, j)) for floor, version in zip(cut, chosen[j], strict=True)]
        choice = []
        for record, ((floor, j), versions) in enumerate(zip(own, allowed, strict=True)):
            found = next((v for v in versions if v >= floor), None)
            if found is None:
                return _violation(record, floor, versions, ordered, i, j)
            choice.append(found)
        chosen.append(choice)
        heapq.heappush(waiting, (read.end, i))
        if read.session:
            sessions[read.session] = i
    return None


def _violation(
    record: int, floor: int, versions: Sequence[int], reads: Sequence[Read], i: int, j: int
) -> Violation:
    if not versions:
        return Violation(
            "weak", f"record {record} has no version that {reads[i].state} shows", (reads[i],), record
        )
    return Violation(
        "strong",
        f"a read shows version {floor} of record {record}, and a later one {max(versions)}",
        (reads[j], reads[i]),
        record,
    )


def fresh(
    reads: Sequence[Read], decode: Decode, acknowledged: Sequence[Sequence[int]], bound: int
) -> Violation | None:
    """Why a read is more stale than `bound`; `acknowledged` are the times of each record's versions."""
    for read in reads:
        allowed = decode(read.state)
        if allowed is None:
            return Violation("weak", f"no state of the base gives {read.state}", (read,))
        for record, (versions, times) in enumerate(zip(allowed, acknowledged, strict=True)):
            least = max((v for v, at in enumerate(times) if at + bound < read.begin), default=0)
            if max(versions, default=-1) < least:
                return Violation(
                    "stale", f"record {record} was at version {least} long before", (read,), record
                )
    return None


def decoded_sum(total: int, base: int, codes: Sequence[Sequence[int]]) -> list[list[int]] | None:
    """The versions that a sum of `codes[i][version] * base**i` allows; None if it is no such sum.

    >>> decoded_sum(2 + 1 * 10, 10, [[0, 1, 2], [1, 0, 1]])
    [[2], [0, 2]]
    >>> decoded_sum(3, 10, [[0, 1, 2], [1, 0, 1]]) is None
    True
    """
    if total < 0 or total >= base ** len(codes):
        return None
    found = []
    for of in codes:
        total, digit = divmod(total, base)
        found.append([version for version, code in enumerate(of) if code == digit])
    return found if all(found) else None
