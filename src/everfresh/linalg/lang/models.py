"""Iterative models (section 6.2.3, Table 6.1): powers, sums of powers and T := A T + B as plain statements.

All three follow one law: the value after a + b steps comes from the value after b steps by `P_a` and `S_a`,

    P_(a+b) = P_a P_b,    S_(a+b) = P_a S_b + S_a,    T_(a+b) = P_a T_b + S_a B,

and a model is a list of such steps `(i, a, b)`, i = a + b. Where B is narrow, S_a B follows the law of S on
its own, so that no large sum is kept. The thesis takes k, s and k / s to be powers of two; here any k and s
are allowed, the rest being made of the powers of two that are there. Invariant: `expand` leaves no
iterative node.

>>> steps(16, "exponential")
[(2, 1, 1), (4, 2, 2), (8, 4, 4), (16, 8, 8)]
>>> steps(12, "skip-4")
[(2, 1, 1), (4, 2, 2), (8, 4, 4), (12, 4, 8)]
"""

from __future__ import annotations

from collections.abc import Callable

from everfresh.linalg.lang.nodes import (
    ITERATIVE,
    Add,
    Expr,
    Eye,
    Iterate,
    MatMul,
    Matrix,
    Power,
    PowerSum,
)
from everfresh.linalg.lang.source import Source
from everfresh.linalg.lang.trees import distinct

Step = tuple[int, int, int]


def steps(k: int, model: str) -> list[Step]:
    """The steps that lead from 1 to `k`; every `a` is 1, a power of two, or the skip size."""
    if model == "linear":
        return [(i, 1, i - 1) for i in range(2, k + 1)]
    skip = k if model == "exponential" else min(int(model.removeprefix("skip-")), k)
    found, at = _doubling(skip)
    while at + skip <= k:
        found.append((at + skip, skip, at))
        at += skip
    for bit in reversed(range(k.bit_length())):
        size = 1 << bit
        if (k - at) & size:
            found.append((at + size, size, at))
            at += size
    return found


def _doubling(k: int) -> tuple[list[Step], int]:
    """The steps to `k` by squaring, the largest power of two first and then the rest of its bits."""
    found, at = [], 1
    while at * 2 <= k:
        found.append((at * 2, at, at))
        at *= 2
    for bit in reversed(range(k.bit_length() - 1)):
        size = 1 << bit
        if k & size:
            found.append((at + size, size, at))
            at += size
    return found, at


def models(k: int) -> list[str]:
    """The models worth comparing for `k` steps, those with the same steps once.

    >>> models(16)
    ['linear', 'exponential', 'skip-2', 'skip-4']
    """
    sizes = [1 << bit for bit in range(1, k.bit_length()) if 1 << bit < k]
    found: dict[tuple[Step, ...], str] = {}
    for model in ("linear", "exponential", *(f"skip-{s}" for s in sizes)):
        found.setdefault(tuple(steps(k, model)), model)
    return list(found.values())


class _Expander:
    """Statements so far, and how to add one."""

    def __init__(self, source: Source, model: str) -> None:
        self.model = model
        self.statements: list[tuple[str, Expr]] = []
        self.taken = {m.name for m in source.inputs} | {name for name, _ in source.statements}
        self.named: dict[Expr, Matrix] = {}
        self.done: dict[Expr, Expr] = {}

    def name(self, hint: str, expr: Expr) -> Matrix:
        """A matrix that stands for `expr`, by a new statement unless there is one."""
        if isinstance(expr, Matrix):
            return expr
        if expr not in self.named:
            name = hint
            while name in self.taken:
                name += "_"
            self.taken.add(name)
            self.statements.append((name, expr))
            self.named[expr] = Matrix(name, *expr.shape)
        return self.named[expr]

    def visit(self, expr: Expr) -> Expr:
        """The expression without iterative nodes."""
        if expr not in self.done:
            inner = expr.map_children(self.visit)
            self.done[expr] = self.expand(inner) if isinstance(inner, ITERATIVE) else inner
        return self.done[expr]

    def expand(self, expr: Power | PowerSum | Iterate) -> Expr:
        """The last expression of an iteration, the ones before it being statements."""
        model = self.model if expr.model == "auto" else expr.model
        A = self.name("M", expr.body)
        match expr:
            case Power(_, k):
                return self.power(A, k, model)
            case PowerSum(_, k):
                return self.power_sum(A, k, model)
            case Iterate(_, start, offset, k):
                B = None if offset is None else self.name("B", offset)
                return self.iterate(A, self.name("T0", start), B, k, model)

    def _run(
        self, plan: list[Step], first: Expr, step: Callable[[int, Matrix], Expr], hint: str, k: int
    ) -> Expr:
        """Run a plan: `step(a, value at b)` is the value at a + b; all but the value at `k` are named."""
        values: dict[int, Expr] = {1: first}
        for i, a, b in plan:
            values[i] = step(a, self.name(f"{hint}{b}", values[b]))
        return values[k]

    def power(self, A: Matrix, k: int, model: str) -> Expr:
        """A^k."""
        powers: dict[int, Expr] = {1: A}
        for i, a, b in steps(k, model):
            powers[i] = MatMul(self.name(f"{A.name}{a}", powers[a]), self.name(f"{A.name}{b}", powers[b]))
        return powers[k]

    def power_sum(self, A: Matrix, k: int, model: str) -> Expr:
        """I + ... + A^(k-1)."""
        sums: dict[int, Expr] = {1: Eye(A.rows)}
        for i, a, b in steps(k, model):
            held_a, held_b = (Eye(A.rows) if x == 1 else self.name(f"S{x}", sums[x]) for x in (a, b))
            sums[i] = Add((MatMul(self._power(A, a), held_b), held_a))
        return sums[k]

    def iterate(self, A: Matrix, T0: Matrix, B: Matrix | None, k: int, model: str) -> Expr:
        """T_k of T := A T + B."""
        first: Expr = MatMul(A, T0)

        def step(a: int, value: Matrix) -> Expr:
            moved = MatMul(self._power(A, a), value)
            return moved if B is None else Add((moved, self._offset(A, a, B)))

        return self._run(steps(k, model), first if B is None else Add((first, B)), step, "T", k)

    def _power(self, A: Matrix, a: int) -> Matrix:
        return A if a == 1 else self.name(f"{A.name}{a}", self.power(A, a, "exponential"))

    def _offset(self, A: Matrix, a: int, B: Matrix) -> Expr:
        """S_a B: of the sum S_a, or, where B is narrow, by the same steps on B itself."""
        if a == 1:
            return B
        if B.columns >= A.rows:
            total = self.name(f"S{a}", self.power_sum(A, a, "exponential"))
            return self.name(f"{B.name}{a}", MatMul(total, B))
        sums: dict[int, Expr] = {1: B}
        for i, x, y in steps(a, "exponential"):
            at_x, at_y = (self.name(f"{B.name}{z}", sums[z]) for z in (x, y))
            sums[i] = Add((MatMul(self._power(A, x), at_y), at_x))
        return self.name(f"{B.name}{a}", sums[a])


def expand(source: Source, model: str = "exponential") -> Source:
    """The program without iterative nodes; those that leave the model open use `model`."""
    expander = _Expander(source, model)
    for name, expr in source.statements:
        expander.statements.append((name, expander.visit(expr)))
    return Source(source.inputs, tuple(expander.statements), source.outputs, source.static)


def open_steps(source: Source) -> int:
    """The largest k of an iteration whose model is left open; 0 if there is none."""
    nodes = distinct(*(expr for _, expr in source.statements))
    return max((n.k for n in nodes if isinstance(n, ITERATIVE) and n.model == "auto"), default=0)
