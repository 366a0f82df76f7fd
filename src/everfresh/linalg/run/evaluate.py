"""The meaning of expressions: evaluation from scratch. What every incremental path is compared with.

`evaluate` works on arrays of any backend. An environment may also hold matrices with pending factors
(`Held`): those are multiplied with thin operands factor by factor and never written. Every inverse is
checked: one whose condition number is past the limit raises `IllConditioned`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.kernels.backend import Array, Backend, backend_of
from everfresh.linalg.lang.nodes import (
    Add,
    Constant,
    Expr,
    Eye,
    Inverse,
    Iterate,
    MatMul,
    Matrix,
    Power,
    PowerSum,
    Scale,
    Stack,
    Transpose,
    Zeros,
)
from everfresh.linalg.lang.source import Source
from everfresh.linalg.run.pending import Held

CONDITION_LIMIT = 1e12
_COSTLY = (MatMul, Inverse, Power, PowerSum, Iterate)


class IllConditioned(EverfreshError):
    """An inverse that would lose all digits."""

    def __init__(self, what: str, condition: float) -> None:
        super().__init__(
            Code.VALUE,
            f"{what} is too ill-conditioned to be inverted: condition number {condition:.1e}",
            hint="the update is refused; add a multiple of the identity (ridge) if the data are like that",
        )
        self.condition = condition


class Evaluator:
    """Evaluates expressions in one environment, each different node once."""

    def __init__(
        self, env: Mapping[str, Any], backend: Backend, like: Array, condition_limit: float = CONDITION_LIMIT
    ) -> None:
        self.env = env
        self.backend = backend
        self.like = like
        self.limit = condition_limit
        self._memo: dict[Expr, Array] = {}

    def value(self, expr: Expr) -> Array:
        """The value of an expression as an array."""
        if not isinstance(expr, _COSTLY):
            return self._compute(expr)
        if expr not in self._memo:
            self._memo[expr] = self._compute(expr)
        return self._memo[expr]

    def _compute(self, expr: Expr) -> Array:
        match expr:
            case Matrix(name):
                held = self.env[name]
                return held.array() if isinstance(held, Held) else held
            case Transpose(body):
                return self.value(body).T
            case MatMul(left, right):
                return self._product(left, right)
            case Add(terms):
                return self._sum(terms)
            case Scale(factor, body):
                return factor * self.value(body)
            case Inverse(body):
                return self._inverse(body)
            case Stack(parts, axis):
                return self.backend.concat([self.value(p) for p in parts], axis)
            case Eye(size):
                return self.backend.eye(size, self.like)
            case Zeros(height, width):
                return self.backend.zeros(height, width, self.like)
            case Constant(values):
                return self.backend.asarray(values, self.like)
            case _:
                return self._iterative(expr)

    def _sum(self, terms: tuple[Expr, ...]) -> Array:
        total: Array = None
        for i, term in enumerate(terms):
            minus = isinstance(term, Scale) and term.factor == -1.0
            value = self.value(term.body if minus else term)  # type: ignore[attr-defined]
            if i == 0:
                total = -value if minus else value
            elif i == 1:  # from here on the sum is an array of its own
                total = total - value if minus else total + value
            elif minus:
                total -= value
            else:
                total += value
        return total

    def _held(self, expr: Expr) -> tuple[Held, bool] | None:
        """The stored matrix that an operand is, and whether transposed."""
        body = expr.body if isinstance(expr, Transpose) else expr
        held = self.env.get(body.name) if isinstance(body, Matrix) else None
        return (held, isinstance(expr, Transpose)) if isinstance(held, Held) else None

    def _product(self, left: Expr, right: Expr) -> Array:
        a, b = self._held(left), self._held(right)
        if a is not None and right.columns <= a[0].width_limit:
            return a[0].times(self.value(right), a[1])
        if b is not None and left.rows <= b[0].width_limit:
            return b[0].times(self.value(left).T, not b[1]).T
        return self.value(left) @ self.value(right)

    def _inverse(self, body: Expr) -> Array:
        value = self.value(body)
        if not self.backend.finite(value):
            raise IllConditioned(str(body), float("inf"))
        inverse = self.backend.inv(value)
        condition = self.backend.norm1(value) * self.backend.norm1(inverse)
        if not condition <= self.limit:
            raise IllConditioned(str(body), condition)
        return inverse

    def _iterative(self, expr: Expr) -> Array:
        """Iterations by their plain definition, whatever their model."""
        match expr:
            case Power(body, k):
                matrix = self.value(body)
                result = matrix
                for _ in range(k - 1):
                    result = matrix @ result
                return result
            case PowerSum(body, k):
                matrix = self.value(body)
                one = self.backend.eye(body.rows, self.like)
                result = one
                for _ in range(k - 1):
                    result = matrix @ result + one
                return result
            case Iterate(body, start, offset, k):
                matrix, result = self.value(body), self.value(start)
                for _ in range(k):
                    result = matrix @ result
                    if offset is not None:
                        result = result + self.value(offset)
                return result
        raise TypeError(f"{type(expr).__name__} has no value")


def evaluate(expr: Expr, env: Mapping[str, Any]) -> Array:
    """The value of an expression over arrays by name."""
    backend = backend_of(*env.values())
    arrays = {name: backend.asarray(array) for name, array in env.items()}
    like = next(iter(arrays.values()), None)
    evaluator = Evaluator(arrays, backend, backend.asarray([[0.0]]) if like is None else like)
    return evaluator.value(expr)


def evaluate_source(source: Source, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The outputs of a program, from scratch."""
    env = check_inputs(source, inputs)
    for name, expr in source.statements:
        env[name] = evaluate(expr, env)
    return {name: env[name] for name in source.outputs}


def check_inputs(source: Source, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The input arrays as floats, of the program's shapes."""
    wanted = {m.name: m.shape for m in source.inputs}
    if inputs.keys() != wanted.keys():
        wrong = sorted(inputs.keys() ^ wanted.keys())[0]
        raise EverfreshError(
            Code.ARGUMENT,
            f"the program and the matrices given do not agree about '{wrong}'",
            hint="its inputs are: " + ", ".join(wanted),
        )
    backend = backend_of(*inputs.values())
    env = {name: backend.asarray(array) for name, array in inputs.items()}
    for name, array in env.items():
        if tuple(array.shape) != wanted[name]:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{name} is {'x'.join(map(str, array.shape))}, the program's is "
                f"{wanted[name][0]}x{wanted[name][1]}",
            )
        if not backend.finite(array):
            raise EverfreshError(Code.VALUE, f"the matrix {name} holds NaN or infinite values")
    return env
