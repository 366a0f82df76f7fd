"""How beats between two references are filled (section 7.4.2 of the thesis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everfresh.signals import faults
from everfresh.signals import nodes as n


def constant(value: float, window: int | None = None) -> n.Policy:
    """Beats between references have a constant."""
    return n.Policy("constant", window, float(value))


def last(window: int | None = None, causal: bool = False) -> n.Policy:
    """The value of the reference before; `causal`: without waiting for the next, as long as `window`."""
    if causal and window is None:
        raise faults.period("last(causal=True) has no end without a window", "give window=")
    return n.Policy("last", window, causal=causal)


def zero_order(window: int | None = None) -> n.Policy:
    """The value of the nearer reference; in the middle that of the later."""
    return n.Policy("zero_order", window)


def first_order(window: int | None = None) -> n.Policy:
    """On the line through both references."""
    return n.Policy("first_order", window)


def second_order(window: int | None = None) -> n.Policy:
    """On the parabola through the last three references, on a line where there are two."""
    return n.Policy("second_order", window)


def user(f2: Callable[..., Any], f3: Callable[..., Any] | None = None, window: int | None = None) -> n.Policy:
    """`f2(v_r, r, v_s, s, t)` of arrays; with three references `f3(v_q, q, v_r, r, v_s, s, t)`."""
    return n.Policy("user", window, f2=n.Fn.of(f2), f3=None if f3 is None else n.Fn.of(f3))
