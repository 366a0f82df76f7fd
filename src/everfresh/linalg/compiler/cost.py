"""The cost of statements: flops as a polynomial in the sizes (Table 6.2), bytes, and an estimate of time.

A product of m x k by k x n costs 2 m k n flops, an inverse 2 n^3, and everything at least the bytes that it
reads and writes. A `Machine` turns them into seconds: the larger of flops over rate and bytes over
bandwidth, and something per operation. With pending factors an update costs its share of a merge: the
flops, and the bytes once per `interval` updates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from everfresh.linalg.compiler.product_schedule import Assign, Multiply, schedule
from everfresh.linalg.lang.nodes import Add, Expr, Inverse, MatMul, Matrix, Scale, Shape, Stack
from everfresh.linalg.lang.trees import distinct
from everfresh.program.ir import Statement

WORD = 8  # bytes of a double
INTERVAL = 24  # updates between two merges, on average
CHECK = 8  # operations that it takes to look for drift in an updated view
THIN = 256  # a matrix with a side no longer than this has no pending factors: it is updated at once


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine does per second; the figures are those of one core of a server, `measure` finds others.

    A product takes the time to read its operands and the time to compute (they do not overlap in BLAS for
    thin operands). `packed` is the bandwidth of a product with several columns, which copies its operands,
    `stream` that of everything else; what fits the cache is read faster by `in_cache`.
    """

    name: str = "cpu"
    flops: float = 50e9
    inverse: float = 25e9
    packed: float = 12e9
    stream: float = 20e9
    cache: float = 24e6
    in_cache: float = 2.0
    overhead: float = 10e-6
    one_pass: int = 16
    """Columns up to which a matrix is read once to be multiplied in both directions; 0 if it never is.

    For half as many in one direction it is not copied."""

    def seconds(self, flops: float, moved: float, *, packed: bool = False, inverse: bool = False) -> float:
        """The time of one operation."""
        speed = (self.packed if packed else self.stream) * (self.in_cache if moved <= self.cache else 1.0)
        return flops / (self.inverse if inverse else self.flops) + moved / speed + self.overhead


CPU = Machine()
CUDA = Machine(
    "cuda",
    flops=55e12,
    inverse=6e12,
    packed=3.6e12,
    stream=4.2e12,
    cache=40e6,
    in_cache=1.5,
    overhead=8e-6,
    one_pass=8,
)

Monomial = tuple[tuple[str, int], ...]  # ((letter, exponent), ...)


@dataclass(slots=True)
class Cost:
    """Flops, bytes and seconds, and the flops as a polynomial in the sizes."""

    flops: float = 0.0
    moved: float = 0.0
    seconds: float = 0.0
    terms: Counter[Monomial] = field(default_factory=Counter)

    def plus(self, other: Cost) -> None:
        """Add another cost."""
        self.flops += other.flops
        self.moved += other.moved
        self.seconds += other.seconds
        self.terms.update(other.terms)

    def polynomial(self) -> str:
        """The flops as a polynomial, highest degree first.

        >>> Cost(terms=Counter({(("n", 2),): 6, (("n", 1),): 4})).polynomial()
        '6 n^2 + 4 n'
        """
        ordered = sorted(self.terms.items(), key=lambda item: (-_degree(item[0]), item[0]))
        return " + ".join(f"{count:,} {_shown(m)}".strip() for m, count in ordered if count) or "0"

    def big_o(self) -> str:
        """The terms that no other one dominates.

        >>> Cost(terms=Counter({(("n", 2),): 6, (("n", 1),): 4, (("m", 1), ("n", 1)): 2})).big_o()
        'O(m n + n^2)'
        """
        kept = [m for m in self.terms if not any(m != o and _divides(m, o) for o in self.terms)]
        return "O(" + (" + ".join(sorted(_shown(m) or "1" for m in kept)) or "1") + ")"


def _degree(monomial: Monomial) -> int:
    return sum(power for _, power in monomial)


def _divides(small: Monomial, large: Monomial) -> bool:
    powers = dict(large)
    return all(powers.get(letter, 0) >= power for letter, power in small)


def _shown(monomial: Monomial) -> str:
    return " ".join(letter if power == 1 else f"{letter}^{power}" for letter, power in monomial)


def letters(shapes: Iterable[Shape]) -> dict[int, str]:
    """A letter for each size of the inputs that is not small: n for the most frequent one.

    >>> letters([(4000, 4000), (4000, 100), (4000, 1)])
    {4000: 'n', 100: 'm'}
    """
    counts = Counter(size for shape in shapes for size in shape if size > 16)
    ordered = sorted(counts, key=lambda size: (-counts[size], -size))
    return dict(zip(ordered, "nmpqabcdefgh", strict=False))


class CostModel:
    """Costs of expressions and statements on one machine."""

    def __init__(
        self, machine: Machine = CPU, sizes: Mapping[int, str] | None = None, interval: int = INTERVAL
    ) -> None:
        self.machine = machine
        self.sizes = dict(sizes or {})
        self.interval = interval

    def _cost(
        self,
        dims: tuple[int, ...],
        moved: float,
        factor: float = 2.0,
        *,
        packed: bool = False,
        inverse: bool = False,
    ) -> Cost:
        flops = factor
        count, powers = factor, Counter[str]()
        for size in dims:
            flops *= size
            if size in self.sizes:
                powers[self.sizes[size]] += 1
            else:
                count *= size
        monomial = tuple(sorted(powers.items()))
        return Cost(
            flops,
            moved,
            self.machine.seconds(flops, moved, packed=packed, inverse=inverse),
            Counter({monomial: round(count)}),
        )

    def node(self, expr: Expr) -> Cost | None:
        """The cost of one operation, its operands being there; None if it is free."""
        rows, columns = expr.shape
        size = rows * columns
        match expr:
            case MatMul(left, right):
                moved = WORD * (left.rows * left.columns + right.rows * right.columns + size)
                dims = (left.rows, left.columns, right.columns)
                return self._cost(dims, moved, packed=min(dims) > 1)
            case Inverse():
                return self._cost((rows, rows, rows), WORD * 4 * size, inverse=True)
            case Add(terms):
                return self._cost((rows, columns), WORD * size * (len(terms) + 1), len(terms) - 1)
            case Scale() | Stack():
                return self._cost((rows, columns), WORD * 2 * size, 1.0)
        return None

    def expressions(self, exprs: Iterable[Expr]) -> Cost:
        """The cost of evaluating expressions, common parts once."""
        total = Cost()
        for part in distinct(*exprs):
            cost = self.node(part)
            if cost is not None:
                total.plus(cost)
        return total

    def multiply(self, step: Multiply, shape: Shape, pending: int = 0) -> Cost:
        """The cost of products with one stored matrix, through `pending` columns of factors."""
        rows, columns = shape
        widths = [sum(o.columns for _, o, turned in step.products if turned == way) for way in (False, True)]
        total = Cost()
        for width in widths:
            if width:
                total.plus(self._cost((rows, columns, width), 0.0))
        moved, limit = WORD * rows * columns, self.machine.one_pass
        if all(widths) and max(widths) <= limit:
            passes = [False]
        else:
            passes = [width > (limit // 2 or 1) for width in widths if width]
        for packed in passes:
            total.moved += moved
            total.seconds += self.machine.seconds(0.0, moved, packed=packed) - self.machine.overhead
        if pending:
            both = rows + columns
            total.seconds += self.machine.seconds(2.0 * both * pending * sum(widths), WORD * both * pending)
        return total

    def update(self, statement: Statement[Expr], pending: bool = True) -> Cost:
        """The cost of `target += expr` once the factors are known."""
        expr = statement.expr
        rows, columns = expr.shape
        size = rows * columns
        if isinstance(expr, MatMul):  # factored
            rank = expr.left.columns
            share = self.interval if pending and min(rows, columns) > THIN else 1
            cost = self._cost((rows, columns, rank), 0.0)
            per_merge = self.machine.seconds(cost.flops * share, 2 * WORD * size)
            cost.seconds = per_merge / share + self.machine.overhead
            cost.moved = 2 * WORD * size / share + 2 * WORD * (rows + columns) * rank
            return cost
        return self._cost((rows, columns), 3 * WORD * size, 1.0)

    def trigger(
        self, statements: Iterable[Statement[Expr]], matrices: Mapping[str, Matrix], pending: bool = True
    ) -> Cost:
        """The cost of a trigger over stored `matrices`."""
        listed = list(statements)
        total = self.expressions(s.expr for s in listed if s.strategy == "reevaluate")
        waiting = dict[str, int]()
        for statement in listed:
            if statement.op == "+=":
                total.plus(self.update(statement, pending))
                total.seconds += CHECK * self.machine.overhead
                if pending and isinstance(statement.expr, MatMul) and min(statement.expr.shape) > THIN:
                    waiting[statement.target] = statement.expr.left.columns * self.interval // 2
        block = [(s.target, s.expr) for s in listed if s.strategy == "factor"]
        for step in schedule(block, matrices):
            if isinstance(step, Assign):
                total.plus(self.expressions([step.expr]))
            elif isinstance(step, Multiply):
                shape = matrices[step.matrix].shape
                total.plus(self.multiply(step, shape, waiting.get(step.matrix, 0)))
        return total
