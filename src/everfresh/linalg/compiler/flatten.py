"""Flattening: every statement becomes `inv(a)`, a stack, or a sum of terms `a`, `a b` over named matrices.

Deltas of flat statements have no nested products, so their factored form stays small. Chains of products
are put into the order with the fewest flops (unless a part of the chain is used elsewhere), equal
subexpressions get one name, copies vanish, and the matrices that are symmetric by construction are found.
Invariant: the value of every output stays the same.

>>> from everfresh.linalg.lang.source import parse
>>> print(flatten(parse("b := inv(X' X) X' Y;", X=(9, 3), Y=(9, 1))))
M1 := X' X;
M2 := inv(M1);
M3 := X' Y;
b := M2 M3;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache

from everfresh.linalg.compiler.simplify import simplify
from everfresh.linalg.lang.nodes import (
    Add,
    Expr,
    Eye,
    Inverse,
    MatMul,
    Matrix,
    Scale,
    Stack,
    Transpose,
    Zeros,
)
from everfresh.linalg.lang.source import Source
from everfresh.linalg.lang.trees import distinct, names, substitute


@dataclass(frozen=True)
class Flat:
    """A flat program: statements in order, which of its matrices are symmetric, and which can change."""

    inputs: tuple[Matrix, ...]
    statements: tuple[tuple[str, Expr], ...]
    outputs: tuple[str, ...]
    symmetric: frozenset[str]
    changing: frozenset[str]

    @property
    def source(self) -> Source:
        """The flat program as a program: `as_flat` makes this one of it."""
        static = frozenset(m.name for m in self.inputs if m.name not in self.changing)
        return Source(self.inputs, self.statements, self.outputs, static)

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """All matrices by name."""
        return {m.name: m for m in self.inputs} | {n: Matrix(n, *e.shape) for n, e in self.statements}

    def __str__(self) -> str:
        return "\n".join(f"{name} := {expr};" for name, expr in self.statements)


class _Flattener:
    def __init__(self, source: Source) -> None:
        self.taken = {m.name for m in source.inputs} | {name for name, _ in source.statements}
        self.values: dict[str, Expr] = {}  # copies: what a name stands for
        self.known: dict[Expr, Expr] = {}  # flat expression -> its name
        self.statements: list[tuple[str, Expr]] = []
        self.symmetric: set[str] = set()

    def statement(self, name: str, expr: Expr, output: bool) -> None:
        """Flatten one statement of the source."""
        expr = simplify(substitute(expr, self.values), self.symmetric)
        flat = self.flat(ordered(expr))
        copy = self.known.get(flat) or (flat if is_atom(flat) else None)
        if copy is not None and not output:
            self.values[name] = copy
        else:
            self.emit(name, flat if copy is None else copy)

    def emit(self, name: str, flat: Expr) -> Matrix:
        """Add a flat statement."""
        matrix = Matrix(name, *flat.shape)
        self.statements.append((name, flat))
        self.known.setdefault(flat, matrix)
        if is_symmetric(flat, self.symmetric):
            self.symmetric.add(name)
        elif not is_atom(flat):
            self.known.setdefault(simplify(Transpose(flat), self.symmetric), matrix.T)
        return matrix

    def flat(self, expr: Expr) -> Expr:
        """A flat expression of the same value."""
        match expr:
            case Inverse(body):
                return Inverse(self.atom(body))
            case Stack(parts, axis):
                return Stack(tuple(self.atom(p) for p in parts), axis)
            case Add(terms):
                return simplify(Add(tuple(self.term(t) for t in terms)), self.symmetric)
            case _:
                return self.term(expr)

    def term(self, expr: Expr) -> Expr:
        """One term of a sum."""
        match expr:
            case Scale(factor, body):
                return Scale(factor, self.term(body))
            case MatMul(left, right):
                return MatMul(self.atom(left), self.atom(right))
            case Eye() | Zeros():
                return expr
            case Inverse() | Stack():
                return self.atom(expr)
            case _:
                return expr if is_atom(expr) or not expr.children else self.atom(expr)

    def atom(self, expr: Expr) -> Expr:
        """A named matrix or its transpose, of the same value."""
        if is_atom(expr):
            return expr
        flat = self.flat(expr)
        if is_atom(flat):
            return flat
        if flat in self.known:
            return self.known[flat]
        number = 1
        while (name := f"M{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return self.emit(name, flat)


def is_atom(expr: Expr) -> bool:
    """Whether it is a named matrix or the transpose of one."""
    return isinstance(expr, Matrix) or (isinstance(expr, Transpose) and isinstance(expr.body, Matrix))


def ordered(expr: Expr, keep_shared: bool = True) -> Expr:
    """The expression with chains of products in their cheapest order.

    A part of a chain that occurs elsewhere stays as it is, unless `keep_shared` is false.
    """
    uses = Counter(child for node in distinct(expr) for child in node.children)
    done: dict[Expr, Expr] = {}

    def leaves(node: Expr) -> list[Expr]:
        if isinstance(node, MatMul) and (uses[node] <= 1 or not keep_shared):
            return leaves(node.left) + leaves(node.right)
        return [visit(node)]

    def visit(node: Expr) -> Expr:
        if node not in done:
            if isinstance(node, MatMul):
                chain = leaves(node.left) + leaves(node.right)
                own = node.map_children(visit)
                best = cheapest_chain(tuple(chain))
                done[node] = best if flops(best) < flops(own) else own
            else:
                done[node] = node.map_children(visit)
        return done[node]

    return visit(expr)


def flops(expr: Expr) -> int:
    """The flops of a chain of products, one multiply-add counted as two."""
    if not isinstance(expr, MatMul):
        return 0
    return flops(expr.left) + flops(expr.right) + 2 * expr.left.rows * expr.left.columns * expr.right.columns


@lru_cache(maxsize=4096)
def cheapest_chain(chain: tuple[Expr, ...]) -> Expr:
    """The product of a chain in the order with the fewest flops; of equals, grouped to the left."""
    best: dict[tuple[int, int], tuple[int, Expr]] = {(i, i): (0, e) for i, e in enumerate(chain)}
    for width in range(1, len(chain)):
        for i in range(len(chain) - width):
            j = i + width
            options = []
            for cut in range(j - 1, i - 1, -1):
                (a, left), (b, right) = best[i, cut], best[cut + 1, j]
                options.append((a + b + 2 * left.rows * left.columns * right.columns, MatMul(left, right)))
            best[i, j] = min(options, key=lambda option: option[0])
    return best[0, len(chain) - 1][1]


def _same(a: Expr, b: Expr) -> bool:
    """Equal up to the order of a sum's terms."""
    if isinstance(a, Add) and isinstance(b, Add):
        return Counter(a.terms) == Counter(b.terms)
    return a == b


def flatten(source: Source) -> Flat:
    """The flat form of a program without iterative nodes."""
    flattener = _Flattener(source)
    for name, expr in source.statements:
        flattener.statement(name, expr, name in source.outputs)
    statements = _live(flattener.statements, source.outputs)
    return as_flat(Source(source.inputs, tuple(statements), source.outputs, source.static))


def as_flat(source: Source) -> Flat:
    """A program that is flat already, with what can be known of its matrices."""
    symmetric, changing = set[str](), set(source.dynamic)
    for name, expr in source.statements:
        if is_symmetric(expr, symmetric):
            symmetric.add(name)
        if names(expr) & changing:
            changing.add(name)
    return Flat(source.inputs, source.statements, source.outputs, frozenset(symmetric), frozenset(changing))


def is_symmetric(flat: Expr, symmetric: Collection[str]) -> bool:
    """Whether a flat expression is its own transpose, given matrices that are."""
    return flat.rows == flat.columns and _same(flat, simplify(Transpose(flat), symmetric))


def _live(statements: list[tuple[str, Expr]], outputs: tuple[str, ...]) -> list[tuple[str, Expr]]:
    """The statements that the outputs need."""
    wanted, kept = set(outputs), []
    for name, expr in reversed(statements):
        if name in wanted:
            kept.append((name, expr))
            wanted |= names(expr)
    return kept[::-1]
