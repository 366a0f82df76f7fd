"""Scheduling a trigger: products with one stored matrix are taken together, so that it is read rarely.

Reading the stored matrices is what an update costs. `schedule` takes every product of a stored matrix with
something thin out of the trigger's expressions, and runs those with the same matrix in one `Multiply` as
soon as all their operands are there; columns of a product that another one has are taken from it (`reuse`).
Invariant: the steps compute the same values as the block, in an order
in which everything is there before it is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from everfresh.linalg.compiler.let_blocks import Block
from everfresh.linalg.compiler.reuse import ColumnRange, Products, reuse, shared
from everfresh.linalg.lang.nodes import Expr, MatMul, Matrix, Transpose
from everfresh.linalg.lang.trees import names


@dataclass(frozen=True, slots=True)
class Assign:
    """`name := expr`, without products with stored matrices."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Multiply:
    """Products of one stored matrix: `(name, operand, transposed)` is `M operand` or `M' operand`."""

    matrix: str
    products: tuple[tuple[str, Expr, bool], ...]


Step = Assign | Multiply | ColumnRange


def schedule(block: Block, stored: Collection[str], symmetric: Collection[str] = ()) -> list[Step]:
    """The steps of a block."""
    assigns, products, heights = _hoist(block, set(stored), set(symmetric))
    columns = shared(assigns, products)
    products = {name: p for name, p in products.items() if name not in columns}
    reuse(block, assigns, products, columns, heights)
    waiting = {name for name, _ in assigns} | set(products) | set(columns)
    steps: list[Step] = []
    while assigns or products or columns:
        known = [c for c in columns.values() if c.product not in waiting]
        for one in known:
            steps.append(columns.pop(one.name))
            waiting.discard(one.name)
        ready = [(n, e) for n, e in assigns if not names(e) & waiting]
        if ready:
            for name, expr in ready:
                steps.append(Assign(name, expr))
                waiting.discard(name)
            assigns = [pair for pair in assigns if pair[0] in waiting]
            continue
        matrix = _next_matrix(products, waiting)
        taken = {n: p for n, p in products.items() if p[0] == matrix and not names(p[1]) & waiting}
        steps.append(
            Multiply(matrix, tuple((n, operand, turned) for n, (_, operand, turned) in taken.items()))
        )
        waiting -= taken.keys()
        products = {n: p for n, p in products.items() if n not in taken}
    return steps


def _next_matrix(products: Products, waiting: set[str]) -> str:
    """A matrix with products that can run; one whose products can all run, if there is one."""
    able = [p[0] for p in products.values() if not names(p[1]) & waiting]
    blocked = {p[0] for p in products.values() if names(p[1]) & waiting}
    return next((matrix for matrix in able if matrix not in blocked), able[0])


def _hoist(block: Block, stored: set[str], symmetric: set[str]) -> tuple[Block, Products, dict[str, int]]:
    """The block with products of stored matrices taken out, those products, and their numbers of rows."""
    products: Products = {}
    found: dict[tuple[str, Expr, bool], Matrix] = {}

    def held(expr: Expr) -> tuple[str, bool] | None:
        body = expr.body if isinstance(expr, Transpose) else expr
        if isinstance(body, Matrix) and body.name in stored:
            return body.name, isinstance(expr, Transpose) and body.name not in symmetric
        return None

    def product(matrix: str, operand: Expr, turned: bool, shape: tuple[int, int]) -> Matrix:
        key = (matrix, operand, turned)
        if key not in found:
            found[key] = Matrix(f"_{len(found) + 1}", *shape)
            products[found[key].name] = key
        return found[key]

    def visit(expr: Expr) -> Expr:
        expr = expr.map_children(visit)
        if isinstance(expr, MatMul):
            left, right = held(expr.left), held(expr.right)
            if left is not None and right is None:
                return product(left[0], expr.right, left[1], expr.shape)
            if right is not None and left is None:
                turned = right[0] not in symmetric and not right[1]
                operand = expr.left.body if isinstance(expr.left, Transpose) else Transpose(expr.left)
                return Transpose(product(right[0], operand, turned, (expr.columns, expr.rows)))
        return expr

    assigns = [(name, visit(expr)) for name, expr in block]
    return assigns, products, {matrix.name: matrix.rows for matrix in found.values()}
