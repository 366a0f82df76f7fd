"""Spark SQL text from bound plans and expressions, with DuckDB's semantics: how the Spark engine recomputes.

The session has `spark.sql.ansi.enabled=true` (the default in Spark 4: overflow and integer division by zero
raise) and the time zone UTC. TIMESTAMP is TIMESTAMP_NTZ, HUGEINT a DECIMAL(38,0); INTERVAL is a struct of
months, days and microseconds, since Spark's own intervals mix and compare differently. The functions are in
`sqlfunctions`.

Invariant: the text of an expression has exactly the Spark type `spark_type(expr.type)`, can stand as an
operand anywhere, and its floats are canonical (no -0.0) if those of its columns are. The text of a plan has
the plan's columns, in order, by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.casts import EXACT_IN, cast_value, family
from everfresh.expr.civil import DAY_US
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var, substitute
from everfresh.expr.render import date_text, decimal_text, timestamp_text
from everfresh.sql import plan as p
from everfresh.types import BIGINT, DOUBLE, INTEGER, INTERVAL, MAX_DIGITS, NULL, SqlType

_TYPES = {
    "INTEGER": "INT", "HUGEINT": "DECIMAL(38,0)", "REAL": "FLOAT", "VARCHAR": "STRING", "NULL": "VOID",
    "TIMESTAMP": "TIMESTAMP_NTZ", "INTERVAL": "STRUCT<months: INT, days: INT, us: BIGINT>",
}  # fmt: skip
INF, NAN, WIDE = "CAST('Infinity' AS DOUBLE)", "CAST('NaN' AS DOUBLE)", "DECIMAL(38,0)"


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
    """An expression of a Spark type that raises; `everfresh.spark.failures` reads the error back."""
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
        case "VARCHAR":
            return string(v)
        case "INTEGER" | "BIGINT" if v >= 0:
            return f"{v}L" if value.of == BIGINT else str(v)
        case "HUGEINT" if abs(v) >= 10**MAX_DIGITS:
            raise unsupported(f"the number {v}, which has more than {MAX_DIGITS} digits,")
        case "DECIMAL":
            return f"CAST('{decimal_text(v, value.of.scale)}' AS {to})"
        case "DATE":
            return f"DATE'{date_text(v)}'" if v in _PLAIN_DAYS else f"date_from_unix_date({v})"
        case "TIMESTAMP" if v // DAY_US in _PLAIN_DAYS:
            return f"TIMESTAMP_NTZ'{timestamp_text(v)}'"
        case "TIMESTAMP":
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


# -- casts between numbers -----------------------------------------------------------------------------------

HALF_AWAY = "(@0 - @0 % 1 + CASE WHEN @0 % 1 >= 0.5D THEN 1 WHEN @0 % 1 <= -0.5D THEN -1 ELSE 0 END)"
# A double that is a whole number, exactly: Spark's own cast to DECIMAL goes by its shortest decimal form.
_WHOLE = (
    f"CASE WHEN abs(@0) < 9.2E18D THEN CAST(CAST(@0 AS BIGINT) AS {WIDE}) ELSE CAST("
    "CAST(CAST((@0 - @0 % 18446744073709551616D) / 18446744073709551616D AS BIGINT) AS DECIMAL(20,0))"
    " * CAST('18446744073709551616' AS DECIMAL(20,0))"
    f" + CAST(CAST(@0 % 18446744073709551616D / 1024D AS BIGINT) AS DECIMAL(20,0)) * 1024 AS {WIDE}) END"
)
_TO_FLOAT = {  # of an integer: 64 bits in one rounding, wider ones pass through double
    "DOUBLE": "CAST(@0 AS DOUBLE)",
    "REAL": f"CASE WHEN {within('@0', BIGINT.bounds[1])} THEN CAST(CAST(@0 AS BIGINT) AS FLOAT)"
            " ELSE CAST(CAST(@0 AS DOUBLE) AS FLOAT) END",
}  # fmt: skip


def _exact_to_exact(text: str, source: SqlType, to: SqlType) -> str:
    if source.scale and to.is_integer:  # Spark cuts the fraction off; DuckDB rounds half away from zero
        text = f"CAST({text} AS {WIDE})"
    return f"CAST({text} AS {spark_type(to)})"


def _exact_to_float(text: str, source: SqlType, to: SqlType) -> str:
    """Beyond what is exact in the float, DuckDB divides whole and fraction apart."""
    if (source.is_integer and not source.is_wide) or (to == DOUBLE and source.precision <= 15):
        return f"CAST({text} AS {spark_type(to)})"
    if source.scale == 0:
        return fill(_TO_FLOAT[to.name], f"CAST({text} AS {WIDE})")
    power = 10.0**source.scale if to == DOUBLE else float(np.float32(10.0**source.scale))
    ratio = f"CAST({_TO_FLOAT[to.name]} / {literal(Const(power, to))} AS {spark_type(to)})"
    whole = let(_TO_FLOAT[to.name], f"CAST(CASE WHEN @1 < 0 THEN ceil(@1) ELSE floor(@1) END AS {WIDE})")
    rest = "@0" if source.precision == source.scale else f"CAST(@0 % {power_of_ten(source.scale)} AS {WIDE})"
    parts = f"WHEN {within('@0', EXACT_IN[to.name])} THEN {ratio} ELSE {whole} + {let(ratio, rest)}"
    return fill(f"CASE {parts} END", unscaled(text, source), text)


def _float_to_exact(text: str, _: SqlType, to: SqlType) -> str:
    if to.name == "DECIMAL":
        product = f"(CAST({text} AS DOUBLE) * {literal(Const(float(10**to.scale), DOUBLE))})"
        whole = f"CAST({fill(_WHOLE, fill(HALF_AWAY, product))} AS DECIMAL({to.precision},0))"
        return scaled(whole, to.precision, to)
    rounded = f"rint(CAST({text} AS DOUBLE))"
    if to.name in ("BIGINT", "HUGEINT"):
        rounded = fill(_WHOLE, rounded)
    return f"CAST({rounded} AS {spark_type(to)})"


def _float_to_float(text: str, _: SqlType, to: SqlType) -> str:
    if to == DOUBLE:
        return f"CAST({text} AS DOUBLE)"
    outside = fail(Code.OVERFLOW, "a DOUBLE is outside REAL", "FLOAT")
    when = f"abs(@0) < {INF} AND abs(CAST(@0 AS FLOAT)) = {INF}"
    return fill(f"CASE WHEN {when} THEN {outside} ELSE CAST(@0 AS FLOAT) + {zero(to)} END", text)


# -- casts to text -------------------------------------------------------------------------------------------

_DATE_TEXT = (
    "CASE WHEN year(@0) BETWEEN 1 AND 9999 THEN CAST(@0 AS STRING) WHEN @0 IS NOT NULL THEN concat("
    "format_string('%04d-%02d-%02d', CASE WHEN year(@0) > 0 THEN year(@0) ELSE 1 - year(@0) END, month(@0),"
    " day(@0)), CASE WHEN year(@0) > 0 THEN '' ELSE ' (BC)' END) END"
)
_TIME_OF_DAY = instant(f"pmod({micros('@0')}, {DAY_US}L)")
_TIME_TEXT = f"substring(CAST({_TIME_OF_DAY} AS STRING), 11)"
_UNIT_TEXT = "CASE WHEN (~) <> 0 THEN concat(~, ' ¤', CASE WHEN (~) IN (1, -1) THEN '' ELSE 's' END) END"
_UNITS_TEXT = ", ".join(
    _UNIT_TEXT.replace("~", count).replace("¤", unit)
    for count, unit in (("(@0).months div 12", "year"), ("(@0).months % 12", "month"), ("(@0).days", "day"))
)
_SPAN_TEXT = (
    f"CASE WHEN @0 IS NOT NULL THEN concat_ws(' ', {_UNITS_TEXT}, CASE WHEN (@0).us <> 0 OR ((@0).months = 0"
    " AND (@0).days = 0) THEN concat(CASE WHEN (@0).us < 0 THEN '-' ELSE '' END, format_string("
    "'%02d:%02d:%02d', abs((@0).us div 3600000000L), abs((@0).us div 60000000L % 60),"
    " abs((@0).us div 1000000L % 60)), CASE WHEN (@0).us % 1000000L = 0 THEN '' ELSE concat('.',"
    " regexp_replace(format_string('%06d', abs((@0).us % 1000000L)), '0+$', '')) END) END) END"
)


def _float_text(kind: str, *places: int) -> str:
    """The fewest digits that read back as the number, as Python prints them."""
    *shorter, last = (f"format_string('%.{n}e', @0)" for n in places)
    digits = "".join(f" WHEN CAST({text} AS {kind}) = @0 THEN {text}" for text in shorter)
    zeros, zeros_e = string(r"(\.[0-9]+?)0+$"), string(r"\.?0+e")
    text = (
        f"CASE WHEN isnan(@0) THEN 'nan' WHEN @0 = {INF} THEN 'inf' WHEN @0 = -{INF} THEN '-inf'"
        f" WHEN @0 = 0 OR (abs(@0) >= CAST(1E-4D AS {kind}) AND abs(@0) < CAST(1E16D AS {kind}))"
        f" THEN regexp_replace(CAST(CAST(@1 AS DECIMAL(38,21)) AS STRING), {zeros}, '$1')"
        f" ELSE regexp_replace(@1, {zeros_e}, 'e') END"
    )
    return let(text, "@0", f"CASE WHEN @0 IS NULL THEN NULL{digits} ELSE {last} END")


_TEXT = {
    "DATE": _DATE_TEXT, "TIMESTAMP": f"concat({let(_DATE_TEXT, 'CAST(@0 AS DATE)')}, {_TIME_TEXT})",
    "INTERVAL": _SPAN_TEXT,
    "REAL": _float_text("FLOAT", 5, 6, 7, 8), "DOUBLE": _float_text("DOUBLE", 14, 15, 16),
}  # fmt: skip


def _to_text(text: str, source: SqlType, _: SqlType) -> str:
    if source.name == "DECIMAL" and source.precision == source.scale:  # no room for the zero in front
        return f"regexp_replace(CAST({text} AS STRING), {string('^(-?)0')}, '$1')"
    return fill(_TEXT.get(source.name, "CAST(@0 AS STRING)"), text)


# -- casts from text -----------------------------------------------------------------------------------------

_NUMBER = r"\A[+-]?(?=\.?[0-9])([0-9]+(_[0-9]+)*)?(\.([0-9]+(_[0-9]+)*)?)?([eE][+-]?[0-9]+)?\z"
_IS_NUMBER = f"@0 RLIKE {string(_NUMBER)}"
_RADIX = {16: r"\A0[xX][0-9a-fA-F]+\z", 2: r"\A0[bB][01]+\z", 8: r"\A0[oO][0-7]+\z"}
_MOMENT = string(
    r"\A(-?)([0-9]{1,7})([-/ \\])([0-9]{1,2})\3([0-9]{1,2})( \(BC\))?(?:[ T]([0-9]{1,2}):([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.([0-9]+))?)?(?i:Z| ?UTC|[+-][0-9]{2}(?::[0-9]{2}){0,2})?)?\z"
)
_FLOAT_NAMES = {
    "NaN": "'nan', '+nan', '-nan'", "Infinity": "'inf', '+inf', 'infinity', '+infinity'",
    "-Infinity": "'-inf', '-infinity'",
}  # fmt: skip


def _reader(arms: str, text: str, to: SqlType) -> str:
    """`arms` on the text without the blanks around it; raises if none applies."""
    wrong = fail(Code.VALUE, f"cannot read a text as {to}", spark_type(to))
    blank = string(" \t\n\v\f\r")
    return let(f"CASE {arms} WHEN @0 IS NOT NULL THEN {wrong} END", f"TRIM(BOTH {blank} FROM {text})")


def _read_exact(text: str, _: SqlType, to: SqlType) -> str:
    kind = spark_type(to)
    number = f"CAST(replace(@0, '_', '') AS {WIDE if to.is_integer else kind})"
    arms = f"WHEN {_IS_NUMBER} THEN CAST({number} AS {kind})"
    for base, pattern in _RADIX.items() if to.is_integer else ():
        arms += f" WHEN @0 RLIKE {string(pattern)} THEN CAST(conv(substring(@0, 3), {base}, 10) AS {kind})"
    return _reader(arms, text, to)


def _read_float(text: str, _: SqlType, to: SqlType) -> str:
    kind = spark_type(to)
    arms = f"WHEN {_IS_NUMBER} THEN CAST(CAST(replace(@0, '_', '') AS DOUBLE) AS {kind}) + {zero(to)}"
    for value, words in _FLOAT_NAMES.items():
        arms += f" WHEN lower(@0) IN ({words}) THEN CAST('{value}' AS {kind})"
    return _reader(arms, text, to)


def _read_boolean(text: str, _: SqlType, to: SqlType) -> str:
    wrong = fail(Code.VALUE, "cannot read a text as BOOLEAN", "BOOLEAN")
    true, false = "lower(@0) IN ('true', 't', '1', 'yes', 'y')", "lower(@0) IN ('false', 'f', '0', 'no', 'n')"
    arms = f"WHEN {true} THEN TRUE WHEN {false} THEN FALSE WHEN @0 IS NOT NULL THEN {wrong}"
    return fill(f"CASE {arms} END", text)


def _read_moment(text: str, _: SqlType, to: SqlType) -> str:
    """A DATE or TIMESTAMP from the groups of `_MOMENT`."""
    sign, year, _blank, month, day, era, hour, minute, second, fraction = (
        f"regexp_extract(@0, {_MOMENT}, {i})" for i in range(1, 11)
    )
    years = f"CASE WHEN {era} = '' THEN CAST({year} AS INT) ELSE 1 - CAST({year} AS INT) END"
    years = f"{years} * CASE WHEN {sign} = '' THEN 1 ELSE -1 END"
    date = f"make_date({years}, CAST({month} AS INT), CAST({day} AS INT))"
    parts = (f"CAST(concat('0', {part}) AS BIGINT)" for part in (hour, minute, second))
    valid = "@1 < 60 AND @2 < 60 AND (@0 < 24 OR (@0 = 24 AND @1 + @2 + @3 = 0))"
    wrong = fail(Code.VALUE, f"cannot read a text as {to}", "BIGINT")
    us = f"CASE WHEN {valid} THEN ((@0 * 60 + @1) * 60 + @2) * 1000000L + @3 ELSE {wrong} END"
    time = let(us, *parts, f"CAST(rpad({fraction}, 6, '0') AS BIGINT)")
    made = f"date_add(@0, CAST(@1 div {DAY_US}L AS INT))"
    if to.name == "TIMESTAMP":
        made = instant(f"CAST(unix_date(@0) AS BIGINT) * {DAY_US}L + @1")
    epoch = f"WHEN @0 = 'epoch' THEN CAST(DATE'1970-01-01' AS {spark_type(to)})"
    return _reader(f"{epoch} WHEN @0 RLIKE {_MOMENT} THEN {let(made, date, time)}", text, to)


def _plain(text: str, source: SqlType, to: SqlType) -> str:
    return f"CAST({f'CAST({text} AS INT)' if source.name == 'BOOLEAN' else text} AS {spark_type(to)})"


def _is_not_zero(text: str, _: SqlType, to: SqlType) -> str:
    return f"({text} <> 0)"


_CASTS: dict[tuple[str, str], Callable[[str, SqlType, SqlType], str]] = {
    ("EXACT", "EXACT"): _exact_to_exact, ("EXACT", "FLOAT"): _exact_to_float,
    ("FLOAT", "EXACT"): _float_to_exact, ("FLOAT", "FLOAT"): _float_to_float,
    ("EXACT", "BOOLEAN"): _is_not_zero, ("FLOAT", "BOOLEAN"): _is_not_zero,
    ("BOOLEAN", "EXACT"): _plain, ("BOOLEAN", "FLOAT"): _plain, ("DATE", "TIMESTAMP"): _plain,
    ("TIMESTAMP", "DATE"): _plain, ("VARCHAR", "EXACT"): _read_exact, ("VARCHAR", "FLOAT"): _read_float,
    **{("VARCHAR", to): _read_moment for to in ("DATE", "TIMESTAMP")}, ("VARCHAR", "BOOLEAN"): _read_boolean,
    **{(of, "VARCHAR"): _to_text for of in ("EXACT", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP", "INTERVAL")},
}  # fmt: skip


def _cast(expr: Cast) -> str:
    source, to = expr.arg.type, expr.to
    if to == INTERVAL and source.name == "VARCHAR":
        if not isinstance(expr.arg, Const):
            raise unsupported("a cast of a VARCHAR column to INTERVAL")
        return literal(Const(cast_value(expr.arg.value, source, to), to))
    text = expr_sql(expr.arg)
    if source in (to, NULL):
        return text if source == to else _plain(text, source, to)
    return _CASTS[family(source), family(to)](text, source, to)


# -- expressions and plans -----------------------------------------------------------------------------------


def name(text: str) -> str:
    """A quoted identifier."""
    return "`" + text.replace("`", "``") + "`"


def expr_sql(expr: Expr) -> str:
    """An expression as Spark SQL; variables are columns. Raises Code.UNSUPPORTED for what cannot be said.

    >>> from everfresh.expr import build
    >>> expr_sql(build.call("+", Var("a", INTEGER), build.literal(1)))
    '(`a` + 1)'
    """
    from everfresh.spark.sqlfunctions import call_sql

    match expr:
        case Var():
            return name(expr.name)
        case Const():
            return literal(expr)
        case Cast():
            return _cast(expr)
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


def plan_sql(plan: p.Plan, source: Callable[[str], str]) -> str:
    """A plan as a SELECT; `source` gives Spark's name of a table or view, which has exactly its columns."""
    columns = [f"CAST(c{i} AS {spark_type(c.type)}) AS {name(c.name)}" for i, c in enumerate(plan.columns)]
    return f"SELECT {', '.join(columns) or '0 AS nothing'} FROM ({_rows(plan, source)})"


def _select(texts: list[str]) -> str:
    return "SELECT " + (", ".join(f"{text} AS c{i}" for i, text in enumerate(texts)) or "0 AS nothing")


def _over(expr: Expr, plan: p.Plan) -> str:
    """An expression over the rows of a plan, which are c0, c1, ... (Spark does not tell `x` from `X`)."""
    columns: dict[str, Expr] = {v.name: Var(f"c{i}", v.type, v.null) for i, v in enumerate(plan.variables)}
    return expr_sql(substitute(expr, columns))


def _rows(plan: p.Plan, source: Callable[[str], str]) -> str:
    """A SELECT whose columns c0, c1, ... are the variables of a plan."""
    below = f" FROM ({_rows(plan.inputs[0], source)})" if plan.inputs else ""
    match plan:
        case p.Single():
            return _select([])
        case p.Scan():
            named = {f"c{i}": v.type for i, v in enumerate(plan.vars)}
            canonical = [f"({c} + {zero(t)})" if t.is_float else c for c, t in named.items()]
            return f"{_select(canonical)} FROM {name(source(plan.table))} AS t({', '.join(named)})"
        case p.Filter():
            return f"SELECT *{below} WHERE {_over(plan.condition, plan.input)}"
        case p.Project():
            return _select([_over(e, plan.input) for _, e in plan.items]) + below
        case p.Distinct():
            return f"SELECT DISTINCT *{below}"
        case p.Sort():
            way, nulls = ("DESC", "ASC"), ("NULLS LAST", "NULLS FIRST")
            keys = (f"{order_key(_over(e, plan.input), e.type)} {way[up]} {nulls[first]}"
                    for e, up, first in plan.keys)  # fmt: skip
            return f"SELECT *{below} ORDER BY {', '.join(keys)}"
        case p.Limit():
            offset = min(plan.offset, 2**31 - 1)  # Spark counts in 32 bits
            count = "" if plan.count is None or plan.count + offset >= 2**31 else f" LIMIT {plan.count}"
            return f"SELECT *{below}{count}{f' OFFSET {offset}' if offset else ''}"
        case p.Aggregate():
            return _aggregate(plan, below)
    raise unsupported(f"the operator {type(plan).__name__}")


def _aggregate(plan: p.Aggregate, below: str) -> str:
    """Keys and arguments are computed in a SELECT of their own, an argument only where its FILTER is TRUE."""
    inner = [_over(e, plan.input) for _, e in plan.keys] or ["0"]
    keys = [f"c{i}" for i in range(len(inner))]
    outer = keys[: len(plan.keys)]
    for _, call in plan.aggregates:
        of = call.args[0].type if call.args else INTEGER
        argument = _over(call.args[0], plan.input) if call.args else "1"
        if call.filter is not None:
            argument = f"CASE WHEN {_over(call.filter, plan.input)} THEN {argument} END"
        outer.append(_AGGREGATES[call.fn]("DISTINCT " if call.distinct else "", f"c{len(inner)}", of))
        inner.append(argument)
    by = f" GROUP BY {', '.join(keys)}" if plan.grouped else ""
    return f"{_select(outer)} FROM ({_select(inner)}{below}){by}"


def _sum(distinct: str, column: str, of: SqlType) -> str:
    if of.is_float:
        return f"sum({distinct}CAST({column} AS DOUBLE))"
    column = f"CAST({column} AS INT)" if of.name == "BOOLEAN" else column
    return f"sum({distinct}CAST({column} AS DECIMAL(38,{of.scale})))"


def _avg(distinct: str, column: str, of: SqlType) -> str:
    total = _sum(distinct, column, of)
    if of.name == "DECIMAL":
        total = unscaled(total, SqlType("DECIMAL", MAX_DIGITS, of.scale))
    divisor = f"CAST(count({distinct}{column}) AS DOUBLE) * {literal(Const(float(10**of.scale), DOUBLE))}"
    return f"(CAST({total} AS DOUBLE) / ({divisor}) + 0D)"


_AGGREGATES: dict[str, Callable[[str, str, SqlType], str]] = {
    "count": lambda distinct, column, of: f"count({distinct}{column})", "sum": _sum, "avg": _avg,
}  # fmt: skip
