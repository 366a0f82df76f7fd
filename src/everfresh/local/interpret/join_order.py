"""The order in which a product is evaluated, and what has to be kept on the way.

Bindings flow from left to right, but factors commute wherever they are bound: each next atom is one that
shares a variable with what is bound already, entries that are fully bound come first of all, then rows of
tables whose primary key is bound and entries of maps that such a key determines; conditions that cannot fail
follow as soon as their variables are there. So a product is never crossed where it is joined, and joined with
many only where it must be.
What may fail stays behind the factors that stand before it: a row that they drop raises nothing.

Conditions right behind an atom that set a range for it (`everfresh.compiler.viewlet.ranges`) become part of
its step: an ordered index finds what qualifies. If nothing after it reads what the atom brings, the step
needs only the sums over the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

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
    Sum,
    Value,
    inputs,
    outputs,
)
from everfresh.compiler import Crossing, Ordered, Range, crossing, range_of
from everfresh.expr import Var, total
from everfresh.local.interpret.self_products import apart

Needs = Callable[[Rel], Sequence[int] | None]
"""The columns of a relation that must be bound before it can be read; None: none of them."""
Keyed = Callable[[Rel | MapRef], Sequence[int]]
"""The columns of an atom by which it has one row or entry at most; none if there are no such."""

Fanout = Callable[[Query, Sequence[int]], float | None]
"""About how many rows or entries of an atom agree on the columns at some places; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Step:
    """A factor, and the variables that something after it reads."""

    factor: Query
    keep: frozenset[str]
    range: Range | None = None
    """What entries of the atom must satisfy; `slow` are the steps that do without an index."""
    summed: bool = False
    """Whether the sums over the range are all that is needed of the atom."""
    slow: tuple[Step, ...] = ()
    inner: tuple[Term, ...] = ()
    """Of a sum: its own terms."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """The steps of a product that changes where a threshold is crossed, from its atom on: the change and the
    comparison are left out, the atom gives the entries between thresholds."""

    crossing: Crossing
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A signed product in the order of its evaluation, and how to evaluate it in a narrower way."""

    sign: int
    steps: tuple[Step, ...]
    narrow: Narrow | None = None
    counted: bool = True
    """Whether its count counts, or only its values."""
    many: tuple[Term, ...] = ()
    """Terms that add up to the same, for a change of many rows."""
    turned: tuple[Term, ...] = ()
    """The same, for a change whose rows have many more entries in their ranges than there are."""


def atom_vars(factor: Query) -> tuple[Var, ...]:
    """The variables of an atom by position."""
    match factor:
        case Rel(_, vars_):
            return vars_
        case MapRef(_, keys):
            return keys
        case Sum(group):
            return group
    raise TypeError(f"{type(factor).__name__} is no atom")


def products(query: Query, sign: int = 1) -> Iterable[tuple[int, tuple[Query, ...]]]:
    """The signed products that a statement is a sum of."""
    match query:
        case Plus(terms):
            for term in terms:
                yield from products(term, sign)
        case Neg(body):
            yield from products(body, -sign)
        case Sum(_, body):
            yield from products(body, sign)
        case Prod(factors):
            yield sign, factors
        case _:
            yield sign, (query,)


def ordered(
    query: Query,
    keys: Sequence[Var],
    needs: Needs,
    lead: Callable[[Sequence[Query]], int] | None = None,
    kept: Ordered | None = None,
    summable: Callable[[Query], bool] | None = None,
    keyed: Keyed = lambda atom: (),
    fanout: Fanout = lambda atom, places: None,
) -> tuple[Term, ...]:
    """The terms of a statement for a map with these keys; `lead` chooses the atom that a term starts from,
    else it is the first change. `kept` says which relations can be read between thresholds, `summable` of
    which atoms the sums over a range will do. Of atoms that are joined, the one with the least `fanout` comes
    first, if it is known of all."""
    names = frozenset(v.name for v in keys)

    def steps(factors: Sequence[Query], first: Callable[[Sequence[Query]], int]) -> tuple[Step, ...]:
        order = _ranged(_order(factors, needs, first, keyed, fanout), kept)
        found = _kept(order, names, summable)
        return tuple(_with_terms(s, needs, kept, summable, keyed, fanout) for s in found)

    terms = []
    for sign, factors in products(query):
        crossed = crossing(factors, names, kept) if kept is not None else None
        narrow = None
        found = steps(factors, lead or _first)
        if crossed is not None and not any(s.summed and s.factor is crossed.atom for s in found):
            narrow = Narrow(crossed, steps((crossed.atom, *crossed.rest), _at_first))
        many = tuple(Term(sign, steps(a.factors, _first), None, a.counted) for a in apart(factors, names))
        turned: tuple[Term, ...] = ()
        if (atom := _turning(found)) is not None:
            parts = apart(factors, names, atom)
            turned = tuple(Term(sign, steps(a.factors, _at_first), None, a.counted) for a in parts)
            if not all(any(s.summed for s in term.steps) for term in turned):
                turned = ()  # sums of doubles are taken row by row
        terms.append(Term(sign, found, narrow, True, many, turned))
    return tuple(terms)


def _with_terms(
    step: Step,
    needs: Needs,
    kept: Ordered | None,
    summable: Callable[[Query], bool] | None,
    keyed: Keyed,
    fanout: Fanout,
) -> Step:
    """A sum with its own terms."""
    if not isinstance(step.factor, Sum):
        return step
    inner = ordered(step.factor.body, step.factor.group, needs, None, kept, summable, keyed, fanout)
    return replace(step, inner=inner)


def _turning(steps: Sequence[Step]) -> Rel | MapRef | None:
    """The atom whose ranges a change is joined with, if nothing else is: the entries, one by one."""
    atoms = [s for s in steps if isinstance(s.factor, Rel | MapRef | Sum)]
    if len(atoms) != 2 or atoms[1].range is None or atoms[1].summed:
        return None
    change, atom = atoms[0].factor, atoms[1].factor
    led = isinstance(change, Rel) and change.delta
    return atom if led and isinstance(atom, Rel | MapRef) else None


def _at_first(atoms: Sequence[Query]) -> int:
    return 0


def _first(atoms: Sequence[Query]) -> int:
    changes = [i for i, atom in enumerate(atoms) if isinstance(atom, Rel) and atom.delta]
    return changes[0] if changes else 0


def _order(
    factors: Sequence[Query],
    needs: Needs,
    lead: Callable[[Sequence[Query]], int],
    keyed: Keyed,
    fanout: Fanout,
) -> list[Query]:
    left = [(place, f) for place, f in enumerate(factors) if isinstance(f, Rel | MapRef | Sum)]
    scalars = [(place, f) for place, f in enumerate(factors) if not isinstance(f, Rel | MapRef | Sum)]
    if strange := [f for _, f in scalars if not isinstance(f, Cond | Bind | Each | Value)]:
        raise TypeError(f"{type(strange[0]).__name__} is no factor of a statement")
    bound: set[str] = set()
    done: list[Query] = []
    started = False
    while True:
        reached = min((place for place, _ in left), default=len(factors))
        _emit_scalars(scalars, bound, done, reached)
        if not left:
            break
        ready = [item for item in left if _ready(item[1], bound, needs)]
        best = max((_shared(atom, bound, keyed) for _, atom in ready), default=-1)
        if best < _JOINED and started and _emit_bind(scalars, bound, done):
            continue
        if not ready:
            raise TypeError(f"{left[0][1]} is read before its keys are bound")
        if started:
            good = [item for item in ready if _shared(item[1], bound, keyed) == best]
            chosen = _fewest(good, bound, fanout) if best == _JOINED and len(good) > 1 else good[0]
        else:
            chosen = ready[lead([atom for _, atom in ready])]
        started = True
        left.remove(chosen)
        done.append(chosen[1])
        bound |= {v.name for v in outputs(chosen[1])}
    if scalars:
        raise TypeError(f"variables of {scalars[0][1]} are not bound")
    return done


_JOINED = 1
_Item = tuple[int, Rel | MapRef | Sum]


def _fewest(items: Sequence[_Item], bound: set[str], fanout: Fanout) -> _Item:
    """The atom that a row is joined with the fewest rows of; the first, if that is not known."""
    known = [fanout(atom, [i for i, v in enumerate(atom_vars(atom)) if v.name in bound]) for _, atom in items]
    return items[min(range(len(items)), key=lambda i: known[i] or 0.0)] if None not in known else items[0]


def _shared(atom: Query, bound: set[str], keyed: Keyed) -> int:
    """4: nothing new, 3: one row at most, which must agree with more than its key, 2: one row at most,
    1: joined, 0: crossed."""
    names = {v.name for v in outputs(atom)}
    if names <= bound or not names & bound:
        return 4 if names <= bound else 0
    stored = isinstance(atom, MapRef) or (isinstance(atom, Rel) and not atom.delta)
    key = {atom_vars(atom)[i].name for i in keyed(atom)} if stored else set()  # type: ignore[arg-type]
    if not key or not key <= bound:
        return _JOINED
    return 3 if (names - key) & bound else 2


def _ready(atom: Query, bound: set[str], needs: Needs) -> bool:
    wanted = needs(atom) if isinstance(atom, Rel) else None
    return wanted is None or all(atom_vars(atom)[i].name in bound for i in wanted)


def _emit_scalars(scalars: list[tuple[int, Query]], bound: set[str], done: list[Query], reached: int) -> None:
    """Move what is bound from `scalars` to `done`: what stands before the atoms that are left (from place
    `reached` on), and conditions that cannot fail wherever they stand."""
    moved = True
    while moved:
        moved = False
        for i, (place, factor) in enumerate(scalars):
            early = isinstance(factor, Cond) and total(factor.condition)
            guarded = isinstance(factor, Value) and i > 0
            if (place < reached or early) and not guarded and _bound(factor, bound):
                done.append(scalars.pop(i)[1])
                bound |= {v.name for v in outputs(factor)}
                moved = True
                break


def _emit_bind(scalars: list[tuple[int, Query]], bound: set[str], done: list[Query]) -> bool:
    """Bind variables ahead of their place, so that an atom is joined and not crossed."""
    for i, (_, factor) in enumerate(scalars):
        if isinstance(factor, Bind | Each) and _bound(factor, bound):
            done.append(scalars.pop(i)[1])
            bound |= {v.name for v in outputs(factor)}
            return True
    return False


def _bound(factor: Query, bound: set[str]) -> bool:
    return {v.name for v in inputs(factor)} <= bound


def _ranged(factors: Sequence[Query], kept: Ordered | None) -> list[tuple[Query, Range | None]]:
    """Factors in order, each atom with the range that the conditions right behind it set."""
    plain = kept.plain if kept is not None else ()
    found: list[tuple[Query, Range | None]] = []
    bound: set[str] = set()
    taken: set[int] = set()
    for i, factor in enumerate(factors):
        if i in taken:
            continue
        range_ = None
        if isinstance(factor, MapRef | Sum) or (
            isinstance(factor, Rel) and not factor.delta and factor.name in plain
        ):
            behind = i + 1
            while behind < len(factors) and isinstance(factors[behind], Cond):
                behind += 1
            conditions = [f for f in factors[i + 1 : behind] if isinstance(f, Cond)]
            range_ = range_of(atom_vars(factor), bound, conditions) if conditions else None
            if range_ is not None:
                gone = set(map(id, range_.conditions))
                taken |= {j for j in range(i + 1, behind) if id(factors[j]) in gone}
        found.append((factor, range_))
        bound |= {v.name for v in outputs(factor)}
    return found


def _kept(
    factors: Sequence[tuple[Query, Range | None]],
    keys: frozenset[str],
    summable: Callable[[Query], bool] | None,
) -> tuple[Step, ...]:
    steps: list[Step] = []
    keep = keys
    bound: list[set[str]] = [set()]
    for factor, _ in factors:
        bound.append(bound[-1] | {v.name for v in outputs(factor)})
    for (factor, range_), known in zip(reversed(factors), reversed(bound[:-1]), strict=True):
        if range_ is None:
            steps.append(Step(factor, keep))
        else:
            own = {v.name for v in atom_vars(factor)} - known
            summed = not own & keep and summable is not None and summable(factor)
            slow = _kept([(f, None) for f in (factor, *range_.conditions)], keep, None)
            steps.append(Step(factor, keep, range_, summed, slow))
            keep |= {v.name for v in range_.limits}
        if isinstance(factor, Rel | MapRef | Sum):
            keep |= {v.name for v in atom_vars(factor)}
        else:
            keep |= {v.name for v in (*inputs(factor), *outputs(factor))}
    return tuple(reversed(steps))
