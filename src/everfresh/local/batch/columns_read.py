"""Which columns of a table a program reads: all others are only kept.

A column is read where the variable that a relation atom has for it stands anywhere else in the same product,
or is a key of the map. Invariant: no column is left out that a statement or a definition reads; some may be
named that none does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from everfresh.calculus import Query, Rel
from everfresh.expr import Var
from everfresh.local.interpret.join_order import products
from everfresh.program import Program


def columns_read(program: Program[Any], table: str) -> set[int]:
    """The positions of the columns of `table` that a program reads.

    >>> from everfresh.workloads import WORKLOADS, compiled
    >>> sorted(columns_read(compiled(WORKLOADS["tpch"].query("q06")).program, "lineitem"))
    [4, 5, 6, 10]
    """
    found: set[int] = set()
    for query, keys in _queries(program):
        for _, factors in products(query):
            times = Counter(v.name for f in factors for v in f.walk() if isinstance(v, Var))
            times.update(key.name for key in keys)
            for atom in (a for f in factors for a in f.walk() if isinstance(a, Rel) and a.name == table):
                at = zip(atom.places, atom.vars, strict=True)
                found.update(place for place, v in at if times[v.name] > 1)
    return found


def _queries(program: Program[Any]) -> Iterator[tuple[Query, Sequence[Var]]]:
    for m in program.maps:
        if isinstance(m.definition, Query):
            yield m.definition, m.keys
    for trigger in program.triggers:
        for statement in trigger.statements:
            if isinstance(statement.expr, Query):
                yield statement.expr, program.map(statement.target).keys
