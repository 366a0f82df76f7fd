"""A statement as workers run it: what is read, the plan's join, the cut of its query, and where results go.

A statement is understood by asking the evaluator about empty arrays: names, types and errors are its own.
Cells that change one by one on the way in (BETWEEN, FILTER, PROJECT of an array) do so chunk by chunk, where
a chunk is joined. Statements of other forms have no `Work`; they are evaluated over whole arrays.

Invariant: the rows that workers give, put together, are those that the evaluator gives over whole arrays, in
some order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from everfresh.arrays import aql, evaluate
from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.equijoin import EquiJoin
from everfresh.arrays.execute.joining import JoinSpec
from everfresh.arrays.execute.split import DRIVER, GROUPS, WORKERS, Cut, cut
from everfresh.arrays.execute.worker import Batch
from everfresh.arrays.model import ArraySchema
from everfresh.sql.logical.plan import Filter, Join, Plan, Project, Scan
from everfresh.sql.scalars import bind_select
from everfresh.types import Column, quoted

Schemas = Mapping[str, ArraySchema]


@dataclass(frozen=True)
class Source:
    """An array that is read, and what is done to each of its chunks on the way in."""

    name: str
    operand: aql.Operand
    stored: ArraySchema
    schema: ArraySchema

    def chunk(self, stored: Chunk) -> Chunk:
        """A chunk as the statement sees it: perhaps without cells."""
        if isinstance(self.operand, aql.Read):
            return stored
        value = evaluate.value_of(self.operand, {self.name: Array(self.stored, {0: stored})})
        return Chunk(value.table, self.schema.ndim)


@dataclass(frozen=True)
class Work:
    """A statement for workers. `result` is the schema of an array that it gives; `columns` are those of its
    rows. `along` says for each dimension of the left array which of the result is the same, if all are."""

    sources: tuple[Source, ...]
    spec: JoinSpec | None
    cut: Cut
    columns: tuple[Column, ...]
    result: ArraySchema | None = None
    into: bool = False
    along: tuple[int, ...] = ()
    equi: EquiJoin | None = None
    padded: Cut | None = None
    """APPLY: the same over no rows, for cells that have no partners."""

    @property
    def same(self) -> bool:
        """Whether both sides of the join are one array."""
        return self.spec is not None and self.spec.same

    @property
    def keeps(self) -> bool:
        """Whether workers can keep the result: who owns a chunk is known from what leaves a worker."""
        return self.cut.where == WORKERS or (self.cut.where == GROUPS and self.key_dimensions() is not None)

    def key_dimensions(self) -> tuple[int, ...] | None:
        """For each dimension of the result, which key of the groups it is; None if some is none."""
        if self.result is None:
            return None
        found = [_key_of(self.cut.final, d.name) for d in self.result.dimensions]
        return None if None in found else tuple(k for k in found if k is not None)

    def joined(self, batch: Batch) -> Iterator[pa.Table]:
        """The pairs of a batch of chunks as they were stored, as rows."""
        assert self.spec is not None
        yield from self.spec.rows(self._seen(batch))

    def _seen(self, batch: Batch) -> Batch:
        """The batch with its chunks as the statement sees them."""
        if all(isinstance(source.operand, aql.Read) for source in self.sources):
            return batch
        left, right = set(batch.left.tolist()), set(batch.right.tolist())
        one, other = self.sources[0], self.sources[-1]
        assert self.same or not left & right
        chunks = {k: (one if k in left or self.same else other).chunk(c) for k, c in batch.chunks.items()}
        return Batch(batch.left, batch.right, chunks)

    def scanned(self, chunks: Iterable[Chunk], side: int = 0) -> Iterator[pa.Table]:
        """The cells of chunks of one source as rows."""
        for chunk in chunks:
            yield self.sources[side].chunk(chunk).table


def _key_of(final: Plan, name: str) -> int | None:
    """Which key of the partial aggregates a column of the result is, if it is one as it stands."""
    wanted, plan = name, final
    while True:
        if isinstance(plan, Project):
            expr = dict(plan.items)[wanted]
            if not hasattr(expr, "name"):
                return None
            wanted = expr.name
        elif not isinstance(plan, Filter):
            break
        (plan,) = plan.inputs
    keys = [name for name, _ in getattr(plan, "keys", ())]
    if wanted not in keys:
        return None
    inner = getattr(plan, "keys")[keys.index(wanted)][1]  # noqa: B009 - an Aggregate, not a Scan
    return int(inner.name[2:]) if getattr(inner, "name", "").startswith("\0k") else None


def work_of(statement: aql.Statement, schemas: Schemas) -> Work | None:
    """A statement over stored arrays as workers run it; None for forms that they do not."""
    match statement:
        case aql.Query():
            work = _query(statement, schemas)
            return None if work is None or (work.into and not work.keeps) else work
        case aql.Regrid():
            return _regrid(statement, schemas)
        case aql.Apply():
            return _apply(statement, schemas)
        case aql.Read() | aql.Filter() | aql.Between() | aql.Project():
            source = _source(statement, schemas)
            if source is None:
                return None
            plan = bind_select(f"SELECT * FROM {quoted('a')}", {"a": source.schema.columns})
            leaf = _leaf(plan)
            if leaf is None:
                return None
            return Work((source,), None, cut(plan, leaf), plan.columns, source.schema)
        case _:
            return None


def _empty(schemas: Schemas) -> dict[str, Array]:
    return {name: Array(schema) for name, schema in schemas.items()}


def _source(operand: aql.Operand, schemas: Schemas) -> Source | None:
    """An operand that is one stored array, changed chunk by chunk at most."""
    inner: aql.Operand = operand
    while not isinstance(inner, aql.Read):
        if not isinstance(inner, aql.Filter | aql.Between | aql.Project):
            return None
        if isinstance(inner, aql.Between) and inner.moved and inner is not operand:
            return None
        inner = inner.input
    schema = evaluate.value_of(operand, _empty(schemas)).schema  # raises for what is not there
    (name,) = [name for name in schemas if name.lower() == inner.name.lower()][:1]
    return Source(name, operand, schemas[name], schema)


def _leaf(plan: Plan, equal: bool = False) -> Plan | None:
    """The only input of a plan without subqueries: a scan, or a join of two, without a condition unless by
    what is `equal`."""
    while not plan.subqueries:
        if isinstance(plan, Scan):
            return plan
        if isinstance(plan, Join):
            both = isinstance(plan.left, Scan) and isinstance(plan.right, Scan)
            both = both and (plan.condition is None) != equal
            return plan if both and plan.kind == "inner" else None
        if len(plan.inputs) != 1:
            return None
        (plan,) = plan.inputs
    return None


def _query(query: aql.Query, schemas: Schemas) -> Work | None:
    """SELECT over one array, or over the pairs of a similarity join."""
    inner = query.left.array
    moved = isinstance(inner, aql.Between) and inner.moved
    if query.into and query.plain and (moved or isinstance(inner, aql.Apply | aql.Regrid)):
        return _kept(query, work_of(inner, schemas), schemas)
    if query.more:
        return None  # chains are evaluated over whole arrays
    operands = [query.left.array] + ([query.join.right.array] if query.join is not None else [])
    sources = [_source(operand, schemas) for operand in operands]
    found = tuple(source for source in sources if source is not None)
    if len(found) < len(sources) or any(
        isinstance(s.operand, aql.Between) and s.operand.moved for s in found
    ):
        return None
    plan, aliases, stored = evaluate.described(query, _empty(schemas))
    leaf = _leaf(plan, isinstance(query.join, aql.EquiJoin))
    equi = EquiJoin.of(leaf) if leaf is not None else None
    if leaf is None or (isinstance(query.join, aql.EquiJoin) and equi is None):
        return None
    spec: JoinSpec | None = None
    along: tuple[int, ...] = ()
    if isinstance(query.join, aql.SimilarityJoin):
        mapping = evaluate.mapping_of(query.join, found[0].schema, found[1].schema, (aliases[0], aliases[1]))
        same = found[0].name == found[1].name and found[0].operand == found[1].operand
        spec = JoinSpec(found[0].schema, found[1].schema, mapping, query.join.shape, same)
        found = found[:1] if same else found
    parted = cut(plan, leaf)
    if stored is not None and equi is None:
        along = _along(parted, leaf, found[0].schema, stored)
    return Work(found, spec, parted, plan.columns, stored, bool(query.into), along, equi)


def _kept(query: aql.Query, work: Work | None, schemas: Schemas) -> Work | None:
    """The value of an operator, kept under a name by SELECT * INTO."""
    _, _, result = evaluate.described(query, _empty(schemas))
    if work is None or work.result is None or result is None:
        return None
    along = work.along if result.dimensions == work.result.dimensions else ()
    if work.padded is not None and not along:
        return None
    return replace(work, result=result, into=True, along=along)


def _along(parted: Cut, leaf: Plan, left: ArraySchema, result: ArraySchema) -> tuple[int, ...]:
    """For each dimension of the left array, which of the result is the same; nothing if one is missing."""
    known = {v.name: k for k, v in enumerate(leaf.variables[: left.ndim])}
    found: dict[int, int] = {}
    for at, dimension in enumerate(result.dimensions):
        name, plan = dimension.name, parted.final
        name_in = evaluate.traced(plan, name)
        if name_in is None:
            continue
        if name_in.startswith("\0k"):
            name_in = evaluate.traced(parted.below, name_in)
        if name_in in known:
            found[known[name_in]] = at
    return tuple(found[k] for k in range(left.ndim)) if len(found) == left.ndim else ()


def _regrid(operand: aql.Regrid, schemas: Schemas) -> Work | None:
    """Blocks of cells as groups."""
    source = _source(operand.input, schemas)
    if source is None or (isinstance(source.operand, aql.Between) and source.operand.moved):
        return None
    result = evaluate.value_of(operand, _empty(schemas)).schema
    plan = evaluate.regrid_plan(operand, source.schema)
    leaf = _leaf(plan)
    return Work((source,), None, cut(plan, leaf), plan.columns, result) if leaf is not None else None


def _apply(operand: aql.Apply, schemas: Schemas) -> Work | None:
    """Aggregates over neighbours: groups by the left cell, and what they are over nothing."""
    from everfresh.arrays.mapping import identity

    source = _source(operand.input, schemas)
    if source is None or (isinstance(source.operand, aql.Between) and source.operand.moved):
        return None
    result = evaluate.value_of(operand, _empty(schemas)).schema
    schema = source.schema
    centers = tuple(Column(f"\0c{k}", c.type, False) for k, c in enumerate(schema.columns[: schema.ndim]))
    rest = tuple(Column(f"\0r{k}", c.type, c.nullable) for k, c in enumerate(schema.attributes))
    relation = {schema.name: (*centers, *rest, *schema.columns)}
    keys, items = ", ".join(quoted(c.name) for c in centers), ", ".join(operand.items)
    named = ", ".join(
        f"{quoted(c.name)} AS {quoted(d.name)}" for c, d in zip(centers, schema.dimensions, strict=True)
    )
    name = quoted(schema.name)
    plan = bind_select(f"SELECT {named}, {items} FROM {name} GROUP BY {keys}", relation)
    leaf = _leaf(plan)
    if leaf is None:
        return None
    alone = bind_select(f"SELECT {items} FROM {name}", relation)
    below = _leaf(alone)
    assert below is not None
    spec = JoinSpec(schema, schema, identity(schema.ndim), operand.shape, same=True, centers=True)
    parted = cut(plan, leaf)
    if parted.where == DRIVER:
        return None
    along = tuple(range(schema.ndim))
    return Work((source,), spec, parted, plan.columns, result, False, along, None, cut(alone, below))
