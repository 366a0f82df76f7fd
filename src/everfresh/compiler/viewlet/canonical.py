"""The canonical form of a definition: equal maps are found whatever their variables are called and in
whatever order their factors stand.

`Sum_[g](product)`, or a sum of such, is written with variables named by their place in it: colours are
refined until they are stable (a variable's colour is made of the factors it stands in, with the colours of
their other variables), variables that are still alike are told apart in all ways, up to a cap, and the
smallest text is the key. Products and sums are sorted, `a > b` is `b < a`, arguments of `=`, `+`, `AND` and
their like are sorted, repeated conditions are one.

Invariant: the key says everything about the definition but names and order, so equal keys mean equal maps;
a cap that is reached can cost a sharing, never make a wrong one. Signs and constant factors of the whole are
the caller's to pull out.

>>> from everfresh.calculus import Prod, Rel, Sum
>>> from everfresh.expr import Var
>>> from everfresh.types import BIGINT
>>> a, b, c = (Var(name, BIGINT, False) for name in "abc")
>>> one = canonical(Sum((a, c), Prod((Rel("R", (a, b)), Rel("S", (b, c))))))
>>> other = canonical(Sum((a, b), Prod((Rel("S", (c, a)), Rel("R", (b, c))))))
>>> one.key == other.key, one.group == (a, c), other.group == (b, a)
(True, True, True)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from everfresh.calculus import (
    Bind,
    Cond,
    Each,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    SpecError,
    Sum,
    Value,
    outputs,
    rename,
)
from everfresh.expr import Call, Case, Cast, Const, Expr, Made, Var, stored, told
from everfresh.sql.logical.conditions import conjuncts

CAP = 720
"""The most ways in which variables that are alike are told apart."""

_TURNED = {">": "<", ">=": "<="}
_NEGATED = {"<": "<=", "<=": "<", "=": "<>", "<>": "="}
_NEGATED |= {"is_distinct": "is_not_distinct", "is_not_distinct": "is_distinct"}
_COMMUTATIVE = frozenset({"=", "<>", "is_distinct", "is_not_distinct", "and", "or", "+", "*"})
_ASSOCIATIVE = frozenset({"and", "or"})


@dataclass(frozen=True, slots=True)
class Canonical:
    """`key` is the same for equal definitions; `group` are the definition's own group variables in the
    order in which every equal definition has them; `names` says what each variable is called in the key
    (columns that nothing else reads have no name there)."""

    key: str
    group: tuple[Var, ...]
    names: Mapping[str, str]


@lru_cache(maxsize=4096)  # a search asks for the same definitions again and again
def canonical(query: Query) -> Canonical:
    """The canonical form of a flat definition, whose keys are its outputs."""
    group = outputs(query)
    search = _Search(_terms(query, group), group)
    names = search.best_names
    ordered = sorted(group, key=lambda v: int(names[v.name][1:]))
    return Canonical(search.best, tuple(ordered), names)


# -- one term: a sign and factors --------------------------------------------------------------------------

Term = tuple[bool, tuple[Query, ...]]


def _terms(query: Query, group: tuple[Var, ...]) -> list[Term]:
    """The products of a definition, the variables of each but `group` its own."""
    terms = list(_products(query, False))
    if len(terms) < 2:
        return terms
    shared = {v.name for v in group}
    apart = []
    for number, (negative, factors) in enumerate(terms):
        local = {v.name: v for f in factors for v in _variables(f) if v.name not in shared}
        by = {name: Var(Made(f"{name}~{number}"), v.of, v.null) for name, v in local.items()}
        apart.append((negative, tuple(rename(f, by) for f in factors)))
    return apart


def _products(query: Query, negative: bool) -> Iterator[Term]:
    match query:
        case Neg(body):
            yield from _products(body, not negative)
        case Plus(terms):
            for term in terms:
                yield from _products(term, negative)
        case Sum(_, Plus() | Neg() | Sum() as body):
            yield from _products(body, negative)
        case Sum(_, body):
            yield negative, _factors(body)
        case _:
            yield negative, _factors(query)


def _factors(query: Query) -> tuple[Query, ...]:
    factors = query.factors if isinstance(query, Prod) else (query,)
    counted: list[Query] = []
    scalars: dict[str, Query] = {}  # conditions and bindings count once, by their text with these names
    for factor in factors:
        parts = map(Cond, conjuncts(factor.condition)) if isinstance(factor, Cond) else (factor,)
        for part in parts:
            text = _text(part, {v.name: repr(v.name) for v in _variables(part)})
            if isinstance(part, Cond | Bind):
                scalars[text] = part
            else:
                counted.append(part)
    return (*counted, *scalars.values())


def _occurrences(factor: Query) -> Iterable[Var]:
    """The variables of a factor, as often as they stand in it."""
    match factor:
        case Rel(_, vars_) | MapRef(_, vars_):
            return vars_
    return (n for n in factor.walk() if isinstance(n, Var))


def _variables(factor: Query) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(_occurrences(factor)))


# -- text, given what the variables are called -----------------------------------------------------------

Names = Mapping[str, str]


def _term_text(term: Term, names: Names) -> str:
    negative, factors = term
    return ("-" if negative else "") + " * ".join(sorted(_text(f, names) for f in factors))


def _text(factor: Query, names: Names) -> str:
    match factor:
        case Rel(name, vars_, delta, columns):
            places = "" if columns is None else columns
            return f"{'Δ' if delta else ''}{told(name)!r}{places}({', '.join(names[v.name] for v in vars_)})"
        case MapRef(name, keys, components):
            return f"{stored(name)!r}[{', '.join(names[v.name] for v in keys)}]{components}"
        case Cond(condition):
            return f"[{_expr(condition, names)}]"
        case Bind(var, expr):
            return f"({names[var.name]} := {_expr(expr, names)})"
        case Each(vars_, lists):
            shown = ", ".join(names[v.name] for v in vars_)
            return f"each {shown} ({', '.join(_expr(e, names) for e in lists)})"
        case Value(items):
            return f"⟨{', '.join(_expr(item, names) for item in items)}⟩"
    raise SpecError(f"not a factor of a flat definition: {factor}")


def _expr(expr: Expr, names: Names) -> str:
    match expr:
        case Var(name):
            return names[name]
        case Const(value, of):
            return f"{value!r}::{of}"
        case Cast(arg, to):
            return f"cast({_expr(arg, names)}, {to})"
        case Case(arms, default):
            shown = (f"{_expr(c, names)}: {_expr(v, names)}" for c, v in arms)
            return f"case({', '.join(shown)}; {_expr(default, names)})"
        case Call("not", (Call(op, args),)) if op in _TURNED or op in _NEGATED:
            if op in _TURNED:
                op, args = _TURNED[op], args[::-1]
            turned = args[::-1] if op in ("<", "<=") else args
            return _call(_NEGATED[op], turned, names)
        case Call(op, args) if op in _TURNED:
            return _call(_TURNED[op], args[::-1], names)
        case Call(op, args):
            return _call(op, args, names)
    raise SpecError(f"not a scalar expression: {expr}")


def _call(op: str, args: tuple[Expr, ...], names: Names) -> str:
    if op in _ASSOCIATIVE:
        args = tuple(part for arg in args for part in _nested(op, arg))
    shown = [_expr(arg, names) for arg in args]
    return f"{op!r}({', '.join(sorted(shown) if op in _COMMUTATIVE else shown)})"


def _nested(op: str, expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Call) and expr.op == op:
        for arg in expr.args:
            yield from _nested(op, arg)
    else:
        yield expr


# -- colours -------------------------------------------------------------------------------------------------

Colours = dict[str, int]


Part = tuple[tuple[str, ...], Callable[[Names], str]]


def _parts(terms: list[Term]) -> list[Part]:
    """What a variable is seen in, and its text: factors, or whole terms where there are several."""

    def names(factors: tuple[Query, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v.name for f in factors for v in _variables(f)))

    if len(terms) == 1:
        return [(names((f,)), partial(_text, f)) for f in terms[0][1]]
    return [(names(term[1]), partial(_term_text, term)) for term in terms]


def _type(var: Var) -> str:
    return f"{var.of}{'?' if var.null else ''}"


def _wild(terms: list[Term], keys: set[str]) -> dict[str, str]:
    """Columns that nothing else reads need no name: how they are shown, by variable."""
    uses = Counter(v.name for _, factors in terms for f in factors for v in _occurrences(f))
    atoms = [f for _, factors in terms for f in factors if isinstance(f, Rel | MapRef)]
    return {
        v.name: f"_ {_type(v)}"
        for f in atoms
        for v in _variables(f)
        if uses[v.name] == 1 and v.name not in keys
    }


class _Search:
    """Refinement, and the search among variables that it leaves alike."""

    def __init__(self, terms: list[Term], group: tuple[Var, ...]) -> None:
        self.terms = terms
        keys = {v.name for v in group}
        self.kinds: dict[str, str] = {}
        self.wild = _wild(terms, keys)
        for var in (*group, *(v for _, factors in terms for f in factors for v in _variables(f))):
            kind = f"{'key' if var.name in keys else 'sum'} {_type(var)}"
            if var.name not in self.wild:
                self.kinds.setdefault(var.name, kind)
        self.parts = _parts(terms)
        self.seen: dict[str, list[int]] = {name: [] for name in self.kinds}
        for index, (names, _) in enumerate(self.parts):
            for name in names:
                if name not in self.wild:
                    self.seen[name].append(index)
        self.leaves = 0
        self.best = ""
        self.best_names: dict[str, str] = {}
        ranks = {kind: i for i, kind in enumerate(sorted(set(self.kinds.values())))}
        self.visit(self.refined({name: ranks[kind] for name, kind in self.kinds.items()}))

    def refined(self, colours: Colours) -> Colours:
        """The coarsest stable colouring below `colours`; a colour is the number of variables before it."""
        while True:
            shown = {**self.wild, **{name: f"c{colour}" for name, colour in colours.items()}}
            signs: dict[str, tuple[int, list[str]]] = {}
            for name, colour in colours.items():
                shown[name] = f"c{colour}*"
                signs[name] = (colour, sorted(self.parts[i][1](shown) for i in self.seen[name]))
                shown[name] = f"c{colour}"
            ordered = sorted(signs.values())
            new = {name: bisect_left(ordered, sign) for name, sign in signs.items()}
            if len(set(new.values())) == len(set(colours.values())):
                return new
            colours = new

    def visit(self, colours: Colours) -> None:
        """Look at all ways to tell variables apart, the smallest text wins."""
        if self.leaves >= CAP:
            return
        classes: dict[int, list[str]] = {}
        for name, colour in colours.items():
            classes.setdefault(colour, []).append(name)
        tied = min((c for c, members in classes.items() if len(members) > 1), default=None)
        if tied is None:
            self.leaf(colours)
            return
        for name in self.unlike(classes[tied]):
            # the chosen one keeps the colour, the others of its class come after it
            split = {n: c + (c == tied and n != name) for n, c in colours.items()}
            self.visit(self.refined(split))

    def unlike(self, members: list[str]) -> list[str]:
        """Members of a class, but only one of those that can be exchanged without changing anything."""
        found: list[str] = []
        for name in members:
            if not any(self.exchangeable(name, other) for other in found):
                found.append(name)
        return found

    def exchangeable(self, a: str, b: str) -> bool:
        """Whether the definition is the same with `a` and `b` exchanged and no other variable."""
        exact = {**self.wild, **{name: f"v{i}" for i, name in enumerate(self.kinds)}}
        indexes = dict.fromkeys((*self.seen[a], *self.seen[b]))
        before = sorted(self.parts[i][1](exact) for i in indexes)
        exact[a], exact[b] = exact[b], exact[a]
        return before == sorted(self.parts[i][1](exact) for i in indexes)

    def leaf(self, colours: Colours) -> None:
        self.leaves += 1
        order = sorted(colours, key=lambda name: colours[name])
        names = {name: f"v{i}" for i, name in enumerate(order)}
        declared = ", ".join(f"{names[name]} {self.kinds[name]}" for name in order)
        shown = {**self.wild, **names}
        text = f"{declared}: " + " + ".join(sorted(_term_text(t, shown) for t in self.terms))
        if not self.best_names or text < self.best:
            self.best, self.best_names = text, names
