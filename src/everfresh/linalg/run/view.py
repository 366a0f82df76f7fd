"""Matrix views: a compiled program, its stored matrices, and updates that keep them fresh.

An update is atomic over all matrices: it is computed against the state before, applied, checked, and taken
back if anything is wrong. After each update the drift of the views is estimated; past the tolerance, or
where an inverse is too ill-conditioned to be updated, everything is re-evaluated from the inputs; where
that fails too the update is refused. Invariant: every stored matrix equals its definition over the inputs,
up to the tolerance.

>>> import numpy as np
>>> from everfresh.linalg.lang.source import parse
>>> view = MatrixView(parse("B := A A;", A=(2, 2)), {"A": np.eye(2)})
>>> view.update(A=EntryUpdate(0, 1, 3.0)).version
1
>>> view.read()
array([[1., 6.],
       [0., 1.]])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.cost import Machine
from everfresh.linalg.compiler.plan import MatrixProgram
from everfresh.linalg.domain import snapshots
from everfresh.linalg.kernels.backend import Array, Backend, backend_of
from everfresh.linalg.lang.dims import Dimensions, Slots
from everfresh.linalg.lang.nodes import Expr
from everfresh.linalg.lang.trees import names
from everfresh.linalg.run.before import Before, UsedArray
from everfresh.linalg.run.drift import Probe, inner, sample
from everfresh.linalg.run.evaluate import Evaluator, IllConditioned, check_inputs
from everfresh.linalg.run.execute import Execution, ScheduledTrigger, evaluate_flat, make_plan
from everfresh.linalg.run.pending import Held
from everfresh.linalg.run.resizing import grow, rebuild
from everfresh.linalg.run.resolve import Resolved, resolve
from everfresh.linalg.run.setup import Applied, Definition, ViewOptions, compiled_for
from everfresh.linalg.run.updates import EntryUpdate, LowRankChange, Update  # noqa: F401 (the doctest)

CHECKED = 4  # views that are compared after an update
SHORT = 4096  # terms of the sums that every check may compute
Given = Update | Iterable[Update]
Marks = list[tuple[Held, Any]]


class MatrixView:
    """A program kept fresh over its input matrices."""

    def __init__(
        self,
        program: Definition,
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
        self.backend: Backend = self.make_backend(*inputs.values())
        self.compiled = compiled_for(program, inputs, strategy, model, ranks, static, machine)
        self.version = 0
        self.drift = 0.0
        self.reevaluations = 0
        self._plans: dict[tuple[tuple[str, int], ...], ScheduledTrigger] = {}
        self._dear: dict[tuple[tuple[str, int], ...], bool] = {}
        self._marks: Marks = []
        self._added: Mapping[str, list[tuple[Array, Array]] | None] = {}
        self.slots: dict[tuple[str, int], Slots] = {}
        env = check_inputs(self.compiled.source, inputs)
        first = next(iter(env.values()))
        self._start(
            {name: self.backend.copy(self.backend.asarray(array, first)) for name, array in env.items()}
        )

    # What a view that keeps its matrices elsewhere does in another way

    def make_backend(self, *arrays: Any) -> Backend:
        """The backend of arrays that were given."""
        return backend_of(*arrays)

    def hold(self, value: Array) -> Held:
        """A value as a stored matrix."""
        return Held(value, self.backend)

    def evaluate_one(self, expr: Expr, env: Mapping[str, Any]) -> Any:
        """A flat expression over stored matrices as they are."""
        like = next(iter(self.state.values())).base
        return Evaluator(env, self.backend, like, self.options.condition_limit).value(expr)

    def changed_inputs(self, changes: Mapping[str, LowRankChange]) -> dict[str, Array]:
        """The inputs after changes, as arrays of their own."""
        inputs = {name: self.backend.copy(self.state[name].array()) for name in self.inputs}
        for name, change in changes.items():
            self.backend.add_product(inputs[name], change.left, change.right)
        return inputs

    def places(self) -> int:
        """What decides where drift is looked for."""
        return self.version

    def checked(self, touched: Collection[str]) -> list[tuple[str, Expr]]:
        """The views of which a block is compared after an update: a few of those that changed, in turns.

        One that sums over many rows has its turn less often, so that a check costs no more than an update.
        """
        listed = [
            (name, expr)
            for name, expr in self.definitions.items()
            if name in touched and self.version % (1 + inner(expr) // SHORT) == 0
        ]
        start = self.version * CHECKED % len(listed) if listed else 0
        return (listed[start:] + listed[:start])[:CHECKED]

    def _start(self, inputs: dict[str, Array]) -> None:
        """Evaluate everything from the inputs and take it as the state."""
        values = self.evaluate_all(self.compiled, inputs)
        self.state = {name: self.hold(values[name]) for name in self.compiled.stored}
        self.set_program(self.compiled)

    def set_program(self, compiled: MatrixProgram) -> None:
        """Take a program; the state already is that of its stored matrices."""
        self.compiled = compiled
        self._plans, self._dear = {}, {}
        self.dimensions = Dimensions(compiled.flat)
        self.definitions = {
            name: expr
            for name, expr in compiled.flat.statements
            if name in compiled.stored and names(expr) <= set(compiled.stored)
        }

    def evaluate_all(self, compiled: MatrixProgram, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The stored matrices of a program from its inputs, from scratch."""
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
            slots = self.slots.get(self.dimensions.of(name, axis))
            if slots is not None and not slots.whole:
                index = self.backend.index(slots.index, array)
                array = array[:, index] if axis else array[index]
        return array

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a stored matrix, without what is spare."""
        found = self.state[name].shape
        for axis in (0, 1):
            slots = self.slots.get(self.dimensions.of(name, axis))
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
                f"re-evaluated {self.reevaluations} times, {self.memory / 1e6:,.1f} MB, "
                f"pending columns: {pending or 'none'}",
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
        fresh = self.evaluate_all(self.compiled, inputs)
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
        return self.attempt({**(changes or {}), **named})[0]

    def attempt(
        self, given: Mapping[str, Given]
    ) -> tuple[Applied, Callable[[], None], Callable[[str], Before | None]]:
        """`update`; what takes it back, to be called, if at all, before anything else is done; and what gives
        the value of a stored matrix before it: None if nobody knows."""
        self._check_names(given)
        resolved = resolve(self, given)
        if resolved.grow:
            grow(self, resolved.grow)
            resolved = resolve(self, given)
        before, how = (self.version, self.drift, self.reevaluations), self.compiled
        how_dims = self.dimensions
        state, slots = self.state, dict(self.slots)
        self._marks, self._added = [], {}
        if resolved.rebuilt is not None:
            applied = rebuild(self, resolved)
        elif resolved.changes:
            applied = self._apply(resolved)
        else:
            applied = self.done({}, "nothing to do")
        self.slots.update(resolved.slots)
        marks, added = self._marks, self._added
        axes = {
            (name, axis): slots[dim].index
            for name in state
            for axis in (0, 1)
            if (dim := how_dims.of(name, axis)) in slots and not slots[dim].whole
        }

        def value_before(name: str) -> Before | None:
            rows, columns = axes.get((name, 0)), axes.get((name, 1))
            held = state[name]
            if self.state is not state:
                return held.before(None, rows, columns)
            factors = added.get(name, [])
            if factors is None:
                return held.before(next(mark for one, mark in marks if one is held), rows, columns)
            copied = ((self.backend.copy(u), self.backend.copy(v)) for u, v in factors)
            return Before(tuple(copied), None, rows, columns, held.shape)

        def undo() -> None:
            for held, mark in reversed(self._marks):
                held.restore(mark)
            self.version, self.drift, self.reevaluations = before
            self.state, self.slots = state, slots
            if self.compiled is not how:
                self.set_program(how)

        return applied, undo, value_before

    def value(self, name: str) -> UsedArray:
        """A stored matrix as it is, for `Before.of`."""
        index = [
            None if slots is None or slots.whole else slots.index
            for slots in (self.slots.get(self.dimensions.of(name, axis)) for axis in (0, 1))
        ]
        return UsedArray(self.state[name].array(), *index)

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
        if not self.options.pending:
            for held in self.state.values():
                held.merge()
        if self._dearer(ranks):
            return self._reevaluated(resolved, "a change of this rank is dearer to propagate")
        execution = Execution(
            self._plan(ranks), self.state, live, self.evaluate_one, self.options.condition_limit
        )
        largest = max(math.prod(held.shape) for held in self.state.values())
        try:
            with self.backend.calm(largest):
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
        with self.backend.calm(largest):
            drift = self._check(signs, execution)
        if not np.isfinite(drift) or drift > self.tolerance:
            execution.restore()
            return self._reevaluated(resolved, f"drift {drift:.1e} past the tolerance")
        self.drift = drift
        self._marks, self._added = execution.marks, execution.added
        return self.done(ranks, "incremental" if not execution.plan.redo else self.compiled.strategy)

    def _plan(self, ranks: Mapping[str, int]) -> ScheduledTrigger:
        key = tuple(sorted(ranks.items()))
        if key not in self._plans:
            self._plans[key] = make_plan(self.compiled, ranks)
        return self._plans[key]

    def _dearer(self, ranks: Mapping[str, int]) -> bool:
        """Whether changes of these ranks are dearer to propagate than everything is to evaluate anew."""
        key = tuple(sorted(ranks.items()))
        if key not in self._dear:
            self._dear[key] = self.compiled.dearer(ranks)
        return self._dear[key]

    def done(self, ranks: Mapping[str, int], how: str, reason: str = "") -> Applied:
        """Make a new version of what has been changed."""
        self.version += 1
        return Applied(self.version, ranks, how, self.drift, reason)

    def _check(self, signs: list[Any], execution: Execution) -> float:
        """The drift after an update: the worst block; infinite if anything is not finite."""
        touched = {s.target for s in execution.plan.updates} if self.options.check else set()
        checked = self.checked(touched)
        rng = np.random.default_rng((self.options.seed, self.places()))
        pairs = [pair for name, expr in checked if (pair := sample(name, expr, self.state, rng)) is not None]
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
        """The drift of whole views on a random vector: dearer than an update's check; sees every entry."""
        rng = np.random.default_rng((self.options.seed, self.version, 1))
        one = Probe(self.state, rng)
        return max((one.residual(name, expr) for name, expr in self.definitions.items()), default=0.0)

    def _reevaluated(self, resolved: Resolved, reason: str) -> Applied:
        """Change the inputs and re-evaluate everything; if that fails nothing has changed."""
        values = self.evaluate_all(self.compiled, self.changed_inputs(resolved.changes))
        self._marks = [(held, held.mark_value()) for held in self.state.values()]
        self._added = dict.fromkeys(self.state)
        for name, held in self.state.items():
            held.replace(values[name])
        self.drift = 0.0
        self.reevaluations += 1
        return self.done({n: c.rank for n, c in resolved.changes.items()}, "reevaluate", reason)

    def reevaluate(self) -> None:
        """Compute every stored matrix anew from the inputs."""
        values = self.evaluate_all(self.compiled, self.changed_inputs({}))
        for name, held in self.state.items():
            if name not in self.inputs:
                held.replace(values[name])
        self.drift = 0.0
        self.reevaluations += 1

    # Snapshots

    def to_arrays(self, state: Mapping[str, Held] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that `from_arrays` needs, as NumPy arrays by name; of `state`, if not all is asked."""
        return snapshots.to_arrays(self, self.state if state is None else state)

    @classmethod
    def from_arrays(
        cls,
        program: Definition,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        *,
        like: Array | None = None,
        **how: Any,
    ) -> MatrixView:
        """The view that `to_arrays` described, on the backend and device of `like`; nothing is re-evaluated.

        `how` takes `ranks`, `static`, `machine` and `options`, as when the view was made.
        """
        view = cls.__new__(cls)
        snapshots.restore(view, program, arrays, like, **how)
        return view
