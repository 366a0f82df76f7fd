"""Compiled programs as text, as in Listing 6.4: `to_listing` prints, `parse_listing` reads it back.

    MATRIX A(4, 4);
    MATRIX B(4, 4) := A A;
    ON UPDATE A BY (uA, vA):
      UB := [uA, A uA + uA (vA' uA)];
      VB := [A' vA, vA];
      A += uA vA';
      B += UB VB';

A rank other than 1 is written `BY (uA, vA) RANK 2`; a re-evaluated matrix is `REEVALUATE C := B B;`; a
matrix that is part of a definition and not stored is a `LET` in place of a `MATRIX`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.lang.nodes import Expr, Matrix
from everfresh.linalg.lang.text import parse_expr, to_text
from everfresh.program.ir import MapDef, Program, Statement, Trigger

_MATRIX = re.compile(r"(MATRIX|LET) (\w+)\((\d+), (\d+)\)(?: := (.*))?;")
_ON = re.compile(r"ON UPDATE (\w+) BY \((\w+), (\w+)\)(?: RANK (\d+))?:")
_STATEMENT = re.compile(r"  (REEVALUATE )?(\w+) (:=|\+=) (.*);")
Factors = Mapping[str, tuple[Matrix, Matrix]]  # changed input -> the factors of its change


def trigger_text(trigger: Trigger[Expr], factors: Factors) -> str:
    """One trigger; `factors` are those of its inputs."""
    changes = []
    for name, (u, v) in factors.items():
        rank = "" if u.columns == 1 else f" RANK {u.columns}"
        changes.append(f"{name} BY ({u.name}, {v.name}){rank}")
    lines = [f"ON UPDATE {', '.join(changes)}:"]
    for s in trigger.statements:
        redo = "REEVALUATE " if s.strategy == "reevaluate" else ""
        lines.append(f"  {redo}{s.target} {s.op} {to_text(s.expr)};")
    return "\n".join(lines)


def to_listing(program: Program[Expr], factors: Factors, lets: Sequence[tuple[str, Expr]] = ()) -> str:
    """The stored matrices, the definitions that they share, and the triggers."""
    lines = []
    for name, expr in lets:
        lines.append(f"LET {name}({expr.rows}, {expr.columns}) := {to_text(expr)};")
    for m in program.maps:
        rows, columns = m.definition.shape
        own = isinstance(m.definition, Matrix) and m.definition.name == m.name
        lines.append(
            f"MATRIX {m.name}({rows}, {columns})" + (";" if own else f" := {to_text(m.definition)};")
        )
    for trigger in program.triggers:
        lines.append(trigger_text(trigger, {trigger.base: factors[trigger.base]}))
    return "\n".join(lines)


def parse_listing(text: str) -> Program[Expr]:
    """The program that `to_listing` printed, without the notes of its statements."""
    env: dict[str, Matrix] = {}
    definitions: list[tuple[str, str | None]] = []
    triggers: list[tuple[str, list[Statement[Expr]]]] = []
    local: dict[str, Matrix] = {}
    for line in text.splitlines():
        if found := _MATRIX.fullmatch(line):
            env[found[2]] = Matrix(found[2], int(found[3]), int(found[4]))
            if found[1] == "MATRIX":
                definitions.append((found[2], found[5]))
        elif found := _ON.fullmatch(line):
            base, rank = env[found[1]], int(found[4] or 1)
            local = {
                **env,
                found[2]: Matrix(found[2], base.rows, rank),
                found[3]: Matrix(found[3], base.columns, rank),
            }
            triggers.append((found[1], []))
        elif (found := _STATEMENT.fullmatch(line)) and triggers:
            expr = parse_expr(found[4], local)
            local.setdefault(found[2], Matrix(found[2], *expr.shape))
            strategy = "reevaluate" if found[1] else "incremental" if found[3] == "+=" else "factor"
            triggers[-1][1].append(Statement(found[2], found[3], expr, strategy))
        else:
            raise EverfreshError(Code.SYNTAX, f"not a line of a matrix program: {line!r}")
    maps = tuple(
        MapDef(name, (), (Kind.FLOAT,), env[name] if body is None else parse_expr(body, env))
        for name, body in definitions
    )
    return Program(maps, tuple(Trigger(base, tuple(statements)) for base, statements in triggers))
