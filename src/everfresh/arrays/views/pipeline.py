"""A view as stages in order, compiled of its statement.

Invariant: a stage stands behind those that it reads; operands that are the same text are one stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.cells import Array
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.views.chains import every
from everfresh.arrays.views.definition import check_rows, define
from everfresh.arrays.views.groups import no_change
from everfresh.arrays.views.stages import (
    Around,
    Base,
    Blocked,
    Cellwise,
    Chunked,
    Joined,
    Operator,
    Stage,
    State,
    over,
)
from everfresh.epochs import RowChange
from everfresh.errors import Code, EverfreshError
from everfresh.sql.scalars import bind_select
from everfresh.types import quoted


@dataclass(frozen=True)
class Pipeline:
    """A view: its stages in order, the last of which it shows."""

    statement: aql.CreateView
    stages: tuple[Stage, ...]

    @property
    def schema(self) -> ArraySchema:
        """Of what it shows."""
        return self.stages[-1].schema

    @property
    def reads(self) -> tuple[str, ...]:
        """The arrays and views that it reads."""
        return tuple(stage.name for stage in self.stages if isinstance(stage, Base))

    def start(self, arrays: Mapping[str, Array]) -> tuple[State, ...]:
        """The states over these arrays, from scratch."""
        states: list[State] = []
        for stage in self.stages:
            states.append(stage.start(self._inputs(stage, states, arrays)))
        return tuple(states)

    def step(
        self, before: Sequence[State], arrays: Mapping[str, Array], changes: Mapping[str, pa.Table]
    ) -> tuple[tuple[State, ...], RowChange | None]:
        """The states after a batch, and the change of what is shown; None if it is the same."""
        states: list[State] = []
        found: list[pa.Table | RowChange | None] = []
        for k, stage in enumerate(self.stages):
            given = [changes.get(stage.name)] if isinstance(stage, Base) else self._given(stage, found)
            state, change = stage.step(before[k], self._inputs(stage, states, arrays), given)
            states.append(state)
            found.append(change)
        last = found[-1]
        if isinstance(last, pa.Table):
            table = last
            return tuple(states), RowChange(lambda: table) if table.num_rows else None
        return tuple(states), last

    def _given(self, stage: Stage, found: Sequence[pa.Table | RowChange | None]) -> list[pa.Table]:
        """The changes of a stage's inputs, as rows."""
        given = []
        for at in stage.inputs:
            change = found[at]
            if isinstance(change, RowChange):
                change = change.table
            given.append(no_change(self.stages[at].schema) if change is None else change)
        return given

    def value(self, states: Sequence[State]) -> Array:
        """What it shows."""
        return self.stages[-1].value(states[-1])

    def _inputs(self, stage: Stage, states: Sequence[State], arrays: Mapping[str, Array]) -> list[Array]:
        if isinstance(stage, Base):
            return [arrays[stage.name]]
        return [self.stages[at].value(states[at]) for at in stage.inputs]


def compile_view(statement: aql.CreateView, known: Mapping[str, ArraySchema]) -> Pipeline:
    """The stages of a view over arrays of these schemas."""
    compiler = _Compiler(statement, known)
    last = compiler.stage(statement.operand, statement.dimensions)
    stages = compiler.stages
    if last != len(stages) - 1 or isinstance(stages[last], Base):
        raise EverfreshError(
            Code.UNSUPPORTED,
            "a view that only repeats an array",
            place=f"array view '{statement.name}'",
            hint="select, join or aggregate something of it",
        )
    return Pipeline(statement, tuple(stages))


class _Compiler:
    """Stages of operands; an operand that stands twice is one stage."""

    def __init__(self, statement: aql.CreateView, known: Mapping[str, ArraySchema]) -> None:
        self._name = statement.name
        self._known = known
        self._places: dict[str, int] = {}
        self.stages: list[Stage] = []

    def stage(self, operand: aql.Operand, dimensions: tuple[Dimension, ...] = ()) -> int:
        """The place of an operand's stage; with dimensions, the last stage has these."""
        if str(operand) not in self._places:
            made = self._made(operand, dimensions if isinstance(operand, aql.Query) else ())
            self.stages.append(made)
            self._places[str(operand)] = len(self.stages) - 1
        at = self._places[str(operand)]
        if dimensions and not isinstance(operand, aql.Query):
            at = self._rechunked(at, dimensions)
        return at

    def _made(self, operand: aql.Operand, dimensions: tuple[Dimension, ...]) -> Stage:
        match operand:
            case aql.Read(name):
                found = [known for known in self._known if known.lower() == name.lower()]
                if not found:
                    raise EverfreshError(
                        Code.NOT_FOUND,
                        f"there is no array '{name}'",
                        place=f"array view '{self._name}'",
                        hint="arrays are: " + (", ".join(self._known) or "none yet"),
                    )
                exact = name if name in found else found[0]
                return Base(exact, self._known[exact])
            case aql.Filter() | aql.Project() | aql.Between():
                at = self.stage(operand.input)
                of = self.stages[at].schema
                if isinstance(operand, aql.Filter):
                    self._check(of, "*", f" WHERE {operand.condition}")
                operator = Operator(operand)
                return Cellwise(self._named(operator(Array(of)).schema), (at,), of, operator)
            case aql.Regrid():
                at = self.stage(operand.input)
                self._check(self.stages[at].schema, ", ".join(operand.items))
                return Blocked(
                    self._named(over(operand, Array(self.stages[at].schema)).schema), (at,), operand
                )
            case aql.Apply():
                at = self.stage(operand.input)
                self._check(self.stages[at].schema, ", ".join(operand.items))
                return Around(
                    self._named(over(operand, Array(self.stages[at].schema)).schema), (at,), operand
                )
            case aql.Query():
                return self._query(operand, dimensions)
            case _:
                raise AssertionError(f"an operand without a stage: {type(operand).__name__}")

    def _check(self, of: ArraySchema, items: str, rest: str = "") -> None:
        """Raise where an operator looks at more than the cells that it is given."""
        text = f"SELECT {items} FROM {quoted(of.name)}{rest}"
        check_rows(self._name, bind_select(text, {of.name: of.columns}, kept=True))

    def _query(self, query: aql.Query, dimensions: tuple[Dimension, ...]) -> Joined:
        if query.into:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "INTO inside of a view",
                place=f"array view '{self._name}'",
                hint=f"write the dimensions behind the name: CREATE ARRAY VIEW {self._name} [i=1,8,2] AS",
            )
        joins = [join for join in (query.join, *query.more) if join is not None]
        operands = [query.left.array, *(join.right.array for join in joins)]
        places = tuple(self.stage(operand) for operand in operands)
        given = [self.stages[at].schema for at in places]
        first, *rest = every(define(self._name, query, given, dimensions))
        found = Joined(first, places[len(rest) :], bool(rest))
        for k, definition in enumerate(rest, 1):
            self.stages.append(found)
            found = Joined(definition, (places[len(rest) - k], len(self.stages) - 1), k < len(rest))
        return found

    def _rechunked(self, at: int, dimensions: tuple[Dimension, ...]) -> int:
        of = self.stages[at].schema
        fits = len(dimensions) == of.ndim and all(
            mine.name.lower() == own.name.lower() and mine.lo <= own.lo and mine.hi >= own.hi
            for mine, own in zip(dimensions, of.dimensions, strict=False)
        )
        if not fits:
            raise EverfreshError(
                Code.ARGUMENT,
                "these dimensions do not hold the cells of the view",
                place=f"array view '{self._name}'",
                hint=f"they are {of.box_text}; a chunk may have any length",
            )
        schema = replace(of, name=self._name, dimensions=dimensions)
        self.stages.append(Cellwise(schema, (at,), of, Chunked(schema)))
        return len(self.stages) - 1

    def _named(self, schema: ArraySchema) -> ArraySchema:
        return replace(schema, name=self._name)
