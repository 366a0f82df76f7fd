"""Distributed programs as text, and back: `parse_distributed(to_text(p), programs) == p`.

    GIVEN lineitem = temp0(l_orderkey BIGINT, l_quantity DECIMAL(15,2)) @all
    BLOCK workers
      temp3(l_orderkey BIGINT) (WIDE) @[l_orderkey] := IN q18 ROUND 0
        Sum_[l_orderkey](Δtemp2(l_orderkey, l_quantity) * ⟨l_quantity⟩)
      ADD q18#0 += temp3
    BLOCK exchange
      temp7(n BIGINT) @driver := GATHER temp6

Read over the programs that it distributes: what relations and maps are, and which are read, is known from
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everfresh.algebra import Kind
from everfresh.calculus import MapRef, Query, Rel, parse
from everfresh.calculus.text import to_text as query_text
from everfresh.distributed.plan.fusion import connected
from everfresh.distributed.plan.ir import (
    EXCHANGE,
    Add,
    Block,
    DistributedProgram,
    Eval,
    Instruction,
    Keep,
    PlacedChange,
    Send,
    Step,
    Temp,
    map_id,
    table_of,
)
from everfresh.distributed.plan.placement import maps_read
from everfresh.distributed.plan.programs import Programs
from everfresh.distributed.plan.tags import parse_tag
from everfresh.expr import Var
from everfresh.expr.text import declaration, parse_declaration
from everfresh.expr.tokens import TokenStream, indented, lines_of, quote_name
from everfresh.types import Column

_WORDS = frozenset({"GIVEN", "BLOCK", "ADD", "CHANGE", "OF", "AT"})


def to_text(program: DistributedProgram, programs: Programs | None = None) -> str:
    """The program; over the programs that it distributes, where given, exactly."""
    lines = [f"GIVEN {_name(table)} = {_declared(temp)}" for table, temp in program.given]
    for block in program.blocks:
        lines.append(f"BLOCK {block.mode}")
        for instruction in block.instructions:
            lines += [f"  {line}" for line in _lines(instruction, programs)]
    return "\n".join(lines)


def _name(name: str) -> str:
    return quote_name(name, _WORDS)


def _declared(temp: Temp) -> str:
    columns = ", ".join(declaration(Var(c.name, c.type, c.nullable)) for c in temp.columns)
    kinds = f" ({', '.join(k.name for k in temp.kinds)})" if temp.kinds else ""
    origin = f" OF {_name(temp.origin)}" if temp.origin is not None else ""
    return f"{_name(temp.name)}({columns}){kinds} {temp.tag}{origin}"


def _lines(instruction: Instruction, programs: Programs | None) -> Iterator[str]:
    match instruction:
        case Eval(target, expr, view, at, round_):
            of = f" AT {_name(at)}" if at is not None else ""
            yield f"{_declared(target)} := IN {_name(view)}{of} ROUND {round_}"
            known = _known(programs, view, instruction.uses, expr) if programs is not None else ({}, {})
            yield from lines_of(indented(query_text(expr, *known), "  "))
        case Keep(target, source):
            yield f"{_declared(target)} := KEEP {_name(source.name)}"
        case Send(target, source):
            yield f"{_declared(target)} := {instruction.how} {_name(source.name)}"
        case Add(name, source):
            yield f"ADD {_name(name)} += {_name(source.name)}"
        case PlacedChange(table, source):
            yield f"CHANGE {_name(table)} += {_name(source.name)}"
        case Step(target, view, relation, round_, adds):
            pending = ", ".join(f"{_name(m)} += {_name(t.name)}" for m, t in adds)
            head = f"{_declared(target)} := STEP {_name(relation)} IN {_name(view)} ROUND {round_}"
            yield f"{head} [{pending}]"


def _known(
    programs: Programs, view: str, temps: Sequence[Temp], query: Query | None = None
) -> tuple[dict[str, Sequence[Column]], dict[str, Sequence[Var]]]:
    """The relations and maps that an expression in a view's program may read."""
    relations: dict[str, Sequence[Column]] = {**programs.catalog.schemas}
    relations.update(
        {u.name: u.relation.columns for u in programs.schedule.units if u.is_view or u.view == view}
    )
    relations.update({t.name: t.columns for t in temps})
    maps: dict[str, Sequence[Var]] = {n: m.keys for n, m in programs.maps.items()}
    maps.update({t.name: [Var(c.name, c.type, c.nullable) for c in t.columns] for t in temps})
    if query is not None:  # a table and a map may have one name
        read = [n for n in query.walk() if isinstance(n, Rel | MapRef)]
        relations = {n.name: relations[n.name] for n in read if isinstance(n, Rel)}
        maps = {n.name: maps[n.name] for n in read if isinstance(n, MapRef)}
    return relations, maps


# -- reading -----------------------------------------------------------------------------------------


def parse_distributed(text: str, programs: Programs) -> DistributedProgram:
    """The program written in `text`, over these programs."""
    return _Parser(programs, lines_of(text)).program()


class _Parser:
    def __init__(self, programs: Programs, lines: Sequence[str]) -> None:
        self.programs, self.lines, self.at = programs, lines, 0
        self.temps: dict[str, Temp] = {}

    def program(self) -> DistributedProgram:
        given: list[tuple[str, Temp]] = []
        blocks: list[Block] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            stream = TokenStream(line)
            if line.startswith("GIVEN "):
                stream.next()
                table = stream.name()
                stream.expect("=")
                given.append((table, self.temp(stream)))
                self.at += 1
            else:
                stream.expect("BLOCK")
                mode = stream.name()
                self.at += 1
                blocks.append(Block(mode, tuple(self.instructions(mode))))
        return DistributedProgram(tuple(given), connected(blocks))

    def instructions(self, mode: str) -> Iterator[Instruction]:
        while self.at < len(self.lines) and self.lines[self.at].startswith("  "):
            stream = TokenStream(self.lines[self.at])
            self.at += 1
            if stream.at("ADD") or stream.at("CHANGE"):
                word = stream.next().text
                name = stream.name()
                stream.expect("+=")
                made = Add if word == "ADD" else PlacedChange
                yield made(name, self.temps[stream.name()])
            else:
                yield self.assignment(stream, mode)

    def assignment(self, stream: TokenStream, mode: str) -> Instruction:
        target = self.temp(stream)
        stream.expect(":=")
        if stream.accept("IN"):
            return self.evaluation(target, stream)
        word = stream.name()
        if word == "KEEP":
            return Keep(target, self.temps[stream.name()])
        if word == "STEP":
            return self.step(target, stream)
        if mode != EXCHANGE:
            raise stream.error(f"{word} is no instruction of a block of {mode}")
        return Send(target, self.temps[stream.name()])

    def evaluation(self, target: Temp, stream: TokenStream) -> Eval:
        view = stream.name()
        at = stream.name() if stream.accept("AT") else None
        stream.expect("ROUND")
        round_ = stream.integer()
        text = []
        while self.at < len(self.lines) and self.lines[self.at].startswith("    "):
            text.append(self.lines[self.at])
            self.at += 1
        known = [t for t in self.temps.values() if t is not target]
        expr = parse("\n".join(text), *_known(self.programs, view, known))
        names = [n.name for n in expr.walk() if isinstance(n, Rel | MapRef) and n.name in self.temps]
        read = frozenset(
            map_id(m) if table_of(m) is None else m
            for m in maps_read(self.programs, view, expr)
            if m not in self.temps
        )
        uses = tuple(self.temps[n] for n in dict.fromkeys(names))
        return Eval(target, expr, view, at, round_, read, uses)

    def step(self, target: Temp, stream: TokenStream) -> Step:
        relation = stream.name()
        stream.expect("IN")
        view = stream.name()
        stream.expect("ROUND")
        round_ = stream.integer()
        stream.expect("[")

        def pending() -> tuple[str, Temp]:
            name = stream.name()
            stream.expect("+=")
            return name, self.temps[stream.name()]

        adds = tuple(stream.listed(pending, "]"))
        unit = self.programs.unit(view, relation)
        assert unit is not None
        return Step(target, view, relation, round_, adds, unit.maps)

    def temp(self, stream: TokenStream) -> Temp:
        name = stream.name()
        stream.expect("(")

        def column() -> Column:
            var = parse_declaration(stream)
            return Column(var.name, var.type, var.nullable)

        columns = tuple(stream.listed(column, ")"))
        kinds: tuple[Kind, ...] = ()
        if stream.accept("("):
            kinds = tuple(Kind[k] for k in stream.listed(stream.name, ")"))
        tag = parse_tag(stream)
        origin = stream.name() if stream.accept("OF") else None
        temp = Temp(name, columns, kinds, tag, origin)
        self.temps[name] = temp
        return temp
