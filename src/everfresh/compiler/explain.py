"""What a view does and why: as text in the notation of the thesis, as JSON, and as a drawing (Graphviz
DOT).

All three say the same: the maps that are kept, the relations read off them, what runs when a table or a
relation changes, by which strategy and for what reason, and how the view's rows are read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.compiler.compile import CompiledView
from everfresh.compiler.listing import listing, shower
from everfresh.compiler.lowering.lower import Relation
from everfresh.compiler.lowering.top_k import top_of
from everfresh.compiler.viewlet.pair_maps import Keys, paired
from everfresh.errors import Code, EverfreshError
from everfresh.expr import stored, told
from everfresh.program import Intervals, Partitions, Side, View

FORMATS = ("text", "json", "dot")


Sharing = Mapping[str, Sequence[str]]
"""Maps that several views have, each with these views, its owner first."""
Large = Mapping[str, Sequence[str]]
"""Maps that may have an entry for each combination of rows of some relations."""


@dataclass(frozen=True, slots=True)
class _Explained:
    """What is said of a view."""

    compiled: CompiledView
    text: str
    engine: Mapping[str, Any]
    sharing: Sharing
    passing: Sequence[str]
    """The tables that it reads whose rows are not kept."""
    large: Large


def explain(
    compiled: CompiledView,
    text: str,
    format: str = "text",
    engine: dict[str, Any] | None = None,
    sharing: Sharing | None = None,
    passing: Collection[str] = (),
    entries: Mapping[str, int] | None = None,
    keys: Keys | None = None,
) -> str:
    """The maintenance program of a view; `sharing` says which maps other views have too, `engine` adds what
    the runtime knows (placement, what is compiled), `passing` names tables whose rows are not kept,
    `entries` are the sizes of maps as of now, `keys` has the places of the primary keys of tables: which maps
    may be larger than those is said if they are known."""
    if format not in FORMATS:
        raise EverfreshError(
            Code.ARGUMENT, f"there is no format '{format}'", hint="formats are: " + ", ".join(FORMATS)
        )
    large: Large = {}
    if keys is not None and not compiled.reevaluated:
        large = paired(compiled.program, keys, compiled.view.map)  # type: ignore[arg-type]
    bare = [b for b in compiled.bases if b in passing]
    explained = _Explained(compiled, text, engine or {}, sharing or {}, bare, large)
    found = {"text": _text, "json": _json, "dot": _dot}[format](explained)
    return f"{summary(compiled, entries)}\n\n{found}" if format == "text" else found


def summary(compiled: CompiledView, entries: Mapping[str, int] | None = None) -> str:
    """What keeping a view costs, in a sentence: `entries` are the sizes of its maps, if they are known."""
    program = compiled.program
    if compiled.reevaluated:
        why = program.triggers[0].statements[0].reason if program.triggers else "nothing changes"
        changed = _listed(compiled.bases)
        return f"Re-evaluated: a batch that changes {changed} runs the query anew, because {why}."
    held = _counted(len(program.maps), "map", "maps")
    if entries is not None:
        kept = sum(entries.get(m.name, 0) for m in program.maps)
        held = f"{_counted(kept, 'entry', 'entries')} in {held}"
    more = f" and reads {len(program.shared)} of other views" if program.shared else ""
    return f"Incremental: a batch costs {_cost(compiled)}; the view keeps {held}{more}."


def _cost(compiled: CompiledView) -> str:
    """What a batch is proportional to, in words."""
    program = compiled.program
    statements = [s for trigger in program.triggers for s in trigger.statements]
    if not statements:
        return "nothing, since what it reads never changes"
    whole = list(dict.fromkeys(s.reason for s in statements if s.strategy == "re-evaluated"))
    cost = "time for its rows"
    if any(s.reason.startswith("joins") or "range" in s.reason or "between" in s.reason for s in statements):
        cost += " and what they join with"
    if any(isinstance(r, Partitions) for r in program.relations):
        cost += " and for the partitions they touch"
    if whole:
        cost += f", and for some changes it {whole[0]}"
    return cost


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def rows_of(relation: View) -> str:
    """How many rows an entry of the map stands for, in words."""
    if relation.weight is not None:
        return f"as many equal rows per entry as {relation.weight}"
    if relation.bag:
        return "as many equal rows per entry as its count #0"
    return "always exactly one row" if relation.always else "one row per entry"


# -- text --------------------------------------------------------------------------------------------


_WHAT = {
    "min": "the minimum", "max": "the maximum", "first": "the first in its order", "disc": "the quantile",
    "low": "the value below the quantile", "high": "the value above the quantile",
}  # fmt: skip


def _text(explained: _Explained) -> str:
    compiled = explained.compiled
    view = compiled.view
    lines = [
        f"VIEW {view.name} ({', '.join(map(str, view.columns))})",
        f"  {explained.text}",
        "",
        listing(compiled),
        "",
        "READ",
    ]
    lines += [f"  {column.name} = {expr}" for column, expr in zip(view.columns, view.outputs, strict=True)]
    for j, side in enumerate(view.sides, 1):
        what = f"components #{j}.0, #{j}.1, ..." if side.how == "at" else f"#{j}.x, {_WHAT[side.how]}"
        what += f" {side.fraction!r}" if side.how in ("disc", "low", "high") else ""
        lines.append(f"  {what} of {side.map} at the same keys")
    if view.having is not None:
        lines.append(f"  where {view.having}")
    lines.append(f"  {rows_of(view)}")
    lines += [f"  {note}" for note in compiled.notes]
    if values := _checked(compiled):
        lines += [
            "",
            "CHECKED (a batch after which one may overflow, as far as its columns reach, by the query)",
        ]
        lines += [f"  {value}" for value in values]
    if explained.passing:
        lines += ["", "TABLES", *(f"  {name}: not retained" for name in explained.passing)]
    if explained.large:
        pairs = ((name, " and ".join(of)) for name, of in explained.large.items())
        lines += [
            "",
            "LARGE MAPS",
            *(f"  {stored(n)}: up to an entry for each pair of rows of {of}" for n, of in pairs),
        ]
    if explained.sharing:
        kept = ((name, views[0], ", ".join(views[1:])) for name, views in explained.sharing.items())
        lines += ["", "SHARED", *(f"  {name}: kept by {one}, read by {more} too" for name, one, more in kept)]
    if explained.engine:
        lines += ["", "ENGINE", *(f"  {name}: {value}" for name, value in explained.engine.items())]
    return "\n".join(lines)


def _checked(compiled: CompiledView) -> list[str]:
    """Values that maps take apart although their types may be too narrow for them."""
    return list(dict.fromkeys(f"{w.expr}: {w.expr.type}" for w in compiled.watched))


# -- JSON --------------------------------------------------------------------------------------------


def _json(explained: _Explained) -> str:
    compiled = explained.compiled
    view, program, show = compiled.view, compiled.program, shower(compiled)
    own = {m.name for m in program.maps}
    return json.dumps(
        {
            "view": view.name,
            "sql": explained.text,
            "strategy": compiled.strategy,
            "columns": _columns(view),
            "checked": _checked(compiled),
            "maps": [
                {
                    "name": stored(m.name),
                    "keys": [v.name for v in m.keys],
                    "components": [k.name for k in m.kinds],
                    "definition": show(m.definition),
                    "own": m.name in own,
                    "pairs of": list(explained.large.get(m.name, ())),
                    "views": list(explained.sharing.get(m.name, (view.name,))),
                }
                for m in (*program.maps, *program.shared)
            ],
            "static": list(program.static),
            "not retained": list(explained.passing),
            "relations": [_relation(r, compiled) for r in program.relations],
            "triggers": [
                {
                    "base": told(t.base),
                    "derived": any(t.base == r.name for r in program.relations),
                    "statements": [
                        {
                            "target": stored(s.target),
                            "op": s.op,
                            "expr": show(s.expr),
                            "strategy": s.strategy,
                            "reason": s.reason,
                        }
                        for s in t.statements
                    ],
                }
                for t in program.triggers
            ],
            **_reading(view),
            "notes": list(compiled.notes),
            "engine": dict(explained.engine),
        },
        indent=2,
    )


def _columns(relation: Relation) -> list[dict[str, Any]]:
    return [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in relation.columns]


def _reading(view: View) -> dict[str, Any]:
    return {
        "map": stored(view.map),
        "sides": [_side(side) for side in view.sides],
        "outputs": {c.name: str(e) for c, e in zip(view.columns, view.outputs, strict=True)},
        "having": None if view.having is None else str(view.having),
        "rows": rows_of(view),
    }


def _side(side: Side) -> dict[str, Any]:
    more: dict[str, Any] = {"than": f"{side.than} {side.key}"} if side.than else {}
    if side.order:
        more["order"] = [
            f"{'ASC' if up else 'DESC'} NULLS {'FIRST' if f else 'LAST'}" for up, f in side.order
        ]
    if side.how in ("disc", "low", "high"):
        more["fraction"] = side.fraction
    return {"map": stored(side.map), "how": side.how, **more}


def _relation(relation: Relation, compiled: CompiledView) -> dict[str, Any]:
    found: dict[str, Any] = {"name": told(relation.name), "columns": _columns(relation)}
    if isinstance(relation, View):
        looked_up = relation.always and bool(compiled.program.map(relation.map).keys)
        return {**found, "strategy": "incremental", **_reading(relation), "looked up only": looked_up}
    if isinstance(relation, Intervals):
        return {
            **found,
            "strategy": "incremental",
            "map": stored(relation.map),
            "sides": [_side(side) for side in relation.sides],
            "running sum by": relation.op,
            "having": str(relation.having),
        }
    keys = compiled.program.map(relation.map).keys[: relation.prefix]
    return {
        **found,
        "strategy": _strategy(relation),
        "map": stored(relation.map),
        "partitions": [v.name for v in keys],
        "plan": str(relation.expr),
    }


def _strategy(relation: Partitions[Any]) -> str:
    return "partition recompute" if top_of(relation) is None else "incremental"


# -- DOT ---------------------------------------------------------------------------------------------


def _dot(explained: _Explained) -> str:
    """Tables and relations feed maps, labelled by the strategies; maps feed relations, and the view."""
    view, program, sharing = explained.compiled.view, explained.compiled.program, explained.sharing
    derived = {r.name: r for r in program.relations}
    entries = {m.name: f"{stored(m.name)}[{', '.join(v.name for v in m.keys)}]" for m in program.maps}
    shown = f"view {view.name}"
    lines = ["digraph view {", "  rankdir=LR;", f"  {_id(shown)} [shape=box, style=bold];"]
    for base in dict.fromkeys(t.base for t in program.triggers if t.base not in derived):
        note = ', xlabel="not retained"' if base in explained.passing else ""
        lines.append(f"  {_id(told(base))} [shape=ellipse{note}];")
    for m in program.maps:
        lines.append(f"  {_id(entries[m.name])} [shape=box];")
    for m in program.shared:
        owner = f"kept by {sharing[m.name][0]}" if m.name in sharing else "shared"
        shared = f"{stored(m.name)}[{', '.join(v.name for v in m.keys)}]"
        lines.append(f"  {_id(shared)} [shape=box, style=dotted, xlabel={_id(owner)}];")
    lines += [f"  {_id(told(name))} [shape=ellipse, style=dotted, xlabel=static];" for name in program.static]
    for r in program.relations:
        columns = ", ".join(c.name for c in r.columns)
        dashed = isinstance(r, Partitions) and top_of(r) is None
        label = _id(f"{told(r.name)}({columns}){_condition(r)}")
        lines.append(
            f"  {_id(told(r.name))} [label={label}, style={'dashed' if dashed else 'rounded'}, shape=box];"
        )
    for trigger in program.triggers:
        for target in dict.fromkeys(s.target for s in trigger.statements):
            strategies = dict.fromkeys(s.strategy for s in trigger.statements if s.target == target)
            lines.append(_edge(told(trigger.base), entries[target], ", ".join(strategies)))
    for r in program.relations:
        how = _strategy(r) if isinstance(r, Partitions) else ""
        lines += [_edge(entries[name], told(r.name), how) for name in dict.fromkeys(r.maps)]
    lines += [_edge(entries[name], shown) for name in dict.fromkeys(view.maps)]
    return "\n".join([*lines, "}"])


def _condition(relation: Relation) -> str:
    if isinstance(relation, Partitions) or relation.having is None:
        return ""
    return f" where {relation.having}"


def _edge(start: str, end: str, label: str = "") -> str:
    return f"  {_id(start)} -> {_id(end)}{f' [label={_id(label)}]' if label else ''};"


def _id(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
