"""Statements about external arrays, as immutable nodes that print as text which parses back.

    CREATE EXTERNAL ARRAY a <mag: DOUBLE> [ra=0,1295999,3600; dec=-324000,324000,3600]
        FROM 'nights/*.fits' [(ra = RA * 3600, dec = DEC * 3600, mag = MAG)] [WITH (format = 'fits')]
    DROP ARRAY a        REFRESH a

A dimension or attribute that the list leaves out is the column of its name. Expressions are SQL over the
columns of a file; a coordinate that is a fraction lies in the cell below it.

Invariant: `parse(str(statement)) == statement`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import read_array, read_expression
from everfresh.arrays.model import ArraySchema
from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import TokenStream, quote_name
from everfresh.raw.files.formats import FORMATS
from everfresh.rewrite import node
from everfresh.types import quoted

_OURS = re.compile(r"\s*(?:CREATE\s+EXTERNAL|REFRESH)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Option:
    """What may stand in WITH: its values, the first one by default; none if any text will do."""

    values: tuple[str, ...]
    meaning: str


OPTIONS: Mapping[str, Option] = {
    "format": Option(("", *FORMATS), "the format of the files; by default their endings tell"),
    "damaged": Option(("refuse", "skip"), "whether a query goes on without a file that cannot be read"),
    "outside": Option(
        ("refuse", "skip"), "whether rows outside of the array's ranges, or without a place, are left out"
    ),
}


@node
class CreateExternal(aql.Statement):
    """CREATE EXTERNAL ARRAY: its schema, where its files are, and what their columns are."""

    schema: ArraySchema
    files: str
    items: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str) -> str:
        """What WITH says of something."""
        return dict(self.options).get(name, OPTIONS[name].values[0])

    def expression(self, name: str) -> str:
        """What a dimension or attribute is, in SQL over the columns of a file."""
        given = {known.lower(): text for known, text in self.items}
        return given.get(name.lower(), quoted(name))

    def __str__(self) -> str:
        told = self.schema.ddl.replace("CREATE ", "CREATE EXTERNAL ", 1)
        items = ", ".join(f"{quote_name(name)} = {text}" for name, text in self.items)
        options = ", ".join(f"{name} = {_text(value)}" for name, value in self.options)
        return (
            f"{told} FROM {_text(self.files)}{f' ({items})' if items else ''}"
            f"{f' WITH ({options})' if options else ''}"
        )


@node
class Refresh(aql.Statement):
    """REFRESH a: see which files have come, changed or gone."""

    name: str

    def __str__(self) -> str:
        return f"REFRESH {quote_name(self.name)}"


def about_files(text: str) -> bool:
    """Whether a statement is about external arrays."""
    return bool(_OURS.match(text))


def parse(text: str) -> CreateExternal | Refresh:
    """The statement that a text says.

    >>> print(parse("create external array a <v: int> [i=1,8,2] from 'x/*.csv' (i = floor(t)) "
    ...             "with (format='csv')"))
    CREATE EXTERNAL ARRAY a <v: INTEGER> [i=1,8,2] FROM 'x/*.csv' (i = floor(t)) WITH (format = 'csv')
    """
    stream = TokenStream(text)
    found: CreateExternal | Refresh
    if stream.accept("REFRESH"):
        found = Refresh(stream.name())
    else:
        stream.expect("CREATE", "EXTERNAL")
        found = _create(stream)
    stream.accept(";")
    stream.end()
    return found


def _create(stream: TokenStream) -> CreateExternal:
    schema = read_array(stream)
    if schema.unique:
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"array '{schema.name}' cannot be UNIQUE: nothing keeps files from holding a cell twice",
            hint="leave UNIQUE out",
        )
    stream.expect("FROM")
    files = stream.string()
    items: list[tuple[str, str]] = []
    if stream.accept("("):
        items = stream.listed(lambda: _item(stream, schema), ")")
    options: list[tuple[str, str]] = []
    if stream.accept("WITH"):
        stream.expect("(")
        options = stream.listed(lambda: _option(stream), ")")
    _once([name for name, _ in items], "what it is")
    _once([name for name, _ in options], "its value")
    return CreateExternal(schema, files, tuple(items), tuple(options))


def _item(stream: TokenStream, schema: ArraySchema) -> tuple[str, str]:
    name = stream.name()
    known = {each.lower(): each for each in schema.names}
    if name.lower() not in known:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"array '{schema.name}' has no dimension or attribute '{name}'",
            hint="there are: " + ", ".join(schema.names),
        )
    stream.expect("=")
    return known[name.lower()], read_expression(stream)


def _option(stream: TokenStream) -> tuple[str, str]:
    name = stream.name().lower()
    if name not in OPTIONS:
        raise EverfreshError(
            Code.ARGUMENT, f"there is no option '{name}'", hint="options are: " + ", ".join(OPTIONS)
        )
    stream.expect("=")
    value, values = stream.string().lower(), OPTIONS[name].values
    if value not in values:
        raise EverfreshError(
            Code.ARGUMENT,
            f"{name} is not '{value}'",
            hint="it is one of: " + ", ".join(each for each in values if each),
        )
    return name, value


def _once(names: list[str], what: str) -> None:
    again = next((n for k, n in enumerate(names) if n.lower() in [x.lower() for x in names[:k]]), None)
    if again is not None:
        raise EverfreshError(Code.ARGUMENT, f"'{again}' is given twice", hint=f"say {what} once")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
