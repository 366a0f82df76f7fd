"""Functions and operators: how each class of the parse tree becomes a call of the expression registry.

Most rows of `RULES` are data, `(function, the node's arguments in order)`; a node with any other argument
set is refused, so that a modifier is never dropped silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.expr.nodes import Expr
from everfresh.sql import lambdas, nested, refusals
from everfresh.sql.naming.column_names import Printer
from everfresh.sql.naming.nested_names import type_text
from everfresh.sql.source import near
from everfresh.types import BIGINT, DATE, INTERVAL

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder

_Rule = Callable[["Binder", Any], Expr]

# class of the tree: function of the registry, and the tree's arguments in its order
_DIRECT: dict[type[Any], tuple[str, tuple[str, ...]]] = {
    exp.Add: ("+", ("this", "expression")),
    exp.Sub: ("-", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")),
    exp.Div: ("/", ("this", "expression")),
    exp.IntDiv: ("//", ("this", "expression")),
    exp.Mod: ("%", ("this", "expression")),
    exp.Pow: ("power", ("this", "expression")),
    exp.DPipe: ("||", ("this", "expression")),
    exp.NullSafeEQ: ("is_not_distinct", ("this", "expression")),
    exp.NullSafeNEQ: ("is_distinct", ("this", "expression")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Trunc: ("trunc", ("this", "decimals")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Length: ("length", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.Reverse: ("reverse", ("this",)),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Year: ("year", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.DayOfWeek: ("dow", ("this",)),
    exp.DayOfWeekIso: ("isodow", ("this",)),
    exp.DayOfYear: ("doy", ("this",)),
    exp.Week: ("week", ("this",)),
    exp.WeekOfYear: ("week", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.TimeToUnix: ("epoch", ("this",)),
    exp.DateFromParts: ("make_date", ("year", "month", "day")),
    exp.ToDays: ("to_days", ("this",)),
    exp.BitwiseAnd: ("bitwise_and", ("this", "expression")),
    exp.BitwiseOr: ("bitwise_or", ("this", "expression")),
    exp.BitwiseXor: ("bitwise_xor", ("this", "expression")),
    exp.BitwiseNot: ("bitwise_not", ("this",)),
    exp.BitwiseLeftShift: ("shift_left", ("this", "expression")),
    exp.BitwiseRightShift: ("shift_right", ("this", "expression")),
    exp.Factorial: ("factorial", ("this",)),
    **{
        kind: (kind.__name__.lower(), ("this",))
        for kind in (
            exp.Sin,
            exp.Cos,
            exp.Tan,
            exp.Cot,
            exp.Asin,
            exp.Acos,
            exp.Atan,
            exp.Sinh,
            exp.Cosh,
            exp.Tanh,
            exp.Degrees,
            exp.Radians,
            exp.IsNan,
            exp.IsInf,
            exp.Ascii,
            exp.Unicode,
            exp.Hex,
            exp.MD5,
            exp.Dayname,
            exp.Monthname,
            exp.Cbrt,
            exp.Acosh,
            exp.Asinh,
            exp.Atanh,
            exp.Unhex,
        )
    },
    exp.Atan2: ("atan2", ("this", "expression")),
    exp.BitLength: ("bit_length", ("this",)),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.ConcatWs: ("concat_ws", ("expressions",)),
    exp.Chr: ("chr", ("expressions",)),
    exp.Levenshtein: ("levenshtein", ("this", "expression")),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.RegexpLike: ("regexp_matches", ("this", "expression", "flag")),
    exp.RegexpFullMatch: ("regexp_full_match", ("this", "expression", "options")),
    exp.SimilarTo: ("regexp_full_match", ("this", "expression")),
    exp.RegexpReplace: ("regexp_replace", ("this", "expression", "replacement", "modifiers")),
    exp.RegexpExtractAll: ("regexp_extract_all", ("this", "expression", "group", "parameters")),
    exp.RegexpSplit: ("string_split_regex", ("this", "expression", "limit")),
    exp.ToBase64: ("to_base64", ("this",)),
    exp.FromBase64: ("from_base64", ("this",)),
    exp.SHA: ("sha1", ("this",)),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.JarowinklerSimilarity: ("jaro_winkler_similarity", ("this", "expression", "case_insensitive")),
    exp.Format: ("format", ("this", "expressions")),
    exp.TimeFromParts: ("make_time", ("hour", "min", "sec")),
    exp.MapFromEntries: ("map_from_entries", ("this",)),
    exp.RegexpExtract: ("regexp_extract", ("this", "expression", "group", "parameters")),
    exp.LastDay: ("last_day", ("this",)),
    exp.TimestampFromParts: ("make_timestamp", ("year", "month", "day", "hour", "min", "sec")),
    exp.DateAdd: ("+", ("this", "expression")),
    exp.EuclideanDistance: ("list_distance", ("this", "expression")),
    exp.CosineDistance: ("list_cosine_distance", ("this", "expression")),
    exp.ArraySize: ("array_length", ("this", "expression")),
    exp.ArrayContains: ("list_contains", ("this", "expression")),
    exp.ArrayConcat: ("list_concat", ("this", "expressions")),
    exp.ArrayDistinct: ("list_distinct", ("this",)),
    exp.ArrayReverse: ("list_reverse", ("this",)),
    exp.ArrayAppend: ("list_append", ("this", "expression")),
    exp.ArrayPrepend: ("list_prepend", ("expression", "this")),
    exp.ArrayOverlaps: ("list_has_any", ("this", "expression")),
    exp.ArrayContainsAll: ("list_has_all", ("this", "expression")),
    exp.ArrayContainedBy: ("list_has_all", ("expression", "this")),
    exp.ArrayIntersect: ("list_intersect", ("expressions",)),
    exp.ArrayToString: ("array_to_string", ("this", "expression")),
    exp.Flatten: ("flatten", ("this",)),
    exp.Split: ("string_split", ("this", "expression")),
    exp.StringToArray: ("string_split", ("this", "expression")),
    exp.MapKeys: ("map_keys", ("this",)),
    exp.JSONKeys: ("json_keys", ("this", "expression")),
    exp.ParseJSON: ("json", ("this",)),
    exp.ArraySlice: ("list_slice", ("this", "start", "end", "step")),
    exp.ToBinary: ("bin", ("this",)),
    exp.JSONArray: ("json_array", ("expressions",)),
    exp.ArrayMin: ("list_min", ("this",)),
    exp.ArrayMax: ("list_max", ("this",)),
}
# flags that sqlglot sets by dialect; values behave as in DuckDB whatever the dialect
_FLAGS = {
    "typed", "safe", "is_numeric", "big_int", "coalesce", "single_replace", "null_if_pos_overflow",
    "full_match", "null_propagation", "check_null", "nulls_first", "is_end_exclusive",
}  # fmt: skip

# functions that sqlglot does not know, by the name in the text
_BY_NAME = {
    "date_part": "date_part", "datepart": "date_part", "prefix": "starts_with", "suffix": "ends_with",
    "to_years": "to_years", "to_months": "to_months", "to_hours": "to_hours", "to_minutes": "to_minutes",
    "bit_count": "bit_count", "gcd": "gcd", "greatest_common_divisor": "gcd", "lcm": "lcm",
    "least_common_multiple": "lcm", "isfinite": "isfinite", "even": "even", "ord": "unicode",
    "strlen": "strlen",
    "editdist3": "levenshtein", "hamming": "hamming", "mismatches": "hamming", "sha256": "sha256",
    "date_sub": "date_sub", "datesub": "date_sub", "age": "age", "epoch_us": "epoch_us",
    "epoch_ns": "epoch_ns",
    "epoch_ms": "epoch_ms", "make_timestamp": "make_timestamp", "isoyear": "isoyear", "yearweek": "yearweek",
    "era": "era", "century": "century", "decade": "decade", "millennium": "millennium", "to_hex": "hex",
    "to_seconds": "to_seconds", "to_weeks": "to_weeks", "weekday": "dow",
    **{
        name: name
        for name in (
            "list_extract", "list_element", "array_extract", "list_slice", "array_slice", "list_position",
            "list_indexof", "array_position", "array_indexof", "list_unique", "array_unique",
            "list_reverse_sort", "array_reverse_sort", "list_aggregate", "list_aggr", "array_aggregate",
            "list_sum", "list_avg", "list_min", "list_max", "list_count", "list_first", "list_last",
            "list_any_value", "list_product", "list_bool_and", "list_bool_or", "list_histogram",
            "list_entropy", "list_mad", "list_skewness", "list_kurtosis", "list_kurtosis_pop",
            "list_cat", "array_cat",
            "list_append", "list_prepend", "list_intersect", "array_intersect", "list_has_any",
            "list_has_all", "array_has_any", "array_has_all", "list_reverse", "array_reverse", "list_sort",
            "array_sort", "list_distinct", "array_distinct", "list_concat", "array_concat", "list_contains",
            "list_has", "array_contains", "array_has", "array_push_back", "array_append", "array_prepend",
            "array_to_string", "str_split", "string_split", "string_to_array", "split", "flatten",
            "map_extract", "map_extract_value", "map_contains", "map_entries", "map_keys", "map_values",
            "json_array_length", "json_keys", "json_exists", "json_valid", "json", "to_json", "json_type",
            "json_extract", "json_extract_string", "json_extract_path", "json_extract_path_text", "timezone",
            "cardinality", "element_at", "len", "array_length", "range", "generate_series",
            "enum_code", "enum_first", "enum_last", "enum_range",
            "bin", "unbin", "binom", "millisecond", "microsecond", "url_encode", "url_decode", "octet_length",
            "to_base", "strip_accents",
            "nfc_normalize", "regexp_escape", "format_bytes", "jaccard", "damerau_levenshtein",
            "jaro_similarity", "jaro_winkler_similarity", "printf", "format", "try_strptime", "fmod", "fdiv",
            "nextafter", "signbit", "make_timestamp_ms", "make_timestamptz", "julian", "days_in_month",
            "nanosecond", "normalized_interval", "to_quarters", "to_decades", "to_centuries",
            "to_millennia", "to_milliseconds", "to_microseconds", "list_where", "list_select", "list_resize",
            "list_grade_up", "list_inner_product", "list_negative_inner_product", "list_distance",
            "list_cosine_similarity", "list_cosine_distance", "list_median", "list_mode", "list_var_pop",
            "list_var_samp", "list_stddev_pop", "list_stddev_samp", "list_string_agg",
            "list_bit_and", "list_bit_or", "list_bit_xor", "struct_keys", "map_concat",
            "map_from_entries", "map_contains_value", "map_contains_entry", "list_pop_back",
            "list_pop_front", "make_time", "strftime", "strptime",
        )
    },
    "like_escape": "like", "ilike_escape": "ilike", "json_quote": "to_json", "array_to_json": "to_json",
    "row_to_json": "to_json",
    "base64": "to_base64", "to_binary": "bin", "from_binary": "unbin", "from_hex": "unhex",
    "string_split_regex": "string_split_regex", "str_split_regex": "string_split_regex",
    "regexp_split_to_array": "string_split_regex", "formatreadablesize": "format_bytes",
    "formatreadabledecimalsize": "format_decimal_bytes", "array_push_front": "list_push_front",
    "array_pop_back": "list_pop_back", "array_pop_front": "list_pop_front", "array_where": "list_where",
    "array_select": "list_select", "array_resize": "list_resize", "array_grade_up": "list_grade_up",
    "grade_up": "list_grade_up", "list_dot_product": "list_inner_product",
    "list_negative_dot_product": "list_negative_inner_product", "character_length": "length",
    "aggregate": "list_aggregate", "array_aggr": "list_aggregate",
    "list_pack": "list_value",
    "add": "+", "subtract": "-", "multiply": "*", "divide": "//",
}  # fmt: skip
_LAMBDAS = {
    "list_reduce": "list_reduce", "array_reduce": "list_reduce", "list_apply": "list_transform",
    "array_apply": "list_transform", "array_transform": "list_transform", "list_transform": "list_transform",
    "list_filter": "list_filter", "array_filter": "list_filter",
}  # fmt: skip
_STRUCTS = frozenset({"struct_insert", "struct_update", "struct_concat", "struct_extract_at"})
_KNOWN = [name for name, _ in _DIRECT.values() if name.isidentifier()] + [
    *_BY_NAME, "sum", "count", "avg", "coalesce", "greatest", "least", "concat", "trim", "ltrim", "rtrim",
    "lpad", "rpad",
    "date_trunc", "time_bucket", "extract", "log10", "log2", "log",
]  # fmt: skip


def _args(
    binder: Binder, node: Any, keys: tuple[str, ...], ignore: frozenset[str] = frozenset()
) -> list[Expr]:
    """The bound arguments of a node; refuses it if any other argument is set."""
    extra = [k for k, v in node.args.items() if v and k not in keys and k not in _FLAGS and k not in ignore]
    if extra:
        raise binder.source.unsupported(f"{extra[0].upper().strip('_')} in {node.sql_name()}", node)
    bound = []
    for key in keys:
        value = node.args.get(key)
        bound += [binder.bind(v) for v in (value if isinstance(value, list) else [value]) if v is not None]
    return bound


def _direct(name: str, keys: tuple[str, ...]) -> _Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        return build.call(name, *_args(binder, node, keys))

    return rule


def by_name(binder: Binder, node: Any) -> Expr:
    """A call of a function that sqlglot does not know."""
    name = str(node.name).lower()
    if name in refusals.VOLATILE_NAMES:
        time = None if node.expressions else refusals.time_of(binder.source, name)
        if time is not None:
            return time
        raise refusals.volatile(binder.source, name.upper(), node)
    if name in _LAMBDAS:
        return lambdas.by_name(binder, _LAMBDAS[name], node)
    if name in _STRUCTS:
        return nested.STRUCTS[name](binder, node)
    if name not in _BY_NAME:
        refused = refusals.aggregate(binder.source, name, node)
        if refused is not None:
            raise refused
        raise binder.source.error(
            Code.NOT_FOUND, f"there is no function '{name}'", node, hint=near(name, _KNOWN, "functions")
        )
    return build.call(_BY_NAME[name], *(binder.bind(a) for a in node.expressions))


def _log(binder: Binder, node: Any) -> Expr:
    """LOG(x) is the decimal logarithm; sqlglot reads LOG2(x) and LOG10(x) as LOG(2, x) and LOG(10, x)."""
    if node.expression is None:
        return build.call("log10", binder.bind(node.this))
    if refusals.written(binder.source, node) not in ("LOG2", "LOG10"):
        return build.call("log_to", binder.bind(node.this), binder.bind(node.expression))
    return build.call(f"log{node.this.name}", binder.bind(node.expression))


def _extreme(name: str) -> _Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        if not node.args.get("ignore_nulls"):
            raise binder.source.unsupported(f"{name.upper()} that is NULL if any argument is", node)
        return build.call(name, *_args(binder, node, ("this", "expressions"), frozenset({"ignore_nulls"})))

    return rule


def _concat(binder: Binder, node: Any) -> Expr:
    args = _args(binder, node, ("expressions",), frozenset({"coalesce"}))
    if any(arg.type.name == "LIST" for arg in args):
        return build.call("list_concat", *args)
    if node.args.get("coalesce"):
        return build.call("concat", *args)
    return reduce(lambda a, b: build.call("||", a, b), args)


_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def _trim(binder: Binder, node: Any) -> Expr:
    name = _TRIMS.get(str(node.args.get("position") or "").upper(), "trim")
    return build.call(name, *_args(binder, node, ("this", "expression"), frozenset({"position"})))


def _pad(binder: Binder, node: Any) -> Expr:
    args = _args(binder, node, ("this", "expression", "fill_pattern"), frozenset({"is_left"}))
    name = "lpad" if node.args.get("is_left") else "rpad"
    return build.call(name, *args) if len(args) > 2 else build.call(name, *args, build.literal(" "))


def _extract(binder: Binder, node: Any) -> Expr:
    part = build.literal(str(node.this.name).lower())
    return build.call("date_part", part, binder.bind(node.expression))


def _date_trunc(binder: Binder, node: Any) -> Expr:
    """sqlglot also reads DATE_TRUNC(column, x) as if the column's name were the part: look at the token."""
    i = binder.source.index(node)
    tokens = binder.source.tokens
    if i is None or i + 2 >= len(tokens) or tokens[i + 2].token_type != TokenType.STRING:
        raise binder.source.unsupported("DATE_TRUNC with a part that is not a constant", node)
    part = build.literal(str(node.args["unit"].name).lower())
    return build.call("date_trunc", part, *_args(binder, node, ("this",), frozenset({"unit"})))


def _time_bucket(binder: Binder, node: Any) -> Expr:
    """The third argument is an origin, or an offset by which times are moved there and back. sqlglot reads a
    column there as if its name were a unit."""
    if isinstance(node.args.get("unit"), exp.Var):
        raise binder.source.unsupported("TIME_BUCKET with an offset that is not a constant", node)
    width, when, *more = _args(binder, node, ("this", "expression", "unit"))
    if not more or more[0].type != INTERVAL:
        return build.call("time_bucket", width, when, *more)
    start = build.call("time_bucket", width, build.call("-", when, more[0]))
    found = build.call("+", start, more[0])
    return build.cast(found, DATE) if when.type == DATE else found


def _date_diff(binder: Binder, node: Any) -> Expr:
    """The part is a constant: sqlglot reads anything else as if its name were the part."""
    unit = node.args.get("unit")
    i = binder.source.index(node)
    written = "" if i is None else binder.source.tokens[min(i + 2, len(binder.source.tokens) - 1)].token_type
    if unit is None or written != TokenType.STRING:
        raise binder.source.unsupported("DATE_DIFF with a part that is not a constant", node)
    end, start = (binder.bind(node.args[key]) for key in ("this", "expression"))
    return build.call("date_diff", build.literal(str(unit.name).lower()), start, end)


def _from_epoch(binder: Binder, node: Any) -> Expr:
    """EPOCH_MS, MAKE_TIMESTAMP of one argument and TO_TIMESTAMP, which sqlglot reads as the same."""
    scale = node.args.get("scale")
    name = {"3": "epoch_ms", "6": "make_timestamp"}.get("" if scale is None else scale.name, "to_timestamp")
    return build.call(name, binder.bind(node.this))


def _sha2(binder: Binder, node: Any) -> Expr:
    if str(node.args.get("length") or "") not in ("", "256"):
        raise binder.source.unsupported(f"SHA2 of {node.args['length']} bits", node)
    return build.call("sha256", binder.bind(node.this))


def _coded(name: str) -> _Rule:
    """ENCODE and DECODE, of UTF-8 only."""

    def rule(binder: Binder, node: Any) -> Expr:
        if Printer(binder.source).written(node) != 1:
            raise binder.source.unsupported(f"{name.upper()} by a character set", node, hint="it is UTF-8")
        return build.call(name, binder.bind(node.this))

    return rule


def _by_format(name: str) -> _Rule:
    """STRFTIME and STRPTIME: sqlglot makes 'None' of an empty format."""

    def rule(binder: Binder, node: Any) -> Expr:
        args = _args(binder, node, ("this", "format"))
        if len(args) != 2 or node.args["format"].name == "None":
            raise binder.source.error(Code.VALUE, f"{name} takes a time and a format that is not empty", node)
        return build.call(name, *args)

    return rule


def _json_object(binder: Binder, node: Any) -> Expr:
    parts = [part for pair in node.expressions for part in (pair.this, pair.expression)]
    return build.call("json_object", *(binder.bind(part) for part in parts))


def _pi(binder: Binder, node: Any) -> Expr:
    return build.literal(math.pi)


def _to_date(binder: Binder, node: Any) -> Expr:
    (arg,) = _args(binder, node, ("this",))
    return build.cast(arg, DATE)


# -- intervals -------------------------------------------------------------------------------------------

_UNITS: dict[str, tuple[int, int, int]] = {  # months, days, microseconds
    "MILLENNIUM": (12000, 0, 0), "CENTURY": (1200, 0, 0), "DECADE": (120, 0, 0), "YEAR": (12, 0, 0),
    "QUARTER": (3, 0, 0), "MONTH": (1, 0, 0), "WEEK": (0, 7, 0), "DAY": (0, 1, 0),
    "HOUR": (0, 0, 3_600_000_000), "MINUTE": (0, 0, 60_000_000), "SECOND": (0, 0, 1_000_000),
    "MILLISECOND": (0, 0, 1_000), "MICROSECOND": (0, 0, 1),
}  # fmt: skip
_SPELLINGS = {
    **{u: u for u in _UNITS}, **{u + "S": u for u in _UNITS}, "MILLENNIA": "MILLENNIUM",
    "CENTURIES": "CENTURY",
    "Y": "YEAR", "MON": "MONTH", "MONS": "MONTH", "D": "DAY", "H": "HOUR", "HR": "HOUR", "HRS": "HOUR",
    "M": "MINUTE",
    "MIN": "MINUTE", "MINS": "MINUTE", "S": "SECOND", "SEC": "SECOND", "SECS": "SECOND", "MS": "MILLISECOND",
    "US": "MICROSECOND",
}  # fmt: skip
_FUNCTIONS = {
    "YEAR": "to_years", "MONTH": "to_months", "DAY": "to_days", "HOUR": "to_hours", "MINUTE": "to_minutes",
    "SECOND": "to_seconds",
}  # fmt: skip


def _interval(binder: Binder, node: Any) -> Expr:
    amount, unit = node.this, node.args.get("unit")
    if not isinstance(unit, (exp.Var, type(None))):
        raise binder.source.unsupported(f"INTERVAL {unit.sql('duckdb')[:40]}", node)
    while isinstance(amount, exp.Paren):
        amount = amount.this
    sign = -1 if isinstance(amount, exp.Neg) and isinstance(amount.this, exp.Literal) else 1
    text = (amount.this if sign < 0 else amount).name if sign < 0 or isinstance(amount, exp.Literal) else None
    if text is None:
        return _computed_interval(binder, node, amount, unit)
    parts = text.split() if unit is None else [text, unit.name]
    total = [0, 0, 0]
    for number, word in zip(parts[::2], parts[1::2], strict=False):
        size = _UNITS.get(_SPELLINGS.get(word.upper(), ""))
        whole = number.lstrip("+-")
        if size is None or not whole.isdecimal() or len(number) - len(whole) > 1 or len(whole) > 18:
            break
        total = [t + sign * int(number) * s for t, s in zip(total, size, strict=True)]
    else:
        if parts and len(parts) % 2 == 0:
            return build.interval(*total)
    shown = f"INTERVAL '{' '.join(parts)}'"
    raise binder.source.unsupported(
        shown, node, hint="write whole numbers with units, as in INTERVAL '3 months 2 days'"
    )


def _computed_interval(binder: Binder, node: Any, amount: Any, unit: Any) -> Expr:
    name = _FUNCTIONS.get(_SPELLINGS.get(unit.name.upper() if unit else "", ""))
    value = None if amount is None else binder.bind(amount)
    if name is None or value is None or not value.type.is_integer:
        raise binder.source.unsupported(
            "this form of INTERVAL",
            node,
            hint="the amount is a whole number, the unit one of " + ", ".join(_FUNCTIONS),
        )
    return build.call(name, build.cast(value, BIGINT) if name in ("to_hours", "to_minutes") else value)


RULES: dict[type[Any], _Rule] = {
    **{kind: _direct(name, keys) for kind, (name, keys) in _DIRECT.items()},
    exp.Log: _log,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Concat: _concat,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Extract: _extract,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.DateBin: _time_bucket,
    exp.DateDiff: _date_diff,
    exp.UnixToTime: _from_epoch,
    exp.SHA2: _sha2,
    exp.JSONObject: _json_object,
    exp.TimeToStr: _by_format("strftime"),
    exp.StrToTime: _by_format("strptime"),
    exp.Encode: _coded("encode"),
    exp.Decode: _coded("decode"),
    exp.Typeof: lambda binder, node: build.literal(type_text(binder.bind(node.this).type)),
    exp.Pi: _pi,
    exp.Date: _to_date,
    exp.TsOrDsToDate: _to_date,
    exp.Interval: _interval,
}
