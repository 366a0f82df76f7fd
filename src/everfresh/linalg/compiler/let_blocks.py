"""Blocks: the assignments of a trigger, and the passes that make them cheaper (section 6.5).

A block is a list of `(name, expression)`; a name is assigned once and read below. The passes are common
subexpressions, copy propagation and dead code; their order is the tuple `PASSES`. Invariant: the values of
the names asked for stay the same.

>>> A, u = Matrix("A", 3, 3), Matrix("u", 3, 1)
>>> given = [("U", Stack((A @ u, u))), ("V", Scale(2.0, A @ u)), ("W", u)]
>>> block, uses = optimize(given, {"U": "U", "V": "V", "W": "W"})
>>> for name, expr in block:
...     print(name, ":=", expr)
t1 := A u
U := [t1, u]
V := 2 t1
>>> uses
{'U': 'U', 'V': 'V', 'W': 'u'}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from everfresh.linalg.lang.nodes import Expr, Inverse, MatMul, Matrix, Scale, Stack
from everfresh.linalg.lang.trees import distinct, names, substitute

Block = list[tuple[str, Expr]]
Uses = Mapping[str, str]  # what is asked for -> the name that holds it


def common_subexpressions(
    block: Block, uses: Uses, taken: Collection[str] = ()
) -> tuple[Block, dict[str, str]]:
    """Name every product and inverse that occurs more than once."""
    roots = [expr for _, expr in block]
    counts = Counter(child for node in distinct(*roots) for child in node.children)
    counts.update(roots)
    reserved = set(taken) | {name for name, _ in block} | set().union(*map(names, roots)) if roots else set()
    named: dict[Expr, Matrix] = {}
    result: Block = []

    def visit(expr: Expr) -> Expr:
        if expr in named:
            return named[expr]
        inner = expr.map_children(visit)
        if isinstance(expr, (MatMul, Inverse)) and counts[expr] > 1:
            number = len(named) + 1
            while f"t{number}" in reserved:
                number += 1
            reserved.add(f"t{number}")
            named[expr] = Matrix(f"t{number}", *expr.shape)
            result.append((named[expr].name, inner))
            return named[expr]
        return inner

    for name, expr in block:
        result.append((name, visit(expr)))
    return result, dict(uses)


def copies(block: Block, uses: Uses, _taken: Collection[str] = ()) -> tuple[Block, dict[str, str]]:
    """`U := v` vanishes and v takes its place, and so do equal values; what is all of U is called U."""
    own = {name for name, _ in block if name.startswith("t")}
    renamed: dict[str, Expr] = {}
    for name, expr in block:
        if isinstance(expr, Matrix) and expr.name in own and expr.name not in renamed and name not in own:
            renamed[expr.name] = Matrix(name, *expr.shape)
    values: dict[str, Expr] = dict(renamed)
    same: dict[Expr, Matrix] = {}
    result: Block = []
    for name, expr in block:
        target = renamed[name].name if name in renamed else name  # type: ignore[attr-defined]
        new = substitute(expr, values)
        if isinstance(new, Matrix):
            if new.name != target:
                values[name] = new
        elif new in same:
            values[name] = values[target] = same[new]
        else:
            same[new] = Matrix(target, *new.shape)
            result.append((target, new))
    final = {}
    for key, name in uses.items():
        value = values.get(name)
        final[key] = value.name if isinstance(value, Matrix) else name
    return result, final


def dead_code(block: Block, uses: Uses, _taken: Collection[str] = ()) -> tuple[Block, dict[str, str]]:
    """Only what is asked for, and what that needs."""
    wanted, kept = set(uses.values()), []
    for name, expr in reversed(block):
        if name in wanted:
            kept.append((name, expr))
            wanted |= names(expr)
    return kept[::-1], dict(uses)


PASSES = (dead_code, common_subexpressions, copies, dead_code)


def optimize(block: Block, uses: Uses, taken: Collection[str] = ()) -> tuple[Block, dict[str, str]]:
    """All passes; returns the block and where each name that is asked for ended up."""
    current = dict(uses)
    for one in PASSES:
        block, current = one(block, current, taken)
    return block, current


__all__ = ["Block", "Scale", "Stack", "Uses", "common_subexpressions", "copies", "dead_code", "optimize"]
