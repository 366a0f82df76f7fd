"""Auxiliary views of chains: what the joins behind the first come to, kept for each cell of the second array.

A chain `A1 x A2 x ... x An` that is grouped by dimensions of A1, and whose values are of the arrays behind,
is the join of A1 with a view of `A2 x ... x An` grouped by A2's cells: counts and sums of its groups add up,
its least and greatest values are the least and greatest of those. That view is a chain again, one shorter, so
that a change of any array meets one auxiliary view and not the whole chain.

What is not of that form stays a chain: conditions and values across A1 and others, values of A1, sums of
doubles (whose digits would depend on the order), averages of what is no whole number.

Invariant: the outer view over the inner one is the chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from everfresh.arrays.model import ArraySchema
from everfresh.arrays.views.cells import Numbering
from everfresh.arrays.views.definition import GROUPS, Argument, Definition
from everfresh.expr.build import call, cast, literal
from everfresh.expr.nodes import Expr, Var
from everfresh.sql.logical.plan import AggregateCall, Plan, Project, Scan
from everfresh.types import BIGINT, DOUBLE, HUGEINT, Column

_MOST = 1 << 62
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
Part = tuple[str, Expr | None, Expr | None]
"""An aggregate of the auxiliary view: its function, its argument (None: rows) and its filter."""


def apart(of: Definition) -> tuple[Definition, Definition] | None:
    """The auxiliary view of a chain, and the join of the first array with it; None if the chain has none."""
    if len(of.sources) < 3 or any(source != 0 for source, _ in of.keys) or not _fits(of.sources[1]):
        return None
    behind = frozenset(range(1, len(of.sources)))
    for condition in of.where:
        sources = of.sources_of(condition)
        if 0 in sources and sources & behind:
            return None
    for argument in of.arguments:
        exprs = [argument.expr] if argument.filter is None else [argument.expr, argument.filter]
        if any(0 in of.sources_of(e) for e in exprs):
            return None
    parts: dict[Part, int] = {("count", None, None): 0}
    for aggregate, k in of.aggregates:
        for part in _parts(of, aggregate, k) or (None,):
            if part is None:
                return None
            parts.setdefault(part, len(parts))
    inner = _inner(of, list(parts))
    return inner, _outer(of, inner, parts)


def _fits(schema: ArraySchema) -> bool:
    """Whether the cells of an array have numbers."""
    cells = math.prod(int(c) for c in schema.lengths) * math.prod(int(g) for g in schema.grid)
    return cells < _MOST


def _parts(of: Definition, aggregate: AggregateCall, k: int) -> list[Part]:
    """What an aggregate is made of; nothing if it cannot be."""
    if k < 0:
        return [("count", None, None)]
    argument = of.arguments[k]
    expr, kept, kind = argument.expr, argument.filter, argument.expr.type.name
    if aggregate.fn == "count" or aggregate.fn in ("min", "max"):
        return [(aggregate.fn, expr, kept)]
    if aggregate.fn == "sum" and (kind in _WHOLE or kind == "DECIMAL"):
        return [("sum", expr, kept)]
    if aggregate.fn == "avg" and kind in _WHOLE:
        return [("sum", expr, kept), ("count", expr, kept)]
    return []


def _inner(of: Definition, parts: list[Part]) -> Definition:
    """The view of the arrays behind the first."""
    second = of.sources[1]
    taken = {name.lower() for name in second.dimension_names}
    mark = "a"
    while any(f"{mark}{i}" in taken for i in range(len(parts))):
        mark += "a"
    wanted: dict[tuple[Expr, Expr | None], list[str]] = {}
    for fn, expr, kept in parts:
        if expr is not None:
            wanted.setdefault((expr, kept), []).append(fn)
    places = {key: k for k, key in enumerate(wanted)}
    arguments = tuple(
        Argument(expr, kept, "sum" in fns, not {"min", "max"}.isdisjoint(fns))
        for (expr, kept), fns in wanted.items()
    )
    calls = [AggregateCall(fn, () if e is None else (e,), filter=kept) for fn, e, kept in parts]
    at = [-1 if e is None else places[e, kept] for _, e, kept in parts]
    keys = tuple(Var(f"\0k{d}", BIGINT, False) for d in range(second.ndim))
    values = tuple(Var(f"\0a{i}", one.type, one.nullable) for i, one in enumerate(calls))
    groups = Scan(GROUPS, GROUPS, (*keys, *values))
    columns = tuple(Column(f"{mark}{i}", v.type, v.nullable) for i, v in enumerate(values))
    schema = ArraySchema(of.schema.name, second.dimensions, columns, True)
    names = [*second.dimension_names, *(c.name for c in columns)]
    top = Project(groups, tuple(zip(names, groups.vars, strict=True)))
    where = tuple(c for c in of.where if of.sources_of(c) and 0 not in of.sources_of(c))
    return Definition(
        schema, Numbering(schema), of.sources[1:], of.scans[1:], of.hops[1:], where,
        tuple((0, d) for d in range(second.ndim)), arguments, tuple(zip(calls, at, strict=True)), groups, top,
        top, tuple(range(len(names))),
    )  # fmt: skip


def _outer(of: Definition, inner: Definition, parts: dict[Part, int]) -> Definition:
    """The first array with the auxiliary view."""
    columns = inner.schema.columns
    scan = Scan("\0behind", "\0behind", tuple(Var(f"\0b{c.name}", c.type, c.nullable) for c in columns))
    held = scan.vars[inner.schema.ndim :]
    arguments: list[Argument] = []
    aggregates: list[tuple[AggregateCall, int]] = []
    made: dict[tuple[str, int], Var] = {}

    def folded(part: Part) -> Var:
        """A part, folded over the cells of the auxiliary view that a cell meets."""
        at, fn = parts[part], part[0] if part[0] in ("min", "max") else "sum"
        if (fn, at) not in made:
            one = AggregateCall(fn, (held[at],))
            aggregates.append((one, len(arguments)))
            arguments.append(Argument(held[at], None, fn == "sum", fn != "sum"))
            made[fn, at] = Var(f"\0f{len(made)}", one.type, True)
        return made[fn, at]

    keys = of.groups.vars[: len(of.keys)]
    items: list[tuple[str, Expr]] = [(v.name, v) for v in keys]
    for var, (aggregate, k) in zip(of.groups.vars[len(keys) :], of.aggregates, strict=True):
        items.append((var.name, _ended(aggregate, [folded(part) for part in _parts(of, aggregate, k)])))
    groups = Scan(GROUPS, GROUPS, (*keys, *made.values()))
    lifted = Project(groups, tuple(items))
    where = tuple(c for c in of.where if of.sources_of(c) <= {0})
    return replace(
        of,
        sources=(of.sources[0], inner.schema),
        scans=(of.scans[0], scan),
        hops=of.hops[:1],
        where=where,
        arguments=tuple(arguments),
        aggregates=tuple(aggregates),
        groups=groups,
        top=_over(of.top, of.groups, lifted),
        select=_over(of.select, of.groups, lifted),
        plain=None,
    )


def _ended(aggregate: AggregateCall, folded: list[Var]) -> Expr:
    """The aggregate, of its folded parts, in its own type."""
    if aggregate.fn == "count":
        return cast(call("coalesce", folded[0], cast(literal(0), HUGEINT)), BIGINT)
    if aggregate.fn == "avg":
        return call("/", cast(folded[0], DOUBLE), cast(folded[1], DOUBLE))
    return folded[0] if folded[0].type == aggregate.type else cast(folded[0], aggregate.type)


def _over(plan: Plan, old: Plan, new: Plan) -> Plan:
    """A plan with another leaf."""

    def change(node: Any) -> Any:
        return new if node is old else node.map_children(change) if isinstance(node, Plan) else node

    found: Plan = change(plan)
    return found


def every(of: Definition) -> Iterator[Definition]:
    """The definitions that a chain is kept by, the last array's first; itself alone if it has no auxiliary
    views."""
    found = apart(of)
    if found is None:
        yield of
        return
    yield from every(found[0])
    yield found[1]
