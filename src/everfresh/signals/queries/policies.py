"""How beats between two references are filled (section 7.4.2 of the thesis).

A window is a number of ticks, or a `timedelta` or text, which become ticks where the policy is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.queries.base import Query, Ticks, ticks
from everfresh.signals.queries.quantities import real


def constant(value: float, window: Ticks | None = None) -> n.Policy:
    """Beats between references have a constant."""
    return n.Policy("constant", _given(window), real(value, "constant"))


def last(window: Ticks | None = None, causal: bool = False) -> n.Policy:
    """The value of the reference before; `causal`: without waiting for the next, as long as `window`."""
    if causal and window is None:
        raise faults.period("last(causal=True) has no end without a window", "give window=")
    return n.Policy("last", _given(window), causal=causal)


def zero_order(window: Ticks | None = None) -> n.Policy:
    """The value of the nearer reference; in the middle that of the later."""
    return n.Policy("zero_order", _given(window))


def first_order(window: Ticks | None = None) -> n.Policy:
    """On the line through both references."""
    return n.Policy("first_order", _given(window))


def second_order(window: Ticks | None = None) -> n.Policy:
    """On the parabola through the last three references, on a line where there are two."""
    return n.Policy("second_order", _given(window))


def user(
    f2: Callable[..., Any], f3: Callable[..., Any] | None = None, window: Ticks | None = None
) -> n.Policy:
    """`f2(v_r, r, v_s, s, t)` of arrays; with three references `f3(v_q, q, v_r, r, v_s, s, t)`."""
    return n.Policy("user", _given(window), f2=n.Fn.of(f2), f3=None if f3 is None else n.Fn.of(f3))


def _given(window: Ticks | None) -> Any:
    """A window as it was given: how many ticks it has is known with the signal's times."""
    if isinstance(window, Integral) and not isinstance(window, bool) and window < 0:
        raise faults.period(f"window {window} is negative", "the longest pause that is filled")
    return window


def policy_of(signal: Query, given: Any) -> n.Policy | None:
    """The policy that a call was given, its window in ticks of the signal's times."""
    if given is None:
        return None
    if not isinstance(given, n.Policy):
        raise EverfreshError(
            Code.ARGUMENT,
            f"interpolate={given!r} is no policy",
            hint="for example first_order(window=60), or last()",
        )
    if given.window is None:
        return given
    return replace(given, window=_given(ticks(given.window, signal.unit, "window")))
