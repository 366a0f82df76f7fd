"""Products that begin with a change: what they ask of it first, what they read of it after that, and the
same products over what is left of the change then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everfresh.calculus import Cond, MapRef, Neg, Plus, Prod, Query, Rel, Sum, Value, arity
from everfresh.distributed.plan.ir import Temp
from everfresh.expr import Const, Expr, Made, Var, substitute


@dataclass(frozen=True, slots=True)
class LeadingTerm:
    """A summed product that begins with a change: its group, the atom, the conditions right behind it, the
    rest."""

    group: tuple[Var, ...]
    atom: Rel
    conditions: tuple[Expr, ...]
    rest: tuple[Query, ...]
    columns: tuple[Var, ...]
    """The columns of the change that the variables of the atom stand for, as variables."""

    def _over(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        by: dict[str, Expr] = {v.name: c for v, c in zip(self.atom.vars, self.columns, strict=True)}
        return tuple(substitute(expr, by) for expr in exprs)

    def asked(self) -> tuple[Expr, ...]:
        """The conditions over the columns of the change."""
        return self._over(self.conditions)

    def values(self) -> tuple[Expr, ...]:
        """The values over the columns of the change, if they may be added up before maps are read."""
        *others, last = self.rest or (None,)
        own = {v.name for v in self.atom.vars}
        if not isinstance(last, Value) or any(arity(f) for f in others if f is not None):
            return ()
        if not all(isinstance(e, Const) or (isinstance(e, Var) and e.name in own) for e in last.items):
            return ()
        return self._over(last.items)

    def needed(self, asked: int, summed: bool) -> set[int]:
        """The places of the columns that are read once the first conditions have been asked."""
        later = [*self.group, *self.conditions[asked:], *(self.rest[:-1] if summed else self.rest)]
        read = {n.name for part in later for n in part.walk() if isinstance(n, Var)}
        return {place for place, v in self.atom.at().items() if v.name in read}

    def after(self, temp: Temp, places: Sequence[int], asked: int) -> Query:
        """The same of what is handed on."""
        atom: Query = self.atom.over(temp.name, places)
        rest = self.rest
        if temp.kinds:
            known = self.atom.at()
            keys = tuple(known.get(place) or _unread(temp, i) for i, place in enumerate(places))
            atom, rest = MapRef(temp.name, keys, tuple(range(len(temp.kinds) + 1))), rest[:-1]
        return Sum(self.group, Prod((atom, *map(Cond, self.conditions[asked:]), *rest)))


def columns_of(temp: Temp, atom: Rel | None = None) -> tuple[Var, ...]:
    """The columns of a temporary as variables; with an atom over it, those that this reads."""
    columns = temp.columns if atom is None else [temp.columns[place] for place in atom.places]
    return tuple(Var(c.name, c.type, c.nullable) for c in columns)


def _unread(temp: Temp, place: int) -> Var:
    """A variable for a column that nothing else of a product reads: no other is called like it."""
    column = temp.columns[place]
    return Var(Made(f"{column.name}~unread"), column.type, column.nullable)


def terms_of(query: Query, temp: Temp) -> list[LeadingTerm | None]:
    """The products of a query; None for one that does not begin with the change, or reads it elsewhere."""
    match query:
        case Plus(terms):
            return [t for term in terms for t in terms_of(term, temp)]
        case Neg(body):
            return terms_of(body, temp)
        case Sum(group, Plus(terms)):
            return [t for term in terms for t in terms_of(Sum(group, term), temp)]
        case Sum(group, Neg(body)):
            return terms_of(Sum(group, body), temp)
        case Sum(group, Prod((Rel(name, vars_, True) as atom, *behind))) if name == temp.name:
            count = next((i for i, f in enumerate(behind) if not isinstance(f, Cond)), len(behind))
            rest = tuple(behind[count:])
            plain = len({v.name for v in vars_}) == len(vars_)
            if plain and not any(isinstance(n, Rel) and n.name == name for f in rest for n in f.walk()):
                conditions = tuple(f.condition for f in behind[:count] if isinstance(f, Cond))
                return [LeadingTerm(group, atom, conditions, rest, columns_of(temp, atom))]
    return [None]


def over(query: Query, temp: Temp, made: Temp, places: Sequence[int], asked: int) -> Query:
    """A query over a change as one over `made`: the columns of the change at these places, once the first
    conditions have been asked."""
    match query:
        case Plus(terms):
            return Plus(tuple(over(t, temp, made, places, asked) for t in terms))
        case Neg(body):
            return Neg(over(body, temp, made, places, asked))
        case Sum(group, Plus(terms)):
            inner = [over(Sum(group, t), temp, made, places, asked) for t in terms]
            return Sum(group, Plus(tuple(q.body for q in inner)))  # type: ignore[attr-defined]
        case Sum(group, Neg(body)):
            inner_ = over(Sum(group, body), temp, made, places, asked)
            return Sum(group, Neg(inner_.body))  # type: ignore[attr-defined]
    (term,) = terms_of(query, temp)
    assert term is not None
    return term.after(made, places, asked)
