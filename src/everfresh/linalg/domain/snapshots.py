"""A view as plain NumPy arrays by name, and back: what durability needs.

Besides the stored matrices there are `#flat` (the statements that define them), `#rows:X:0` (the stored
rows in use, where rows came and went), `#version`, `#inputs` and `#how` (strategy, model, and whether they
were chosen by cost). Invariant: a view that was restored does to every later update exactly what the view
it was taken from does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.cost import Machine
from everfresh.linalg.compiler.flatten import as_flat
from everfresh.linalg.kernels.backend import Array
from everfresh.linalg.lang.dims import Slots
from everfresh.linalg.lang.source import parse
from everfresh.linalg.run.pending import Held
from everfresh.linalg.run.resizing import size_of
from everfresh.linalg.run.setup import Definition, ViewOptions, compiled_for

if TYPE_CHECKING:
    from everfresh.linalg.run.view import MatrixView

Arrays = Mapping[str, np.ndarray[Any, Any]]


def to_arrays(view: MatrixView, state: Mapping[str, Held]) -> dict[str, np.ndarray[Any, Any]]:
    """Everything that `restore` needs, with the matrices of `state`; pending factors are merged."""
    found = {name: np.array(view.backend.to_numpy(held.array())) for name, held in state.items()}
    for (name, axis), slots in view.slots.items():
        found[f"#rows:{name}:{axis}"] = np.array(slots.index)
    found["#version"] = np.array([view.version, view.reevaluations])
    found["#inputs"] = np.array(view.inputs)
    found["#flat"] = np.array(str(view.compiled.flat.source))
    chosen = "auto" if view.compiled.auto else "forced"
    found["#how"] = np.array([view.compiled.strategy, view.compiled.model, chosen])
    return found


def restore(
    view: MatrixView,
    program: Definition,
    arrays: Arrays,
    like: Array | None,
    *,
    ranks: Mapping[str, int] | int = 1,
    static: Iterable[str] = (),
    machine: Machine | None = None,
    options: ViewOptions | None = None,
) -> None:
    """Fill a new view with what `to_arrays` gave."""
    if missing := sorted({"#version", "#inputs", "#flat", "#how"} - arrays.keys()):
        raise EverfreshError(Code.DAMAGED, f"the snapshot of a matrix view lacks '{missing[0]}'")
    view.options = options or ViewOptions()
    view.backend = view.make_backend(*([] if like is None else [like]))
    matrices = {n: view.backend.asarray(a, like) for n, a in arrays.items() if not n.startswith("#")}
    strategy, model, chosen = (str(x) for x in arrays["#how"])
    inputs = {str(n): matrices[str(n)] for n in arrays["#inputs"]}
    compiled = compiled_for(
        program, inputs, strategy, "auto" if model == "-" else model, ranks, static, machine
    )
    flat = as_flat(parse(str(arrays["#flat"])))
    stored = tuple(name for name in flat.matrices if name in matrices)
    if missing := sorted({*flat.outputs, *inputs} - set(stored)):
        raise EverfreshError(Code.DAMAGED, f"the snapshot of a matrix view lacks '{missing[0]}'")
    view.version, view.reevaluations = (int(x) for x in arrays["#version"])
    view.drift = 0.0
    view.state = {name: view.hold(view.backend.copy(matrices[name])) for name in stored}
    view.set_program(replace(compiled, flat=flat, stored=stored, auto=chosen == "auto", _triggers={}))
    view.slots, view._marks = {}, []
    for key, index in arrays.items():
        if key.startswith("#rows:"):
            _, name, axis = key.split(":")
            dim = view.dimensions.of(name, int(axis))
            view.slots[dim] = Slots(np.array(index), size_of(view, dim))
