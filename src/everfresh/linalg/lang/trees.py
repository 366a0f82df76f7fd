"""Walks over expressions: names, different nodes, substitution; parts that are shared are visited once.

Invariant: no walk takes longer than the number of different nodes, however often they occur.
"""

from __future__ import annotations

from collections.abc import Mapping

from everfresh.linalg.lang.nodes import Expr, Matrix


def names(expr: Expr) -> frozenset[str]:
    """The names of all matrices in an expression; each node remembers its own."""
    found: frozenset[str] | None = expr.__dict__.get("_read_names")
    if found is None:
        below = (names(child) for child in expr.children)  # type: ignore[arg-type]
        found = frozenset({expr.name}) if isinstance(expr, Matrix) else frozenset().union(*below)
        object.__setattr__(expr, "_read_names", found)
    return found


def distinct(*roots: Expr) -> list[Expr]:
    """Every different node below the roots once, operands before what they are part of."""
    seen: dict[Expr, None] = {}

    def visit(expr: Expr) -> None:
        if expr not in seen:
            for child in expr.children:
                visit(child)  # type: ignore[arg-type]
            seen[expr] = None

    for root in roots:
        visit(root)
    return list(seen)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with matrices replaced by name."""
    done: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        if node not in done:
            new = values.get(node.name) if isinstance(node, Matrix) else None
            done[node] = node.map_children(visit) if new is None else new
        return done[node]

    return visit(expr)
