"""What a view does and why: as text in the notation of the thesis, as JSON, and as a drawing (Graphviz
DOT)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from everfresh.compiler.compile import CompiledView, Definition
from everfresh.errors import Code, EverfreshError
from everfresh.sql.plan import Plan

FORMATS = ("text", "json", "dot")


Sharing = Mapping[str, Sequence[str]]
"""Maps that several views have, each with these views, its owner first."""


def explain(
    compiled: CompiledView,
    text: str,
    format: str = "text",
    engine: dict[str, Any] | None = None,
    sharing: Sharing | None = None,
) -> str:
    """The maintenance program of a view; `sharing` says which maps other views have too, `engine` adds what
    the runtime knows (sizes, placement)."""
    if format not in FORMATS:
        raise EverfreshError(
            Code.ARGUMENT, f"there is no format '{format}'", hint="formats are: " + ", ".join(FORMATS)
        )
    return {"text": _text, "json": _json, "dot": _dot}[format](compiled, text, engine or {}, sharing or {})


def _text(compiled: CompiledView, text: str, engine: dict[str, Any], sharing: Sharing) -> str:
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
    if sharing:
        lines += ["", "SHARED", *(f"  {name}: {_having(views)}" for name, views in sharing.items())]
    if engine:
        lines += ["", "ENGINE", *(f"  {name}: {value}" for name, value in engine.items())]
    return "\n".join(lines)


def _having(views: Sequence[str]) -> str:
    return f"kept by {views[0]}, read by {', '.join(views[1:])} too"


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


def _json(compiled: CompiledView, text: str, engine: dict[str, Any], sharing: Sharing) -> str:
    view, program = compiled.view, compiled.program
    own = {m.name for m in program.maps}
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
                    "own": m.name in own,
                    "views": list(sharing.get(m.name, (view.name,))),
                }
                for m in (*program.maps, *program.shared)
            ],
            "static": list(program.static),
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


def _dot(compiled: CompiledView, text: str, engine: dict[str, Any], sharing: Sharing) -> str:
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
    for m in program.shared:
        entry = _id(f"{m.name}[{', '.join(v.name for v in m.keys)}]")
        owner = _id(f"kept by {sharing[m.name][0]}") if m.name in sharing else _id("shared")
        lines.append(f"  {entry} [shape=box, style=dashed, xlabel={owner}];")
    lines += [f"  {_id(name)} [style=dashed, xlabel=static];" for name in program.static]
    return "\n".join([*lines, "}"])


def _id(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
