"""Simplification (section 3.2 of the thesis): one pass per module, run in the order of `PASSES` until
nothing changes."""

from __future__ import annotations

from everfresh.calculus import Query
from everfresh.compiler.passes.identities import IDENTITIES
from everfresh.compiler.passes.partial import PARTIAL
from everfresh.compiler.passes.unify import UNIFY
from everfresh.rewrite import RuleSet, Trace, rewrite

PASSES: tuple[tuple[str, RuleSet], ...] = (
    ("partial evaluation", PARTIAL),
    ("unification", UNIFY),
    ("identities", IDENTITIES),
)


def simplify(query: Query, trace: Trace | None = None) -> Query:
    """`query` in simplest form: a fixpoint of all passes together."""
    while True:
        before = query
        for _, rules in PASSES:
            query = rewrite(query, rules, trace)
        if query == before:
            return query


__all__ = ["IDENTITIES", "PARTIAL", "PASSES", "UNIFY", "simplify"]
