"""From the steps of a batch to instructions in single transformer form (section 5.3.2).

Each statement is made well formed (`annotate`), or brought to the form with the fewest rounds (`rules`); then
what a transformer moves becomes a temporary, computed by an instruction of its own where it is, and the
transformer an instruction too. Every expression that comes out is checked to be well formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everfresh.calculus import MapRef, Neg, Plus, Query, Rel, Sum, arity, outputs
from everfresh.distributed import flat
from everfresh.distributed.annotate import annotated
from everfresh.distributed.ir import Add, Change, Eval, Instruction, Keep, Send, Step, Temp, map_id, table_of
from everfresh.distributed.located import Move, NotWellFormed, moves, tag_of
from everfresh.distributed.placement import Placement, maps_read, shown_columns
from everfresh.distributed.rules import optimised
from everfresh.distributed.tags import Dist, Replicated, Tag, renamed
from everfresh.expr import Var
from everfresh.local.ordering import products
from everfresh.program import View
from everfresh.types import Column


class MapsApart(NotWellFormed):
    """Maps that a statement joins with each other are not together: they would have to travel."""

    def __init__(self, maps: Sequence[str], why: str) -> None:
        super().__init__(f"{', '.join(maps)}: {why}")
        self.maps = tuple(maps)


@dataclass
class Lowering:
    """The instructions of one batch."""

    programs: flat.Programs
    placement: Placement
    optimise: bool
    prefix: str = "temp"
    temps: dict[str, Temp] = field(default_factory=dict)
    out: list[Instruction] = field(default_factory=list)

    def run(self, given: Mapping[str, Temp]) -> tuple[Instruction, ...]:
        """The instructions of a batch that changes these tables."""
        steps = flat.flattened(self.programs, list(given))
        made: dict[int, list[Temp]] = {}
        current = dict(given)
        self.temps = {t.name: t for t in given.values()}
        for place, step in enumerate(steps):
            match step:
                case flat.Evaluate():
                    made[place] = self._statement(step, current)
                case flat.Change(table):
                    source = self._at(given[table], self._home(table))
                    self.out.append(Change(table, source))
                case flat.Add(target, of):
                    self.out += [Add(target, temp) for temp in made[of]]
                case flat.Step(unit, adds, round_):
                    relation = unit.relation
                    change = self._temp(relation.columns, (), self.placement.relation(unit), unit.name)
                    pending = tuple((name, t) for name, of in adds for t in made[of])
                    self.out.append(
                        Step(change, unit.view, unit.name, unit.number, round_, pending, unit.maps)
                    )
                    current[unit.name if unit.is_view else f"{unit.view}/{unit.name}"] = change
        return tuple(self.out)

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

    def _statement(self, s: flat.Evaluate, current: Mapping[str, Temp]) -> list[Temp]:
        """The temporaries that together are what a statement adds, where its target is."""
        target = self.programs.maps[s.target]
        to = self.placement.maps[s.target]
        change = current.get(f"{s.view}/{s.base}") or current[s.base]
        scope = _Scope(self, s.view, {s.base: change})
        done: dict[object, list[Query]] = {}
        for sign, factors in products(s.expr):
            read = tuple(scope.resolved(f) for f in factors)
            located = self._located(read, target.keys, to, scope)
            moved, body = (located.to, located.body) if isinstance(located, Move) else (None, located)
            if moves(body):
                done[len(done), moved] = [_signed(sign, located)]
            else:  # what is computed and moved alike is one temporary
                done.setdefault((tag_of(body, scope), moved), []).append(_signed(sign, located))
        return [self._emit(_union(queries), s, scope, len(target.kinds)) for queries in done.values()]

    def _located(self, factors: Sequence[Query], keys: Sequence[Var], to: Tag, scope: _Scope) -> Query:
        try:
            build = optimised if self.optimise else annotated
            return build(factors, keys, to, scope)
        except NotWellFormed as error:
            stored = [n for f in factors for n in f.walk() if isinstance(n, Rel | MapRef)]
            names = [m for n in stored for m in maps_read(self.programs, scope.view, n)]
            raise MapsApart(tuple(dict.fromkeys(names)), str(error)) from error

    def _emit(self, query: Query, s: flat.Evaluate, scope: _Scope, k: int) -> Temp:
        flat_ = self._extracted(query, s, scope, k)
        if isinstance(flat_, Move):
            return self._moved(flat_, s, scope, k)
        return self._eval(flat_, s, scope, k, whole=True)

    def _extracted(self, query: Query, s: flat.Evaluate, scope: _Scope, k: int) -> Query:
        """The query with each transformer inside of it replaced by what it makes; one at the top stays."""

        def inner(q: Query) -> Query:
            q = q.map_children(lambda c: inner(c) if isinstance(c, Query) else c)
            return scope.reading(self._moved(q, s, scope, k), q) if isinstance(q, Move) else q

        if isinstance(query, Move):
            return Move(query.to, inner(query.body))
        return inner(query)

    def _moved(self, query: Move, s: flat.Evaluate, scope: _Scope, k: int) -> Temp:
        body = query.body
        if isinstance(body, Rel) and body.delta:
            source = self.temps[body.name]
            names = [v.name for v in body.vars]
            by = {name: source.columns[names.index(name)].name for name in names}
            to: Tag = query.to
            if isinstance(to, Dist):
                to = Dist(tuple(by[c] for c in to.columns))
            return self._at(source, to)
        return self._at(self._eval(body, s, scope, k, whole=False), query.to)

    def _at(self, source: Temp, to: Tag) -> Temp:
        """A temporary at another place."""
        if source.tag == to:
            return source
        target = self._temp(source.columns, source.kinds, to, source.origin)
        local = isinstance(source.tag, Replicated) and isinstance(to, Dist)
        self.out.append(Keep(target, source) if local else Send(target, source))
        return target

    def _eval(self, query: Query, s: flat.Evaluate, scope: _Scope, k: int, *, whole: bool) -> Temp:
        """A temporary that holds a query; `whole`: in the form of the statement's target."""
        tag = tag_of(query, scope)
        assert tag is not None
        if whole or isinstance(query, Plus | Neg):
            keys = self.programs.maps[s.target].keys
            kinds = self.programs.maps[s.target].kinds
        else:
            keys = query.group if isinstance(query, Sum) else outputs(query)
            kinds = self.programs.maps[s.target].kinds if arity(query) else ()
            if [v.name for v in keys] == [v.name for v in self.programs.maps[s.target].keys]:
                keys, kinds = self.programs.maps[s.target].keys, self.programs.maps[s.target].kinds
        columns = tuple(Column(v.name, v.type, v.nullable) for v in keys)
        target = self._temp(columns, kinds, tag)
        read = frozenset(
            map_id(m) if table_of(m) is None else m
            for m in maps_read(self.programs, s.view, query)
            if m not in self.temps
        )
        names = [n.name for n in query.walk() if isinstance(n, Rel | MapRef) and n.name in self.temps]
        uses = tuple(self.temps[n] for n in dict.fromkeys(names))
        self.out.append(Eval(target, query, s.view, s.at, s.round, read, uses))
        return target


@dataclass
class _Scope:
    """What the atoms of one statement are, and where."""

    lowering: Lowering
    view: str
    changes: Mapping[str, Temp]
    known: dict[Query, Tag | None] = field(default_factory=dict)

    def resolved(self, query: Query) -> Query:
        """A factor with its changes named by their temporaries."""
        if isinstance(query, Rel) and query.delta:
            return Rel(self.changes[query.name].name, query.vars, True)
        return query.map_children(lambda c: self.resolved(c) if isinstance(c, Query) else c)

    def reading(self, temp: Temp, of: Query) -> Query:
        """A read of a temporary in place of the query that it holds."""
        body = of.body if isinstance(of, Move) else of
        if isinstance(body, Rel):
            return Rel(temp.name, body.vars, True)
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
        if atom.name in lowering.temps and (isinstance(atom, MapRef) or atom.delta):
            temp = lowering.temps[atom.name]
            return renamed(temp.tag, [c.name for c in temp.columns], names)
        if isinstance(atom, MapRef):
            keys = [v.name for v in lowering.programs.maps[atom.name].keys]
            return renamed(placement.maps[atom.name], keys, names)
        columns = [c.name for c in lowering.programs.columns(self.view, atom.name)]
        unit = lowering.programs.unit(self.view, atom.name)
        tag = placement.relation(unit) if unit is not None else lowering._home(atom.name)
        return renamed(tag, columns, names)


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


__all__ = ["Lowering", "MapsApart"]
