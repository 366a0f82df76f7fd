"""Random legal queries of the calculus, random databases, and results as mappings.

A variable has one type throughout. Every query is closed, and every variable that a `Sum` sums over is new
to it, as `spec.check` demands.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from everfresh.algebra import Gmr, Weight
from everfresh.calculus import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Database,
    Exists,
    Lift,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    evaluate,
    outputs,
)
from everfresh.expr import Const, Expr, Var, build
from everfresh.types import BIGINT, BOOLEAN, DOUBLE, NAN, VARCHAR, Column

INTS = {name: Var(name, BIGINT) for name in ("x", "y", "z", "u")}
VARS = {**INTS, "d": Var("d", DOUBLE), "e": Var("e", DOUBLE), "s": Var("s", VARCHAR)}
COLUMNS: dict[str, tuple[Column, ...]] = {
    "R": (Column("a", BIGINT), Column("b", BIGINT)),
    "S": (Column("b", BIGINT), Column("c", BIGINT)),
    "T": (Column("a", BIGINT),),
    "F": (Column("a", BIGINT), Column("d", DOUBLE)),
    "W": (Column("s", VARCHAR), Column("a", BIGINT)),
}
DOMAIN: dict[str, list[Any]] = {
    "BIGINT": [None, 0, 1], "DOUBLE": [None, 0.5, NAN], "VARCHAR": [None, "a"],
}  # fmt: skip

# -- databases -----------------------------------------------------------------------------------------


def relation(name: str, most: int = 6) -> st.SearchStrategy[Gmr]:
    row = st.tuples(*(st.sampled_from(DOMAIN[c.type.name]) for c in COLUMNS[name]))
    weight = st.sampled_from([1, 1, 1, 2, -1, 3, -2]).map(lambda m: (m,))
    return st.lists(st.tuples(row, weight), min_size=1, max_size=most).map(Gmr)


TABLES = st.fixed_dictionaries({name: relation(name) for name in COLUMNS})
CHANGES = st.fixed_dictionaries({name: relation(name, 3) for name in COLUMNS})


def added(tables: dict[str, Gmr], change: dict[str, Gmr]) -> dict[str, Gmr]:
    result = {name: table.copy() for name, table in tables.items()}
    for name, delta in change.items():
        result[name].update(delta)
    return result


# -- results -------------------------------------------------------------------------------------------

Result = dict[frozenset[tuple[str, Any]], Weight]


def result(query: Query, db: Database, k: int) -> Result:
    """The result by variable name, with weights of arity k: without value terms the count is all of them."""
    names = [v.name for v in outputs(query)]
    found: Result = {}
    for key, weight in evaluate(query, db).items():
        wide = weight if len(weight) == k + 1 else (weight[0],) * (k + 1)
        if any(wide):
            found[frozenset(zip(names, key, strict=True))] = wide
    return found


def plus(a: Result, b: Result) -> Result:
    total = dict(a)
    for key, weight in b.items():
        total[key] = tuple(x + y for x, y in zip(total.get(key, (0,) * len(weight)), weight, strict=True))
    return {key: weight for key, weight in total.items() if any(weight)}


# -- queries -------------------------------------------------------------------------------------------

Bound = frozenset[str]


def _const(value: Any) -> Const:
    return Const(value, BIGINT)


class Queries:
    """A generator of queries; `flat` leaves out lifts and Exists, `dull` has more of what simplifies away."""

    def __init__(self, draw: Any, *, flat: bool = False, dull: bool = False) -> None:
        self.dull = dull
        self.draw = draw
        self.flat = flat

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def query(self, bound: Bound, depth: int, k: int) -> Query:
        """A query whose inputs are all in `bound`."""
        if depth <= 0:
            return self.atom(bound, k)
        kinds = ["product", "product", "product", "plus", "neg", "sum", "sum", "atom"]
        kinds += [] if self.flat else ["lift", "closed", "exists"]
        kind = self.pick([*kinds, *(["renaming", "renaming", "renaming"] if self.dull else [])])
        return getattr(self, kind)(bound, depth, k) if kind != "atom" else self.atom(bound, k)

    def atom(self, bound: Bound, k: int) -> Query:
        kind = self.pick(
            [
                *["rel"] * 12,
                *["bind"] * 4,
                *["one", "zero"] * (4 if self.dull else 1),
                *["cond"] * (8 if self.dull else 3),
                *["value"] * (4 if k else 0),
            ]
        )
        if kind == "rel":
            return self.rel()
        if kind == "bind":
            return self.bind(bound)
        if kind == "cond":
            return Cond(self.condition(bound))
        if kind == "value":
            return Value(tuple(self.number(bound) for _ in range(k)))
        return ONE if kind == "one" else ZERO

    def rel(self) -> Query:
        name = self.pick(["R", "R", "S", "S", "T", "F", "W"])
        return Rel(
            name, tuple(self.pick(v for v in VARS.values() if v.type == c.type) for c in COLUMNS[name])
        )

    def integer(self, bound: Bound) -> Expr:
        here = [v for n, v in INTS.items() if n in bound]
        if not here or self.draw(st.booleans()):
            return _const(self.pick([None, 0, 1]))
        var = self.pick(here)
        return self.pick([var, var, build.call("coalesce", var, _const(1)), build.call("+", var, _const(1))])

    def bind(self, bound: Bound) -> Query:
        doubles = [v for n, v in VARS.items() if n in bound and v.type == DOUBLE]
        if doubles and self.draw(st.booleans()):
            return Bind(self.pick([VARS["d"], VARS["e"]]), self.pick(doubles))
        expr = self.integer(bound)
        var = self.pick(INTS.values())
        return Bind(var, expr if expr.type == BIGINT else build.cast(expr, BIGINT))

    def condition(self, bound: Bound) -> Expr:
        kind = self.pick(
            ["=", "<=", "<>", "is_not_distinct", "null", "constant", *["and"] * (4 if self.dull else 1)]
        )
        if kind == "constant":
            return Const(self.pick([True, True, True, False, None]), BOOLEAN)
        if kind == "null":
            return build.call("is_null", self.integer(bound))
        if kind == "and":
            return build.call("and", self.condition(bound), self.condition(bound))
        return build.call(kind, self.integer(bound), self.integer(bound))

    def number(self, bound: Bound) -> Expr:
        """A value that is never NULL, an integer or a finite double."""
        doubles = [v for n, v in VARS.items() if n in bound and v.type == DOUBLE]
        if doubles and self.draw(st.booleans()):
            return build.call("finite_or_zero", self.pick(doubles))
        return build.call("if_null_zero", self.integer(bound))

    def product(self, bound: Bound, depth: int, k: int) -> Query:
        factors: list[Query] = []
        for _ in range(self.draw(st.integers(1, 3))):
            factor = self.query(bound, depth - 1, k)
            if self.dull and self.draw(st.integers(0, 3)) == 0:
                factor = Neg(factor)
            factors.append(factor)
            bound |= {v.name for v in outputs(factor)}
        return Prod(tuple(factors))

    def plus(self, bound: Bound, depth: int, k: int) -> Query:
        first = self.query(bound, depth - 1, k)
        rest = [self.shaped(outputs(first), bound, depth - 1, k) for _ in range(self.draw(st.integers(0, 2)))]
        return Plus(tuple(self.draw(st.permutations([first, *rest]))))

    def shaped(self, columns: tuple[Var, ...], bound: Bound, depth: int, k: int) -> Query:
        """A query with exactly these outputs."""
        query = self.query(bound, depth, k)
        names = {v.name for v in columns}
        found = {v.name for v in outputs(query)}
        if found - names:
            # what is summed over must be new, so what the context binds stays, and is bound by the others too
            if (found - names) & bound:
                query = self.rel_over(columns) or ONE
                found = {v.name for v in outputs(query)}
            else:
                query = Sum(tuple(v for v in columns if v.name in found), query)
        missing = [v for v in columns if v.name not in found]
        binds = [Bind(v, Const(self.pick(DOMAIN[v.type.name]), v.type)) for v in missing]
        return Prod((query, *binds)) if binds else query

    def rel_over(self, columns: tuple[Var, ...]) -> Query | None:
        for name, shape in COLUMNS.items():
            chosen = [next((v for v in columns if v.type == c.type), None) for c in shape]
            if all(chosen):
                return Rel(name, tuple(v for v in chosen if v is not None))
        return None

    def neg(self, bound: Bound, depth: int, k: int) -> Query:
        return Neg(self.query(bound, depth - 1, k))

    def sum(self, bound: Bound, depth: int, k: int) -> Query:
        body = self.query(bound, depth - 1, k)
        group = [v for v in outputs(body) if v.name in bound or self.draw(st.booleans())]
        if bound and self.draw(st.integers(0, 9)) == 0:  # a group variable may come from outside
            extra = VARS[self.pick(sorted(bound))]
            group = [*group, *([] if extra in group else [extra])]
        return Sum(tuple(self.draw(st.permutations(group))), body)

    def renaming(self, bound: Bound, depth: int, k: int) -> Query:
        """An aggregate in which one variable is bound to another, before or after a use of either."""
        body = self.query(bound, depth - 1, k)
        names = {v.name for v in outputs(body)}
        inner = [v for v in INTS.values() if v.name in names]
        if not inner:
            return body
        new = [v for v in INTS.values() if v.name not in bound] or list(INTS.values())
        factors: list[Query] = [Bind(self.pick(new), self.pick(inner))]
        for _ in range(self.draw(st.integers(0, 2))):
            here = bound | names | {v.name for f in factors for v in outputs(f)}
            factors.append(self.pick([Cond(self.condition(here)), self.bind(here), self.atom(here, k)]))
        made = Prod((body, *factors))
        group = [v for v in outputs(made) if v.name in bound or self.draw(st.booleans())]
        return Sum(tuple(group), made)

    def lift(self, bound: Bound, depth: int, _k: int) -> Query:
        var = self.pick([*INTS.values(), VARS["d"]])
        return Lift(var, self.query(bound, depth - 1, self.draw(st.integers(0, 1))))

    def closed(self, bound: Bound, depth: int, _k: int) -> Query:
        body = self.query(bound, depth - 1, self.draw(st.integers(0, 1)))
        if {v.name for v in outputs(body)} & bound:
            body = ONE
        if self.dull and self.draw(st.integers(0, 2)) == 0:
            body = ZERO
        return Lift(self.pick([*INTS.values(), VARS["d"]]), Sum((), body), closed=True)

    def exists(self, bound: Bound, depth: int, _k: int) -> Query:
        return Exists(self.query(bound, depth - 1, self.draw(st.integers(0, 2))))


@st.composite
def queries(draw: Any, depth: int = 3, flat: bool = False, dull: bool = False) -> tuple[Query, int]:
    """A closed query and the arity of its weights."""
    k = draw(st.integers(0, 2))
    made = Queries(draw, flat=flat, dull=dull)
    shape = made.renaming if dull and draw(st.booleans()) else made.product
    return shape(frozenset(), depth, k), k
