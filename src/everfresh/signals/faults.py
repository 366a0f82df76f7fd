"""The mistakes a user can make with signals, in the sentences in which they are told.

Each names the key, the times and the values it is about, and the way out.
"""

from __future__ import annotations

from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.signals.nodes import Reading

OPEN = 1 << 62


def span(lifetime: tuple[int, int]) -> str:
    """A lifetime as people read it.

    >>> span((3, 4)), span((3, 1 << 62))
    ('[3, 4)', '[3, open)')
    """
    return f"[{lifetime[0]}, {'open' if lifetime[1] >= OPEN else lifetime[1]})"


def overlap(table: str, key: Any, before: tuple[int, int], event: tuple[int, int]) -> EverfreshError:
    """Two events of one signal are valid at once."""
    return EverfreshError(
        Code.SIG_OVERLAP,
        f"two events of a signal overlap: {span(before)} and {span(event)} of key {key!r}",
        place=f"table '{table}'",
        hint="read it with overlap=True and give lifetime(duration=), then to_signal()",
    )


def twice(table: str, key: Any) -> EverfreshError:
    """A reference table has two rows for one group."""
    return EverfreshError(
        Code.SIG_OVERLAP,
        f"a reference table has two rows of key {key!r}",
        place=f"table '{table}'",
        hint="it has one row for each group: aggregate it in a SQL view first",
    )


def hidden_overlap(size: int, hop: int) -> EverfreshError:
    """Windows overlap, and nothing says how they are merged."""
    return EverfreshError(
        Code.SIG_OVERLAP,
        f"windows of {size} samples every {hop} overlap, and nothing merges them",
        hint="unwindow('sum'), or overlap_add()",
    )


def backwards(table: str, start: int, end: int) -> EverfreshError:
    """An event ends before it has begun."""
    return EverfreshError(
        Code.SIG_OVERLAP,
        f"an event ends at {end}, which is not after its start {start}",
        place=f"table '{table}'",
        hint="a lifetime is [start, end) with start < end; an end of NULL is still open",
    )


def late(reading: Reading, key: Any, time: int, watermark: int) -> EverfreshError:
    """An event starts before the watermark."""
    would_do = f"lateness={reading.lateness + watermark - time}"
    return EverfreshError(
        Code.SIG_LATE,
        f"an event of key {key!r} starts at {time}, before the watermark {watermark}",
        place=f"table '{reading.table}'",
        hint=f"{would_do} would admit it; late='drop' leaves such rows out, "
        "late='revise' computes their groups anew",
    )


def deleted(reading: Reading, key: Any, time: int, watermark: int) -> EverfreshError:
    """An event of the past is deleted or changed."""
    return EverfreshError(
        Code.SIG_DELETE,
        f"an event of key {key!r} at {time} is deleted or changed, and the watermark is {watermark}",
        place=f"table '{reading.table}'",
        hint="deletes='revise' computes its group anew",
    )


def sealed(reading: Reading, time: int, until: int) -> EverfreshError:
    """What would be computed anew rests on events that went behind `retain`."""
    return EverfreshError(
        Code.SIG_DELETE,
        f"an event at {time} comes, goes or changes, and events up to {until} are gone behind retain=",
        place=f"table '{reading.table}'",
        hint="a longer retain= keeps events for as long as they are corrected",
    )


def off_grid(table: str, key: Any, time: int, period: int, offset: int) -> EverfreshError:
    """A point does not lie on the grid that was asserted."""
    below = (time - offset) // period * period + offset
    return EverfreshError(
        Code.SIG_GRID,
        f"the sample of key {key!r} at {time} is off the grid of period {period} and offset {offset}: "
        f"the nearest beats are {below} and {below + period}",
        place=f"table '{table}'",
        hint=f"use sample({period}, offset={offset}, interpolate=...)",
    )


def period(what: str, hint: str) -> EverfreshError:
    """A period or a factor does not fit."""
    return EverfreshError(Code.SIG_PERIOD, what, hint=hint)


def fill(key: Any, start: int, end: int, beats: int, most: int) -> EverfreshError:
    """A gap has more beats than are filled without being asked."""
    return EverfreshError(
        Code.SIG_FILL,
        f"the gap of key {key!r} from {start} to {end} has {beats} beats to fill, more than {most}",
        hint="give window= to the policy, or raise options.signal_max_fill",
    )


def kind(operation: str, found: str, wanted: str, step: str) -> EverfreshError:
    """An operation that this kind of signal does not have."""
    return EverfreshError(
        Code.SIG_KIND, f"{operation}() is an operation of {wanted}, and this is {found}", hint=step
    )


def type_(what: str, hint: str) -> EverfreshError:
    """Values that an operation does not take."""
    return EverfreshError(Code.SIG_TYPE, what, hint=hint)


def size(name: str, given: tuple[int, ...], expected: tuple[int, ...]) -> EverfreshError:
    """A function of windows returned another shape."""
    return EverfreshError(
        Code.SIG_SIZE,
        f"{name} was given windows and returned the shape {given} where {expected} was declared",
        hint="map(f, size=N) declares that f makes arrays of N values",
    )


def keys(left: str, right: str) -> EverfreshError:
    """Keys of joined signals differ."""
    return EverfreshError(
        Code.SIG_KEYS,
        f"the keys of joined signals differ: {left} and {right}",
        hint="read both tables with keys of the same types",
    )


def state(groups: int, each: int, most: int) -> EverfreshError:
    """The state of the groups is larger than was allowed."""
    return EverfreshError(
        Code.SIG_STATE,
        f"the state of {groups} groups takes {groups * each} bytes, {each} each, more than {most}",
        hint="raise options.signal_memory, or read fewer groups with where=",
    )


def bins(wanted: int, size: int) -> EverfreshError:
    """A bin that a transform does not have."""
    return EverfreshError(
        Code.SIG_SIZE,
        f"fft(bins=) asks for bin {wanted} of windows of {size} samples, which have bins 0 to {size - 1}",
        hint="bin b is the frequency b / (size * period)",
    )
