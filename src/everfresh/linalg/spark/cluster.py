"""What the driver asks of the workers: one job answers any number of operations.

Invariant: a job changes nothing that the driver does not name afterwards: a failed one leaves files that
nobody names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.linalg.lang.nodes import Expr, Matrix
from everfresh.linalg.lang.trees import distinct, names
from everfresh.linalg.spark.blocks import (
    Array,
    Blocks,
    assemble,
    cut,
    files_of,
    fresh_id,
    write_factors,
    write_rows,
)
from everfresh.linalg.spark.ops import EVALUATED, Evaluate, Op, packed_ops
from everfresh.linalg.spark.tasks import answer
from everfresh.spark.jobs.requests import Requests
from everfresh.state import unpack_arrays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Cluster:
    """The workers of one database, as far as matrices go."""

    def __init__(self, session: SparkSession, root: str, workers: int) -> None:
        self.workers = workers
        self.files = files_of(root)
        self._requests = Requests(session, root, workers, answer)

    @property
    def jobs(self) -> int:
        """How many were run."""
        return self._requests.jobs

    def run(self, ops: Sequence[Op], arrays: Mapping[str, Array]) -> list[list[Array]]:
        """The answers of all workers to each operation."""
        found = [unpack_arrays(one) for one in self._requests.ask(packed_ops(ops, arrays))]
        return [[arrays[str(i)] for arrays in found] for i in range(len(ops))]

    def asked(self, ops: Sequence[Op], arrays: Mapping[str, Array]) -> list[Array]:
        """The answers, those of the workers one below the other."""
        return [np.concatenate(parts, axis=0) for parts in self.run(ops, arrays)]

    def scatter(self, array: Array) -> Blocks:
        """An array of the driver, cut into blocks."""
        array = np.asarray(array)
        name = fresh_id()
        for worker in range(self.workers):
            write_rows(self.files, name, worker, array[cut(array.shape[0], worker, self.workers)])
        rows, columns = (int(size) for size in array.shape)
        return Blocks(name, rows, columns, self.workers, str(array.dtype), (), float(array.sum()))

    def gather(self, blocks: Blocks) -> Array:
        """A whole matrix, here: from files, so that it need not fit the memory of Spark's driver."""
        if not blocks.chain:
            return assemble(self.files, blocks)
        written = self.compacted(blocks)
        try:
            return assemble(self.files, written)
        finally:
            self.files.remove(written.files())

    def compacted(self, blocks: Blocks) -> Blocks:
        """The same value without a chain: the workers write their rows anew."""
        return self.evaluate(Matrix("M", *blocks.shape), {"M": blocks}, blocks.dtype)

    def plus(self, blocks: Blocks, left: Array, right: Array) -> Blocks:
        """The value after a change by factors; it reaches the workers with the next job."""
        return write_factors(self.files, blocks, left, right)

    def can_evaluate(self, expr: Expr) -> bool:
        """Whether the workers can evaluate a flat expression row by row."""
        return all(isinstance(node, EVALUATED) for node in distinct(expr))

    def evaluate(self, expr: Expr, env: Mapping[str, Any], dtype: str) -> Blocks:
        """A flat statement, each worker its rows; `env` has blocks, and arrays of the driver."""
        name, read = fresh_id(), {n: env[n] for n in sorted(names(expr))}
        held = {n: value for n, value in read.items() if isinstance(value, Blocks)}
        given = {n: np.asarray(value) for n, value in read.items() if n not in held}
        (totals,) = self.run([Evaluate(name, self.workers, expr, held)], given)
        total = float(sum(part[0, 0] for part in totals))
        return Blocks(name, expr.rows, expr.columns, self.workers, dtype, (), total)
