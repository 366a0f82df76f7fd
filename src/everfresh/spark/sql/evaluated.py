"""Expressions that Spark SQL cannot say, computed in its Python workers by everfresh's own evaluator.

One function, registered with each session, takes the text of an expression, the declarations of its variables
and their values, and gives the values of the expression as text: whatever its type is, a cast reads it back.
So each function of everfresh can stand in a query on Spark; those that Spark has are left to Spark.
Another one gives the values of a list, which Spark holds as a code, as an array of such texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.expr.column import Vector
from everfresh.expr.nodes import Expr, Var
from everfresh.expr.text import declaration, parse_declaration, parse_expr, to_text
from everfresh.expr.tokens import TokenStream
from everfresh.expr.vector import evaluate_vector
from everfresh.spark.sql.forms import from_held
from everfresh.spark.sql.text import expr_sql, spark_type, string, unsupported
from everfresh.types import INTERVAL, NULL, Column, SqlType, arrow_schema, coding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTION = "everfresh_value"
"""The name of the function in Spark."""
ELEMENTS = "everfresh_elements"
"""The name of the function of lists."""


def evaluated(expr: Expr, known: Mapping[str, str] | None = None) -> str:
    """The text of an expression whose arguments Spark computes, and everfresh the rest; `known` has the text
    of some variables."""
    args = [arg for arg in expr.children if isinstance(arg, Expr)]
    names: dict[Expr, Var] = {}
    for arg in args:
        if arg not in names and not _constant(arg):
            names[arg] = Var(f"x{len(names)}", arg.type, arg.nullable)
    if any(t in (INTERVAL, NULL) for t in (expr.type, *(v.of for v in names.values()))):
        raise unsupported(f"{expr} with an INTERVAL")
    made = expr.map_children(lambda child: names.get(child, child))
    declared = ", ".join(declaration(v) for v in names.values())
    head = f"{declared}{': ' if declared else ':'}{to_text(made)}"
    given = {} if known is None else known
    columns = "".join(f", {given.get(getattr(arg, 'name', '')) or expr_sql(arg)}" for arg in names)
    return read_back(f"{FUNCTION}({string(head)}{columns})", expr.type)


def elements(text: str, type_: SqlType) -> str:
    """The values of a list of a type as an array of texts, which `read_back` reads."""
    if type_.inner[0] in (INTERVAL, NULL):
        raise unsupported(f"a list of {type_.inner[0]}")
    return f"{ELEMENTS}({string(declaration(Var('l', type_, True)))}, {text})"


def _constant(expr: Expr) -> bool:
    return not any(isinstance(n, Var) for n in expr.walk())


def read_back(text: str, type_: SqlType) -> str:
    """The value of a type that a text stands for."""
    to = spark_type(type_)
    if to == "STRING":
        return text
    if type_.name in ("TIMESTAMP", "TIMESTAMPTZ"):
        return f"CAST(timestamp_micros(CAST({text} AS BIGINT)) AS TIMESTAMP_NTZ)"
    if type_.name == "DATE":
        return f"date_from_unix_date(CAST({text} AS INT))"
    return f"CAST({text} AS {to})"


def register(session: SparkSession) -> None:
    """Make the functions known to a session."""
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import ArrayType, StringType

    session.udf.register(FUNCTION, arrow_udf(_values, StringType()))
    session.udf.register(ELEMENTS, arrow_udf(_elements, ArrayType(StringType())))


@lru_cache(maxsize=256)
def _read(text: str) -> tuple[tuple[Var, ...], Expr]:
    stream = TokenStream(text)
    found: list[Var] = []
    while not stream.accept(":"):
        if found:
            stream.expect(",")
        found.append(parse_declaration(stream))
    expr = parse_expr(stream, {v.name: v for v in found})
    stream.end()
    return tuple(found), expr


def _values(head: pa.Array, *columns: pa.Array) -> pa.Array:
    """The values of the expression for some rows, as text."""
    from everfresh.errors import EverfreshError
    from everfresh.spark.session.failures import TaskError

    rows = len(head)
    if not rows:
        return pa.array([], pa.string())
    variables, expr = _read(head[0].as_py())
    given = tuple(Column(v.name, v.of) for v in variables)
    table = pa.Table.from_arrays(list(columns), names=[c.name for c in given]) if given else None
    vectors: dict[str, Vector] = {}
    if table is not None:
        table = from_held(table, given).cast(arrow_schema(given))
        vectors = {c.name: Vector.from_arrow(table.column(c.name), c.type) for c in given}
    try:
        found = evaluate_vector(expr, vectors, rows)
    except EverfreshError as error:
        raise TaskError(error) from error
    return pa.array([None if v is None else _text(v, expr.type) for v in found.to_pylist()], pa.string())


def _elements(head: pa.Array, codes: pa.Array) -> pa.Array:
    """The values of each list, as texts."""
    of = pa.list_(pa.string())
    if not len(head):
        return pa.array([], of)
    type_ = parse_declaration(TokenStream(head[0].as_py())).of
    inner = type_.inner[0]

    def texts(code: str | None) -> list[str | None] | None:
        if code is None:
            return None
        return [None if v is None else _text(v, inner) for v in coding.elements(code, type_)]

    return pa.array(map(texts, codes.to_pylist()), of)


def _text(value: Any, type_: SqlType) -> str:
    if type_.is_text:
        text: str = value
        return text
    if type_.name == "BOOLEAN":
        return "true" if value else "false"
    if type_.name == "DECIMAL":
        from everfresh.expr.library.render import decimal_text

        return decimal_text(value, type_.scale)
    return repr(value)
