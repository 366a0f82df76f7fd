"""The language of arrays: statements as immutable nodes, which print as text that parses back.

After the array languages that the paper on similarity joins builds on (section 2). Scalar expressions stay
the text that they are and are bound by SQL's binder when a statement is evaluated; shapes and mappings are
nodes of their own. `everfresh.arrays.aql_parser` reads the text, `everfresh.arrays.evaluate` gives its
meaning.

Invariant: `parse(str(statement)) == statement`.
"""

from __future__ import annotations

from everfresh.arrays.mapping import Affine, Mapping
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.shape import Shape
from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import quote_name
from everfresh.rewrite import Node, node
from everfresh.types import quoted

ROUND_ROBIN = "round-robin"
AUTO = "auto"
KEPT = "#"
"""How names begin under which workers keep what stands inside of a statement."""


class Statement(Node):
    """What a text asks for."""


class Operand(Statement):
    """Something that has an array as its value."""


@node
class CreateArray(Statement):
    """CREATE [UNIQUE] ARRAY [IF NOT EXISTS] name <attribute: type, ...> [dimension=first,last,chunk; ...]
    [WITH (placement = rule)] [FROM relation]: how chunks are dealt to workers, where there are several; and
    the table or SQL view whose rows are its cells."""

    schema: ArraySchema
    placement: str = ROUND_ROBIN
    if_not_exists: bool = False
    source: str = ""

    def __str__(self) -> str:
        rule = "" if self.placement == ROUND_ROBIN else f" WITH (placement = '{self.placement}')"
        source = f" FROM {quote_name(self.source)}" if self.source else ""
        found = self.schema.ddl + rule + source
        return found.replace(" ARRAY ", " ARRAY IF NOT EXISTS ", 1) if self.if_not_exists else found


@node
class DropArray(Statement):
    """DROP ARRAY [IF EXISTS] name [CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False

    def __str__(self) -> str:
        exists, cascade = "IF EXISTS " if self.if_exists else "", " CASCADE" if self.cascade else ""
        return f"DROP ARRAY {exists}{quote_name(self.name)}{cascade}"


@node
class CreateView(Statement):
    """CREATE ARRAY VIEW name [dimensions] [WITH (placement = rule, maintenance = method)] AS operand; without
    dimensions it is chunked as what it reads."""

    name: str
    operand: Operand
    dimensions: tuple[Dimension, ...] = ()
    placement: str = ROUND_ROBIN
    """How new chunks are dealt to workers."""
    maintenance: str = AUTO
    """How plans over workers are made (`everfresh.arrays.upkeep`)."""

    def __str__(self) -> str:
        box = f" [{'; '.join(map(str, self.dimensions))}]" if self.dimensions else ""
        given = {"placement": (self.placement, ROUND_ROBIN), "maintenance": (self.maintenance, AUTO)}
        told = [f"{name} = '{value}'" for name, (value, usual) in given.items() if value != usual]
        options = f" WITH ({', '.join(told)})" if told else ""
        return f"CREATE ARRAY VIEW {quote_name(self.name)}{box}{options} AS {self.operand}"


@node
class DropView(Statement):
    """DROP ARRAY VIEW [IF EXISTS] name [CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False

    def __str__(self) -> str:
        exists, cascade = "IF EXISTS " if self.if_exists else "", " CASCADE" if self.cascade else ""
        return f"DROP ARRAY VIEW {exists}{quote_name(self.name)}{cascade}"


@node
class Explain(Statement):
    """EXPLAIN [ANALYZE] query: how it is run; with ANALYZE it is run, and what was measured stands beside."""

    statement: Statement
    analyze: bool = False

    def __str__(self) -> str:
        return f"EXPLAIN {'ANALYZE ' if self.analyze else ''}{self.statement}"


# -- arrays ----------------------------------------------------------------------------------------------


def inner(operand: Operand) -> str:
    """An operand inside of another statement: a query stands in parentheses."""
    return f"({operand})" if isinstance(operand, Query) else str(operand)


@node
class Read(Operand):
    """An array by its name."""

    name: str

    def __str__(self) -> str:
        return quote_name(self.name)


@node
class Between(Operand):
    """BETWEEN(a, first indices, last indices): the cells in a box, where they are; SUBARRAY moves them, so
    that the box begins at 0."""

    input: Operand
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    moved: bool = False

    def __str__(self) -> str:
        box = ", ".join(map(str, (*self.lo, *self.hi)))
        return f"{'SUBARRAY' if self.moved else 'BETWEEN'}({inner(self.input)}, {box})"


@node
class Filter(Operand):
    """FILTER(a, condition): the tuples for which it is TRUE."""

    input: Operand
    condition: str

    def __str__(self) -> str:
        return f"FILTER({inner(self.input)}, {self.condition})"


@node
class Project(Operand):
    """PROJECT(a, attribute, ...): the cells with some of their attributes."""

    input: Operand
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"PROJECT({', '.join([inner(self.input), *map(quote_name, self.names)])})"


@node
class Regrid(Operand):
    """REGRID(a, factors, aggregate, ...): blocks of cells become one cell each."""

    input: Operand
    factors: tuple[int, ...]
    items: tuple[str, ...]

    def __str__(self) -> str:
        return f"REGRID({', '.join([inner(self.input), *map(str, self.factors), *self.items])})"


@node
class Apply(Operand):
    """APPLY(a, aggregate, ..., shape): for each cell that holds data, aggregates over the cells around it."""

    input: Operand
    items: tuple[str, ...]
    shape: Shape

    def __str__(self) -> str:
        return f"APPLY({', '.join([inner(self.input), *self.items, str(self.shape)])})"


# -- queries ---------------------------------------------------------------------------------------------


def name_of(operand: Operand) -> str:
    """What an operand in FROM goes by without AS: the array that it is made of, the first of several.

    >>> from everfresh.arrays.aql_parser import parse
    >>> name_of(parse("FILTER(PROJECT(a, v), v > 2)")), name_of(parse("SELECT * INTO t FROM a AS x"))
    ('a', 't')
    """
    while not isinstance(operand, Read):
        if isinstance(operand, Query):
            return operand.into or operand.left.alias
        assert isinstance(operand, Between | Filter | Project | Regrid | Apply)
        operand = operand.input
    return operand.name


@node
class Source(Node):
    """An array in FROM, and the name that it goes by."""

    array: Operand
    alias: str

    def __str__(self) -> str:
        return (
            inner(self.array)
            if name_of(self.array) == self.alias
            else f"{inner(self.array)} AS {quote_name(self.alias)}"
        )


@node
class SimilarityJoin(Node):
    """SIMILARITY JOIN b ON mapping WITH SHAPE shape: the right cells around the image of each left cell."""

    right: Source
    on: str
    mapping: Mapping | None
    """What `on` says, where that is the text of a mapping itself; else the names in `on` decide."""
    shape: Shape

    def __str__(self) -> str:
        return f"SIMILARITY JOIN {self.right} ON {self.on} WITH SHAPE {self.shape}"


@node
class EquiJoin(Node):
    """JOIN b ON equalities of dimensions and attributes."""

    right: Source
    on: str

    def __str__(self) -> str:
        return f"JOIN {self.right} ON {self.on}"


@node
class Query(Operand):
    """SELECT items [INTO name [dimensions]] FROM ... [WHERE condition] [GROUP BY keys].

    As an operand or with INTO its value is an array; else it is rows. `more` are the further joins of a
    chain, each with the array before it.
    """

    items: str
    left: Source
    join: SimilarityJoin | EquiJoin | None = None
    where: str = ""
    group: str = ""
    into: str = ""
    dimensions: tuple[Dimension, ...] = ()
    more: tuple[SimilarityJoin, ...] = ()
    tail: str = ""
    """HAVING, ORDER BY and LIMIT."""

    def __str__(self) -> str:
        box = f" [{'; '.join(map(str, self.dimensions))}]" if self.dimensions else ""
        into = f" INTO {quote_name(self.into)}{box}" if self.into else ""
        join = "".join(f" {join}" for join in (self.join, *self.more) if join is not None)
        where = f" WHERE {self.where}" if self.where else ""
        group = f" GROUP BY {self.group}" if self.group else ""
        return f"SELECT {self.items}{into} FROM {self.left}{join}{where}{group}{self._end}"

    @property
    def is_inside(self) -> bool:
        """Whether it stands inside of another statement, where the workers keep it under a name of theirs."""
        return not self.into or self.into.startswith(KEPT)

    @property
    def _end(self) -> str:
        return f" {self.tail}" if self.tail else ""

    @property
    def plain(self) -> bool:
        """Whether it gives its one array as it is."""
        return self.items == "*" and self.join is None and not (self.where or self.group)

    @property
    def sql(self) -> str:
        """The query over the pairs that the join finds, in SQL."""
        sources = quoted(self.left.alias)
        if isinstance(self.join, SimilarityJoin):
            sources += "".join(f", {quoted(join.right.alias)}" for join in (self.join, *self.more))
        elif isinstance(self.join, EquiJoin):
            sources += f" JOIN {quoted(self.join.right.alias)} ON {self.join.on}"
        where = f" WHERE {self.where}" if self.where else ""
        group = f" GROUP BY {self.group}" if self.group else ""
        return f"SELECT {self.items} FROM {sources}{where}{group}{self._end}"


def named_mapping(on: str, left: ArraySchema, right: ArraySchema, aliases: tuple[str, str]) -> Mapping:
    """The mapping that a condition of equalities between dimensions says.

    >>> from everfresh.arrays.aql_parser import parse
    >>> a, b = (parse(f"CREATE ARRAY {x} <> [i=1,4,2; j=1,4,2]").schema for x in "ab")
    >>> print(named_mapping("(b.j = a.i + 1 AND 2*a.j = b.i)", a, b, ("a", "b")))
    (2*x1, x0 + 1)
    """
    from everfresh.arrays.aql_parser import read_equalities

    found: dict[int, tuple[int, int, int]] = {}
    for k, term in read_equalities(on, left, right, aliases):
        found[k] = term
    missing = [d.name for k, d in enumerate(right.dimensions) if k not in found]
    if missing:
        raise EverfreshError(
            Code.ARGUMENT,
            f"ON says nothing of dimension '{missing[0]}' of {aliases[1]}",
            place=on,
            hint="every dimension of the right array needs one of the left array",
        )
    return Affine(tuple(found[k] for k in range(right.ndim)))
