"""The viewlet transform (sections 2.3 and 3.1): maps, and the maps that make their deltas cheap.

For each relation the delta of a map's definition is a sum of products. In each, what does not change falls
into connected components (joined through variables that the change does not bind); a component becomes a map
of its own, keyed by the variables that the rest of the product reads, and the delta reads that map. A derived
relation that stands alone is read as it is; one whose keys are bound is looked up first. The value of the
product falls apart with it (`polynomial`): each component map holds the factors of the values that belong
to it, as components of its own.

Equal maps are one (section 3.1.1): maps with the same keys and the same product share their count and their
components. So are maps that another view keeps already and offers: they are taken as they are, if they have
all components that are read.

Invariant: a statement reads changes, maps and derived relations, never a base; the degree of a component's
definition is lower than that of the map whose statement reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b

from everfresh.algebra import Kind
from everfresh.calculus import (
    DELTA,
    ONE,
    QUERY,
    STATEMENT,
    Bind,
    Cond,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    SpecError,
    Sum,
    Value,
    check,
    degree,
    delta,
    inputs,
    outputs,
    product,
    relations,
    union,
)
from everfresh.compiler.canonical import Canonical, canonical
from everfresh.compiler.crossing import Ordered, crossing
from everfresh.compiler.graph import components, splits
from everfresh.compiler.lower import Relation
from everfresh.compiler.passes import simplify
from everfresh.compiler.passes.expand import expand
from everfresh.compiler.polynomial import Monomial, polynomial
from everfresh.compiler.rows import arrange, atom_vars, names
from everfresh.expr import Call, Const, Expr, Var, build, substitute, variables
from everfresh.program import MapDef, Program, Statement, Trigger, View
from everfresh.types import BIGINT

_ONE = Const(1, BIGINT)
Key = tuple[str, tuple[str, ...], str]


def products(definition: Query) -> list[Query]:
    """The products that a definition sums, each by itself."""
    terms = definition.terms if isinstance(definition, Plus) else (definition,)
    return [t.body if isinstance(t, Sum) else t for t in terms]


@dataclass
class _Map:
    """A map while its components are collected; `products` are its terms without their values."""

    name: str
    keys: tuple[Var, ...]
    products: tuple[Query, ...]
    kinds: list[Kind]
    values: list[tuple[Expr, ...]]
    """One row of values per component: what each product contributes to it."""

    def definition(self) -> Query:
        """What the map holds."""
        terms = []
        for i, body in enumerate(self.products):
            value = [Value(tuple(row[i] for row in self.values))] if self.values else []
            terms.append(Sum(self.keys, product(body, *value)))
        return union(*terms)

    def component(self, kind: Kind, values: tuple[Expr, ...]) -> int:
        """The index of a component, from 1; new ones are added."""
        for i, (k, row) in enumerate(zip(self.kinds, self.values, strict=True), 1):
            if (k, row) == (kind, values):
                return i
        self.kinds.append(kind)
        self.values.append(values)
        return len(self.kinds)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the transform decides (section 3.6)."""

    merge: bool = True
    """Whether maps that differ in their values alone are one."""
    whole: bool = True
    """Whether components become maps; if not, their atoms do (first-order maintenance)."""
    project: bool = True
    """Whether atoms are projected into maps of their own; if not, tables are read as they are."""
    split: frozenset[str] = frozenset()
    """Components, by what `composites` knows them by, that are kept as single atoms."""
    static: frozenset[str] = frozenset()
    """Relations that never change."""
    views: frozenset[str] = frozenset()
    """Relations that are views themselves: they change after the tables that they read."""
    offered: tuple[MapDef[Query], ...] = ()
    """Maps over bases alone that other views keep, the first of equals preferred."""


HIGHER_ORDER = Choices()


@dataclass
class Transform:
    """The maps of one view while they are found; `view` is what their names begin with."""

    view: str
    derived: dict[str, Relation]
    keys: dict[str, int]
    """Of each relation that is read off a map: how many keys it has, if they are its first columns."""
    choices: Choices = HIGHER_ORDER
    unshared: frozenset[str] = frozenset()
    maps: dict[str, _Map] = field(default_factory=dict)
    shared: dict[Key, tuple[str, dict[str, str]]] = field(default_factory=dict)
    offered: dict[str, MapDef[Query]] = field(default_factory=dict)
    taken: dict[str, _Map] = field(default_factory=dict)
    """The offered maps that are read."""

    @property
    def always(self) -> dict[str, int]:
        """Of each relation that can only be looked up: how many of its first columns are its keys."""
        views = ((n, r) for n, r in self.derived.items() if isinstance(r, View))
        return {n: self.keys[n] for n, r in views if r.always}

    def add(self, m: MapDef[Query]) -> None:
        """A map that the view needs."""
        new = self.maps[m.name] = _parted(m)
        if len(new.products) == 1 and m.name not in self.unshared:
            form = _formed(new.products[0])
            alone = None if self.choices.merge or len(new.values) != 1 else new.values[0][0]
            self.shared.setdefault(_key(form, m.keys, alone), (m.name, _inverse(form)))

    def offer(self, m: MapDef[Query]) -> None:
        """A map that another view keeps."""
        if self.choices.merge and m.name not in self.unshared:
            key, theirs = _known(m)
            if self.shared.setdefault(key, (m.name, theirs))[0] == m.name:
                self.offered[m.name] = m

    @property
    def outgrown(self) -> frozenset[str]:
        """Offered maps that lack a component."""
        return frozenset(n for n, m in self.taken.items() if len(m.kinds) > len(self.offered[n].kinds))

    def part(
        self, body: Query, keys: tuple[Var, ...], value: Expr | None = None
    ) -> tuple[_Map, dict[str, Var]]:
        """The map that holds a component, and how the component's variables are called in it; for `value`
        alone if maps are not merged."""
        form = _formed(body)
        key = _key(form, keys, value)
        if key not in self.shared:
            name = f"{self.view}#{len(self.maps)}"
            while name in self.maps:
                name += "x"
            self.maps[name] = _Map(name, keys, (body,), [], [])
            self.shared[key] = name, _inverse(form)
        name, theirs = self.shared[key]
        if name in self.offered and name not in self.taken:
            self.taken[name] = _parted(self.offered[name])
        found = self.taken[name] if name in self.offered else self.maps[name]
        held = {v.name: v for v in found.products[0].walk() if isinstance(v, Var)}
        return found, {ours: held[theirs[c]] for ours, c in form.names.items()}


def _parted(m: MapDef[Query]) -> _Map:
    """A map, its products and values apart."""
    bodies, values = [], []
    for term in products(m.definition):
        factors = term.factors if isinstance(term, Prod) else (term,)
        bodies.append(product(*(f for f in factors if not isinstance(f, Value))))
        values.append(next((f.items for f in factors if isinstance(f, Value)), ()))
    rows = [tuple(v[i] for v in values) for i in range(len(m.kinds))]
    return _Map(m.name, m.keys, tuple(bodies), list(m.kinds), rows)


@lru_cache(maxsize=4096)  # offers are the same for all programs of a search
def _known(m: MapDef[Query]) -> tuple[Key, dict[str, str]]:
    """What an offered map is found by, and how its variables are called in its canonical form."""
    form = _formed(_parted(m).products[0])
    return _key(form, m.keys, None), _inverse(form)


def _formed(body: Query) -> Canonical:
    """The canonical form of a product, with a name for each of its variables."""
    return canonical(Sum(outputs(body), body))


def _key(form: Canonical, keys: tuple[Var, ...], value: Expr | None) -> Key:
    """What equal maps have in common: the product, the keys, and the value where maps are not merged."""
    by: dict[str, Expr] = {}
    if value is not None:
        by = {v.name: Var(form.names[v.name], v.type, v.nullable) for v in variables(value)}
    named = tuple(sorted(form.names[v.name] for v in keys))
    return form.key, named, "" if value is None else str(substitute(value, by))


def _inverse(form: Canonical) -> dict[str, str]:
    return {c: name for name, c in form.names.items()}


def transform(
    view: str,
    roots: Sequence[MapDef[Query]],
    derived: Sequence[Relation] = (),
    choices: Choices = HIGHER_ORDER,
) -> Program[Query]:
    """The program that maintains `roots` and all maps they need, with a trigger per relation; names of
    maps begin with `view`."""
    by_name = {r.name: r for r in derived}
    by_map = {m.name: m for m in roots}
    keys = {}
    for r in derived:
        if isinstance(r, View):
            held = [v.name for v in by_map[r.map].keys]
            if [e.name for e in r.outputs[: len(held)] if isinstance(e, Var)] == held:
                keys[r.name] = len(held)
    choices = replace(choices, static=_static(choices.static, by_map, derived))
    unshared: frozenset[str] = frozenset()
    while True:
        work = Transform(view, by_name, keys, choices, unshared)
        for m in roots:
            work.add(m)
        for m in choices.offered:
            work.offer(m)
        statements = _statements(work)
        wrong = work.outgrown | _read_too_early(statements, derived, choices.views)
        if not wrong - unshared:
            break
        unshared |= wrong
    order = {name: i for i, name in enumerate(by_name)}
    bases = sorted(statements, key=lambda name: order.get(name, -1))
    triggers = tuple(Trigger(base, tuple(statements[base])) for base in bases)
    maps = tuple(
        MapDef(m.name, m.keys, tuple(m.kinds), check(m.definition(), QUERY)) for m in work.maps.values()
    )
    shared = tuple(work.offered[name] for name in work.taken)
    read = dict.fromkeys(name for m in maps for name in relations(m.definition))
    static = tuple(name for name in read if name in choices.static and name not in by_name)
    return Program(maps, triggers, tuple(derived), shared, static)


def _static(
    given: frozenset[str], roots: dict[str, MapDef[Query]], derived: Sequence[Relation]
) -> frozenset[str]:
    """All relations that never change: those given, and those derived from nothing else."""
    for r in derived:
        if all(given.issuperset(relations(roots[name].definition)) for name in r.maps):
            given |= {r.name}
    return given


def _read_too_early(
    statements: dict[str, list[Statement[Query]]], derived: Sequence[Relation], views: frozenset[str]
) -> frozenset[str]:
    """Maps under a derived relation that a statement on an earlier one, or on a view, reads: they are still
    pending then."""
    last = {name: i for i, r in enumerate(derived) for name in r.maps}
    found = set()
    earlier = [*((-1, name) for name in views), *((i, r.name) for i, r in enumerate(derived))]
    for i, relation in earlier:
        for statement in statements.get(relation, ()):
            reads = (n.name for n in statement.expr.walk() if isinstance(n, MapRef))
            found |= {name for name in reads if last.get(name, -1) > i}
    return frozenset(found)


def _statements(work: Transform) -> dict[str, list[Statement[Query]]]:
    """The statements of all maps, until none finds a further map or component."""
    done: dict[str, tuple[int, dict[str, Statement[Query]]]] = {}
    while True:
        todo = [m for m in work.maps.values() if m.name not in done or done[m.name][0] != len(m.kinds)]
        if not todo:
            break
        for m in todo:
            names_ = dict.fromkeys(name for body in m.products for name in relations(body))
            bases = [name for name in names_ if name not in work.choices.static]
            done[m.name] = len(m.kinds), {base: _statement(work, m, base) for base in bases}
    found: dict[str, list[Statement[Query]]] = {}
    for name in work.maps:
        for base, statement in done[name][1].items():
            found.setdefault(base, []).append(statement)
    return found


def _statement(work: Transform, target: _Map, base: str) -> Statement[Query]:
    terms = []
    for i, body in enumerate(target.products):
        change = expand(simplify(check(delta(body, {base}), DELTA)))
        for term in change.terms if isinstance(change, Plus) else (change,):
            terms += _term(work, term, target, i)
    expr = check(union(*(_grouped(target.keys, t) for t in terms)), STATEMENT)
    keyless = {name for name, keys in work.keys.items() if not keys}
    ordered = Ordered.among([r for r in work.derived.values() if isinstance(r, View)], keyless)
    return Statement(target.name, "+=", expr, *_strategy(expr, base, ordered))


def _grouped(keys: tuple[Var, ...], term: Query) -> Query:
    return Neg(Sum(keys, term.body)) if isinstance(term, Neg) else Sum(keys, term)


def _strategy(expr: Query, base: str, ordered: Ordered) -> tuple[str, str]:
    """What a statement costs, and why: proportional to the change and what agrees with it, or more."""
    scanned: list[str] = []
    read: list[str] = []
    between: list[str] = []
    for term in expr.terms if isinstance(expr, Plus) else (expr,):
        body = term.body if isinstance(term, Neg) else term
        bound: set[str] = set()
        if isinstance(body, Sum):
            factors = body.body.factors if isinstance(body.body, Prod) else (body.body,)
            crossed = crossing(factors, {v.name for v in body.group}, ordered)
            if crossed is not None:
                between.append(crossed.atom.name)
                bound = {v.name for v in atom_vars(crossed.atom)}
        _scan(body, bound, scanned, read)
    scanned = [name for name in dict.fromkeys(scanned) if name not in ordered.single]
    if scanned:
        return "re-evaluated", "reads all of " + ", ".join(scanned)
    if between:
        entries = ", ".join(dict.fromkeys(between))
        return "incremental", f"reads the entries of {entries} between the old and the new {base}"
    if read:
        return "incremental", "joins the change with " + ", ".join(dict.fromkeys(read))
    return "incremental", f"reads only the change of {base}"


def _scan(query: Query, bound: set[str], scanned: list[str], read: list[str]) -> set[str]:
    match query:
        case Sum(group, body):
            _scan(body, set(bound), scanned, read)
            return bound | {v.name for v in group}
        case Prod(factors):
            for factor in factors:
                bound = _scan(factor, bound, scanned, read)
            return bound
        case Rel(_, _, True):
            return bound | names([query])
        case Rel() | MapRef():
            vars_ = {v.name for v in atom_vars(query)}
            read.append(query.name)
            if vars_ and not vars_ & bound:
                scanned.append(query.name)
            return bound | vars_
        case _:
            return bound | names([query])


# -- one product -------------------------------------------------------------------------------------


def _term(work: Transform, term: Query, target: _Map, index: int) -> list[Query]:
    """One product of a delta over maps: several, if values fall into sums."""
    sign = 1
    while isinstance(term, Neg):
        sign, term = -sign, term.body
    factors = list(term.factors if isinstance(term, Prod) else (term,))
    changes = [f for f in factors if isinstance(f, Rel) and f.delta]
    still = [f for f in factors if isinstance(f, Rel) and not f.delta]
    rest = [f for f in factors if not isinstance(f, Rel)]
    changed = {f.name for f in changes}
    bound = names(changes)
    bound |= _bindable(rest, bound)
    looked: list[Rel] = []
    progress = True
    while progress:
        progress = False
        for atom in still:
            if atom.name in work.keys and atom.name not in changed and _keys_of(work, atom) <= bound:
                looked.append(atom)
                still.remove(atom)
                bound |= names([atom])
                bound |= _bindable(rest, bound)
                progress = True
                break
    values = [row[index] for row in target.values]
    parts, late = _placed(work, still, rest, bound)
    plans = [_Part(part) for part in _kept(work, parts, bound)]
    for plan in plans:
        plan.virtual = len(plan.atoms) == 1 and _readable(work, plan.atoms[0], bound, changed)
    for plan in plans:
        if not plan.virtual:
            _take_local(plan, rest, bound)
    held = Counter(name for plan in plans for name in names([*plan.atoms, *plan.local]) - bound)
    joining = {name for name, count in held.items() if count > 1}
    part_of: dict[str, int] = {}
    for i, plan in enumerate(plans):
        if not plan.virtual:
            inside = names([*plan.atoms, *plan.local]) - bound - joining
            part_of.update(dict.fromkeys(inside, i))
    polynomials = [polynomial(v, lambda name: part_of.get(name)) for v in values]
    whole = {
        v.name
        for value, poly in zip(values, polynomials, strict=True)
        if poly is None
        for v in variables(value)
    }
    outside = (
        bound | joining | {v.name for v in target.keys} | whole | {v.name for f in rest for v in inputs(f)}
    )
    outside |= {f.var.name for f in rest if isinstance(f, Bind)} | names(late)
    outside |= {v.name for plan in plans if plan.virtual for v in plan.atoms[0].vars}
    for plan in plans:
        plan.held = _held(work, plan, outside, target)
    count = max((len(p) for p in polynomials if p is not None), default=1)
    which: Sequence[int | None] = [None] if work.choices.merge or not plans else range(len(values) + 1)
    made = (
        _product(work, [*changes, *looked, *late], rest, plans, values, polynomials, t, target, only)
        for only in which
        for t in range(max(count, 1))
    )
    return [Neg(m) if sign < 0 else m for m in made if m is not None]


def _readable(work: Transform, atom: Rel, bound: set[str], changed: set[str]) -> bool:
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


def _take_local(plan: _Part, rest: list[Query], bound: set[str]) -> None:
    """Move the bindings and conditions over a component's variables from `rest` into it."""
    inside = names(plan.atoms)
    grown = True
    while grown:
        grown = False
        for f in list(rest):
            used = _read_by(f)
            if isinstance(f, Bind | Cond) and used <= inside and used - bound:
                plan.local.append(f)
                rest.remove(f)
                inside |= names([f])
                grown = True


@dataclass
class _Part:
    """A component: its atoms, and the conditions and bindings over their variables alone."""

    atoms: list[Rel]
    virtual: bool = False
    local: list[Query] = field(default_factory=list)
    by: dict[str, Var] = field(default_factory=dict)
    keys: tuple[Var, ...] = ()
    body: Query = ONE
    held: _Map | None = None


def _keys_of(work: Transform, atom: Rel) -> set[str]:
    return {v.name for v in atom.vars[: work.keys[atom.name]]}


def _bindable(rest: Iterable[Query], bound: set[str]) -> set[str]:
    """The variables that bindings can compute from bound ones."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for f in rest:
            known = bound | found
            if isinstance(f, Bind) and f.var.name not in known and _read_by(f) <= known:
                found.add(f.var.name)
                grown = True
    return found


def _placed(
    work: Transform, still: list[Rel], rest: list[Query], bound: set[str]
) -> tuple[list[list[Rel]], list[Rel]]:
    """The components, and the relations that are looked up last: those whose keys come from several sides."""
    always = work.always
    parts = _components([a for a in still if a.name not in always], rest, bound)
    late = []
    for atom in (a for a in still if a.name in always):
        keys = _keys_of(work, atom)
        homes = [p for p in parts if keys & _reachable(p, rest, bound)]
        if keys & bound or len(homes) != 1 or not keys <= _reachable(homes[0], rest, bound):
            late.append(atom)
            continue
        joined = [p for p in parts if p is not homes[0] and (names([atom]) - keys - bound) & names(p)]
        parts = [p for p in parts if p is not homes[0] and p not in joined]
        parts.append(sorted([*homes[0], *(a for p in joined for a in p), atom], key=still.index))
    return parts, late


def _reachable(part: list[Rel], rest: list[Query], bound: set[str]) -> set[str]:
    """The variables of a component, those that bindings compute from them included."""
    inside = names(part)
    return inside | _bindable([f for f in rest if _read_by(f) - bound], inside)


def _read_by(f: Query) -> set[str]:
    """What a factor reads."""
    return {v.name for v in inputs(f)}


def _components(still: list[Rel], rest: list[Query], bound: set[str]) -> list[list[Rel]]:
    """Atoms joined, directly or through others, by variables that are not bound already; a binding over
    variables of theirs alone joins too."""
    links = [f for f in rest if isinstance(f, Bind) and variables(f.expr) and not _read_by(f) & bound]
    return components(still, bound, links)


def _kept(work: Transform, parts: Iterable[list[Rel]], bound: set[str]) -> Iterator[list[Rel]]:
    """Components that become maps; one that would close a cycle (section 3.6.1), or that is better not held,
    falls into its atoms."""
    for part in parts:
        apart = len(part) > 1 and (
            not work.choices.whole or splits(part, bound & names(part)) or _form(part) in work.choices.split
        )
        if apart:
            yield from ([atom] for atom in part)
        else:
            yield part


def _form(part: Sequence[Rel]) -> str:
    """What a component is known by when it is chosen or not: short, as the choice is kept with a view."""
    key = canonical(Sum((), product(*part))).key
    return blake2b(key.encode(), digest_size=8).hexdigest()


def composites(program: Program[Query], roots: Collection[str]) -> dict[str, str]:
    """The maps beside `roots` that hold a join, by what the choice to split them is known by."""
    found: dict[str, str] = {}
    for m in program.maps:
        body = products(m.definition)[0] if m.name not in roots else ONE
        atoms = [f for f in (body.factors if isinstance(body, Prod) else (body,)) if isinstance(f, Rel)]
        if len(atoms) > 1:
            found.setdefault(_form(atoms), m.name)
    return found


def _held(work: Transform, plan: _Part, outside: set[str], target: _Map) -> _Map | None:
    """The map that holds a component; None for a derived relation that is read as it is."""
    if plan.virtual:
        return None
    inside = {v.name: v for f in (*plan.atoms, *plan.local) for v in _all_outputs(f)}
    plan.keys = tuple(v for v in inside.values() if v.name in outside)
    body = product(*arrange([*plan.atoms, *plan.local], work.always))
    if degree(body) >= max(degree(p) for p in target.products):
        raise SpecError(f"the delta of {target.name} has not become simpler: {body}")
    plan.body = body
    found, plan.by = work.part(body, plan.keys)
    return found


def _all_outputs(f: Query) -> tuple[Var, ...]:
    return f.vars if isinstance(f, Rel) else (f.var,) if isinstance(f, Bind) else ()


def _kind(expr: Expr) -> Kind:
    if expr.type.is_float:
        return Kind.FLOAT
    zero_one = isinstance(expr, Call) and expr.op in (
        "truth",
        "not_null01",
        "is_nan01",
        "is_pinf01",
        "is_ninf01",
    )
    return Kind.COUNT if zero_one else Kind.WIDE


def _product(
    work: Transform,
    direct: list[Rel],
    rest: list[Query],
    plans: list[_Part],
    values: list[Expr],
    polynomials: list[list[Monomial] | None],
    t: int,
    target: _Map,
    only: int | None,
) -> Query | None:
    """The t-th product: each value contributes its t-th monomial, the count only to the first.

    `only` leaves all others out: 0 the values, i all but the i-th. None if nothing contributes.
    """
    counted = t == 0 and only in (None, 0)
    chosen = [
        _monomial(value, monomials, t) if only in (None, j) else None
        for j, (value, monomials) in enumerate(zip(values, polynomials, strict=True), 1)
    ]
    if not counted and not any(chosen):
        return None
    components: list[list[int]] = [[0 if counted else -1] for _ in plans]
    holders: list[tuple[_Map | None, dict[str, Var]]] = [(plan.held, plan.by) for plan in plans]
    own: list[Expr] = []
    for value, monomial in zip(values, chosen, strict=True):
        if monomial is None:
            for found in components:
                found.append(-1)
            own.append(Const(0.0, value.type) if value.type.is_float else Const(0, BIGINT))
            continue
        factors = dict(monomial.factors)
        for i, plan in enumerate(plans):
            expr = factors.pop(i, None)
            held, by = holders[i]
            if expr is None or held is None:
                components[i].append(0)
            else:
                if not work.choices.merge:
                    held, by = holders[i] = work.part(plan.body, plan.keys, expr)
                components[i].append(held.component(_kind(expr), (substitute(expr, dict(by)),)))
        own.append(_own(tuple(factors.values()), monomial.coefficient))
    atoms_: list[Query] = [*direct]
    for plan, (held, by), found in zip(plans, holders, components, strict=True):
        atoms_.append(plan.atoms[0] if held is None else _read(plan, held, by, found))
    if t > 0 and not any(isinstance(a, MapRef) for a in atoms_):
        raise SpecError(f"a sum of values over no map: {values}")
    ordered = arrange([*atoms_, *rest], work.always)
    needed = {v.name for v in target.keys} | {v.name for e in own for v in variables(e)}
    summed = _summed(ordered, needed)
    if values and any(e != _ONE for e in own):
        summed.append(Value(tuple(own)))
    return product(*summed)


def _monomial(value: Expr, monomials: list[Monomial] | None, t: int) -> Monomial | None:
    if monomials is None:
        return Monomial(1, ((None, value),)) if t == 0 else None
    return monomials[t] if t < len(monomials) else None


def _own(factors: tuple[Expr, ...], coefficient: int) -> Expr:
    """What a statement itself multiplies a value by."""
    assert len(factors) <= 1
    if not factors:
        return Const(coefficient, BIGINT)
    if coefficient == -1:
        return build.call("neg", factors[0])
    return factors[0] if coefficient == 1 else build.call("*", Const(coefficient, BIGINT), factors[0])


def _read(plan: _Part, held: _Map, by: dict[str, Var], components: list[int]) -> MapRef:
    """The map of a component, read by the component's own variables."""
    ours = {theirs.name: name for name, theirs in by.items()}
    by_name = {v.name: v for v in plan.keys}
    keys = tuple(by_name[ours[v.name]] for v in held.keys)
    return MapRef(held.name, keys, (0,) if set(components) == {0} else tuple(components))


def _summed(factors: list[Query], needed: set[str]) -> list[Query]:
    """Parts of a product that share no variable with its change, summed by themselves before they meet it."""
    groups: list[tuple[set[str], list[Query]]] = []
    for f in factors:
        used = names([f]) | _read_by(f)
        members = [f]
        for g in [g for g in groups if g[0] & used]:
            used, members = used | g[0], [*g[1], *members]
            groups.remove(g)
        groups.append((used, members))
    plain: list[Query] = []
    sums: list[Query] = []
    for used, members in groups:
        members.sort(key=factors.index)
        changes = any(isinstance(f, Rel) and f.delta for f in members)
        if (
            changes
            or not any(isinstance(f, Rel | MapRef) and atom_vars(f) for f in members)
            or used <= needed
        ):
            plain += members
        else:
            group = {v.name: v for f in members for v in _all_outputs_of(f) if v.name in needed}
            sums.append(Sum(tuple(group.values()), product(*members)))
    plain.sort(key=factors.index)
    return [*plain, *sums]


def _all_outputs_of(f: Query) -> tuple[Var, ...]:
    return f.keys if isinstance(f, MapRef) else _all_outputs(f)
