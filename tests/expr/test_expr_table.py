"""A table of expressions: type, value and error are DuckDB's.

Each line is SQL that DuckDB and everfresh's own parser read alike; everfresh builds it with its implicit
casts.
"""

from __future__ import annotations

import duckdb
import expr_oracle as oracle
import pytest

from everfresh.errors import EverfreshError
from everfresh.expr import Vector, build, evaluate, evaluate_vector, parse

ROW = {
    "b": True,
    "c": False,
    "ti": 1,
    "si": 2,
    "i": 3,
    "j": -7,
    "bi": 4,
    "h": 5,
    "m": 625,
    "n": 7125,
    "w": 85000,
    "r": 1.5,
    "d": 2.5,
    "e": -0.75,
    "s": "abc",
    "t": "Zürich%",
    "da": 18292,
    "db": 19782,
    "ts": 1582979696789000,
    "iv": (1, 2, 3_600_000_000),
}

EXPRESSIONS = """
m * m; m + m; m - m; m + bi; m + i; m + ti; m + h; m * bi; m * h; 1 - m; m * 1; m * 10; m + 100
m + 12345678901; m * 1.5; 1.00 - m; m + 1.5; n + 1; n * 1; n + bi; n * n; n + m; m * n; w * w; w + w; w * m
m * m * m; w + m; 1.5 + 1.5; 1.5 * 1.5; i + 1.5; si + 1.5; 1 + 1.5; i * 1.5; bi * 1.5; h * 1.5; 0.1 * m
1::DECIMAL(15,9) * 1::DECIMAL(15,9); 1::DECIMAL(15,9) * 1::DECIMAL(15,8); 1::DECIMAL(18,0) * 1::DECIMAL(18,0)
1::DECIMAL(18,2) + 1::DECIMAL(18,2); 1::DECIMAL(20,18) + 1::DECIMAL(18,0); 1::DECIMAL(38,30) + 1::BIGINT
1::DECIMAL(38,20) * 1::DECIMAL(38,19); 9999999999999.99::DECIMAL(15,2) * 9999999999999.99::DECIMAL(15,2)
si + 1; si + 100000; ti + 1; ti + 200; 1 + 1; i + 3000000000; i + 1; bi + 1; h + 1; ti + ti; si * si; i + bi
si + -1; si - (-1); si + (1 + 1); si + coalesce(1, 2); si + (-40000); ti * (-5); si + CAST(1 AS INTEGER)
i / i; m / m; r / r; r / i; r / m; r / d; i // i; m // m; r // r; d // 2; i // 2.5; i // 0; i % 0; m % 0
d % 0; d // 0; d / 0; 0e0 / 0; i / 0; -i / 0; j // 2; j % 2; -7.5 % 2; 7.5 % (-2); e % 2; i % 2; m % 2; m % m
m % i; d % 2; n % m; m % bi; w % m; si // 1; si % 1; si % 100000; i // '2'; i * '2'; i - '2'; m % '2'; d / '2'
i + '1'; s + 1; b + 1; b + b; 2147483647 + 1; 2147483647::INTEGER + i; 9223372036854775807 + bi
127::TINYINT + ti; h * 170141183460469231731687303715884105727; (-2147483648)::INTEGER // j
(i - 2147483647 - 4) // (-1); (i - 2147483647 - 4) % (-1); ti - 129; 100::TINYINT * ti * 2::TINYINT; r + r
r + 1; r + 1.5; r + d; r + m; d + m; r * i; r * 0.1; r * r * 1e38; 1e308 * 10; -m; -i; -d; -s; -iv; -da
da + 1; 1 + da; da + bi; da + si; da - 1; da - db; db - da; ts - ts; da - ts; ts - da; da + iv; iv + da
ts + iv; da - iv; ts - iv; iv + iv; iv - iv; iv * 2; 2 * iv; iv * bi; iv * 3000000000; ts + 1; 1 - da; da * 2
iv * iv; da + 2147483647; DATE '2020-01-31' + INTERVAL '1 month'; DATE '2020-03-31' - INTERVAL '1 month'
DATE '2024-02-29' + INTERVAL '1 year'; TIMESTAMP '2020-03-31 10:00:00' - INTERVAL '1 month 25 hours'
ts + INTERVAL '300000 years'; INTERVAL '1.5 hours' + iv
TIMESTAMP '2019-01-01' - TIMESTAMP '2020-01-01 12:00:00'
INTERVAL '2000000000 months' + INTERVAL '2000000000 months'; b = 1; b = i; b = 1.5; b = d; i = s; i = '3'
i = 'x'; i = 3.0; da = '2020-01-31'; ts = '2020-02-29 12:34:56.789'; da = ts; da < ts; da = i; da < i; s = da
s = 'abc'; d = m; b = 'true'; s = 1; s < 1; i < s; d < s; s <> i; '5' < i; 1 = '1'; i IS DISTINCT FROM NULL
i IS NOT DISTINCT FROM 3; s IS DISTINCT FROM 1; iv = INTERVAL '32 days 1 hour'; iv < INTERVAL '33 days'
m = '6.255'; bi = 4e0; 9007199254740993 = 9007199254740992e0; 'nan'::DOUBLE = 'nan'::DOUBLE
'nan'::DOUBLE > 'inf'::DOUBLE; i + NULL; NULL = 1; NULL AND b; i AND b; 'true' AND b; NOT i; NOT c; b OR NULL
c AND NULL; NULL + 1; NULL / 2; -NULL; s IN (1, 2); i IN (1, 3); i IN ('1', '3'); i IN (1, 2.5)
si IN (1, 100000); s IN ('a', NULL); i IN (NULL); NULL IN (1, 2); m IN (1, 6.25); da IN ('2020-01-31')
b IN (1, 0); i NOT IN (1, NULL); i NOT IN (1, 2); floor(m); ceil(m); trunc(m); round(m); round(m, 1)
round(m, 3); round(m, -1); round(w, 2); round(-2.5); round(1.5); round(d); round(d, 1); round(d, i); round(i)
round(i, 1); round(i, -1); round(r, 1); round(r); round(h); round(d, 400); round(2.675e0, 2); round(-2.5e0)
round(2.5e0); round(2147483647::INTEGER, -1); round(127::TINYINT, -1); round(9.99, -1); round(2147483647, -9)
round(2147483647, -10); round(m, i); round(m, -20); round(d, -20); round(d, bi); round(95::DECIMAL(2,0), -1)
trunc(m, 1); trunc(m, -1); trunc(d, 1); trunc(d, -1); trunc(i, -1); trunc(-127, -1); trunc(-2.675e0, 2)
trunc(r, 1); trunc(m, 5); floor(i); floor(d); floor(r); ceil(n); ceil(-0.5); ceil(bi); trunc(i); trunc(e)
floor(e); ceil(e); floor(-2.5); ceil(-2.5); trunc(-2.5); abs(m); abs(j); abs(ti - 129::SMALLINT); abs(r)
abs(e); abs(s); abs(b); sign(m); sign(j); sign(e); sign('nan'::DOUBLE); sqrt(i); sqrt(m); sqrt(-1); sqrt('4')
sqrt(s); ln(d); ln(0); ln(-1); log10(d); log2(d); exp(i); exp(1000); power(i, 2); power(m, 2); power(2, d)
power(0, -1); power(-1, 0.5); power(1e300, 2); pow(2, 3); power(-10, 309); floor(NULL); sqrt(NULL); abs(NULL)
round(NULL); greatest(i, m); greatest(i, NULL); least(i, 1.5); greatest(s, 'x', NULL); least(da, ts)
least(iv, INTERVAL '1 day'); greatest(s, 1); greatest(s, da); greatest(d, 'nan'::DOUBLE); least(NULL, d, e)
coalesce(i, m); coalesce(i, 1); coalesce(si, 1); coalesce(si, 100000); coalesce(m, 1); coalesce(m, 1.555)
coalesce(s, 1); coalesce(i, '1'); coalesce(b, 1); coalesce(b, si); coalesce(b, d); coalesce(da, '2020-01-01')
coalesce(ts, da); coalesce(1::DECIMAL(5,2), 1); coalesce(NULL, i); CASE WHEN b THEN si ELSE 1 END
CASE WHEN b THEN m ELSE 0 END; CASE WHEN c THEN m ELSE 0.005 END; CASE WHEN i THEN 1 END
CASE WHEN b THEN s ELSE 1 END; CASE WHEN b THEN NULL ELSE 1 END; CASE WHEN c THEN s ELSE da END; nullif(m, 0)
nullif(si, 2); nullif(i, '3'); nullif(i, 2.5); nullif(s, 1); if(c, 1, 2.5); ifnull(NULL, i)
CASE WHEN i <> 3 THEN i // 0 ELSE i END; length(s); length(t); length(i); upper(t); lower(t)
upper('straße ᾳ ǆ'); lower('ÀÉİΣ'); upper(1); s || i; 'a' || 1; i || i; s || b || d || m || da || iv || ts
s || NULL; concat(s, 1, NULL); concat(NULL, NULL); concat(1.50, r, e, h, w); substring('abcdef', 0, 2)
substring('abcdef', 0); substring('abcdef', -2); substring('abcdef', -2, 1); substring('abcdef', -10, 8)
substring('abcdef', -10, 2); substring('abcdef', 2, -1); substring('abcdef', 3, -2)
substring('abcdef', -2, -2); substring('abcdef', 0, -2); substring('abcdef', 10, -5); substring(t, 2, 1)
substring(s, bi); substring(i, 1, 2); substring(s, 1.5, 2); left(s, 2); left(s, -1); left(s, -10); right(s, 2)
right(s, -1); right(s, 10); right(s, 0); left('abc', '2'); trim('  a b '); ltrim('  a '); rtrim('  a ')
trim('xyaxy', 'xy'); trim(s, ''); ltrim('xxa', 'x'); replace('aaa', 'a', 'b'); replace(s, '', 'x')
strpos(t, 'rich'); strpos(s, ''); strpos(s, 'q'); instr(s, 'c'); strpos(s, 1); starts_with(s, 'ab')
ends_with(s, 'bc'); contains(s, 'b'); contains(s, NULL); prefix(s, 'b'); lpad(s, 6, 'xy'); rpad(s, 6, 'xy')
lpad(s, 2, 'x'); lpad(s, -1, 'x'); lpad(s, 5, ''); lpad(s, bi, 'x'); reverse(t); reverse(s); repeat(s, 3)
repeat(s, -1); repeat(s, 100000000000); s LIKE 'a%'; s LIKE 'a_c'; s LIKE ''; t LIKE 'Z_rich%'
s NOT LIKE 'b%'; s ILIKE 'A%'; t ILIKE 'zÜ%'; i LIKE '3'; s LIKE NULL; like_escape(t, '%h$%', '$')
like_escape(s, 'abc$$', '$'); like_escape(s, 'ab$', '$'); s LIKE '%b%c'; like_escape(s, 'abc', 'xy')
like_escape(s, 'a$bc', '$'); s LIKE 'a.c'; 'a.c' LIKE 'a.c'; date_part('year', da); date_part('month', ts)
date_part('day', da); date_part('quarter', da); date_part('dow', db); date_part('isodow', db)
date_part('doy', db); date_part('week', da); date_part('week', DATE '2021-01-03'); date_part('hour', ts)
date_part('minute', ts); date_part('second', ts); date_part('epoch', ts); date_part('epoch', da)
date_part('epoch', iv); date_part('hour', da); date_part('year', INTERVAL '-13 months')
date_part('month', INTERVAL '-13 months'); date_part('quarter', INTERVAL '-13 months')
date_part('minute', INTERVAL '-100 minutes'); date_part('day', iv); date_part('millisecond', ts)
date_part('microsecond', ts); date_part('foo', da); date_part('years', da); year(s); year(iv); year(da)
month(da); day(ts); dayofweek(da); dayofyear(da); week(ts); epoch(TIMESTAMP '1969-12-31 23:59:58.5')
date_part('second', TIMESTAMP '1969-12-31 23:59:58.5'); year(DATE '0001-01-01' - 1)
date_part('epoch', INTERVAL '13 months'); date_trunc('month', da); date_trunc('month', ts)
date_trunc('quarter', ts); date_trunc('week', da); date_trunc('hour', ts); date_trunc('year', db)
date_trunc('millisecond', ts); date_trunc('decade', ts); date_trunc('century', ts); date_trunc('foo', ts)
date_trunc('week', TIMESTAMP '1969-12-31 23:59:58.5'); date_trunc('month', iv); date_trunc('hour', iv)
date_trunc('quarter', INTERVAL '25 months 3 days'); date_trunc('year', INTERVAL '-25 months 3 days')
date_trunc('day', s); make_date(2020, 1, 2); make_date(i, i, i); make_date(2020, 13, 2)
make_date(2020, 2, 30); make_date(-5, 1, 1); make_date(2020, 1, NULL); to_years(1); to_months(i)
to_months(bi); to_days(1); to_hours(-25); to_minutes(1); to_seconds(1.5); to_seconds(i); to_weeks(1)
to_months(3000000000); to_hours(9223372036854775807); to_days(1.5); to_seconds(NULL)
time_bucket(INTERVAL '1 hour', ts); time_bucket(INTERVAL '7 minutes', ts); time_bucket(INTERVAL '7 days', da)
time_bucket(INTERVAL '5 months', ts); time_bucket(INTERVAL '1 year', db); time_bucket(INTERVAL '0 days', ts)
time_bucket(INTERVAL '1 month 1 day', ts); time_bucket(INTERVAL '-1 days', ts); time_bucket(iv, ts)
time_bucket(INTERVAL '3 days', TIMESTAMP '1969-12-31 23:59:58.5', TIMESTAMP '2001-02-03 04:05:06')
time_bucket(INTERVAL '3 months', da, DATE '1950-02-03'); time_bucket(NULL, ts)
"""

CASTS = """
CAST(2.5 AS INTEGER); CAST(-2.5 AS INTEGER); CAST(2.5e0 AS INTEGER); CAST(3.5e0 AS INTEGER)
CAST(r AS INTEGER); CAST(1e10 AS INTEGER); CAST('nan'::DOUBLE AS INTEGER); CAST(1e10 AS BIGINT)
CAST(9.3e18 AS BIGINT); CAST(1e38 AS HUGEINT); CAST(300 AS TINYINT); CAST('12' AS INTEGER)
CAST(' 12 ' AS INTEGER); CAST('12.5' AS INTEGER); CAST('-12.5' AS INTEGER); CAST('1e3' AS INTEGER)
CAST('1e-1' AS INTEGER); CAST('1_000' AS INTEGER); CAST('0x1F' AS INTEGER); CAST('' AS INTEGER)
CAST('+5' AS INTEGER); CAST('99999999999' AS INTEGER); CAST('12a' AS INTEGER); CAST('.5' AS INTEGER)
CAST('5.' AS INTEGER); CAST('.' AS INTEGER); CAST('1__0' AS INTEGER); CAST('1e5' AS TINYINT)
CAST('1.25e1' AS INTEGER); CAST('true' AS INTEGER); CAST(s AS INTEGER); CAST('1.5' AS DOUBLE)
CAST('inf' AS DOUBLE); CAST('-Infinity' AS DOUBLE); CAST('NaN' AS DOUBLE); CAST('1e400' AS DOUBLE)
CAST(' 1.5 ' AS DOUBLE); CAST('1_0.5' AS DOUBLE); CAST('abc' AS DOUBLE); CAST('.' AS DOUBLE)
CAST('1d' AS DOUBLE); CAST('1.5' AS REAL); CAST(1e40 AS REAL); CAST(0.1::REAL AS DOUBLE)
CAST(16777217 AS REAL); CAST(9007199254740993 AS DOUBLE); CAST('1.255' AS DECIMAL(5,2))
CAST('-1.255' AS DECIMAL(5,2)); CAST('1234.5' AS DECIMAL(5,2)); CAST('999.999' AS DECIMAL(5,2))
CAST('1.5e1' AS DECIMAL(5,2)); CAST('1.5e-1' AS DECIMAL(5,2)); CAST('.5' AS DECIMAL(5,2))
CAST('.' AS DECIMAL(5,2)); CAST(1.255 AS DECIMAL(5,2)); CAST(-1.255 AS DECIMAL(5,2))
CAST(1.255e0 AS DECIMAL(5,2)); CAST(0.125e0 AS DECIMAL(5,2)); CAST(-0.125e0 AS DECIMAL(5,2))
CAST(999.995e0 AS DECIMAL(5,2)); CAST('inf'::DOUBLE AS DECIMAL(5,2)); CAST(0.1::REAL AS DECIMAL(9,8))
CAST(0.1e0 AS DECIMAL(30,25)); CAST(1000 AS DECIMAL(5,2)); CAST(999 AS DECIMAL(5,2))
CAST(999.95 AS DECIMAL(4,1)); CAST(m AS REAL); CAST(12345678901234567.89::DECIMAL(20,2) AS DOUBLE)
CAST(123456789012345678.123456789012345678::DECIMAL(38,18) AS DOUBLE)
CAST(-90071992547409.93::DECIMAL(18,2) AS DOUBLE); CAST(-90071992547409931.3::DECIMAL(18,1) AS DOUBLE)
CAST(n AS DECIMAL(6,1)); CAST(m AS BOOLEAN); CAST(0.0 AS BOOLEAN); CAST('nan'::DOUBLE AS BOOLEAN)
CAST('yes' AS BOOLEAN); CAST('T' AS BOOLEAN); CAST(' true ' AS BOOLEAN); CAST('on' AS BOOLEAN)
CAST('' AS BOOLEAN); CAST(b AS INTEGER); CAST(b AS DECIMAL(3,1)); CAST(b AS DOUBLE); CAST(b AS VARCHAR)
CAST(1.50 AS VARCHAR); CAST(-0.05 AS VARCHAR); CAST(0.5::DECIMAL(2,2) AS VARCHAR); CAST(1e0 AS VARCHAR)
CAST(1e15 AS VARCHAR); CAST(1e16 AS VARCHAR); CAST(1e-4 AS VARCHAR); CAST(1.5e-5 AS VARCHAR)
CAST(1.5e300 AS VARCHAR); CAST('-inf'::DOUBLE AS VARCHAR); CAST('nan'::DOUBLE AS VARCHAR)
CAST(0.1::REAL AS VARCHAR); CAST(16777216::REAL AS VARCHAR); CAST(1e16::REAL AS VARCHAR); CAST(h AS VARCHAR)
CAST(w AS VARCHAR); CAST(e AS VARCHAR); CAST(j AS VARCHAR); CAST(da AS VARCHAR); CAST(ts AS VARCHAR)
CAST(DATE '12020-01-01' AS VARCHAR); CAST(DATE '0001-01-01' - 1 AS VARCHAR)
CAST(TIMESTAMP '0001-01-01' - INTERVAL '1 day' AS VARCHAR)
CAST(TIMESTAMP '2020-01-01 01:02:03.000001' AS VARCHAR); CAST(iv AS VARCHAR)
CAST(INTERVAL '0 day' AS VARCHAR); CAST(INTERVAL '13 months -1 day 25 hours' AS VARCHAR)
CAST(INTERVAL '-1.5 seconds' AS VARCHAR); CAST(INTERVAL '-25 months' AS VARCHAR); CAST(da AS TIMESTAMP)
CAST(ts AS DATE); CAST(TIMESTAMP '1969-12-31 23:59:59' AS DATE); CAST('2020-01-31' AS DATE)
CAST('2020-1-3' AS DATE); CAST('2020/01/31' AS DATE); CAST(' 2020-01-31 ' AS DATE); CAST('2020-02-30' AS DATE)
CAST('2020-01-31 10:00:00' AS DATE); CAST('20200131' AS DATE); CAST('2020-01-31abc' AS DATE)
CAST('2020-01/31' AS DATE); CAST('0044-03-15 (BC)' AS DATE); CAST('10000-01-01' AS DATE)
CAST('epoch' AS DATE); CAST('2020-01-31 10:11:12' AS TIMESTAMP); CAST('2020-01-31T10:11:12Z' AS TIMESTAMP)
CAST('2020-01-31 10:11:12.1234567' AS TIMESTAMP); CAST('2020-01-31 10:11' AS TIMESTAMP)
CAST('2020-01-31 10' AS TIMESTAMP); CAST('2020-01-31 10:11:12+02:30' AS TIMESTAMP)
CAST('2020-01-31 24:00:00' AS TIMESTAMP); CAST('2020-01-31 25:00:00' AS TIMESTAMP)
CAST('2020-01-31 10:60:00' AS TIMESTAMP); CAST('2020-01-31' AS TIMESTAMP); CAST('1 day' AS INTERVAL)
CAST('01:02:03' AS INTERVAL); CAST('1 year 2 months' AS INTERVAL); CAST('1.5 days' AS INTERVAL)
CAST('1.5 months' AS INTERVAL); CAST('-01:02:03' AS INTERVAL); CAST('1y 2mon 3d 4h 5m 6s' AS INTERVAL)
CAST('abc' AS INTERVAL); CAST('1 dayz' AS INTERVAL); CAST('1 day ago' AS INTERVAL); CAST(1 AS DATE)
CAST(da AS INTEGER); CAST(iv AS INTEGER); CAST(b AS DATE); CAST(d AS TIMESTAMP); CAST(i AS INTERVAL)
"""


def lines(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";") if part.strip()]


COLUMNS = {name: Vector.from_pylist([value], oracle.TYPES[name]) for name, value in ROW.items()}


@pytest.fixture(scope="module", autouse=True)
def one_row() -> None:
    oracle.load(COLUMNS)


@pytest.mark.parametrize("sql", lines(EXPRESSIONS) + lines(CASTS))
def test_type_value_and_error_are_those_of_duckdb(sql: str) -> None:
    wanted: object
    try:
        wanted = oracle.ask(sql)
    except duckdb.Error as error:
        wanted = oracle.cause(error)
    got: object
    try:
        expr = parse(sql, oracle.VARS, build.MAKERS)
        value = evaluate(expr, ROW)
        assert repr(evaluate_vector(expr, COLUMNS, 1).to_pylist()) == repr([value])
        got = (expr.type, [value])
    except EverfreshError as error:
        got = error.code
    if isinstance(wanted, tuple) and wanted[0] is None:  # DuckDB leaves some NULLs without a type
        assert isinstance(got, tuple)
        assert got[1] == [None]
    else:
        assert repr(got) == repr(wanted)
