"""Lowering: from a bound SQL plan to maps over the calculus, and to relations and a view that are read off
them.

What joins, filters and projects becomes a sum of products of relation atoms (`rows`). Everything else is a
border: an aggregate, DISTINCT, a set operation, a window, LIMIT, a subquery. Below a border stands a map,
above it a *derived relation* that is read off the map and takes part in products like a table. So whatever
stands under a lift is a map of its own, and each product is flat (rule 4 of section 3.1.5).

A border inside of a correlated subquery is closed (`closing`): its map has the correlated columns as keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everfresh.algebra import Kind
from everfresh.calculus import QUERY, Bind, Cond, Each, Query, Rel, Sum, Value, check, product, rename, union
from everfresh.compiler.lowering.aggregates import (
    AtFraction,
    Beside,
    Components,
    Extreme,
    FirstInOrder,
    NotFlat,
    aggregate,
    of_all_values,
)
from everfresh.compiler.lowering.decorrelate import CorrelatedKey, close
from everfresh.compiler.lowering.partitions import Partitioned, grouped, one_row_always, partitioned
from everfresh.compiler.lowering.products import MEMBER, Fresh, Term, arrange, not_null, readable, settle
from everfresh.expr import Const, Expr, Made, Var, build, element, substitute, variables
from everfresh.program import Intervals, MapDef, Partitions, Side, View, component
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.asked_below import asked_below
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.subqueries import has_subquery, lateral
from everfresh.types import BIGINT, BOOLEAN, INTERVAL, NULL, Column

_MOST_TERMS, _MOST_REPEATS = 8, 5
RULES = 1
"""What is maintained grows; a view of a folder that an earlier release made is kept as it was made there. By
the rules of 0, scalar subqueries that may have several rows are not maintained."""
Relation = View | Partitions[Any] | Intervals
Scope = tuple[tuple[Term, ...], ...]
Rows = tuple[Term, ...]
Conditions = tuple[Expr, ...]
Keys = Mapping[str, tuple[frozenset[int], ...]]
"""Of each table the sets of columns, by position, of which no two rows agree."""
_Wanted = tuple[tuple[Expr, ...], str]
"""What a key is in each term, and its name if it stands apart."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A view in the calculus: its maps, the relations read off them, and how its rows are read."""

    maps: tuple[MapDef[Query], ...]
    relations: tuple[Relation, ...]
    view: View
    several: tuple[tuple[str, str], ...] = ()
    """Maps that count the rows for which a scalar subquery has several values, each with the relation that
    its value is read off."""


@dataclass(frozen=True, slots=True)
class GroupedMap:
    """A map with grouped aggregates: its keys by name, and each aggregate as an expression."""

    map: str
    links: tuple[CorrelatedKey, ...]
    keys: dict[str, Var]
    values: dict[str, Expr]
    sides: tuple[Side, ...]


@dataclass
class Lowering:
    """The maps and relations of one view, as they are found."""

    view: str
    fresh: Fresh
    keys: Keys = field(default_factory=dict)
    rules: int = RULES
    """Of which release the rules are (`RULES`)."""
    maps: list[MapDef[Query]] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    several: list[tuple[str, str]] = field(default_factory=list)

    # -- maps and relations ------------------------------------------------------------------------

    @property
    def always(self) -> dict[str, int]:
        """Of each relation that can only be looked up: how many of its first columns are its keys."""
        found = {}
        for r in self.relations:
            if isinstance(r, View) and r.always:
                found[r.name] = len(self.map(r.map).keys)
        return found

    def map(self, name: str) -> MapDef[Query]:
        """A map by name."""
        return next(m for m in self.maps if m.name == name)

    def define(
        self,
        rows: Rows,
        keys: Sequence[tuple[str, Expr]],
        values: Sequence[Sequence[Expr]] | None = None,
        kinds: tuple[Kind, ...] = (),
        name: str | None = None,
        apart: Collection[str] = (),
    ) -> tuple[str, dict[str, Var]]:
        """A map over `rows`, keyed by expressions over their columns, with `values` per term; its name, and
        the key variable of each name. Equal expressions are one key, but those in `apart` one of their
        own."""
        terms, by_name, group, renamed = self._keyed(rows, keys, apart)
        products = []
        for i, term in enumerate(terms):
            factors: list[Query] = arrange(term.factors, self.always)
            if kinds:
                assert values is not None
                factors.append(Value(tuple(substitute(term.of(v), renamed[i]) for v in values[i])))
            products.append(Sum(group, product(*factors)))
        for var in group:
            if var.type in (INTERVAL, NULL):
                raise NotFlat(f"a key of type {var.type}")
        query = union(*products)
        new = MapDef(name or Made(f"{self.view}#{len(self.maps)}"), group, kinds, check(query, QUERY))
        self.maps.append(new)
        return new.name, by_name

    def _keyed(
        self, rows: Rows, keys: Sequence[tuple[str, Expr]], apart: Collection[str]
    ) -> tuple[list[Term], dict[str, Var], tuple[Var, ...], list[dict[str, Expr]]]:
        terms = list(rows)
        renamed: list[dict[str, Expr]] = [{} for _ in terms]
        wanted = [tuple(t.of(e) for t in terms) for _, e in keys]
        made: dict[_Wanted, Var] = {}
        by_name: dict[str, Var] = {}
        for (name, expr), exprs in zip(keys, wanted, strict=True):
            own = name if name in apart else ""
            if not rows:  # nothing is nothing, whatever its keys
                exprs = (expr,)
                made.setdefault((exprs, own), Var(name, expr.type, expr.nullable))
            if (exprs, own) not in made:
                made[exprs, own] = self._key(terms, name, exprs, made, renamed)
            by_name[name] = made[exprs, own]
        return terms, by_name, tuple(made.values()), renamed

    def _key(
        self,
        terms: list[Term],
        name: str,
        exprs: tuple[Expr, ...],
        made: dict[_Wanted, Var],
        renamed: list[dict[str, Expr]],
    ) -> Var:
        """Bind one key variable in all terms: a variable of the term itself where it can be."""
        first = exprs[0]
        held = isinstance(first, Var) and first.name in terms[0].bound() and first not in made.values()
        if len(terms) == 1 and isinstance(first, Var) and held:
            return first
        inside = {v.name for v in made.values()}.union(*(t.bound() for t in terms))
        var = Var(Fresh(inside).name(readable(name)), first.type, any(e.nullable for e in exprs))
        for i, expr in enumerate(exprs):
            taken = {v.name for k, _ in made if isinstance(v := k[i], Var)}
            term = terms[i]
            if isinstance(expr, Var) and expr.name in term.bound() and expr.name not in taken:
                renamed[i][expr.name] = var
                columns = {n: substitute(e, {expr.name: var}) for n, e in term.columns.items()}
                factors = tuple(rename(f, {expr.name: var}) for f in term.factors)
                terms[i] = Term(factors, columns)
            else:
                terms[i] = Term((*term.factors, Bind(var, substitute(expr, renamed[i]))), term.columns)
        return var

    def relate(
        self,
        map_name: str,
        columns: Sequence[tuple[str, Expr]],
        *,
        bag: bool = False,
        having: Expr | None = None,
        always: bool = False,
        sides: tuple[Side, ...] = (),
        weight: Expr | None = None,
    ) -> View:
        """A relation read off a map."""
        view = View(
            self.relation_name(),
            map_name,
            tuple(
                Column(n, e.type, e.nullable) for n, (_, e) in zip(_readable(columns), columns, strict=True)
            ),
            tuple(e for _, e in columns),
            bag,
            having,
            always,
            sides,
            weight,
        )
        self.relations.append(view)
        return view

    def relation_name(self) -> str:
        """The name of the next relation."""
        return Made(f"{self.view}${len(self.relations)}")

    def atom(self, relation: Relation, links: Sequence[CorrelatedKey] = ()) -> tuple[Rel, tuple[Query, ...]]:
        """A relation as an atom with variables of its own, and how its first columns are linked to what
        is outside."""
        vars_ = tuple(
            Var(self.fresh.name(c.name), c.type, c.nullable or (i < len(links) and links[i].outer.nullable))
            for i, c in enumerate(relation.columns)
        )
        linked = tuple(link.factor(var) for link, var in zip(links, vars_, strict=False))
        return Rel(relation.name, vars_), linked

    # -- plans -------------------------------------------------------------------------------------

    def rows(self, plan: p.Plan, scope: Scope, where: Conditions = ()) -> Rows:
        """The rows of a plan in a few products; variables of the plans around it, whose rows are `scope`,
        stand free. Where they would be many, as those of outer joins are, which multiply, the query is cut:
        they are a relation of its own, which what is above reads by its change."""
        terms = self.terms(plan, scope, where)
        return terms if len(terms) <= _MOST_TERMS else self._bag(terms, plan, scope)

    def terms(self, plan: p.Plan, scope: Scope, where: Conditions = ()) -> Rows:
        """The rows of a plan in as many products as there are, but for those in which a condition of `where`,
        by which they are filtered above, cannot be TRUE."""
        rows = self._rows(plan, scope, where)
        found = tuple(t for t in (settle(term, self.fresh) for term in rows) if t is not None)
        return tuple(t for t in found if t.may(where)) if len(found) > 1 else found

    def _rows(self, plan: p.Plan, scope: Scope, where: Conditions) -> Rows:
        from everfresh.compiler.lowering.subqueries import filtered, resolved

        match plan:
            case p.Single():
                return (Term((), {}),)
            case p.Scan(table, _, vars_, places):
                return (Term((Rel(table, vars_, columns=places),), {v.name: v for v in vars_}),)
            case p.Filter(child, condition):
                below = self._below(child, [condition], scope, (*where, *_plain(condition)))
                return filtered(self, below, condition, scope)
            case p.Project(child, items):
                asked = tuple(substitute(e, dict(items)) for e in where)
                plain = tuple(e for e in asked if not has_subquery(e))
                below = self._below(child, [e for _, e in items], scope, plain)
                rows, exprs = resolved(self, below, [e for _, e in items], scope)
                return tuple(
                    Term(t.factors, {n: t.of(e) for (n, _), e in zip(items, exprs, strict=True)})
                    for t in rows
                )
            case p.Join():
                return self._join(plan, scope, where)
            case p.Unnest():
                return self._unnested(plan, scope)
            case p.Aggregate():
                return self._aggregated(plan, scope)
            case p.Distinct(child):
                return self._distinct(self.terms(child, scope, where), plan, scope)
            case p.SetOperation():
                return self._set_operation(plan, scope, where)
            case p.Sort(child, _):
                return self.terms(child, scope, where)
            case p.Window() | p.Limit():
                return self._partitions(plan, scope)
        raise NotFlat(type(plan).__name__)

    def _below(self, plan: p.Plan, exprs: Sequence[Expr], scope: Scope, where: Conditions) -> Rows:
        """The rows that expressions are over. They are cut above these, which can then be keys, or rule
        products out; but not above subqueries, which would be asked for each product."""
        read = self.rows if any(map(has_subquery, exprs)) else self.terms
        return read(plan, scope, where)

    def _unnested(self, plan: p.Unnest, scope: Scope) -> Rows:
        """The rows of lists. Those of constants are a relation that never changes, which is joined like any
        other."""
        from everfresh.compiler.lowering.subqueries import resolved

        lists = [e for _, e in plan.items]
        rows, lists = resolved(self, self._below(plan.input, lists, scope, ()), lists, scope)
        found = []
        for t in rows:
            vars_ = tuple(element(self.fresh.name(n), e) for (n, _), e in zip(plan.items, lists, strict=True))
            each = Each(vars_, tuple(substitute(e, dict(t.columns)) for e in lists))
            columns = {n: v for (n, _), v in zip(plan.items, vars_, strict=True)}
            found.append(Term((*t.factors, each), {**t.columns, **columns}))
        if isinstance(plan.input, p.Single) and not any(t.free() for t in found):
            return self._bag(tuple(found), plan, scope)
        return tuple(found)

    def _join(self, plan: p.Join, scope: Scope, where: Conditions) -> Rows:
        from everfresh.compiler.lowering.subqueries import filtered, unmatched

        where = (*where, *_plain(plan.condition)) if plan.kind == "inner" else ()
        left = self.rows(plan.left, scope, where)
        right = self.rows(plan.right, (*scope, left) if lateral(plan) else scope, where)
        if _repeats(left) + _repeats(right) > _MOST_REPEATS:
            if _repeats(left) >= _repeats(right):
                left = self._bag(left, plan.left, scope)
            else:
                right = self._bag(right, plan.right, (*scope, left) if lateral(plan) else scope)
        pairs = tuple(_pair(a, b) for a in left for b in right)
        condition = plan.condition
        if plan.kind == "inner":
            return pairs if condition is None else filtered(self, pairs, condition, scope)
        condition = Const(True, BOOLEAN) if condition is None else condition
        found = list(filtered(self, pairs, condition, scope))
        if plan.kind in ("left", "full"):
            found += _padded(unmatched(self, left, right, condition, scope), plan.right)
        if plan.kind in ("right", "full"):
            found += _padded(unmatched(self, right, left, condition, scope), plan.left)
        return tuple(found)

    def reading(self, node: p.Aggregate, scope: Scope, name: str | None = None) -> GroupedMap:
        """The map of an aggregate, and those beside it."""
        from everfresh.compiler.lowering.subqueries import resolved

        rows = self.rows(node.input, scope)
        calls = []
        for n, call in node.aggregates:
            when = [call.filter] if call.filter is not None else []
            rows, asked = resolved(self, rows, [*call.args, *(e for e, _, _ in call.order), *when], scope)
            rest = iter(asked)
            args = tuple(next(rest) for _ in call.args)
            order = tuple((next(rest), up, first) for _, up, first in call.order)
            calls.append((n, p.AggregateCall(call.fn, args, call.distinct, next(rest, None), order)))
        rows, keys = resolved(self, rows, [e for _, e in node.keys], scope)
        components = Components()
        values = {n: aggregate(call, components, sure=node.grouped) for n, call in calls}
        exprs = keys + [e for _, e in components.items]
        rows = _with_outer(rows, [*exprs, *_of_sides(components)])
        rows, links, _ = close(self, rows, scope, gated=False)
        linked = [(link.name, link.column) for link in links]
        own = [(n, e) for (n, _), e in zip(node.keys, exprs, strict=False)]
        items = exprs[len(node.keys) :]
        apart = () if node.grouped else [link.name for link in links]
        map_name, by_name = self.define(
            rows, [*linked, *own], [items] * len(rows), components.kinds, name, apart
        )
        sides = tuple(
            self._side(i, side, components, rows, [*linked, *own], apart)
            for i, side in enumerate(components.sides, 1)
        )
        return GroupedMap(map_name, links, by_name, values, sides)

    def _side(
        self,
        index: int,
        side: Beside,
        components: Components,
        rows: Rows,
        keys: list[tuple[str, Expr]],
        apart: Collection[str],
    ) -> Side:
        if isinstance(side, Extreme | AtFraction):
            found = components.values.get(side.expr) if isinstance(side, AtFraction) else None
            if found is None:
                there = _where(rows, not_null(side.expr))
                found, _ = self.define(there, [*keys, (MEMBER, side.expr)], apart=[*apart, MEMBER])
                components.values[side.expr] = found
            return Side(found, side.how, fraction=getattr(side, "fraction", 0.0))
        if isinstance(side, FirstInOrder):
            there = rows if side.when is None else _where(rows, side.when)
            parts = [(Made(f"$o{i}"), e) for i, (e, _, _) in enumerate(side.order)]
            name, _ = self.define(there, [*keys, *parts], apart=[*apart, *(n for n, _ in parts)])
            return Side(name, "first", order=tuple((up, first) for _, up, first in side.order))
        values, inner = components.beside[index]
        there = rows if side.when is None else _where(rows, side.when)
        if len(side.exprs) == 1:
            there = _where(there, not_null(side.exprs[0]))
        members = [(Made(f"$x{i}"), e) for i, e in enumerate(side.exprs)]
        name, by_name = self.define(there, [*keys, *members], apart=apart)
        held = self.map(name).keys
        atom, _ = self.atom(self.relate(name, [(v.name, v) for v in held]))
        own = {v.name: var for v, var in zip(held, atom.vars, strict=True)}
        inside: dict[str, Expr] = {v.name: own[by_name[members[i][0]].name] for i, v in enumerate(values)}
        items = [substitute(e, inside) for _, e in inner.items]
        group = dict.fromkeys(by_name[n].name for n, _ in keys)
        term = Term((atom,), {v.name: v for v in atom.vars})
        beside, _ = self.define((term,), [(own[n].name, own[n]) for n in group], [items], inner.kinds)
        return Side(beside)

    def _aggregated(self, node: p.Aggregate, scope: Scope) -> Rows:
        if of_all_values(node):
            if not node.grouped:
                return self.rows(one_row_always(node), scope)
            return self._by_partitions(node, grouped(self, node, scope))
        found = self.reading(node, scope)
        links = [(link.name, found.keys[link.name]) for link in found.links]
        keys = [(n, found.keys[n]) for n, _ in node.keys]
        view = self.relate(
            found.map, [*links, *keys, *found.values.items()], always=not node.grouped, sides=found.sides
        )
        atom, linked = self.atom(view, found.links)
        names = [n for n, _ in (*node.keys, *node.aggregates)]
        columns = dict(zip(names, atom.vars[len(links) :], strict=True))
        return (Term((*linked, atom), columns),)

    def _distinct(self, rows: Rows, plan: p.Plan, scope: Scope, **how: Any) -> Rows:
        rows, links, gates = close(self, rows, scope)
        linked = [(link.name, link.column) for link in links]
        own = [(v.name, v) for v in plan.variables]
        name, by_name = self.define(rows, [*linked, *own], how.pop("values", None), how.pop("kinds", ()))
        view = self.relate(name, [(n, by_name[n]) for n, _ in (*linked, *own)], **how)
        atom, factors = self.atom(view, links)
        columns = dict(zip((n for n, _ in own), atom.vars[len(links) :], strict=True))
        return (Term((*factors, atom, *(Cond(g) for g in gates)), columns),)

    def _bag(self, rows: Rows, plan: p.Plan, scope: Scope) -> Rows:
        """The rows as one relation of its own, where they would be too many products."""
        return self._distinct(rows, plan, scope, bag=True)

    def _set_operation(self, plan: p.SetOperation, scope: Scope, where: Conditions) -> Rows:
        asked = where if plan.op == "union" else ()
        by: dict[str, Expr] = dict(zip((v.name for v in plan.variables), plan.right.variables, strict=True))
        left = self.terms(plan.left, scope, asked)
        right = self.terms(plan.right, scope, tuple(substitute(e, by) for e in asked))
        names = [v.name for v in plan.variables]
        other = [v.name for v in plan.right.variables]
        right = tuple(
            Term(t.factors, {n: t.columns[o] for n, o in zip(names, other, strict=True)}) for t in right
        )
        left = tuple(Term(t.factors, {n: t.columns[n] for n in names}) for t in left)
        if plan.op == "union" and plan.all:
            return left + right
        if plan.op == "union":
            return self._distinct(left + right, plan, scope)
        one, zero = Const(1, BIGINT), Const(0, BIGINT)
        values = [[one, zero]] * len(left) + [[zero, one]] * len(right)
        m, k = (Var(component(i), BIGINT, False) for i in (1, 2))
        there = build.call(">", m, zero)
        having, weight = {
            ("intersect", False): (build.call("and", there, build.call(">", k, zero)), None),
            ("intersect", True): (
                build.call(">", build.call("least", m, k), zero),
                build.call("least", m, k),
            ),
            ("except", False): (build.call("and", there, build.call("=", k, zero)), None),
            ("except", True): (build.call(">", m, k), build.call("-", m, k)),
        }[plan.op, plan.all]
        kinds = (Kind.COUNT, Kind.COUNT)
        return self._distinct(
            left + right, plan, scope, values=values, kinds=kinds, having=having, weight=weight
        )

    def _partitions(self, plan: p.Window | p.Limit, scope: Scope) -> Rows:
        """A plan that is recomputed over whole partitions of its input."""
        return self._by_partitions(plan, partitioned(self, plan, scope))

    def _by_partitions(self, plan: p.Plan, found: Partitioned) -> Rows:
        atom, linked = self.atom(found.relation, found.links)
        own = atom.vars[len(found.links) :]
        columns = dict(zip((v.name for v in plan.variables), own, strict=True))
        return (Term((*linked, atom, *(Cond(g) for g in found.gates)), columns),)


def _pair(left: Term, right: Term) -> Term:
    """A term of pairs; where the right side mentions columns of the left one, they are those of its rows."""
    if left.columns.keys().isdisjoint(right.free()):
        return Term((*left.factors, *right.factors), {**left.columns, **right.columns})

    def given(factor: Query) -> Query:
        match factor:
            case Cond(condition):
                return Cond(left.of(condition))
            case Bind(var, expr):
                return Bind(var, left.of(expr))
            case Each(vars_, lists):
                return Each(vars_, tuple(substitute(e, dict(left.columns)) for e in lists))
        return factor

    shown = {n: left.of(e) for n, e in right.columns.items()}
    return Term((*left.factors, *map(given, right.factors)), {**left.columns, **shown})


def _repeats(rows: Rows) -> int:
    """How often at most a relation stands in a product: n of one are 2^n - 1 products of its change."""
    counts = (Counter(f.name for f in t.factors if isinstance(f, Rel)) for t in rows)
    return max((max(found.values(), default=0) for found in counts), default=0)


def _plain(condition: Expr | None) -> Conditions:
    """The parts of a condition that ask no subquery."""
    if condition is None:
        return ()
    return tuple(part for part in conjuncts(condition) if not has_subquery(part))


def _readable(columns: Sequence[tuple[str, Expr]]) -> list[str]:
    """Names for columns: that of the key for one that the compiler has named itself (`$0`)."""
    found = [e.name if isinstance(n, Made) and isinstance(e, Var) else n for n, e in columns]
    return found if len(set(found)) == len(found) else [n for n, _ in columns]


def _of_sides(components: Components) -> list[Expr]:
    found: list[Expr] = []
    for side in components.sides:
        if isinstance(side, Extreme | AtFraction):
            found.append(side.expr)
        elif isinstance(side, FirstInOrder):
            found += [*(e for e, _, _ in side.order), *([side.when] if side.when is not None else [])]
        else:
            found += [*side.exprs, *([side.when] if side.when is not None else [])]
    return found


def _with_outer(rows: Rows, exprs: Sequence[Expr]) -> Rows:
    """Rows with columns for the outer variables that expressions over them mention: they are keys too."""
    used = {v.name: v for e in exprs for v in variables(e)}
    return tuple(
        Term(t.factors, {**t.columns, **{n: v for n, v in used.items() if n not in t.columns}}) for t in rows
    )


def _where(rows: Rows, condition: Expr) -> Rows:
    return tuple(Term((*t.factors, Cond(t.of(condition))), t.columns) for t in rows)


def _padded(rows: Rows, side: p.Plan) -> list[Term]:
    nulls: dict[str, Expr] = {v.name: Const(None, v.type) for v in side.variables}
    return [Term(t.factors, {**t.columns, **nulls}) for t in rows]


# -- the whole view ----------------------------------------------------------------------------------


def lower(name: str, plan: p.Plan, keys: Keys | None = None, rules: int = RULES) -> Lowered:
    """A view's plan in the calculus; raises `NotFlat` if it cannot be maintained incrementally."""
    fresh = Fresh({n.name for n in plan.walk() if isinstance(n, Var)})
    lowering = Lowering(name, fresh, keys or {}, rules)
    plan = asked_below(plan) if rules else plan
    view = _aggregate_view(lowering, name, plan) or _rows_view(lowering, name, plan)
    return Lowered(tuple(lowering.maps), tuple(lowering.relations), view, tuple(lowering.several))


def _aggregate_view(lowering: Lowering, name: str, plan: p.Plan) -> View | None:
    """A view that is read off an aggregate's map directly, if nothing but scalars stands above it."""
    outputs: dict[str, Expr] = {v.name: v for v in plan.variables}
    having: list[Expr] = []
    node = plan
    while not isinstance(node, p.Aggregate):
        match node:
            case p.Project(child, items) if not any(has_subquery(e) for _, e in items):
                outputs = {k: substitute(e, dict(items)) for k, e in outputs.items()}
                having = [substitute(e, dict(items)) for e in having]
                node = child
            case p.Filter(child, condition) if not has_subquery(condition):
                having.append(condition)
                node = child
            case _:
                return None
    if of_all_values(node):
        return None
    found = lowering.reading(node, (), name)
    by: dict[str, Expr] = {**found.keys, **found.values}
    return View(
        name,
        found.map,
        plan.columns,
        tuple(substitute(e, by) for e in outputs.values()),
        having=substitute(build.conjunction(having), by) if having else None,
        always=not node.grouped,
        sides=found.sides,
    )


def _rows_view(lowering: Lowering, name: str, plan: p.Plan) -> View:
    distinct = isinstance(plan, p.Distinct)
    rows = lowering.terms(plan.input if isinstance(plan, p.Distinct) else plan, ())
    if any(t.free() for t in rows):
        raise AssertionError(f"free variables in a view: {rows}")
    keys = [(v.name, v) for v in plan.variables]
    map_name, by_name = lowering.define(rows, keys, name=name)
    outputs = tuple(by_name[n] for n, _ in keys)
    return View(name, map_name, plan.columns, outputs, bag=not distinct)
