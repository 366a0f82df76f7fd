"""Equal maps of different views are one: which maps a view offers to later ones, and what becomes of them
when it is dropped.

A map can be shared if it is held for the sake of statements alone (no view and no derived relation is read
off it), is over tables and views, and if all maps that its own statements read can be shared. Every program
then changes it at the same point of a batch, so one is enough. Each map has one *owner*, the view whose
program has its definition and its statements; others list it in `Program.shared`. When the owner is dropped,
the first view that reads the map takes it over, with the statements that maintain it and the maps they read.

Invariant: every map that a statement of a view reads is in the program of exactly one view.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from everfresh.calculus import Query, maps_read, relations
from everfresh.compiler.compile import CompiledView
from everfresh.program import MapDef, Program, Trigger


def offers(view: CompiledView) -> tuple[MapDef[Query], ...]:
    """The maps of a view that others may read."""
    program = view.program
    under = {*view.view.maps}
    for r in program.relations:
        under |= set(r.maps)
    derived = {r.name for r in program.relations}
    found = {
        m.name: m
        for m in program.maps
        if m.name not in under and derived.isdisjoint(relations(m.definition))  # type: ignore[arg-type]
    }
    elsewhere = {m.name for m in program.shared}
    while True:
        lacking = [n for n in found if not _read_for(program, (n,)) <= found.keys() | elsewhere]
        if not lacking:
            return tuple(found.values())  # type: ignore[arg-type]
        for name in lacking:
            del found[name]


def upkeep(names: Collection[str], programs: Iterable[Program[Any]]) -> Program[Any]:
    """The maps called `names` with the statements that maintain them, and so on for the maps these read."""
    if not names:
        return Program((), ())
    programs = tuple(programs)
    wanted = set(names)
    grown = True
    while grown:
        read = {name for program in programs for name in _read_for(program, wanted)}
        grown = not read <= wanted
        wanted |= read
    found: Program[Any] = Program((), ())
    for program in programs:
        found = joined(found, cut(program, wanted))
    return found


def joined(program: Program[Any], other: Program[Any]) -> Program[Any]:
    """A program that has taken over the maps and triggers of another one."""
    triggers = {t.base: t.statements for t in program.triggers}
    for t in other.triggers:
        triggers[t.base] = (*triggers.get(t.base, ()), *t.statements)
    maps = (*program.maps, *other.maps)
    own = {m.name for m in maps}
    known = {m.name: m for m in (*program.shared, *other.shared) if m.name not in own}
    return replace(
        program,
        maps=maps,
        triggers=tuple(Trigger(base, statements) for base, statements in triggers.items()),
        shared=tuple(known.values()),
        static=tuple(dict.fromkeys((*program.static, *other.static))),
    )


def handed_on(views: Mapping[str, CompiledView], gone: str) -> dict[str, CompiledView]:
    """The views without `gone`, whose maps are taken over by the first of the others that reads them."""
    left = views[gone].program
    found = {}
    for name, view in views.items():
        if name == gone:
            continue
        taken = upkeep([m.name for m in view.program.shared], [left])
        if taken.maps:
            view = replace(view, program=joined(view.program, taken))
            left = cut(left, {m.name for m in left.maps} - {m.name for m in taken.maps})
        found[name] = view
    return found


def readers(views: Mapping[str, CompiledView], name: str) -> tuple[str, ...]:
    """The views that have a map or read it, the owner first."""
    having = [n for n, v in views.items() if any(m.name == name for m in v.program.maps)]
    return (*having, *(n for n, v in views.items() if any(m.name == name for m in v.program.shared)))


def cut(program: Program[Any], names: Collection[str]) -> Program[Any]:
    """The maps of a program that are called `names`, their statements, and what those read elsewhere."""
    maps = tuple(m for m in program.maps if m.name in names)
    own = {m.name for m in maps}
    read = _read_for(program, own) - own
    triggers = [Trigger(t.base, tuple(s for s in t.statements if s.target in own)) for t in program.triggers]
    over = {name for m in maps if isinstance(m.definition, Query) for name in relations(m.definition)}
    return Program(
        maps,
        tuple(t for t in triggers if t.statements),
        (),
        tuple(m for m in (*program.maps, *program.shared) if m.name in read),
        tuple(name for name in program.static if name in over),
    )


def _read_for(program: Program[Any], names: Collection[str]) -> set[str]:
    """The maps that statements on these maps read."""
    return {
        name
        for t in program.triggers
        for s in t.statements
        if s.target in names
        for name in maps_read(s.expr)
    }
