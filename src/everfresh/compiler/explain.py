"""What a view does and why: as text in the notation of the thesis, as JSON, and as a drawing (Graphviz
DOT)."""

from __future__ import annotations

import json
from typing import Any

from everfresh.compiler.compile import CompiledView, Definition
from everfresh.errors import Code, EverfreshError
from everfresh.sql.plan import Plan

FORMATS = ("text", "json", "dot")


def explain(
    compiled: CompiledView, text: str, format: str = "text", engine: dict[str, Any] | None = None
) -> str:
    """The maintenance program of a view; `engine` adds what the runtime knows (sizes, placement)."""
    if format not in FORMATS:
        raise EverfreshError(
            Code.ARGUMENT, f"there is no format '{format}'", hint="formats are: " + ", ".join(FORMATS)
        )
    return {"text": _text, "json": _json, "dot": _dot}[format](compiled, text, engine or {})


def _text(compiled: CompiledView, text: str, engine: dict[str, Any]) -> str:
    view = compiled.view
    lines = [
        f"VIEW {view.name} ({', '.join(map(str, view.columns))})",
        f"  {text}",
        "",
        compiled.program.to_text(_shown),
        "",
    ]
    lines.append("READ")
    for column, expr in zip(view.columns, view.outputs, strict=True):
        lines.append(f"  {column.name} = {expr}")
    if view.having is not None:
        lines.append(f"  where {view.having}")
    lines.append(f"  {rows_of(compiled)}")
    if engine:
        lines += ["", "ENGINE", *(f"  {name}: {value}" for name, value in engine.items())]
    return "\n".join(lines)


def _shown(definition: Definition) -> str:
    """An expression of the calculus as it is; a plan, which has several lines, indented below its first."""
    text = str(definition)
    return text.replace("\n", "\n    ") if isinstance(definition, Plan) else text


def rows_of(compiled: CompiledView) -> str:
    """How many rows an entry of the map stands for, in words."""
    view = compiled.view
    if view.bag:
        return "as many equal rows per entry as its count #0"
    return "always exactly one row" if view.always else "one row per entry"


def _json(compiled: CompiledView, text: str, engine: dict[str, Any]) -> str:
    view, program = compiled.view, compiled.program
    return json.dumps(
        {
            "view": view.name,
            "sql": text,
            "strategy": compiled.strategy,
            "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in view.columns],
            "maps": [
                {
                    "name": m.name,
                    "keys": [v.name for v in m.keys],
                    "components": [k.name for k in m.kinds],
                    "definition": str(m.definition),
                }
                for m in program.maps
            ],
            "triggers": [
                {
                    "base": t.base,
                    "statements": [
                        {
                            "target": s.target,
                            "op": s.op,
                            "expr": str(s.expr),
                            "strategy": s.strategy,
                            "reason": s.reason,
                        }
                        for s in t.statements
                    ],
                }
                for t in program.triggers
            ],
            "outputs": {c.name: str(e) for c, e in zip(view.columns, view.outputs, strict=True)},
            "having": None if view.having is None else str(view.having),
            "rows": rows_of(compiled),
            "engine": engine,
        },
        indent=2,
    )


def _dot(compiled: CompiledView, text: str, engine: dict[str, Any]) -> str:
    view, program = compiled.view, compiled.program
    shown = _id(f"view {view.name}")
    lines = ["digraph view {", "  rankdir=LR;", f"  {shown} [shape=box, style=bold];"]
    for m in program.maps:
        entry = _id(f"{m.name}[{', '.join(v.name for v in m.keys)}]")
        lines.append(f"  {entry} [shape=box];")
        for trigger in program.triggers:
            reasons = ", ".join(s.strategy for s in trigger.statements if s.target == m.name)
            if not reasons:
                continue
            lines.append(f"  {_id(trigger.base)} -> {entry} [label={_id(reasons)}];")
        if m.name == view.map:
            lines.append(f"  {entry} -> {shown};")
    return "\n".join([*lines, "}"])


def _id(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
