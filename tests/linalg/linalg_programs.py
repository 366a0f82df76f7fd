"""Random programs and updates for Hypothesis, and the error that floating point may make in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import everfresh.linalg as la
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

EPS = float(np.finfo(np.float64).eps)
NAMES = ("A", "B", "C")
SCALES = st.sampled_from([-2.0, -1.0, 0.5, 1.0, 3.0])
MODELS = st.sampled_from(["auto", "linear", "exponential", "skip-2", "skip-3"])


@st.composite
def expressions(draw: Any, shape: tuple[int, int], inputs: tuple[Matrix, ...], depth: int) -> Expr:
    """An expression of a shape over the inputs: any nesting of the operators."""
    rows, columns = shape
    leaves: list[Expr] = [m for m in inputs if m.shape == shape] + [
        m.T for m in inputs if m.shape == shape[::-1]
    ]
    if not leaves or draw(st.integers(0, 9)) == 0:
        leaves.append(Zeros(*shape))
        leaves += [Eye(rows)] if rows == columns else []
        values = st.lists(
            st.lists(st.sampled_from([-1.0, 0.5, 2.0]), min_size=columns, max_size=columns),
            min_size=rows,
            max_size=rows,
        )
        leaves.append(Constant(tuple(map(tuple, draw(values)))))
    if depth == 0:
        return draw(st.sampled_from(leaves))
    kinds = ["leaf", "add", "add", "matmul", "matmul", "matmul", "scale", "transpose"]
    if rows == columns:
        kinds += ["inverse", "inverse", "power"]
    kinds += ["iterate"] + (["stack"] if columns > 1 else [])
    kind = draw(st.sampled_from(kinds))
    below = lambda a, b: draw(expressions((a, b), inputs, depth - 1))  # noqa: E731
    sizes = sorted({size for m in inputs for size in m.shape})
    if kind == "add":
        return (
            below(rows, columns) + below(rows, columns)
            if draw(st.booleans())
            else below(rows, columns) - below(rows, columns)
        )
    if kind == "matmul":
        inner = draw(st.sampled_from(sizes))
        return below(rows, inner) @ below(inner, columns)
    if kind == "scale":
        return draw(SCALES) * below(rows, columns)
    if kind == "transpose":
        return below(columns, rows).T
    if kind == "inverse":
        return Inverse(8.0 * Eye(rows) + below(rows, rows))
    if kind == "power":
        body, k = Scale(0.5, below(rows, rows)), draw(st.integers(1, 5))
        return draw(st.sampled_from([Power, PowerSum]))(body, k, draw(MODELS))
    if kind == "iterate":
        offset = below(rows, columns) if draw(st.booleans()) else None
        return Iterate(
            Scale(0.5, below(rows, rows)), below(rows, columns), offset, draw(st.integers(1, 4)), draw(MODELS)
        )
    if kind == "stack":
        cut = draw(st.integers(1, columns - 1))
        return Stack((below(rows, cut), below(rows, columns - cut)))
    return draw(st.sampled_from(leaves))


@st.composite
def sources(draw: Any, depth: int = 3) -> la.Source:
    """A program of one to three statements over one to three rectangular inputs."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
    inputs = tuple(
        Matrix(name, draw(st.sampled_from(sizes)), draw(st.sampled_from(sizes)))
        for name in NAMES[: draw(st.integers(1, 3))]
    )
    known, statements = list(inputs), []
    for name in ("X", "Y", "Z")[: draw(st.integers(1, 3))]:
        shape = draw(st.sampled_from(sizes)), draw(st.sampled_from(sizes))
        expr = draw(expressions(shape, tuple(known), depth))
        statements.append((name, expr))
        known.append(Matrix(name, *expr.shape))
    return la.Source(inputs, tuple(statements), tuple(name for name, _ in statements))


def matrices(source: la.Source, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs for a program."""
    rng = np.random.default_rng(seed)
    return {m.name: rng.uniform(-1, 1, m.shape) for m in source.inputs}


@st.composite
def update_batches(draw: Any, source: la.Source) -> list[dict[str, Any]]:
    """Updates, each of one or several inputs at once."""
    batches = []
    for seed in draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=4)):
        rng = np.random.default_rng(seed)
        chosen = draw(st.lists(st.sampled_from([m.name for m in source.inputs]), min_size=1, unique=True))
        batches.append(
            {name: [_update(rng, source.shape(name)) for _ in range(rng.integers(1, 3))] for name in chosen}
        )
    return batches


def _update(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
    rows, columns = shape
    match rng.integers(5):
        case 0:
            return la.RowUpdate(int(rng.integers(rows)), rng.uniform(-1, 1, columns))
        case 1:
            return la.ColumnUpdate(int(rng.integers(columns)), rng.uniform(-1, 1, rows))
        case 2:
            return la.EntryUpdate(
                int(rng.integers(rows)), int(rng.integers(columns)), float(rng.uniform(-1, 1))
            )
        case _:
            rank = int(rng.integers(1, 4))
            return la.LowRank(rng.uniform(-1, 1, (rows, rank)), rng.uniform(-0.5, 0.5, (columns, rank)))


def apply_to(arrays: dict[str, np.ndarray[Any, Any]], batch: dict[str, Any]) -> None:
    """The same updates on plain arrays."""
    for name, updates in batch.items():
        for update in updates:
            match update:
                case la.RowUpdate(i, row):
                    arrays[name][i] = row
                case la.ColumnUpdate(j, column):
                    arrays[name][:, j] = column
                case la.EntryUpdate(i, j, value):
                    arrays[name][i, j] = value
                case la.LowRank(U, V):
                    arrays[name] += U @ V.T


@dataclass(frozen=True)
class Rough:
    """A value with the size of what it was made of and a bound on its rounding error, to first order."""

    value: np.ndarray[Any, Any]
    size: float
    error: float


def rough(expr: Expr, env: dict[str, Rough]) -> Rough:
    """Running error analysis: how far rounding may take the value of an expression."""
    match expr:
        case Matrix(name):
            return env[name]
        case Transpose(body):
            inner = rough(body, env)
            return Rough(inner.value.T, inner.size, inner.error)
        case Scale(factor, body):
            inner = rough(body, env)
            return Rough(factor * inner.value, abs(factor) * inner.size, abs(factor) * inner.error)
        case Add(terms):
            return _total([rough(t, env) for t in terms])
        case MatMul(left, right):
            return _times(rough(left, env), rough(right, env))
        case Inverse(body):
            inner = rough(body, env)
            value = np.linalg.inv(inner.value)
            norm = float(np.linalg.norm(value))
            return Rough(value, norm, norm * norm * (inner.error + EPS * inner.size))
        case Stack(parts, axis):
            inner_parts = [rough(p, env) for p in parts]
            whole = np.concatenate([p.value for p in inner_parts], axis)
            return Rough(whole, sum(p.size for p in inner_parts), sum(p.error for p in inner_parts))
        case Power(body, k):
            inner = result = rough(body, env)
            for _ in range(k - 1):
                result = _times(inner, result)
            return result
        case PowerSum(body, k):
            inner, one = rough(body, env), _exact(np.eye(body.rows))
            result = one
            for _ in range(k - 1):
                result = _total([_times(inner, result), one])
            return result
        case Iterate(body, start, offset, k):
            inner, result = rough(body, env), rough(start, env)
            for _ in range(k):
                result = _times(inner, result)
                result = result if offset is None else _total([result, rough(offset, env)])
            return result
        case Constant(values):
            return _exact(np.array(values))
        case Eye(size):
            return _exact(np.eye(size))
        case Zeros(height, width):
            return _exact(np.zeros((height, width)))
    raise TypeError(type(expr))


def _exact(value: np.ndarray[Any, Any]) -> Rough:
    return Rough(value, float(np.linalg.norm(value)), EPS * float(np.linalg.norm(value)))


def _total(parts: list[Rough]) -> Rough:
    size = sum(p.size for p in parts)
    return Rough(sum(p.value for p in parts), size, sum(p.error for p in parts) + EPS * size)  # type: ignore[arg-type]


def _times(a: Rough, b: Rough) -> Rough:
    size = a.size * b.size
    return Rough(a.value @ b.value, size, a.error * b.size + a.size * b.error + 8 * EPS * size)


def reference(source: la.Source, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Rough]:
    """All statements of a program in NumPy, each with its bound."""
    env = {name: _exact(array.copy()) for name, array in arrays.items()}
    for name, expr in source.statements:
        env[name] = rough(expr, env)
    return env
