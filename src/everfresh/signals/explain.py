"""What a query does, in words: each operation, whether it updates or recomputes, and when a result is
final."""

from __future__ import annotations

from everfresh.rewrite import Node
from everfresh.signals import nodes as n
from everfresh.signals.kinds import UNIFORM, WINDOWED, kind_of, slides, window_of

_UPDATED = "updated from what came"
_RECOMPUTED = "recomputed from its samples"


def explain(query: Node) -> str:
    """The operations in the order in which rows pass, and the delay of a result.

    >>> from everfresh.signals import first_order, reading
    >>> q = reading("t", time="t").sample(100, interpolate=first_order(60))
    >>> print(q.window(512, 256).fft().overlap_add().explain())
    reading of table 't' (signal)
    sample (uniform, period 100, offset 0): updated from what came; waits at most 60 ticks
    window (windowed, period 25600, offset 25500): updated from what came
    fft (windowed, period 25600, offset 25500): recomputed from its samples
    unwindow (uniform, period 100, offset 0): updated from what came; waits at most 51100 ticks
    final at most 51160 ticks after a reading
    """
    lines: list[str] = []
    delay = _explain(query, lines)
    end = (
        "no bound on when a result is final: a policy without window="
        if delay is None
        else (f"final at most {delay} ticks after a reading" if delay else "final at once")
    )
    return "\n".join([*lines, end])


def _explain(node: Node, lines: list[str]) -> int | None:
    delays = [
        _explain(child, lines)
        for child in node.children
        if not isinstance(child, n.Policy | n.Agg | n.PayloadType)
    ]
    mine = delay_of(node)
    lines.append(_line(node, mine))
    known = [each for each in delays if each is not None]
    if mine is None or len(known) < len(delays):
        return None
    return max(known, default=0) + mine


def _line(node: Node, delay: int | None) -> str:
    kind = kind_of(node)
    if isinstance(node, n.Reading) and not node.timed:
        return f"reference table '{node.table}': a change computes its groups anew"
    if isinstance(node, n.Reading):
        late = f", {node.lateness} ticks of lateness" if node.lateness else ""
        return f"reading of table '{node.table}' ({kind.name}{late})"
    if isinstance(node, n.Viewed):
        return f"signal view '{node.view}': the operations above"
    grid = f", period {kind.period}, offset {kind.offset}" if kind.name in (UNIFORM, WINDOWED) else ""
    words = [f"{_name(node)} ({kind.name}{grid}): {_RECOMPUTED if recomputes(node) else _UPDATED}"]
    if isinstance(node, n.Fft) and slides(node):
        words.append("from the bins of the window before")
    if delay is None:
        words.append("waits for the next reading")
    elif delay:
        words.append(f"waits at most {delay} ticks")
    if isinstance(node, n.Combine) and (note := _moved(node)):
        words.append(note)
    return "; ".join(words)


def _name(node: Node) -> str:
    from everfresh.signals.text import _WORDS

    return _WORDS[type(node)]


def recomputes(node: Node) -> bool:
    """Whether an operation makes each window anew rather than from the one before."""
    if isinstance(node, n.Hopping):
        return isinstance(node.agg, n.Agg) and node.agg.combine is None and node.agg.deaccumulate is None
    if isinstance(node, n.Fft) and slides(node):
        return False
    return kind_of(node).name == WINDOWED and not isinstance(node, n.Window | n.Apply)


def delay_of(node: Node) -> int | None:
    """How many ticks an operation holds back what it is given, at most; None: as long as nothing comes."""
    match node:
        case n.Reading():
            return node.lateness
        case n.Sample() | n.Resample():
            policy = node.interpolate
            return 0 if policy is None or policy.causal else policy.window
        case n.Session() | n.AntiJoin() | n.Snapshot():
            return None
        case n.Unwindow():
            below = kind_of(node)
            return (_size(node.input) - 1) * below.period
        case n.Fir() if node.tail:
            return 0
        case n.Fir() if node.method == "fft" or (node.method == "auto" and len(node.b) > 128):
            return (1 << int(4 * len(node.b) - 1).bit_length()) * kind_of(node).period
        case _:
            return 0


def reach_of(query: Node) -> int | None:
    """How far in time a result depends on events, in ticks; None: without end.

    >>> from everfresh.signals import first_order, reading
    >>> grid = reading("t", time="t").sample(10, interpolate=first_order(60))
    >>> reach_of(grid.filter_fir([1.0] * 5).node), reach_of(grid.filter_iir([1.0], [1.0, 0.5]).node)
    (620, None)
    """
    below = [
        reach_of(child) for child in query.children if not isinstance(child, n.Policy | n.Agg | n.PayloadType)
    ]
    mine = _reach(query)
    known = [each for each in below if each is not None]
    return None if mine is None or len(known) < len(below) else max(known, default=0) + mine


def _reach(node: Node) -> int | None:
    period = 0 if isinstance(node, n.Reading) else kind_of(node.children[0]).period
    match node:
        case n.Reading():
            return None if node.end is not None else (node.duration or 1) - 1
        case n.Sample() | n.Resample():
            policy = node.interpolate
            return 0 if policy is None else None if policy.window is None else 2 * policy.window
        case n.Fir():
            return 10 * len(node.b) * period
        case n.Polyphase():
            return len(node.taps) * period
        case n.Iir() | n.Sos() | n.AsofLeft() | n.Session() | n.AntiJoin() | n.Snapshot():
            return None
        case n.Fft() if not slides(node):
            return 0
        case n.Apply() | n.Fft():
            return 5 * window_of(node).size * kind_of(window_of(node).input).period
        case n.Filter():
            return None if node.backward else node.forward * period
        case n.Hopping() | n.Window():
            return None if node.align == "first" else (3 * node.size + node.hop) * period
        case n.Unwindow():
            return (_size(node.input) + window_of(node).hop) * kind_of(node).period
        case n.UntilNext():
            return node.max
        case n.Shift():
            return abs(node.ticks)
        case n.Lifetime():
            return abs(node.shift) + (node.duration or 0)
        case _:
            return 0


def _size(node: Node) -> int:
    if isinstance(node, n.MapWindows | n.Apply) and node.size is not None:
        return node.size
    if isinstance(node, n.Window | n.Ifft):
        return window_of(node).size
    if isinstance(node, n.Fft) and node.bins is not None:
        return len(node.bins)
    if isinstance(node, n.Autocorrelate):
        return 2 * _size(node.input) - 1
    return _size(node.children[0])


def _moved(node: n.Combine) -> str:
    one, two = kind_of(node.input), kind_of(node.right)
    if one.name != UNIFORM or two.name != UNIFORM:
        return ""
    if one.period == two.period:
        by = one.offset - two.offset
        if by == 0:
            return ""
        return (
            f"the right side is moved by {by} ticks"
            if node.align == "shift"
            else "the right side is resampled"
        )
    side, policy = ("left", one.policy) if one.period > two.period else ("right", two.policy)
    how = "only beats that coincide remain" if policy is None else f"by {policy.name}"
    return f"the {side} side is resampled: {how}"


def memory_of(query: Node) -> int | None:
    """How far operations that forget look back, in ticks; None: one fills any pause."""
    below = [
        memory_of(child)
        for child in query.children
        if not isinstance(child, n.Policy | n.Agg | n.PayloadType)
    ]
    if any(each is None for each in below):
        return None
    rest = max((each for each in below if each is not None), default=0)
    period = 0 if isinstance(query, n.Reading) else kind_of(query.children[0]).period
    match query:
        case n.Sample() | n.Resample() if query.interpolate is not None:
            return None if query.interpolate.window is None else max(rest, query.interpolate.window)
        case n.Fir():
            return rest + (len(query.b) - 1) * period
        case n.Polyphase():
            return rest + len(query.taps) * period // query.up
        case n.Hopping() | n.Window():
            return rest + (query.size - 1) * period
        case n.Unwindow():
            return rest + (_size(query.input) - 1) * kind_of(query).period
        case n.Session():
            return max(rest, query.gap)
        case n.UntilNext():
            return max(rest, query.max)
        case _:
            return rest
