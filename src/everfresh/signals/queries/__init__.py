"""The fluent calls by which a query over signals is made, as close to Listing 7.1 of the thesis as Python is.

Four kinds: a `Stream` (lifetimes may overlap), a `Signal`, a `Uniform` one on a grid, a `Windowed` one with
arrays. Each call gives a new query; a call that a kind lacks is refused with the step that leads there.
"""

from everfresh.signals.kinds import SIGNAL, STREAM, UNIFORM, WINDOWED
from everfresh.signals.queries.base import CLASSES, STEPS, Events, Query, query
from everfresh.signals.queries.events import Signal, Stream, Valued
from everfresh.signals.queries.policies import constant, first_order, last, second_order, user, zero_order
from everfresh.signals.queries.readings import Reference, reading, reference
from everfresh.signals.queries.uniform import Uniform
from everfresh.signals.queries.windowed import Windowed

CLASSES.update({STREAM: Stream, SIGNAL: Signal, UNIFORM: Uniform, WINDOWED: Windowed})
STEPS += [
    (Signal, ("signals", "to_signal() makes a signal of a stream")),
    (Uniform, ("uniform signals", "sample(period, interpolate=...) or as_uniform(period) first")),
    (Windowed, ("windowed signals", "window(size, hop) first")),
    (Stream, ("streams", "a signal is read with overlap=True to be one")),
    (Valued, ("signals", "to_signal() makes a signal of a stream")),
    (Events, ("signals", "unwindow() or reduce() makes a signal of windows")),
]

__all__ = [
    "Query",
    "Reference",
    "Signal",
    "Stream",
    "Uniform",
    "Windowed",
    "constant",
    "first_order",
    "last",
    "query",
    "reading",
    "reference",
    "second_order",
    "user",
    "zero_order",
]
