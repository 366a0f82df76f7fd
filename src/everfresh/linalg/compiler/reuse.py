"""Reuse: columns of a product that another product of the same matrix already has are not multiplied again.

Factors are compared by the elementary blocks that they are made of (`absorb.Elements`), so that A [u, A u]
takes its first column from A u, though no name says so. With it a step of the linear and of the skip models
multiplies only what is new. Invariant: products keep their values, and none needs itself.

>>> from everfresh.linalg.compiler.product_schedule import Multiply, schedule
>>> A, u, U = Matrix("A", 9, 9), Matrix("u", 9, 1), Matrix("U", 9, 2)
>>> steps = schedule([("U", Stack((u, A @ u))), ("P", A @ U)], {"A"})
>>> [step.products[0][1].columns for step in steps if isinstance(step, Multiply)]
[1, 1]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from everfresh.linalg.compiler.absorb import Elements
from everfresh.linalg.compiler.let_blocks import Block
from everfresh.linalg.lang.nodes import Expr, Matrix, Stack
from everfresh.linalg.lang.trees import names

Product = tuple[str, Expr, bool]  # matrix, operand, whether transposed
Products = dict[str, Product]


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """`name` is so many columns of a product or of an operand, from column `start` on."""

    name: str
    product: str
    start: int
    width: int


class Needs:
    """What each name needs, followed through assignments, products and columns as they are now."""

    def __init__(self, assigns: Block, products: Products, columns: Iterable[ColumnRange] = ()) -> None:
        self.direct: dict[str, frozenset[str]] = {name: names(expr) for name, expr in assigns}
        self.direct |= {name: names(operand) for name, (_, operand, _) in products.items()}
        self.direct |= {one.name: frozenset((one.product,)) for one in columns}

    def of(self, name: str) -> set[str]:
        """Everything that `name` needs."""
        found, waiting = set[str](), [name]
        while waiting:
            for read in self.direct.get(waiting.pop(), ()):
                if read not in found:
                    found.add(read)
                    waiting.append(read)
        return found


def shared(assigns: Block, products: Products) -> dict[str, ColumnRange]:
    """The products with some columns of the operand of another one, which must not need them."""
    needs = Needs(assigns, products)
    parts = {name: expr.parts for name, expr in assigns if isinstance(expr, Stack) and expr.axis}
    found: dict[str, ColumnRange] = {}
    for host, (matrix, operand, turned) in products.items():
        if not isinstance(operand, Matrix):
            continue
        start = 0
        for part in parts.get(operand.name, ()):
            key = (matrix, part, turned)
            for name, other in products.items():
                if other == key and name != host and host not in found and name not in needs.of(host):
                    found.setdefault(name, ColumnRange(name, host, start, part.columns))
            start += part.columns
    return found


def reuse(
    block: Block,
    assigns: Block,
    products: Products,
    columns: dict[str, ColumnRange],
    heights: Mapping[str, int],
) -> None:
    """Take columns that are known out of `products`, given the block that they were hoisted out of."""
    elements = Elements({n: e.parts if isinstance(e, Stack) and e.axis else (e,) for n, e in block})
    needs = Needs(assigns, products, columns.values())
    known: dict[tuple[str, bool, Expr], tuple[str, int]] = {}
    for name, (matrix, operand, turned) in list(products.items()):
        if not isinstance(operand, Matrix):
            continue
        blocks = elements.of(operand)
        places = [known.get((matrix, turned, one)) for one in blocks]
        later = {product: name in needs.of(product) for product in {place[0] for place in places if place}}
        places = [None if place is None or later[place[0]] else place for place in places]
        if any(places):
            runs = _runs(name, places, [one.columns for one in blocks])
            _rewrite(name, runs, assigns, products, columns, heights[name])
            needs = Needs(assigns, products, columns.values())
        at = 0
        for one in blocks:
            known[matrix, turned, one] = name, at
            at += one.columns


def _runs(name: str, places: list[tuple[str, int] | None], widths: list[int]) -> list[ColumnRange]:
    """The columns of a product, in order: from where each is taken, what is new from `name` itself."""
    runs: list[ColumnRange] = []
    at = 0
    for place, width in zip(places, widths, strict=True):
        product, start = place or (name, at)
        last = runs[-1] if runs else None
        if last is not None and last.product == product and last.start + last.width == start:
            runs[-1] = ColumnRange(last.name, product, last.start, last.width + width)
        else:
            runs.append(ColumnRange(f"{name}_{len(runs)}", product, start, width))
        at += width
    return runs


def _rewrite(
    name: str,
    runs: list[ColumnRange],
    assigns: Block,
    products: Products,
    columns: dict[str, ColumnRange],
    height: int,
) -> None:
    """`name` is put together from the runs; what is new becomes products with columns of the operand."""
    matrix, operand, turned = products.pop(name)
    assert isinstance(operand, Matrix)
    for run in runs:
        if run.product == name:
            some = ColumnRange(f"{run.name}x", operand.name, run.start, run.width)
            columns[some.name] = some
            products[run.name] = matrix, Matrix(some.name, operand.rows, run.width), turned
        else:
            columns[run.name] = run
    parts = tuple(Matrix(run.name, height, run.width) for run in runs)
    assigns.append((name, parts[0] if len(parts) == 1 else Stack(parts, 1)))
