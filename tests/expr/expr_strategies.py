"""Random typed expressions over the oracle's columns, NULL-rich rows, and expressions as DuckDB SQL."""

from __future__ import annotations

from typing import Any

import expr_oracle as oracle
from hypothesis import strategies as st

from everfresh.errors import EverfreshError
from everfresh.expr import Call, Case, Cast, Const, Expr, Var, build
from everfresh.expr.library.render import render
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    SqlType,
    canonical_float,
)

# -- values: small ones, edges, many NULLs -------------------------------------------------------------------

_SMALL = [0, 1, -1, 2, 3, 7, -5, 10, 100]
_TEXTS = ["", "a", "abc", "Zürich", "a%b_c", "12", "-3.5", " x ", "it's", "true", "2020-02-29", "ẞß"]
_FLOATS = [
    0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -2.5,
    1e300,
    -1e-3,
    123456.789,
    float("inf"),
    float("-inf"),
    float("nan"),
]


def domain(type_: SqlType) -> list[Any]:
    """Physical values of a type worth trying."""
    if type_.is_exact:
        low, high = type_.bounds
        if type_ == HUGEINT:  # what decimal128 can carry to DuckDB
            low, high = -(10**38) + 1, 10**38 - 1
        found = [
            *_SMALL,
            low,
            high,
            high // 2,
            high // 3 + 1,
            10**type_.scale,
            5 * 10 ** max(0, type_.scale - 1),
        ]
        return [v for v in found if low <= v <= high]
    if type_.is_float:
        return [v for v in _FLOATS if type_ == DOUBLE or abs(v) < 1e38 or not abs(v) < float("inf")]
    return {
        BOOLEAN: [True, False],
        VARCHAR: _TEXTS,
        DATE: [0, -1, 18292, 18321, 19782, -700000, 2_000_000, 11016],
        TIMESTAMP: [0, -1, 1582979696789000, -62135596800000001, 951868799999999],
        INTERVAL: [
            (0, 0, 0),
            (1, 0, 0),
            (0, 31, 0),
            (0, 0, 3_600_000_000),
            (-13, 5, -1),
            (12, -40, 90_000_000_000),
        ],
    }[type_]


def single(value: Any, type_: SqlType) -> Any:
    """The value as a column of the type can hold it."""
    import numpy as np

    return canonical_float(float(np.float32(value))) if type_ == REAL and value is not None else value


def values(type_: SqlType) -> st.SearchStrategy[Any]:
    one = st.sampled_from(domain(type_)).map(lambda v: single(v, type_))
    return st.none() | one if type_ == BOOLEAN else st.one_of(st.none(), one, one, one)


rows = st.lists(
    st.fixed_dictionaries({name: values(type_) for name, type_ in oracle.TYPES.items()}), max_size=6
)

# -- expressions ---------------------------------------------------------------------------------------------

_COLUMNS: dict[str, list[str]] = {
    "bool": ["b", "c"],
    "int": ["ti", "si", "i", "j", "bi", "h"],
    "dec": ["m", "n", "w"],
    "float": ["r", "d", "e"],
    "str": ["s", "t"],
    "date": ["da", "db"],
    "ts": ["ts"],
    "iv": ["iv"],
}
_ALL = list(_COLUMNS)
_NUMBERS = ["int", "dec", "float"]
_SORTED = ["bool", *_NUMBERS, "str", "date", "ts", "iv"]
_COMPARE = ["=", "<>", "<", "<=", ">", ">=", "is_distinct", "is_not_distinct"]
# family: (function, argument families); a tuple of families is a choice
_CALLS: dict[str, list[tuple[str, list[Any]]]] = {
    "bool": [
        ("not", ["bool"]),
        ("and", ["bool", "bool"]),
        ("or", ["bool", "bool", "bool"]),
        ("and", ["bool", "bool"]),
        ("or", ["bool", "bool"]),
        ("like", ["str", "pattern"]),
        ("ilike", ["str", "pattern"]),
        ("starts_with", ["str", "str"]),
        ("contains", ["str", "str"]),
        ("ends_with", ["str", "str"]),
    ],
    "int": [
        ("+", ["int", "int"]),
        ("-", ["int", "int"]),
        ("*", ["int", "int"]),
        ("//", ["int", "int"]),
        ("%", ["int", "int"]),
        ("neg", ["int"]),
        ("abs", ["int"]),
        ("sign", [("int", "dec", "float")]),
        ("length", ["str"]),
        ("strpos", ["str", "str"]),
        ("-", ["date", "date"]),
        ("truth", ["bool"]),
        ("not_null01", [("int", "str", "iv")]),
        ("if_null_zero", ["int"]),
        ("round", ["int", "digits"]),
        ("trunc", ["int", "digits"]),
        ("is_nan01", ["float"]),
        ("is_pinf01", ["float"]),
        ("is_ninf01", ["float"]),
        *[
            (part, [("date", "ts", "iv")])
            for part in ("year", "month", "day", "quarter", "hour", "minute", "second")
        ],
        *[(part, [("date", "ts")]) for part in ("dow", "isodow", "doy", "week")],
    ],
    "dec": [
        ("+", ["dec", ("dec", "int")]),
        ("-", [("dec", "int"), "dec"]),
        ("*", ["dec", ("dec", "int")]),
        ("%", ["dec", ("dec", "int")]),
        ("neg", ["dec"]),
        ("abs", ["dec"]),
        ("floor", ["dec"]),
        ("ceil", ["dec"]),
        ("round", ["dec"]),
        ("trunc", ["dec"]),
        ("round", ["dec", "digits"]),
        ("trunc", ["dec", "digits"]),
        ("if_null_zero", ["dec"]),
    ],
    "float": [
        ("+", ["float", ("float", "int", "dec")]),
        ("-", ["float", "float"]),
        ("*", ["float", "float"]),
        ("/", [("int", "dec", "float"), ("int", "dec", "float")]),
        ("//", ["float", "float"]),
        ("%", ["float", "float"]),
        ("neg", ["float"]),
        ("abs", ["float"]),
        ("floor", [("float", "int")]),
        ("ceil", ["float"]),
        ("round", ["float"]),
        ("trunc", ["float"]),
        ("round", ["float", "digits"]),
        ("trunc", ["float", "digits"]),
        ("sqrt", [("float", "dec", "int")]),
        ("ln", ["float"]),
        ("exp", ["float"]),
        ("finite_or_zero", ["float"]),
        ("if_null_zero", ["float"]),
        ("epoch", [("date", "ts", "iv")]),
    ],
    "str": [
        ("upper", ["str"]),
        ("lower", ["str"]),
        ("||", ["str", ("str", "int", "dec", "date", "bool", "iv")]),
        ("concat", ["str", "str", "int"]),
        ("substring", ["str", "int", "int"]),
        ("left", ["str", "int"]),
        ("right", ["str", "int"]),
        ("trim", ["str"]),
        ("replace", ["str", "str", "str"]),
        ("reverse", ["str"]),
        ("lpad", ["str", "count", "str"]),
        ("rpad", ["str", "count", "str"]),
        ("repeat", ["str", "count"]),
    ],
    "date": [("+", ["date", "days"]), ("-", ["date", "days"]), ("time_bucket", ["iv", "date"])],
    "ts": [
        ("+", [("date", "ts"), "iv"]),
        ("-", [("date", "ts"), "iv"]),
        ("date_trunc", ["part", ("date", "ts")]),
        ("time_bucket", ["iv", "ts"]),
        ("time_bucket", ["iv", "ts", "ts"]),
    ],
    "iv": [
        ("+", ["iv", "iv"]),
        ("-", ["iv", "iv"]),
        ("neg", ["iv"]),
        ("*", ["iv", "count"]),
        ("-", ["ts", "ts"]),
        ("to_months", ["count"]),
        ("to_days", ["int"]),
        ("to_hours", ["int"]),
        ("date_trunc", ["part", "iv"]),
    ],
}
_CASTS: dict[str, list[str]] = {
    "bool": _NUMBERS,
    "int": ["bool", "dec", "float", "str"],
    "dec": ["bool", "int", "float", "dec", "str"],
    "float": ["bool", "int", "dec", "str"],
    "str": _ALL,
    "date": ["ts", "str"],
    "ts": ["date", "str"],
    "iv": ["iv"],
}
_TARGETS = {
    "bool": [BOOLEAN],
    "int": [TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT],
    "dec": [DECIMAL(15, 2), DECIMAL(9, 4), DECIMAL(4, 1), DECIMAL(38, 10), DECIMAL(18, 0)],
    "float": [REAL, DOUBLE],
    "str": [VARCHAR],
    "date": [DATE],
    "ts": [TIMESTAMP],
    "iv": [INTERVAL],
}
_SPECIAL: dict[str, list[Any]] = {
    "pattern": ["%", "a%", "_b%", "%ü%", "", "a", "%c"],
    "digits": [-2, -1, 0, 1, 3],
    "count": [-1, 0, 1, 2, 5],
    "days": [0, 1, -400, 31],
    "part": ["year", "quarter", "month", "week", "day", "hour", "second"],
}


@st.composite
def exprs(draw: Any, family: str | None = None, depth: int = 3) -> Expr:
    """An expression of a family (any, if None), at most `depth` calls deep."""
    if family is None:
        family = draw(st.sampled_from(_ALL))
    if family in _SPECIAL:
        return build.literal(draw(st.sampled_from(_SPECIAL[family])))
    kind = draw(st.sampled_from(["leaf", "call", "call", "call", "shape", "cast"])) if depth else "leaf"
    if kind == "leaf":
        return draw(_leaf(family))
    try:
        if kind == "cast":
            source = draw(exprs(draw(st.sampled_from(_CASTS[family])), depth - 1))
            return build.cast(source, draw(st.sampled_from(_TARGETS[family])))
        return draw(_call(family, depth)) if kind == "call" else draw(_shape(family, depth))
    except EverfreshError:  # a scale of more than 38 digits and the like
        return draw(_leaf(family))


@st.composite
def _leaf(draw: Any, family: str) -> Expr:
    if draw(st.integers(0, 3)):
        return oracle.VARS[draw(st.sampled_from(_COLUMNS[family]))]
    type_ = draw(st.sampled_from(_TARGETS[family]))
    return Const(draw(values(type_)), type_)


@st.composite
def _call(draw: Any, family: str, depth: int) -> Expr:
    if family == "bool" and draw(st.booleans()):
        over = draw(st.sampled_from(_SORTED))
        if draw(st.integers(0, 3)) == 0:
            return build.call("is_null", draw(exprs(over, depth - 1)))
        return build.call(
            draw(st.sampled_from(_COMPARE)), draw(exprs(over, depth - 1)), draw(exprs(over, depth - 1))
        )
    name, families = draw(st.sampled_from(_CALLS[family]))
    args = [draw(exprs(f if isinstance(f, str) else draw(st.sampled_from(f)), depth - 1)) for f in families]
    return build.call(name, *args)


@st.composite
def _shape(draw: Any, family: str, depth: int) -> Expr:
    """CASE, COALESCE, GREATEST, LEAST, IN: in every family."""
    kind = draw(st.sampled_from(["case", "coalesce", "greatest", "least", "in"]))
    if kind == "in" and family == "bool":
        over = draw(st.sampled_from(_SORTED))
        items = [draw(_leaf(over)) for _ in range(draw(st.integers(1, 4)))]
        return build.in_list(draw(exprs(over, depth - 1)), items)
    args = [draw(exprs(family, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    if kind in ("case", "in") or (kind != "coalesce" and family == "iv"):
        # DuckDB's GREATEST of intervals compares their months first and so disagrees with its own <
        arms = [(draw(exprs("bool", depth - 1)), arg) for arg in args]
        return build.case(arms, draw(exprs(family, depth - 1)) if draw(st.booleans()) else None)
    return build.call(kind, *args)


# -- SQL -----------------------------------------------------------------------------------------------------

_SQL = {
    "is_null": "({0} IS NULL)",
    "not": "(NOT {0})",
    "like": "({0} LIKE {1})",
    "ilike": "({0} ILIKE {1})",
    "is_distinct": "({0} IS DISTINCT FROM {1})",
    "is_not_distinct": "({0} IS NOT DISTINCT FROM {1})",
    "truth": "CAST(coalesce({0}, false) AS BIGINT)",
    "not_null01": "CAST({0} IS NOT NULL AS BIGINT)",
    "is_nan01": "CAST(coalesce(isnan({0}), false) AS BIGINT)",
    "is_pinf01": "CAST(coalesce({0} = 'inf', false) AS BIGINT)",
    "is_ninf01": "CAST(coalesce({0} = '-inf', false) AS BIGINT)",
}
_INFIX = {"+", "-", "*", "/", "//", "%", "=", "<>", "<", "<=", ">", ">=", "||"}


def duck_type(type_: SqlType) -> str:
    return "INTEGER" if type_.name == "NULL" else str(type_)


def to_duckdb(expr: Expr) -> str:
    """The expression as DuckDB SQL. Sums of floats are kept free of -0.0, which everfresh does not have."""
    text = _plain(expr)
    return f"({text} + 0::{expr.type})" if expr.type.is_float and isinstance(expr, Call | Cast) else text


def _plain(expr: Expr) -> str:
    match expr:
        case Var():
            return expr.name
        case Const(value=None):
            return f"CAST(NULL AS {duck_type(expr.of)})"
        case Const():
            return "CAST('" + render(expr.value, expr.of).replace("'", "''") + f"' AS {expr.of})"
        case Cast():
            text = f"CAST({to_duckdb(expr.arg)} AS {expr.to})"
            if expr.arg.type.is_float and expr.to == VARCHAR:
                return f"replace({text}, '-nan', 'nan')"
            return text
        case Case():
            arms = " ".join(f"WHEN {to_duckdb(c)} THEN {to_duckdb(v)}" for c, v in expr.arms)
            return f"(CASE {arms} ELSE {to_duckdb(expr.default)} END)"
        case Call():
            return _call_sql(expr)
        case _:
            raise AssertionError


def _call_sql(expr: Call) -> str:
    args = [to_duckdb(arg) for arg in expr.args]
    if expr.op in _SQL:
        return _SQL[expr.op].format(*args)
    if expr.op in _INFIX:
        return f"({args[0]} {expr.op} {args[1]})"
    if expr.op in ("and", "or"):
        return "(" + f" {expr.op} ".join(args) + ")"
    if expr.op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if expr.op in ("dow", "doy"):
        return f"dayof{'week' if expr.op == 'dow' else 'year'}({args[0]})"
    if expr.op == "neg" and expr.type.is_integer:  # DuckDB widens the negative of a constant least integer
        return f"(CAST(0 AS {expr.type}) - {args[0]})"
    if expr.op == "neg":
        return f"(- {args[0]})"
    if expr.op == "if_null_zero":
        return f"coalesce({args[0]}, CAST(0 AS {expr.type}))"
    if expr.op == "finite_or_zero":
        return f"(CASE WHEN isfinite({args[0]}) THEN {args[0]} ELSE CAST(0 AS {expr.type}) END)"
    if expr.op in ("round", "trunc") and len(expr.args) == 2:
        assert isinstance(expr.args[1], Const)
        text = f"{expr.op}({args[0]}, {expr.args[1].value})"
        return f"CAST({text} AS {expr.type})" if expr.type.name == "DECIMAL" else text
    return f"{expr.op}({', '.join(args)})"
