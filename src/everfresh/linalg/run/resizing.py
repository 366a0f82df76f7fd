"""Views whose matrices change their size: spare rows where a dimension allows it, else everything anew.

Invariant: `grow` changes no value; `rebuild` changes nothing unless everything could be evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from everfresh.linalg.compiler.flatten import as_flat
from everfresh.linalg.compiler.plan import compile
from everfresh.linalg.lang.dims import Dim, Slots, grown, resize
from everfresh.linalg.run.setup import Applied

if TYPE_CHECKING:
    from everfresh.linalg.run.resolve import Resolved
    from everfresh.linalg.run.view import MatrixView


def size_of(view: MatrixView, dim: Dim) -> int:
    """The stored size of a dimension."""
    return next(
        h.shape[axis] for n, h in view.state.items() for axis in (0, 1) if view.dimensions.of(n, axis) == dim
    )


def grow(view: MatrixView, dims: Mapping[Dim, int]) -> None:
    """Give stored arrays room for as many rows as `dims` says, and for some more."""
    state, shapes = {}, {}
    for name, held in view.state.items():
        rows, columns = (
            grown(size, dims[dim]) if (dim := view.dimensions.of(name, axis)) in dims else size
            for axis, size in enumerate(held.shape)
        )
        shapes[name] = (rows, columns)
        if (rows, columns) == held.shape:
            state[name] = held
            continue
        array = view.backend.copy(view.backend.zeros(rows, columns, held.base))
        array[: held.shape[0], : held.shape[1]] = held.array()
        state[name] = view.hold(array)
    new = {n: shapes[n] for n in view.inputs}
    flat = as_flat(
        resize(view.compiled.flat.source, new)
    )  # the same statements: what is stored keeps its meaning
    compiled = replace(view.compiled, source=resize(view.compiled.source, new), flat=flat, _triggers={})
    for dim, needed in dims.items():
        size, old = size_of(view, dim), view.slots.get(dim)
        view.slots[dim] = Slots(np.arange(size) if old is None else old.index, grown(size, needed))
    view.state = state
    view.set_program(compiled)


def rebuild(view: MatrixView, resolved: Resolved) -> Applied:
    """Take inputs of new shapes and evaluate everything."""
    inputs = resolved.rebuilt
    assert inputs is not None
    source = resize(view.compiled.source, {name: tuple(array.shape) for name, array in inputs.items()})
    old = view.compiled
    model = "auto" if old.model == "-" else old.model
    compiled = compile(source, strategy=old.strategy, model=model, ranks=dict(old.ranks), machine=old.machine)
    compiled = replace(compiled, alternatives=old.alternatives, auto=old.auto)
    values = view.evaluate_all(compiled, inputs)
    view.state = {name: view.hold(values[name]) for name in compiled.stored}
    view.slots = {}
    view.set_program(compiled)
    view.drift = 0.0
    view.reevaluations += 1
    return view.done(
        {}, "reevaluate", "a dimension changed that an inverse, an identity or a constant depends on"
    )
