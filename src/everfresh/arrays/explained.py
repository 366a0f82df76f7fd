"""EXPLAIN of statements about arrays: what is read, in what order, and for a similarity join how many chunks
and candidate cells meet, which follows from the boxes of chunks alone.

Nothing is run: of operands that are computed only what they are made of is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from everfresh.arrays import aql
from everfresh.arrays.cells import Array
from everfresh.arrays.evaluate import mapping_of
from everfresh.arrays.mapping import Boxes
from everfresh.arrays.model import Ints
from everfresh.arrays.shape import Shape
from everfresh.errors import Code, EverfreshError


def explained(statement: aql.Statement, arrays: Mapping[str, Array]) -> str:
    """How a query would be answered.

    >>> from everfresh.arrays.evaluate import create
    >>> from everfresh.arrays.aql_parser import parse
    >>> a = create("CREATE ARRAY a <v: INT> [i=1,8,2]", [(1, 10), (2, 20), (8, 80)])
    >>> print(explained(parse("APPLY(FILTER(a, v > 1), SUM(v), L1(1))"), {"a": a}))
    APPLY SUM(v) over L1(1): 3 offsets in 1 intervals
      FILTER v > 1
        a: 3 cells in 2 of 4 chunks
    """
    if not isinstance(statement, aql.Operand):
        raise EverfreshError(
            Code.SYNTAX, "EXPLAIN needs an array or a query", hint="EXPLAIN APPLY(a, SUM(v), L1(1))"
        )
    return "\n".join(_lines(statement, arrays))


def _lines(operand: aql.Operand, arrays: Mapping[str, Array]) -> list[str]:
    match operand:
        case aql.Read():
            return [_read(operand, arrays)]
        case aql.Between(of, lo, hi, moved):
            return _over(f"{'SUBARRAY' if moved else 'BETWEEN'} {lo} .. {hi}", [of], arrays)
        case aql.Filter(of, condition):
            return _over(f"FILTER {condition}", [of], arrays)
        case aql.Project(of, names):
            return _over(f"PROJECT {', '.join(names)}", [of], arrays)
        case aql.Regrid(of, factors, items):
            blocks = " x ".join(map(str, factors))
            return _over(f"REGRID {', '.join(items)} over blocks of {blocks}", [of], arrays)
        case aql.Apply(of, items, shape):
            ndim = _ndim(of, arrays)
            return _over(f"APPLY {', '.join(items)} over {_shape(shape, ndim)}", [of], arrays)
        case aql.Query():
            return _query(operand, arrays)
        case _:
            raise AssertionError(f"an operand without a rule: {type(operand).__name__}")


def _over(what: str, inputs: list[aql.Operand], arrays: Mapping[str, Array]) -> list[str]:
    return [what, *(f"  {line}" for one in inputs for line in _lines(one, arrays))]


def _query(query: aql.Query, arrays: Mapping[str, Array]) -> list[str]:
    text = f"SELECT {query.items}"
    text += f" INTO {query.into}" if query.into else ""
    text += f" WHERE {query.where}" if query.where else ""
    text += f" GROUP BY {query.group}" if query.group else ""
    join = query.join
    if join is None:
        return _over(text, [query.left.array], arrays)
    if isinstance(join, aql.EquiJoin):
        below = _over(f"JOIN ON {join.on}", [query.left.array, join.right.array], arrays)
        return [text, *(f"  {line}" for line in below)]
    ndim = _ndim(join.right.array, arrays)
    below = _over(
        f"SIMILARITY JOIN ON {join.on} WITH SHAPE {_shape(join.shape, ndim)}",
        [query.left.array, join.right.array],
        arrays,
    )
    below[1:1] = [f"  {line}" for line in _pairs(query, join, arrays)]
    return [text, *(f"  {line}" for line in below)]


def _array(operand: aql.Operand, arrays: Mapping[str, Array]) -> Array | None:
    if not isinstance(operand, aql.Read):
        return None
    known = {name.lower(): array for name, array in arrays.items()}
    if operand.name.lower() not in known:
        raise EverfreshError(
            Code.NOT_FOUND, f"there is no array '{operand.name}'", hint="arrays are: " + ", ".join(arrays)
        )
    return known[operand.name.lower()]


def _read(operand: aql.Read, arrays: Mapping[str, Array]) -> str:
    array = _array(operand, arrays)
    assert array is not None
    chunks = 1
    for d in array.schema.dimensions:
        chunks *= -(-(d.hi - d.lo + 1) // d.chunk)
    return f"{operand.name}: {len(array)} cells in {len(array.chunks)} of {chunks} chunks"


def _ndim(operand: aql.Operand, arrays: Mapping[str, Array]) -> int | None:
    while not isinstance(operand, aql.Read | aql.Query):
        operand = operand.input  # type: ignore[attr-defined]
    array = _array(operand, arrays)
    return None if array is None else array.schema.ndim


def _shape(shape: Shape, ndim: int | None) -> str:
    if ndim is None:
        return str(shape)
    shape.check_ndim(ndim)
    if any(low is None or high is None for low, high in shape.bounds(ndim)):
        return f"{shape}: offsets without bound"
    rows = shape.rows(ndim)
    return f"{shape}: {rows.cells} offsets in {len(rows.lo)} intervals"


def _pairs(query: aql.Query, join: aql.SimilarityJoin, arrays: Mapping[str, Array]) -> list[str]:
    """What is known of the pairs of chunks, where both arrays are there and the mapping keeps order."""
    from everfresh.arrays.plan import Chunks, Reach, problem

    left, right = _array(query.left.array, arrays), _array(join.right.array, arrays)
    if left is None or right is None:
        return ["chunk pairs: known when both sides are computed"]
    mapping = mapping_of(join, left.schema, right.schema, (query.left.alias, join.right.alias))
    if not mapping.keeps_order:
        return ["chunk pairs: known when the mapping has carried each cell"]
    if not (left.chunks and right.chunks):
        return ["chunk pairs: none, an array is empty"]

    def catalog(array: Array) -> Chunks:
        boxes = [chunk.box for chunk in array.chunks.values()]
        dimensions = array.schema.dimensions
        return Chunks.of(
            [lo for lo, _ in boxes],
            [hi for _, hi in boxes],
            cells=[len(chunk) for chunk in array.chunks.values()],
            start=[d.lo for d in dimensions],
            length=[d.chunk for d in dimensions],
        )

    def image(lo: Ints, hi: Ints) -> Boxes:
        least, most = mapping.image(lo.T, hi.T)
        return least.T, most.T

    bounds = join.shape.bounds(right.schema.ndim)
    reach = Reach.box([low for low, _ in bounds], [high for _, high in bounds])
    found = problem(catalog(left), reach, 1, catalog(right), image)
    every = len(left.chunks) * len(right.chunks)
    return [f"chunk pairs: {len(found.first)} of {every}, with {found.work.sum()} candidate pairs of cells"]
