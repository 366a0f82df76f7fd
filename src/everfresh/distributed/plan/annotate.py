"""Well-formed statements: transformers where operands do not lie together (section 5.2).

A product starts from its change. Each next atom is joined where it lies: if what has been joined so far is
elsewhere, that is moved there (by the columns of the atom's partitioning where they are bound, else to every
worker), summed to what is still read. Stored maps and tables never move. At the end the result goes to where
the target map is.

    M(A)@[A] += Sum_[A](ΔR(A, B)@random * M2(A, B)@[B])
             => Repart_[A](Sum_[A](Repart_[B](ΔR(A, B)) * M2(A, B)))
"""

from __future__ import annotations

from collections.abc import Sequence

from everfresh.calculus import Bind, Each, Prod, Query, Rel, Sum, inputs, outputs
from everfresh.calculus.nodes import MapRef
from everfresh.distributed.plan.located import (
    AtomTag,
    Move,
    NotWellFormed,
    changes,
    equal_names,
    is_scalar,
    joined,
    tag_of,
    under,
)
from everfresh.distributed.plan.tags import LOCAL, REPLICATED, Dist, Local, Tag
from everfresh.expr import Var
from everfresh.rewrite import remembered


def annotated(
    factors: Sequence[Query], group: Sequence[Var], to: Tag, where: AtomTag, order: Sequence[int] = ()
) -> Query:
    """A product summed to `group`, at `to`; `order` are the atoms behind the change, by their place among
    the factors."""
    made = _Product(factors, group, where, order)
    body: Query = Sum(tuple(group), made.query())
    tag = tag_of(body, where)
    return body if tag == to else Move(to, body)


class _Product:
    def __init__(
        self, factors: Sequence[Query], group: Sequence[Var], where: AtomTag, order: Sequence[int]
    ) -> None:
        self.factors, self.group, self.where = list(factors), [v.name for v in group], where
        self.names = equal_names(factors)
        self.atoms = [i for i, f in enumerate(factors) if not is_scalar(f)]
        lead = next(i for i in self.atoms if changes(factors[i]))
        rest = [i for i in (order or self.atoms) if i != lead]
        self.order = [lead, *rest]
        self.left = [i for i, f in enumerate(factors) if is_scalar(f)]
        self.done: set[int] = set()
        self.acc: list[Query] = []
        self.bound: set[str] = set()
        """The variables of what has been joined so far."""
        self.tag: Tag | None = None

    def query(self) -> Query:
        left = list(self.order)
        while left:
            place = next((i for i in left if self._ready(self.factors[i])), None)
            if place is None:
                self._bind_ahead()
                continue
            left.remove(place)
            self._atom(place)
            self._scalars()
        if self.left:
            raise NotWellFormed(f"variables of {self.factors[self.left[0]]} are not bound")
        return Prod(tuple(self.acc))

    def _join(self, factor: Query) -> None:
        self.acc.append(factor)
        self.bound.update(v.name for v in outputs(factor))

    def _ready(self, atom: Query) -> bool:
        return not isinstance(atom, Rel) or atom.delta or self.where.needs(atom) <= self.bound

    def _bind_ahead(self) -> None:
        """Bind variables ahead of their place: an atom can only be read then."""
        for i in self.left:
            factor = self.factors[i]
            if isinstance(factor, Bind | Each) and self._is_bound(factor):
                self._join(factor)
                self.left.remove(i)
                return
        raise NotWellFormed("a relation is read before its keys are bound")

    def _is_bound(self, factor: Query) -> bool:
        return all(v.name in self.bound for v in inputs(factor))

    def _scalars(self) -> None:
        """What is bound, and stands behind nothing that is still to come."""
        waiting = min((i for i in self.atoms if i not in self.done), default=len(self.factors))
        moved = True
        while moved:
            moved = False
            for i in self.left:
                if i < waiting and self._is_bound(self.factors[i]):
                    self._join(self.factors[i])
                    self.left.remove(i)
                    moved = True
                    break

    def _atom(self, place: int) -> None:
        atom = self.factors[place]
        if isinstance(atom, Sum):
            atom = self._nested(atom)
        tag = under(tag_of(atom, self.where), self.names)
        assert tag is not None
        if not self.acc:
            self._join(atom)
            self.tag = tag
            self.done.add(place)
            return
        try:
            self.tag = joined(self.tag, tag)
        except NotWellFormed:
            if changes(atom):
                atom = Move(LOCAL if isinstance(self.tag, Local) else REPLICATED, atom)
                self.tag = joined(self.tag, atom.to)
            else:
                self._move(tag_of(atom, self.where))
                self.tag = joined(self.tag, tag)
        self._join(atom)
        self.done.add(place)

    def _nested(self, atom: Sum) -> Query:
        """An aggregate inside of a product, itself well formed; one that reads no change must be already."""
        if not changes(atom):
            tag_of(atom, self.where)
            return atom
        body = atom.body.factors if isinstance(atom.body, Prod) else (atom.body,)
        return Sum(atom.group, _Product(body, atom.group, self.where, ()).query())

    def _move(self, to: Tag | None) -> None:
        """Bring what was joined so far to where it meets entries at `to`."""
        aim: Tag
        if isinstance(to, Dist):
            bound = self.bound
            by = {self.names.get(name, name): name for name in sorted(bound)}
            names = [c if c in bound else by.get(self.names.get(c, c)) for c in to.columns]
            known = [name for name in names if name is not None]
            aim = Dist(tuple(known)) if len(known) == len(names) else REPLICATED
        else:
            aim = LOCAL if to == LOCAL else REPLICATED
        body: Query = self.acc[0] if len(self.acc) == 1 else Prod(tuple(self.acc))
        if not (isinstance(body, Rel) and body.delta):
            body = Sum(self._needed(aim), body)
        self.acc, self.bound, self.tag = [], set(), under(aim, self.names)
        self._join(Move(aim, body))

    def _needed(self, aim: Tag) -> tuple[Var, ...]:
        """The variables that something still reads."""
        read = {*self.group, *(aim.columns if isinstance(aim, Dist) else ())}
        for i, factor in enumerate(self.factors):
            if i in self.left or (i in self.atoms and i not in self.done):
                read |= _names(factor)
        return tuple({v.name: v for f in self.acc for v in outputs(f) if v.name in read}.values())


@remembered
def _names(factor: Query) -> frozenset[str]:
    """The variables that a factor reads, binds or has in an atom."""
    atoms = {v.name for n in factor.walk() if isinstance(n, Rel | MapRef) for v in _vars(n)}
    return frozenset(atoms | {v.name for v in (*inputs(factor), *outputs(factor))})


def _vars(atom: Rel | MapRef) -> tuple[Var, ...]:
    return atom.vars if isinstance(atom, Rel) else atom.keys
