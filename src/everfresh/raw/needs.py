"""What a statement about arrays needs of external ones: the boxes of its arrays, and its joins by shape.

The needed box of a statement's result is carried down to the arrays that it reads: BETWEEN, FILTER and WHERE
make it smaller, APPLY and a similarity join widen it by their shape, REGRID and SUBARRAY move it.

Invariant: evaluated over the cells in these boxes alone, a statement gives what it gives over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from everfresh.arrays import aql
from everfresh.arrays.mapping import Mapping as CellMapping
from everfresh.arrays.mapping import reduced
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.shape import Shape
from everfresh.raw.bounds import box_of, scans_within
from everfresh.raw.boxes import Box
from everfresh.raw.cache.asking import Ask
from everfresh.raw.cache.joining import Join
from everfresh.sql.scalars import bind_select


@dataclass
class Needs:
    """What has been found so far."""

    boxes: dict[str, list[Box]] = field(default_factory=dict)
    joins: list[Join] = field(default_factory=list)

    def add(self, name: str, box: Box | None) -> None:
        """A part of an array is needed; None for a part without cells."""
        known = self.boxes.setdefault(name, [])
        if box is not None and box not in known:
            known.append(box)

    @property
    def asks(self) -> list[Ask]:
        """A question for each array of which something is needed."""
        return [Ask(name, tuple(boxes)) for name, boxes in self.boxes.items() if boxes]


def needs_of(statement: aql.Operand, schemas: Mapping[str, ArraySchema]) -> Needs:
    """What a statement needs of the arrays with these schemas.

    >>> from everfresh.arrays.aql_parser import parse
    >>> a = parse("CREATE ARRAY a <v: INT> [i=1,90,10]").schema
    >>> needs_of(parse("BETWEEN(APPLY(a, SUM(v), LINF(2)), 10, 20)"), {"a": a}).boxes
    {'a': [Box(lo=(8,), hi=(22,))]}
    """
    found = Needs()
    _Walk(schemas, found).operand(statement, None)
    return found


class _Walk:
    """Down a statement; a box of None is all of an operand's value."""

    def __init__(self, schemas: Mapping[str, ArraySchema], found: Needs) -> None:
        self._schemas = {name.lower(): schema for name, schema in schemas.items()}
        self._names = {name.lower(): name for name in schemas}
        self._found = found

    def operand(self, operand: aql.Operand, box: Box | None) -> None:
        """A part of an operand's value is needed."""
        match operand:
            case aql.Read(name):
                schema = self._schemas.get(name.lower())
                if schema is not None:
                    whole = Box.of(schema.lo, schema.hi)
                    self._found.add(self._names[name.lower()], whole if box is None else whole.met(box))
            case aql.Between(below, lo, hi, moved):
                given = Box(lo, hi)
                if moved and box is not None:
                    box = Box.of(np.add(box.lo, lo), np.add(box.hi, lo))
                self.operand(
                    below, given if box is None or len(box.lo) != len(lo) else given.met(box) or given
                )
            case aql.Filter(below, condition):
                self.operand(below, self._narrowed(below, condition, box))
            case aql.Project(below, _):
                self.operand(below, box)
            case aql.Regrid(below, factors, _):
                self.operand(below, self._coarse(below, factors, box))
            case aql.Apply(below, _, shape):
                self.operand(below, self._around(below, shape, box))
            case aql.Query():
                self._query(operand, box)
            case _:
                raise AssertionError(f"an operand without a rule: {type(operand).__name__}")

    # -- operands of one array -------------------------------------------------------------------------

    def _schema(self, operand: aql.Operand) -> ArraySchema | None:
        """The dimensions of an operand's value, where they are those of an array that it reads."""
        match operand:
            case aql.Read(name):
                return self._schemas.get(name.lower())
            case aql.Between(below, _, _, False) | aql.Filter(below, _) | aql.Apply(below, _, _):
                return self._schema(below)
            case aql.Project(below, _):
                return self._schema(below)
            case _:
                return None

    def _narrowed(self, below: aql.Operand, condition: str, box: Box | None) -> Box | None:
        schema = self._schema(below)
        if schema is None or not isinstance(below, aql.Read):
            return box  # the columns of other values are not known here
        name = schema.name
        plan = bind_select(f'SELECT * FROM "{name}" WHERE {condition}', {name: schema.columns})
        for scan, conditions in scans_within(plan):
            if scan.table == name:
                found = box_of(schema, scan, conditions)
                if found is not None:
                    return found if box is None else found.met(box) or found
        return box

    def _coarse(self, below: aql.Operand, factors: tuple[int, ...], box: Box | None) -> Box | None:
        schema = self._schema(below)
        if box is None or schema is None or len(factors) != schema.ndim:
            return None
        lo = [int(d.lo + (x - d.lo) * f) for d, x, f in zip(schema.dimensions, box.lo, factors, strict=True)]
        hi = [
            int(d.lo + (x - d.lo + 1) * f - 1)
            for d, x, f in zip(schema.dimensions, box.hi, factors, strict=True)
        ]
        return Box.of(lo, hi)

    def _around(self, below: aql.Operand, shape: Shape, box: Box | None) -> Box | None:
        if box is None:
            return None
        wide = box.widened(shape.bounds(len(box.lo)))
        return box.hull(wide)

    # -- queries -----------------------------------------------------------------------------------------

    def _query(self, query: aql.Query, box: Box | None) -> None:
        sources = [query.left] if query.join is None else [query.left, query.join.right]
        schemas = [self._schema(source.array) for source in sources]
        boxes: list[Box | None] = [None for _ in sources]
        known = {s.alias: schema.columns for s, schema in zip(sources, schemas, strict=True) if schema}
        if len(known) == len(sources) and all(isinstance(s.array, aql.Read | aql.Between) for s in sources):
            boxes = self._conditions(query, sources, schemas)
        join = query.join
        if isinstance(join, aql.SimilarityJoin) and len(known) == 2:
            left, right = schemas
            assert left is not None
            assert right is not None
            mapping = join.mapping or aql.named_mapping(
                join.on, left, right, (sources[0].alias, sources[1].alias)
            )
            boxes = _joined(left, right, boxes[0], boxes[1], mapping, join.shape)
            names = (self._names[left.name.lower()], self._names[right.name.lower()])
            self._found.joins.append(Join(*names, mapping, join.shape))
        for source, each in zip(sources, boxes, strict=True):
            self.operand(source.array, each)

    def _conditions(
        self, query: aql.Query, sources: list[aql.Source], schemas: list[ArraySchema | None]
    ) -> list[Box | None]:
        """What WHERE says of each array."""
        columns = {s.alias: schema.columns for s, schema in zip(sources, schemas, strict=True) if schema}
        if len(columns) != len(sources):
            return [None for _ in sources]
        where = f" WHERE {query.where}" if query.where else ""
        text = "SELECT 1 AS one FROM " + ", ".join(f'"{alias}"' for alias in columns) + where
        plan = bind_select(text, columns)
        found: list[Box | None] = []
        for source, schema in zip(sources, schemas, strict=True):
            assert schema is not None
            scan = next(s for s in scans_within(plan) if s[0].table == source.alias)
            box = box_of(schema, *scan) or Box.of(schema.lo, schema.lo)
            found.append(_within(source.array, box))
        return found


def _within(operand: aql.Operand, box: Box) -> Box:
    """The part of a box in which an operand has cells at all."""
    match operand:
        case aql.Between(below, lo, hi, False):
            return _within(below, box.met(Box(lo, hi)) or Box(box.lo, box.lo))
        case _:
            return box


def _joined(
    left: ArraySchema,
    right: ArraySchema,
    one: Box | None,
    other: Box | None,
    mapping: CellMapping,
    shape: Shape,
) -> list[Box | None]:
    """What a join by shape needs: cells from which the other side can be reached."""
    one = one or Box.of(left.lo, left.hi)
    other = other or Box.of(right.lo, right.hi)
    bounds = shape.bounds(right.ndim)
    corners = [(np.array(b.lo, np.int64), np.array(b.hi, np.int64)) for b in (one, other)]
    if mapping.keeps_order:
        lo, hi = mapping.image(corners[0][0][:, None], corners[0][1][:, None])
        reach = Box.of(lo[:, 0], hi[:, 0]).widened(bounds)
        other = other.met(reach) or Box.of(right.lo, right.lo)
    near = reduced(mapping, bounds, corners[0], corners[1])
    if near is not None:
        one = Box.of(*near)
    return [one, other]
