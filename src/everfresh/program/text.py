"""Programs as text, in the notation of the thesis: `to_text` prints, `parse_program` reads it back.

    MAP q#1[ok BIGINT] (WIDE) =
      Sum_[ok](li(ok, qty) * ⟨qty⟩)
    RELATION q$0(ok BIGINT)   -- incremental: at the keys that are touched
      FROM q#1(#1 HUGEINT)
      WHERE #1 > 100
    ON CHANGE li
      q#1[ok] +=   -- incremental: reads only the change of li
        Sum_[ok](Δli(ok, qty) * ⟨qty⟩)

A relation stands below the last of the maps that it is read off. Its lines say: `FROM` which maps, with the
components that are read and their types (sides behind the first, `MIN` and `MAX` in front of those that are
read by an extreme, `FIRST (...)` by the first entry in an order, `DISC`, `LOW` and `HIGH` by a fraction);
`column = expression`, left out where the column is the key of its name; `WHERE`; and how often a row comes:
once per entry, or `TIMES` an expression, `BAG` (as often as the count says), `EVERY KEY` (also where the map
holds nothing). One that is recomputed has `PARTITIONS OF map BY [keys]` and its expression. A `SHARED MAP` is
another program's, `STATIC` names a relation that never changes, `EMPTY` a map that every batch has to leave
without entries.

What an expression looks like is not this module's business: a printer and a parser of them are given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from everfresh.algebra import Kind
from everfresh.expr.nodes import Expr, Var, variables
from everfresh.expr.text import declaration, parse_declaration, parse_expr
from everfresh.expr.tokens import TokenStream, indented, lines_of, quote_name
from everfresh.program.ir import (
    Intervals,
    MapDef,
    Partitions,
    Program,
    Side,
    Statement,
    Trigger,
    View,
    side_of,
)
from everfresh.types import Column

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
Maps = Mapping[str, tuple[Var, ...]]
Relations = Mapping[str, tuple[Column, ...]]

_NOTE = re.compile(r"   -- ([^:]+)(?:: (.*))?$", re.DOTALL)
_WORDS = frozenset(
    {
        "FROM",
        "WHERE",
        "TIMES",
        "BAG",
        "EVERY",
        "PARTITIONS",
        "INTERVALS",
        "MIN",
        "MAX",
        "FIRST",
        "DISC",
        "LOW",
        "HIGH",
    }
)
_PLACES = ("disc", "low", "high")
_ENDS = {(True, False): "ASC", (True, True): "ASC FIRST", (False, False): "DESC", (False, True): "DESC FIRST"}
"""How a key is ordered: whether it ascends, and whether NULLs come first."""


# -- printing ----------------------------------------------------------------------------------------


def to_text(
    program: Program[E], show: Callable[[E], str], how: Callable[[Partitions[E]], str | None] | None = None
) -> str:
    """The program; `show` prints its expressions, in one or more lines; `how` may know how a relation changes
    that is recomputed otherwise."""
    lines = []
    left = list(program.relations)
    seen: set[str] = set()
    for m in program.maps:
        lines += _map_text("MAP", m, show)
        seen.add(m.name)
        while left and seen.issuperset(left[0].maps):
            lines.append(relation_text(left.pop(0), program, show, how))
    if left:
        raise ValueError(f"relation {left[0].name} is read off a map that is not in the program")
    for m in program.shared:
        lines += _map_text("SHARED MAP", m, show)
    for word, names in (("STATIC", program.static), ("EMPTY", program.empty)):
        lines += [f"{word} {quote_name(name)}" for name in names]
    for t in program.triggers:
        lines.append(f"ON CHANGE {quote_name(t.base)}")
        for s in t.statements:
            keys = ", ".join(quote_name(v.name) for v in program.map(s.target).keys)
            lines.append(f"  {quote_name(s.target)}[{keys}] {s.op}   -- {_note(s)}")
            lines.append(indented(show(s.expr), "    "))
    return "\n".join(lines)


def _map_text(word: str, m: MapDef[E], show: Callable[[E], str]) -> list[str]:
    keys, kinds = ", ".join(map(declaration, m.keys)), ", ".join(k.name for k in m.kinds)
    return [f"{word} {quote_name(m.name)}[{keys}] ({kinds}) =", indented(show(m.definition), "  ")]


def relation_text(
    relation: View | Partitions[E] | Intervals,
    program: Program[E],
    show: Callable[[E], str],
    how: Callable[[Partitions[E]], str | None] | None = None,
) -> str:
    """One relation: its columns, and what it is read off and how."""
    known = how(relation) if how is not None and isinstance(relation, Partitions) else None
    columns = ", ".join(declaration(Var(c.name, c.type, c.nullable)) for c in relation.columns)
    head = f"RELATION {quote_name(relation.name)}({columns})   -- {known or _how(relation, program)}"
    return "\n".join([head, *_definition(relation, program, show)])


def _how(relation: View | Partitions[E] | Intervals, program: Program[E]) -> str:
    """How the relation changes, in words; it follows from the rest, and is not read back."""
    keys = [quote_name(v.name) for v in program.map(relation.map).keys]
    if isinstance(relation, Partitions):
        where = f"where {', '.join(keys[: relation.prefix])} is touched" if relation.prefix else "as a whole"
        return f"partition recompute: {where}"
    if isinstance(relation, Intervals):
        return f"incremental: where a running sum by {keys[0]} passes a limit"
    if relation.always:
        return "incremental: looked up only" if keys else "incremental: always one row"
    return "incremental: at the keys that are touched"


def _definition(
    relation: View | Partitions[E] | Intervals, program: Program[E], show: Callable[[E], str]
) -> list[str]:
    if isinstance(relation, Intervals):
        of = ", ".join(_sources(relation))
        return [f"  INTERVALS OF {of} BY {relation.op}", f"  WHERE {relation.having}"]
    if isinstance(relation, Partitions):
        by = ", ".join(quote_name(v.name) for v in program.map(relation.map).keys[: relation.prefix])
        head = f"  PARTITIONS OF {quote_name(relation.map)} BY [{by}]"
        return [head, indented(show(relation.expr), "    ")]
    lines = [f"  FROM {', '.join(_sources(relation))}"]
    own = {v.name: v for v in program.map(relation.map).keys}
    twice = len({c.name for c in relation.columns}) < len(relation.columns)
    for column, expr in zip(relation.columns, relation.outputs, strict=True):
        if twice or expr != own.get(column.name):
            lines.append(f"  {quote_name(column.name, _WORDS)} = {expr}")
    lines += [f"  WHERE {relation.having}"] if relation.having is not None else []
    lines += [f"  TIMES {relation.weight}"] if relation.weight is not None else []
    lines += ["  BAG"] if relation.bag else []
    return [*lines, "  EVERY KEY"] if relation.always else lines


def _sources(relation: View | Intervals) -> Iterator[str]:
    """The maps that a relation is read off, each with the components that are read."""
    exprs = [relation.having] if relation.having is not None else []
    if isinstance(relation, View):
        exprs = [*relation.outputs, *exprs, *([relation.weight] if relation.weight is not None else [])]
    read = {v: side_of(v.name) for e in exprs for v in variables(e)}
    for j, side in enumerate((Side(relation.map), *relation.sides)):
        own = [v for v, of in read.items() if of == j]
        how = _read_by(side)
        by = f" BY {side.than} {quote_name(side.key)}" if side.than else ""
        yield f"{how}{quote_name(side.map, _WORDS)}({', '.join(map(declaration, own))}){by}"


def _read_by(side: Side) -> str:
    """What stands in front of a side: how it is read."""
    if side.how == "first":
        return f"FIRST ({', '.join(_ENDS[part] for part in side.order)}) "
    if side.how in _PLACES:
        return f"{side.how.upper()} {side.fraction!r} "
    return "" if side.how == "at" else f"{side.how.upper()} "


def _note(statement: Statement[Any]) -> str:
    reason = statement.reason
    if any(mark in reason for mark in "'\"\n"):
        reason = "'" + reason.replace("'", "''") + "'"
    return f"{statement.strategy}: {reason}" if reason else statement.strategy


# -- parsing -----------------------------------------------------------------------------------------


class ParseExpression(Protocol[E_co]):
    """Reads an expression, given the keys of the program's maps and the columns of its relations."""

    def __call__(self, text: str, maps: Maps, relations: Relations, /) -> E_co:
        """The expression."""


def parse_program(text: str, parse: ParseExpression[E]) -> Program[E]:
    """The program that `to_text` printed."""
    given = list(_blocks(lines_of(text), 0))
    blocks = [block for block in given if not block[0].startswith(("STATIC ", "EMPTY "))]
    static, empty = (tuple(_named(word, line) for line, _ in given if line.startswith(f"{word} "))
                     for word in ("STATIC", "EMPTY"))  # fmt: skip
    heads = [_head(line) for line, _ in blocks]
    maps = {h.name: h.keys for h in heads if isinstance(h, MapDef)}
    relations = {h.name: h.columns for h in heads if isinstance(h, View)}

    def expression(lines: Sequence[str]) -> E:
        return parse("\n".join(lines), maps, relations)

    program: tuple[list[Any], list[Any], list[Any], list[Any]] = ([], [], [], [])
    for (line, body), head in zip(blocks, heads, strict=True):
        if isinstance(head, MapDef):
            own = program[3 if line.startswith("SHARED ") else 0]
            own.append(MapDef(head.name, head.keys, head.kinds, expression(body)))
        elif isinstance(head, Trigger):
            program[1].append(Trigger(head.base, tuple(_statements(body, expression))))
        else:
            program[2].append(_relation(head, body, maps, expression))
    maps_, triggers, relations_, shared = map(tuple, program)
    return Program(maps_, triggers, relations_, shared, static, empty)


def _blocks(lines: Sequence[str], depth: int) -> Iterator[tuple[str, list[str]]]:
    """Lines at `depth` blanks, each with those below it that stand two blanks or more further in, moved to
    the left by as much."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(" " * (depth + 2)) and found:
            found[-1][1].append(line[depth + 2 :])
        else:
            found.append((line, []))
    yield from found


def _named(word: str, line: str) -> str:
    stream = TokenStream(line)
    stream.expect(word)
    return stream.name()


def _head(line: str) -> MapDef[None] | Trigger[Any] | View:
    stream = TokenStream(line)
    if line.startswith(("MAP ", "SHARED MAP ")):
        stream.accept("SHARED")
        stream.expect("MAP")
        name = stream.name()
        stream.expect("[")
        keys = stream.listed(lambda: parse_declaration(stream), "]")
        stream.expect("(")
        kinds = [Kind[kind] for kind in stream.listed(stream.name, ")")]
        return MapDef(name, tuple(keys), tuple(kinds), None)
    if line.startswith("ON CHANGE "):
        stream.expect("ON", "CHANGE")
        return Trigger(stream.name(), ())
    if line.startswith("RELATION "):
        stream.expect("RELATION")
        name = stream.name()
        stream.expect("(")
        columns = stream.listed(lambda: parse_declaration(stream), ")")
        return View(name, "", tuple(Column(v.name, v.type, v.nullable) for v in columns), ())
    raise ValueError(f"not a line of a program: {line!r}")


def _statements(body: Sequence[str], expression: Callable[[Sequence[str]], E]) -> Iterator[Statement[E]]:
    for line, below in _blocks(body, 0):
        note = _NOTE.search(line)
        if note is None:
            raise ValueError(f"not a line of a program: {line!r}")
        op = line[: note.start()].rsplit(" ", 1)[1]
        reason = note[2] or ""
        if reason.startswith("'"):
            reason = reason[1:-1].replace("''", "'")
        yield Statement(TokenStream(line).name(), op, expression(below), note[1], reason)


def _relation(
    head: View, body: Sequence[str], maps: Maps, expression: Callable[[Sequence[str]], E]
) -> View | Partitions[E] | Intervals:
    (first, below), *rest = _blocks(body, 0)
    stream = TokenStream(first)
    if stream.accept("INTERVALS"):
        stream.expect("OF")
        sources, known = _parse_sources(stream, end=False)
        stream.expect("BY")
        op = stream.next().text
        stream.end()
        stream = TokenStream(rest[0][0])
        stream.expect("WHERE")
        having = parse_expr(stream, known)
        stream.end()
        return Intervals(head.name, sources[0].map, head.columns, op, having, tuple(sources[1:]))
    if stream.accept("PARTITIONS"):
        stream.expect("OF")
        name = stream.name()
        stream.expect("BY", "[")
        prefix = len(stream.listed(stream.name, "]"))
        return Partitions(head.name, name, head.columns, expression(below), prefix)
    stream.expect("FROM")
    sources, known = _parse_sources(stream)
    keys = maps[sources[0].map]
    known.update({v.name: v for v in keys})
    outputs: list[tuple[str, Expr]] = []
    clauses: dict[str, Expr | None] = {}
    for line, _ in rest:
        stream = TokenStream(line)
        word = stream.peek().text if stream.peek().kind == "name" else ""
        if word in ("WHERE", "TIMES"):
            stream.expect(word)
            clauses[word] = parse_expr(stream, known)
        elif word in ("BAG", "EVERY"):
            stream.expect(word, *(["KEY"] if word == "EVERY" else []))
            clauses[word] = None
        else:
            name = stream.name()
            stream.expect("=")
            outputs.append((name, parse_expr(stream, known)))
        stream.end()
    own = {v.name: v for v in keys}
    exprs: list[Expr] = []
    for column in head.columns:
        given = outputs and outputs[0][0] == column.name
        exprs.append(outputs.pop(0)[1] if given else own[column.name])
    return View(
        head.name,
        sources[0].map,
        head.columns,
        tuple(exprs),
        "BAG" in clauses,
        clauses.get("WHERE"),
        "EVERY" in clauses,
        tuple(sources[1:]),
        clauses.get("TIMES"),
    )


def _parse_sources(stream: TokenStream, *, end: bool = True) -> tuple[list[Side], dict[str, Var]]:
    sources: list[Side] = []
    known: dict[str, Var] = {}
    while not sources or stream.accept(","):
        how = next((how for how in ("min", "max", "first", *_PLACES) if stream.accept(how)), "at")
        order: tuple[tuple[bool, bool], ...] = ()
        fraction = float(stream.next().text) if how in _PLACES else 0.0
        if how == "first":
            stream.expect("(")
            order = tuple(stream.listed(lambda: _parse_end(stream), ")"))
        name = stream.name()
        stream.expect("(")
        known.update({v.name: v for v in stream.listed(lambda: parse_declaration(stream), ")")})
        by = how != "at" and stream.accept("BY")
        than, key = (stream.next().text, stream.name()) if by else ("", "")
        sources.append(Side(name, how, than, key, order, fraction))
    if end:
        stream.end()
    return sources, known


def _parse_end(stream: TokenStream) -> tuple[bool, bool]:
    up = not stream.accept("DESC")
    if up:
        stream.expect("ASC")
    return up, bool(stream.accept("FIRST"))
