"""The calculus of views: nodes, binding patterns, meaning, text, and the delta table.

Implements chapter 2 of *Efficient Incremental Data Analysis* (AGCA), over Q^k, with NULL and with two kinds
of lift.
"""

from everfresh.calculus.binding import hidden, inputs, outputs, pattern
from everfresh.calculus.delta import delta
from everfresh.calculus.domain_extraction import domain
from everfresh.calculus.evaluate import Database, Function, evaluate
from everfresh.calculus.nodes import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Each,
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
    degree,
    maps_read,
    product,
    relations,
    rename,
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
    "Each",
    "Exists",
    "Function",
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
    "degree",
    "delta",
    "domain",
    "evaluate",
    "hidden",
    "inputs",
    "maps_read",
    "outputs",
    "parse",
    "pattern",
    "product",
    "relations",
    "rename",
    "to_text",
    "union",
]
