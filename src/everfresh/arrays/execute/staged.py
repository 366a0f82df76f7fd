"""Operators inside of one another, as statements that workers run one after the other.

What is inside is computed first and kept by the workers, as INTO would keep it, under a name of its own; then
what is around it reads that. So a nest of operators is a list of steps, each of which has a `Work`, and only
the rows of the last one leave the workers. Operators that change cells one by one (BETWEEN, FILTER, PROJECT)
need no step: they are done where chunks are read.

Invariant: the rows of the last step are those of the statement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from everfresh.arrays import aql
from everfresh.arrays.execute.work import Schemas, Work, work_of
from everfresh.arrays.model import ArraySchema


@dataclass(frozen=True)
class Step:
    """A statement for workers. All but the last one give an array that they keep: the name under which later
    steps read it, and its schema, which has the name that expressions know it by."""

    statement: aql.Statement
    work: Work
    name: str = ""
    schema: ArraySchema | None = None


def staged(statement: aql.Statement, schemas: Schemas) -> tuple[Step, ...] | None:
    """The steps of a statement over stored arrays; None if some of it workers do not run.

    >>> from everfresh.arrays.aql_parser import parse
    >>> a = parse("CREATE ARRAY a <v: INT> [i=1,8,2]").schema
    >>> for step in staged(parse("FILTER(APPLY(FILTER(a, v > 1), COUNT(*) AS n, L1(1)), n > 2)"), {"a": a}):
    ...     print(step.statement)
    SELECT * INTO "#0" FROM APPLY(FILTER(a, v > 1), COUNT(*) AS n, L1(1))
    FILTER("#0", n > 2)
    """
    making = _Making(dict(schemas), [])
    try:
        around = making.around(statement)
    except _NotForWorkers:
        return None
    work = work_of(around, making.schemas)
    return None if work is None else (*making.steps, Step(around, work))


class _NotForWorkers(Exception):
    """Something inside is evaluated over whole arrays."""


@dataclass
class _Making:
    """Steps as they are made, and the schemas of what there is to read."""

    schemas: dict[str, ArraySchema]
    steps: list[Step]

    def around(self, statement: aql.Statement) -> aql.Statement:
        """A statement that reads what is inside of it from the workers."""
        match statement:
            case aql.Query():
                left = replace(statement.left, array=self.read(statement.left.array))
                join = statement.join
                if join is not None:
                    join = replace(join, right=replace(join.right, array=self.read(join.right.array)))
                return replace(statement, left=left, join=join)
            case aql.Apply() | aql.Regrid() | aql.Filter() | aql.Project() | aql.Between():
                return replace(statement, input=self.read(statement.input))
            case _:
                return statement

    def read(self, operand: aql.Operand) -> aql.Operand:
        """What stands for an operand where chunks are read: cells are changed one by one at most."""
        match operand:
            case aql.Read():
                return operand
            case aql.Filter() | aql.Project():
                return replace(operand, input=self.read(operand.input))
            case aql.Between(moved=False):
                return replace(operand, input=self.read(operand.input))
            case _:
                return self.kept(operand)

    def kept(self, operand: aql.Operand) -> aql.Read:
        """An operand as an array that workers keep."""
        known_as, inner = aql.name_of(operand), self.around(operand)
        name = next(
            f"{aql.KEPT}{k}" for k in range(len(self.schemas) + 1) if f"{aql.KEPT}{k}" not in self.schemas
        )
        if isinstance(inner, aql.Query):
            statement = replace(inner, into=name)
        else:
            assert isinstance(inner, aql.Operand)
            statement = aql.Query("*", aql.Source(inner, known_as), into=name)
        work = work_of(statement, self.schemas)
        if work is None or work.result is None:
            raise _NotForWorkers
        schema = replace(work.result, name=known_as)
        self.schemas[name] = schema
        self.steps.append(Step(statement, work, name, schema))
        return aql.Read(name)
