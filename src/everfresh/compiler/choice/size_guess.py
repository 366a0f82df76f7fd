"""Sizes of tables of which nothing is known yet: by who refers to whom.

A view is often created before its tables are filled. Where an atom is joined with another on the whole
primary key of that one, it refers to it, as lines refer to their order and orders to a customer: the table
referred to is taken to have a tenth of the rows and of the changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from everfresh.calculus import Prod, Query, Rel
from everfresh.compiler.choice.estimate import Statistics, TableStats
from everfresh.compiler.lowering.products import atoms
from everfresh.compiler.viewlet.map_registry import products
from everfresh.program import MapDef

_LARGEST, _RATIO = 1_000_000.0, 10.0


def guessed(statistics: Statistics, maps: Iterable[MapDef[Query]]) -> Statistics:
    """The statistics with a size for each table of which none is known, as the definitions suggest."""
    if not statistics.unknown:
        return statistics
    levels = _levels(_references(statistics, maps))
    tables = dict(statistics.tables)
    for name in statistics.unknown:
        rows = max(10.0, _LARGEST / _RATIO ** levels.get(name, 0))
        tables[name] = _scaled(tables[name], rows)
    return replace(statistics, tables=tables, unknown=frozenset())


def _references(statistics: Statistics, maps: Iterable[MapDef[Query]]) -> set[tuple[str, str]]:
    """`(from, to)` for each join of a table with the whole key of another."""
    found = set()
    for m in maps:
        for body in products(m.definition):
            bases = [
                a for a in atoms(body.factors if isinstance(body, Prod) else (body,)) if isinstance(a, Rel)
            ]
            for to in bases:
                for columns in statistics.table(to.name).keys:
                    key = to.names(columns)
                    if key is None:
                        continue
                    found |= {
                        (a.name, to.name)
                        for a in bases
                        if a.name != to.name
                        and key <= {v.name for v in a.vars}
                        and not _by_key(statistics, a, key)
                    }
    return found


def _by_key(statistics: Statistics, atom: Rel, names: frozenset[str]) -> bool:
    """Whether these variables hold a whole key of an atom: then neither refers to the other."""
    keys = statistics.table(atom.name).keys
    return any((key := atom.names(columns)) is not None and key <= names for columns in keys)


def _levels(references: set[tuple[str, str]]) -> dict[str, int]:
    """How many references lead to each table at most; a cycle is not followed twice."""
    levels: dict[str, int] = {}
    for _ in range(len({name for pair in references for name in pair})):
        before = dict(levels)
        for source, to in references:
            levels[to] = max(levels.get(to, 0), before.get(source, 0) + 1)
        if levels == before:
            break
    return levels


def _scaled(table: TableStats, rows: float) -> TableStats:
    share = rows / table.rows
    return replace(table, rows=rows, distinct=tuple(max(1.0, d * share) for d in table.distinct), rate=rows)
