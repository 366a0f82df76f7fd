"""SQL types: their names, their Arrow form, and how DuckDB combines them.

A value has two forms. The *logical* form is what a user sees (`Decimal`, `datetime.date`, ...). The
*physical* form is what everfresh computes with, in the reference evaluator and in compiled code alike:

| type | physical |
|---|---|
| BOOLEAN | bool |
| TINYINT .. HUGEINT, UTINYINT .. UBIGINT | int |
| DECIMAL(p, s) | int: the value times 10**s |
| REAL, DOUBLE | float (NaN is one value, -0.0 is 0.0) |
| VARCHAR | str |
| DATE | int: days since 1970-01-01 |
| TIME | int: microseconds since midnight |
| TIMESTAMP, TIMESTAMPTZ | int: microseconds since 1970-01-01 (in UTC) |
| ENUM | int: the place of its label |
| JSON | str: as it was written |
| BLOB, UUID, LIST, STRUCT, MAP | str: a code (`everfresh.types.coding`) |
| INTERVAL | (months, days, microseconds) |

NULL is `None` in every type. Invariant: `to_physical` and `to_logical` are inverse on the values of a type.
"""

from __future__ import annotations

import datetime as dt
import decimal
import string
import uuid
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.types import coding
from everfresh.types.sqltype import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    ENUM,
    HUGEINT,
    INTEGER,
    INTEGER_BITS,
    INTERVAL,
    JSON,
    LIST,
    MAX_DIGITS,
    NULL,
    REAL,
    SMALLINT,
    STRUCT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TINYINT,
    UBIGINT,
    UINTEGER,
    UNSIGNED,
    USMALLINT,
    UTINYINT,
    UUID,
    VARCHAR,
    SqlType,
    parse_type,
    read_type,
)

__all__ = [
    "BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "ENUM", "HUGEINT", "INT64_DIGITS", "INTEGER",
    "INTEGER_BITS", "INTERVAL", "JSON", "LIST", "MAX_DIGITS", "NAN", "NULL", "REAL", "SMALLINT", "STRUCT",
    "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TINYINT", "UBIGINT", "UINTEGER", "UNSIGNED", "USMALLINT",
    "UTINYINT", "UUID", "VARCHAR", "Column", "SqlType", "TableSchema", "arrow_schema", "as_decimal",
    "canonical_float", "common_type", "comparison_type", "distinct_names", "fold", "from_arrow",
    "is_unicode", "no_rows", "parse_type", "quoted", "read_type", "to_arrow", "to_logical", "to_physical",
]  # fmt: skip

INT64_DIGITS = 18
_INTEGER_DIGITS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38,
    "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20,
}  # fmt: skip
_BY_BITS = {bits: SqlType(name) for name, bits in INTEGER_BITS.items() if name not in UNSIGNED}

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_TS = dt.datetime(1970, 1, 1)
_EPOCH_TZ = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US = dt.timedelta(microseconds=1)
NAN = coding.NAN


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
    if a.is_nested and a.name == b.name and found is not None:
        inner = [common_type(x, y) or t for x, y, t in zip(a.inner, b.inner, found.inner, strict=True)]
        return SqlType(a.name, inner=tuple(inner), names=a.names)
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
        if a.is_float or b.is_float:
            return DOUBLE if DOUBLE in (a, b) else REAL
        if a.is_integer and b.is_integer:
            return _common_integer(a, b)
        da, db = as_decimal(a), as_decimal(b)
        scale = max(da.scale, db.scale)
        whole = max(da.precision - da.scale, db.precision - db.scale)
        return DECIMAL(min(whole + scale, MAX_DIGITS), scale)
    if a.name in _MOMENTS and b.name in _MOMENTS:
        return max(a, b, key=lambda t: _MOMENTS.index(t.name))
    if "JSON" in (a.name, b.name) and "VARCHAR" in (a.name, b.name):
        return JSON
    if {a.name, b.name} <= {"ENUM", "VARCHAR"}:  # those of other labels are texts beside one another
        return VARCHAR
    if a.name == b.name and a.is_nested and a.names == b.names:
        inner = [comparison_type(x, y) for x, y in zip(a.inner, b.inner, strict=True)]
        found = tuple(t for t in inner if t is not None)
        return SqlType(a.name, inner=found, names=a.names) if len(found) == len(inner) else None
    return None


_MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")


def _common_integer(a: SqlType, b: SqlType) -> SqlType:
    """The least integer type that holds the values of both.

    >>> print(_common_integer(UTINYINT, TINYINT), _common_integer(UBIGINT, BIGINT))
    SMALLINT HUGEINT
    """
    bits_a, bits_b = INTEGER_BITS[a.name], INTEGER_BITS[b.name]
    if (a.name in UNSIGNED) == (b.name in UNSIGNED):
        return a if bits_a >= bits_b else b
    unsigned, signed = (bits_a, bits_b) if a.name in UNSIGNED else (bits_b, bits_a)
    return _BY_BITS[max(2 * unsigned, signed)]


# -- Arrow -----------------------------------------------------------------------------------------

_TO_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "HUGEINT": pa.decimal128(38, 0),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "UUID": pa.uuid(),
    "JSON": pa.json_(pa.string()),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "INTERVAL": pa.month_day_nano_interval(),
    "NULL": pa.null(),
}


_INDEX = (pa.int8(), pa.int16(), pa.int32())


def to_arrow(type_: SqlType) -> pa.DataType:
    """The Arrow type in which columns of `type_` are exchanged."""
    if type_.name == "DECIMAL":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.name == "ENUM":
        return pa.dictionary(_INDEX[(len(type_.names) > 1 << 7) + (len(type_.names) > 1 << 15)], pa.string())
    if type_.is_nested:
        inner = [to_arrow(t) for t in type_.inner]
        if type_.name == "STRUCT":
            return pa.struct([pa.field(n, t) for n, t in zip(type_.names, inner, strict=True)])
        return pa.list_(*inner) if type_.name == "LIST" else pa.map_(*inner)
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
        return TIMESTAMP if type_.tz is None else TIMESTAMPTZ
    for test, found in _FAMILIES:
        if test(type_):
            return found
    if pa.types.is_nested(type_):
        return _from_nested(type_)
    return _BY_ARROW.get(type_)


_FAMILIES = (
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), VARCHAR),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t), BLOB),
    (pa.types.is_fixed_size_binary, BLOB),
    (lambda t: isinstance(t, pa.JsonType), JSON),
    (pa.types.is_float16, REAL),
)
_BY_ARROW = {arrow: SqlType(name) for name, arrow in _TO_ARROW.items() if name != "NULL"}


def _from_nested(type_: pa.DataType) -> SqlType | None:
    if pa.types.is_struct(type_):
        inner = [from_arrow(field.type) for field in type_]
        names = tuple(field.name for field in type_)
        known = [t for t in inner if t is not None]
        whole = known and len(known) == len(inner) and len(set(map(fold, names))) == len(names)
        return STRUCT(list(zip(names, known, strict=True))) if whole else None
    if pa.types.is_map(type_):
        pair = from_arrow(type_.key_type), from_arrow(type_.item_type)
        return None if None in pair else SqlType("MAP", inner=pair)  # type: ignore[arg-type]
    if pa.types.is_union(type_) or pa.types.is_run_end_encoded(type_):
        return None
    value = from_arrow(type_.value_type)
    return None if value is None else LIST(value)


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
        case "ENUM":
            return type_.names.index(value)
        case "DATE":
            return (value - _EPOCH).days
        case "TIME":
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case "TIMESTAMP":
            return (value - _EPOCH_TS) // _US
        case "TIMESTAMPTZ":
            return (value - _EPOCH_TZ) // _US
        case "REAL" | "DOUBLE":
            return canonical_float(float(value))
        case "BLOB":
            return bytes(value).decode("latin-1")
        case "UUID":
            return str(value)
        case "LIST":
            return coding.from_elements([to_physical(v, type_.inner[0]) for v in value], type_)
        case "STRUCT":
            pairs = zip(type_.names, type_.inner, strict=True)
            return coding.from_fields([to_physical(value[n], t) for n, t in pairs], type_)
        case "MAP":
            key, item = type_.inner
            listed = value.items() if isinstance(value, dict) else value
            return coding.from_entries(
                [(to_physical(k, key), to_physical(v, item)) for k, v in listed], type_
            )
        case _ if type_.is_integer:
            return int(value)
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
        case "TIMESTAMPTZ":
            return _EPOCH_TZ + value * _US
        case "TIME":
            return (_EPOCH_TS + value * _US).time()
        case "ENUM":
            return type_.names[value]
        case "BLOB":
            return value.encode("latin-1")
        case "UUID":
            return uuid.UUID(value)
        case "LIST":
            return [to_logical(v, type_.inner[0]) for v in coding.elements(value, type_)]
        case "STRUCT":
            found = zip(type_.names, coding.fields(value, type_), type_.inner, strict=True)
            return {name: to_logical(v, t) for name, v, t in found}
        case "MAP":
            key, item = type_.inner
            return [(to_logical(k, key), to_logical(v, item)) for k, v in coding.entries(value, type_)]
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
    checks: tuple[tuple[str, str], ...] = ()
    """The names (some have none) and texts of CHECKs."""
    generated: tuple[tuple[str, str], ...] = ()
    """The columns that are computed from others, each after those that it reads, with the text of how."""

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
    def given(self) -> tuple[str, ...]:
        """The columns that rows come with: all but those that are computed."""
        computed = {name for name, _ in self.generated}
        return tuple(name for name in self.names if name not in computed)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the table's rows."""
        return arrow_schema(self.columns)

    @property
    def ddl(self) -> str:
        """The statement that creates the table; every name is quoted, so that any name reads back."""
        known = {name: f" DEFAULT ({text})" for name, text in self.defaults}
        known |= {name: f" GENERATED ALWAYS AS ({text})" for name, text in self.generated}
        body = ", ".join(
            f"{quoted(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}{known.get(c.name, '')}"
            for c in self.columns
        )
        key = f", PRIMARY KEY ({', '.join(map(quoted, self.key))})" if self.key else ""
        for name, text in self.checks:
            key += f", {f'CONSTRAINT {quoted(name)} ' if name else ''}CHECK ({text})"
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


def distinct_names(names: list[str]) -> list[str]:
    """The names, repeated ones with a number as DuckDB does it: from left to right, whatever comes later.

    >>> distinct_names(["a", "b", "A", "a", "a_1"])
    ['a', 'b', 'A_1', 'a_2', 'a_1_1']
    """
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    result = []
    for name in names:
        candidate, k = name, numbers.get(fold(name), 0)
        while fold(candidate) in taken:
            k += 1
            candidate = f"{name}_{k}"
        numbers[fold(name)] = k
        taken.add(fold(candidate))
        result.append(candidate)
    return result


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of rows with these columns."""
    return pa.schema([pa.field(c.name, to_arrow(c.type), c.nullable) for c in columns])


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows, in one empty chunk. `Schema.empty_table` cannot make columns that nest a UUID or
    JSON.

    >>> no_rows(pa.schema([("ids", pa.list_(pa.uuid()))])).num_rows
    0
    """
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)
