"""The language of arrays, read: text in, a statement of `everfresh.arrays.aql` out.

    CREATE [UNIQUE] ARRAY a <v: INT, u: DOUBLE NOT NULL> [i=1,8,2; j=1,8,2] [WITH (placement = 'k-d')]
    DROP ARRAY [IF EXISTS] a [CASCADE]
    CREATE ARRAY VIEW v [[i=1,8,2; ...]] AS array       DROP ARRAY VIEW [IF EXISTS] v [CASCADE]
    SELECT items [INTO t [i=1,8,2]] FROM a [AS x]
        [SIMILARITY JOIN b [AS y] ON (y.i = x.i + 1 AND ...) WITH SHAPE shape ...]
        [JOIN b [AS y] ON condition]
        [WHERE condition] [GROUP BY keys] [HAVING ...] [ORDER BY ...] [LIMIT n]
    APPLY(a, SUM(v + u), shape)   BETWEEN(a, 1, 1, 4, 4)   SUBARRAY(a, 1, 1, 4, 4)
    FILTER(a, v > 3)   PROJECT(a, v)   REGRID(a, 2, 2, SUM(v) AS s)
    EXPLAIN [ANALYZE] one of these

An array in FROM or in a call is a name, a call, or a query in parentheses. ON of a similarity join may be the
text of a mapping in quotes: `ON 'module:function/2/2'`.
"""

from __future__ import annotations

from collections.abc import Iterator

from everfresh.arrays import aql
from everfresh.arrays.mapping import parse_mapping
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.shape import Shape
from everfresh.arrays.shape.text import read_shape
from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import TokenStream
from everfresh.sql.scalars import read_type
from everfresh.types import Column

_CALLS = ("APPLY", "BETWEEN", "SUBARRAY", "FILTER", "PROJECT", "REGRID")
_TAIL = ("HAVING", "ORDER", "LIMIT", "OFFSET")
_ENDS = ("INTO", "FROM", "WHERE", "GROUP", "SIMILARITY", "JOIN", "WITH", "AS", *_TAIL)


def parse(text: str) -> aql.Statement:
    """The statement that a text says.

    >>> print(parse("select * into t from a similarity join b on (a.i = b.i) with shape L1(1)"))
    SELECT * INTO t FROM a SIMILARITY JOIN b ON (a.i = b.i) WITH SHAPE L1(1)
    """
    stream = TokenStream(text)
    found = _statement(stream)
    stream.accept(";")
    stream.end()
    return found


def _statement(stream: TokenStream) -> aql.Statement:
    if stream.accept("DROP", "ARRAY", "VIEW"):
        if_exists = stream.accept("IF", "EXISTS")
        return aql.DropView(stream.name(), if_exists, stream.accept("CASCADE"))
    if stream.accept("DROP", "ARRAY"):
        if_exists = stream.accept("IF", "EXISTS")
        return aql.DropArray(stream.name(), if_exists, stream.accept("CASCADE"))
    if stream.accept("EXPLAIN"):
        analyze = stream.accept("ANALYZE")
        return aql.Explain(_operand(stream), analyze)
    if stream.at("CREATE"):
        return _view(stream) or aql.CreateArray(_create(stream), *_rules(stream))
    return _operand(stream)


def _view(stream: TokenStream) -> aql.CreateView | None:
    """CREATE ARRAY VIEW, unless it is an array called `view`."""
    begin = stream.position
    if not stream.accept("CREATE", "ARRAY", "VIEW") or stream.at("<") or stream.at("<>"):
        stream.position = begin
        return None
    name = stream.name()
    dimensions = _box(stream) if stream.at("[") else ()
    stream.expect("AS")
    return aql.CreateView(name, _operand(stream), dimensions)


def _create(stream: TokenStream) -> ArraySchema:
    stream.expect("CREATE")
    return read_array(stream)


def read_array(stream: TokenStream) -> ArraySchema:
    """What comes after CREATE: `[UNIQUE] ARRAY name <attributes> [dimensions]`."""
    unique = stream.accept("UNIQUE")
    stream.expect("ARRAY")
    name = stream.name()
    attributes: list[Column] = []
    if not stream.accept("<>"):
        stream.expect("<")
        attributes = stream.listed(lambda: _attribute(stream), ">")
    return ArraySchema(name, _box(stream), tuple(attributes), unique)


def _rules(stream: TokenStream) -> tuple[str, str]:
    """How chunks are dealt to workers, and what the array follows."""
    from everfresh.arrays.plan.place import PLACEMENTS

    found = {"placement": aql.ROUND_ROBIN, "follows": ""}
    if not stream.accept("WITH", "("):
        return found["placement"], found["follows"]
    while True:
        word = "follows" if stream.accept("follows") else "placement"
        if word == "placement":
            stream.expect("placement")
        stream.expect("=")
        if stream.peek().kind != "string":
            raise stream.error(f"a {word if word == 'placement' else 'name'} in quotes is expected")
        found[word] = stream.next().text
        if not stream.accept(","):
            break
    if found["placement"] not in PLACEMENTS:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no placement '{found['placement']}'",
            hint="placements are: " + ", ".join(PLACEMENTS),
        )
    stream.expect(")")
    return found["placement"], found["follows"]


def _attribute(stream: TokenStream) -> Column:
    name = stream.name()
    stream.expect(":")
    text = _text(stream, ("NOT", ">"))
    nullable = not stream.accept("NOT", "NULL")
    return Column(name, read_type(text), nullable)


def _box(stream: TokenStream) -> tuple[Dimension, ...]:
    stream.expect("[")
    found: list[Dimension] = []
    while not found or stream.accept(";"):
        name = stream.name()
        stream.expect("=")
        lo = stream.integer()
        stream.expect(",")
        hi = stream.integer()
        stream.expect(",")
        found.append(Dimension(name, lo, hi, stream.integer()))
    stream.expect("]")
    return tuple(found)


def read_expression(stream: TokenStream) -> str:
    """A piece of SQL up to a comma or a closing bracket."""
    return _text(stream)


def _text(stream: TokenStream, ends: tuple[str, ...] = (), comma: bool = True) -> str:
    """A piece of SQL up to a comma, a closing bracket or one of some words outside of brackets."""
    begin, depth = stream.peek().start, 0
    end = begin
    while stream.peek().kind != "end":
        token = stream.peek()
        if depth == 0 and (
            token.matches(")")
            or token.matches(";")
            or (comma and token.matches(","))
            or any(token.matches(word) for word in ends)
        ):
            break
        depth += any(token.matches(mark) for mark in "([{")
        depth -= any(token.matches(mark) for mark in ")]}")
        stream.next()
        end = stream.peek().start
    found = (
        " ".join(stream.text[begin:end].split())
        if "'" not in stream.text[begin:end]
        else (stream.text[begin:end].strip())
    )
    if not found:
        raise stream.error("an expression is expected")
    return found


# -- operands --------------------------------------------------------------------------------------------


def _operand(stream: TokenStream) -> aql.Operand:
    if stream.accept("("):
        inner = _operand(stream)
        stream.expect(")")
        return inner
    if stream.at("SELECT"):
        return _query(stream)
    word = next((word for word in _CALLS if stream.accept(word, "(")), None)
    if word is None:
        return aql.Read(stream.name())
    return _call(stream, word)


def _call(stream: TokenStream, word: str) -> aql.Operand:
    of = _operand(stream)
    stream.expect(",")
    found: aql.Operand
    match word:
        case "FILTER":
            found = aql.Filter(of, _text(stream))
            stream.expect(")")
        case "PROJECT":
            found = aql.Project(of, tuple(stream.listed(stream.name, ")")))
        case "REGRID":
            factors = [stream.integer()]
            stream.expect(",")
            while stream.peek().kind == "number":
                factors.append(stream.integer())
                stream.expect(",")
            found = aql.Regrid(of, tuple(factors), tuple(stream.listed(lambda: _text(stream), ")")))
        case "APPLY":
            items, shape = _items_and_shape(stream)
            found = aql.Apply(of, items, shape)
        case _:
            numbers = stream.listed(stream.integer, ")")
            half = len(numbers) // 2
            if len(numbers) != 2 * half or not half:
                raise stream.error(f"{word} needs the first and the last index of each dimension")
            found = aql.Between(of, tuple(numbers[:half]), tuple(numbers[half:]), word == "SUBARRAY")
    return found


def _items_and_shape(stream: TokenStream) -> tuple[tuple[str, ...], Shape]:
    """Aggregates, and behind the last comma a shape."""
    items: list[str] = []
    position = stream.position
    while True:
        text = _text(stream)
        if stream.at(")"):
            break
        stream.expect(",")
        items.append(text)
        position = stream.position
    stream.position = position
    shape = read_shape(stream)
    if not items:
        raise stream.error("APPLY(array, aggregate, ..., shape) needs an aggregate")
    stream.expect(")")
    return tuple(items), shape


def _query(stream: TokenStream) -> aql.Query:
    stream.expect("SELECT")
    items = _text(stream, ("INTO", "FROM"), comma=False)
    into = ""
    dimensions: tuple[Dimension, ...] = ()
    if stream.accept("INTO"):
        into = stream.name()
        if stream.at("["):
            dimensions = _box(stream)
    stream.expect("FROM")
    left = _source(stream)
    join: aql.SimilarityJoin | aql.EquiJoin | None = None
    more: list[aql.SimilarityJoin] = []
    if stream.accept("SIMILARITY", "JOIN"):
        join = _similarity(stream)
        while stream.accept("SIMILARITY", "JOIN"):
            more.append(_similarity(stream))
    elif stream.accept("JOIN"):
        right = _source(stream)
        stream.expect("ON")
        join = aql.EquiJoin(right, _text(stream, _ENDS, comma=False))
    where = _text(stream, _ENDS, comma=False) if stream.accept("WHERE") else ""
    group = _text(stream, _ENDS, comma=False) if stream.accept("GROUP", "BY") else ""
    tail = _text(stream, comma=False) if any(stream.at(word) for word in _TAIL) else ""
    return aql.Query(items, left, join, where, group, into, dimensions, tuple(more), tail)


def _source(stream: TokenStream) -> aql.Source:
    array = _operand(stream)
    token = stream.peek()
    if stream.accept("AS") or (
        token.kind in ("name", "quoted") and not any(token.matches(w) for w in (*_ENDS, "ON"))
    ):
        return aql.Source(array, stream.name())
    if not isinstance(array, aql.Read):
        raise stream.error("an array that is computed needs a name: AS x")
    return aql.Source(array, array.name)


def _similarity(stream: TokenStream) -> aql.SimilarityJoin:
    right = _source(stream)
    stream.expect("ON")
    mapping = None
    if stream.peek().kind == "string":
        text = stream.next().text
        mapping = parse_mapping(text)
        on = f"'{text}'"
    else:
        on = _text(stream, _ENDS, comma=False)
    stream.expect("WITH", "SHAPE")
    return aql.SimilarityJoin(right, on, mapping, read_shape(stream))


# -- ON of a similarity join -----------------------------------------------------------------------------


def read_equalities(
    on: str, left: ArraySchema, right: ArraySchema, aliases: tuple[str, str]
) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """For each equality the right dimension, and the left one with its factor and shift."""
    stream = TokenStream(on)
    depth = 0
    while True:
        while stream.accept("("):
            depth += 1
        sides = [_linear(stream, left, right, aliases)]
        stream.expect("=")
        sides.append(_linear(stream, left, right, aliases))
        ours = [side for side in sides if side[0] == 0]
        theirs = [side for side in sides if side[0] == 1]
        if len(ours) != 1 or theirs[0][2:] != (1, 0):
            raise EverfreshError(
                Code.ARGUMENT,
                f"ON compares a dimension of {aliases[1]} with one of {aliases[0]}",
                place=on,
                hint=f"write {aliases[1]}.j = 2*{aliases[0]}.i + 1, or a.i = b.i",
            )
        _, d, factor, shift = ours[0]
        yield theirs[0][1], (d, factor, shift)
        while depth and stream.accept(")"):
            depth -= 1
        if not stream.accept("AND"):
            break
    for _ in range(depth):
        stream.expect(")")
    stream.end()


def _linear(
    stream: TokenStream, left: ArraySchema, right: ArraySchema, aliases: tuple[str, str]
) -> tuple[int, int, int, int]:
    """A side of an equality: which array, which dimension, its factor and its shift."""
    factor = 1
    if stream.peek().kind == "number" or stream.at("-"):
        factor = stream.integer()
        stream.expect("*")
    name = stream.name()
    side, k = _dimension(name, left, right, aliases)
    shift = 0
    if stream.accept("+"):
        shift = stream.integer()
    elif stream.accept("-"):
        shift = -stream.integer()
    return side, k, factor, shift


def _dimension(name: str, left: ArraySchema, right: ArraySchema, aliases: tuple[str, str]) -> tuple[int, int]:
    alias, dot, column = name.rpartition(".")
    schemas = (left, right)
    for k in (0, 1):
        if dot and alias.lower() == aliases[k].lower():
            return k, schemas[k].position(column)
    known = [k for k in (0, 1) if column.lower() in map(str.lower, schemas[k].dimension_names)]
    if dot or len(known) != 1:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"'{name}' is {'ambiguous' if len(known) == 2 and not dot else 'no dimension of the arrays'}",
            place="ON",
            hint=f"write {aliases[0]}.{left.dimension_names[0]}",
        )
    return known[0], schemas[known[0]].position(column)
