"""How a view of arrays is maintained, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from everfresh.arrays.join import best_rows
from everfresh.arrays.views.definition import Definition
from everfresh.arrays.views.groups import Groups
from everfresh.arrays.views.joins import foldable
from everfresh.arrays.views.pipeline import Pipeline
from everfresh.arrays.views.stages import Around, Base, Blocked, Cellwise, Joined, Stage


def explained(pipeline: Pipeline, states: Sequence[Any], format: str = "text") -> str:
    """The stages of a view, and how each is kept up to date."""
    return told(
        pipeline, [tuple(lines_of(stage, states[k])) for k, stage in enumerate(pipeline.stages)], format
    )


def told(pipeline: Pipeline, lines: Sequence[Sequence[str]], format: str = "text") -> str:
    """A view and what is to be said of each of its stages."""
    if format == "json":
        listed = [
            {"stage": type(stage).__name__.lower(), "schema": stage.schema.ddl, "reads": list(stage.inputs),
             "lines": list(some)}
            for stage, some in zip(pipeline.stages, lines, strict=True)
        ]  # fmt: skip
        return json.dumps({"view": str(pipeline.statement), "stages": listed}, indent=2)
    found = [str(pipeline.statement)]
    for k, (first, *rest) in enumerate(lines):
        found += [f"{k}: {first}", *(f"   {line}" for line in rest)]
    return "\n".join(found)


def lines_of(stage: Stage, state: Any) -> Iterator[str]:
    """What a stage is, and how it is kept up to date; of a state at hand what it holds."""
    match stage:
        case Base(name):
            yield f"array {name}"
        case Cellwise(schema, (at,)):
            yield f"cell by cell from {at}: {schema.ddl}"
        case Blocked(schema, (at,), operand):
            yield f"blocks of {' x '.join(map(str, operand.factors))} cells from {at}: {schema.ddl}"
            yield "the blocks in which cells came or went are made again"
        case Around(schema, (at,), operand):
            yield f"cells around each from {at}: {schema.ddl}"
            yield f"the cells that {operand.shape} leads to a change from are made again"
        case Joined(definition, inputs, auxiliary):
            yield from _joined(definition, inputs, state)
            if auxiliary:
                yield "auxiliary view: what the arrays behind come to, by the cells that the one before meets"


def _joined(of: Definition, inputs: tuple[int, ...], state: Groups | None) -> Iterator[str]:
    yield f"groups of {' x '.join(map(str, inputs))}: {of.schema.ddl}"
    for k, hop in enumerate(of.hops):
        ndim = of.sources[k + 1].ndim
        size = ""
        if hop.shape.is_bounded(ndim):
            size = f", {hop.shape.cells(ndim)} offsets in {len(best_rows(hop.shape, ndim)[0])} intervals"
        sides = f"cells of {inputs[k]} at {hop.mapping}, cells of {inputs[k + 1]}"
        yield f"join {k + 1}: {sides} in {hop.shape}{size}"
    terms = [
        " x ".join(f"d{at}" if n == k else f"{at}{'' if n < k else ' before'}" for n, at in enumerate(inputs))
        for k in range(len(inputs))
    ]
    yield f"change: {' + '.join(terms)}"
    if len(inputs) == 2 and foldable(of):
        yield "values are folded by the compiled loop; no pairs are made"
    elif len(inputs) > 2:
        yield "first-order changes through the chain, pair by pair"
    else:
        yield "pairs are made, since a value or condition is of both sides"
    if any(a.ordered for a in of.arguments):
        yield "a group loses its least or greatest value: it is made again from the arrays"
    if state is None:
        return
    held = sum(map(len, state.blocks.values()))
    sizes = ", ".join(f"{len(s.boxes.ids)} of {at}" for at, s in zip(inputs, state.sources, strict=True))
    yield f"{held} groups in {len(state.blocks)} chunks; chunks of the sources: {sizes}"
