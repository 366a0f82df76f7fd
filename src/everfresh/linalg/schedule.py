"""Scheduling a trigger: products with one stored matrix are taken together, so that it is read rarely.

Reading the stored matrices is what an update costs. `schedule` takes every product of a stored matrix with
something thin out of the trigger's expressions, and runs those with the same matrix in one `Multiply` as
soon as all their operands are there; a product with columns of an operand that is multiplied anyway is
columns of that product. Invariant: the steps compute the same values as the block, in an order
in which everything is there before it is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from everfresh.linalg.blocks import Block
from everfresh.linalg.nodes import Expr, MatMul, Matrix, Stack, Transpose
from everfresh.linalg.trees import names


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


@dataclass(frozen=True, slots=True)
class Columns:
    """`name` is so many columns of a product, from column `start` on."""

    name: str
    product: str
    start: int
    width: int


Step = Assign | Multiply | Columns


def schedule(block: Block, stored: Collection[str], symmetric: Collection[str] = ()) -> list[Step]:
    """The steps of a block."""
    assigns, products = _hoist(block, set(stored), set(symmetric))
    columns = _shared(assigns, products)
    products = {name: p for name, p in products.items() if name not in columns}
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


Products = dict[str, tuple[str, Expr, bool]]


def _shared(block: Block, products: Products) -> dict[str, Columns]:
    """The products with some columns of the operand of another one, which must not need them."""
    needs: dict[str, frozenset[str]] = {}
    known = dict(block) | {name: operand for name, (_, operand, _) in products.items()}

    def needed(name: str) -> frozenset[str]:
        if name not in needs:
            direct = names(known[name]) if name in known else frozenset[str]()
            needs[name] = direct.union(*(needed(read) for read in direct))
        return needs[name]

    parts = {name: expr.parts for name, expr in block if isinstance(expr, Stack) and expr.axis}
    found: dict[str, Columns] = {}
    for host, (matrix, operand, turned) in products.items():
        if not isinstance(operand, Matrix):
            continue
        start = 0
        for part in parts.get(operand.name, ()):
            key = (matrix, part, turned)
            for name, other in products.items():
                if other == key and name != host and host not in found and name not in needed(host):
                    found.setdefault(name, Columns(name, host, start, part.columns))
            start += part.columns
    return found


def _next_matrix(products: Products, waiting: set[str]) -> str:
    """A matrix with products that can run; one whose products can all run, if there is one."""
    able = [p[0] for p in products.values() if not names(p[1]) & waiting]
    blocked = {p[0] for p in products.values() if names(p[1]) & waiting}
    return next((matrix for matrix in able if matrix not in blocked), able[0])


def _hoist(block: Block, stored: set[str], symmetric: set[str]) -> tuple[Block, Products]:
    """The block with products of stored matrices taken out, and those products."""
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

    return [(name, visit(expr)) for name, expr in block], products
