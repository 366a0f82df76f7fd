"""The program IR: maps, relations read off them, triggers, statements; generic over the expression.

A program says which maps are kept and what to do when a relation changes. `M[keys] += expr` adds to a map,
`M[keys] := expr` replaces it. All right-hand sides of a trigger are evaluated against the state before it.
SQL views put calculus queries in it, matrix views linear algebra: this module never looks inside an
expression.

A *derived relation* is read off a map, or recomputed from one partition by partition. When its map changes,
it changes: by minus its rows before and plus its rows after, at the keys that were touched. Statements
may read it and have triggers on it like a base. The order of work for a base R and its change is

1. evaluate all statements of R's triggers on the old state,
2. add the results to their maps, except to maps that a derived relation is read off (they stay pending),
3. for each derived relation in the order of `relations`, if one of its maps is pending: take its rows at the
   touched keys, add what is pending, take them again; the difference is its change; go to 1 with it.

So a statement on the change of relation i reads relations before i as they are after, later ones as they
were before: no cross terms are needed.

A program may read maps that another one keeps (`shared`): those are over bases alone, so they change at the
same point of this order whichever program's statements maintain them. A relation in `static` never changes:
it has no trigger, and no map is kept for the sake of its changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from everfresh.algebra import Kind
from everfresh.expr.names import Made
from everfresh.expr.nodes import Expr, Var
from everfresh.types import Column

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class MapDef(Generic[E]):
    """A materialized map: `name[keys]` holds a count and one value of each kind; `definition` says what
    it equals."""

    name: str
    keys: tuple[Var, ...]
    kinds: tuple[Kind, ...]
    definition: E


@dataclass(frozen=True, slots=True)
class Side:
    """Another map that a relation is read off, at the keys of its own.

    How `"at"`: the components of its entry at these keys, zeros if there is none, are the variables `#j.0`
    (the count), `#j.1`, ... of the j-th side, counted from 1. How `"min"` and `"max"`: the map has one key
    more, and the variable `#j.x` is its least (greatest) value among the entries at these keys, NULL if
    there is none.

    How `"first"`: the map has as many keys more as `order` has parts, each whether it ascends and whether
    NULLs come first; `#j.x` is the last key of the first entry in this order, NULL if there is none.

    How `"disc"`, `"low"` and `"high"`: the map has one key more, and `#j.x` is its value at the `fraction` of
    the rows, which are as many as the counts say: of n rows in their order the one at ceil(n f), from 1
    (`disc`), at floor((n - 1) f) and at ceil((n - 1) f), from 0 (`low`, `high`).

    With `than`, an operator, the map's last key is compared with `key`, a key of the relation's own map that
    the side does not have: only values for which `value than key` is true count. The least value greater than
    a key is the next one.
    """

    map: str
    how: str = "at"
    than: str = ""
    key: str = ""
    order: tuple[tuple[bool, bool], ...] = ()
    fraction: float = 0.0

    @property
    def beyond(self) -> int:
        """How many keys the map has that are not the relation's."""
        return 0 if self.how == "at" else len(self.order) or 1


@dataclass(frozen=True, slots=True)
class Partitions(Generic[E]):
    """A relation that is recomputed where its map is touched: windows, ORDER BY with LIMIT.

    The map is a bag of rows over its keys. Rows that agree on the first `prefix` keys are a partition;
    `expr` gives the relation's rows from the rows of one or more whole partitions.
    """

    name: str
    map: str
    columns: tuple[Column, ...]
    expr: E
    prefix: int

    @property
    def maps(self) -> tuple[str, ...]:
        """The map that it is recomputed from."""
        return (self.map,)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Where a condition on a running sum holds: rows `(lo, hi)`, the longest intervals of values of a key.

    For a value x the entries of the map, whose one key is k, are added up for which `k op x` is true;
    `having` is over these sums (the variables `#0`, `#1`, ..., all zero over no entry) and over the
    components of `sides`, maps without keys. The intervals are closed, over the physical integers of the
    key's type, and do not touch: a condition that is monotone in a sum of what is never negative holds in one
    interval at most.
    """

    name: str
    map: str
    columns: tuple[Column, ...]
    op: str
    having: Expr
    sides: tuple[Side, ...] = ()

    @property
    def maps(self) -> tuple[str, ...]:
        """All maps that it is read off."""
        return (self.map, *(side.map for side in self.sides))


@dataclass(frozen=True, slots=True)
class Statement(Generic[E]):
    """`target[keys] += expr` (or `:=`), run when the trigger's base changes."""

    target: str
    op: str
    expr: E
    strategy: str = "incremental"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trigger(Generic[E]):
    """What to run when `base` changes."""

    base: str
    statements: tuple[Statement[E], ...]


@dataclass(frozen=True, slots=True)
class Program(Generic[E]):
    """Maps, relations derived from them in the order of their dependence, and a trigger per base or
    derived relation that maps depend on.

    `shared` are maps that statements here read and another program maintains; `static` are the relations
    without a trigger that definitions read. Maps in `empty` have no entry after any batch: one that would
    leave them some is refused.
    """

    maps: tuple[MapDef[E], ...]
    triggers: tuple[Trigger[E], ...]
    relations: tuple[View | Partitions[E] | Intervals, ...] = ()
    shared: tuple[MapDef[E], ...] = ()
    static: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    def map(self, name: str) -> MapDef[E]:
        """The map called `name`, shared or not."""
        return next(m for m in (*self.maps, *self.shared) if m.name == name)

    def trigger(self, base: str) -> Trigger[E] | None:
        """The trigger of `base`, if the program reads it."""
        return next((t for t in self.triggers if t.base == base), None)

    def to_text(
        self, show: Callable[[E], str] = str, how: Callable[[Partitions[E]], str | None] | None = None
    ) -> str:
        """The program in the notation of the thesis; `parse_program` reads it back."""
        from everfresh.program.text import to_text

        return to_text(self, show, how)


@dataclass(frozen=True, slots=True)
class View:
    """How the rows of a view, or of a derived relation inside of a program, are read off its map.

    `outputs` are expressions over the map's keys, its components, which are the variables `#0` (the count),
    `#1`, ..., and those of `sides`. An entry is one row, or (`bag`) as many equal rows as its count says, or
    as many as `weight` says; `having` filters. `always` gives a row for every key, also where the map holds
    nothing: one row over no data if there are no keys (an aggregate without GROUP BY); with keys such a
    relation can only be looked up, at keys that are bound.
    """

    name: str
    map: str
    columns: tuple[Column, ...]
    outputs: tuple[Expr, ...]
    bag: bool = False
    having: Expr | None = None
    always: bool = False
    sides: tuple[Side, ...] = ()
    weight: Expr | None = None

    @property
    def maps(self) -> tuple[str, ...]:
        """All maps that it is read off."""
        return (self.map, *(side.map for side in self.sides))


def component(index: int, *, unscaled: bool = False) -> str:
    """The name of the variable that stands for a component in a view's outputs.

    A sum of decimals is read as a DECIMAL (`#2`), or (`unscaled`) as the integer it is held as (`#2u`). A sum
    of doubles is read as the nearest double (`#2`), and `#2u` is what that left of it.
    """
    return Made(f"#{index}u" if unscaled else f"#{index}")


def component_index(name: str) -> int:
    """The component that a variable of a view's outputs stands for, of its own map or of a side."""
    return int(name[1:].rpartition(".")[2].removesuffix("u"))


def is_unscaled(name: str) -> bool:
    """Whether a variable is the other reading of a component (`#2u`)."""
    return name.endswith("u")


def side_component(side: int, index: int | str) -> str:
    """The name of the variable for a component of a side (its position from 1), or its extreme (`"x"`)."""
    return Made(f"#{side}.{index}")


def side_of(name: str) -> int | None:
    """The side that a variable of a view's outputs is a component of, 0 for the view's own map; None for a
    key.

    >>> side_of(component(1)), side_of(side_component(2, "x")), side_of("#1")
    (0, 2, None)
    """
    if not isinstance(name, Made) or not name.startswith("#"):
        return None
    side, dot, _ = name[1:].partition(".")
    return int(side) if dot else 0


def beside(name: str, side: int) -> str:
    """The variable for a component of a side that in the side's own map is called `name`."""
    return side_component(side, name[1:])
