"""Spark SQL against the reference evaluator (expressions) and DuckDB (plans), over NULLs and edges."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from everfresh import types as ty
from everfresh.errors import Code, EverfreshError
from everfresh.expr import FUNCTIONS, Call, Cast, Const, Expr, Var, Vector, build, evaluate, parse
from everfresh.spark.session.failures import translated
from everfresh.spark.session.sessions import own
from everfresh.spark.sql.functions import IN_PROGRAMS_ONLY, SQL
from everfresh.spark.sql.text import expr_sql, plan_sql, spark_type
from everfresh.sql import parse_and_bind
from everfresh.types import Column, SqlType, TableSchema

pytestmark = pytest.mark.spark

TYPES: dict[str, SqlType] = {
    "b": ty.BOOLEAN, "c": ty.BOOLEAN, "ti": ty.TINYINT, "si": ty.SMALLINT, "i": ty.INTEGER, "j": ty.INTEGER,
    "bi": ty.BIGINT, "h": ty.HUGEINT, "g": ty.HUGEINT, "m": ty.DECIMAL(15, 2), "n": ty.DECIMAL(9, 3),
    "w": ty.DECIMAL(30, 4), "q": ty.DECIMAL(18, 2), "x": ty.DECIMAL(38, 20), "f": ty.DECIMAL(4, 4),
    "r": ty.REAL, "d": ty.DOUBLE, "e": ty.DOUBLE, "s": ty.VARCHAR, "t": ty.VARCHAR, "p": ty.VARCHAR,
    "num": ty.VARCHAR, "flo": ty.VARCHAR, "day": ty.VARCHAR, "da": ty.DATE, "db": ty.DATE,
    "ts": ty.TIMESTAMP, "tt": ty.TIMESTAMP, "iv": ty.INTERVAL, "iw": ty.INTERVAL,
}  # fmt: skip
VARS = {name: Var(name, type_) for name, type_ in TYPES.items()}

_FLOATS = [
    0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, -0.75, 0.1, 1e16, 1e-5, 123456.789, -7.25, 2e23, 5.1e-4, 1e300, 1e22,
    9007199254740993.0, 2.0**63, -(2.0**63), 1e15 + 0.5, 2.675, math.nan, math.inf, -math.inf,
]  # fmt: skip
_TEXTS = [
    "", "abc", "Zürich%", "a%b_c", "ABC", "ǆungla ᾳ ß İ", "e\u0301a\u0308x", "😀b\\c", "a.c", "  pad\t ",
    "100", "it's $x @1", "ÀÉΣς", "\n_", "aaa", "!%",
]  # fmt: skip
_DAYS = [0, -1, 18292, 18321, 19782, 11016, 10957, -719162, 2932896, -719163, 3000000, 59, 18627, 18992, 7305]
_EDGES: dict[str, list[Any]] = {
    "b": [True, False], "c": [False, True, True],
    "ti": [0, 1, -1, 127, -128, 5, -7], "si": [0, 1, -1, 32767, -32768, 300, -25],
    "i": [0, 1, -1, 2147483647, -2147483648, 3, 95, -250, 1000], "j": [2, -2, 0, -1, 1, 7, -3, 10],
    "bi": [0, 1, -1, 2**63 - 1, -(2**63), 4, 9007199254740993, -16777217, 3_000_000_000],
    "h": [0, 1, -1, 10**38 - 1, -(10**38) + 1, 10**20, -(2**70) - 3, 123456789012345678901234567890123456],
    "g": [1, -1, 0, 7, -999_999, 1_000_000, 10**19 + 7, -(10**30), 10**38 - 1],
    "m": [0, 1, -1, 125, -350, 10**15 - 1, -(10**15) + 1, 50, -50, 149, 9995],
    "n": [0, 500, -500, 1500, -2500, 999_999_999, 1234, -999_999_500],
    "w": [0, 5000, -5000, 10**30 - 1, -(10**30) + 1, 12345, 99_999_999_995_000],
    "q": [0, 10**18 - 1, -9007199254740993, 9007199254740993, 5, -90071992547409931],
    "x": [0, 10**20, -(10**20) // 2, 10**38 - 1, -(10**38) + 1, 123456789012345678123456789012345678, 7],
    "f": [0, 5000, -5, 9999, -9999, 50],
    "r": [0.0, 1.5, -0.25, 0.10000000149011612, 16777216.0, 1e10, math.nan, math.inf, -math.inf, -2.5, 2.5,
          3.4028234663852886e38, 1.1754943508222875e-38, 9.999999747378752e-05],
    "d": _FLOATS, "e": [*_FLOATS[7:], *_FLOATS[:7], 3.0, -4.0],
    "s": _TEXTS, "t": [*_TEXTS[5:], *_TEXTS[:5], "b"],
    "p": ["a%", "%", "_", "", "a$%b$_c", "%c", "A_C", "%\\%", "$$", "%.c", "!%", "z%ü%", "a_c"],
    "num": ["12", " -12.5\t", "1e3", "1_000", "0x1F", ".5", "5.", "+7", "2.5", "-0", "99.995", "0b101", "x",
            "", ".", "1__0", "1e-1", "99999999999999999999", "1.25e1"],
    "flo": ["1.5", "inf", "-Infinity", "NaN", "-nan", "1e400", " 1_0.5 ", "-0.0", "1d", "x", ".", "5.",
            "1e-400"],
    "day": ["2020-01-31", "2020-1-3", " 2020/02/29 ", "2020-02-30", "2020-01-31 10:11:12.1234567", "epoch",
            "2020-01-31T24:00:00Z", "0044-03-15 (BC)", "12020-01-01 1:2", "2020-01-31 10:11 utc",
            "2020-01/31", "x", "2020-01-31 10:60:00", "2020-01-31 10:11:12+02:30", "-0005-01-01",
            "2020-13-01", "1969-12-31 23:59:59"],
    "da": _DAYS, "db": [*_DAYS[6:], *_DAYS[:6], 12345],
    "ts": [d * 86_400_000_000 + d * 7_777_777 for d in _DAYS],
    "tt": [0, -1, 1582979696789000, 951782399999999, -62135596800000000, 1709164800000001],
    "iv": [(0, 0, 0), (1, 0, 0), (0, 30, 0), (13, -1, 90_000_000_000), (-25, 3, -1_500_000), (0, 1, 0),
           (0, 0, 86_400_000_000), (12, 2, 3_600_000_001), (-1, 0, 0), (7, 11, -7_261_000_000)],
    "iw": [(0, 1, 0), (0, 0, -1), (24, 0, 0), (2, -60, 5)],
}  # fmt: skip


def _data(rows: int = 60) -> list[dict[str, Any]]:
    """Each edge at least once, in an order of its own; a fifth of the values is NULL."""
    chance = random.Random(7)
    columns = {}
    for name, edges in _EDGES.items():
        values = [*edges, None]
        values += [None if chance.random() < 0.2 else chance.choice(edges) for _ in range(rows - len(values))]
        chance.shuffle(values)
        columns[name] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


DATA = _data()

# Each line is SQL that everfresh's parser reads; `;` separates.
GROUPS = {
    "arithmetic": """
ti + ti; si - si; i * i; bi + bi; i + j; i - j; i * j; bi * j; h + g; h - g; h * g; ti + 1; i + bi; h + 1
-ti; -i; -bi; -h; -m; -d; -r; -iv; i // j; ti // ti; bi // j; bi // (-1); h // g; g // h; h // 7; i % j
i % (-1); bi % j; h % g; ti % 3; ti % (-1); m + m; m - n; m * m; m * n; m * m * m; n + 1; 1 - m; m * 1.5
w + w; w * w; w * m; w + m; m + bi; m % n; w % m; n % m; x + x; x - w; x * f; x * 1.5; f * f; f + x; q * q
q + q; w * f; -x; m % m; x % m; x % x; r + r; r * r; r - r; r / r; d + e; d - e; d * e; d / e; d // e
d % e; r % r; r // 2::REAL; d / 0; -d / 0; i / j; m / n; i / 0; h / g; d % 0; d * 0; r * 1e38; 0e0 / 0
r / 3
""",
    "numbers": """
sin(d); cos(d); tan(d); cot(d); asin(d); acos(d); atan(d); atan2(d, i); sinh(d); cosh(d); tanh(d); degrees(d)
radians(d); isnan(d); isinf(d); isfinite(d); isnan(r)
bitwise_and(i, j); bitwise_or(i, bi); bitwise_xor(bi, j)
abs(i); abs(ti); abs(m); abs(d); abs(r); abs(h); abs(x); abs(w); sign(i); sign(d); sign(m); sign(r)
sign(h); floor(d); ceil(d); floor(r); ceil(r); floor(m); ceil(m); floor(x); ceil(f); floor(f); ceil(w)
round(d); round(r); round(m); round(n); round(i); round(x); round(f); trunc(d); trunc(r); trunc(m)
trunc(x); trunc(f); trunc(i); round(d, 2); round(d, -2); round(d, 0); round(d, j); round(r, 1)
round(r, -1); round(d, 400); round(d, -400); trunc(d, -400); round(d, 308); round(e, -308); round(i, -1)
round(i, j); round(i, -9); round(i, -10); round(ti, -1); round(bi, -18); round(bi, -19); round(h, -37)
round(h, j); round(m, 1); round(m, -1); round(m, -12); round(m, -13); round(m, -20); round(x, 3)
round(x, -17); round(w, 2); trunc(m, 1); trunc(m, -1); trunc(m, -20); trunc(x, 3); trunc(x, -5)
trunc(d, 2); trunc(d, -2); trunc(d, j); trunc(i, -1); trunc(i, j); trunc(bi, -18); trunc(h, -30)
trunc(h, -40); trunc(r, 1); sqrt(d); sqrt(i); sqrt(m); ln(d); log10(d); log2(d); exp(e); power(d, e)
power(d, 2); power(d, 0.5); power(1, d); power(-1, d); power(0, e); log2(8); ln(e)
""",
    "comparisons": """
i = j; i <> j; d < e; d <= e; d > e; d >= e; d = e; d = d; r = r; s < t; s = t; s >= t; m = n; m < n
h > g; b = c; b < c; da < db; ts = tt; ts < tt; iv = iw; iv < iw; iv <= iv; iv > iw
iv = INTERVAL '30 days'; i = d; bi = d; da = ts; b = i; s IS DISTINCT FROM t; d IS DISTINCT FROM e
d IS NOT DISTINCT FROM d; i IS NOT DISTINCT FROM NULL; iv IS DISTINCT FROM iw; iv IS NOT DISTINCT FROM iv
i IN (1, 3, NULL); i IN (0, 1); d IN ('nan', 1.0); s IN ('abc', 'b'); m IN (1.25, 0.5)
iv IN (INTERVAL '1 day', INTERVAL '24 hours'); s IN (t, 'abc', NULL); da IN (db); greatest(i, j)
greatest(d, e, 1.5); least(d, e); least(i, NULL, j); greatest(s, t, 'm'); least(da, ts)
greatest(iv, iw, INTERVAL '30 days'); least(iv, iw); greatest(m, n); least(b, c); greatest(i); least(h, g)
b AND c; b OR c; NOT b; b AND NULL; b OR NULL; b AND i > 0 AND d > 0; coalesce(i, j, 0); coalesce(s, t)
coalesce(d, 0); coalesce(iv, iw); i IS NULL; iv IS NULL; nullif(i, j)
CASE WHEN b THEN i WHEN c THEN j ELSE 0 END; CASE WHEN c THEN iv ELSE iw END
CASE WHEN j <> 0 THEN i // j ELSE i END; CASE WHEN b THEN m ELSE 0.005 END; CASE WHEN b THEN s END
b AND j <> 0 AND bi // j > 2; truth(b); truth(i > j); not_null01(s); not_null01(iv); if_null_zero(i)
if_null_zero(m); if_null_zero(d); if_null_zero(h); if_null_zero(r); finite_or_zero(d); finite_or_zero(r)
is_nan01(d); is_pinf01(d); is_ninf01(d); is_pinf01(r); is_nan01(r); i >= j AND i <= 100
i NOT IN (1, NULL)
""",
    "strings": """
translate(s, 'ab', 'x'); translate(t, s, 'xy'); concat_ws('-', s, t); concat_ws(s, t, 'x'); strlen(t)
bit_length(s); hex(t); md5(t); sha256(s)
length(s); upper(s); lower(s); upper(t); s || t; s || 'it''s $y @0'; concat(s, t, NULL, 'x'); concat(s)
reverse(s); reverse(t); substring(s, 2); substring(s, 1, 2); substring(s, 0, 2); substring(s, -2)
substring(s, -2, 1); substring(s, j); substring(s, j, 2); substring(s, 2, j); substring(s, j, j)
substring(s, -10, 12); substring(s, 3, -2); substring(s, bi, bi); substring(s || t, 0, 3); left(s, 2)
left(s, -1); left(s, j); left(s, bi); right(s, 2); right(s, -1); right(s, j); right(s, bi); right(s, 0)
right(s || t, 4); trim(s); ltrim(s); rtrim(s); trim(s, 'ab'); ltrim(s, 'a '); rtrim(s, 'cß'); trim(s, t)
trim(s, ''); replace(s, 'a', 'xy'); replace(s, t, '-'); replace(s, '', 'x'); strpos(s, 'c'); strpos(s, t)
strpos(s, ''); starts_with(s, 'a'); starts_with(s, t); ends_with(s, 'c'); ends_with(t, s); contains(s, t)
contains(s, ''); lpad(s, 6, 'xy'); rpad(s, 6, 'xy'); lpad(s, j, '😀'); rpad(s, 2, t); lpad(s, 5, t)
repeat(s, 3); repeat(s, j); repeat(s, -1); s LIKE 'a%'; s LIKE 'a_c'; s LIKE '_b%'; s LIKE ''
s LIKE '%b\\c'; s LIKE p; s ILIKE 'A%'; s ILIKE 'zÜR%'; s ILIKE p; like_escape(s, 'a$%b$_c', '$')
like_escape(s, p, '$'); like_escape(s, '%!%', 'x'); s LIKE '!%'; like_escape(s, 'a$bc', '$')
ilike_escape(s, 'A$%b$_C', '$'); s NOT LIKE '%a%'; s LIKE '%%'; s LIKE t; s LIKE 'a.c'
like_escape(s, p, ''); ilike_escape(s, p, '$'); s LIKE 'it''s $x @1'; s LIKE NULL
""",
    "dates": """
da + 1; da + i; 1 + da; da - 1; da - i; da - db; ts - tt; tt - ts; ts + iv; iv + ts; ts - iv; tt + iw
da + iv; da - iv; tt - iw; ts + INTERVAL '1 month'; ts - INTERVAL '1 month 25 hours'
da + INTERVAL '1 year'; da - INTERVAL '13 months 3 days'; iv + iw; iv - iw; ts + (iv + iw); iv * 2; j * iv
iv * bi; year(da); month(da); day(da); quarter(da); dow(da); isodow(da); doy(da); week(da); hour(da)
minute(da); second(da); millisecond(da); microsecond(da); epoch(da); year(ts); month(ts); day(ts)
quarter(ts); dow(ts); isodow(ts); doy(ts); week(ts); hour(ts); minute(ts); second(ts); millisecond(tt)
microsecond(tt); epoch(tt); epoch(ts); year(iv); month(iv); day(iv); quarter(iv); hour(iv); minute(iv)
second(iv); millisecond(iv); microsecond(iv); epoch(iv); hour(tt); minute(tt); second(tt)
date_trunc('millennium', ts); date_trunc('century', ts); date_trunc('decade', da); date_trunc('year', ts)
date_trunc('quarter', ts); date_trunc('month', ts); date_trunc('week', da); date_trunc('day', ts)
date_trunc('hour', tt); date_trunc('minute', ts); date_trunc('second', tt); date_trunc('millisecond', tt)
date_trunc('microseconds', tt); date_trunc('year', iv); date_trunc('quarter', iv); date_trunc('month', iv)
date_trunc('week', iv); date_trunc('day', iv); date_trunc('hour', iv); date_trunc('second', iv)
time_bucket(INTERVAL '1 hour', tt); time_bucket(INTERVAL '7 minutes', ts); time_bucket(INTERVAL '5 days', da)
time_bucket(INTERVAL '5 months', ts); time_bucket(INTERVAL '1 month', da); time_bucket(INTERVAL '1 year', tt)
time_bucket(INTERVAL '3 days 5 hours', ts, TIMESTAMP '2001-02-03 04:05:06'); time_bucket(NULL, ts)
time_bucket(INTERVAL '3 months', da, DATE '1950-02-03'); time_bucket(INTERVAL '9 hours', da)
isoyear(da); yearweek(ts); era(da); decade(da); century(ts); millennium(da); decade(iv); century(iw)
millennium(iv); last_day(da); last_day(ts); dayname(da); monthname(ts)
date_trunc('decade', iw); date_trunc(NULL, ts); make_date(i, 1, 1); make_date(2000 + j, 2, 28)
make_date(2020, j, 3); to_years(j); to_months(j); to_quarters(j); to_weeks(j); to_days(i); to_hours(j)
to_decades(j); to_centuries(j); to_millennia(j)
to_minutes(i); to_seconds(d); to_milliseconds(bi); to_microseconds(bi); to_months(i); to_seconds(j + 0.5)
""",
    "casts": """
CAST(d AS TINYINT); CAST(d AS INTEGER); CAST(d AS BIGINT); CAST(d AS HUGEINT); CAST(d AS DECIMAL(15,2))
CAST(d AS DECIMAL(38,10)); CAST(d AS DECIMAL(18,18)); CAST(e AS DECIMAL(30,4)); CAST(r AS DECIMAL(9,3))
CAST(r AS INTEGER); CAST(d AS REAL); CAST(r AS DOUBLE); CAST(m AS INTEGER); CAST(m AS TINYINT)
CAST(m AS DECIMAL(5,1)); CAST(n AS DECIMAL(9,1)); CAST(x AS BIGINT); CAST(x AS HUGEINT)
CAST(x AS DECIMAL(20,2)); CAST(w AS INTEGER); CAST(bi AS INTEGER); CAST(h AS BIGINT)
CAST(i AS DECIMAL(12,3)); CAST(h AS DECIMAL(38,1)); CAST(i AS REAL); CAST(bi AS REAL); CAST(bi AS DOUBLE)
CAST(h AS DOUBLE); CAST(h AS REAL); CAST(m AS DOUBLE); CAST(m AS REAL); CAST(q AS DOUBLE); CAST(q AS REAL)
CAST(x AS DOUBLE); CAST(x AS REAL); CAST(w AS DOUBLE); CAST(f AS DOUBLE); CAST(f AS REAL)
CAST(i AS BOOLEAN); CAST(m AS BOOLEAN); CAST(d AS BOOLEAN); CAST(b AS INTEGER); CAST(b AS DECIMAL(3,1))
CAST(b AS DOUBLE); CAST(b AS VARCHAR); CAST(i AS VARCHAR); CAST(h AS VARCHAR); CAST(m AS VARCHAR)
CAST(f AS VARCHAR); CAST(x AS VARCHAR); CAST(d AS VARCHAR); CAST(r AS VARCHAR); CAST(da AS VARCHAR)
CAST(ts AS VARCHAR); CAST(tt AS VARCHAR); CAST(iv AS VARCHAR); CAST(iw AS VARCHAR); CAST(da AS TIMESTAMP)
CAST(ts AS DATE); CAST(tt AS DATE); CAST(num AS INTEGER); CAST(num AS HUGEINT); CAST(num AS DECIMAL(5,2))
CAST(num AS TINYINT); CAST(num AS DOUBLE); CAST(flo AS DOUBLE); CAST(flo AS REAL); CAST(num AS BOOLEAN)
CAST(day AS DATE); CAST(day AS TIMESTAMP); CAST('yes' AS BOOLEAN); CAST('1 day' AS INTERVAL)
CAST(s AS BOOLEAN); CAST(e AS VARCHAR); CAST(d * 3 AS VARCHAR); CAST(d / 7 AS VARCHAR)
CAST(d + e AS VARCHAR); CAST(m AS DECIMAL(38,20)); CAST(-x AS DOUBLE)
""",
}
NEAR = (
    "ln",
    "log10",
    "log2",
    "exp",
    "power",
    "sin",
    "cos",
    "tan",
    "cot",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "degrees",
    "radians",
)  # Java's differ from C's in the last bit


def lines(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";") if part.strip()]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    ours = own(spark)
    ours.conf.set("spark.sql.ansi.enabled", "true")
    columns: dict[str, Any] = {"id": pa.array(range(len(DATA)), pa.int32())}
    for name, type_ in TYPES.items():
        values = [row[name] for row in DATA]
        if type_ == ty.INTERVAL:
            fields = {"months": pa.int32(), "days": pa.int32(), "us": pa.int64()}
            parts = [v and dict(zip(fields, v, strict=True)) for v in values]
            columns[name] = pa.array(parts, pa.struct(list(fields.items())))
        else:
            columns[name] = Vector.from_pylist(values, type_).to_arrow().cast(ty.to_arrow(type_))
    schema = ", ".join(["id INT", *(f"{name} {spark_type(type_)}" for name, type_ in TYPES.items())])
    ours.createDataFrame(pa.table(columns), schema).createOrReplaceTempView("data")
    return ours


def physical(column: Any, type_: SqlType) -> list[Any]:
    if type_ == ty.INTERVAL:
        return [v and (v["months"], v["days"], v["us"]) for v in column.to_pylist()]
    return list(Vector.from_arrow(column, type_).to_pylist())


def reference(expr: Expr) -> tuple[list[Any], list[int]]:
    """The value of each row, and the rows that raise (or leave what Spark's DECIMAL(38,0) holds)."""
    values, bad = [], []
    for k, row in enumerate(DATA):
        try:
            value = evaluate(expr, row)
            if expr.type == ty.HUGEINT and value is not None and abs(value) >= 10**38:
                raise EverfreshError(Code.OVERFLOW, "38 digits")
        except EverfreshError:
            value = None
            bad.append(k)
        values.append(value)
    return values, bad


def same(got: Any, wanted: Any, near: bool) -> bool:
    if near and isinstance(wanted, float) and isinstance(got, float) and math.isfinite(wanted):
        return math.isclose(got, wanted, rel_tol=1e-14)
    return repr(got) == repr(wanted)


@pytest.mark.parametrize("group", GROUPS)
def test_expressions_are_those_of_the_reference_evaluator(session: Any, group: str) -> None:
    texts = lines(GROUPS[group])
    exprs = [parse(text, VARS, build.MAKERS) for text in texts]
    wanted = [reference(expr) for expr in exprs]
    parts = []
    for k, (expr, (_, bad)) in enumerate(zip(exprs, wanted, strict=True)):
        sql = expr_sql(expr)
        if expr.type == ty.INTERVAL:
            sql = f"CAST({sql} AS {spark_type(expr.type)})"
        parts.append(f"{f'CASE WHEN id NOT IN ({str(bad)[1:-1]}) THEN {sql} END' if bad else sql} AS e{k}")
    frame = session.sql(f"SELECT id, {', '.join(parts)} FROM data ORDER BY id")
    made = {field.name: field.dataType.simpleString() for field in frame.schema}
    declared = session.sql("SELECT " + ", ".join(
        f"CAST(NULL AS {spark_type(e.type)}) AS e{k}" for k, e in enumerate(exprs))).schema  # fmt: skip
    table = frame.toArrow()
    wrong = []
    for k, (text, expr, (values, bad)) in enumerate(zip(texts, exprs, wanted, strict=True)):
        if made[f"e{k}"] != declared[f"e{k}"].dataType.simpleString():
            wrong.append(f"{text}: type {made[f'e{k}']}, not {expr.type}")
        near = any(isinstance(n, Call) and n.op in NEAR for n in expr.walk())
        for row, got, value in zip(DATA, physical(table[f"e{k}"], expr.type), values, strict=True):
            if not same(got, value, near):
                used = {v.name: row[v.name] for v in expr.walk() if isinstance(v, Var)}
                wrong.append(f"{text}: {got!r}, not {value!r}, where {used}")
        assert len(bad) < len(DATA), f"{text} raises on every row"
    assert not wrong, "\n".join(wrong[:60])


MAPS_ONLY = {"variance_of", "moment_of", "product_rest"}
"""Functions that stand in maps and in what is read off them, never in a plan: Spark SQL has none."""


def test_every_function_has_a_row_and_is_tried() -> None:
    assert set(SQL) == set(FUNCTIONS) - MAPS_ONLY - IN_PROGRAMS_ONLY
    assert set(FUNCTIONS) >= IN_PROGRAMS_ONLY
    used = {n.op for text in GROUPS.values() for line in lines(text)
            for n in parse(line, VARS, build.MAKERS).walk() if isinstance(n, Call)}  # fmt: skip
    assert used == set(FUNCTIONS) - MAPS_ONLY - IN_PROGRAMS_ONLY


REFUSED = {
    "VARCHAR column to INTERVAL": Cast(VARS["s"], ty.INTERVAL),
    "date_trunc": Call("date_trunc", (VARS["s"], VARS["ts"])),
    "round of a DECIMAL": Call("round", (VARS["m"], VARS["i"])),
    "trunc of a DECIMAL": Call("trunc", (VARS["m"], VARS["i"])),
    "38 digits": Const(10**38, ty.HUGEINT),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_said_is_refused_by_name(what: str) -> None:
    with pytest.raises(EverfreshError, match=what) as caught:
        expr_sql(REFUSED[what])
    assert caught.value.code == Code.UNSUPPORTED


RAISING = {  # an expression, and the row on which it raises
    "ti * ti": {"ti": 100}, "bi - j": {"bi": -(2**63), "j": 1}, "h * h": {"h": 10**20},
    "m * m": {"m": 10**14}, "x + x": {"x": 10**38 - 1}, "i // j": {"i": 1, "j": 0},
    "i % j": {"i": -(2**31), "j": -1},
    "d // e": {"d": 1.0, "e": 0.0}, "da + i": {"da": 2**31 - 1, "i": 1},
    "iv * bi": {"iv": (2, 0, 0), "bi": 2**30},
    "CAST(d AS INTEGER)": {"d": math.nan}, "CAST(d AS BIGINT)": {"d": 2.0**63},
    "CAST(d AS REAL)": {"d": 1e40},
    "CAST(m AS DECIMAL(4,1))": {"m": 99995}, "CAST(s AS INTEGER)": {"s": "1__0"},
    "CAST(s AS TIMESTAMP)": {"s": "2020-01-31 24:00:01"}, "make_date(i, j, 1)": {"i": 2020, "j": 13},
    "lpad(s, i, '')": {"s": "a", "i": 2}, "like_escape(s, p, '$')": {"s": "a", "p": "a$"},
    "date_trunc('foo', ts)": {"ts": 0}, "to_seconds(d)": {"d": 1e13},
}  # fmt: skip


@pytest.mark.parametrize("text", RAISING)
def test_what_raises_in_the_reference_raises_in_spark(session: Any, text: str) -> None:
    row = RAISING[text]
    expr = parse(text, VARS, build.MAKERS)
    with pytest.raises(EverfreshError) as wanted:
        evaluate(expr, row)
    columns = ", ".join(f"{expr_sql(Const(v, TYPES[n]))} AS {n}" for n, v in row.items())
    with pytest.raises((EverfreshError, PySparkException)) as caught, translated():
        session.sql(f"SELECT {expr_sql(expr)} AS x FROM (SELECT {columns})").collect()
    if isinstance(caught.value, EverfreshError):
        assert caught.value.code == wanted.value.code
    else:
        assert "DATETIME_FIELD_OUT_OF_BOUNDS" in caught.value.getCondition()


# -- plans -------------------------------------------------------------------------------------------------


T = TableSchema("t", tuple(Column(name, type_) for name, type_ in {
    "k": ty.INTEGER, "b": ty.BOOLEAN, "ti": ty.TINYINT, "bi": ty.BIGINT, "h": ty.HUGEINT,
    "m": ty.DECIMAL(15, 2), "w": ty.DECIMAL(38, 10), "r": ty.REAL, "d": ty.DOUBLE, "z": ty.DOUBLE,
    "s": ty.VARCHAR, "da": ty.DATE, "ts": ty.TIMESTAMP, "My Col": ty.INTEGER, "MixEd": ty.INTEGER,
}.items()))  # fmt: skip
EMPTY = TableSchema("empty", T.columns)


def _rows(count: int = 60) -> list[tuple[Any, ...]]:
    chance = random.Random(3)
    choices: list[list[Any]] = [
        [1, 2, 3, 4], [True, False], [1, -1, 127], [10**18, -5, 7, 2**62], [10**30, -1, 3],
        [Decimal("1.25"), Decimal("-3.50"), Decimal("9999999999999.99"), Decimal("0.01")],
        [Decimal("12345678901234567890123456.0123456789"), Decimal("-0.0000000001")],
        [1.5, -0.25, math.nan, math.inf], [2.5, 0.0, 1e10, -7.5, 0.1],
        [math.nan, math.inf, -math.inf, 0.0, 1.0], ["apple", "Banana", "a%b", "", "ä"],
        [dt.date(2020, 1, 31), dt.date(1999, 12, 31), dt.date(2024, 2, 29)],
        [dt.datetime(2020, 1, 31, 12, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 5)], [1, 2], [7, 8, 9],
    ]  # fmt: skip
    return [tuple(None if chance.random() < 0.2 else chance.choice(c) for c in choices) for _ in range(count)]


ROWS = _rows()
QUERIES = """
SELECT * FROM t
SELECT k, m * 2 AS x, s || '!' AS y FROM t WHERE k > 1 AND b
SELECT "My Col" + 1 AS "a b", mixed FROM t WHERE s LIKE 'a%' OR s IS NULL
SELECT count(*) FROM t
SELECT count(*), count(k), sum(k), sum(bi), sum(h), sum(m), sum(w), sum(b), avg(m), avg(bi), avg(d) FROM t
SELECT k, count(*) AS n, sum(m) AS total, avg(w), avg(k), sum(d) FROM t GROUP BY k
SELECT s, b, count(*), count(d) FROM t GROUP BY s, b
SELECT z, count(*) FROM t GROUP BY z
SELECT d * -1 AS neg, count(*) FROM t GROUP BY neg
SELECT r, sum(r), avg(r) FROM t GROUP BY r
SELECT z, sum(z), avg(z), count(*) FROM t WHERE k = 2 GROUP BY z
SELECT sum(z), avg(z) FROM t
SELECT sum(m) FILTER (WHERE b), count(*) FILTER (WHERE k > 2), count(s) FILTER (WHERE NOT b) FROM t
SELECT k, sum(bi) FILTER (WHERE s = 'apple') FROM t GROUP BY k
SELECT sum(CASE WHEN k <> 2 THEN 100 // (k - 2) END) FROM t
SELECT sum(m), count(*), avg(d), sum(bi) FROM empty
SELECT k, sum(m) FROM empty GROUP BY k
SELECT count(*) + 1, sum(m) / count(*) FROM empty
SELECT k, sum(m) AS x FROM t GROUP BY k HAVING count(*) > 10 AND sum(m) IS NOT NULL
SELECT DISTINCT k, b FROM t
SELECT DISTINCT z FROM t
SELECT DISTINCT d * 0 AS zero FROM t
SELECT k, s FROM t ORDER BY k DESC, s NULLS FIRST, m, da, d, bi LIMIT 10
SELECT z FROM t ORDER BY z
SELECT z FROM t ORDER BY z DESC NULLS LAST
SELECT s FROM t ORDER BY length(s) DESC NULLS LAST, s
SELECT m FROM t ORDER BY m LIMIT 5 OFFSET 3
SELECT m FROM t ORDER BY m OFFSET 50
SELECT k, sum(m) AS total FROM t GROUP BY k ORDER BY total DESC NULLS LAST LIMIT 2
SELECT k FROM t ORDER BY k LIMIT 0
SELECT 1 AS one, 'a' AS s, NULL AS n, 2.5 AS dec, DATE '2020-02-29' + INTERVAL '1 year' AS d
SELECT year(da), count(*) FROM t GROUP BY year(da)
SELECT date_trunc('month', ts) AS mo, sum(m) FROM t GROUP BY mo
SELECT CASE WHEN k > 2 THEN 'big' ELSE s END AS c, avg(m) FROM t GROUP BY c
SELECT da + INTERVAL '1 month' AS x, da - DATE '2000-01-01' AS y, ts::DATE AS z FROM t
SELECT m / 0, k // 2, k % 3, m / k, m * 10, -m, abs(m), round(m, 1) FROM t
SELECT d::VARCHAR AS a, m::VARCHAR AS b, ts::VARCHAR AS c, z::VARCHAR AS e, w::VARCHAR AS f, -w AS g FROM t
SELECT upper(s), length(s), substring(s, 2, 2), s ILIKE 'A%', greatest(k, "My Col"), coalesce(k, 0) FROM t
SELECT sum(m * (1 - m / 10)) FROM t
SELECT w + w, w * 2, w - m, w % 7 FROM t
SELECT b AND k > 1, b OR NULL, k IN (1, NULL), k BETWEEN 2 AND 3, s IS DISTINCT FROM 'apple' FROM t
SELECT count(*) FROM t GROUP BY ()
SELECT count(*) FROM t GROUP BY k ORDER BY k NULLS FIRST
"""


class Tables:
    """The catalog protocol over the two tables."""

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        found = self.table(name)
        return None if found is None else ("table", found.columns)

    def table(self, name: str) -> TableSchema | None:
        return {"t": T, "empty": EMPTY}.get(name.lower())

    def names(self) -> list[str]:
        return ["t", "empty"]

    @property
    def types(self) -> dict[str, Any]:
        return {}

    @property
    def plain(self) -> dict[str, Any]:
        return {}


@pytest.fixture(scope="module")
def duck() -> Any:
    con = duckdb.connect()
    con.execute("SET threads=1")
    con.execute("SET error_on_division_by_zero=true")
    for schema in (T, EMPTY):
        con.execute(schema.ddl)
    con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(T.columns))})", ROWS)
    return con


@pytest.fixture(scope="module")
def views(session: Any) -> Any:
    declared = ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in T.columns)
    for name, rows in (("t", ROWS), ("empty", [])):
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(T.arrow)]
        table = pa.table(columns, schema=T.arrow)
        session.createDataFrame(table, declared).createOrReplaceTempView(f"view_of_{name}")
    return lambda name: f"view_of_{name}"


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [repr(round(v, 6) if isinstance(v, float) else v) for v in row])


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b) or math.isclose(a, b, rel_tol=1e-12)
    return repr(a) == repr(b)


@pytest.mark.parametrize("sql", QUERIES.strip().splitlines())
def test_plans_are_those_of_duckdb(session: Any, duck: Any, views: Any, sql: str) -> None:
    (statement,) = parse_and_bind(sql, Tables())
    plan = statement.plan
    wanted = duck.execute(sql).fetchall()
    frame = session.sql(plan_sql(plan, views))
    assert frame.columns == [c.name for c in plan.columns] == [d[0] for d in duck.description]
    got, wanted = (
        [tuple(ty.to_physical(v, c.type) for v, c in zip(row, plan.columns, strict=True)) for row in rows]
        for rows in (frame.collect(), wanted)
    )
    if "ORDER BY" not in sql:
        got, wanted = ordered(got), ordered(wanted)
    assert len(got) == len(wanted)
    assert [(a, b) for a, b in zip(got, wanted, strict=True) if not all(map(close, a, b))] == []
