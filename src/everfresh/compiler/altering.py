"""Views when columns are added to a table or dropped from it.

A view keeps its columns and its maps: only the atoms and scans of the table change, in its plan and in its
program. Nothing is compiled again, so maps keep their names and components, and what they hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from everfresh.calculus import Query, Rel
from everfresh.compiler.compile import CompiledView
from everfresh.compiler.lowering.lower import Relation
from everfresh.compiler.viewlet.map_registry import products
from everfresh.expr import Var
from everfresh.program import MapDef, Partitions, Program, Statement, Trigger
from everfresh.sql.logical import plan as p
from everfresh.types import TableSchema


def altered(view: CompiledView, old: TableSchema, new: TableSchema) -> CompiledView:
    """A view over the table after the change."""

    def follow(node: Any) -> Any:
        return followed(node, old, new)

    def relation(r: Relation) -> Relation:
        return replace(r, expr=follow(r.expr)) if isinstance(r, Partitions) else r

    def target(m: MapDef[Any]) -> MapDef[Any]:
        return replace(m, definition=follow(m.definition))

    def statement(s: Statement[Any]) -> Statement[Any]:
        return replace(s, expr=follow(s.expr))

    program: Program[Any] = view.program
    program = replace(
        program,
        maps=tuple(map(target, program.maps)),
        triggers=tuple(Trigger(t.base, tuple(map(statement, t.statements))) for t in program.triggers),
        relations=tuple(map(relation, program.relations)),
        shared=tuple(map(target, program.shared)),
    )
    return replace(view, plan=follow(view.plan), program=program)


def reads(plan: p.Plan, table: str, position: int) -> bool:
    """Whether something in a plan reads the column at `position` of a table."""
    wanted = {s.vars[position].name for s in plan.walk() if isinstance(s, p.Scan) and s.table == table}
    return any(v.name in wanted for v in _outside_scans(plan))


def holds(definition: Query, table: str, position: int) -> bool:
    """Whether a map depends on the column at `position` of a table."""
    for term in products(definition):
        atoms = [n for n in term.walk() if isinstance(n, Rel) and n.name == table]
        seen = Counter(n.name for n in term.walk() if isinstance(n, Var))
        read = (name for atom in atoms for name in atom.names((position,)) or ())
        if any(seen[name] > 1 for name in read):
            return True
    return False


def _outside_scans(node: Any) -> Iterator[Var]:
    if isinstance(node, Var):
        yield node
    elif not isinstance(node, p.Scan):
        for child in node.children:
            yield from _outside_scans(child)


def followed(root: Any, old: TableSchema, new: TableSchema) -> Any:
    """A plan or query whose scans and atoms of a table follow a change of its columns; the other variables
    stay as they are."""
    taken = {n.name for n in root.walk() if isinstance(n, Var)}

    def columns(vars_: tuple[Var, ...]) -> tuple[Var, ...]:
        known = dict(zip(old.names, vars_, strict=True))
        found = []
        for column in new.columns:
            var = known.get(column.name)
            if var is None:
                name, i = column.name, 1
                while name in taken:
                    name, i = f"{column.name}_{i}", i + 1
                taken.add(name)
                var = Var(name, column.type, column.nullable)
            found.append(var)
        return tuple(found)

    def visit(node: Any) -> Any:
        match node:
            case p.Scan(table, _, vars_) if table == old.name:
                return replace(node, vars=columns(vars_))
            case Rel(name, _, _, places) if name == old.name and places is not None:
                moved = tuple(new.names.index(old.names[place]) for place in places)
                return replace(node, columns=moved)  # columns that are read stay, in their order
            case Rel(name, vars_) if name == old.name:
                return replace(node, vars=columns(vars_))
            case p.Scan() | Rel():
                return node
        return node.map_children(visit)

    return visit(root)
