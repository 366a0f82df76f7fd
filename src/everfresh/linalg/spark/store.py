"""Matrix views of a database on Spark, and their matrices in its log and manifests.

A manifest names the files of the blocks. A reader puts them together in its own process and follows the log
there: it writes nothing. Invariant: whatever the last manifest names is there until the next one is; a reader
that is late finds files missing, and starts from the newest manifest (`spark.ledger`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.plan import MatrixProgram
from everfresh.linalg.domain.snapshots import restore
from everfresh.linalg.domain.store import MatrixStore, ViewInfo, view_arguments
from everfresh.linalg.lang.nodes import Expr
from everfresh.linalg.lang.source import parse
from everfresh.linalg.run.drift import sample
from everfresh.linalg.run.evaluate import Evaluator
from everfresh.linalg.run.execute import evaluate_flat
from everfresh.linalg.run.pending import Held
from everfresh.linalg.run.updates import LowRankChange
from everfresh.linalg.run.view import MatrixView
from everfresh.linalg.spark.blocks import Array, Blocks, assemble, files_of
from everfresh.linalg.spark.cluster import Cluster
from everfresh.linalg.spark.held import SparkBackend, SparkHeld, Wanted, fetch

if TYPE_CHECKING:
    from everfresh.spark.host import Host

_SAME_PLACES = 64  # updates after which drift is looked for at other places
_BLOCKS = "#blocks:"


class SparkView(MatrixView):
    """A matrix view whose large matrices are with the workers."""

    def __init__(self, cluster: Cluster, program: Any, inputs: Mapping[str, Any], **how: Any) -> None:
        self.cluster = cluster
        super().__init__(program, inputs, **how)

    def make_backend(self, *_arrays: Any) -> Any:
        """NumPy here and there."""
        return SparkBackend()

    def hold(self, value: Any) -> Held:
        """A stored matrix: in blocks if it is large."""
        if isinstance(value, Blocks):
            return SparkHeld(value, self.backend, self.cluster)  # type: ignore[arg-type]
        if min(value.shape) >= self.options.distribute:
            return SparkHeld(self.cluster.scatter(value), self.backend, self.cluster)  # type: ignore[arg-type]
        return Held(value, self.backend)

    def evaluate_all(self, compiled: MatrixProgram, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The stored matrices from the inputs: statement by statement, each worker its rows."""
        env: dict[str, Any] = {}
        for name, value in inputs.items():
            held = self.hold(value)
            env[name] = held if isinstance(held, SparkHeld) else value
        for name, expr in compiled.flat.statements:
            env[name] = self.evaluate_one(expr, env)
        found = {name: env[name] for name in compiled.stored}
        return {n: v.blocks if isinstance(v, SparkHeld) else v for n, v in found.items()}

    def evaluate_one(self, expr: Expr, env: Mapping[str, Any]) -> Any:
        """A flat statement over stored matrices as they are."""
        distributed = any(isinstance(env.get(m), SparkHeld) for m in _names(expr))
        if distributed and min(expr.shape) >= self.options.distribute and self.cluster.can_evaluate(expr):
            known = {}
            for name in _names(expr):
                held = env[name]
                if isinstance(held, SparkHeld):
                    held.merge()
                    known[name] = held.blocks
                else:
                    known[name] = held.array() if isinstance(held, Held) else held
            return self.hold(self.cluster.evaluate(expr, known, self._dtype(env)))
        like = np.zeros((0, 0), self._dtype(env))
        value = np.array(Evaluator(env, self.backend, like, self.options.condition_limit).value(expr))
        held = self.hold(value)
        return held if isinstance(held, SparkHeld) else value

    def _dtype(self, env: Mapping[str, Any]) -> str:
        first = next(v for v in env.values() if isinstance(v, (Held, np.ndarray)))
        return str(first.base.dtype if isinstance(first, Held) else first.dtype)

    def changed_inputs(self, changes: Mapping[str, LowRankChange]) -> dict[str, Any]:
        """The inputs after changes; blocks are not gathered."""
        found: dict[str, Any] = {}
        for name in self.inputs:
            held, change = self.state[name], changes.get(name)
            if isinstance(held, SparkHeld):
                held.merge()
                blocks = held.blocks
                found[name] = (
                    blocks if change is None else self.cluster.plus(blocks, change.left, change.right)
                )
            else:
                found[name] = self.backend.copy(held.array())
                if change is not None:
                    self.backend.add_product(found[name], change.left, change.right)
        return found

    def verify(self) -> dict[str, float]:
        """The relative difference of every stored matrix from its re-evaluation in this process."""
        inputs = {name: self.state[name].array() for name in self.inputs}
        fresh = evaluate_flat(
            self.compiled.flat, inputs, self.compiled.stored, self.backend, self.options.condition_limit
        )
        found = {}
        for name, held in self.state.items():
            size = self.backend.norm(fresh[name])
            gap = self.backend.norm(held.array() - fresh[name])
            found[name] = gap / size if size else gap
        return found

    def places(self) -> int:
        """What decides where drift is looked for: the same places for some updates."""
        return self.version // _SAME_PLACES

    def checked(self, touched: Collection[str]) -> list[tuple[str, Expr]]:
        """All views that changed: what is compared is here already."""
        return [(name, expr) for name, expr in self.definitions.items() if name in touched]

    def _check(self, signs: list[Any], execution: Any) -> float:
        """The drift after an update; what it has to read of the blocks is read in one job."""
        wanted: Wanted = {}
        held = [h for h in self.state.values() if isinstance(h, SparkHeld)]
        if held and self.options.check:
            for one in held:
                one.wanted = wanted
            try:
                touched = {s.target for s in execution.plan.updates}
                rng = np.random.default_rng((self.options.seed, self.places()))
                for name, expr in self.checked(touched):
                    sample(name, expr, self.state, rng)
            finally:
                for one in held:
                    one.wanted = None
            if wanted:
                fetch(wanted, self.cluster)
        return super()._check(signs, execution)


def _names(expr: Expr) -> frozenset[str]:
    from everfresh.linalg.lang.trees import names

    return names(expr)


class SparkMatrixStore(MatrixStore):
    """The matrices of a database on Spark."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._named: set[str] = set()
        self.cluster = (
            None if host.read_only else Cluster(host.session, host.folder.root, host.folder.workers)
        )

    def _made(
        self, name: str, text: str, inputs: Mapping[str, Array], static: list[str], how: Mapping[str, Any]
    ) -> MatrixView:
        if self.cluster is None:
            return super()._made(name, text, inputs, static, how)
        return SparkView(self.cluster, parse(text), inputs, static=static, **view_arguments(how))

    # -- manifests ---------------------------------------------------------------------------------

    def _files(self) -> set[str]:
        """The files that the views need now."""
        held = [h for view in self.views.values() for h in view.state.values()]
        return set().union(*(h.blocks.files() for h in held if isinstance(h, SparkHeld)))

    def to_sections(self) -> dict[str, bytes]:
        """Everything, for a manifest: blocks by the names of their files."""
        sections = super().to_sections()
        if self.cluster is not None:
            files = self._files()
            if self._host.options.durable:
                self.cluster.files.settle(files)
            self.cluster.files.keep_only(files | self._named)
            self._named = files
        return sections

    def _kept(self, name: str) -> dict[str, Array]:
        view = self.views[name]
        kept = {n: h for n, h in view.state.items() if not isinstance(h, SparkHeld)}
        found = view.to_arrays(kept)
        for matrix, held in view.state.items():
            if isinstance(held, SparkHeld):
                held.merge()
                found[_BLOCKS + matrix] = np.array(json.dumps(asdict(held.blocks)))
        return found

    def load(self, sections: Mapping[str, Any]) -> None:
        """Take the state of a manifest; a writer removes what it does not name."""
        super().load(sections)
        if self.cluster is not None:
            self._named = self._files()
            self.cluster.files.keep_only(self._named)

    def _restored(
        self,
        name: str,
        info: ViewInfo,
        arrays: Mapping[str, Any],
        static: list[str],
        like: Array | None,
    ) -> MatrixView:
        blocks = {
            key.removeprefix(_BLOCKS): _blocks(json.loads(str(told)))
            for key, told in arrays.items()
            if key.startswith(_BLOCKS)
        }
        plain = {key: array for key, array in arrays.items() if not key.startswith(_BLOCKS)}
        if self.cluster is None:
            whole = {matrix: self._whole(name, matrix, one) for matrix, one in blocks.items()}
            return super()._restored(name, info, {**plain, **whole}, static, like)
        view = SparkView.__new__(SparkView)
        view.cluster = self.cluster
        arguments = view_arguments(info.how)
        kept = {key: arguments[key] for key in ("ranks", "options")}
        both: dict[str, Any] = {**plain, **blocks}
        restore(view, parse(info.text), both, None, static=static, **kept)
        return view

    def _whole(self, view: str, matrix: str, blocks: Blocks) -> Array:
        """A matrix in a reader, which a writer may take the files from."""
        try:
            return assemble(files_of(self._host.folder.root), blocks)
        except FileNotFoundError as error:
            raise EverfreshError(
                Code.DAMAGED,
                f"a file of the matrix '{matrix}' of the view '{view}' is missing: {error.filename or error}",
                hint="restore the folder from a backup",
            ) from error


def _blocks(told: Mapping[str, Any]) -> Blocks:
    return Blocks(**{**told, "chain": tuple(told["chain"])})
