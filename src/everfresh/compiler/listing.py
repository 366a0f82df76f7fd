"""The text of a view's program, exact: `parse_listing(listing(compiled), schemas) == compiled.program`.

Its expressions are queries of the calculus, or plans where something is recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from everfresh.calculus import parse, to_text
from everfresh.compiler.compile import CompiledView, Definition
from everfresh.compiler.lowering.top_k import first_rows
from everfresh.expr import Var
from everfresh.program import Program, parse_program
from everfresh.sql.logical.plan import Plan, scans
from everfresh.sql.logical.plan_text import OPERATORS, parse_plan
from everfresh.types import Column

Schemas = Mapping[str, Sequence[Column]]
_PLAN = re.compile(rf"(?:{'|'.join(OPERATORS)})(?:[ \n]|$)")  # a relation's name has a bracket behind it


def listing(compiled: CompiledView) -> str:
    """The program as text."""
    return compiled.program.to_text(shower(compiled), first_rows)


def shower(compiled: CompiledView) -> Callable[[Definition], str]:
    """What prints an expression of the program: it knows the columns of the tables that the view reads."""
    schemas: dict[str, Sequence[Column]] = {
        scan.table: tuple(Column(v.name, v.type, v.nullable) for v in scan.vars)
        for scan in scans(compiled.plan)
    }
    return shown_over(compiled.program, schemas)


def shown_over(program: Program[Definition], schemas: Schemas) -> Callable[[Definition], str]:
    """What prints an expression of a program over tables with these columns."""
    relations = {**schemas, **{r.name: r.columns for r in program.relations}}
    maps = {m.name: m.keys for m in (*program.maps, *program.shared)}
    return lambda expr: str(expr) if isinstance(expr, Plan) else to_text(expr, relations, maps)


def parse_listing(text: str, schemas: Schemas) -> Program[Definition]:
    """The program that `listing` printed, over tables with these columns."""

    def definition(text: str, maps: Mapping[str, tuple[Var, ...]], relations: Schemas) -> Definition:
        if not _PLAN.match(text):
            return parse(text, {**schemas, **relations}, maps)
        held = {n: tuple(Column(v.name, v.type, v.nullable) for v in keys) for n, keys in maps.items()}
        return parse_plan(text, {**schemas, **relations, **held})

    return parse_program(text, definition)
