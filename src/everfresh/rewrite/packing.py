"""Trees of known classes as plain data (what JSON holds), and back: nothing but these classes can be read.

A `Packing` is a list of frozen dataclasses. What a field may hold follows from its annotation, when it is
written and again when it is read, so that data which somebody else has made can give nothing but a tree that
could have been written, or an error. A tree is a row for each of its nodes, children first: the name of the
class, then its fields; a node in a field is the number of its row. Nodes that are shared stay shared.

Invariant: `packing.unpacked(packing.packed(tree)) == tree`.

>>> from everfresh.types import DECIMAL, Column, SqlType
>>> packing = Packing(Column, SqlType)
>>> packing.packed(Column("a", DECIMAL(9, 2)))
[['SqlType', 'DECIMAL', 9, 2, [], []], ['Column', 'a', 0, True]]
>>> packing.unpacked(packing.packed(Column("a", DECIMAL(9, 2))), Column).type
SqlType(name='DECIMAL', precision=9, scale=2, inner=(), names=())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from everfresh.errors import Code, EverfreshError

T = TypeVar("T")
Numbers = Mapping[int, int]
"""The rows of nodes, by their `id`."""
_PLAIN = (NoneType, bool, int, float, str)
_WRONG = (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError, EverfreshError)
"""What a constructor may raise that is given what it was never meant for."""


@dataclass(frozen=True, slots=True)
class FieldForm:
    """What a field may hold: how it is written, and how it is read and checked."""

    write: Callable[[Any, Numbers], Any]
    read: Callable[[Any, Sequence[Any]], Any]


class Packing:
    """What turns trees of these classes into plain data, and back. `made` is a class of strings that differ
    from plain ones: they are written as a list of one."""

    def __init__(self, *classes: type, made: type[str] = str) -> None:
        self._made = made
        self._classes = {cls.__name__: cls for cls in classes}
        if len(self._classes) < len(classes):
            raise TypeError("two classes of a packing have one name")
        self._known = frozenset(classes)
        self._forms: dict[type, tuple[tuple[str, FieldForm], ...]] = {}

    def packed(self, tree: Any) -> list[list[Any]]:
        """The rows of a tree's nodes; its root is the last."""
        numbers: dict[int, int] = {}
        rows: list[list[Any]] = []
        for node in self._bottom_up(tree):
            cls = type(node)
            written = [form.write(getattr(node, name), numbers) for name, form in self._forms_of(cls)]
            numbers[id(node)] = len(rows)
            rows.append([cls.__name__, *written])
        return rows

    def unpacked(self, rows: Any, expected: type[T], what: str = "a message") -> T:
        """The tree that was packed; anything else is refused as damaged."""
        nodes: list[Any] = []
        try:
            for name, *values in rows:
                cls = self._classes[name]
                read = zip(self._forms_of(cls), values, strict=True)
                nodes.append(cls(*[form.read(value, nodes) for (_, form), value in read]))
            root = nodes[-1]
        except _WRONG as error:
            message = f"{what} is damaged: it holds no {expected.__name__} ({type(error).__name__}: {error})"
            raise EverfreshError(Code.DAMAGED, message) from error
        if not isinstance(root, expected):
            message = f"{what} is damaged: it holds a {type(root).__name__} and no {expected.__name__}"
            raise EverfreshError(Code.DAMAGED, message)
        return root

    def _bottom_up(self, tree: Any) -> Iterator[Any]:
        """The nodes of a tree, each once and after those in its fields: trees may be deeper than Python's
        stack."""
        seen: set[int] = set()
        left: list[tuple[Any, bool]] = [(tree, False)]
        while left:
            node, whole = left.pop()
            if whole:
                yield node
            elif id(node) not in seen:
                seen.add(id(node))
                left.append((node, True))
                for name, _ in self._forms_of(type(node)):
                    left.extend((child, False) for child in self._inside(getattr(node, name)))

    def _inside(self, value: Any) -> Iterator[Any]:
        if type(value) in self._known:
            yield value
        elif isinstance(value, tuple | frozenset):
            for item in sorted(value, key=str) if isinstance(value, frozenset) else value:
                yield from self._inside(item)
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from self._inside(item)

    # -- what fields may hold --------------------------------------------------------------------------

    def _forms_of(self, cls: type) -> tuple[tuple[str, FieldForm], ...]:
        found = self._forms.get(cls)
        if found is None:
            if cls not in self._known:
                raise TypeError(f"{cls.__name__} is no class that is packed")
            hints = get_type_hints(cls)
            found = tuple((f.name, self._form(hints[f.name])) for f in fields(cls) if f.init)
            self._forms[cls] = found
        return found

    def _form(self, hint: Any) -> FieldForm:
        origin, args = get_origin(hint), get_args(hint)
        if hint is Any:
            return FieldForm(_write_scalar, _read_scalar)
        if hint in _PLAIN:
            return self._plain((hint,))
        if origin in (UnionType, Union):
            return self._union(args)
        if origin is tuple and args[-1] is Ellipsis:
            return _sequence(self._form(args[0]), tuple)
        if origin is tuple:
            return _fixed([self._form(arg) for arg in args])
        if origin is frozenset:
            return _sequence(self._form(args[0]), frozenset)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _mapping(self._form(args[0]), self._form(args[1]))
        if isinstance(hint, type) and issubclass(hint, Enum):
            return FieldForm(lambda value, _: value.name, lambda value, _: hint[value])
        return self._nodes((hint,))

    def _union(self, args: tuple[Any, ...]) -> FieldForm:
        plain = tuple(arg for arg in args if arg in _PLAIN)
        others = tuple(arg for arg in args if arg not in _PLAIN)
        if not others:
            return self._plain(plain)
        of = self._form(others[0]) if get_origin(others[0]) in (tuple, frozenset) else self._nodes(others)
        if not plain:
            return of
        if plain != (NoneType,):
            raise TypeError(f"{args}: a number of a node could not be told from a value")
        return FieldForm(
            lambda value, numbers: None if value is None else of.write(value, numbers),
            lambda value, nodes: None if value is None else of.read(value, nodes),
        )

    def _plain(self, types: tuple[type, ...]) -> FieldForm:
        made = self._made
        if str not in types or made is str:
            return FieldForm(partial(_checked, types), lambda value, _: _checked(types, value))

        def write(value: Any, _: Numbers) -> Any:
            return [str(value)] if type(value) is made else _checked(types, value)

        def read(value: Any, _: Sequence[Any]) -> Any:
            if type(value) is not list:
                return _checked(types, value)
            (text,) = value
            return made(_checked((str,), text))

        return FieldForm(write, read)

    def _nodes(self, hints: tuple[Any, ...]) -> FieldForm:
        """Nodes of these classes, or of any if it is not said which."""
        classes = tuple(
            object if isinstance(hint, TypeVar) else get_origin(hint) or hint
            for given in hints
            for hint in (get_args(given) if get_origin(given) in (UnionType, Union) else (given,))
        )
        for cls in classes:
            if not any(issubclass(known, cls) for known in self._known):
                raise TypeError(f"{cls.__name__} is no class that is packed")

        def read(value: Any, nodes: Sequence[Any]) -> Any:
            if type(value) is not int or value < 0:
                raise TypeError(f"{value!r} is no number of a node")
            node = nodes[value]
            if not isinstance(node, classes):
                raise TypeError(f"a {type(node).__name__} where it may not be")
            return node

        return FieldForm(_write_node, read)


def _write_node(value: Any, numbers: Numbers) -> int:
    found = numbers.get(id(value))
    if found is None:
        raise TypeError(f"{type(value).__name__} is no class that is packed")
    return found


def _checked(types: tuple[type, ...], value: Any, _: Any = None) -> Any:
    if type(value) not in types:
        raise TypeError(f"{type(value).__name__} where {' or '.join(t.__name__ for t in types)} belongs")
    return value


def _write_scalar(value: Any, _: Numbers) -> Any:
    """The value of a constant: an interval is a tuple of integers."""
    return [_checked((int,), item) for item in value] if type(value) is tuple else _checked(_PLAIN, value)


def _read_scalar(value: Any, _: Sequence[Any]) -> Any:
    return tuple(_checked((int,), item) for item in value) if type(value) is list else _checked(_PLAIN, value)


def _sequence(of: FieldForm, made: Callable[[list[Any]], Any]) -> FieldForm:
    def read(value: Any, nodes: Sequence[Any]) -> Any:
        return made([of.read(item, nodes) for item in _checked((list,), value)])

    if made is frozenset:  # which has no order: equal ones are written alike
        return FieldForm(lambda value, numbers: sorted(of.write(item, numbers) for item in value), read)
    return FieldForm(lambda value, numbers: [of.write(item, numbers) for item in value], read)


def _fixed(forms: Sequence[FieldForm]) -> FieldForm:
    def write(value: Any, numbers: Numbers) -> Any:
        return [form.write(item, numbers) for form, item in zip(forms, value, strict=True)]

    def read(value: Any, nodes: Sequence[Any]) -> Any:
        items = zip(forms, _checked((list,), value), strict=True)
        return tuple(form.read(item, nodes) for form, item in items)

    return FieldForm(write, read)


def _mapping(keys: FieldForm, values: FieldForm) -> FieldForm:
    def write(value: Any, numbers: Numbers) -> Any:
        return [[keys.write(k, numbers), values.write(v, numbers)] for k, v in value.items()]

    def read(value: Any, nodes: Sequence[Any]) -> Any:
        return {keys.read(k, nodes): values.read(v, nodes) for k, v in _checked((list,), value)}

    return FieldForm(write, read)
