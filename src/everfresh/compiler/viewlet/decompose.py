"""Query decomposition (sections 3.1.2 and 3.6.1): the parts of a product, and which of them become maps.

What the change does not bind falls into connected components. A component becomes a map, unless it would
close a cycle or is better not held: then its atoms do. A derived relation that stands alone is read as it
is; one that can only be looked up is looked up as soon as its keys are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from everfresh.calculus import (
    ONE,
    Bind,
    Cond,
    Each,
    Prod,
    Query,
    Rel,
    SpecError,
    Sum,
    degree,
    inputs,
    product,
)
from everfresh.compiler.lowering.products import arrange, names
from everfresh.compiler.viewlet.canonical import canonical
from everfresh.compiler.viewlet.decisions import Decision, DecisionKind, known_by, largest
from everfresh.compiler.viewlet.join_graph import components, splits
from everfresh.compiler.viewlet.map_registry import MapDraft, Transform, products
from everfresh.expr import Call, Expr, Var, variables
from everfresh.program import Program, View

_COMPARED = frozenset({"=", "<>", "is_null", "is_distinct", "is_not_distinct", "in"})


def readable(work: Transform, atom: Rel, bound: set[str], changed: set[str]) -> bool:
    """Whether a derived relation is read off its map as it is: by keys that are bound, or as a whole; one
    with a row for every key, alone, in no other way."""
    relation = work.derived.get(atom.name)
    if (not work.choices.project and relation is None) or atom.name in work.always:
        return True
    if not isinstance(relation, View) or atom.name in changed:
        return False
    held = {v.name for v in work.maps[relation.map].keys}
    given = [
        isinstance(e, Var) and e.name in held
        for e, v in zip(relation.outputs, atom.vars, strict=True)
        if v.name in bound
    ]
    return not given or any(given)


def take_local(plan: Component, rest: list[Query], bound: set[str]) -> None:
    """Move the bindings and conditions over a component's variables from `rest` into it."""
    inside = names(plan.atoms)
    grown = True
    while grown:
        grown = False
        for f in list(rest):
            used = read_by(f)
            if isinstance(f, Bind | Cond | Each) and used <= inside and used - bound:
                plan.local.append(f)
                rest.remove(f)
                inside |= names([f])
                grown = True


def row_by_row(
    work: Transform,
    plan: Component,
    outside: set[str],
    changed: set[str],
    values: Iterable[Expr],
    chosen: bool,
) -> bool:
    """Whether a component is read off its one table: a map of it would have an entry for each row, or that
    is `chosen`. Not if the table changes with the statement, or if a map would hold what functions of strings
    give."""
    atom = plan.atoms[0]
    own = names(plan.atoms) - outside
    key = work.choices.keyed.get(atom.name)
    if key is None or len(plan.atoms) > 1 or atom.name in changed or any(_texts(v, own) for v in values):
        return False
    keys = atom.names(key)
    return chosen or (all(map(guard, plan.local)) and keys is not None and keys <= outside)


def _texts(value: Expr, own: set[str]) -> bool:
    """Whether a value has functions of strings of these variables, other than comparisons."""
    calls = (n for n in value.walk() if isinstance(n, Call) and n.op not in _COMPARED)
    return any(
        arg.type.is_text and any(v.name in own for v in variables(arg)) for call in calls for arg in call.args
    )


def guard(f: Query) -> bool:
    """Whether a factor asks no more than that a variable is not NULL."""
    match f:
        case Cond(Call("not", (Call("is_null", (Var(),)),))):
            return True
    return False


@dataclass
class Component:
    """A component: its atoms, and the conditions and bindings over their variables alone."""

    atoms: list[Rel]
    virtual: bool = False
    local: list[Query] = field(default_factory=list)
    by: dict[str, Var] = field(default_factory=dict)
    keys: tuple[Var, ...] = ()
    body: Query = ONE
    held: MapDraft | None = None


def keys_of(work: Transform, atom: Rel) -> set[str]:
    """The variables at the keys of a derived relation."""
    return {v.name for v in atom.vars[: work.keys[atom.name]]}


def bindable(rest: Iterable[Query], bound: set[str]) -> set[str]:
    """The variables that bindings can compute from bound ones."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for f in rest:
            known = bound | found
            if isinstance(f, Bind | Each) and not names([f]) <= known and read_by(f) <= known:
                found |= names([f])
                grown = True
    return found


def placed(
    work: Transform, still: list[Rel], rest: list[Query], bound: set[str]
) -> tuple[list[list[Rel]], list[Rel]]:
    """The components, and the relations that are looked up last: those whose keys come from several sides."""
    always = work.always
    parts = _components([a for a in still if a.name not in always], rest, bound)
    late = []
    for atom in (a for a in still if a.name in always):
        keys = keys_of(work, atom)
        homes = [p for p in parts if keys & _reachable(p, rest, bound)]
        if keys & bound or len(homes) != 1 or not keys <= _reachable(homes[0], rest, bound):
            late.append(atom)
            continue
        joined = [p for p in parts if p is not homes[0] and (names([atom]) - keys - bound) & names(p)]
        parts = [p for p in parts if p is not homes[0] and p not in joined]
        parts.append(sorted([*homes[0], *(a for p in joined for a in p), atom], key=still.index))
    return parts, late


def with_thresholds(
    work: Transform,
    looked: list[Rel],
    rest: list[Query],
    parts: list[list[Rel]],
    keys: set[str],
    read: set[str],
) -> list[list[Rel]]:
    """Components with the relations of a row or so that only limit them, if they are grouped by `keys`: what
    a threshold lets pass is kept by group. (Without groups, prefix sums know it.) Such relations are taken
    from `looked`; none whose columns are in `read`."""
    if not work.choices.whole:
        return parts
    for atom in [f for f in looked if not work.keys[f.name]]:
        own = names([atom])
        users = [f for f in rest if read_by(f) & own]
        used = {name for f in users for name in read_by(f)} - own
        homes = [part for part in parts if used & names(part)]
        if own & read or not users or not all(isinstance(f, Cond) for f in users) or len(homes) != 1:
            continue
        if used <= names(homes[0]) and keys & names(homes[0]):
            looked.remove(atom)
            parts = [[*part, atom] if part is homes[0] else part for part in parts]
    return parts


def _reachable(part: list[Rel], rest: list[Query], bound: set[str]) -> set[str]:
    """The variables of a component, those that bindings compute from them included."""
    inside = names(part)
    return inside | bindable([f for f in rest if read_by(f) - bound], inside)


def read_by(f: Query) -> set[str]:
    """What a factor reads."""
    return {v.name for v in inputs(f)}


def _components(still: list[Rel], rest: list[Query], bound: set[str]) -> list[list[Rel]]:
    """Atoms joined, directly or through others, by variables that are not bound already; a binding over
    variables of theirs alone joins too."""
    links = [f for f in rest if isinstance(f, Bind | Each) and read_by(f) and not read_by(f) & bound]
    return components(still, bound, links)


def kept(work: Transform, parts: Iterable[list[Rel]], bound: set[str]) -> Iterator[list[Rel]]:
    """Components that become maps; one that would close a cycle (section 3.6.1), or that is better not held,
    falls into its atoms."""
    most = largest(work.choices.decisions)
    for part in parts:
        falls = len(part) > 1 and (
            not work.choices.whole
            or len(part) > most
            or splits(part, bound & names(part))
            or apart(part) in work.choices.decisions
        )
        if falls:
            yield from ([atom] for atom in part)
        else:
            yield part


def form(part: Sequence[Rel]) -> str:
    """What a component is known by when it is chosen or not: short, as the choice is kept with a view."""
    return known_by(canonical(Sum((), product(*part))).key)


def apart(part: Sequence[Rel]) -> Decision:
    """The decision that a component is kept as single atoms."""
    return Decision(DecisionKind.APART, form(part))


def composites(program: Program[Query], roots: Collection[str]) -> dict[Decision, str]:
    """The maps beside `roots` that hold a join, by the decision to keep them apart."""
    found: dict[Decision, str] = {}
    for m in program.maps:
        body = products(m.definition)[0] if m.name not in roots else ONE
        atoms = [f for f in (body.factors if isinstance(body, Prod) else (body,)) if isinstance(f, Rel)]
        if len(atoms) > 1:
            found.setdefault(apart(atoms), m.name)
    return found


def held_by(work: Transform, plan: Component, outside: set[str], target: MapDraft) -> MapDraft | None:
    """The map that holds a component; None for a derived relation that is read as it is."""
    if plan.virtual:
        return None
    inside = {v.name: v for f in (*plan.atoms, *plan.local) for v in own_variables(f)}
    plan.keys = tuple(v for v in inside.values() if v.name in outside)
    body = product(*arrange([*plan.atoms, *plan.local], work.always))
    if degree(body) >= max(degree(p) for p in target.products):
        raise SpecError(f"the delta of {target.name} has not become simpler: {body}")
    plan.body = body
    found, plan.by = work.part(body, plan.keys)
    return found


def own_variables(f: Query) -> tuple[Var, ...]:
    """The variables that a relation or a binding brings."""
    return f.vars if isinstance(f, Rel | Each) else (f.var,) if isinstance(f, Bind) else ()
