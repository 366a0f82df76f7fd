"""What all parts of one statement share while it is bound: the catalog, the text, variable names, and WITH.

Invariant: `VariableNames` gives out a name once, so a variable means one column wherever it stands in a
statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code
from everfresh.sql.source import Source
from everfresh.types import fold

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder
    from everfresh.sql.queries.clauses import Query
    from everfresh.sql.scope import Catalog

_MOST_REFERENCES = 1000  # to common table expressions in one statement, counting those inside of others


class VariableNames:
    """The variable names of a statement.

    >>> names = VariableNames()
    >>> [names.fresh("a", "x"), names.fresh("A", "y"), names.fresh("a", "y"), names.numbered("sum")]
    ['a', 'y.A', 'a_1', 'sum_1']
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._references = 0

    def fresh(self, name: str, alias: str = "") -> str:
        """A new name: `name` if it is free, else `alias.name`, else `name` with a number."""
        for candidate in (name, f"{alias}.{name}") if alias else (name,):
            if self.take(candidate):
                return candidate
        return self.numbered(name)

    def numbered(self, kind: str) -> str:
        """A new name: `kind` and the first number that makes it one."""
        k = self._numbers.get(kind, 1)
        while not self.take(f"{kind}_{k}"):
            k += 1
        self._numbers[kind] = k + 1
        return f"{kind}_{k}"

    def take(self, name: str) -> bool:
        """Take a name if it is free."""
        free = fold(name) not in self._taken
        self._taken.add(fold(name))
        return free

    def count_reference(self, source: Source, node: Any) -> None:
        """Count an inlined common table expression; refuses a statement that would grow beyond measure."""
        self._references += 1
        if self._references > _MOST_REFERENCES:
            raise source.error(
                Code.UNSUPPORTED,
                f"more than {_MOST_REFERENCES} references to common table expressions are not supported",
                node,
                hint="each reference is expanded: make a view of a part that is used often",
            )


@dataclass(frozen=True)
class Cte:
    """A common table expression: its tree and column names, and where it stands."""

    tree: Any
    columns: tuple[str, ...]
    context: Context  # with the expressions that it may refer to
    outer: Binder | None


@dataclass(frozen=True)
class Context:
    """Where a query stands: in which catalog and text, and under which WITH."""

    catalog: Catalog
    source: Source
    names: VariableNames = field(default_factory=VariableNames)
    ctes: Mapping[str, Cte] = field(default_factory=dict)

    def bind(self, tree: Any, outer: Binder | None, alias: str = "") -> Query:
        """A query inside of another; `outer` binds the columns that it does not have itself."""
        from everfresh.sql.queries.query import (
            bind_tree,  # queries nest: the modules that bind them meet here
        )

        return bind_tree(tree, self, outer, alias=alias)
