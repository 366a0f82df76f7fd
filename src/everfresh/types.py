"""SQL types: their names, their Arrow form, and how DuckDB combines them.

A value has two forms. The *logical* form is what a user sees (`Decimal`, `datetime.date`, ...). The
*physical* form is what everfresh computes with, in the reference evaluator and in compiled code alike:

| type | physical |
|---|---|
| BOOLEAN | bool |
| TINYINT .. HUGEINT | int |
| DECIMAL(p, s) | int: the value times 10**s |
| REAL, DOUBLE | float (NaN is one value, -0.0 is 0.0) |
| VARCHAR | str |
| DATE | int: days since 1970-01-01 |
| TIMESTAMP | int: microseconds since 1970-01-01 |
| INTERVAL | (months, days, microseconds) |

NULL is `None` in every type. Invariant: `to_physical` and `to_logical` are inverse on the values of a type.
"""

from __future__ import annotations

import datetime as dt
import decimal
import string
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_TS = dt.datetime(1970, 1, 1)
_US = dt.timedelta(microseconds=1)
NAN = float(
    "nan"
)  # the one NaN object: tuples that hold it compare equal, since Python compares by identity first


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL type; `precision` and `scale` only for DECIMAL.

    >>> print(DECIMAL(15, 2), BIGINT)
    DECIMAL(15,2) BIGINT
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_integer(self) -> bool:
        """TINYINT, SMALLINT, INTEGER, BIGINT or HUGEINT."""
        return self.name in INTEGER_BITS

    @property
    def is_float(self) -> bool:
        """REAL or DOUBLE."""
        return self.name in ("REAL", "DOUBLE")

    @property
    def is_numeric(self) -> bool:
        """An integer, a DECIMAL or a float."""
        return self.is_integer or self.is_float or self.name == "DECIMAL"

    @property
    def is_exact(self) -> bool:
        """Whether the physical form is an integer that adds exactly."""
        return self.is_integer or self.name == "DECIMAL"

    @property
    def is_wide(self) -> bool:
        """Whether the physical integer may need more than 64 bits."""
        return self.name == "HUGEINT" or (self.name == "DECIMAL" and self.precision > 18)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest physical integer of an exact type."""
        if self.name == "DECIMAL":
            limit = 10**self.precision - 1
            return -limit, limit
        bits = INTEGER_BITS[self.name]
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
_NUMERIC_ORDER = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "REAL", "DOUBLE"]

BOOLEAN = SqlType("BOOLEAN")
TINYINT = SqlType("TINYINT")
SMALLINT = SqlType("SMALLINT")
INTEGER = SqlType("INTEGER")
BIGINT = SqlType("BIGINT")
HUGEINT = SqlType("HUGEINT")
REAL = SqlType("REAL")
DOUBLE = SqlType("DOUBLE")
VARCHAR = SqlType("VARCHAR")
DATE = SqlType("DATE")
TIMESTAMP = SqlType("TIMESTAMP")
INTERVAL = SqlType("INTERVAL")
NULL = SqlType("NULL")  # the type of a bare NULL, before it is cast to what stands beside it

MAX_DIGITS = 38
INT64_DIGITS = 18


def DECIMAL(precision: int, scale: int = 0) -> SqlType:
    """The type DECIMAL(precision, scale)."""
    if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
        raise EverfreshError(
            Code.TYPE,
            f"DECIMAL({precision},{scale}) is not a type",
            hint="1 <= precision <= 38, 0 <= scale <= precision",
        )
    return SqlType("DECIMAL", precision, scale)


_NAMED = {
    t.name: t
    for t in (
        BOOLEAN,
        TINYINT,
        SMALLINT,
        INTEGER,
        BIGINT,
        HUGEINT,
        REAL,
        DOUBLE,
        VARCHAR,
        DATE,
        TIMESTAMP,
        INTERVAL,
        NULL,
    )
}


def parse_type(text: str) -> SqlType:
    """The inverse of `str(type)`.

    >>> parse_type("DECIMAL(15,2)") == DECIMAL(15, 2)
    True
    """
    if text.startswith("DECIMAL(") and text.endswith(")"):
        precision, scale = text[8:-1].split(",")
        return DECIMAL(int(precision), int(scale))
    try:
        return _NAMED[text]
    except KeyError:
        raise EverfreshError(
            Code.TYPE, f"'{text}' is not a type", hint="types are: " + ", ".join(_NAMED)
        ) from None


# -- how types combine -----------------------------------------------------------------------------


def as_decimal(type_: SqlType) -> SqlType:
    """The DECIMAL that holds every value of an exact type (HUGEINT: its 38 digits)."""
    return type_ if type_.name == "DECIMAL" else DECIMAL(_INTEGER_DIGITS[type_.name], 0)


def common_type(a: SqlType, b: SqlType) -> SqlType | None:
    """The type that CASE, COALESCE and UNION bring `a` and `b` to; None if they do not mix.

    Two DECIMALs that have no common type with all their digits lose some behind the point, as in DuckDB.

    >>> print(common_type(INTEGER, DECIMAL(2, 1)), common_type(DATE, TIMESTAMP), common_type(DATE, BIGINT))
    DECIMAL(11,1) TIMESTAMP None
    >>> print(common_type(DECIMAL(38, 1), DECIMAL(9, 2)), comparison_type(DECIMAL(38, 1), DECIMAL(9, 2)))
    DECIMAL(38,1) DECIMAL(38,2)
    """
    found = comparison_type(a, b)
    if a.name == b.name == "DECIMAL" and found is not None:
        whole = max(a.precision - a.scale, b.precision - b.scale)
        return DECIMAL(found.precision, min(found.scale, MAX_DIGITS - whole))
    return found


def comparison_type(a: SqlType, b: SqlType) -> SqlType | None:
    """The type in which `a` and `b` are compared; None if they are not."""
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if a.is_numeric and b.is_numeric:
        if (a.is_integer and b.is_integer) or a.is_float or b.is_float:
            return max(a, b, key=lambda t: _NUMERIC_ORDER.index(t.name))
        da, db = as_decimal(a), as_decimal(b)
        scale = max(da.scale, db.scale)
        whole = max(da.precision - da.scale, db.precision - db.scale)
        return DECIMAL(min(whole + scale, MAX_DIGITS), scale)
    if {a.name, b.name} == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    return None


# -- Arrow -----------------------------------------------------------------------------------------

_TO_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "HUGEINT": pa.decimal128(38, 0),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "INTERVAL": pa.month_day_nano_interval(),
    "NULL": pa.null(),
}


def to_arrow(type_: SqlType) -> pa.DataType:
    """The Arrow type in which columns of `type_` are exchanged."""
    if type_.name == "DECIMAL":
        return pa.decimal128(type_.precision, type_.scale)
    return _TO_ARROW[type_.name]


def from_arrow(type_: pa.DataType) -> SqlType | None:
    """The SQL type nearest to an Arrow type, or None if there is none."""
    if pa.types.is_dictionary(type_):
        return from_arrow(type_.value_type)
    if pa.types.is_decimal(type_):
        return (
            DECIMAL(type_.precision, type_.scale)
            if type_.scale >= 0 and type_.precision <= MAX_DIGITS
            else None
        )
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    if pa.types.is_date(type_):
        return DATE
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return VARCHAR
    widened = {
        pa.uint8(): SMALLINT,
        pa.uint16(): INTEGER,
        pa.uint32(): BIGINT,
        pa.uint64(): HUGEINT,
        pa.float16(): REAL,
    }
    if type_ in widened:
        return widened[type_]
    return next(
        (_NAMED[name] for name, arrow in _TO_ARROW.items() if arrow == type_ and name != "NULL"), None
    )


# -- values ----------------------------------------------------------------------------------------


def canonical_float(x: float) -> float:
    """The one representative of a float: NaN is one value, and -0.0 is 0.0."""
    return NAN if x != x else x + 0.0


def is_unicode(text: str) -> bool:
    """Whether a Python string is one of SQL: Python's may have halves of characters in them (surrogates).

    >>> is_unicode("caf\\u00e9"), is_unicode("\\ud83d")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _scaled(value: Decimal, scale: int) -> int:
    """A number in units of its last digit, whatever the precision of Python's decimal context."""
    exact = decimal.Context(prec=len(value.as_tuple().digits) + scale + 1)
    return int(value.scaleb(scale, exact).to_integral_exact())


def to_physical(value: Any, type_: SqlType) -> Any:
    """The physical form of a logical Python value of `type_`.

    >>> to_physical(Decimal("1.25"), DECIMAL(9, 2)), to_physical(dt.date(1970, 1, 3), DATE)
    (125, 2)
    >>> to_physical(Decimal("396140812571321687967719751.68"), DECIMAL(30, 2))
    39614081257132168796771975168
    """
    if value is None:
        return None
    match type_.name:
        case "DECIMAL":
            return _scaled(Decimal(value), type_.scale)
        case "HUGEINT" | "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT":
            return int(value)
        case "DATE":
            return (value - _EPOCH).days
        case "TIMESTAMP":
            return (value - _EPOCH_TS) // _US
        case "REAL" | "DOUBLE":
            return canonical_float(float(value))
        case _:
            return value


def to_logical(value: Any, type_: SqlType) -> Any:
    """The logical Python value of a physical one.

    >>> to_logical(125, DECIMAL(9, 2)), to_logical(2, DATE)
    (Decimal('1.25'), datetime.date(1970, 1, 3))
    """
    if value is None:
        return None
    match type_.name:
        case "DECIMAL":
            sign, digits = int(value < 0), tuple(map(int, str(abs(value))))
            return Decimal((sign, digits, -type_.scale))  # built from digits: no rounding to a context
        case "DATE":
            return _EPOCH + dt.timedelta(days=value)
        case "TIMESTAMP":
            return _EPOCH_TS + value * _US
        case _:
            return value


# -- columns and schemas ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a view."""

    name: str
    type: SqlType
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class TableSchema:
    """A base table: its columns, its primary key (column names, possibly none), whether it never changes,
    whether its rows are kept, and whether it follows the object of another domain that has its name."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    static: bool = False
    retained: bool = True
    follows: bool = False
    defaults: tuple[tuple[str, str], ...] = ()
    """The columns that have a DEFAULT, with its text."""

    def column(self, name: str) -> Column:
        """The column called `name`."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        raise EverfreshError(
            Code.NOT_FOUND,
            f"table '{self.name}' has no column '{name}'",
            hint="columns are: " + ", ".join(self.names),
        )

    def find(self, name: str) -> Column | None:
        """The column called `name` in whatever case."""
        return self._folded.get(fold(name))

    @cached_property
    def _folded(self) -> dict[str, Column]:
        return {fold(column.name): column for column in self.columns}

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the table's rows."""
        return arrow_schema(self.columns)

    @property
    def ddl(self) -> str:
        """The statement that creates the table; every name is quoted, so that any name reads back."""
        known = {name: f" DEFAULT ({text})" for name, text in self.defaults}
        body = ", ".join(
            f"{quoted(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}{known.get(c.name, '')}"
            for c in self.columns
        )
        key = f", PRIMARY KEY ({', '.join(map(quoted, self.key))})" if self.key else ""
        options = "" if self.retained else " WITH (retain = false)"
        options += " WITH (follows = true)" if self.follows else ""
        return f"CREATE {'STATIC ' if self.static else ''}TABLE {quoted(self.name)} ({body}{key}){options}"


def fold(name: str) -> str:
    """What names are compared by: they are equal in whatever letter case. Letters are those of ASCII, as in
    DuckDB, since case beyond that differs by language and by release of Unicode.

    >>> fold("Größe"), fold("GRÖSSE")
    ('größe', 'grÖsse')
    """
    return name.lower() if name.isascii() else name.translate(_ASCII_LOWER)


_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of rows with these columns."""
    return pa.schema([pa.field(c.name, to_arrow(c.type), c.nullable) for c in columns])
