"""Rows of a plan in the calculus: a sum of products of atoms, conditions and bindings, with each column of
the plan as an expression over the variables of a product.

Equalities are unified (section 3.2.1 of the thesis): `[x = y]` over two atoms makes x and y one variable.
SQL's `=` is unknown on NULL, while a shared variable compares by identity; so a guard `[x IS NOT NULL]`
remains, unless neither can be NULL. An equality with a computed side becomes a binding, `(y := e)`, which is
compared by identity too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from everfresh.calculus import ZERO, Bind, Cond, Each, MapRef, Query, Rel, Value, inputs, outputs, rename
from everfresh.compiler.passes.partial import PARTIAL
from everfresh.expr import FOLD, Call, Const, Expr, Made, Var, build, substitute, variables
from everfresh.rewrite import rewrite
from everfresh.sql.logical.conditions import conjuncts


@dataclass(frozen=True, slots=True)
class Term:
    """One product: its factors in any order, and what the plan's columns are over its variables."""

    factors: tuple[Query, ...]
    columns: Mapping[str, Expr]

    def of(self, expr: Expr) -> Expr:
        """An expression over the plan's columns as one over the variables of the product."""
        return rewrite(substitute(expr, dict(self.columns)), FOLD)

    def may(self, conditions: Iterable[Expr]) -> bool:
        """Whether conditions over the plan's columns can all be TRUE, as far as their constants say."""
        known = {n for n, e in self.columns.items() if isinstance(e, Const)}
        some = (c for c in conditions if any(v.name in known for v in variables(c)))
        return all(not isinstance(e := self.of(c), Const) or e.value is True for c in some)

    def bound(self) -> set[str]:
        """The names of the variables that the factors bind."""
        return names(self.factors)

    def free(self) -> dict[str, Var]:
        """The variables that must come from outside, by name."""
        bound = self.bound()
        used = [v for f in self.factors for v in inputs(f)]
        used += [v for e in self.columns.values() for v in variables(e)]
        return {v.name: v for v in used if v.name not in bound}


def names(factors: Iterable[Query]) -> set[str]:
    """The names of the variables that factors bind."""
    return {v.name for f in factors for v in outputs(f)}


def atoms(factors: Iterable[Query]) -> list[Rel | MapRef]:
    """The relations and maps among factors."""
    return [f for f in factors if isinstance(f, Rel | MapRef)]


def atom_vars(atom: Rel | MapRef) -> tuple[Var, ...]:
    """The variables of a relation atom or of a map read."""
    return atom.vars if isinstance(atom, Rel) else atom.keys


def not_null(expr: Expr) -> Expr:
    """`expr IS NOT NULL`."""
    return build.call("not", build.call("is_null", expr))


MEMBER = Made("$x")
"""The key that holds the values of an extreme, or of what a query is asked for."""


def readable(name: str) -> str:
    """A name to show: without the mark of one that the compiler made."""
    return name.lstrip("$") if isinstance(name, Made) else name


@dataclass
class Fresh:
    """Names that are not taken yet."""

    taken: set[str] = field(default_factory=set)

    def name(self, wanted: str) -> str:
        """`wanted`, or it with a number behind it."""
        found, i = wanted, 1
        while found in self.taken:
            found, i = type(wanted)(f"{wanted}_{i}"), i + 1
        self.taken.add(found)
        return found

    def var(self, wanted: str, like: Expr) -> Var:
        """A new variable of an expression's type."""
        return Var(self.name(wanted), like.type, like.nullable)


def settle(term: Term, fresh: Fresh) -> Term | None:
    """The term in simplest form: conditions folded and taken apart, equalities unified; None if it is
    empty."""
    parts: list[Query] = []
    for factor in term.factors:
        if isinstance(factor, Cond):
            condition = rewrite(factor.condition, FOLD)
            for part in conjuncts(condition):
                if isinstance(part, Const):
                    if part.value is not True:
                        return None
                else:
                    parts.append(Cond(part))
        elif isinstance(factor, Bind):
            parts.append(rewrite(factor, PARTIAL))
        else:
            parts.append(factor)
    parts = list(dict.fromkeys(parts)) if not _repeated(parts) else parts
    columns = dict(term.columns)
    index = 0
    while index < len(parts):
        found = _unify(parts, index, fresh)
        if found is None:
            index += 1
            continue
        parts, renaming = found
        columns = {n: substitute(e, dict(renaming)) for n, e in columns.items()}
        index = 0
        folded = [rewrite(f, PARTIAL) if isinstance(f, Cond) else f for f in parts]
        if ZERO in folded:
            return None
    return Term(tuple(parts), {n: rewrite(e, FOLD) for n, e in columns.items()})


def _repeated(parts: list[Query]) -> bool:
    """Whether an atom comes twice: R * R is not R."""
    found = atoms(parts)
    return len(set(found)) != len(found)


Found = tuple[list[Query], dict[str, Var]]


def _unify(parts: list[Query], index: int, fresh: Fresh) -> Found | None:
    """One step of unification at `parts[index]`: the other factors, and how variables are renamed."""
    factor, rest = parts[index], parts[:index] + parts[index + 1 :]
    if isinstance(factor, Bind):
        return _unify_bind(factor, rest)
    if not (isinstance(factor, Cond) and isinstance(factor.condition, Call) and factor.condition.op == "="):
        return None
    x, y = factor.condition.args
    if x.type != y.type or not _apart(x, y, rest):
        return None
    if isinstance(x, Var) and isinstance(y, Var):
        if _same_atom(x, y, rest):
            return None
        keep, gone = (x, y) if x.nullable or not y.nullable else (y, x)
        renamed = [rename(f, {gone.name: keep}) for f in rest]
        guard = [Cond(not_null(keep))] if keep.nullable else []
        return [*renamed, *guard], {gone.name: keep}
    if isinstance(x, Var):
        x, y = y, x
    guard = [Cond(not_null(e)) for e in (x, y) if e.nullable]
    if isinstance(y, Var):
        return [*rest, *guard, Bind(y, x)], {}
    k = Var(fresh.name("k"), x.type, False)
    return [*rest, *guard, Bind(k, x), Bind(k, y)], {}


def _apart(x: Expr, y: Expr, rest: list[Query]) -> bool:
    """Whether two sides of an equality belong to different atoms, all of them bound."""
    sides = [{v.name for v in variables(e)} for e in (x, y)]
    if not all(sides) or sides[0] & sides[1]:
        return False
    holders = [
        {i for i, f in enumerate(rest) if isinstance(f, _BINDING) and side & names([f])} for side in sides
    ]
    bound = names(f for f in rest if isinstance(f, _BINDING))
    return all(holders) and not holders[0] & holders[1] and sides[0] <= bound and sides[1] <= bound


_BINDING = Rel | MapRef | Each
"""What gives its variables values of its own."""


def _same_atom(x: Var, y: Var, rest: list[Query]) -> bool:
    return any({x.name, y.name} <= names([f]) for f in rest if isinstance(f, _BINDING))


def _unify_bind(factor: Bind, rest: list[Query]) -> Found | None:
    """`x := y` makes x and y one variable, if some atom binds y and none holds both."""
    x, y = factor.var, factor.expr
    if not isinstance(y, Var) or x.type != y.type:
        return None
    if x.name == y.name:
        return rest, {}
    if y.name not in names(rest) or _same_atom(x, y, rest):
        return None
    keep, gone = (x, y) if x.nullable and not y.nullable and x.name in names(atoms(rest)) else (y, x)
    return [rename(f, {gone.name: keep}) for f in rest], {gone.name: keep}


def arrange(factors: Iterable[Query], always: Mapping[str, int]) -> list[Query]:
    """Factors in an order in which each finds its variables bound, and atoms meet as many as they can.

    `always` says of each relation that can only be looked up how many of its first variables are its keys.
    """
    left = list(factors)
    wanted = names(atoms(left))
    late = [f for f in left if isinstance(f, Bind) and not inputs(f) and f.var.name not in wanted]
    left = [f for f in left if f not in late]  # constants that no atom asks for come last
    bound: dict[str, int] = {}  # how many joins it took to bind a variable
    done: list[Query] = []
    while left:
        best = min(range(len(left)), key=lambda i: (_rank(left[i], bound, always), i))
        if _rank(left[best], bound, always)[0] == _NEVER:
            raise ValueError(f"variables of {left[best]} are not bound")
        factor = left.pop(best)
        done.append(factor)
        found = names([factor])
        depth = _depth(factor, bound) + isinstance(factor, Rel | MapRef)
        bound.update({name: depth for name in found if name not in bound})
    values = [f for f in done if isinstance(f, Value)]
    return [*(f for f in done if f not in values), *late, *values]


def _depth(factor: Query, bound: Mapping[str, int]) -> int:
    """How far from the change the nearest variable is by which a factor is reached."""
    used = names([factor]) | {v.name for v in inputs(factor)}
    return min((bound[name] for name in used if name in bound), default=0)


_NEVER = 9


def _rank(factor: Query, bound: Mapping[str, int], always: Mapping[str, int]) -> tuple[int, int, int]:
    """How early a factor should come, given what is bound: less is earlier.

    Of the atoms that are joined, one that the change itself leads to comes first: what lies further away has
    as many entries as all the rows on the way have.
    """
    if isinstance(factor, Rel | MapRef):
        vars_ = [v.name for v in atom_vars(factor)]
        if isinstance(factor, Rel) and factor.delta:
            return 0, 0, 0
        needed = set(vars_[: always.get(factor.name, 0)])
        if not needed <= set(bound):
            return _NEVER, 0, 0
        unbound = len(set(vars_) - set(bound))
        if not unbound or factor.name in always:
            return 2, 0, unbound
        return (3, _depth(factor, bound), unbound) if set(vars_) & set(bound) else (5, 0, unbound)
    if {v.name for v in inputs(factor)} - set(bound):
        return _NEVER, 0, 0
    if isinstance(factor, Cond | Bind) or (isinstance(factor, Each) and names([factor]) <= set(bound)):
        return 1, 0, 0
    return 4, 0, 0  # values, sums of their own, and lists that are taken apart
