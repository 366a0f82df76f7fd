"""What runs in tasks: a worker's rows and columns of matrices, products with them, and rows of a statement.

A process keeps the blocks it has served; files are the truth, and a task brings what it finds to the chain
that was asked for. Invariant: what a task returns depends on the files and on what was asked only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everfresh.linalg.kernels.backend import NumpyBackend
from everfresh.linalg.lang.nodes import Add, Expr, Eye, MatMul, Matrix, Scale, Transpose, Zeros
from everfresh.linalg.spark.blocks import (
    Array,
    Blocks,
    assemble,
    cut,
    files_of,
    read_factors,
    read_rows,
    write_rows,
)
from everfresh.linalg.spark.ops import Evaluate, Op, Peek, Take, Times, TimesSome, asked_ops
from everfresh.spark.jobs.requests import Kept, Request
from everfresh.spark.state.named import NamedFiles
from everfresh.state import pack_arrays

_BACKEND = NumpyBackend(threads=1)  # a task has one processor


@dataclass(slots=True)
class MatrixPart:
    """A worker's rows and columns of one matrix, with so much of its chain added."""

    rows: Array
    columns: Array | None
    chain: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.rows.nbytes + (self.columns.nbytes if self.columns is not None else 0)


_KEPT: Kept[tuple[str, str, int], MatrixPart] = Kept(4 << 30)


@dataclass(slots=True)
class Worker:
    """One task's view of the matrices."""

    files: NamedFiles
    number: int
    whole: dict[Blocks, Array] = field(default_factory=dict)

    def part(self, blocks: Blocks, columns: bool = False) -> MatrixPart:
        """This worker's part of a matrix, at the value asked for."""
        key = (self.files.root, blocks.id, self.number)
        part = _KEPT.get(key)
        if part is None or blocks.chain[: len(part.chain)] != part.chain:
            part = MatrixPart(np.array(read_rows(self.files, blocks, self.number)), None)
        if columns and part.columns is None:
            some = blocks.columns_of(self.number)
            pieces = [read_rows(self.files, blocks, w)[:, some] for w in range(blocks.workers)]
            part.columns = np.concatenate(pieces, axis=0)
            for name in part.chain:
                left, right = read_factors(self.files, name)
                _BACKEND.add_product(part.columns, left, right[some])
        for name in blocks.chain[len(part.chain) :]:
            left, right = read_factors(self.files, name)
            _BACKEND.add_product(part.rows, left[blocks.rows_of(self.number)], right)
            if part.columns is not None:
                _BACKEND.add_product(part.columns, left, right[blocks.columns_of(self.number)])
            part.chain = (*part.chain, name)
        _KEPT.put(key, part)
        return part

    def columns(self, blocks: Blocks) -> Array:
        """This worker's columns of a matrix."""
        found = self.part(blocks, True).columns
        assert found is not None
        return found

    def all_of(self, blocks: Blocks) -> Array:
        """A whole matrix, for the time of this task."""
        if blocks not in self.whole:
            self.whole[blocks] = assemble(self.files, blocks)
        return self.whole[blocks]

    # -- what can be asked -------------------------------------------------------------------------

    def do(self, op: Op, given: dict[str, Array]) -> Any:
        """One operation: an array."""
        match op:
            case Times(blocks, x, turned):
                return _BACKEND.thin(
                    self.columns(blocks) if turned else self.part(blocks).rows, given[x], turned
                )
            case TimesSome(blocks, x, index, False):
                return self.part(blocks).rows[:, given[index]] @ given[x]
            case TimesSome(blocks, x, index):
                return self.columns(blocks)[given[index]].T @ given[x]
            case Take(blocks, index):
                at, own = given[index], blocks.rows_of(self.number)
                mine = at[(at >= own.start) & (at < own.stop)] - own.start
                return self.part(blocks).rows[mine]
            case Peek(blocks, (first, last), columns):
                own = blocks.rows_of(self.number)
                some = slice(max(first, own.start), min(last, own.stop))
                low = max(0, some.start - own.start)
                return self.part(blocks).rows[low : max(low, some.stop - own.start), slice(*columns)]
            case Evaluate(blocks_id, workers, expr, held):
                rows = cut(expr.rows, self.number, workers)
                value = np.asarray(self.value(expr, rows, {**given, **held}))
                write_rows(self.files, blocks_id, self.number, value)
                return np.array([[value.sum()]])

    def value(self, expr: Expr, rows: slice, env: Mapping[str, Blocks | Array]) -> Array:
        """Some rows of a flat expression."""
        match expr:
            case Matrix(name):
                held = env[name]
                return self.part(held).rows if isinstance(held, Blocks) else held[rows]
            case Transpose(Matrix(name)):
                held = env[name]
                return self.columns(held).T if isinstance(held, Blocks) else held.T[rows]
            case MatMul(left, right):
                return self.value(left, rows, env) @ self.operand(right, env)
            case Scale(factor, body):
                return factor * self.value(body, rows, env)
            case Add(terms):
                values = [self.value(term, rows, env) for term in terms]
                return sum(values[1:], start=values[0])
            case Eye(size):
                return np.eye(size)[rows]
            case Zeros(_, width):
                return np.zeros((rows.stop - rows.start, width))
        raise TypeError(f"workers do not evaluate {type(expr).__name__}")

    def operand(self, expr: Expr, env: Mapping[str, Blocks | Array]) -> Array:
        """All of an atom."""
        if isinstance(expr, Transpose):
            return self.operand(expr.body, env).T
        assert isinstance(expr, Matrix)
        held = env[expr.name]
        return self.all_of(held) if isinstance(held, Blocks) else held


def answer(request: Request) -> bytes:
    """Do what a request asks, and answer with one array for each operation."""
    ops, given = asked_ops(request)
    worker = Worker(files_of(request.root), request.worker)
    return pack_arrays({str(i): worker.do(op, given) for i, op in enumerate(ops)})
