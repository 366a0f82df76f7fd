"""Types with names of their own in the catalog.

A column and a view have the type, not its name; but the text of a view is bound again when the database is
opened. So a type whose name stands in such a text is neither dropped nor replaced.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from everfresh.compiler.ddl_log import entry_of, record_of
from everfresh.compiler.effect import Effect
from everfresh.errors import Code, EverfreshError
from everfresh.sql import CreateType, DropType
from everfresh.types import fold

if TYPE_CHECKING:
    from everfresh.compiler.catalog import Catalog

_KEY = "type "


def named(catalog: Catalog, s: CreateType | DropType) -> tuple[Catalog, Effect]:
    """The catalog after CREATE TYPE or DROP TYPE."""
    entry, name = entry_of(s), fold(s.name)
    there = name in catalog.types
    if there != isinstance(s, DropType) and not (isinstance(s, CreateType) and s.or_replace):
        return catalog, Effect(entry)
    if there:
        _look_for(catalog, s.name)
    types = {known: type_ for known, type_ in catalog.types.items() if known != name}
    ddl = tuple(pair for pair in catalog.ddl if pair[0] != _KEY + name)
    if isinstance(s, CreateType):
        types, ddl = {**types, name: s.type}, (*ddl, (_KEY + name, entry))
    return replace(catalog, types=types, ddl=ddl), Effect(entry, named_type=s.name)


def _look_for(catalog: Catalog, name: str) -> None:
    """Raise if the text of a view, or of another type, may name a type."""
    word = re.compile(rf"(?<![\w$]){re.escape(fold(name))}(?![\w$])")
    for made, entry in catalog.ddl:
        kept_as_text = made in catalog.views or made in catalog.queries or made.startswith(_KEY)
        if kept_as_text and made != _KEY + fold(name) and word.search(fold(record_of(entry)[2])):
            what = made.removeprefix(_KEY)
            raise EverfreshError(
                Code.DEPENDENCY, f"the text of '{what}' names '{name}'", hint=f"drop '{what}' first"
            )
