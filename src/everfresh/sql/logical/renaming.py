"""Variables across the border of a subquery: which are free, and equality up to the names of the others.

Two bindings of one text differ in the variables inside of their subqueries only, since names are given out
once. `canonical` forgets them, so that GROUP BY and ORDER BY find the expressions that they repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from everfresh.expr.names import Made
from everfresh.expr.nodes import Expr, Var
from everfresh.rewrite import Node
from everfresh.sql.logical.plan import Aggregate, Given, Project, Scan, Unnest, Window
from everfresh.sql.logical.subqueries import has_subquery

E = TypeVar("E", bound=Expr)


def defined(node: Node) -> Iterator[str]:
    """The names of the variables that plans in or below a node introduce, some of them more than once."""
    for part in node.walk():
        match part:
            case Scan() | Given():
                yield from (v.name for v in part.vars)
            case Project() | Unnest():
                yield from (name for name, _ in part.items)
            case Aggregate():
                yield from (name for name, _ in (*part.keys, *part.aggregates))
            case Window():
                yield from (name for name, _ in part.items)


def free_variables(expr: Expr) -> tuple[Var, ...]:
    """The variables that an expression takes from where it stands, each once, in order of appearance."""
    inner = set(defined(expr))
    found = (n for n in expr.walk() if isinstance(n, Var) and n.name not in inner)
    return tuple(dict.fromkeys(found))


def canonical(expr: E) -> E:
    """The expression with its inner variables numbered: equal for equal meanings."""
    if not has_subquery(expr):
        return expr
    names = {name: Made(f"${k}") for k, name in enumerate(dict.fromkeys(defined(expr)))}
    numbered: E = renamed(expr, names)
    return numbered


def renamed(node: Any, names: Mapping[str, str]) -> Any:
    """A plan or expression with other names for some variables, where they are defined and where they are
    read."""

    def new(name: str) -> str:
        return names.get(name, name)

    def items(pairs: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
        return tuple((new(name), renamed(e, names)) for name, e in pairs)

    match node:
        case Var():
            return Var(new(node.name), node.of, node.null) if node.name in names else node
        case Project():
            return Project(renamed(node.input, names), items(node.items))
        case Aggregate():
            below = renamed(node.input, names)
            return Aggregate(below, items(node.keys), items(node.aggregates), node.grouped)
        case Unnest():
            return Unnest(renamed(node.input, names), items(node.items))
        case Window():
            return Window(renamed(node.input, names), items(node.items))
    return node.map_children(lambda child: renamed(child, names))
