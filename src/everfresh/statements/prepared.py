"""Prepared statements of one handle: texts by name, for as long as it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everfresh.errors import Code, EverfreshError
from everfresh.relations import Result
from everfresh.sql.prepared import Deallocate, Execute, Prepare
from everfresh.types import fold

if TYPE_CHECKING:
    from everfresh.statements.run import Statements


class Prepared:
    """What PREPARE has kept."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._texts: dict[str, tuple[str, str]] = {}

    def run(self, statement: Prepare | Execute | Deallocate, dialect: str) -> Result | int | None:
        """Keep a statement, run it with values, or forget it."""
        name = fold(statement.name)
        if isinstance(statement, Prepare):
            self._texts[name] = statement.text, dialect
        elif isinstance(statement, Deallocate):
            self._texts.pop(name, None)
        else:
            found = self._texts.get(name)
            if found is None:
                known = ", ".join(self._texts) or "none yet"
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"there is no prepared statement '{statement.name}'",
                    hint=f"prepared are: {known}; they are the handle's, and end with it",
                )
            return self._statements.script(*found, statement.given)
        return self._statements.epoch
