"""Spark SQL of every function of `everfresh.expr.library.functions`, with DuckDB's semantics.

A row of `SQL` is a template (`@0`, `@1` are the arguments, `@T` the result type) or a function that makes the
text. Invariant: every function of the registry has a row; texts are as `sqltext` says; what Spark cannot
compute as everfresh does raises Code.UNSUPPORTED, by name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

from everfresh.errors import Code, EverfreshError
from everfresh.expr.library import jsons, lists, moments, products, quantiles, structs
from everfresh.expr.library.civil import DAY_US
from everfresh.expr.library.collections import entries, lambdas, more_lists
from everfresh.expr.library.dates import part_name
from everfresh.expr.library.strings import lower, upper
from everfresh.expr.library.texts import distances, encodings, formats, patterns
from everfresh.expr.library.time_bucket import JANUARY, MONDAY, month_of, width_of
from everfresh.expr.library.times import makers
from everfresh.expr.library.times import texts as times
from everfresh.expr.nodes import Call, Const
from everfresh.spark.sql.casts import WIDE_QUOTIENT, decimal_digits, decimal_sql
from everfresh.spark.sql.evaluated import evaluated
from everfresh.spark.sql.forms import HELD
from everfresh.spark.sql.text import (
    HALF_AWAY,
    INF,
    NAN,
    WIDE,
    fail,
    fill,
    instant,
    let,
    literal,
    micros,
    order_key,
    scaled,
    span,
    spark_type,
    string,
    unscaled,
    unsupported,
    within,
    zero,
)
from everfresh.types import BIGINT, DATE, INTEGER, INTERVAL, MAX_DIGITS, VARCHAR

Maker = Callable[[Call, list[str]], str]


def call_sql(call: Call, args: list[str]) -> str:
    """The text of a call whose arguments have the texts `args`."""
    if call.op in IN_PROGRAMS_ONLY or _held_otherwise(call):
        return evaluated(call)
    row = SQL[call.op]
    return fill(row.replace("@T", spark_type(call.type)), *args) if isinstance(row, str) else row(call, args)


_ALIKE = frozenset({
    "=", "<>", "<", "<=", ">", ">=", "is_distinct", "is_not_distinct", "in", "greatest", "least", "coalesce",
    "is_null", "and", "or", "not",
})  # fmt: skip
"""Functions that are the same of values as they are held."""


def _held_otherwise(call: Call) -> bool:
    """Whether a function has to know what the values are that queries hold in a form of their own."""
    return call.op not in _ALIKE and any(t.name in HELD for t in (*call.signature.args, call.type))


def _guarded(body: str, *args: str) -> str:
    return f"CASE WHEN {' AND '.join(f'{a} IS NOT NULL' for a in args)} THEN {body} END"


def _swapped(template: str) -> str:
    return template.replace("@0", "@2").replace("@1", "@0").replace("@2", "@1")


# -- arithmetic ----------------------------------------------------------------------------------------------

_SHIFT = instant(
    f"(CAST(unix_date(add_months(CAST(@0 AS DATE), ~(@1).months)) AS BIGINT) ± (@1).days) * {DAY_US}L"
    f" + ({micros('@0')} - CAST(unix_date(CAST(@0 AS DATE)) AS BIGINT) * {DAY_US}L) ± (@1).us"
)
_LATER, _EARLIER = _SHIFT.replace("~", "").replace("±", "+"), _SHIFT.replace("~", "-").replace("±", "-")
_FIELDS = ("months", "days", "us")
_TIMES = _guarded(span(*(f"(@0).{part} * CAST(@1 AS INT)" for part in _FIELDS)), "@0", "@1")
_PLUS = _guarded(span(*(f"(@0).{part} + (@1).{part}" for part in _FIELDS)), "@0", "@1")
_BETWEEN = _guarded(span("0", f"CAST(@0 div {DAY_US}L AS INT)", f"@0 % {DAY_US}L"), "@0")
_DATES = {
    ("+", "DATE", "INTEGER"): "date_from_unix_date(unix_date(@0) + @1)",
    ("+", "INTEGER", "DATE"): "date_from_unix_date(@0 + unix_date(@1))",
    ("-", "DATE", "INTEGER"): "date_from_unix_date(unix_date(@0) - @1)",
    ("-", "DATE", "DATE"): "(CAST(unix_date(@0) AS BIGINT) - CAST(unix_date(@1) AS BIGINT))",
    ("+", "TIMESTAMP", "INTERVAL"): _LATER,
    ("+", "INTERVAL", "TIMESTAMP"): _swapped(_LATER),
    ("-", "TIMESTAMP", "INTERVAL"): _EARLIER,
    ("-", "TIMESTAMP", "TIMESTAMP"): let(_BETWEEN, f"{micros('@0')} - {micros('@1')}"),
    ("+", "INTERVAL", "INTERVAL"): _PLUS,
    ("-", "INTERVAL", "INTERVAL"): _PLUS.replace("+", "-"),
    ("*", "INTERVAL", "BIGINT"): _TIMES,
    ("*", "BIGINT", "INTERVAL"): _swapped(_TIMES),
}  # fmt: skip
_FLOATS = {
    "+": "(@0 + @1)", "-": "(@0 - @1)", "*": "(@0 * @1 + @2)",
    "/": f"(CAST(CASE WHEN @1 = 0 THEN @0 * {INF} ELSE @0 / @1 END AS @T) + @2)",
    "//": "(CAST(@0 / @1 AS @T) + @2)",
    "%": "(CASE WHEN @1 = 0 THEN @0 * CAST('NaN' AS @T) ELSE @0 % @1 END + @2)",
}  # fmt: skip
_INTEGERS = {
    "+": "(@0 + @1)", "-": "(@0 - @1)", "*": "(@0 * @1)", "//": "CAST(@0 div @1 AS @T)",
    "%": "CASE WHEN @1 = -1 THEN CAST((-@0) % 1 AS @T) ELSE @0 % @1 END",  # the least integer by -1 raises
}  # fmt: skip


def _arithmetic(symbol: str) -> Maker:
    def make(call: Call, args: list[str]) -> str:
        a, b = call.signature.args
        to = spark_type(call.type)
        if call.type.is_float:
            return fill(_FLOATS[symbol].replace("@T", to), *args, zero(call.type))
        if (symbol, a.name, b.name) in _DATES:
            return fill(_unfolded(_DATES[symbol, a.name, b.name], call), *args)
        if symbol == "//" and call.type.is_wide:
            return fill(WIDE_QUOTIENT, *args)
        if call.type.name == "DECIMAL" and symbol != "%":
            return decimal_sql(symbol, call, args)
        if call.type.is_exact and (call.type.is_wide or call.type.name == "DECIMAL"):
            return f"CAST({args[0]} {symbol} {args[1]} AS {to})"
        return fill(_INTEGERS[symbol].replace("@T", to), *args)

    return make


def _unfolded(template: str, call: Call) -> str:
    """A template with the parts of constant intervals put in, so that Spark adds plain numbers."""
    for i, arg in enumerate(call.args):
        if isinstance(arg, Const) and arg.of == INTERVAL and arg.value is not None:
            for part, n in zip(_FIELDS, arg.value, strict=True):
                number = literal(Const(n, BIGINT if part == "us" else INTEGER))
                template = template.replace(f"(@{i}).{part}", number)
    return template


def _negative(call: Call, args: list[str]) -> str:
    if call.type == INTERVAL:
        return fill(_guarded(span("-(@0).months", "-(@0).days", "-(@0).us"), "@0"), *args)
    if call.type.is_float:
        return f"({zero(call.type)} - {args[0]})"
    if call.type.is_wide:  # Spark's own rounds to 34 digits
        return scaled(f"(0 - {unscaled(args[0], call.type)})", MAX_DIGITS, call.type)
    return f"(-{args[0]})"


def _abs(call: Call, args: list[str]) -> str:
    if not call.type.is_wide:
        return f"abs({args[0]})"
    return fill(f"CASE WHEN @0 < 0 THEN {_negative(call, ['@0'])} ELSE @0 END", *args)


# -- comparisons ---------------------------------------------------------------------------------------------


def _compared(make: Callable[..., str]) -> Maker:
    return lambda call, args: make(*(order_key(a, t) for a, t in zip(args, call.signature.args, strict=True)))


def _infix(symbol: str) -> Maker:
    return _compared(lambda a, b: f"({a} {symbol} {b})")


def _extreme(fn: str, sign: str) -> Maker:
    def make(call: Call, args: list[str]) -> str:
        if call.type == INTERVAL:  # of equal ones the first
            keyed = f"named_struct('k', {order_key('@0', INTERVAL)}, 'i', {sign}@1, 'v', @0)"
            args = [fill(_guarded(keyed, "@0"), arg, str(i)) for i, arg in enumerate(args)]
        text = f"{fn}({', '.join(args)})" if len(args) > 1 else args[0]
        return f"{text}.v" if call.type == INTERVAL else text

    return make


# -- numbers -------------------------------------------------------------------------------------------------


def _step(exact: str, inexact: str) -> Maker:
    def make(call: Call, args: list[str]) -> str:
        to = spark_type(call.type)
        if call.type.is_float:  # every double from 2**52 on is a whole number
            whole = f"CASE WHEN abs(@0) < 4503599627370496D THEN CAST({inexact} AS {to}) ELSE @0 END"
            return fill(f"({whole} + {zero(call.type)})", *args)
        whole_already = call.signature.args[0].scale == 0
        return args[0] if whole_already else f"CAST({fill(exact, *args)} AS {to})"

    return make


def _digits(step: Maker, half_away: bool) -> Maker:
    inexact = HALF_AWAY if half_away else "(@0 - @0 % 1)"
    before, behind = let(inexact, "(@0 / @1)"), let(inexact, "(@0 * @1)")
    value = f"CASE WHEN @2 < 0 THEN {before} * @1 ELSE {behind} / @1 END"
    vanishing = f"WHEN @2 < -308 AND abs(@0) < {INF} THEN 0D" if half_away else ""
    arms = f"WHEN @2 IS NULL THEN NULL {vanishing} WHEN abs(@1) < {INF} THEN @1 ELSE @0"
    kept = let(f"CASE {arms} END", "@0", value, "@2")
    floats = f"CAST({kept} AS @T) + @3"
    away = "CASE WHEN @0 % @1 * 2 >= @1 THEN @1 WHEN @0 % @1 * 2 <= -@1 THEN -@1 ELSE 0 END"
    small = f"@1 < -38 OR (@1 = -38 AND {within('@0', 5 * 10**37 - 1)})" if half_away else "@1 <= -38"
    wide, unit = f"CAST(@0 AS {WIDE})", f"CAST(concat('1', repeat('0', -@1)) AS {WIDE})"
    cut = let(f"@0 - @0 % @1 + {away if half_away else 0}", wide, unit)
    arms = f"WHEN @1 >= 0 THEN {wide} WHEN {small} THEN {wide} * 0 WHEN @1 < 0 THEN {cut}"
    integers = f"CAST(CASE {arms} END AS @T)"

    def make(call: Call, args: list[str]) -> str:
        if len(args) == 1:
            return step(call, args)
        of, to = call.signature.args[0], spark_type(call.type)
        if of.name == "DECIMAL":
            return decimal_digits(call, args[0], half_away)
        if of.is_float:
            unit = f"CAST(concat('1E', CAST(abs(CAST({args[1]} AS BIGINT)) AS STRING)) AS DOUBLE)"
            return let(floats.replace("@T", to), f"CAST({args[0]} AS DOUBLE)", unit, args[1], zero(of))
        return fill(integers.replace("@T", to), *args)

    return make


_POWER = f"CASE WHEN @0 = 1 OR (@0 = -1 AND abs(@1) = {INF}) THEN 1D ELSE power(@0, @1) + 0D END"
# Exact at powers of two, which Spark's quotient of logarithms is not.
_LOG2 = let("CASE WHEN power(2D, rint(@0)) = @1 THEN rint(@0) ELSE @0 END", "log2(@0)", "@0")


def _logarithm(body: str) -> str:
    return f"CASE WHEN @0 > 0 THEN {body} WHEN @0 = 0 THEN -{INF} WHEN @0 < 0 THEN {NAN} END"


def _sign(call: Call, args: list[str]) -> str:
    nan = "isnan(@0) OR " if call.signature.args[0].is_float else ""
    arms = f"WHEN {nan}@0 = 0 THEN 0 WHEN @0 > 0 THEN 1 WHEN @0 < 0 THEN -1"
    return fill(f"CAST(CASE {arms} END AS TINYINT)", *args)


# -- strings -------------------------------------------------------------------------------------------------


@cache
def _mapping(mapped: Callable[[str], str]) -> str:
    """`translate` by everfresh's own table of cases, since Java maps some characters to several."""
    every = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    pairs = [(c, m) for c, m in zip(every, map(mapped, every), strict=True) if c != m]
    return f"translate(@0, {string(''.join(c for c, _ in pairs))}, {string(''.join(m for _, m in pairs))})"


@cache
def _clusters() -> str:
    """The regular expression of a character and the marks behind it."""
    marks = "".join(f"\\x{{{i:x}}}" for i in range(0x110000) if unicodedata.combining(chr(i)))
    return string(f"(?s).[{marks}]*")


_OPEN_ESCAPE = fail(Code.VALUE, "a LIKE pattern ends with its escape character", "BOOLEAN")


def _like_regex() -> str:
    """LIKE with a pattern from a column: it becomes a regular expression, character by character."""
    start, end, quote, unquote = map(string, ("(?s)\\A", "\\z", "\\Q", "\\E"))
    itself = f"concat({quote}, _c, {unquote})"
    plain = f"CASE _c WHEN '%' THEN '.*' WHEN '_' THEN '.' ELSE {itself} END"
    step = (
        f"CASE WHEN _a.e THEN named_struct('e', false, 'o', concat(_a.o, {itself}))"
        " WHEN @2 <> '' AND _c = @2 THEN named_struct('e', true, 'o', _a.o)"
        f" ELSE named_struct('e', false, 'o', concat(_a.o, {plain})) END"
    )
    regex = f"aggregate(split(@1, ''), named_struct('e', false, 'o', ''), (_a, _c) -> {step})"
    matches = f"@0 RLIKE concat({start}, (@1).o, {end})"
    test = let(f"CASE WHEN (@1).e THEN {_OPEN_ESCAPE} ELSE {matches} END", "@0", regex)
    long = fail(Code.VALUE, "ESCAPE must be one character or none", "BOOLEAN")
    return _guarded(f"CASE WHEN char_length(@2) > 1 THEN {long} ELSE {test} END", "@0", "@1", "@2")


def _like_pattern(pattern: str, escape: str) -> str | None:
    """A LIKE pattern with `!` as its escape; None if it ends with its own."""
    made, characters = "", iter(pattern)
    for c in characters:
        taken = next(characters, None) if c == escape else c
        if taken is None:
            return None
        made += f"!{taken}" if taken == "!" or (c == escape and taken in "%_") else taken
    return made


def _like(fold: Callable[[str], str] | None) -> Maker:
    def make(call: Call, args: list[str]) -> str:
        given = (*call.args[1:], Const("", VARCHAR))[:2]
        pattern, escape = (e.value if isinstance(e, Const) else None for e in given)
        if fold is not None:
            args = [fill(_mapping(fold), a) for a in args]
            pattern, escape = (text if text is None else fold(text) for text in (pattern, escape))
        if pattern is None or escape is None or len(escape) > 1:
            return let(_like_regex(), *args, *(["''"] if len(args) == 2 else []))
        made = _like_pattern(pattern, escape)
        if made is None:
            return fill(_guarded(_OPEN_ESCAPE, "@0"), args[0])
        return f"({args[0]} LIKE {string(made)} ESCAPE '!')"

    return make


def _cut(last: str, *more: str) -> str:
    """The characters from `first` to `last`, which may be in the wrong order and outside the string."""
    start = "greatest(least(@1, @2), 0)"
    begin, size = (f"CAST(least({n}, 2147483000) AS INT)" for n in (start, f"greatest(@1, @2, 0) - {start}"))
    cut = _guarded(f"substring(@0, {begin} + 1, {size})", "@1", "@2")
    n = f"CAST(@1 AS {WIDE})"
    first = f"CASE WHEN @1 > 0 THEN {n} - 1 WHEN @1 < 0 THEN char_length(@0) + {n} WHEN @1 = 0 THEN -1 END"
    return let(let(cut, "@0", "@1", last), "@0", first, *more)


_CUTS = {2: _cut("char_length(@0)"), 3: _cut("@1 + @2", "@2")}


def _substring(call: Call, args: list[str]) -> str:
    numbers = [e.value if isinstance(e, Const) else None for e in call.args[1:]]
    if all(n is not None and 0 <= n < 2**31 for n in numbers) and numbers[0] != 0:
        return f"substring({', '.join([args[0], *map(str, numbers)])})"
    return fill(_CUTS[len(args)], *args)


# How many characters `left` and `right` keep; a negative number leaves that many out.
_KEPT = "CASE WHEN @1 >= 0 THEN least(@1, char_length(@0)) ELSE greatest(char_length(@0) + @1, 0) END"
_KEPT = _guarded(f"CAST({_KEPT} AS INT)", "@0", "@1")
_LEFT, _RIGHT = f"substring(@0, 1, {_KEPT})", let("substring(@0, char_length(@0) - @1 + 1, @1)", "@0", _KEPT)


def _trim(where: str) -> Maker:
    return lambda call, args: f"TRIM({where} {args[1] if len(args) == 2 else string(' ')} FROM {args[0]})"


def _pad(fn: str) -> str:
    none = fail(Code.VALUE, f"{fn} needs something to pad with", "STRING")
    return f"CASE WHEN @2 = '' AND @1 > char_length(@0) THEN {none} ELSE {fn}(@0, @1, @2) END"


# -- dates ---------------------------------------------------------------------------------------------------

_ISO_YEAR = "CAST(extract(YEAROFWEEK FROM @0) AS BIGINT)"
_OF_DATE = {
    "year": "year(@0)", "month": "month(@0)", "day": "day(@0)", "quarter": "quarter(@0)",
    "dow": "dayofweek(@0) - 1", "isodow": "weekday(@0) + 1", "doy": "dayofyear(@0)", "week": "weekofyear(@0)",
    "isoyear": _ISO_YEAR, "yearweek": f"{_ISO_YEAR} * 100 + weekofyear(@0)",
    "era": "CAST(year(@0) > 0 AS INT)", "decade": "year(@0) div 10",
    "century": "CASE WHEN year(@0) > 0 THEN (year(@0) - 1) div 100 + 1 ELSE year(@0) div 100 - 1 END",
    "millennium": "CASE WHEN year(@0) > 0 THEN (year(@0) - 1) div 1000 + 1 ELSE year(@0) div 1000 - 1 END",
}  # fmt: skip
_OF_TIME = {
    "hour": "@0 div 3600000000L", "minute": "@0 div 60000000L % 60", "second": "@0 div 1000000L % 60",
    "millisecond": "@0 div 1000L % 60000", "microsecond": "@0 % 60000000L",
}  # fmt: skip
_OF_SPAN = {
    "year": "(@0).months div 12", "decade": "(@0).months div 120", "century": "(@0).months div 1200",
    "millennium": "(@0).months div 12000", "quarter": "(@0).months % 12 div 3 + 1",
    "month": "(@0).months % 12", "day": "(@0).days",
    **{part: text.replace("@0", "(@0).us") for part, text in _OF_TIME.items()},
}  # fmt: skip
_EPOCH = {
    "DATE": f"CAST(unix_date(@0) AS BIGINT) * {DAY_US}L", "TIMESTAMP": micros("@0"),
    "INTERVAL": f"CAST((@0).months div 12 AS {WIDE}) * 1461 * {DAY_US // 4}L"  # a year of 365.25 days
                f" + (CAST((@0).months % 12 AS {WIDE}) * 30 + (@0).days) * {DAY_US}L + (@0).us",
}  # fmt: skip


def _part(part: str) -> Maker:
    def make(call: Call, args: list[str]) -> str:
        of = call.signature.args[0]
        if of == INTERVAL:
            text = fill(_OF_SPAN[part], *args)
        elif part in _OF_DATE:
            text = fill(_OF_DATE[part], f"CAST({args[0]} AS DATE)")
        else:
            time = f"(unix_date({args[0]}) * 0L)" if of == DATE else f"pmod({micros(args[0])}, {DAY_US}L)"
            text = fill(_OF_TIME[part], time)
        return f"CAST({text} AS BIGINT)"

    return make


def _epoch(call: Call, args: list[str]) -> str:
    return f"(CAST({fill(_EPOCH[call.signature.args[0].name], *args)} AS DOUBLE) / 1000000D)"


_MONTHS = {"millennium": 12_000, "century": 1_200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
_US = {"hour": 3600 * 10**6, "minute": 60 * 10**6, "second": 10**6, "millisecond": 1000, "microsecond": 1}
_DAY_OF = {
    **{part: f"make_date(year(@0) - pmod(year(@0), {months // 12}), 1, 1)"
       for part, months in _MONTHS.items() if months >= 12},
    "quarter": "make_date(year(@0), quarter(@0) * 3 - 2, 1)", "month": "date_add(@0, 1 - day(@0))",
    "week": "date_add(@0, -weekday(@0))", "day": "@0",
}  # fmt: skip
_SPAN_OF = {
    **{part: span(f"(@0).months - (@0).months % {n}", "0", "0L") for part, n in _MONTHS.items()},
    "week": span("(@0).months", "(@0).days - (@0).days % 7", "0L"),
    "day": span("(@0).months", "(@0).days", "0L"),
    **{part: span("(@0).months", "(@0).days", f"(@0).us - (@0).us % {n}L") for part, n in _US.items()},
}  # fmt: skip


def _date_trunc(call: Call, args: list[str]) -> str:
    part, to = call.args[0], spark_type(call.type)
    if not isinstance(part, Const):
        raise unsupported("date_trunc with a part that is not constant")
    if part.value is None:
        return f"CAST(NULL AS {to})"
    try:
        found = part_name(part.value)
    except EverfreshError as error:
        found = error.message
    if found not in _SPAN_OF:
        wrong = fail(Code.VALUE, f"date_trunc does not take '{part.value}'", to)
        return fill(_guarded(wrong, "@0"), args[1])
    if call.type == INTERVAL:
        return fill(_guarded(_SPAN_OF[found], "@0"), args[1])
    if found in _DAY_OF:
        return f"CAST({fill(_DAY_OF[found], f'CAST({args[1]} AS DATE)')} AS TIMESTAMP_NTZ)"
    return instant(fill(f"@0 - pmod(@0, {_US[found]}L)", micros(args[1])))


def _time_bucket(call: Call, args: list[str]) -> str:
    given = [a.value for a in (call.args[0], *call.args[2:]) if isinstance(a, Const)]
    if len(given) < len(call.args) - 1:
        raise unsupported("time_bucket with a width or an origin that is not constant")
    if None in given:
        return f"CAST(NULL AS {spark_type(call.type)})"
    unit = DAY_US if call.type == DATE else 1
    months, us = width_of(given[0])
    start = given[1] * unit if len(given) > 1 else None
    if months:
        base = JANUARY if start is None else month_of(start)
        month = f"(@0 - pmod(@0 - {base}, {months}))"
        first = f"make_date(CAST(1970 + floor({month} / 12) AS INT), CAST(pmod({month}, 12) + 1 AS INT), 1)"
        index = fill("(year(@0) - 1970) * 12 + month(@0) - 1", f"CAST({args[1]} AS DATE)")
        return fill(f"CAST({first} AS {spark_type(call.type)})", f"({index})")
    base = (MONDAY if start is None else start) % us
    at = micros(f"CAST({args[1]} AS TIMESTAMP_NTZ)" if unit > 1 else args[1])
    found = instant(fill(f"@0 - pmod(@0 - {base}L, {us}L)", at))
    return f"CAST({found} AS DATE)" if unit > 1 else found


def _to_span(months: int = 0, days: int = 0, us: int = 0) -> str:
    units = span(f"CAST(@0 AS INT) * {months}", f"CAST(@0 AS INT) * {days}", "0L")
    return _guarded(span("0", "0", f"@0 * {us}L") if us else units, "@0")


_TOO_LONG = fail(Code.OVERFLOW, "a number of seconds is outside INTERVAL", spark_type(INTERVAL))
_SECONDS = span("0", "0", "CAST(rint(@0 * 1000000D) AS BIGINT)")
_SECONDS = _guarded(f"CASE WHEN abs(@0) < 9.2E12D THEN {_SECONDS} ELSE {_TOO_LONG} END", "@0")


_ANGLES = ("sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh")


def _bits(symbol: str) -> Maker:
    def make(call: Call, args: list[str]) -> str:
        if call.type.is_wide:
            raise unsupported(f"{call.op} of {call.type}")
        return f"({args[0]} {symbol} {args[1]})"

    return make


_EVALUATED = (
    lists.ROWS, structs.ROWS, jsons.ROWS, moments.ROWS, products.ROWS, encodings.ROWS, distances.ROWS,
    formats.ROWS,
    patterns.ROWS, times.ROWS, makers.ROWS, lambdas.ROWS, more_lists.ROWS, entries.ROWS, quantiles.ROWS,
)  # fmt: skip
_KNOWN_TO_SPARK = frozenset({"hex", "md5", "sha256"})


def _hex(call: Call, args: list[str]) -> str:
    """Spark has it for texts as everfresh does."""
    return f"hex({args[0]})" if call.signature.args == (VARCHAR,) else evaluated(call)


IN_PROGRAMS_ONLY = frozenset({
    "age", "ascii", "bit_count", "bitwise_not", "chr", "date_diff", "date_sub", "epoch_ms", "epoch_ns",
    "epoch_us", "even", "factorial", "gcd", "hamming", "lcm", "levenshtein", "make_timestamp",
    "regexp_extract", "regexp_full_match", "regexp_matches", "regexp_replace", "shift_left", "shift_right",
    "split_part", "try_cast", "unicode",
    "acosh", "asinh", "atanh", "binom", "cbrt", "fdiv", "fmod", "log_to", "nextafter", "overlay", "signbit",
    *(row.name for rows in _EVALUATED for row in rows if row.name not in _KNOWN_TO_SPARK),
})  # fmt: skip
"""Functions that Spark SQL lacks, or has with other values: `evaluated` computes them."""

# -- the table -----------------------------------------------------------------------------------------------

_trunc_step = _step("CASE WHEN @0 < 0 THEN ceil(@0) ELSE floor(@0) END", "CAST(@0 AS BIGINT)")

SQL: dict[str, str | Maker] = {
    **{symbol: _arithmetic(symbol) for symbol in ("+", "-", "*", "/", "//", "%")}, "neg": _negative,
    **{symbol: _infix(symbol) for symbol in ("=", "<>", "<", "<=", ">", ">=")},
    "is_distinct": _compared(lambda a, b: f"(NOT ({a} <=> {b}))"), "is_not_distinct": _infix("<=>"),
    "in": _compared(lambda x, *items: f"({x} IN ({', '.join(items)}))"),
    "greatest": _extreme("greatest", "-"), "least": _extreme("least", ""),
    "and": lambda call, args: f"({' AND '.join(args)})", "or": lambda call, args: f"({' OR '.join(args)})",
    "coalesce": lambda call, args: f"coalesce({', '.join(args)})",
    "not": "(NOT @0)", "is_null": "(@0 IS NULL)",
    "truth": "CAST(coalesce(@0, FALSE) AS BIGINT)", "not_null01": "CAST(@0 IS NOT NULL AS BIGINT)",
    "if_null_zero": "coalesce(@0, CAST(0 AS @T))", "is_nan01": "CAST(isnan(@0) AS BIGINT)",
    "finite_or_zero": f"CASE WHEN abs(@0) < {INF} THEN @0 ELSE CAST(0 AS @T) END",
    "is_pinf01": f"CAST(coalesce(@0 = {INF}, FALSE) AS BIGINT)",
    "is_ninf01": f"CAST(coalesce(@0 = -{INF}, FALSE) AS BIGINT)",
    "abs": _abs, "sign": _sign,
    "floor": _step("floor(@0)", "floor(@0)"), "ceil": _step("ceil(@0)", "ceil(@0)"),
    "round": _digits(_step("@0", HALF_AWAY), half_away=True), "trunc": _digits(_trunc_step, half_away=False),
    "sqrt": "sqrt(@0)", "exp": "exp(@0)", "power": f"CASE WHEN @1 IS NOT NULL THEN {_POWER} END",
    "ln": _logarithm("ln(@0)"), "log10": _logarithm("log10(@0)"), "log2": _logarithm(_LOG2),
    "like": _like(None), "ilike": _like(lower), "||": "concat(@0, @1)",
    "concat": lambda call, args: f"concat_ws('', {', '.join(args)})",
    "length": "CAST(char_length(@0) AS BIGINT)", "substring": _substring, "left": _LEFT, "right": _RIGHT,
    "upper": lambda call, args: fill(_mapping(upper), *args),
    "lower": lambda call, args: fill(_mapping(lower), *args),
    "trim": _trim("BOTH"), "ltrim": _trim("LEADING"), "rtrim": _trim("TRAILING"),
    "replace": "replace(@0, @1, @2)", "strpos": "CAST(instr(@0, @1) AS BIGINT)",
    "starts_with": "startswith(@0, @1)", "ends_with": "endswith(@0, @1)", "contains": "contains(@0, @1)",
    "lpad": _pad("lpad"), "rpad": _pad("rpad"),
    "reverse": lambda call, args: f"array_join(reverse(regexp_extract_all({args[0]}, {_clusters()}, 0)), '')",
    "repeat": "repeat(@0, CAST(CASE WHEN @1 < 0 OR (@1 > 0 AND @0 = '') THEN 0L ELSE @1 END AS INT))",
    **{part: _part(part) for part in (*_OF_DATE, *_OF_TIME)}, "epoch": _epoch, "date_trunc": _date_trunc,
    "time_bucket": _time_bucket,
    "make_date": "make_date(CAST(@0 AS INT), CAST(@1 AS INT), CAST(@2 AS INT))",
    "to_years": _to_span(months=12), "to_quarters": _to_span(months=3), "to_months": _to_span(months=1),
    "to_weeks": _to_span(days=7), "to_days": _to_span(days=1), "to_seconds": _SECONDS,
    "to_millennia": _to_span(months=12_000), "to_centuries": _to_span(months=1_200),
    "to_decades": _to_span(months=120),
    **{f"to_{part}s": _to_span(us=n) for part, n in _US.items() if part != "second"},
    **{fn: f"{fn}(@0)" for fn in _ANGLES}, "atan2": "atan2(@0, @1)", "degrees": "degrees(@0)",
    "radians": "radians(@0)",
    "isnan": _guarded("isnan(@0)", "@0"), "isinf": f"(abs(@0) = {INF})", "isfinite": f"(abs(@0) < {INF})",
    "bitwise_and": _bits("&"), "bitwise_or": _bits("|"), "bitwise_xor": _bits("^"),
    "translate": "translate(@0, @1, @2)", "concat_ws": lambda call, args: f"concat_ws({', '.join(args)})",
    "strlen": "CAST(octet_length(@0) AS BIGINT)", "bit_length": "CAST(bit_length(@0) AS BIGINT)",
    "hex": _hex, "md5": "md5(@0)", "sha256": "sha2(@0, 256)",
    "last_day": "last_day(CAST(@0 AS DATE))", "dayname": "date_format(CAST(@0 AS DATE), 'EEEE')",
    "monthname": "date_format(CAST(@0 AS DATE), 'MMMM')",
}  # fmt: skip
