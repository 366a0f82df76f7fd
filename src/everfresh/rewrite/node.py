"""Frozen tree nodes with a cached hash and structural equality.

Invariant: a node never changes after construction, so it can be a dictionary key, be shared between trees,
and be compared by identity first. What is found out about it once can be kept with it (`remembered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

N = TypeVar("N", bound="Node")
A = TypeVar("A")
R = TypeVar("R")
NOTE = "~"
"""What the names begin with under which something is kept with a node; it is not pickled."""


def remembered(fn: Callable[[A], R]) -> Callable[[A], R]:
    """A function of a node alone that keeps its result with the node."""
    name = f"{NOTE}{fn.__module__}.{fn.__qualname__}"

    @wraps(fn)
    def known(node: A) -> R:
        notes: dict[str, Any] = node.__dict__
        if name in notes:
            return notes[name]  # type: ignore[no-any-return]
        found = notes[name] = fn(node)
        return found

    return known


class Node:
    """Base of all IR nodes; declare subclasses with `@node`."""

    _hash: int
    _field_names: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check()
        object.__setattr__(self, "_hash", hash((type(self).__name__, *self._values())))

    def check(self) -> None:
        """Raise if the fields do not fit together; called on construction."""

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._field_names])

    def _values(self) -> tuple[Any, ...]:
        """What equality and hash compare."""
        return self._fields()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or self._hash != other._hash:
            return False
        return self._values() == other._values()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith(NOTE)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # String hashes differ between processes: a node that was pickled gets its hash anew.
        self.__dict__.update(state)
        object.__setattr__(self, "_hash", hash((type(self).__name__, *self._values())))

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes directly below, in field order."""
        return _children(self)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        """A copy with other children, in the order of `children`."""
        rest = iter(children)
        return type(self)(*(_replace(value, rest) for value in self._fields()))

    def map_children(self, fn: Callable[[Any], Any]) -> Self:
        """A copy with `fn` applied to each child; the node itself if no child changed."""
        old = self.children
        new = tuple(fn(child) for child in old)
        return self if all(a is b for a, b in zip(old, new, strict=True)) else self.with_children(new)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        left: list[Node] = [self]
        while left:
            found = left.pop()
            yield found
            left.extend(found.children[::-1])


@remembered
def _children(node: Node) -> tuple[Node, ...]:
    found: list[Node] = []
    for value in node._fields():
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(_flatten(value))
    return tuple(found)


def _flatten(value: tuple[Any, ...]) -> Iterator[Node]:
    for item in value:
        if isinstance(item, Node):
            yield item
        elif isinstance(item, tuple):
            yield from _flatten(item)


def _replace(value: Any, rest: Iterator[Node]) -> Any:
    if isinstance(value, Node):
        return next(rest)
    if isinstance(value, tuple):
        return tuple(_replace(item, rest) for item in value)
    return value


@dataclass_transform(frozen_default=True)
def node(cls: type[N]) -> type[N]:
    """Declare a node class: a frozen dataclass with the equality and hash of `Node`.

    >>> @node
    ... class Pair(Node):
    ...     left: Node | None
    ...     right: Node | None
    >>> Pair(None, Pair(None, None)) == Pair(None, Pair(None, None))
    True
    """
    made = dataclass(frozen=True, eq=False)(cls)
    made._field_names = tuple(f.name for f in fields(made))  # type: ignore[arg-type]
    return made
