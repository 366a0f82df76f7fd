"""Analytics that are ready to use (section 6.4): each a matrix view with the reading of scikit-learn.

`fit` makes the view, the updating methods keep it fresh, and attributes with a trailing underscore are the
results as they are now. Everything else (`explain`, `verify`, `drift`, snapshots) is on `.view`.

>>> import numpy as np
>>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> model = LinearRegression().fit(X, np.array([1.0, 2.0, 3.0]))
>>> model.append([[2.0, 1.0]], [4.0])
>>> model.coef_.round(9)
array([1., 2.])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.kernels.backend import Array, backend_of
from everfresh.linalg.lang.nodes import Eye, Inverse, Iterate, Matrix, Power, PowerSum, Scale, Shape, Zeros
from everfresh.linalg.lang.source import Source
from everfresh.linalg.lang.trees import substitute
from everfresh.linalg.run.setup import ViewOptions
from everfresh.linalg.run.updates import (
    AppendRows,
    ColumnUpdate,
    DeleteRows,
    EntryUpdate,
    LowRank,
    RowUpdate,
    Update,
)
from everfresh.linalg.run.view import MatrixView

_EXACT = 2.0**52  # whole numbers below this are exact in a double, and so are their sums


class _Analytic:
    """A view and how it is made."""

    view: MatrixView
    parameters: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        strategy: str = "auto",
        model: str = "auto",
        rank: int = 1,
        options: ViewOptions | None = None,
    ) -> None:
        self.strategy = strategy
        self.model = model
        self.rank = rank
        self.options = options

    def bind(self, shapes: Mapping[str, Shape], /) -> Source:
        """The program over matrices of these shapes, for a view of a database."""
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"{type(self).__name__} computes its inputs from what it is given, and is no view of a database",
            hint="write its program, or use fit",
        )

    def _make(self, source: Source, inputs: Mapping[str, Any]) -> None:
        self.view = MatrixView(
            source,
            inputs,
            strategy=self.strategy,
            model=self.model,
            ranks=self.rank,
            options=self.options,
        )

    def explain(self) -> str:
        """The triggers, their cost and the alternatives."""
        return self.view.explain()


class _Regression(_Analytic):
    """What regressions share: rows of X with responses Y, an optional intercept, coefficients as a view."""

    parameters = ("X", "Y")

    def __init__(self, *, fit_intercept: bool = False, **how: Any) -> None:
        super().__init__(**how)
        self.fit_intercept = fit_intercept
        self._flat = True

    def _source(self, X: Shape, Y: Shape) -> Source:
        raise NotImplementedError

    def bind(self, shapes: Mapping[str, Shape], /) -> Source:
        """The program over matrices X and Y of a database."""
        if missing := [name for name in self.parameters if name not in shapes]:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no matrix '{missing[0]}'", hint="a regression is over X and Y"
            )
        if self.fit_intercept:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "a regression over matrices of a database has no intercept of its own",
                hint="add a column of ones to X",
            )
        return self._source(shapes["X"], shapes["Y"])

    def fit(self, X: Any, y: Any) -> Self:
        """Take the data; one or several responses per row."""
        rows, responses = self._rows(X), self._responses(y, first=True)
        shapes = tuple(rows.shape), tuple(responses.shape)
        self._make(self._source(*shapes), {"X": rows, "Y": responses})
        return self

    def _rows(self, X: Any) -> Array:
        backend = backend_of(X)
        rows = backend.asarray(X)
        rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
        if not self.fit_intercept:
            return rows
        ones = backend.asarray(np.ones((rows.shape[0], 1)), rows)
        return backend.copy(backend.concat([rows, ones], 1))

    def _responses(self, y: Any, first: bool = False) -> Array:
        responses = backend_of(y).asarray(y)
        if first:
            self._flat = responses.ndim == 1
        width = 1 if self._flat else responses.shape[-1]
        return responses.reshape(-1, width)

    def update_row(self, i: int, x: Any, y: Any) -> None:
        """Row `i` becomes `x`, its response `y`."""
        self.view.update(
            X=RowUpdate(i, self._rows(x)[0]), Y=RowUpdate(i, self._responses(np.atleast_1d(y))[0])
        )

    def append(self, X: Any, y: Any) -> None:
        """New rows."""
        self.view.update(X=AppendRows(self._rows(X)), Y=AppendRows(self._responses(y)))

    def delete(self, indices: Sequence[int]) -> None:
        """The rows with these numbers vanish."""
        self.view.update(X=DeleteRows(indices), Y=DeleteRows(indices))

    @property
    def coef_(self) -> Array:
        """The coefficients: one per feature, or a row of them per response."""
        beta = self.view.read("beta")
        features = beta[: beta.shape[0] - 1] if self.fit_intercept else beta
        return features[:, 0] if self._flat else features.T

    @property
    def intercept_(self) -> Any:
        """The constant term."""
        if not self.fit_intercept:
            return 0.0
        last = self.view.read("beta")[-1]
        return last[0] if self._flat else last

    def predict(self, X: Any) -> Array:
        """The responses that the model gives for rows."""
        result = self._rows(X) @ self.view.read("beta")
        return result[:, 0] if self._flat else result


class LinearRegression(_Regression):
    """Ordinary least squares: inv(X' X) X' Y (section 6.4.1)."""

    def _source(self, X: Shape, Y: Shape) -> Source:
        x, y = Matrix("X", *X), Matrix("Y", *Y)
        return Source((x, y), (("beta", Inverse(x.T @ x) @ (x.T @ y)),), ("beta",))


class Ridge(_Regression):
    """Least squares with a penalty: inv(X' X + alpha I) X' Y."""

    def __init__(self, alpha: float = 1.0, **how: Any) -> None:
        super().__init__(**how)
        if not alpha > 0.0:
            raise EverfreshError(Code.ARGUMENT, f"alpha must be positive, not {alpha}")
        self.alpha = float(alpha)

    def _source(self, X: Shape, Y: Shape) -> Source:
        x, y = Matrix("X", *X), Matrix("Y", *Y)
        inverse = Inverse(x.T @ x + self.alpha * Eye(X[1]))
        return Source((x, y), (("beta", inverse @ (x.T @ y)),), ("beta",))


class GradientDescent(_Regression):
    """Least squares by batch gradient descent from zero: T := (I - rate X' X) T + rate X' Y."""

    def __init__(self, rate: float, steps: int = 16, **how: Any) -> None:
        super().__init__(**how)
        self.rate = float(rate)
        self.steps = steps

    def _source(self, X: Shape, Y: Shape) -> Source:
        x, y, start = Matrix("X", *X), Matrix("Y", *Y), Matrix("T0", X[1], Y[1])
        step = Eye(X[1]) - self.rate * (x.T @ x)
        beta = Iterate(step, start, Scale(self.rate, x.T @ y), self.steps)
        return Source((x, y, start), (("beta", beta),), ("beta",), frozenset({"T0"}))

    def _make(self, source: Source, inputs: Mapping[str, Any]) -> None:
        backend = backend_of(*inputs.values())
        like = backend.asarray(inputs["X"])
        zeros = backend.zeros(*source.shape("T0"), like)
        super()._make(source, {**inputs, "T0": zeros})

    def bind(self, shapes: Mapping[str, Shape], /) -> Source:
        """The program over matrices X and Y of a database: the start is a constant of it."""
        source = super().bind(shapes)
        zeros = substitute(source.statements[0][1], {"T0": Zeros(*source.shape("T0"))})
        return Source(source.inputs[:2], (("beta", zeros),), ("beta",))


class PageRank(_Analytic):
    """The ranks of the nodes of a graph after `steps` steps of the power method.

    `links[i, j]` is the weight of the link from node i to node j. A node without links spreads its rank
    evenly.
    """

    def __init__(self, damping: float = 0.85, steps: int = 16, **how: Any) -> None:
        super().__init__(**how)
        self.damping = damping
        self.steps = steps

    def fit(self, links: Any) -> Self:
        """Take the graph."""
        backend = backend_of(links)
        self._links = backend.copy(backend.asarray(links))
        n = self._links.shape[0]
        moves = backend.copy(backend.concat([self._column(self._links[i]) for i in range(n)], 1))
        start = backend.asarray(np.full((n, 1), 1.0 / n), moves)
        m, t, b = Matrix("M", n, n), Matrix("T0", n, 1), Matrix("B", n, 1)
        source = Source(
            (m, t, b), (("rank", Iterate(m, t, b, self.steps)),), ("rank",), frozenset({"T0", "B"})
        )
        self._make(source, {"M": moves, "T0": start, "B": start * (1.0 - self.damping)})
        return self

    def _column(self, row: Array) -> Array:
        """Where the rank of a node goes, damped."""
        total = float(row.sum())
        size = row.shape[0]
        if total == 0.0:
            return (row * 0.0 + self.damping / size).reshape(-1, 1)
        return (row * (self.damping / total)).reshape(-1, 1)

    def set_links(self, node: int, links: Any) -> None:
        """The links of a node become these."""
        self.update({node: links})

    def update(self, changed: Mapping[int, Any]) -> None:
        """The links of several nodes change at once."""
        like = self._links
        rows = {node: backend_of(like).asarray(row, like).reshape(-1) for node, row in changed.items()}
        self.view.update(M=[ColumnUpdate(node, self._column(row)) for node, row in rows.items()])
        for node, row in rows.items():
            self._links[node] = row

    @property
    def scores_(self) -> Array:
        """The rank of each node."""
        return self.view.read("rank")[:, 0]


class MatrixPower(_Analytic):
    """A to the k."""

    parameters = ("A",)

    def __init__(self, k: int, **how: Any) -> None:
        super().__init__(**how)
        self.k = k

    def bind(self, shapes: Mapping[str, Shape], /) -> Source:
        """The program over a matrix A."""
        a = Matrix("A", *shapes["A"])
        return Source((a,), (("P", Power(a, self.k)),), ("P",))

    def fit(self, A: Any) -> Self:
        """Take the matrix."""
        self._make(self.bind({"A": tuple(A.shape)}), {"A": A})
        return self

    def update(self, change: Update | Iterable[Update]) -> None:
        """Change the matrix."""
        self.view.update(A=change)

    def add(self, U: Any, V: Any) -> None:
        """The matrix changes by U V'."""
        self.view.update(A=LowRank(U, V))

    @property
    def value_(self) -> Array:
        """The power."""
        return self.view.read("P")


class Reachability(_Analytic):
    """Which nodes of a graph reach which in at most `k` steps: where the number of walks is not zero.

    Walks are whole numbers, which doubles add and multiply exactly below 2^53. While there are more, the
    answer is computed from scratch; when there are fewer again, the view is re-evaluated and exact from
    then on.
    """

    def __init__(self, k: int, **how: Any) -> None:
        super().__init__(**how)
        self.k = k

    def fit(self, links: Any) -> Self:
        """Take the graph: `links[i, j]` is whether there is a link from i to j."""
        backend = backend_of(links)
        links = backend.asarray(links)
        whole = backend.asarray(backend.to_numpy(links) != 0, links)
        a = Matrix("A", *whole.shape)
        self._make(Source((a,), (("walks", PowerSum(a, self.k + 1)),), ("walks",)), {"A": whole})
        self._exact = self._few()
        return self

    def _few(self) -> bool:
        """Whether there are few enough walks to count them exactly."""
        held = self.view.state["walks"]
        ones = self.view.backend.asarray(np.ones((held.shape[1], 1)), held.base)
        return float(abs(held.times(ones)).max()) < _EXACT

    def _set(self, i: int, j: int, value: float) -> None:
        self.view.update(A=EntryUpdate(i, j, value))
        few = self._few()
        if few and not self._exact:
            self.view.reevaluate()
        self._exact = few

    def link(self, i: int, j: int) -> None:
        """Add the link from i to j."""
        self._set(i, j, 1.0)

    def unlink(self, i: int, j: int) -> None:
        """Remove the link from i to j."""
        self._set(i, j, 0.0)

    @property
    def walks_(self) -> Array:
        """The number of walks of at most k steps."""
        return self.view.read("walks")

    @property
    def reachable_(self) -> Array:
        """Whether there is a way, for each pair of nodes."""
        if self._exact:
            return self.walks_ > 0.5
        like = self.view.read("A")
        step = abs(like) > 0.5
        backend = self.view.backend
        once = backend.asarray(step, like) + backend.eye(like.shape[0], like)
        reached = backend.eye(like.shape[0], like)
        for _ in range(self.k):
            reached = backend.asarray(reached @ once > 0.5, like)
        return reached > 0.5
