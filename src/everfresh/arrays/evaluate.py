"""What a statement about arrays means, over arrays in memory: what engines and workers call.

A similarity join finds pairs of cells by `join`; all that comes after, conditions, expressions, groups and
aggregates, is SQL over those pairs, bound and run by the same code as every query of everfresh. So is all of
an equi-join. APPLY goes block by block, so that the pairs of one block at most are held.

Invariant: the result does not depend on how the arrays are chunked; a query with INTO, or inside of another
one, gives an array whose dimensions are those named, else the left array's and the right's that are selected;
INTO cuts the left ones to what the right array can be reached from, as Example 2 of the paper has it, while
inside of another one they are whole, as in views, so that blocks of REGRID begin where they do there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.cells import Array, array_of
from everfresh.arrays.chunk import coordinates
from everfresh.arrays.join import Cells, counted, matched
from everfresh.arrays.mapping import Mapping as CellMapping
from everfresh.arrays.mapping import check_mapping, reduced
from everfresh.arrays.model import ArraySchema, Dimension, Ints
from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Var
from everfresh.sql.logical.plan import Aggregate, Join, Plan, Project, Scan, Subquery, Window
from everfresh.sql.scalars import bind_select
from everfresh.types import BIGINT, Column, quoted

_PAIRS = "\0pairs"  # no relation of a user has this name
_BLOCK = 1 << 21


def create(ddl: str, cells: Any = ()) -> Array:
    """The array of a CREATE ARRAY statement, with these cells.

    >>> a = create("CREATE ARRAY a <v: INT> [i=1,8,2]", [(1, 10), (8, 80)])
    >>> a.schema.name, len(a), sorted(a.chunks)
    ('a', 2, [0, 3])
    """
    from everfresh.arrays.aql_parser import parse

    statement = parse(ddl)
    if not isinstance(statement, aql.CreateArray):
        raise EverfreshError(
            Code.SYNTAX, "this creates no array", place=ddl, hint="CREATE ARRAY a <v: INT> [i=1,8,2]"
        )
    return (
        Array(statement.schema)
        if isinstance(cells, tuple) and not cells
        else array_of(statement.schema, cells)
    )


def query(text: str, **arrays: Array) -> Array | pa.Table:
    """The array or the rows that a statement gives over these arrays.

    >>> a = create("CREATE ARRAY a <v: INT> [i=1,8,2]", [(1, 10), (2, 20), (8, 80)])
    >>> query("APPLY(a, SUM(v) AS s, LINF(1))", a=a).to_arrow().column("s").to_pylist()
    [Decimal('30'), Decimal('30'), Decimal('80')]
    """
    from everfresh.arrays.aql_parser import parse

    return evaluate(parse(text), arrays)


def evaluate(statement: aql.Statement, arrays: Mapping[str, Array]) -> Array | pa.Table:
    """The array or the rows that a statement gives over these arrays.

    >>> from everfresh.arrays.aql_parser import parse
    >>> schema = parse("CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,2]").schema
    >>> a = array_of(schema, [(1, 1, 5), (1, 2, 7), (4, 4, 1)])
    >>> evaluate(parse("APPLY(a, SUM(v) AS s, L1(1))"), {"a": a}).to_arrow().to_pydict()
    {'i': [1, 1, 4], 'j': [1, 2, 4], 's': [Decimal('12'), Decimal('12'), Decimal('1')]}
    """
    if isinstance(statement, aql.Query) and not statement.into:
        return _rows(statement, arrays)[0]
    if not isinstance(statement, aql.Operand):
        raise EverfreshError(
            Code.UNSUPPORTED, f"'{statement}' is not a query", hint="a database runs CREATE and DROP"
        )
    return value_of(statement, arrays)


def value_of(operand: aql.Operand, arrays: Mapping[str, Array]) -> Array:
    """The array that an operand stands for."""
    match operand:
        case aql.Read():
            found = next((name for name in arrays if name.lower() == operand.name.lower()), None)
            if found is None:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"there is no array '{operand.name}'",
                    hint="arrays are: " + ", ".join(arrays),
                )
            return arrays[found]
        case aql.Between():
            return _between(operand, value_of(operand.input, arrays))
        case aql.Filter():
            of = value_of(operand.input, arrays)
            return array_of(of.schema, _select("*", of, f" WHERE {operand.condition}"))
        case aql.Project():
            return _projected(operand, value_of(operand.input, arrays))
        case aql.Regrid():
            return _regridded(operand, value_of(operand.input, arrays))
        case aql.Apply():
            return _applied(operand, value_of(operand.input, arrays))
        case aql.Query():
            return _into(operand, *_rows(operand, arrays))
        case _:
            raise AssertionError(f"an operand without a rule: {type(operand).__name__}")


# -- SQL over arrays -------------------------------------------------------------------------------------


def _run(plan: Plan, tables: Mapping[str, pa.Table]) -> pa.Table:
    from everfresh.local.adhoc import execute

    return execute(plan, tables.__getitem__)


def _select(items: str, array: Array, rest: str = "") -> pa.Table:
    """A query over the cells of one array."""
    name = array.schema.name
    plan = bind_select(f"SELECT {items} FROM {quoted(name)}{rest}", {name: array.schema.columns})
    return _run(plan, {name: array.table})


def _made(
    name: str, dimensions: tuple[Dimension, ...], table: pa.Table, columns: tuple[Column, ...]
) -> Array:
    """An array of a query's rows."""
    rest = tuple(c for c in columns if c.name not in [d.name for d in dimensions])
    return array_of(ArraySchema(name, dimensions, rest), table)


# -- operands of one array -------------------------------------------------------------------------------


def _wrong_count(what: str, schema: ArraySchema) -> EverfreshError:
    return EverfreshError(
        Code.ARGUMENT,
        f"{what} of array '{schema.name}' needs {schema.ndim} dimensions",
        hint="dimensions are: " + ", ".join(schema.dimension_names),
    )


def _between(operand: aql.Between, of: Array) -> Array:
    schema = of.schema
    if len(operand.lo) != schema.ndim:
        raise _wrong_count("SUBARRAY" if operand.moved else "BETWEEN", schema)
    lo, hi = (np.array(bound, np.int64)[:, None] for bound in (operand.lo, operand.hi))
    coords = coordinates(of.table, schema.ndim)
    table = of.table.filter(pa.array(((lo <= coords) & (coords <= hi)).all(axis=0)))
    if not operand.moved:
        return array_of(schema, table)
    dimensions = []
    for k, d in enumerate(schema.dimensions):
        dimensions.append(Dimension(d.name, 0, operand.hi[k] - operand.lo[k], d.chunk))
        table = table.set_column(k, d.name, pa.array(coordinates(table, schema.ndim)[k] - operand.lo[k]))
    return array_of(ArraySchema(schema.name, tuple(dimensions), schema.attributes, schema.unique), table)


def _projected(operand: aql.Project, of: Array) -> Array:
    items = ", ".join(quoted(n) for n in (*of.schema.dimension_names, *operand.names))
    plan = bind_select(f"SELECT {items} FROM {quoted(of.schema.name)}", {of.schema.name: of.schema.columns})
    table = _run(plan, {of.schema.name: of.table})
    return _made(of.schema.name, of.schema.dimensions, table, plan.columns)


def _regridded(operand: aql.Regrid, of: Array) -> Array:
    schema = of.schema
    dimensions, plan = _regrid(operand, schema)
    return _made(schema.name, dimensions, _run(plan, {schema.name: of.table}), plan.columns)


def regrid_plan(operand: aql.Regrid, schema: ArraySchema) -> Plan:
    """REGRID over an array with this schema as a query."""
    return _regrid(operand, schema)[1]


def _regrid(operand: aql.Regrid, schema: ArraySchema) -> tuple[tuple[Dimension, ...], Plan]:
    if len(operand.factors) != schema.ndim or min(operand.factors) < 1:
        raise _wrong_count("REGRID", schema)
    dimensions, keys = [], []
    for d, factor in zip(schema.dimensions, operand.factors, strict=True):
        last = d.lo + (d.hi - d.lo) // factor
        dimensions.append(Dimension(d.name, d.lo, last, max(1, d.chunk // factor)))
        name = quoted(d.name)
        keys.append(f"CAST({d.lo} + (({name}) - ({d.lo})) // {factor} AS BIGINT)")
    named = ", ".join(f"{key} AS {quoted(d.name)}" for key, d in zip(keys, dimensions, strict=True))
    text = (
        f"SELECT {', '.join([named, *operand.items])} FROM {quoted(schema.name)} GROUP BY {', '.join(keys)}"
    )
    return tuple(dimensions), bind_select(text, {schema.name: schema.columns})


def _applied(operand: aql.Apply, of: Array) -> Array:
    """Aggregates over the neighbours of each cell; where there are none, over no rows."""
    schema = of.schema
    operand.shape.check_ndim(schema.ndim)
    everything = Cells.of(coordinates(of.table, schema.ndim))
    distinct = np.unique(everything.coords, axis=1)
    centers = Cells.of(distinct)
    key, items = quoted(_PAIRS), ", ".join(operand.items)
    relation = {schema.name: (Column(_PAIRS, BIGINT, False), *schema.columns)}
    grouped = bind_select(f"SELECT {key}, {items} FROM {quoted(schema.name)} GROUP BY {key}", relation)
    single = bind_select(f"SELECT {items} FROM {quoted(schema.name)}", relation)
    if any(isinstance(node, Subquery | Window) for node in single.walk()):
        raise EverfreshError(
            Code.UNSUPPORTED,
            "APPLY with a subquery or a window",
            hint="what it aggregates are the cells around a cell; compute the rest in a query around it",
        )
    columns = single.columns
    counts = counted(centers, everything, operand.shape)
    found = []
    for begin, end in _blocks(counts):
        some = Cells.of(distinct[:, begin:end])
        i, j = matched(some, everything, operand.shape)
        rows = of.table.take(j).add_column(0, _PAIRS, pa.array(i + begin))
        found.append(_run(grouped, {schema.name: rows}))
    empty = of.table.slice(0, 0).add_column(0, _PAIRS, pa.array([], pa.int64()))
    alone = np.flatnonzero(counts == 0)
    nothing = _run(single, {schema.name: empty}).take(np.zeros(len(alone), np.int64))
    found.append(nothing.add_column(0, _PAIRS, pa.array(alone)))
    table = pa.concat_tables(found, promote_options="default")
    at = distinct[:, table.column(0).to_numpy()]
    table = table.remove_column(0)
    for k, d in enumerate(schema.dimensions):
        table = table.add_column(k, d.name, pa.array(at[k]))
    nullable = tuple(Column(c.name, c.type) for c in columns)
    return array_of(ArraySchema(schema.name, schema.dimensions, nullable, True), table)


def _blocks(counts: Ints) -> list[tuple[int, int]]:
    """Ranges of left cells with about so many pairs that they are held together."""
    total = np.cumsum(counts)
    steps = np.arange(_BLOCK, (int(total[-1]) if len(total) else 0) + _BLOCK, _BLOCK)
    ends = np.unique(np.append(np.searchsorted(total, steps, "left") + 1, len(counts)))
    ends = ends[ends <= len(counts)]
    begins = np.append(0, ends[:-1])
    return [(int(a), int(b)) for a, b in zip(begins, ends, strict=True) if a < b]


# -- queries of one or two arrays ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Joined:
    """What a query reads: its arrays under their names, and the dimensions that its result may have."""

    schemas: tuple[ArraySchema, ...]
    aliases: tuple[str, ...]
    dimensions: tuple[tuple[Dimension, ...], ...]


def _rows(query: aql.Query, arrays: Mapping[str, Array]) -> tuple[pa.Table, Plan, _Joined]:
    joins = [join for join in (query.join, *query.more) if join is not None]
    sources = [query.left, *(join.right for join in joins)]
    given = [value_of(source.array, arrays) for source in sources]
    aliases = tuple(source.alias for source in sources)
    schemas = tuple(array.schema for array in given)
    text = _starred(query, schemas, aliases)
    if len({a.lower() for a in aliases}) != len(aliases):
        raise EverfreshError(
            Code.EXISTS,
            f"two arrays of FROM are called '{aliases[0]}'",
            hint=f"FROM {aliases[0]} SIMILARITY JOIN {aliases[0]} AS b",
        )
    plan = bind_select(text, {a: s.columns for a, s in zip(aliases, schemas, strict=True)})
    dimensions = tuple(schema.dimensions for schema in schemas)
    if isinstance(query.join, aql.SimilarityJoin):
        pairs, ranges = _chained((query.join, *query.more), given, aliases)
        named = {a: array.table for a, array in zip(aliases, given, strict=True)}  # for subqueries
        table = _run(over_pairs(plan), {**named, _PAIRS: pairs})
        if not query.is_inside:
            dimensions = (ranges, *dimensions[1:])
    else:
        table = _run(plan, {a: array.table for a, array in zip(aliases, given, strict=True)})
    return table, plan, _Joined(schemas, aliases, dimensions)


def _starred(query: aql.Query, schemas: tuple[ArraySchema, ...], aliases: tuple[str, ...]) -> str:
    """The query in SQL, `*` as columns with names of their own."""
    if query.items != "*" or len(schemas) == 1:
        return query.sql
    items = ", ".join(
        f"{quoted(alias)}.{quoted(name)} AS {quoted(shown)}"
        for schema, alias in zip(schemas, aliases, strict=True)
        for name, shown in _shown(schema, alias, schemas)
    )
    changed = replace(query, items=items)
    return changed.sql


def _shown(schema: ArraySchema, alias: str, schemas: tuple[ArraySchema, ...]) -> list[tuple[str, str]]:
    """The columns of an array and the names that they have in a result: `a_i` where both arrays have `i`."""
    known = [name.lower() for each in schemas for name in each.names]
    return [(n, n if known.count(n.lower()) == 1 else f"{alias}_{n}") for n in schema.names]


def over_pairs(plan: Plan, name: str = _PAIRS) -> Plan:
    """The plan with the cross join of its arrays replaced by rows that were found; subqueries stay."""

    def change(node: Any) -> Any:
        if isinstance(node, Join) and _crossed(node):
            return Scan(name, name, node.variables)
        return node.map_children(change) if isinstance(node, Plan) else node

    found: Plan = change(plan)
    return found


def _crossed(plan: Any) -> bool:
    return isinstance(plan, Scan) or (
        isinstance(plan, Join) and plan.condition is None and _crossed(plan.left) and _crossed(plan.right)
    )


def _chained(
    joins: Sequence[aql.SimilarityJoin], given: Sequence[Array], aliases: tuple[str, ...]
) -> tuple[pa.Table, tuple[Dimension, ...]]:
    """The rows of a chain of similarity joins, and the left array's dimensions as far as they reach."""
    left = given[0].schema
    ranges = left.dimensions
    rows = [np.arange(len(given[0]))]
    for k, join in enumerate(joins):
        a, b = given[k], given[k + 1]
        mapping = mapping_of(join, a.schema, b.schema, (aliases[k], aliases[k + 1]))
        join.shape.check_ndim(b.schema.ndim)
        images = mapping.cells(coordinates(a.table, a.schema.ndim))
        i, j = matched(Cells.of(images), Cells.of(coordinates(b.table, b.schema.ndim)), join.shape)
        places, found = extended(rows[-1], i, j)
        rows = [*(known[places] for known in rows), found]
        if k == 0:
            bounds = join.shape.bounds(b.schema.ndim)
            box = reduced(mapping, bounds, (left.lo, left.hi), (b.schema.lo, b.schema.hi))
            if box is not None:
                ranges = tuple(
                    Dimension(d.name, int(lo), int(hi), d.chunk)
                    for d, lo, hi in zip(ranges, *box, strict=True)
                )
    columns = [c for array, some in zip(given, rows, strict=True) for c in array.table.take(some).columns]
    return pa.Table.from_arrays(columns, [f"{k}" for k in range(len(columns))]), ranges


def extended(known: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Rows joined with pairs by the left row that they have: the places of the rows, and the right rows.

    >>> [x.tolist() for x in extended(np.array([5, 7, 5]), np.array([5, 7, 5]), np.array([1, 2, 3]))]
    [[0, 0, 1, 2, 2], [1, 3, 2, 1, 3]]
    """
    order = np.argsort(left, kind="stable")
    left, right = left[order], right[order]
    begins, ends = np.searchsorted(left, known), np.searchsorted(left, known, "right")
    lengths = ends - begins
    starts = np.cumsum(lengths) - lengths
    places = np.repeat(np.arange(len(known)), lengths)
    return places, right[np.arange(int(lengths.sum())) + np.repeat(begins - starts, lengths)]


def mapping_of(
    join: aql.SimilarityJoin, left: ArraySchema, right: ArraySchema, aliases: tuple[str, str]
) -> CellMapping:
    """Where the cells of the left array lie in the right one."""
    found = join.mapping or aql.named_mapping(join.on, left, right, aliases)
    check_mapping(found, left.ndim, right.ndim)
    return found


def _into(query: aql.Query, table: pa.Table, plan: Plan, joined: _Joined) -> Array:
    """The rows of a query as an array."""
    columns = plan.columns
    name = query.into or joined.aliases[0]
    if query.dimensions:
        chosen = {d.name.lower(): d for d in query.dimensions}
        lower = [c.name.lower() for c in columns]
        missing = [d.name for d in query.dimensions if d.name.lower() not in lower]
        if missing:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"INTO names a dimension '{missing[0]}' that is not selected",
                hint="columns are: " + ", ".join(c.name for c in columns),
            )
    else:
        chosen = {}
        for schema, alias, dimensions in zip(joined.schemas, joined.aliases, joined.dimensions, strict=True):
            shown = dict(_shown(schema, alias, joined.schemas))
            for d in dimensions:
                for known in (shown[d.name], d.name):
                    chosen.setdefault(known.lower(), Dimension(known, d.lo, d.hi, d.chunk))
        own = _own_dimensions(plan, joined)
        chosen |= {name: d for name, d in own.items() if name in chosen}  # `i` may be that of either array
    picked = tuple(replace(chosen[c.name.lower()], name=c.name) for c in columns if c.name.lower() in chosen)
    if not picked:
        raise EverfreshError(
            Code.ARGUMENT,
            "none of the columns is a dimension",
            hint=f"select some, or name them: INTO {name} [i=1,100,10]",
        )
    return _made(name, picked, table, columns)


def _own_dimensions(plan: Plan, joined: _Joined) -> dict[str, Dimension]:
    """The columns of a query that are dimensions of its arrays as they stand, in lower case."""
    known: dict[str, Dimension] = {}
    left = [plan]
    while left:
        node = left.pop()
        left += node.inputs
        if isinstance(node, Scan) and node.alias in joined.aliases:
            of = joined.dimensions[joined.aliases.index(node.alias)]
            known |= {v.name: d for v, d in zip(node.vars, of, strict=False)}
    found = {c.name: traced(plan, c.name) for c in plan.variables}
    return {name.lower(): known[at] for name, at in found.items() if at in known}


def traced(plan: Plan, name: str) -> str | None:
    """The variable at the bottom of a plan that one of its columns is, as it stands."""
    while len(plan.inputs) == 1:
        if isinstance(plan, (Project, Aggregate)):
            items = dict(plan.items if isinstance(plan, Project) else plan.keys)
            found = items.get(name)
            if not isinstance(found, Var):
                return None
            name = found.name
        elif name not in [v.name for v in plan.inputs[0].variables]:
            return None
        (plan,) = plan.inputs
    return name


def described(
    query: aql.Query, arrays: Mapping[str, Array]
) -> tuple[Plan, tuple[str, ...], ArraySchema | None]:
    """What a query means over arrays with these schemas: its plan, the names of what it reads, and the schema
    of the array that INTO keeps."""
    table, plan, joined = _rows(query, arrays)
    return plan, joined.aliases, _into(query, table, plan, joined).schema if query.into else None
