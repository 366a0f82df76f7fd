"""Queries of arrays on Spark: planned by the driver from catalogs, run as one job, measured.

`Query` is a statement that workers can run (`everfresh.arrays.execute.work`), with its plan. What a mapping
that keeps no order does to chunks is asked of the workers first, in a job of its own; only boxes come back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.execute.catalog import Catalog, Entry
from everfresh.arrays.execute.joining import Landed, prepared
from everfresh.arrays.execute.local import Measured
from everfresh.arrays.execute.split import DRIVER, GROUPS
from everfresh.arrays.execute.staged import Step
from everfresh.arrays.execute.work import Work
from everfresh.arrays.model import Ints
from everfresh.arrays.plan import Plan, PlanOptions
from everfresh.arrays.plan.pairs import BACKWARD, FORWARD
from everfresh.arrays.spark.changing import read_entries
from everfresh.arrays.spark.joining import (
    ABOUT,
    ENTRIES,
    LAID,
    LANDED,
    MOVED,
    OWNERS,
    PLANS,
    POSITIONS,
    READ,
    ROWS,
    SENT,
    plan_pieces,
)
from everfresh.arrays.spark.laying import File, remove_laid
from everfresh.spark.jobs.plans import Plan as JobPlan
from everfresh.spark.jobs.runner import Answers, Runner
from everfresh.spark.state.ledger import Draft
from everfresh.state import pack_arrays, unpack_arrays, unpack_table
from everfresh.types import no_rows

if TYPE_CHECKING:
    from everfresh.arrays.spark.domain import ArraysOnSpark, Kept


Laid = Mapping[str, Any]
"""By identity the DDL of an array that is laid down, and each worker's files."""
Plans = Mapping[tuple[bool, bool], JobPlan]


@dataclass(frozen=True, eq=False)
class Query:
    """A statement that workers run, the arrays that it reads as the driver knows them, and its plan."""

    text: str
    work: Work
    arrays: tuple[Kept, ...]
    plan: Plan | None
    laid: Laid = field(default_factory=dict)
    """What earlier steps have laid down, by identity."""
    plans: Plans = field(default_factory=lambda: PLANS)
    """Of jobs, by whether something is sent and whether rows have owners."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Pieces of the message, for those who keep the chunks."""

    @property
    def catalogs(self) -> tuple[Catalog, Catalog | None]:
        """Of the left array and, if it is another one, of the right."""
        return self.arrays[0].catalog, self.arrays[1].catalog if len(self.arrays) > 1 else None

    @property
    def sent(self) -> bool:
        """Whether something is sent before it is joined."""
        return self.plan is not None or self.work.equi is not None

    @property
    def owned(self) -> bool:
        """Whether rows have owners before they reach the driver or a chunk."""
        return self.work.into or self.work.cut.where == GROUPS


@dataclass(frozen=True, eq=False)
class Answered:
    """What a query has given: rows, or what the catalog is to say of the result's chunks; and what was
    measured, if there is a plan."""

    rows: pa.Table
    entries: list[Entry]
    measured: Measured | None
    files: Mapping[str, list[File]] = field(default_factory=dict)
    """Where each worker has laid its chunks down."""


class Steps:
    """The steps of a statement, run one after the other; what those before the last keep goes in the end."""

    def __init__(self, domain: ArraysOnSpark, draft: Draft, steps: Sequence[Step]) -> None:
        self.domain, self.draft, self.steps = domain, draft, steps
        self.kept: dict[str, Kept] = dict(domain.kept_of)
        self.ran: list[tuple[Query, Measured | None]] = []
        self._laid: dict[str, Any] = {}

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        store = self.domain.host.folder.store
        for laid in self._laid.values():
            remove_laid(store, [file for files in laid["files"].values() for file in files])

    def first(self) -> Query:
        """All steps but the last, and the plan of that one."""
        from everfresh.arrays.spark.domain import Kept

        for step in self.steps[:-1]:
            assert step.schema is not None
            query = self.planned(step)
            answered = run(self.domain, self.draft, query, lay=True)
            self.ran.append((query, answered.measured))
            identity = f"{step.name}@{self.draft.epoch}"
            self._laid[identity] = {"ddl": step.schema.ddl, "files": answered.files}
            catalog = Catalog.empty(step.schema).after(answered.entries)
            self.kept[step.name] = Kept(step.schema, identity, catalog)
        return self.planned(self.steps[-1])

    def planned(self, step: Step) -> Query:
        """A step with its plan, once all that it reads is there."""
        return planned(self.domain, self.draft, step.statement, step.work, self.kept, self._laid)

    def last(self, query: Query, result: str = "") -> Answered:
        """The last step; what it keeps as `result` is part of the draft."""
        answered = run(self.domain, self.draft, query, result)
        self.ran.append((query, answered.measured))
        return answered


def planned(
    domain: ArraysOnSpark,
    draft: Draft,
    statement: aql.Statement,
    work: Work,
    kept: Mapping[str, Kept],
    laid: Laid,
) -> Query:
    """A statement with its plan."""
    arrays = tuple(kept[source.name] for source in work.sources)
    mine = {one.identity: laid[one.identity] for one in arrays if one.identity in laid}
    alone = Query(str(statement), work, arrays, None, mine)
    return with_plan(alone, domain.host.runner, draft, domain.plan_options)


def with_plan(alone: Query, runner: Runner, draft: Draft, options: PlanOptions) -> Query:
    """A query with the plan of its join, if it has one."""
    work = alone.work
    if work.spec is None:
        return alone
    landed = None
    if not work.spec.mapping.keeps_order:
        job = draft.job("array", pieces=_pieces(alone, landed=True))
        landed = _landed(work, runner.run(job, alone.plans[False, False]).gathered)
    return replace(alone, plan=prepared(work.spec, *alone.catalogs, runner.workers, options, landed))


def run(domain: ArraysOnSpark, draft: Draft, query: Query, result: str = "", lay: bool = False) -> Answered:
    """Run a query; what it keeps as `result` is part of the draft, unless it is to `lay` that down."""
    answers = run_job(domain.host.runner, draft, query, result, lay=lay)
    if query.work.into and not lay:
        draft.add(answers.controls)
    return answered(query, answers, domain.workers)


def run_job(
    runner: Runner, draft: Draft, query: Query, result: str = "", sent: bool = False, lay: bool = False
) -> Answers:
    """Run the job of a query; with `sent` something is sent besides what its plan says."""
    job = draft.job("array", pieces=_pieces(query, result=result, lay=lay))
    return runner.run(job, query.plans[sent or query.sent, query.owned])


def _pieces(query: Query, result: str = "", landed: bool = False, lay: bool = False) -> dict[str, Any]:
    """A query as pieces of a message."""
    plan, schemas = query.plan, {}
    for source, kept in zip(query.work.sources, query.arrays, strict=True):
        schemas[source.name] = kept.schema.ddl
    about = {
        "text": query.text,
        "schemas": sorted(schemas.items()),
        "identities": [kept.identity for kept in query.arrays],
        "left": len(query.arrays[0].catalog),
        "budget": plan.options.budget if plan is not None else None,
        "result": result,
        "landed": landed,
        "lay": lay,
        "laid": query.laid,
    }
    pieces: dict[str, Any] = {ABOUT: json.dumps(about).encode(), **query.more}
    if plan is not None:
        numbers = np.concatenate([kept.catalog.number for kept in query.arrays])
        pieces[POSITIONS] = pack_arrays({"number": numbers, "bytes": np.asarray(plan.problem.bytes)})
        pieces |= plan_pieces(plan.worker(k) for k in range(plan.problem.workers))
    if query.work.along:
        chunk, worker = owners(query)
        pieces[OWNERS] = pack_arrays({"chunk": chunk, "worker": worker})
    return pieces


def owners(query: Query) -> tuple[Ints, Ints]:
    """Which worker keeps what lies along each left chunk: that which does most of the chunk's joins; for
    APPLY, and where nothing is joined, the one that has the chunk."""
    catalog, plan = query.arrays[0].catalog, query.plan
    if plan is None or query.work.padded is not None:
        return catalog.number, catalog.home
    workers = plan.problem.workers
    work = np.zeros((len(catalog), workers), np.int64)
    size = plan.problem.cells[plan.first] * plan.problem.cells[plan.second]
    for way, side in ((FORWARD, plan.first), (BACKWARD, plan.second)):
        some = (plan.ways & way) > 0
        np.add.at(work, (side[some], plan.node[some]), size[some])
    joined = work.any(axis=1)
    found = np.where(joined, np.argmax(work, axis=1), catalog.home)
    return catalog.number, found.astype(np.int64)


def _landed(work: Work, gathered: Iterable[bytes]) -> Landed:
    assert work.spec is not None
    none = np.empty(0, np.int64)
    box = np.empty((work.spec.right.ndim, 0), np.int64)
    found = [unpack_arrays(payload[1:]) for payload in gathered if payload[:1] == LANDED]
    return (
        np.concatenate([none, *(one["owner"] for one in found)]),
        np.concatenate([box, *(one["lo"] for one in found)], axis=1),
        np.concatenate([box, *(one["hi"] for one in found)], axis=1),
    )


def answered(query: Query, answers: Answers, workers: int) -> Answered:
    """What came back, put together."""
    measured = Measured.none(workers)
    tables: list[pa.Table] = []
    entries: list[Entry] = []
    files: dict[str, list[File]] = {}
    for payload in answers.gathered:
        kind, data = payload[:1], payload[1:]
        if kind == ROWS:
            tables.append(unpack_table(data))
        elif kind == ENTRIES:
            for some in read_entries([data]).values():
                entries += some
        elif kind in (LAID, SENT, READ, MOVED):
            told = json.loads(data)
            worker = told["worker"]
            if kind == LAID:
                files[str(worker)] = [told["file"]] if told["file"] is not None else []
            elif kind == SENT:
                measured.links[worker] += told["links"]
                measured.sent[worker] += told["sent"]
            elif kind == READ:
                measured.reads[worker] += told["reads"]
                measured.bytes_read[worker] += told["bytes"]
                measured.joins[worker] += told["joins"]
                measured.add_times(worker, told)
            elif kind == MOVED:
                measured.rows_moved[worker] += told["rows"]
    work = query.work
    if work.cut.where == DRIVER:
        rows = work.cut.last(tables)
    else:
        from everfresh.types import arrow_schema

        rows = pa.concat_tables([no_rows(arrow_schema(work.columns)), *tables])
    return Answered(rows, entries, measured if query.plan is not None else None, files)
