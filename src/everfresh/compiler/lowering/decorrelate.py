"""Correlated rows closed over: free variables become keys (rule 4 of section 3.1.5, decorrelation).

Two ways. If rows are tied to the outer query by equalities alone, `inner = outer`, the inner sides are keys,
and the outer query looks its sides up. Otherwise the rows are joined with the *domain* of the free variables:
the combinations that occur in the outer query, a relation of its own. Both make a total function of the
outer values that is looked up, or a relation that is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everfresh.calculus import Bind, Cond, Query, Rel, inputs
from everfresh.compiler.lowering.products import Term, names, not_null, settle
from everfresh.expr import Call, Const, Expr, Made, Var, build, variables
from everfresh.program import Side, component
from everfresh.types import BIGINT

if TYPE_CHECKING:
    from everfresh.compiler.lowering.lower import Lowering, Rows, Scope


@dataclass(frozen=True, slots=True)
class CorrelatedKey:
    """A key of correlated rows: a column of theirs, and what it is looked up by in the outer query."""

    name: str
    column: Expr
    outer: Expr
    strict: bool = False
    """Whether no key is NULL, since `=` ties it to the outer query."""

    def misses(self, term: Term) -> bool:
        """Whether a term of the outer query finds nothing by this key, since it has NULL there."""
        return self.strict and term.of(self.outer) == Const(None, self.outer.type)

    def factor(self, var: Var, term: Term | None = None) -> Query:
        """Tie a variable of a relation to the outer query; the keys hold no NULL that `=` would match."""
        return Bind(var, self.outer if term is None else term.of(self.outer))


Factors = Callable[[Term], tuple[Query, ...]]
"""What a term looks up."""
SOME = build.call(">", Var(component(0), BIGINT, False), Const(0, BIGINT))
"""Whether a map has an entry."""
Closed = tuple["Rows", tuple[CorrelatedKey, ...], tuple[Expr, ...]]


def close(lowering: Lowering, rows: Rows, scope: Scope, *, gated: bool = True) -> Closed:
    """Rows without free variables, the keys that replace them, and (if `gated`) the conditions on the outer
    query alone, which are left out of them."""
    rows, gates = _gates(rows) if gated else (rows, ())
    if not any(t.free() for t in rows):
        return rows, (), gates
    found = _by_equality(rows)
    if found is None:
        found = _by_domain(lowering, rows, scope)
    return (*found, gates)


def _gates(rows: Rows) -> tuple[Rows, tuple[Expr, ...]]:
    """Conditions over free variables only, which all terms have: they decide outside."""

    def outside(term: Term) -> list[Expr]:
        free = term.free()
        return [
            f.condition
            for f in term.factors
            if isinstance(f, Cond)
            and variables(f.condition)
            and all(v.name in free for v in variables(f.condition))
        ]

    if not rows:
        return rows, ()
    shared = [c for c in outside(rows[0]) if all(c in outside(t) for t in rows[1:])]
    kept = tuple(
        replace(t, factors=tuple(f for f in t.factors if not (isinstance(f, Cond) and f.condition in shared)))
        for t in rows
    )
    return kept, tuple(shared)


def _by_equality(rows: Rows) -> tuple[Rows, tuple[CorrelatedKey, ...]] | None:
    """Keys from equalities, if every term has the same outer sides and mentions free variables nowhere
    else."""
    pairs = [_equalities(term) for term in rows]
    if any(found is None for found in pairs):
        return None
    sides = [list(dict.fromkeys(outer for outer, _ in found)) for found in pairs if found is not None]
    if any(set(side) != set(sides[0]) for side in sides):
        return None
    closed = []
    for term, found in zip(rows, pairs, strict=True):
        assert found is not None
        ties = {Cond(c) for c in _ties(term)}
        factors: list[Query] = [f for f in term.factors if f not in ties]
        columns = dict(term.columns)
        for i, outer in enumerate(sides[0]):
            inner = [e for o, e in found if o == outer]
            columns[_key(i)] = inner[0]
            if inner[0].nullable:
                factors.append(Cond(not_null(inner[0])))
            factors += [Cond(build.call("=", inner[0], other)) for other in inner[1:]]
        closed.append(Term(tuple(factors), columns))
    links = []
    for i, outer in enumerate(sides[0]):
        links.append(CorrelatedKey(_key(i), Var(_key(i), outer.type, True), outer, strict=True))
    return tuple(closed), tuple(links)


def _key(i: int) -> str:
    """The name of the column by which a query is tied to the one around it."""
    return Made(f"${i}")


def _ties(term: Term) -> list[Expr]:
    free = term.free()
    return [
        f.condition
        for f in term.factors
        if isinstance(f, Cond) and any(v.name in free for v in variables(f.condition))
    ]


def _equalities(term: Term) -> list[tuple[Expr, Expr]] | None:
    """`(outer, inner)` of each condition with free variables; None if one is used in another way."""
    free = set(term.free())
    elsewhere = [v for f in term.factors if not isinstance(f, Cond) for v in inputs(f)]
    elsewhere += [v for e in term.columns.values() for v in variables(e)]
    if any(v.name in free for v in elsewhere):
        return None
    found = []
    for condition in _ties(term):
        if not (isinstance(condition, Call) and condition.op == "="):
            return None
        sides = sorted(condition.args, key=lambda e: not _only(e, free))
        outer, inner = sides
        if not _only(outer, free) or any(v.name in free for v in variables(inner)):
            return None
        if not variables(inner) or inner.type != outer.type:
            return None
        found.append((outer, inner))
    return found


def _only(expr: Expr, free: set[str]) -> bool:
    used = variables(expr)
    return bool(used) and all(v.name in free for v in used)


def _by_domain(lowering: Lowering, rows: Rows, scope: Scope) -> tuple[Rows, tuple[CorrelatedKey, ...]]:
    free, closed = within_domain(lowering, rows, scope)
    links = [CorrelatedKey(_key(i), Var(_key(i), v.type, v.nullable), v) for i, v in enumerate(free)]
    return closed, tuple(links)


def within_domain(
    lowering: Lowering, rows: Rows, scope: Scope, *, exact: bool = False
) -> tuple[tuple[Var, ...], Rows]:
    """The free variables of rows, and these joined with the domain of them, which are keys."""
    free = tuple({name: var for term in rows for name, var in term.free().items()}.values())
    if not free:
        return free, rows
    atom = Rel(domain(lowering, free, scope, exact=exact), free)
    keys: dict[str, Expr] = {_key(i): var for i, var in enumerate(free)}
    closed = (settle(Term((atom, *t.factors), {**t.columns, **keys}), lowering.fresh) for t in rows)
    return free, tuple(t for t in closed if t is not None)


def domain(lowering: Lowering, free: tuple[Var, ...], scope: Scope, *, exact: bool = False) -> str:
    """The relation of the combinations of some outer variables that occur, and perhaps (if not `exact`) of
    others."""
    if not scope:
        raise AssertionError(f"{', '.join(v.name for v in free)} not bound by any query")
    outer = scope[-1] if exact else tuple(_coarse(lowering, t, free) for t in scope[-1])
    needed = {v.name: v for v in free if not all(v.name in t.columns for t in outer)}
    for term in outer:
        needed.update(term.free())
    if needed:
        inherited = domain(lowering, tuple(needed.values()), scope[:-1], exact=exact)
        atom = Rel(inherited, tuple(needed.values()))
        outer = tuple(Term((atom, *t.factors), {**t.columns, **needed}) for t in outer)
    name, by_name = lowering.define(outer, [(v.name, v) for v in free])
    relation = lowering.relate(name, [(v.name, by_name[v.name]) for v in free])
    return relation.name


def _coarse(lowering: Lowering, term: Term, free: tuple[Var, ...]) -> Term:
    """A term with perhaps more rows, without the lookups that the free variables do not need: a domain may be
    too large, and then changes less often."""
    columns = {v.name: term.columns[v.name] for v in free if v.name in term.columns}
    needed = {v.name for e in columns.values() for v in variables(e)}
    factors = list(term.factors)
    always = lowering.always
    gone: set[str] = set()
    for atom in [f for f in factors if isinstance(f, Rel) and f.name in always]:
        values = {v.name for v in atom.vars[always[atom.name] :]}
        others = [f for f in factors if f is not atom]
        read = names(others) | {v.name for f in others if isinstance(f, Bind) for v in inputs(f)}
        if not values & (needed | read):
            factors.remove(atom)
            gone |= values
    factors = [f for f in factors if not (isinstance(f, Cond) and gone & {v.name for v in inputs(f)})]
    used = (
        needed
        | names(f for f in factors if isinstance(f, Rel))
        | {v.name for f in factors for v in inputs(f)}
    )
    factors = [f for f in factors if not (isinstance(f, Bind) and f.var.name not in used)]
    return Term(tuple(factors), columns)


# -- looking up --------------------------------------------------------------------------------------


def tied(links: Sequence[CorrelatedKey], vars_: Sequence[Var], term: Term) -> tuple[Query, ...]:
    """How the first variables of a relation are tied to a term."""
    return tuple(link.factor(var, term) for link, var in zip(links, vars_, strict=False))


def total(
    lowering: Lowering,
    map_name: str,
    links: Sequence[CorrelatedKey],
    keys: dict[str, Var],
    values: Sequence[Expr],
    sides: tuple[Side, ...] = (),
) -> tuple[Factors, list[Expr]]:
    """A relation with a row for every key: how a term looks it up, and the variables of its values."""
    columns: list[tuple[str, Expr]] = [(link.name, keys[link.name]) for link in links]
    columns += [(f"v{i}", e) for i, e in enumerate(values)]
    held = lowering.map(map_name).keys
    assert [v.name for v in held] == [keys[link.name].name for link in links], "a link without its own key"
    view = lowering.relate(map_name, columns, always=True, sides=sides)
    atom, _ = lowering.atom(view, links)

    def factors(term: Term) -> tuple[Query, ...]:
        return (*tied(links, atom.vars, term), atom)

    return factors, list(atom.vars[len(links) :])
