"""Programs in Python: `@program` traces a function of matrices (section 6.2).

The function gets symbols and builds expressions with `+ - @ .T`, `*` by a number, and the functions of this
module. What it returns is the program: one expression, several, or a dictionary of named ones. Shapes are
bound when matrices are given.

>>> @program
... def ols(X, Y):
...     return inv(X.T @ X) @ X.T @ Y
>>> print(ols.bind(X=(100, 3), Y=(100, 1)))
input X(100, 3);
input Y(100, 1);
ols := inv(X' X) X' Y;
output ols;
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.lang.nodes import (
    Expr,
    Eye,
    Inverse,
    Iterate,
    Matrix,
    Power,
    PowerSum,
    Shape,
    Zeros,
    as_expr,
)
from everfresh.linalg.lang.source import Source


def eye(n: int) -> Expr:
    """The identity of n rows."""
    return Eye(n)


def zeros(rows: int, columns: int) -> Expr:
    """A matrix of zeros."""
    return Zeros(rows, columns)


def inv(body: Any) -> Expr:
    """The inverse of a square matrix."""
    return Inverse(as_expr(body))


def power(A: Any, k: int, model: str = "auto") -> Expr:
    """A to the k, in an iterative model: `linear`, `exponential`, `skip-4` (any s), or the cheapest."""
    return Power(as_expr(A), k, model)


def sum_of_powers(A: Any, k: int, model: str = "auto") -> Expr:
    """I + A + ... + A^(k-1)."""
    return PowerSum(as_expr(A), k, model)


def iterate(A: Any, T0: Any, B: Any | None = None, k: int = 1, model: str = "auto") -> Expr:
    """The result of T := A T + B, k times from T0; B is zero if left out."""
    return Iterate(as_expr(A), as_expr(T0), None if B is None else as_expr(B), k, model)


class TracedProgram:
    """A Python function as a program; `bind` gives it shapes, a call evaluates it from scratch."""

    def __init__(
        self, function: Callable[..., Any], name: str | None = None, static: Iterable[str] = ()
    ) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "result").strip("<>")
        self.__doc__ = function.__doc__
        self.static = frozenset(static)
        self.parameters = _parameters(function)

    def bind(self, shapes: Mapping[str, Shape] | None = None, /, **more: Shape) -> Source:
        """The program for inputs of these shapes."""
        given = {**(shapes or {}), **more}
        if given.keys() != set(self.parameters):
            wrong = sorted(given.keys() ^ set(self.parameters))[0]
            raise EverfreshError(
                Code.ARGUMENT,
                f"{self.name} and its inputs do not agree about '{wrong}'",
                hint="its inputs are: " + ", ".join(self.parameters),
            )
        inputs = tuple(Matrix(name, *given[name]) for name in self.parameters)
        statements = self._statements(self.function(*inputs))
        taken = set(self.parameters)
        for name, _ in statements:
            if name in taken:
                raise EverfreshError(Code.EXISTS, f"'{name}' is an input and an output of {self.name}")
        outputs = tuple(name for name, _ in statements)
        return Source(inputs, statements, outputs, self.static)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The result for these arrays, from scratch; for symbols, expressions: programs may call programs."""
        if any(isinstance(a, Expr) for a in (*arrays, *named.values())):
            return self.function(*arrays, **named)
        from everfresh.linalg.run.evaluate import evaluate_source

        given = {**dict(zip(self.parameters, arrays, strict=False)), **named}
        results = evaluate_source(self.bind({k: tuple(v.shape) for k, v in given.items()}), given)
        return results if len(results) > 1 else next(iter(results.values()))

    def _statements(self, result: Any) -> tuple[tuple[str, Expr], ...]:
        if isinstance(result, Mapping):
            return tuple((name, as_expr(expr)) for name, expr in result.items())
        if isinstance(result, tuple):
            return tuple((f"{self.name}_{i}", as_expr(expr)) for i, expr in enumerate(result, 1))
        return ((self.name, as_expr(result)),)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD}:
        raise EverfreshError(Code.ARGUMENT, "a matrix program takes plain parameters, one per input matrix")
    return tuple(inspect.signature(function).parameters)


def program(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, static: Iterable[str] = ()
) -> Any:
    """Make a matrix program of a Python function; `static` names the inputs that never change."""
    if function is None:
        return lambda given: TracedProgram(given, name, static)
    return TracedProgram(function, name, static)
