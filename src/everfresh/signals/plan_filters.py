"""From filters of a query to operators: taps, recursions, user filters, and rates by them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from everfresh.rewrite import Node
from everfresh.signals import nodes as n
from everfresh.signals.kinds import kind_of
from everfresh.signals.making import Made
from everfresh.signals.ops import elementwise, filters, gathering, typed, typed_filters
from everfresh.signals.payload import Array
from everfresh.signals.run.flow import END

if TYPE_CHECKING:
    from everfresh.signals.plan import Plan


def fir(plan: Plan, node: n.Fir) -> Made:
    """Taps over the last samples."""
    below = plan.make(node.input)
    b = np.array(node.b)
    if not np.iscomplexobj(b):
        b = b.astype(np.float64)
    if below.payload.type is not None:
        return _typed_fir(plan, node, below)
    if node.tail:
        return _with_tail(plan, node, b)
    payload = replace(below.payload, complex=below.payload.complex or np.iscomplexobj(b))
    zero = node.missing == "zero"
    blocks = node.method == "fft" or (node.method == "auto" and len(b) > filters.DIRECT)
    made = filters.BlockFir if blocks else filters.Fir
    at = plan.add(made(below.at, b, zero, below.width, below.dtype))
    return replace(below, at=at, payload=payload, dtype=payload.dtype)


def _typed_fir(plan: Plan, node: n.Fir, below: Made) -> Made:
    type_ = below.payload.type
    assert type_ is not None
    if node.tail or any(isinstance(tap, complex) for tap in node.b):
        plan.plain(below, "such a filter")
    weights, zero = [float(tap.real) for tap in reversed(node.b)], node.missing == "zero"
    moved = -1  # window k ends with the sample before index k
    at = plan.add(typed.Folded(below.at, len(weights), 1, zero, type_, weights, zero, moved))
    return replace(below, at=at)


def _with_tail(plan: Plan, node: n.Fir, b: Array) -> Made:
    """Windows of as many samples as taps that hold one at least: a run has some behind it."""

    def dots(frames: Array) -> Array:
        out = np.zeros(len(frames), np.result_type(frames, b))
        for i, tap in enumerate(b):
            out = out + tap * frames[:, len(b) - 1 - i]
        return out

    frames = n.Window(node.input, len(b), 1, "zero")
    return plan.make(n.ReduceWindows(frames, n.Fn("filter_fir", dots)))


def polyphase(plan: Plan, node: n.Polyphase) -> Made:
    """Output `m = up q + r` is a filter of its own of the samples up to `m down // up`, by r."""
    below, kind = plan.make(node.input), kind_of(node)
    branches: list[int] = []
    made = below
    for r in range(node.up):
        phase, behind = r * node.down % node.up, r * node.down // node.up
        taps = node.taps[phase :: node.up] or (0.0,)
        made = fir(plan, n.Fir(node.input, taps, "zero", "direct"))
        at = plan.add(elementwise.Thin(made.at, node.down, behind % node.down))
        moved = behind // node.down
        branches.append(at if moved == 0 else plan.add(elementwise.Move(at, -moved)))
    made = replace(made, at=plan.add(gathering.Interleave(branches)))
    by = kind_of(node.input).offset // kind.period
    return made if by == 0 else replace(made, at=plan.add(elementwise.Move(made.at, by)))


def iir(plan: Plan, node: n.Iir) -> Made:
    """A recursive filter by its two polynomials."""
    order = max(len(node.a), len(node.b))
    b, a = np.zeros((1, order)), np.zeros((1, order))
    b[0, : len(node.b)] = np.array(node.b) / node.a[0]
    a[0, : len(node.a)] = np.array(node.a) / node.a[0]
    return _recursive(plan, node, b, a)


def sos(plan: Plan, node: n.Sos) -> Made:
    """A recursive filter in sections of second order."""
    sections = np.array(node.sections, np.float64)
    return _recursive(plan, node, sections[:, :3].copy(), sections[:, 3:].copy())


def _recursive(plan: Plan, node: n.Iir | n.Sos, b: Array, a: Array) -> Made:
    below = plan.make(node.input)
    zero = node.missing == "zero"
    idle = idle_beats(node)
    if below.payload.type is not None:
        made = typed_filters.Recursive(below.at, b, a, zero, below.payload.type, idle)
        return replace(below, at=plan.add(made))
    at = plan.add(filters.Recursive(below.at, b, a, zero, below.width, below.dtype, idle))
    return replace(below, at=at)


def user_filter(plan: Plan, node: n.Filter) -> Made:
    """A filter of the framework: what it does with each sample is given."""
    below = plan.plain(plan.make(node.input), "filter()")
    args = (node.function.call, node.forward, node.backward, node.missing == "zero")
    made = filters.UserFilter(below.at, *args, below.width, below.dtype, idle_beats(node))
    return replace(below, at=plan.add(made))


def idle_beats(node: Node) -> int:
    """How many beats may be missing before a group begins anew."""
    spans = [each.idle for each in node.walk() if isinstance(each, n.Reading) and each.idle is not None]
    return (min(spans) + 1) // kind_of(node.children[0]).period if spans else END
