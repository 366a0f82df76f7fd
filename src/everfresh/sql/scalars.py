"""Pieces of SQL inside of another language: types, and queries over relations that are in no catalog.

The language of arrays keeps the text of its expressions and has it bound here, so that names, types and NULL
rules are those of SQL by the same code. Invariant: an error's place is the piece that was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from everfresh.errors import Code, EverfreshError
from everfresh.sql.bind import bind
from everfresh.sql.datatypes import sql_type
from everfresh.sql.logical.plan import Plan
from everfresh.sql.parse import split
from everfresh.sql.queries.query import bind_query
from everfresh.sql.statements import Select
from everfresh.types import Column, SqlType, TableSchema, fold


class Relations:
    """A catalog of relations that exist for one query."""

    def __init__(self, columns: Mapping[str, tuple[Column, ...]]) -> None:
        self._names = {fold(name): name for name in columns}
        self._columns = columns

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        """As in `Catalog`."""
        found = self._names.get(fold(name))
        return None if found is None else ("table", self._columns[found])

    def table(self, name: str) -> TableSchema | None:
        """As in `Catalog`."""
        found = self._names.get(fold(name))
        return None if found is None else TableSchema(found, self._columns[found])

    def names(self) -> list[str]:
        """As in `Catalog`."""
        return list(self._columns)

    def other(self, name: str) -> tuple[str, str] | None:
        """As in `Catalog`."""
        return None

    @property
    def plain(self) -> Mapping[str, Plan]:
        """As in `Catalog`."""
        return {}

    @property
    def types(self) -> Mapping[str, SqlType]:
        """As in `Catalog`."""
        return {}


def read_type(text: str) -> SqlType:
    """The type that SQL calls so.

    >>> print(read_type("int"), read_type("decimal(9, 2)"))
    INTEGER DECIMAL(9,2)
    """
    with _placed(text):
        parsed = split(f"SELECT CAST(NULL AS {text})")
        if len(parsed) != 1 or parsed[0].tree is None or len(parsed[0].tree.expressions) != 1:
            raise EverfreshError(Code.SYNTAX, f"'{text}' is not a type")
        cast = parsed[0].tree.expressions[0]
        if "to" not in cast.args or any(cast.args.get(rest) is not None for rest in ("default", "format")):
            raise EverfreshError(Code.SYNTAX, f"'{text}' is not a type")
        return sql_type(cast.args["to"], parsed[0].source)


def bind_select(text: str, relations: Mapping[str, tuple[Column, ...]], *, kept: bool = False) -> Plan:
    """The plan of a query over these relations; one that is `kept` has no functions of the time.

    >>> from everfresh.types import BIGINT
    >>> print(bind_select("SELECT v + 1 AS w FROM a", {"a": (Column("v", BIGINT),)}))
    Project w = v + 1::BIGINT
      Scan a (v)
    """
    with _placed(text):
        parsed = split(text)
        statement = bind(parsed[0], Relations(relations)) if len(parsed) == 1 else None
        if not isinstance(statement, Select):
            raise EverfreshError(Code.SYNTAX, "this is not one query")
        if kept:
            return bind_query(parsed[0].tree, Relations(relations), parsed[0].source).plan
        return statement.plan


@contextmanager
def _placed(text: str) -> Iterator[None]:
    try:
        yield
    except EverfreshError as error:
        place = error.place or "its beginning"
        raise EverfreshError(error.code, error.message, place=f"{place} of {text}", hint=error.hint) from None
