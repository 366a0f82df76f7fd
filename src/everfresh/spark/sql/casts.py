"""Spark SQL of every cast of `everfresh.expr.library.casts`, and of exact decimals, with DuckDB's semantics.

A row of `_CASTS` makes the text of a cast between two families of types. Invariant: texts are as `sqltext`
says; a value that does not fit raises.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everfresh.errors import Code
from everfresh.expr.library.casts import EXACT_IN, cast_value, family
from everfresh.expr.library.civil import DAY_US
from everfresh.expr.nodes import Call, Cast, Const
from everfresh.spark.sql.evaluated import evaluated
from everfresh.spark.sql.text import (
    HALF_AWAY,
    INF,
    WIDE,
    fail,
    fill,
    instant,
    let,
    literal,
    micros,
    power_of_ten,
    scaled,
    spark_type,
    string,
    unscaled,
    unsupported,
    within,
    zero,
)
from everfresh.types import BIGINT, DOUBLE, INTERVAL, MAX_DIGITS, NULL, UNSIGNED, SqlType

# -- casts between numbers -----------------------------------------------------------------------------------

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


def cast_sql(cast: Cast, arg: str) -> str:
    """The text of a cast whose argument has the text `arg`."""
    source, to = cast.arg.type, cast.to
    if to == INTERVAL and source.name == "VARCHAR":
        if not isinstance(cast.arg, Const):
            raise unsupported("a cast of a VARCHAR column to INTERVAL")
        return literal(Const(cast_value(cast.arg.value, source, to), to))
    if source in (to, NULL):
        return arg if source == to else _plain(arg, source, to)
    known = _CASTS.get((family(source), family(to)))
    if known is None or UNSIGNED & {source.name, to.name}:
        return evaluated(cast)
    return known(arg, source, to)


# -- decimals, which Spark would round -----------------------------------------------------------------------

# Spark's DIV of decimals is a BIGINT, its / has 32 digits before the point: two steps for small divisors.
WIDE_QUOTIENT = let(
    f"CASE WHEN {within('@1', 999_999)} THEN CAST(CAST((@2 - @2 % @1) / @1 AS {WIDE}) * {power_of_ten(6)}"
    f" + CAST(@2 % @1 * {power_of_ten(6)} + @0 % 1000000 AS BIGINT) div CAST(@1 AS BIGINT) AS {WIDE})"
    f" ELSE CAST((@0 - @0 % @1) / @1 AS {WIDE}) END",
    "@0", "@1", f"CAST(concat(CAST(@0 - @0 % 1000000 AS STRING), 'E-6') AS {WIDE})",
)  # fmt: skip


def decimal_sql(symbol: str, call: Call, args: list[str]) -> str:
    """The sum, difference or product of two DECIMALs, exactly."""
    a, b = call.signature.args
    digits = a.precision + b.precision + 1 if symbol == "*" else max(a.precision, b.precision) + 1
    scale = call.type.scale
    # Above 38 digits Spark keeps only 6 places of the scale, or what the digits before the point leave.
    if digits <= MAX_DIGITS or max(MAX_DIGITS - (digits - scale), min(scale, 6)) == scale:
        return f"CAST({args[0]} {symbol} {args[1]} AS {call.type})"
    return scaled(f"({unscaled(args[0], a)} {symbol} {unscaled(args[1], b)})", MAX_DIGITS, call.type)


def decimal_digits(call: Call, text: str, half_away: bool) -> str:
    """A DECIMAL rounded or cut off at a constant number of digits."""
    of, n = call.signature.args[0], call.args[1]
    if not isinstance(n, Const) or n.value is None:
        raise unsupported(f"{call.op} of a DECIMAL to a number of digits that is not constant")
    places = of.scale - n.value
    if places >= of.precision + half_away:
        return f"CAST({text} * 0 AS {call.type})"
    if half_away:
        return f"CAST(round({text}, {n.value}) AS {call.type})"
    whole = fill(f"(@0 - @0 % {power_of_ten(places)})", unscaled(text, of))
    return scaled(whole, MAX_DIGITS, call.type)
