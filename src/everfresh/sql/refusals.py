"""What is outside the language, by name: the messages for everything the binder has no rule for.

Invariant: `refuse` names the construct that the user wrote, not sqlglot's class for it.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Const
from everfresh.sql.source import Source, words
from everfresh.types import DATE, TIMESTAMP, to_physical

VOLATILE_NODES: dict[type[Any], str] = {
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentDatetime: "CURRENT_DATETIME",
    exp.CurrentTime: "CURRENT_TIME",
    exp.CurrentTimestamp: "CURRENT_TIMESTAMP",
    exp.CurrentUser: "CURRENT_USER",
    exp.CurrentVersion: "VERSION",
    exp.CurrentCatalog: "CURRENT_CATALOG",
    exp.CurrentSchema: "CURRENT_SCHEMA",
    exp.SessionUser: "SESSION_USER",
    exp.Localtime: "LOCALTIME",
    exp.Localtimestamp: "LOCALTIMESTAMP",
    exp.Rand: "RANDOM",
    exp.Randn: "RANDN",
    exp.Uuid: "UUID",
    exp.NextValueFor: "NEXT VALUE FOR",
}
VOLATILE_NAMES = frozenset(
    """now today random setseed uuid gen_random_uuid uuidv4 uuidv7 nextval currval get_current_timestamp
    get_current_time transaction_timestamp current_localtime current_localtimestamp txid_current
    current_query current_setting clock_timestamp statement_timestamp sysdate current_database""".split()  # noqa: SIM905
)

_AGGREGATES = (
    "aggregates are: SUM, COUNT, AVG, MIN, MAX, STDDEV, VARIANCE, COVAR, CORR, REGR_..., BOOL_AND, BOOL_OR, "
    "COUNT_IF, STRING_AGG, FIRST, LAST, ANY_VALUE, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, MODE, ARG_MIN, "
    "ARG_MAX, PRODUCT, BIT_AND, BIT_OR, BIT_XOR, LIST, HISTOGRAM, APPROX_QUANTILE, MAD, ENTROPY, KURTOSIS, "
    "SKEWNESS"
)
_NOT_KEPT = {
    "bitstring_agg": "BITSTRING_AGG, which gives a BIT,",
    "reservoir_quantile": "RESERVOIR_QUANTILE, which is of a sample,",
    "approx_top_k": "APPROX_TOP_K, whose answer depends on the order of the rows,",
    "arg_min_null": "ARG_MIN_NULL",
    "arg_max_null": "ARG_MAX_NULL",
}
_NAMES: dict[type[Any], str] = {
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.Exists: "EXISTS",
    exp.Any: "ANY",
    exp.All: "ALL",
    exp.Window: "a window function (OVER)",
    exp.WithinGroup: "WITHIN GROUP",
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
    exp.Star: "'*' inside an expression",
    exp.Tuple: "a row value (a, b)",
    exp.Array: "a list",
    exp.Struct: "a struct",
    exp.Bracket: "an element access [...]",
    exp.Dot: "a field access",
    exp.Lambda: "a lambda",
    exp.Columns: "COLUMNS(...)",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.SimilarTo: "SIMILAR TO",
    exp.RegexpLike: "a regular expression",
    exp.RegexpFullMatch: "a regular expression",
    exp.BitwiseAnd: "the operator &",
    exp.BitwiseOr: "the operator |",
    exp.BitwiseXor: "bitwise XOR",
    exp.BitwiseNot: "the operator ~",
    exp.BitwiseLeftShift: "the operator <<",
    exp.BitwiseRightShift: "the operator >>",
    exp.ByteString: "a string with escapes (E'...')",
    exp.HexString: "a hexadecimal literal",
    exp.BitString: "a bit literal",
    exp.National: "a national string (N'...')",
    exp.Values: "VALUES as a query",
    exp.Pivot: "PIVOT",
    exp.Alias: "an alias inside an expression",
    exp.Distinct: "DISTINCT inside an expression",
}


def refuse(source: Source, node: Any) -> EverfreshError:
    """The error for a tree that has no rule."""
    if type(node) in VOLATILE_NODES:
        return volatile(source, VOLATILE_NODES[type(node)], node)
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        return refuse(source, node.this) if isinstance(node.this, exp.AggFunc) else _plain(source, node)
    if isinstance(node, exp.AggFunc):
        found = aggregate(source, node.sql_name(), node)
        if found is not None:
            return found
        return source.unsupported(f"the aggregate {node.sql_name()}", node, hint=_AGGREGATES)
    return _plain(source, node)


def aggregate(source: Source, name: str, node: Any) -> EverfreshError | None:
    """The error for an aggregate of DuckDB's that the language does not have; None for any other name."""
    what = _NOT_KEPT.get(name.lower())
    return None if what is None else source.unsupported(f"the aggregate {what}", node, hint=_AGGREGATES)


def _plain(source: Source, node: Any) -> EverfreshError:
    named = _NAMES.get(type(node))
    if named is None and isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        named = f"the function {written(source, node) or node.sql_name()}"
    return source.unsupported(named or words(node), node)


def written(source: Source, node: Any) -> str | None:
    """A function's name as it stands in the text, in upper case, if it stands there."""
    i = source.index(node)
    if i is None or i + 1 >= len(source.tokens) or source.tokens[i + 1].text != "(":
        return None
    text: str = source.tokens[i].text
    return text.upper()


_DAYS = frozenset({"CURRENT_DATE", "TODAY"})
_MOMENTS = frozenset(
    """CURRENT_TIMESTAMP CURRENT_DATETIME LOCALTIMESTAMP NOW GET_CURRENT_TIMESTAMP TRANSACTION_TIMESTAMP
    CURRENT_LOCALTIMESTAMP STATEMENT_TIMESTAMP""".split()  # noqa: SIM905
)


def time_of(source: Source, name: str) -> Const | None:
    """The value of a function of the time, which is that of the statement; none where it may not be used."""
    if source.now is None or name.upper() not in _MOMENTS | _DAYS:
        return None
    of, value = (DATE, source.now.date()) if name.upper() in _DAYS else (TIMESTAMP, source.now)
    return Const(to_physical(value, of), of)


def volatile(source: Source, name: str, node: Any) -> EverfreshError:
    """The refusal of a function without a fixed value."""
    return source.error(
        Code.UNSUPPORTED,
        f"{name} has no fixed value, so it is not supported",
        node,
        hint="put the value into a column, or write it as a constant",
    )
