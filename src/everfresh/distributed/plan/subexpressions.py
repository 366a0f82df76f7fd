"""Common subexpressions and dead code, aware of where things are computed (section 5.3.2).

`shared` computes and sends once what several statements compute and send alike: equal queries over the same
state, at the same place; equal moves of one temporary. `pruned` drops instructions whose result nobody reads,
and lets a change have the columns only that are read where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from everfresh.calculus import MapRef, Query, Rel
from everfresh.distributed.plan.ir import (
    Add,
    Eval,
    Instruction,
    Keep,
    PlacedChange,
    Send,
    Step,
    Temp,
    uses_of,
)
from everfresh.distributed.plan.tags import Dist
from everfresh.expr import Var
from everfresh.rewrite import remembered


def shared(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Each query and each move once."""
    out: list[Instruction] = []
    same: dict[str, Temp] = {}
    known: dict[object, Temp] = {}
    version: dict[str, int] = {}
    for instruction in instructions:
        instruction = renamed_temps(instruction, same)
        key: object = None
        match instruction:
            case Eval(target, expr, view, at, round_, read):
                # Derived relations are those of a view's program, and maps change on the way.
                state = tuple(sorted((name, version.get(name, 0)) for name in read))
                scope = (view, at, round_) if _reads_relations(expr) else None
                key = (expr, state, scope, target.tag, target.kinds, tuple(c.name for c in target.columns))
            case Send(target, source) | Keep(target, source):
                key = (type(instruction), source.name, target.tag)
        if key is not None and key in known:
            same[instruction.target.name] = known[key]  # type: ignore[union-attr]
            continue
        if key is not None:
            known[key] = instruction.target  # type: ignore[union-attr]
        for name in instruction.writes:
            version[name] = version.get(name, 0) + 1
        out.append(instruction)
    return tuple(out)


def _reads_relations(query: Query) -> bool:
    return any(isinstance(n, Rel) and not n.delta for n in query.walk())


def renamed_temps(instruction: Instruction, by: dict[str, Temp]) -> Instruction:
    """An instruction that reads other temporaries in place of some."""
    if not any(t.name in by for t in uses_of(instruction)):
        return instruction

    def temp(t: Temp) -> Temp:
        return by.get(t.name, t)

    match instruction:
        case Eval():
            uses = tuple(dict.fromkeys(map(temp, instruction.uses)))
            return replace(instruction, expr=_reading(instruction.expr, by), uses=uses)
        case Step():
            return replace(instruction, adds=tuple((m, temp(t)) for m, t in instruction.adds))
    return replace(instruction, source=temp(instruction.source))


def _reading(query: Query, by: dict[str, Temp]) -> Query:
    if isinstance(query, Rel) and query.delta and query.name in by:
        return replace(query, name=by[query.name].name)
    if isinstance(query, MapRef) and query.name in by:
        return MapRef(by[query.name].name, query.keys, query.components)
    return query.map_children(lambda c: _reading(c, by) if isinstance(c, Query) else c)


def pruned(
    instructions: Sequence[Instruction], given: Mapping[str, Temp]
) -> tuple[tuple[Instruction, ...], dict[str, Temp]]:
    """Without what nobody reads; and the given changes with the columns alone that something reads."""
    return _narrowed(_alive(instructions), given)


def _alive(instructions: Sequence[Instruction]) -> list[Instruction]:
    read: set[str] = set()
    out: list[Instruction] = []
    for instruction in reversed(instructions):
        if isinstance(instruction, Add | PlacedChange | Step) or instruction.target.name in read:
            out.append(instruction)
            read |= {t.name for t in uses_of(instruction)}
    return out[::-1]


def _narrowed(
    instructions: Sequence[Instruction], given: Mapping[str, Temp]
) -> tuple[tuple[Instruction, ...], dict[str, Temp]]:
    """Changes without the columns that no query reads where they are."""
    wanted = wanted_columns(instructions)
    narrow: dict[str, tuple[Temp, list[int]]] = {}

    def thinned(temp: Temp) -> Temp:
        """The temporary with what is wanted of it; the columns of its tag stay."""
        places = wanted.get(temp.name, set())
        if places is None or temp.origin is None:
            return temp
        names = [c.name for c in temp.columns]
        if isinstance(temp.tag, Dist):
            places = places | {names.index(c) for c in temp.tag.columns}
        kept = sorted(places)
        thin = replace(temp, columns=tuple(temp.columns[i] for i in kept))
        narrow[temp.name] = (thin, kept)
        return thin

    def now(temp: Temp) -> Temp:
        return narrow[temp.name][0] if temp.name in narrow else temp

    thin_given = {name: thinned(temp) for name, temp in given.items()}
    out: list[Instruction] = []
    for instruction in instructions:
        match instruction:
            case Send(target, source):
                out.append(Send(thinned(target), now(source)))
            case Keep(target, source) if source.name in narrow:
                thin, kept = narrow[source.name]
                narrow[target.name] = (replace(target, columns=thin.columns), kept)
                out.append(Keep(now(target), thin))
            case Eval() if any(t.name in narrow for t in instruction.uses):
                uses = tuple(map(now, instruction.uses))
                out.append(replace(instruction, expr=_thinned(instruction.expr, narrow), uses=uses))
            case _:
                out.append(instruction)
    return tuple(out), thin_given


def wanted_columns(instructions: Sequence[Instruction]) -> dict[str, set[int] | None]:
    """The places of the columns that are read of each temporary; None: all of them."""
    wanted: dict[str, set[int] | None] = {}

    def want(temp: Temp, places: set[int] | None) -> None:
        known = wanted.get(temp.name, set())
        wanted[temp.name] = None if places is None or known is None else known | places

    for instruction in reversed(instructions):
        match instruction:
            case Eval(_, expr):
                for atom, used in _columns_read(expr):
                    temp = next((t for t in instruction.uses if t.name == atom.name), None)
                    if temp is not None:
                        want(temp, used if isinstance(atom, Rel) and temp.origin is not None else None)
            case Keep(target, source) | Send(target, source):
                places = wanted.get(target.name)
                if places is not None and isinstance(target.tag, Dist):
                    names = [c.name for c in source.columns]
                    places = places | {names.index(c) for c in target.tag.columns}
                want(source, places)
            case _:
                for temp in uses_of(instruction):
                    want(temp, None)
    return wanted


@remembered
def _columns_read(query: Query) -> list[tuple[Rel | MapRef, set[int]]]:
    """Each atom of a change, and the places whose variables something else reads."""
    seen: dict[str, int] = {}
    atoms = [n for n in query.walk() if isinstance(n, Rel | MapRef)]
    for name in (n.name for n in query.walk() if isinstance(n, Var)):
        seen[name] = seen.get(name, 0) + 1
    found = []
    for atom in atoms:
        named = zip(atom.places, atom.vars, strict=True) if isinstance(atom, Rel) else enumerate(atom.keys)
        found.append((atom, {place for place, v in named if seen.get(v.name, 0) > 1}))
    return found


def _thinned(query: Query, narrow: dict[str, tuple[Temp, list[int]]]) -> Query:
    if isinstance(query, Rel) and query.delta and query.name in narrow:
        return query.over(query.name, narrow[query.name][1])
    return query.map_children(lambda c: _thinned(c, narrow) if isinstance(c, Query) else c)
