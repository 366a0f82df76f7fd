"""Rules as data, and the fixpoint driver.

A rule has a name, the node classes it looks at, and a function that returns the new node or None. `rewrite`
works bottom-up: children first, then the node until no rule applies. Invariant: the result is a fixpoint, no
rule of the set applies anywhere in it. A set of rules that cycles raises `RewriteCycle`, which names the
rules of the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from everfresh.rewrite.node import NOTE, Node

N = TypeVar("N", bound=Node)
_NUMBERS = count()
_LIMIT = 1_000  # steps at one place: far above any real chain
_DEPTH = 200  # results inside results: the same for rules that grow the tree


class RewriteCycle(AssertionError):
    """The rules do not reach a fixpoint: a bug in a rule set, never a user's mistake."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`name: node of one of `classes` -> new node, or None if the rule does not apply`."""

    name: str
    classes: tuple[type[Node], ...]
    apply: Callable[[Any], Node | None]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in order of preference; sets are joined with `+`."""

    rules: tuple[Rule, ...]
    _by_class: dict[type[Node], tuple[Rule, ...]] = field(default_factory=dict, compare=False, repr=False)
    settled: str = field(default_factory=lambda: f"{NOTE}settled {next(_NUMBERS)}", compare=False, repr=False)
    """The note on nodes in which none of the rules applies anywhere: they are not looked at again."""

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def for_class(self, cls: type[Node]) -> tuple[Rule, ...]:
        """The rules that look at nodes of `cls`."""
        if cls not in self._by_class:
            self._by_class[cls] = tuple(rule for rule in self.rules if issubclass(cls, rule.classes))
        return self._by_class[cls]


@dataclass(slots=True)
class Trace:
    """What a rewrite did: `(rule, before, after)` in order."""

    steps: list[tuple[str, Node, Node]] = field(default_factory=list)

    def names(self) -> list[str]:
        """The names of the rules that were applied, in order."""
        return [name for name, _, _ in self.steps]


def rewrite(root: N, rules: RuleSet, trace: Trace | None = None) -> N:
    """`root` with `rules` applied everywhere until none applies."""
    done: dict[Node, Node] = {}
    active: set[Node] = set()
    path: list[str] = []  # the rules whose results are being visited, outermost first

    def visit(node: Node) -> Node:
        if rules.settled in node.__dict__:
            return node
        if node in done:
            return done[node]
        if node in active or len(path) > _DEPTH:  # the result of a node holds the node itself, or has no end
            raise _cycle(path, node)
        start, seen, names = node, {node}, []
        active.add(start)
        node = node.map_children(visit)
        while (step := _step(node, rules)) is not None:
            name, after = step
            names.append(name)
            if trace is not None:
                trace.steps.append((name, node, after))
            if after in seen or len(names) > _LIMIT:
                raise _cycle(names, start)
            seen.add(after)
            path.append(name)
            node = after.map_children(visit)
            path.pop()
        active.remove(start)
        done[start] = done[node] = node
        node.__dict__[rules.settled] = True
        return node

    return visit(root)  # type: ignore[return-value]


def _cycle(names: list[str], start: Node) -> RewriteCycle:
    return RewriteCycle(f"rules {', '.join(dict.fromkeys(names[-20:]))} do not end on {start}")


def _step(node: Node, rules: RuleSet) -> tuple[str, Node] | None:
    for rule in rules.for_class(type(node)):
        after = rule.apply(node)
        if after is not None and after != node:
            return rule.name, after
    return None
