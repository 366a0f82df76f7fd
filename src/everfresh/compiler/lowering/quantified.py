"""ANY and ALL, and with them IN and NOT IN, as lookups of counts and extremes (docs/design/sql.md).

Membership of a value is decided by three counts: of the members, of NULLs among them, of those equal to it.
An ordering is decided by the least or greatest member. Row values are counted member by member: how many are
equal to the row, and how many are not certain to differ from it; a member differs for certain if it does in a
column that is NULL on neither side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from everfresh.algebra import Kind
from everfresh.calculus import Cond
from everfresh.compiler.lowering.aggregates import NotFlat
from everfresh.compiler.lowering.decorrelate import SOME, CorrelatedKey, Factors, close, total
from everfresh.compiler.lowering.products import MEMBER, Term, not_null
from everfresh.expr import Const, Expr, Made, Var, build
from everfresh.program import Side, component, side_component
from everfresh.sql.logical import plan as p
from everfresh.types import BIGINT, BOOLEAN

if TYPE_CHECKING:
    from everfresh.compiler.lowering.lower import Lowering, Rows, Scope

_ZERO = Const(0, BIGINT)
_TRUE, _FALSE, _UNKNOWN = (Const(v, BOOLEAN) for v in (True, False, None))
_MOST_COLUMNS = 4
_EXTREME = {
    ("<", False): "max",
    ("<=", False): "max",
    (">", False): "min",
    (">=", False): "min",
    ("<", True): "min",
    ("<=", True): "min",
    (">", True): "max",
    (">=", True): "max",
}


def quantified(
    lowering: Lowering, query: p.QuantifiedSubquery, rows: Rows, scope: Scope
) -> tuple[Factors, Expr]:
    """What a row looks up for a comparison with ANY or ALL, and its value over that."""
    plan = query.plan.input if isinstance(query.plan, p.Sort) else query.plan
    inner, links, gates = close(lowering, lowering.rows(plan, (*scope, rows)), (*scope, rows))
    over_nothing = _TRUE if query.all else _FALSE
    if not inner:
        return (lambda term: ()), over_nothing
    members = query.plan.variables
    if len(members) > 1:
        factors, value = _row(lowering, query, inner, links, members)
    elif query.op in ("=", "<>") and (query.op == "<>") == query.all:
        factors, value = _membership(lowering, query, inner, links, members[0])
    else:
        factors, value = _ordered(lowering, query, inner, links, members[0])
    if gates:
        value = build.case([(build.conjunction(gates), value)], over_nothing)
    return factors, value


def _present(rows: Rows, members: Sequence[Var]) -> Rows:
    """The rows in which these columns are not NULL."""
    for v in members:
        rows = tuple(
            Term((*t.factors, Cond(not_null(t.of(v)))), t.columns) if t.of(v).nullable else t for t in rows
        )
    return rows


def _counts(
    lowering: Lowering, inner: Rows, links: Sequence[CorrelatedKey], member: Var, hows: Sequence[str] = ()
) -> tuple[Factors, list[Expr]]:
    """Per key: whether there are members, whether one of them is NULL, and extremes."""
    linked = [(link.name, link.column) for link in links]
    apart = [n for n, _ in linked]
    nullable = any(t.of(member).nullable for t in inner)
    null = build.call("truth", build.call("is_null", member))
    name, by_name = lowering.define(
        inner,
        linked,
        [[null]] * len(inner) if nullable else None,
        (Kind.COUNT,) if nullable else (),
        apart=apart,
    )
    sides = []
    nulls = build.call(">", Var(component(1), BIGINT, False), _ZERO) if nullable else _FALSE
    values: list[Expr] = [SOME, nulls]
    if hows:
        beside, _ = lowering.define(
            _present(inner, [member]), [*linked, (MEMBER, member)], apart=[*apart, MEMBER]
        )
    for how in hows:
        sides.append(Side(beside, how))
        values.append(Var(side_component(len(sides), "x"), member.type, True))
    return total(lowering, name, links, by_name, values, tuple(sides))


def _membership(
    lowering: Lowering,
    query: p.QuantifiedSubquery,
    inner: Rows,
    links: tuple[CorrelatedKey, ...],
    member: Var,
) -> tuple[Factors, Expr]:
    """`= ANY` and `<> ALL` of one column."""
    (x,) = query.args
    equal, found = _equal(lowering, inner, links, [(member, x)], [SOME])
    if not x.nullable and not any(t.of(member).nullable for t in inner):
        return equal, build.call("not", found[0]) if query.all else found[0]
    counts, (some, nulls) = _counts(lowering, inner, links, member)
    unknown = build.disjunction([build.call("is_null", x), nulls])
    value = build.case([(build.call("not", some), _FALSE), (found[0], _TRUE), (unknown, _UNKNOWN)], _FALSE)
    return (
        lambda term: (*equal(term), *counts(term)),
        build.call("not", value) if query.all else value,
    )


def _equal(
    lowering: Lowering,
    inner: Rows,
    links: tuple[CorrelatedKey, ...],
    pairs: Sequence[tuple[Var, Expr]],
    values: Sequence[Expr],
    nulls: Sequence[Expr] = (),
) -> tuple[Factors, list[Expr]]:
    """Members that are equal to outer values in some columns: `values` over their count and over the counts
    of those where one of `nulls` holds."""
    tied = (*links, *(CorrelatedKey(Made(f"$m{i}"), v, a) for i, (v, a) in enumerate(pairs)))
    there = _present(inner, [v for v, _ in pairs])
    keys = [(link.name, link.column) for link in tied]
    kinds = (Kind.COUNT,) * len(nulls)
    items = [build.call("truth", e) for e in nulls]
    name, by_name = lowering.define(there, keys, [items] * len(there), kinds, apart=[n for n, _ in keys])
    return total(lowering, name, tied, by_name, values)


def _ordered(
    lowering: Lowering,
    query: p.QuantifiedSubquery,
    inner: Rows,
    links: tuple[CorrelatedKey, ...],
    member: Var,
) -> tuple[Factors, Expr]:
    """All other comparisons of one column."""
    (x,) = query.args
    hows = ["min", "max"] if query.op in ("=", "<>") else [_EXTREME[query.op, query.all]]
    factors, (some, nulls, *extremes) = _counts(lowering, inner, links, member, hows)
    # The comparison with the extremes decides: that all hold, or that one does.
    tests = [build.call(query.op, x, e) for e in extremes]
    decided = (
        build.disjunction([build.call("not", t) for t in tests]) if query.all else build.disjunction(tests)
    )
    over_nothing, verdict = (_TRUE, _FALSE) if query.all else (_FALSE, _TRUE)
    unknown = build.disjunction([build.call("is_null", x), nulls])
    value = build.case(
        [(build.call("not", some), over_nothing), (decided, verdict), (unknown, _UNKNOWN)], over_nothing
    )
    return factors, value


# -- row values --------------------------------------------------------------------------------------


def _row(
    lowering: Lowering,
    query: p.QuantifiedSubquery,
    inner: Rows,
    links: tuple[CorrelatedKey, ...],
    members: Sequence[Var],
) -> tuple[Factors, Expr]:
    """Row values: `=` is the conjunction of the columns' equalities, `<>` its negation."""
    if len(members) > _MOST_COLUMNS:
        raise NotFlat(f"row values of more than {_MOST_COLUMNS} columns")
    lookups, equal, perhaps = _likeness(lowering, query.args, inner, links, members)
    if (query.op == "<>") == query.all:  # IN and NOT IN
        some = build.call(">", equal, _ZERO), build.call(">", perhaps, _ZERO)
        value = build.case([(some[0], _TRUE), (some[1], _UNKNOWN)], _FALSE)
        negated = query.all
    else:
        counts, (n,) = _equal(lowering, inner, links, (), [Var(component(0), BIGINT, False)])
        lookups.append(counts)
        value = build.case(
            [(build.call("<", perhaps, n), _FALSE), (build.call("=", equal, n), _TRUE)], _UNKNOWN
        )
        negated = not query.all
    return (
        lambda term: tuple(f for lookup in lookups for f in lookup(term)),
        build.call("not", value) if negated else value,
    )


def many_columns(query: p.QuantifiedSubquery) -> bool:
    """Whether a row value has so many columns that a map for each set of them would be too much."""
    return len(query.args) > _MOST_COLUMNS


def by_existence(query: p.QuantifiedSubquery) -> Expr:
    """A comparison of row values by two questions: whether it is TRUE for a member, and whether for one it is
    not FALSE."""

    def exists(condition: Expr) -> Expr:
        return p.ExistsSubquery(p.Filter(query.plan, condition))

    equal = [build.call("=", v, a) for v, a in zip(query.plan.variables, query.args, strict=True)]
    same = build.conjunction([build.is_true(e) if e.nullable else e for e in equal])
    perhaps = build.conjunction([build.call("coalesce", e, _TRUE) if e.nullable else e for e in equal])
    inside = (query.op == "<>") == query.all  # IN and NOT IN; else `<> ANY` and `= ALL`
    true, false = (same, perhaps) if inside else (build.call("not", perhaps), build.call("not", same))
    value = build.case([(exists(true), _TRUE), (exists(false), _UNKNOWN)], _FALSE)
    return build.call("not", value) if query.all else value


def _likeness(
    lowering: Lowering,
    args: Sequence[Expr],
    inner: Rows,
    links: tuple[CorrelatedKey, ...],
    members: Sequence[Var],
) -> tuple[list[Factors], Expr, Expr]:
    """How many members are equal to a row, and how many are not certain to differ from it.

    A member is not certain to differ if in each column that the row has it is equal or NULL. For each set of
    columns one map, keyed by them, counts members by the other columns in which they are NULL; where the row
    has the columns F, the sets inside of F count, with NULLs in the rest of F.
    """
    every = range(len(members))
    missing = {i for i in every if any(t.of(members[i]).nullable for t in inner)}
    unasked = {i for i in every if args[i].nullable}
    lookups: list[Factors] = []
    counts: dict[tuple[frozenset[int], frozenset[int]], Expr] = {}
    for known in _subsets(every):
        rest = [i for i in every if i not in known]
        wanted = [null for null in _subsets(rest) if null <= missing and set(rest) - null <= unasked]
        if not wanted:
            continue
        nulls = [build.conjunction([build.call("is_null", members[i]) for i in sorted(w)]) for w in wanted]
        held = [(e, i) for i, e in enumerate(nulls) if wanted[i]]
        place = {i: k for k, (_, i) in enumerate(held, 1)}
        values: list[Expr] = [Var(component(place.get(i, 0)), BIGINT, False) for i in range(len(wanted))]
        pairs = [(members[i], args[i]) for i in sorted(known)]
        factors, found = _equal(lowering, inner, links, pairs, values, [e for e, _ in held])
        lookups.append(factors)
        counts.update({(known, null): e for null, e in zip(wanted, found, strict=True)})
    arms = []
    for absent in _subsets(sorted(unasked)):
        asked = frozenset(every) - absent
        parts = [e for (known, null), e in counts.items() if known | null == asked]
        total_ = parts[0]
        for part in parts[1:]:
            total_ = build.call("+", total_, part)
        when = [build.call("is_null", args[i]) for i in sorted(absent)]
        when += [not_null(args[i]) for i in sorted(unasked - absent)]
        arms.append((build.conjunction(when), total_))
    return lookups, counts[frozenset(every), frozenset()], build.case(arms, _ZERO)


def _subsets(items: Sequence[int]) -> Iterator[frozenset[int]]:
    for size in range(len(items) + 1):
        yield from map(frozenset, combinations(items, size))
