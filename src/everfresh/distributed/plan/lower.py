"""From the steps of a batch to instructions in single transformer form (section 5.3.2).

Each statement is made well formed (`annotate`), or brought to the form with the fewest rounds (`rules`); then
what a transformer moves becomes a temporary, computed by an instruction of its own where it is, and the
transformer an instruction too. Every expression that comes out is checked to be well formed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from everfresh.calculus import MapRef, Neg, Plus, Query, Rel, Sum, arity, outputs
from everfresh.distributed.plan.annotate import annotated
from everfresh.distributed.plan.ir import (
    Add,
    Eval,
    Instruction,
    Keep,
    PlacedChange,
    Send,
    Step,
    Temp,
    map_id,
    table_of,
)
from everfresh.distributed.plan.located import Move, NotWellFormed, atoms, changes, moves, tag_of
from everfresh.distributed.plan.placement import Placement, maps_read, shown_columns
from everfresh.distributed.plan.programs import Programs
from everfresh.distributed.plan.rules import optimised
from everfresh.distributed.plan.tags import Dist, Replicated, Tag, renamed
from everfresh.expr import Var
from everfresh.local.interpret.join_order import products
from everfresh.program import Round, Run, View
from everfresh.types import Column


class MapsApart(NotWellFormed):
    """Maps that a statement joins with each other are not together: they would have to travel."""

    def __init__(self, maps: Sequence[str], why: str) -> None:
        super().__init__(f"{', '.join(maps)}: {why}")
        self.maps = tuple(maps)


Known = dict[Hashable, Query]


@dataclass
class Lowering:
    """The instructions of one batch."""

    programs: Programs
    placement: Placement
    optimise: bool
    prefix: str = "temp"
    tried: bool = False
    """Whether it is only tried if the statements can be run where their maps are: nothing is emitted for
    them."""
    known: Known = field(default_factory=dict)
    """What was found for products before, by all that it depends on: for other batches, and where other maps
    are elsewhere."""
    temps: dict[str, Temp] = field(default_factory=dict)
    out: list[Instruction] = field(default_factory=list)
    _changes: dict[tuple[str | None, str], Temp] = field(default_factory=dict)
    """The changes so far: of tables and views, and of derived relations by the view that they are of."""

    def run(self, given: Mapping[str, Temp]) -> tuple[Instruction, ...]:
        """The instructions of a batch that changes these tables (or re-evaluated views), in this order."""
        self.temps = {t.name: t for t in given.values()}
        self._changes = {(None, name): temp for name, temp in given.items()}
        for number, table in enumerate(given):
            self._round(number, self.programs.schedule.round(table))
        return tuple(self.out)

    def _round(self, number: int, round_: Round[Query]) -> None:
        """What follows from the change of one table: every step that the data may ask for."""
        schedule, table = self.programs.schedule, round_.base
        pending: dict[str, list[Temp]] = {}
        made = self._evaluated(round_.runs, None, number)
        self.out.append(PlacedChange(table, self._at(self._changes[None, table], self._home(table))))
        self._distribute(made, pending)
        for unit in round_.steps:
            adds = tuple((name, temp) for name in unit.maps for temp in pending.pop(name, ()))
            change = self._temp(unit.relation.columns, (), self.placement.relation(unit), unit.name)
            self.out.append(Step(change, unit.view, unit.name, number, adds, unit.maps))
            self._changes[unit.scope, unit.name] = change
            runs = schedule.on(unit.name, unit.scope)
            self._distribute(self._evaluated(runs, unit.name, number), pending)

    def _evaluated(
        self, runs: Sequence[Run[Query]], at: str | None, number: int
    ) -> list[tuple[str, list[Temp]]]:
        """The temporaries that statements make, by the map that they are for."""
        found = []
        for run in runs:
            change = self._changes.get((run.view, run.base)) or self._changes[None, run.base]
            scope = _Scope(self, run.view, {run.base: change}, run.statement.target, at, number)
            found.append((run.statement.target, self._statement(run.statement.expr, scope)))
        return found

    def _distribute(self, made: Sequence[tuple[str, list[Temp]]], pending: dict[str, list[Temp]]) -> None:
        for target, temps in made:
            if target in self.programs.schedule.under:
                pending.setdefault(target, []).extend(temps)
            else:
                self.out += [Add(target, temp) for temp in temps]

    def _home(self, table: str) -> Tag:
        if table in self.placement.tables:
            return self.placement.tables[table]
        compiled = self.programs.catalog.views[table].compiled
        keys, names = [v.name for v in compiled.map.keys], [c.name for c in compiled.view.columns]
        return renamed(self.placement.maps[compiled.map.name], keys, names)

    def _temp(
        self, columns: Sequence[Column], kinds: Sequence[object], tag: Tag, origin: str | None = None
    ) -> Temp:
        temp = Temp(f"{self.prefix}{len(self.temps)}", tuple(columns), tuple(kinds), tag, origin)  # type: ignore[arg-type]
        self.temps[temp.name] = temp
        return temp

    # -- statements --------------------------------------------------------------------------------

    def _statement(self, expr: Query, scope: _Scope) -> list[Temp]:
        """The temporaries that together are what a statement adds, where its target is."""
        target, to = self.programs.maps[scope.target], self.placement.maps[scope.target]
        done: dict[object, list[Query]] = {}
        for sign, factors in products(expr):
            found = self._located(tuple(factors), target.keys, to, scope)
            if self.tried:
                continue
            located = scope.resolved(found)
            moved, body = (located.to, located.body) if isinstance(located, Move) else (None, located)
            if moves(body):
                done[len(done), moved] = [_signed(sign, located)]
            else:  # what is computed and moved alike is one temporary
                done.setdefault((tag_of(body, scope), moved), []).append(_signed(sign, located))
        return [self._emit(_union(queries), scope) for queries in done.values()]

    def _located(self, factors: tuple[Query, ...], keys: tuple[Var, ...], to: Tag, scope: _Scope) -> Query:
        tags = tuple([tag_of(n, scope) for f in factors for n in atoms(f)])
        asked = scope.view, self.optimise, factors, keys, to, tags
        try:
            build = optimised if self.optimise else annotated
            if asked not in self.known:
                self.known[asked] = build(factors, keys, to, scope)
            return self.known[asked]
        except NotWellFormed as error:
            names = [m for f in factors for m in maps_read(self.programs, scope.view, f)]
            raise MapsApart(tuple(dict.fromkeys(names)), str(error)) from error

    def _emit(self, query: Query, scope: _Scope) -> Temp:
        query = self._extracted(query, scope)
        if isinstance(query, Move):
            return self._moved(query, scope)
        return self._eval(query, scope, whole=True)

    def _extracted(self, query: Query, scope: _Scope) -> Query:
        """The query with each transformer inside of it replaced by what it makes; one at the top stays."""

        def inner(q: Query) -> Query:
            if not moves(q):
                return q
            q = q.map_children(lambda c: inner(c) if isinstance(c, Query) else c)
            return scope.reading(self._moved(q, scope), q) if isinstance(q, Move) else q

        if isinstance(query, Move):
            return Move(query.to, inner(query.body))
        return inner(query)

    def _moved(self, query: Move, scope: _Scope) -> Temp:
        body = query.body
        if isinstance(body, Rel) and body.delta:
            source = self.temps[body.name]
            by = {v.name: source.columns[place].name for v, place in zip(body.vars, body.places, strict=True)}
            to: Tag = query.to
            if isinstance(to, Dist):
                to = Dist(tuple(by[c] for c in to.columns))
            return self._at(source, to)
        return self._at(self._eval(body, scope, whole=False), query.to)

    def _at(self, source: Temp, to: Tag) -> Temp:
        """A temporary at another place."""
        if source.tag == to:
            return source
        target = self._temp(source.columns, source.kinds, to, source.origin)
        local = isinstance(source.tag, Replicated) and isinstance(to, Dist)
        self.out.append(Keep(target, source) if local else Send(target, source))
        return target

    def _eval(self, query: Query, scope: _Scope, *, whole: bool) -> Temp:
        """A temporary that holds a query; `whole`: in the form of the statement's target."""
        tag = tag_of(query, scope)
        assert tag is not None
        of = self.programs.maps[scope.target]
        keys, kinds = of.keys, of.kinds
        if not whole and not isinstance(query, Plus | Neg):
            own = query.group if isinstance(query, Sum) else outputs(query)
            if [v.name for v in own] != [v.name for v in keys]:
                keys, kinds = tuple(own), kinds if arity(query) else ()
        columns = tuple(Column(v.name, v.type, v.nullable) for v in keys)
        target = self._temp(columns, kinds, tag)
        read = frozenset(
            map_id(m) if table_of(m) is None else m
            for m in maps_read(self.programs, scope.view, query)
            if m not in self.temps
        )
        names = [n.name for n in atoms(query) if n.name in self.temps]
        uses = tuple(self.temps[n] for n in dict.fromkeys(names))
        self.out.append(Eval(target, query, scope.view, scope.at, scope.round, read, uses))
        return target


@dataclass
class _Scope:
    """What the atoms of one statement are, and where."""

    lowering: Lowering
    view: str
    changes: Mapping[str, Temp]
    target: str
    at: str | None
    round: int
    known: dict[Query, Tag | None] = field(default_factory=dict)

    def resolved(self, query: Query) -> Query:
        """A factor with its changes named by their temporaries."""
        if isinstance(query, Rel) and query.delta:
            return replace(query, name=self._change(query).name)
        if not changes(query):
            return query
        return query.map_children(lambda c: self.resolved(c) if isinstance(c, Query) else c)

    def _change(self, atom: Rel) -> Temp:
        return self.changes.get(atom.name) or self.lowering.temps[atom.name]

    def reading(self, temp: Temp, of: Query) -> Query:
        """A read of a temporary in place of the query that it holds."""
        body = of.body if isinstance(of, Move) else of
        if isinstance(body, Rel):
            return Rel(temp.name, body.vars, True, body.columns)
        keys = body.group if isinstance(body, Sum) else outputs(body)
        if not temp.kinds:
            return Rel(temp.name, tuple(keys), True)
        return MapRef(temp.name, tuple(keys), tuple(range(len(temp.kinds) + 1)))

    def needs(self, atom: Rel) -> set[str]:
        """The keys of a relation with a row for every key."""
        unit = self.lowering.programs.unit(self.view, atom.name)
        if unit is None or not isinstance(unit.relation, View) or not unit.relation.always:
            return set()
        _, shown = shown_columns(unit.relation)
        columns = [c.name for c in unit.relation.columns]
        return {atom.vars[columns.index(c)].name for c in shown}

    def __call__(self, atom: Rel | MapRef, /) -> Tag:
        """Where an atom's entries are, over its variables."""
        names = [v.name for v in (atom.vars if isinstance(atom, Rel) else atom.keys)]
        lowering, placement = self.lowering, self.lowering.placement
        if isinstance(atom, Rel) and atom.delta:
            temp = self._change(atom)
            return renamed(temp.tag, [temp.columns[place].name for place in atom.places], names)
        if atom.name in lowering.temps and isinstance(atom, MapRef):
            temp = lowering.temps[atom.name]
            return renamed(temp.tag, [c.name for c in temp.columns], names)
        if isinstance(atom, MapRef):
            keys = [v.name for v in lowering.programs.maps[atom.name].keys]
            return renamed(placement.maps[atom.name], keys, names)
        columns = lowering.programs.columns(self.view, atom.name)
        unit = lowering.programs.unit(self.view, atom.name)
        tag = placement.relation(unit) if unit is not None else lowering._home(atom.name)
        return renamed(tag, [columns[place].name for place in atom.places], names)


def _signed(sign: int, query: Query) -> Query:
    """A located product with its sign inside of its transformer."""
    if sign == 1:
        return query
    if isinstance(query, Move):
        return Move(query.to, _signed(sign, query.body))
    assert isinstance(query, Sum)
    return Sum(query.group, Neg(query.body))


def _union(queries: Sequence[Query]) -> Query:
    """Queries that are computed and moved alike, as one."""
    if len(queries) == 1:
        return queries[0]
    first = queries[0]
    if isinstance(first, Move):
        return Move(first.to, _union([q.body for q in queries]))  # type: ignore[attr-defined]
    assert isinstance(first, Sum)
    return Sum(first.group, Plus(tuple(q.body for q in queries)))  # type: ignore[attr-defined]


__all__ = ["Known", "Lowering", "MapsApart"]
