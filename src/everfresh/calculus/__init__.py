"""The calculus of views: nodes, binding patterns, meaning, text, and the delta table.

Implements chapter 2 of *Efficient Incremental Data Analysis* (AGCA), over Q^k, with NULL and with two kinds
of lift.
"""

from everfresh.calculus.binding import inputs, outputs, pattern
from everfresh.calculus.delta import delta
from everfresh.calculus.evaluate import Database, evaluate
from everfresh.calculus.nodes import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    arity,
    product,
    relations,
    union,
)
from everfresh.calculus.spec import DELTA, QUERY, STATEMENT, SpecError, Stage, check
from everfresh.calculus.text import parse, to_text

__all__ = [
    "DELTA",
    "ONE",
    "QUERY",
    "STATEMENT",
    "ZERO",
    "Bind",
    "Cond",
    "Database",
    "Exists",
    "Lift",
    "MapRef",
    "Neg",
    "Plus",
    "Prod",
    "Query",
    "Rel",
    "SpecError",
    "Stage",
    "Sum",
    "Value",
    "arity",
    "check",
    "delta",
    "evaluate",
    "inputs",
    "outputs",
    "parse",
    "pattern",
    "product",
    "relations",
    "to_text",
    "union",
]
