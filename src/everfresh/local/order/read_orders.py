"""In which orders the entries of maps are read: what statements ask of ordered indexes, known beforehand.

A range on the columns of a map is answered in the order of its value, among the entries that agree with what
is bound before (`ranges`). A function that changes a map can so keep up an index that others read. (The order
in which intervals are found is read by whatever changes their map: it steps them.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from everfresh.calculus import MapRef, outputs
from everfresh.compiler import Range
from everfresh.expr import Expr, Var, substitute
from everfresh.local.interpret.join_order import Step, Term
from everfresh.local.store.entries import EntryStore
from everfresh.types import Column


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a value over the columns of a map, among the entries that agree on `groups`."""

    value: Expr
    groups: tuple[Column, ...] = ()


Orders = Mapping[str, Sequence[Order]]
"""By map."""


def order_of(factor: MapRef, range_: Range, bound: Collection[str], store: EntryStore) -> Order | None:
    """The order in which a range of a map is found; None if one variable stands for two columns."""
    names = [v.name for v in factor.keys]
    if len(set(names)) < len(names):
        return None
    by_column: dict[str, Expr] = {
        v.name: Var(c.name, v.type, v.nullable) for v, c in zip(factor.keys, store.columns, strict=True)
    }
    groups = tuple(c for v, c in zip(factor.keys, store.columns, strict=True) if v.name in bound)
    return Order(substitute(range_.value, by_column), groups)


def key_order(store: EntryStore) -> Order:
    """The order of the first key, in which intervals are found."""
    column = store.columns[0]
    return Order(Var(column.name, column.type, False))


def orders(terms: Iterable[Term], stores: Callable[[str], EntryStore]) -> dict[str, list[Order]]:
    """All that terms read maps in."""
    found: dict[str, list[Order]] = {}
    for factor, range_, bound in _ranges(terms):
        order = order_of(factor, range_, bound, stores(factor.name))
        if order is not None and order not in found.setdefault(factor.name, []):
            found[factor.name].append(order)
    return found


def _ranges(terms: Iterable[Term]) -> Iterator[tuple[MapRef, Range, set[str]]]:
    for term in terms:
        yield from _in_steps(term.steps)
        yield from _ranges(term.many)
        if term.narrow is not None:
            if isinstance(term.narrow.crossing.atom, MapRef):
                yield term.narrow.crossing.atom, term.narrow.crossing.range, set()
            yield from _in_steps(term.narrow.steps)


def _in_steps(steps: Sequence[Step]) -> Iterator[tuple[MapRef, Range, set[str]]]:
    bound: set[str] = set()
    for step in steps:
        if step.range is not None and isinstance(step.factor, MapRef):
            yield step.factor, step.range, bound
        yield from _ranges(step.inner)
        bound = bound | {v.name for v in outputs(step.factor)}


__all__ = ["Order", "Orders", "key_order", "order_of", "orders"]
