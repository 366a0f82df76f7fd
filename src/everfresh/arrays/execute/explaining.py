"""How a query of arrays is run, in words and figures: planned, and beside it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from everfresh.arrays import aql
from everfresh.arrays.cells import Array
from everfresh.arrays.execute.answering import LocalQuery
from everfresh.arrays.execute.local import Measured
from everfresh.arrays.execute.split import DRIVER, GROUPS
from everfresh.arrays.execute.work import Schemas, Work, work_of
from everfresh.arrays.plan import ALTERNATIVES, Plan, PlanOptions, explain
from everfresh.options import Options

_WHERE = {GROUPS: "groups end at their owners", DRIVER: "what is left is done at one place"}


@dataclass
class Explained:
    """What is known of a query before and after it is run."""

    statement: aql.Statement
    work: Work | None
    plan: Plan | None = None
    measured: Measured | None = None
    later: bool = False
    """Whether it reads what a step before it gives, and is planned when that is there."""

    @staticmethod
    def of(statement: aql.Statement, schemas: Schemas) -> Explained:
        """A query over arrays with these schemas."""
        return Explained(statement, work_of(statement, schemas))

    def plan_local(
        self, arrays: Mapping[str, Array], rules: Mapping[str, str], options: Options, run: bool
    ) -> None:
        """The plan for logical workers of this process; if it is to be `run`, what they have measured."""
        assert self.work is not None
        query = LocalQuery.of(self.work, arrays, options.workers, rules, options_of(options))
        self.plan = query.plan
        if run:
            self.measured = query.run()[1]

    @property
    def text(self) -> str:
        """Lines for people."""
        if self.work is None:
            return f"{self.statement}\nevaluated at one place, over whole arrays\n"
        lines = [str(self.statement)]
        if self.later:
            lines.append("planned when the steps before it are done")
        elif self.plan is None:
            lines.append("each worker goes over the chunks that it keeps")
        else:
            problem = self.plan.problem
            lines.append(
                f"{len(problem.cells):,} chunks, {len(problem.first):,} pairs of chunks, "
                f"{problem.workers} workers"
            )
            lines.append(explain(self.plan, ALTERNATIVES).text.rstrip("\n"))
        if self.work.cut.combine is not None:
            lines.append("aggregates are folded where rows are found")
        if self.work.cut.where in _WHERE:
            lines.append(_WHERE[self.work.cut.where])
        if self.measured is not None and self.plan is not None:
            lines.append(self.measured.text(self.plan).rstrip("\n"))
        return "\n".join(lines) + "\n"


def options_of(options: Options) -> PlanOptions:
    """How the joins of a database are planned."""
    return PlanOptions(options.array_join, budget=options.array_memory)
