"""From windows of a query to operators: a chain of steps on windows is one, with what begins and ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.rewrite import Node
from everfresh.signals import faults, plan_filters
from everfresh.signals import nodes as n
from everfresh.signals.kinds import kind_of, slides, window_of
from everfresh.signals.making import Made
from everfresh.signals.ops import aligning, frames, joins, sliding, typed, updating, windows
from everfresh.signals.payload import Array, Payload

if TYPE_CHECKING:
    from everfresh.signals.plan import Plan


def _chain(plan: Plan, node: Node) -> tuple[n.Window, list[frames.FrameStep], int, Any]:
    """The windows that a node begins with, the steps up to it, and what it makes: a size and a type."""
    if isinstance(node, n.Window):
        payload = plan.make(node.input).payload
        if not payload.scalar:
            raise faults.type_(
                f"windows are of one number, and the signal has {len(payload.names)} components",
                "select one of them first",
            )
        return node, [], node.size, np.dtype(payload.dtype)
    window, steps, size, dtype = _chain(plan, node.children[0])
    if isinstance(node, n.Viewed):
        return window, steps, size, dtype
    made, size, dtype = frames.step_of(node, steps, window, size, dtype)
    return window, made, size, dtype


def _begun(plan: Plan, node: n.Window | n.Hopping, at: int) -> int:
    """The samples as windows see them: less the phase of their group, where windows begin with its first."""
    if node.align == "index":
        return at
    return plan.add(aligning.Aligned(at, node.hop, plan_filters.idle_beats(node)))


def _ended(plan: Plan, node: n.Window | n.Hopping, at: int, size: int | None = None) -> int:
    """What was made of windows, or of samples that were merged of windows of `size`, at the indices of the
    grid."""
    if node.align == "index":
        return at
    made: Any = plan.operators[at]
    begun = made.inputs[0]
    return plan.add(aligning.Unaligned(at, begun, plan.operators[begun].inputs[0], node.hop, size))


def of_windows(plan: Plan, node: Node) -> Made:
    """Windows, and what is done to each, as arrays at hop points."""
    if any(map(_apart, _frame_nodes(node))):
        return _crossed(plan, node)
    window, steps, size, dtype = _chain(plan, node)
    below = plan.make(window.input)
    zero = window.missing == "zero"
    at = _begun(plan, window, below.at)
    made = windows.Windows(at, window.size, window.hop, zero, below.dtype, steps)
    payload = Payload(below.payload.names, dtype == np.complex128)
    return Made(_ended(plan, window, plan.add(made)), payload, None, size, dtype)


def _apart(node: Node) -> bool:
    """Whether an operation on windows is an operator of its own."""
    return isinstance(node, n.CrossCorrelate | n.Apply) or (isinstance(node, n.Fft) and slides(node))


def _slid(plan: Plan, node: n.Fft) -> Made:
    window, _, size, dtype = _chain(plan, node.input)
    below = plan.make(window.input)
    bins = tuple(range(size)) if node.bins is None else node.bins
    if max(bins) >= size:
        raise faults.bins(max(bins), size)
    shape = (window.size, window.hop, window.missing == "zero")
    at = plan.add(sliding.Sliding(_begun(plan, window, below.at), shape, dtype, bins))
    payload = Payload(below.payload.names, True)
    return Made(_ended(plan, window, at), payload, None, len(bins), np.dtype(np.complex128))


def _updated(plan: Plan, node: n.Apply) -> Made:
    window, _, size, dtype = _chain(plan, node.input)
    below = plan.make(window.input)
    name, wanted = node.recompute.name, size if node.size is None else node.size
    made = frames.probe(name, node.recompute.call, size, dtype, node.size)
    shape = (window.size, window.hop, window.missing == "zero")
    every = -(-4 * window.size // window.hop)
    calls = (node.recompute.call, node.update.call)
    begun = _begun(plan, window, below.at)
    at = plan.add(updating.Updated(begun, shape, dtype, (name, wanted, made), *calls, every))
    return Made(
        _ended(plan, window, at), Payload(below.payload.names, made == np.complex128), None, wanted, made
    )


def _crossed(plan: Plan, node: Node) -> Made:
    if isinstance(node, n.Apply):
        return _updated(plan, node)
    if isinstance(node, n.Fft) and slides(node):
        return _slid(plan, node)
    if isinstance(node, n.CrossCorrelate):
        left, right = plan.make(node.input), plan.make(node.right)
        dtype = np.result_type(left.dtype, right.dtype)
        widths = left.width, right.width
        at = plan.add(joins.EqualFrames(left.at, right.at, widths, dtype, frames.correlated))
        size = left.width + right.width - 1
    else:
        below = plan.make(node.children[0])
        window = window_of(node)
        steps, size, dtype = frames.step_of(node, [], window, below.width, np.dtype(below.dtype))
        at = plan.add(windows.OnFrames(below.at, steps))
    payload = Payload(("value",), dtype == np.complex128)
    return Made(at, payload, None, size, dtype)


def reduced(plan: Plan, node: n.ReduceWindows) -> Made:
    """A number of each window."""
    below = plan.make(node.input)
    name, call = node.function.name, node.function.call
    with np.errstate(all="ignore"):
        found = np.asarray(call(np.zeros((2, below.width), below.dtype)))
    if found.shape != (2,):
        raise faults.size(f"reduce({name})", found.shape, (2,))
    dtype = np.dtype(np.complex128 if np.iscomplexobj(found) else np.float64)
    moved, hop = kind_of(node.input).moved, _hop(node.input)
    at = plan.add(windows.Reduce(below.at, name, call, dtype, moved, hop))
    return Made(at, Payload(("value",), dtype == np.complex128), None, 1, dtype, True)


def _hop(node: Node) -> int:
    """How many indices further the next window ends, where windows are numbered by their ends."""
    if isinstance(node, n.Window):
        return 1 if node.align == "first" else node.hop
    if isinstance(node, n.CrossCorrelate):
        return max(_hop(node.input), _hop(node.right))
    return _hop(node.children[0])


def unwindow(plan: Plan, node: n.Unwindow) -> Made:
    """Windows merged to samples again."""
    window, steps, size, dtype = _chain(plan, node.input)
    if node.size is not None and node.size != size:
        raise faults.size("unwindow()", (size,), (node.size,))
    if size > window.hop and node.agg is None:
        raise faults.hidden_overlap(size, window.hop)
    below = plan.make(window.input)
    taper = _squares(node.input, size) if node.normalize else None
    zero = window.missing == "zero"
    at = _begun(plan, window, below.at)
    made = windows.OverlapAdd(
        at, window.size, window.hop, zero, below.dtype, steps, (size, dtype), node.agg, taper
    )
    payload = Payload(below.payload.names, dtype == np.complex128)
    return Made(_ended(plan, window, plan.add(made), size), payload, None, 1, dtype, True)


def hopping(plan: Plan, node: n.Hopping) -> Made:
    """An aggregate of each window, in one operator with it."""
    below = plan.make(node.input)
    made = _aggregated(plan, node, replace(below, at=_begun(plan, node, below.at)))
    return replace(made, at=_ended(plan, node, made.at))


def _aggregated(plan: Plan, node: n.Hopping, below: Made) -> Made:
    from everfresh.signals.ops.aggregates import Aggregates

    moved = kind_of(node).moved
    zero = node.missing == "zero"
    if below.payload.type is not None and node.agg == "sum":
        args = (node.size, node.hop, zero, below.payload.type, None, False, moved)
        return replace(below, at=plan.add(typed.Folded(below.at, *args)), points=True)
    plan.plain(below, f"{node.agg if isinstance(node.agg, str) else node.agg.name}()")
    if isinstance(node.agg, n.Agg) and node.agg.deaccumulate is not None and node.agg.combine is None:
        if not below.payload.scalar:
            raise faults.type_(
                f"an aggregate with deaccumulate of a signal of {below.width} components",
                "select one of them first, or give combine",
            )
        shape = (node.size, node.hop, zero)
        at = plan.add(updating.Deaccumulated(below.at, shape, below.dtype, node.agg, moved))
        return replace(below, at=at, points=True)
    made = Aggregates(below.at, node.agg, node.size, node.hop, zero, below.width, below.dtype, moved)
    real = node.agg in ("power", "energy")
    payload = replace(below.payload, complex=below.payload.complex and not real)
    return replace(below, at=plan.add(made), payload=payload, dtype=payload.dtype)


def _frame_nodes(node: Node) -> list[Node]:
    found = [node]
    while not isinstance(found[-1], n.Window):
        found.append(found[-1].children[0])
    return found


def _squares(node: Node, size: int) -> Array:
    """The squares of the tapers between windows and their merging."""
    found = np.ones(size)
    for each in _frame_nodes(node):
        if isinstance(each, n.Multiply) and len(each.vector) == size:
            found = found * np.abs(np.array(each.vector)) ** 2
    return found
