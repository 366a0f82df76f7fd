"""Matrix views: a compiled program, its stored matrices, and updates that keep them fresh.

An update is atomic over all matrices: it is computed against the state before, applied, checked, and taken
back if anything is wrong. After each update the drift of the views is estimated; past the tolerance, or
where an inverse is too ill-conditioned to be updated, everything is re-evaluated from the inputs; where
that fails too the update is refused. Invariant: every stored matrix equals its definition over the inputs,
up to the tolerance.

>>> import numpy as np
>>> from everfresh.linalg.source import parse
>>> view = MatrixView(parse("B := A A;", A=(2, 2)), {"A": np.eye(2)})
>>> view.update(A=EntryUpdate(0, 1, 3.0)).version
1
>>> view.read()
array([[1., 6.],
       [0., 1.]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.backend import Array, Backend, backend_of
from everfresh.linalg.cost import CPU, CUDA, Machine
from everfresh.linalg.dims import Dimensions, Slots, grown, resize
from everfresh.linalg.drift import probe, sample
from everfresh.linalg.evaluate import CONDITION_LIMIT, IllConditioned, check_inputs
from everfresh.linalg.execute import Execution, Plan, evaluate_flat, make_plan
from everfresh.linalg.nodes import names
from everfresh.linalg.pending import Held
from everfresh.linalg.plan import MatrixProgram, compile
from everfresh.linalg.resolve import Resolved, resolve
from everfresh.linalg.source import Source, parse
from everfresh.linalg.trace import TracedProgram
from everfresh.linalg.updates import EntryUpdate, Update  # noqa: F401 (the doctest)

Given = Update | Iterable[Update]


@dataclass(frozen=True, slots=True)
class Applied:
    """What an update did: the version it made, the ranks of the changes, how it was done, and the drift after it."""

    version: int
    ranks: Mapping[str, int]
    how: str
    drift: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How a view is kept: `tolerance` for drift (None: by the floating type), `condition_limit` for inverses."""

    tolerance: float | None = None
    condition_limit: float = CONDITION_LIMIT
    pending: bool = True
    check: bool = True
    probe_every: int = 32
    seed: int = 0


class MatrixView:
    """A program kept fresh over its input matrices."""

    def __init__(
        self,
        program: Source | TracedProgram | MatrixProgram | str,
        inputs: Mapping[str, Any],
        *,
        strategy: str = "auto",
        model: str = "auto",
        ranks: Mapping[str, int] | int = 1,
        static: Iterable[str] = (),
        machine: Machine | None = None,
        options: ViewOptions | None = None,
    ) -> None:
        self.options = options or ViewOptions()
        self.backend: Backend = backend_of(*inputs.values())
        self.compiled = _compiled(program, inputs, strategy, model, ranks, static, machine)
        self.version = 0
        self.drift = 0.0
        self.reevaluations = 0
        self._plans: dict[tuple[tuple[str, int], ...], Plan] = {}
        self._slots: dict[tuple[str, int], Slots] = {}
        env = check_inputs(self.compiled.source, inputs)
        first = next(iter(env.values()))
        self._start(
            {name: self.backend.copy(self.backend.asarray(array, first)) for name, array in env.items()}
        )

    def _start(self, inputs: dict[str, Array]) -> None:
        """Evaluate everything from the inputs and take it as the state."""
        values = self._evaluate(self.compiled, inputs)
        self.state = {name: Held(values[name], self.backend) for name in self.compiled.stored}
        self._set_program(self.compiled)

    def _set_program(self, compiled: MatrixProgram) -> None:
        self.compiled = compiled
        self._plans = {}
        self.dimensions = Dimensions(compiled.flat)
        self._definitions = {
            name: expr
            for name, expr in compiled.flat.statements
            if name in compiled.stored and names(expr) <= set(compiled.stored)
        }

    def _evaluate(self, compiled: MatrixProgram, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return evaluate_flat(
            compiled.flat, inputs, compiled.stored, self.backend, self.options.condition_limit
        )

    # Reading

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the input matrices."""
        return tuple(m.name for m in self.compiled.flat.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self.compiled.flat.outputs

    def read(self, name: str | None = None) -> Array:
        """A stored matrix as an array of the caller's own; the (first) output unless named."""
        return self.backend.copy(self._logical(name or self.outputs[0]))

    __getitem__ = read

    def _logical(self, name: str) -> Array:
        if name not in self.state:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"the view keeps no matrix '{name}'",
                hint="it keeps: " + ", ".join(self.state),
            )
        array = self.state[name].array()
        for axis in (0, 1):
            slots = self._slots.get(self.dimensions.of(name, axis))
            if slots is not None and not slots.whole:
                index = self.backend.index(slots.index, array)
                array = array[:, index] if axis else array[index]
        return array

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a stored matrix, without what is spare."""
        found = self.state[name].shape
        for axis in (0, 1):
            slots = self._slots.get(self.dimensions.of(name, axis))
            if slots is not None:
                found = (len(slots.index), found[1]) if axis == 0 else (found[0], len(slots.index))
        return found

    def explain(self) -> str:
        """The triggers with their cost, the alternatives, and how the view is doing."""
        pending = ", ".join(f"{name} {held.width}" for name, held in self.state.items() if held.width)
        return "\n".join(
            [
                self.compiled.explain(),
                f"version {self.version}, drift {self.drift:.1e} (tolerance {self.tolerance:.0e}), "
                f"re-evaluated {self.reevaluations} times, {self.memory / 1e6:,.1f} MB, pending columns: {pending or 'none'}",
            ]
        )

    @property
    def memory(self) -> int:
        """The bytes of the stored matrices and their pending factors."""
        return sum(held.bytes for held in self.state.values())

    @property
    def tolerance(self) -> float:
        """The drift past which the view is re-evaluated."""
        if self.options.tolerance is not None:
            return self.options.tolerance
        wide = "64" in str(next(iter(self.state.values())).base.dtype)
        return 1e-9 if wide else 1e-4

    def verify(self) -> dict[str, float]:
        """The relative difference of every stored matrix from its re-evaluation."""
        inputs = {name: self.state[name].array() for name in self.inputs}
        fresh = self._evaluate(self.compiled, inputs)
        found = {}
        for name, held in self.state.items():
            size = self.backend.norm(fresh[name])
            gap = self.backend.norm(held.array() - fresh[name])
            found[name] = gap / size if size else gap
        return found

    # Changing

    def update(self, changes: Mapping[str, Given] | None = None, /, **named: Given) -> Applied:
        """Apply updates of one or more inputs, all or none of them.

        An input's updates are one of `LowRank`, `RowUpdate`, `ColumnUpdate`, `EntryUpdate`, `AppendRows`,
        `DeleteRows`, or several in order, which are merged to their effective rank.
        """
        given = {**(changes or {}), **named}
        self._check_names(given)
        resolved = resolve(self, given)
        if resolved.rebuilt is not None:
            return self._rebuild(resolved)
        if resolved.grow:
            self._grow(resolved.grow)
            resolved = resolve(self, given)
        applied = self._apply(resolved) if resolved.changes else self._done({}, "nothing to do")
        for dim, slots in resolved.slots.items():
            self._slots[dim] = slots
        return applied

    def _check_names(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in self.inputs:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"the program has no input '{name}'",
                    hint="its inputs are: " + ", ".join(self.inputs),
                )
            if name in self.compiled.source.static:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"the input '{name}' is static and cannot be updated",
                    hint="leave it out of `static` when the view is made",
                )

    def _apply(self, resolved: Resolved) -> Applied:
        live = {
            name: change for name, change in resolved.changes.items() if name in self.compiled.flat.changing
        }
        ranks = {name: change.rank for name, change in live.items()}
        execution = Execution(self._plan(ranks), self.state, live, self.options.condition_limit)
        try:
            execution.compute()
            signs = execution.apply()
        except EverfreshError as error:
            execution.restore()
            if not execution.plan.redo or isinstance(error, IllConditioned):
                return self._reevaluated(resolved, f"{error.message}")
            raise
        except BaseException:
            execution.restore()
            raise
        drift = self._check(signs, execution)
        if not np.isfinite(drift) or drift > self.tolerance:
            execution.restore()
            return self._reevaluated(resolved, f"drift {drift:.1e} past the tolerance")
        self.drift = drift
        if not self.options.pending:
            for held in self.state.values():
                held.merge()
        return self._done(ranks, "incremental" if not execution.plan.redo else self.compiled.strategy)

    def _plan(self, ranks: Mapping[str, int]) -> Plan:
        key = tuple(sorted(ranks.items()))
        if key not in self._plans:
            self._plans[key] = make_plan(self.compiled, ranks)
        return self._plans[key]

    def _done(self, ranks: Mapping[str, int], how: str, reason: str = "") -> Applied:
        self.version += 1
        return Applied(self.version, ranks, how, self.drift, reason)

    def _check(self, signs: list[Any], execution: Execution) -> float:
        """The drift after an update: the worst block; infinite if anything is not finite."""
        touched = {s.target for s in execution.plan.updates} if self.options.check else set()
        rng = np.random.default_rng((self.options.seed, self.version))
        pairs = [
            pair
            for name, expr in self._definitions.items()
            if name in touched and (pair := sample(name, expr, self.state, rng)) is not None
        ]
        values = self.backend.floats([*signs, *(x for pair in pairs for x in pair)])
        if not np.isfinite(values[: len(signs)]).all():
            return float("inf")
        worst = 0.0
        for gap, size in zip(values[len(signs) :: 2], values[len(signs) + 1 :: 2], strict=True):
            worst = (
                max(worst, (gap / size) ** 0.5 if size > 0.0 else 0.0) if np.isfinite(gap) else float("inf")
            )
        if touched and (self.version + 1) % self.options.probe_every == 0:
            worst = max(worst, self.probe())
        return worst

    def probe(self) -> float:
        """The drift of whole views on a random vector: dearer than after an update, and it sees every entry."""
        rng = np.random.default_rng((self.options.seed, self.version, 1))
        return max(
            (probe(name, expr, self.state, rng) for name, expr in self._definitions.items()), default=0.0
        )

    def _reevaluated(self, resolved: Resolved, reason: str) -> Applied:
        """Apply the changes to the inputs and re-evaluate everything; refused, with nothing changed, if that fails."""
        inputs = {name: self.backend.copy(self.state[name].array()) for name in self.inputs}
        for name, change in resolved.changes.items():
            self.backend.add_product(inputs[name], change.left, change.right)
        values = self._evaluate(self.compiled, inputs)
        for name, held in self.state.items():
            held.replace(values[name])
        self.drift = 0.0
        self.reevaluations += 1
        return self._done({n: c.rank for n, c in resolved.changes.items()}, "reevaluate", reason)

    def reevaluate(self) -> None:
        """Compute every stored matrix anew from the inputs."""
        inputs = {name: self.state[name].array() for name in self.inputs}
        values = self._evaluate(self.compiled, inputs)
        for name, held in self.state.items():
            if name not in inputs:
                held.replace(values[name])
        self.drift = 0.0
        self.reevaluations += 1

    # Growing

    def _recompiled(self, source: Source) -> MatrixProgram:
        old = self.compiled
        model = "auto" if old.model == "-" else old.model
        new = compile(source, strategy=old.strategy, model=model, ranks=dict(old.ranks), machine=old.machine)
        stored = tuple(name for name in new.flat.matrices if name in {*new.stored, *old.stored})
        return replace(new, stored=stored, alternatives=old.alternatives)

    def _grow(self, dims: Mapping[tuple[str, int], int]) -> None:
        """Give stored arrays spare rows; no value changes."""
        state, shapes = {}, {}
        for name, held in self.state.items():
            rows, columns = (
                grown(size, dims[dim]) if (dim := self.dimensions.of(name, axis)) in dims else size
                for axis, size in enumerate(held.shape)
            )
            shapes[name] = (rows, columns)
            if (rows, columns) == held.shape:
                state[name] = held
                continue
            array = self.backend.copy(self.backend.zeros(rows, columns, held.base))
            array[: held.shape[0], : held.shape[1]] = held.array()
            state[name] = Held(array, self.backend)
        compiled = self._recompiled(
            resize(self.compiled.source, {n: s for n, s in shapes.items() if n in self.inputs})
        )
        for dim, needed in dims.items():
            old = self._slots.get(dim)
            size = next(
                s.shape[a] for n, s in self.state.items() for a in (0, 1) if self.dimensions.of(n, a) == dim
            )
            self._slots[dim] = Slots(np.arange(size) if old is None else old.index, grown(size, needed))
        self.state = state
        self._set_program(compiled)

    def _rebuild(self, resolved: Resolved) -> Applied:
        """Take inputs of new shapes and evaluate everything; for dimensions that cannot have spare rows."""
        inputs = resolved.rebuilt
        assert inputs is not None
        source = resize(self.compiled.source, {name: tuple(array.shape) for name, array in inputs.items()})
        compiled = self._recompiled(source)
        values = self._evaluate(compiled, inputs)
        self.state = {name: Held(values[name], self.backend) for name in compiled.stored}
        self._slots = {}
        self._set_program(compiled)
        self.drift = 0.0
        self.reevaluations += 1
        return self._done(
            {}, "reevaluate", "a dimension changed that an inverse, an identity or a constant depends on"
        )

    # Snapshots

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that `from_arrays` needs, as NumPy arrays by name."""
        found = {name: np.array(self.backend.to_numpy(held.array())) for name, held in self.state.items()}
        for (name, axis), slots in self._slots.items():
            found[f"#rows:{name}:{axis}"] = np.array(slots.index)
        found["#version"] = np.array([self.version, self.reevaluations])
        found["#how"] = np.array([self.compiled.strategy, self.compiled.model])
        return found

    @classmethod
    def from_arrays(
        cls,
        program: Source | TracedProgram | str,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        *,
        like: Array | None = None,
        ranks: Mapping[str, int] | int = 1,
        static: Iterable[str] = (),
        machine: Machine | None = None,
        options: ViewOptions | None = None,
    ) -> MatrixView:
        """The view that `to_arrays` described, on the backend and device of `like`; nothing is re-evaluated."""
        view = cls.__new__(cls)
        view.options = options or ViewOptions()
        view.backend = backend_of(*([] if like is None else [like]))
        matrices = {n: view.backend.asarray(a, like) for n, a in arrays.items() if not n.startswith("#")}
        strategy, model = (str(x) for x in arrays["#how"])
        compiled = _compiled(
            program, matrices, strategy, "auto" if model == "-" else model, ranks, static, machine
        )
        view.version, view.reevaluations = (int(x) for x in arrays["#version"])
        view.drift = 0.0
        stored = tuple(name for name in compiled.flat.matrices if name in matrices)
        if missing := sorted(set(compiled.stored) - set(stored)):
            raise EverfreshError(Code.DAMAGED, f"the snapshot of a matrix view lacks '{missing[0]}'")
        view.state = {name: Held(view.backend.copy(matrices[name]), view.backend) for name in stored}
        view._set_program(replace(compiled, stored=stored))
        view._slots = {}
        for key, index in arrays.items():
            if key.startswith("#rows:"):
                _, name, axis = key.split(":")
                dim = view.dimensions.of(name, int(axis))
                size = next(
                    s.shape[a]
                    for n, s in view.state.items()
                    for a in (0, 1)
                    if view.dimensions.of(n, a) == dim
                )
                view._slots[dim] = Slots(np.array(index), size)
        return view


def _compiled(
    program: Source | TracedProgram | MatrixProgram | str,
    inputs: Mapping[str, Any],
    strategy: str,
    model: str,
    ranks: Mapping[str, int] | int,
    static: Iterable[str],
    machine: Machine | None,
) -> MatrixProgram:
    """The compiled program for inputs of these shapes."""
    if isinstance(program, MatrixProgram):
        return program
    shapes = {name: tuple(getattr(a, "shape", np.shape(a))) for name, a in inputs.items()}
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise EverfreshError(Code.ARGUMENT, f"{name} has {len(shape)} dimensions, a matrix has two")
    if isinstance(program, str):
        source = parse(program, {n: s for n, s in shapes.items()}, static=static)
    elif isinstance(program, TracedProgram):
        source = program.bind({n: shapes[n] for n in program.parameters if n in shapes})
    else:
        source = resize(program, {m.name: shapes[m.name] for m in program.inputs if m.name in shapes})
    source = replace(source, static=source.static | frozenset(static))
    return compile(source, strategy=strategy, model=model, ranks=ranks, machine=machine or _machine(inputs))


def _machine(inputs: Mapping[str, Any]) -> Machine:
    return CUDA if any(str(getattr(a, "device", "")).startswith("cuda") for a in inputs.values()) else CPU
