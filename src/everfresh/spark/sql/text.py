"""Spark SQL text from bound expressions, with DuckDB's semantics: how the Spark engine recomputes.

The session has `spark.sql.ansi.enabled=true` (the default in Spark 4: overflow and integer division by zero
raise) and the time zone UTC. TIMESTAMP is TIMESTAMP_NTZ, HUGEINT a DECIMAL(38,0); INTERVAL is a struct of
months, days and microseconds, since Spark's own intervals mix and compare differently. The functions are in
`sqlfunctions`, the casts in `sqlcasts`, the plans in `sqlplan`.

Invariant: the text of an expression has exactly the Spark type `spark_type(expr.type)`, can stand as an
operand anywhere, and its floats are canonical (no -0.0) if those of its columns are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.library.civil import DAY_US
from everfresh.expr.library.render import date_text, decimal_text, timestamp_text
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var
from everfresh.spark.sql.forms import HELD
from everfresh.sql.logical import plan as p
from everfresh.types import BIGINT, INTEGER, INTERVAL, MAX_DIGITS, Column, SqlType

_TYPES = {
    "INTEGER": "INT", "HUGEINT": "DECIMAL(38,0)", "REAL": "FLOAT", "VARCHAR": "STRING", "NULL": "VOID",
    "TIMESTAMP": "TIMESTAMP_NTZ", "INTERVAL": "STRUCT<months: INT, days: INT, us: BIGINT>", **HELD,
}  # fmt: skip
INF, NAN, WIDE = "CAST('Infinity' AS DOUBLE)", "CAST('NaN' AS DOUBLE)", "DECIMAL(38,0)"
HALF_AWAY = "(@0 - @0 % 1 + CASE WHEN @0 % 1 >= 0.5D THEN 1 WHEN @0 % 1 <= -0.5D THEN -1 ELSE 0 END)"


def spark_type(type_: SqlType) -> str:
    """The Spark type that holds values of a type.

    >>> from everfresh.types import DECIMAL, TIMESTAMP
    >>> spark_type(DECIMAL(15, 2)), spark_type(TIMESTAMP)
    ('DECIMAL(15,2)', 'TIMESTAMP_NTZ')
    """
    return _TYPES.get(type_.name, str(type_))


# -- text ----------------------------------------------------------------------------------------------------

_HOLE = re.compile(r"@(\d)")
_SHORT = 40


def fill(template: str, *args: str) -> str:
    """A template with its arguments `@0`, `@1`, ...; a long one that occurs twice is computed once."""
    used = _HOLE.findall(template)
    if any(len(arg) > _SHORT and used.count(str(i)) > 1 for i, arg in enumerate(args)):
        return let(template, *args)
    return _HOLE.sub(lambda m: args[int(m[1])], template)


def let(template: str, *args: str) -> str:
    """A template over variables that have the values of the arguments: a lambda over an array of one."""
    fields = ", ".join(f"'x{i}', {arg}" for i, arg in enumerate(args))
    body = _HOLE.sub(lambda m: f"_v.x{m[1]}", template)
    return f"transform(array(named_struct({fields})), _v -> {body})[0]"


def string(text: str) -> str:
    """A string literal; what the parser would take for an escape or a variable is written as its code."""
    return "'" + re.sub(r"[\x00-\x1f\x7f'\\$@]", lambda m: f"\\u{ord(m[0]):04x}", text) + "'"


def fail(code: str, message: str, type_: str) -> str:
    """An expression of a Spark type that raises; `everfresh.spark.session.failures` reads the error back."""
    error = json.dumps(EverfreshError(code, message).to_dict())
    return f"CAST(raise_error({string('everfresh-error:' + error)}) AS {type_})"


def unsupported(what: str) -> EverfreshError:
    """The error of what Spark SQL cannot compute as everfresh does."""
    return EverfreshError(Code.UNSUPPORTED, f"{what} is not supported in a query on Spark")


def zero(type_: SqlType) -> str:
    """What is added to a float to turn -0.0 into 0.0."""
    return "CAST(0 AS FLOAT)" if type_.name == "REAL" else "0D"


def power_of_ten(n: int) -> str:
    """10**n as a DECIMAL without more digits than it needs."""
    return f"CAST('1E{n}' AS DECIMAL({abs(n) + 1},{max(0, -n)}))"


def within(text: str, bound: int) -> str:
    """Whether |text| <= bound; `abs` and `-` of a DECIMAL round to 34 digits in Spark."""
    return f"{text} BETWEEN -{bound} AND {bound}"


def micros(timestamp: str) -> str:
    """Microseconds since 1970 of a timestamp."""
    return f"unix_micros(CAST({timestamp} AS TIMESTAMP))"


def instant(us: str) -> str:
    """The timestamp at some microseconds since 1970."""
    return f"CAST(timestamp_micros({us}) AS TIMESTAMP_NTZ)"


def span(months: str, days: str, us: str) -> str:
    """An interval."""
    return f"named_struct('months', {months}, 'days', {days}, 'us', {us})"


_PLAIN_DAYS = range(-719_162, 2_932_897)  # the years 1 to 9999


def literal(value: Const) -> str:
    """A constant."""
    v, to = value.value, spark_type(value.of)
    if v is None:
        return f"CAST(NULL AS {to})"
    match value.of.name:
        case "BOOLEAN":
            return "TRUE" if v else "FALSE"
        case _ if value.of.is_text:
            return string(v)
        case "INTEGER" | "BIGINT" if v >= 0:
            return f"{v}L" if value.of == BIGINT else str(v)
        case "HUGEINT" if abs(v) >= 10**MAX_DIGITS:
            raise unsupported(f"the number {v}, which has more than {MAX_DIGITS} digits,")
        case "DECIMAL":
            return f"CAST('{decimal_text(v, value.of.scale)}' AS {to})"
        case "DATE":
            return f"DATE'{date_text(v)}'" if v in _PLAIN_DAYS else f"date_from_unix_date({v})"
        case "TIMESTAMP" | "TIMESTAMPTZ" if v // DAY_US in _PLAIN_DAYS:
            return f"TIMESTAMP_NTZ'{timestamp_text(v)}'"
        case "TIMESTAMP" | "TIMESTAMPTZ":
            return instant(f"CAST('{v}' AS BIGINT)")
        case "INTERVAL":
            return span(*(literal(Const(x, t)) for x, t in zip(v, (INTEGER, INTEGER, BIGINT), strict=True)))
        case _:
            return f"CAST('{v!r}' AS {to})"


def unscaled(text: str, type_: SqlType) -> str:
    """A DECIMAL times 10**scale, as DECIMAL(38,0)."""
    if type_.scale == 0:
        return f"CAST({text} AS {WIDE})"
    if type_.precision + type_.scale + 2 <= MAX_DIGITS:
        return f"CAST({text} * {power_of_ten(type_.scale)} AS {WIDE})"
    return f"CAST(concat(CAST({text} AS STRING), 'E{type_.scale}') AS {WIDE})"  # a product would lose digits


def scaled(text: str, digits: int, to: SqlType) -> str:
    """A DECIMAL(digits,0) times 10**-scale, in the type `to`."""
    if to.scale == 0:
        return f"CAST({text} AS {spark_type(to)})"
    if digits + to.scale + 2 <= MAX_DIGITS:
        return f"CAST({text} * {power_of_ten(-to.scale)} AS {spark_type(to)})"
    return f"CAST(concat(CAST({text} AS STRING), 'E-{to.scale}') AS {spark_type(to)})"


# -- expressions ---------------------------------------------------------------------------------------------


def name(text: str) -> str:
    """A quoted identifier."""
    return "`" + text.replace("`", "``") + "`"


def expr_sql(expr: Expr) -> str:
    """An expression as Spark SQL; variables are columns. Raises Code.UNSUPPORTED for what cannot be said.

    >>> from everfresh.expr import build
    >>> expr_sql(build.call("+", Var("a", INTEGER), build.literal(1)))
    '(`a` + 1)'
    """
    from everfresh.spark.sql.casts import cast_sql
    from everfresh.spark.sql.functions import call_sql

    match expr:
        case Var():
            return name(expr.name)
        case Const():
            return literal(expr)
        case Cast():
            return cast_sql(expr, expr_sql(expr.arg))
        case Call():
            return call_sql(expr, [expr_sql(arg) for arg in expr.args])
        case Case():
            arms = " ".join(f"WHEN {expr_sql(when)} THEN {expr_sql(then)}" for when, then in expr.arms)
            return f"CASE {arms} ELSE {expr_sql(expr.default)} END"
    raise unsupported(f"{type(expr).__name__} as an expression")


def order_key(text: str, type_: SqlType) -> str:
    """What values of a type are compared by: intervals with months of 30 days."""
    if type_ != INTERVAL:
        return text
    return fill(f"((CAST((@0).months AS {WIDE}) * 30 + (@0).days) * {DAY_US}L + (@0).us)", text)


def spark_schema(columns: Sequence[Column]) -> str:
    """The Spark schema of rows with these columns, as text: a client of Connect parses no types itself."""
    return ", ".join(f"{name(c.name)} {spark_type(c.type)}" for c in columns)


def plan_sql(plan: p.Plan, source: Callable[[str], str], beside: Callable[[Any], str] | None = None) -> str:
    """A plan as a SELECT with the plan's columns, in order, by name.

    `source` gives Spark's name of a table or view, which has exactly its columns, `beside` that of given rows
    (`everfresh.delta.given`).
    """
    from everfresh.spark.sql.plan import Writer

    return Writer(plan, source, beside).text()
