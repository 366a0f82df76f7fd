"""What the driver asks of the workers: one job answers any number of operations.

Invariant: a job changes nothing that the driver does not name afterwards: a failed one leaves files that
nobody names.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.nodes import Expr, Matrix
from everfresh.linalg.spark.blocks import Array, Blocks, assemble, cut, fresh_id, write_factors, write_rows
from everfresh.linalg.spark.ops import EVALUATED, Evaluate, Op, packed_ops
from everfresh.linalg.spark.tasks import matrix_block
from everfresh.linalg.trees import distinct, names
from everfresh.spark.failures import translated
from everfresh.spark.jobs import ERROR, EXCHANGE, PROPERTY, read_error
from everfresh.state import store_of, unpack_arrays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Cluster:
    """The workers of one database, as far as matrices go."""

    def __init__(self, session: SparkSession, root: str, workers: int) -> None:
        self.session = session
        self.workers = workers
        self.folder = Path(root) / "matrices"
        self._root = root
        self._plan: DataFrame | None = None
        self.jobs = 0

    def run(self, ops: Sequence[Op], arrays: Mapping[str, Array]) -> list[list[Array]]:
        """The answers of all workers to each operation."""
        if self._plan is None:
            anchor = self.session.range(0, self.workers, 1, self.workers)
            self._plan = anchor.mapInArrow(partial(matrix_block, self._root), EXCHANGE)
        nonce = uuid.uuid4().hex
        store, name = store_of(self._root), f"inbox/{nonce}"
        message, told = packed_ops(ops, arrays)
        store.replace(name, message, durable=False)
        self.session.conf.set(PROPERTY, f"{nonce}.{told}")
        self.jobs += 1
        try:
            with translated():
                rows = self._plan.collect()
        finally:
            store.remove(name)
        for row in rows:
            if row["kind"] == ERROR:
                raise read_error(bytes(row["payload"]))
        found = {int(row["to"]): unpack_arrays(bytes(row["payload"])) for row in rows}
        if (
            len(found) < self.workers
        ):  # Spark ends a result that its driver has no memory for, and says nothing
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"{len(found)} of {self.workers} workers answered: too much for the memory of Spark's driver",
                hint="give it more memory (spark.driver.memory)",
            )
        return [[found[w][str(i)] for w in range(self.workers)] for i in range(len(ops))]

    def asked(self, ops: Sequence[Op], arrays: Mapping[str, Array]) -> list[Array]:
        """The answers, those of the workers one below the other."""
        return [np.concatenate(parts, axis=0) for parts in self.run(ops, arrays)]

    def scatter(self, array: Array) -> Blocks:
        """An array of the driver, cut into blocks."""
        array = np.asarray(array)
        name = fresh_id()
        for worker in range(self.workers):
            write_rows(self.folder, name, worker, array[cut(array.shape[0], worker, self.workers)])
        rows, columns = (int(size) for size in array.shape)
        return Blocks(name, rows, columns, self.workers, str(array.dtype), (), float(array.sum()))

    def gather(self, blocks: Blocks) -> Array:
        """A whole matrix, here: from files, so that it need not fit the memory of Spark's driver."""
        if not blocks.chain:
            return assemble(self.folder, blocks)
        written = self.compacted(blocks)
        try:
            return assemble(self.folder, written)
        finally:
            shutil.rmtree(self.folder / written.id, ignore_errors=True)

    def compacted(self, blocks: Blocks) -> Blocks:
        """The same value without a chain: the workers write their rows anew."""
        return self.evaluate(Matrix("M", *blocks.shape), {"M": blocks}, blocks.dtype)

    def plus(self, blocks: Blocks, left: Array, right: Array) -> Blocks:
        """The value after a change by factors; it reaches the workers with the next job."""
        return write_factors(self.folder, blocks, left, right)

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

    def remove_all_but(self, files: Collection[str]) -> None:
        """Remove the files of matrices that nothing names."""
        if not self.folder.exists():
            return
        kept = set(files)
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir():
                if not any(path.iterdir()):
                    path.rmdir()
            elif str(path.relative_to(self.folder)) not in kept:
                path.unlink(missing_ok=True)

    def sync(self, files: Collection[str]) -> None:
        """Wait until files are on disk: a manifest is about to name them."""
        for name in files:
            handle = os.open(self.folder / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
