"""Running a trigger: the factors, against the state before; then all updates; then what is re-evaluated.

Invariant: until `apply` returns nothing is final: `Execution.restore` gives every stored matrix the value
it had, so an update that fails at any point (a singular capacitance, an overflow) changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.cost import Machine
from everfresh.linalg.compiler.flatten import Flat
from everfresh.linalg.compiler.plan import MatrixProgram
from everfresh.linalg.compiler.product_schedule import Assign, Multiply, Step, schedule
from everfresh.linalg.compiler.reuse import ColumnRange
from everfresh.linalg.kernels.backend import Array, Backend
from everfresh.linalg.lang.nodes import Expr, MatMul, Matrix
from everfresh.linalg.lang.trees import distinct, names
from everfresh.linalg.run.evaluate import Evaluator
from everfresh.linalg.run.pending import Held
from everfresh.linalg.run.updates import LowRankChange
from everfresh.program.ir import Statement

MERGE_AFTER = (16, 32)  # updates between two merges, by cost


@dataclass(frozen=True, slots=True)
class ScheduledTrigger:
    """A trigger, scheduled."""

    factors: Mapping[str, tuple[str, str]]
    steps: tuple[Step, ...]
    updates: tuple[Statement[Expr], ...]
    redo: tuple[Statement[Expr], ...]
    capacity: Mapping[str, int]
    """The pending columns that each matrix has room for."""


def make_plan(program: MatrixProgram, ranks: Mapping[str, int]) -> ScheduledTrigger:
    """The plan for changes of these ranks."""
    trigger = program.trigger(ranks)
    block = [(s.target, s.expr) for s in trigger.statements if s.strategy == "factor"]
    updates = tuple(s for s in trigger.statements if s.op == "+=")
    redo = tuple(s for s in trigger.statements if s.strategy == "reevaluate")
    steps = tuple(schedule(block, program.stored, program.flat.symmetric))
    names_of = {name: (u.name, v.name) for name, (u, v) in program.factors(ranks).items()}
    return ScheduledTrigger(names_of, steps, updates, redo, _capacities(program.machine, steps, updates))


def _capacities(
    machine: Machine, steps: tuple[Step, ...], updates: tuple[Statement[Expr], ...]
) -> dict[str, int]:
    """How long to wait with merging: what a merge costs against reading through more and more factors."""
    reads: dict[str, int] = {}
    for step in steps:
        if isinstance(step, Multiply):
            reads[step.matrix] = reads.get(step.matrix, 0) + sum(
                operand.columns for _, operand, _ in step.products
            )
    found = {}
    for statement in updates:
        if not isinstance(statement.expr, MatMul):
            continue
        rank = statement.expr.left.columns
        rows, columns = statement.expr.shape
        merge = machine.seconds(0.0, 16.0 * rows * columns)
        growth = 2.0 * (rows + columns) * rank * reads.get(statement.target, 0) / machine.flops
        low, high = MERGE_AFTER
        wait = high if growth == 0.0 else min(high, max(low, round(math.sqrt(2.0 * merge / growth))))
        found[statement.target] = max(1, min(wait * rank, min(rows, columns) // 2))
    return found


class Execution:
    """One run of a plan."""

    def __init__(
        self,
        plan: ScheduledTrigger,
        state: dict[str, Held],
        changes: Mapping[str, LowRankChange],
        evaluate: Callable[[Expr, Mapping[str, Any]], Any],
        limit: float,
    ) -> None:
        self.plan = plan
        self.evaluate = evaluate
        self.state = state
        held = next(iter(state.values()))
        self.backend: Backend = held.backend
        self.env: dict[str, Any] = dict(state)
        self.some: dict[str, Any] = {}
        for name, (u, v) in plan.factors.items():
            change = changes[name]
            self.env[u], self.env[v] = change.left, change.right
            if change.left_rows is not None:
                self.some[u] = self.backend.index(change.left_rows, held.base)
            if change.right_rows is not None:
                self.some[v] = self.backend.index(change.right_rows, held.base)
        self.evaluator = Evaluator(self.env, self.backend, held.base, limit)
        self.marks: list[tuple[Held, Any]] = []
        self.added: dict[str, list[tuple[Array, Array]] | None] = {}
        """What was added to each stored matrix, as factors; None if it was not by factors alone."""

    def compute(self) -> None:
        """Evaluate the factors; nothing stored changes."""
        for step in self.plan.steps:
            if isinstance(step, Assign):
                self.env[step.name] = self.evaluator.value(step.expr)
            elif isinstance(step, ColumnRange):
                self.env[step.name] = self.env[step.product][:, step.start : step.start + step.width]
            else:
                self._multiply(step)

    def _multiply(self, step: Multiply) -> None:
        held = self.state[step.matrix]
        operands: tuple[list[tuple[str, Array]], list[tuple[str, Array]]] = ([], [])  # of M and of M'
        for name, operand, turned in step.products:
            some = self.some.get(operand.name) if isinstance(operand, Matrix) else None
            value = self.evaluator.value(operand)
            if some is not None:
                self.env[name] = held.times_some(value, some, turned)
            else:
                operands[turned].append((name, value))
        forth, back = (self._beside([value for _, value in listed]) for listed in operands)
        if forth is not None and back is not None:
            results = held.both(forth, back)
        else:
            results = (
                None if forth is None else held.times(forth),
                None if back is None else held.times(back, True),
            )
        for listed, result in zip(operands, results, strict=True):
            at = 0
            for name, value in listed:
                self.env[name] = result[:, at : at + value.shape[1]]
                at += value.shape[1]

    def _beside(self, values: list[Array]) -> Array | None:
        if len(values) < 2:
            return values[0] if values else None
        return self.backend.concat(values, 1)

    def apply(self) -> list[Any]:
        """Make all updates; returns scalars that are finite if all is well."""
        fresh = set[str]().union(*(names(s.expr) for s in self.plan.redo)) if self.plan.redo else set()
        signs = []
        for statement in self.plan.updates:
            held, expr = self.state[statement.target], statement.expr
            if isinstance(expr, MatMul):
                left, right = self.evaluator.value(expr.left), self.evaluator.value(expr.right).T
                signs += [left.sum(), right.sum()]
                self._note(statement.target, left, right)
                rows = self.some.get(expr.left.name) if isinstance(expr.left, Matrix) else None
                self._add(statement.target, held, left, right, statement.target in fresh, rows)
            else:
                change = self.evaluator.value(expr)
                signs.append(change.sum())
                base = held.array()
                self.added[statement.target] = None
                self.marks.append((held, held.mark_value()))
                held.replace(base + change)
        for statement in self.plan.redo:
            value = self.evaluate(statement.expr, self.env)  # what was computed before saw the state before
            signs.append(value.sum())
            if statement.target in self.state:
                held = self.state[statement.target]
                self.added[statement.target] = None
                self.marks.append((held, held.mark_value()))
                held.replace(self.backend.copy(value))
            else:
                self.env[statement.target] = value
        return signs

    def _note(self, name: str, left: Array, right: Array) -> None:
        known = self.added.setdefault(name, [])
        if known is not None:
            known.append((left, right))

    def _add(self, name: str, held: Held, left: Array, right: Array, fresh: bool, rows: Any) -> None:
        if fresh or held.thin:
            held.merge()
            if rows is not None and held.row_by_row:
                self.marks.append((held, held.mark_rows(rows)))
                held.add_rows(rows, left[rows], right)
                return
            self.marks.append((held, held.mark()))
            held.shift(left, right)
            return
        held.reserve(left.shape[1], self.plan.capacity.get(name, 0))
        self.marks.append((held, held.mark()))
        held.add(left, right)

    def restore(self) -> None:
        """Take everything back."""
        for held, mark in reversed(self.marks):
            held.restore(mark)
        self.marks.clear()


def evaluate_flat(
    flat: Flat, inputs: Mapping[str, Array], keep: tuple[str, ...], backend: Backend, limit: float
) -> dict[str, Array]:
    """The matrices of `keep` from scratch: the twin of every trigger."""
    env = dict(inputs)
    like = next(iter(inputs.values()))
    last = {name: i for i, (_, expr) in enumerate(flat.statements) for name in names(expr)}
    for i, (name, expr) in enumerate(flat.statements):
        value = Evaluator(env, backend, like, limit).value(expr)
        env[name] = backend.copy(value) if _shares(expr) else value
        for done in [n for n in env if last.get(n) == i and n not in keep]:
            del env[done]
    for name in keep:
        if not backend.finite(env[name]):
            raise EverfreshError(
                Code.OVERFLOW,
                f"the matrix {name} has values that are too large for a double",
                hint="the update is refused; scale the inputs down",
            )
    return {name: env[name] for name in keep}


def _shares(expr: Expr) -> bool:
    """Whether the value of an expression may be a view of an input's array."""
    return not any(isinstance(node, MatMul) for node in distinct(expr))
