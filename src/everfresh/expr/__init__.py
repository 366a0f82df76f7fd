"""Scalar expressions: nodes, the function table, two evaluators that agree, text, typed construction,
folding.

`build` makes expressions with DuckDB's implicit casts; `evaluate` is the reference, `evaluate_vector` its
fast twin on `Vector` columns; `to_text` and `parse` are inverse; `FOLD` evaluates what is constant.
"""

from everfresh.expr import build
from everfresh.expr.column import Vector, concat
from everfresh.expr.fold import FOLD
from everfresh.expr.library.functions import FUNCTIONS, Function, Signature
from everfresh.expr.names import Made, stored, told, unstored
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var, substitute, variables
from everfresh.expr.scalar import evaluate
from everfresh.expr.text import parse, parse_expr, to_text
from everfresh.expr.tokens import Token, TokenStream, quote_name
from everfresh.expr.total import total
from everfresh.expr.unnesting import each, element, spread
from everfresh.expr.vector import evaluate_vector, satisfied

__all__ = [
    "FOLD",
    "FUNCTIONS",
    "Call",
    "Case",
    "Cast",
    "Const",
    "Expr",
    "Function",
    "Made",
    "Signature",
    "Token",
    "TokenStream",
    "Var",
    "Vector",
    "build",
    "concat",
    "each",
    "element",
    "evaluate",
    "evaluate_vector",
    "parse",
    "parse_expr",
    "quote_name",
    "satisfied",
    "spread",
    "stored",
    "substitute",
    "to_text",
    "told",
    "total",
    "unstored",
    "variables",
]
