"""Signals: streams of events that become samples, windows and spectra, many groups at once (chapter 7 of the
thesis).

A query is made by calls, each of which gives a new one, and is the same for rows at hand and rows to come:
`q.run(rows)` computes it at once, `Pipeline` step by step, with the same bits.

>>> import pyarrow as pa
>>> from everfresh import signals
>>> q = signals.reading("t", time="time", value="x").sample(10, interpolate=signals.first_order())
>>> q.run(pa.table({"time": [0, 15, 20], "x": [0.0, 3.0, 2.0]})).to_pydict()
{'time': [0, 10, 20], 'x': [0.0, 2.0, 2.0]}
"""

from everfresh.signals.aggregate import Aggregate, PayloadType, WindowOperator
from everfresh.signals.domain.functions import register
from everfresh.signals.nodes import Fn
from everfresh.signals.queries import (
    Reference,
    Signal,
    Stream,
    Uniform,
    Windowed,
    constant,
    first_order,
    last,
    reading,
    reference,
    second_order,
    user,
    zero_order,
)
from everfresh.signals.run.pipeline import Pipeline
from everfresh.signals.text import parse, to_text

__all__ = [
    "Aggregate",
    "Fn",
    "PayloadType",
    "Pipeline",
    "Reference",
    "Signal",
    "Stream",
    "Uniform",
    "WindowOperator",
    "Windowed",
    "constant",
    "first_order",
    "last",
    "parse",
    "reading",
    "reference",
    "register",
    "second_order",
    "to_text",
    "user",
    "zero_order",
]
