"""What kind of signal a node is, and its grid: what can be said before any table is seen.

| kind | events |
|---|---|
| stream | lifetimes may overlap |
| signal | at most one event of a group is valid at any time |
| uniform | samples at the beats of a grid |
| windowed | arrays at the beats of a grid |
"""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.rewrite import Node, remembered
from everfresh.signals import nodes as n

STREAM, SIGNAL, UNIFORM, WINDOWED = "stream", "signal", "uniform", "windowed"


@dataclass(frozen=True)
class Kind:
    """A kind; of uniform and windowed ones the grid, and the policy by which a uniform one is resampled."""

    name: str
    period: int = 0
    offset: int = 0
    policy: n.Policy | None = None
    moved: int = 0
    """What is added to the numbers of windows to have indices of the grid."""


@remembered
def kind_of(node: Node) -> Kind:
    """The kind of a node."""
    match node:
        case n.Reading():
            return Kind(STREAM if node.overlap else SIGNAL)
        case n.Polyphase():
            below = kind_of(node.input)
            return grid(below.period * node.down // node.up, below.offset)
        case n.ToSignal() | n.UntilNext() | n.Session() | n.Snapshot():
            return Kind(SIGNAL)
        case n.AsUniform():
            return grid(node.period, node.offset)
        case n.Sample() | n.Resample():
            return grid(node.period, node.offset, node.interpolate)
        case n.Downsample():
            below = kind_of(node.input)
            return grid(below.period * node.n, below.offset + node.phase * below.period, below.policy)
        case n.Combine():
            return _combined(kind_of(node.input), kind_of(node.right))
        case n.Shift():
            below = kind_of(node.input)
            if below.name == UNIFORM:
                return grid(below.period, below.offset + node.ticks, below.policy)
            return Kind(below.name)
        case n.Window() | n.Hopping():
            below = kind_of(node.input)
            name = WINDOWED if isinstance(node, n.Window) else UNIFORM
            if node.align == "first":
                return Kind(name, below.period, below.offset)  # each group has a phase of its own
            period = below.period * node.hop
            at = below.offset - below.period
            return Kind(name, period, at % period, None, at // period)
        case n.ReduceWindows():
            below = kind_of(node.input)
            return Kind(UNIFORM, below.period, below.offset)
        case n.Unwindow():
            return kind_of(window_of(node).input)
        case n.Union():
            return Kind(STREAM)
        case n.AsofLeft():
            below = kind_of(node.input)
            return grid(below.period, below.offset) if below.name == UNIFORM else below
        case n.AntiJoin():
            return Kind(SIGNAL)
        case n.Lifetime():
            return Kind(STREAM if node.duration is not None else kind_of(node.children[0]).name)
        case _:
            return kind_of(node.children[0])


def grid(period: int, offset: int, policy: n.Policy | None = None) -> Kind:
    """A uniform kind with its offset reduced.

    >>> grid(30, 70).offset
    10
    """
    return Kind(UNIFORM, period, offset % period, policy)


def _combined(left: Kind, right: Kind) -> Kind:
    if left.name != UNIFORM and right.name != UNIFORM:
        return Kind(SIGNAL)
    if left.name != UNIFORM:
        return grid(right.period, right.offset)
    if right.name != UNIFORM or left.period <= right.period:
        return grid(left.period, left.offset)
    return grid(right.period, right.offset)


def window_of(node: Node) -> n.Window:
    """The windows that a chain of operations on windows begins with."""
    while not isinstance(node, n.Window):
        node = node.children[0]
    return node


def slides(node: n.Fft) -> bool:
    """Whether bins are made of those of the window before: asked for, or few bins and a short hop make it
    cheaper (nanoseconds measured, by what is in the query). What is between windows and their transform has
    them made anew."""
    below = node.input
    while isinstance(below, n.Viewed):
        below = below.input
    if not isinstance(below, n.Window) or node.method == "fft":
        return False
    bins = below.size if node.bins is None else len(node.bins)
    cheaper = 0.43 * below.hop * bins < 0.2 * below.size * below.size.bit_length()
    return node.method == "sliding" or (node.bins is not None and cheaper)
