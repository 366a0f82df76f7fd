"""Algorithm 6.3: a linear algebra program becomes maps (the stored matrices) and a trigger per input.

For each statement in order the delta is derived (`delta`), factored (`factor`), and appended to the changes
that later statements see. A statement is maintained *factored* (its change is U V'), *dense* (a change
whose rank is no less than its smaller side: hybrid evaluation, section 6.4.3), or *re-evaluated* (after the
update; so is then what reads it). Stored are the inputs, the outputs, what some trigger reads, and the
operands of inverses, with which drift is checked. Invariant: for any changes of the inputs of the ranks
compiled for, running the trigger leaves every stored matrix equal to its definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from everfresh.algebra import Kind
from everfresh.linalg.compiler.delta import delta
from everfresh.linalg.compiler.factor import Factored, NotFactored, factor
from everfresh.linalg.compiler.flatten import Flat, ordered
from everfresh.linalg.compiler.let_blocks import Block, optimize
from everfresh.linalg.compiler.simplify import simplify
from everfresh.linalg.lang.nodes import Expr, Inverse, MatMul, Matrix, Stack, Transpose
from everfresh.linalg.lang.spec import check_trigger
from everfresh.linalg.lang.trees import names, substitute
from everfresh.program.ir import MapDef, Program, Statement, Trigger

STRATEGIES = ("incremental", "hybrid", "reevaluate")
Ranks = Mapping[str, int]  # changed input -> rank of its change


@dataclass(slots=True)
class _Derivation:
    """The changes derived so far, on the way through the statements."""

    flat: Flat
    strategy: str
    taken: set[str]
    block: Block = field(default_factory=list)
    factored: dict[str, tuple[Matrix, Matrix]] = field(default_factory=dict)
    dense: dict[str, Matrix] = field(default_factory=dict)
    redo: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    same: dict[Expr, Matrix] = field(default_factory=dict)

    def fresh(self, name: str, shape: tuple[int, int]) -> Matrix:
        """A new matrix of the trigger."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return Matrix(name, *shape)

    def named(self, name: str, expr: Expr) -> Matrix:
        """A matrix of the trigger that holds the value of `expr`: a new one, unless it is one already."""
        value = simplify(expr, self.flat.symmetric)
        if isinstance(value, Matrix) and value.name not in self.flat.matrices:
            return value
        if value not in self.same:
            matrix = self.fresh(name, value.shape)
            self.block.append((matrix.name, value))
            self.parts[matrix.name] = value.parts if isinstance(value, Stack) and value.axis else (value,)
            self.same[value] = matrix
        return self.same[value]

    @property
    def changed(self) -> set[str]:
        """The matrices that change."""
        return {*self.factored, *self.dense, *self.redo}

    def symbols(self, read: Iterable[str]) -> dict[str, Matrix]:
        """Changed matrices with the symbol of their change."""
        return {name: Matrix(f"d_{name}", *self.flat.matrices[name].shape) for name in sorted(read)}


def _derive(d: _Derivation, name: str, expr: Expr) -> None:
    """COMPUTEDELTA for one statement: extend the derivation by the change of `name`."""
    read = names(expr) & d.changed
    if not read:
        return
    if d.strategy == "reevaluate" or read & set(d.redo):
        d.redo.append(name)
        return
    symbols = d.symbols(read)
    change = delta(expr, symbols)
    known = {symbols[x].name: Factored((d.factored[x],)) for x in symbols if x in d.factored}
    stored = Matrix(name, *expr.shape)
    try:
        found = factor(change, known, {expr: stored} if isinstance(expr, Inverse) else {}, d.parts)
    except NotFactored:
        _derive_dense(d, name, change, symbols)
        return
    small = min(expr.shape)
    if d.strategy == "hybrid" and isinstance(expr, Inverse) and 2 * found.rank >= small:
        d.redo.append(name)
        d.notes[name] = f"a change of rank {found.rank} is dearer than inverting anew"
    elif d.strategy == "hybrid" and found.rank >= small:
        _derive_dense(d, name, change, symbols)
    elif found.pairs:
        d.factored[name] = d.named(f"U{name}", found.left), d.named(f"V{name}", found.right)
        d.notes[name] = f"rank {found.rank}"


def _derive_dense(d: _Derivation, name: str, change: Expr, symbols: Mapping[str, Matrix]) -> None:
    if any(isinstance(node, Inverse) for node in change.walk()):
        d.redo.append(name)
        d.notes[name] = "the inverse of a matrix whose change is dense"
        return
    values: dict[str, Expr] = {
        symbols[x].name: MatMul(d.factored[x][0], Transpose(d.factored[x][1]))
        for x in symbols
        if x in d.factored
    }
    values |= {symbols[x].name: d.dense[x] for x in symbols if x in d.dense}
    expr = ordered(simplify(substitute(change, values), d.flat.symmetric), keep_shared=False)
    d.dense[name] = d.fresh(f"d{name}", change.shape)
    d.block.append((d.dense[name].name, expr))
    d.notes[name] = "dense"


def derive(flat: Flat, ranks: Ranks, strategy: str) -> _Derivation:
    """The changes of all statements when the inputs of `ranks` change."""
    d = _Derivation(flat, strategy, set(flat.matrices))
    shapes = flat.matrices
    for name, rank in ranks.items():
        rows, columns = shapes[name].shape
        d.factored[name] = d.fresh(f"u{name}", (rows, rank)), d.fresh(f"v{name}", (columns, rank))
        d.notes[name] = f"rank {rank}"
    for name, expr in flat.statements:
        _derive(d, name, expr)
    return d


def factor_names(flat: Flat, name: str) -> tuple[str, str]:
    """What the factors of an input's change are called in a trigger."""
    d = _Derivation(flat, "incremental", set(flat.matrices))
    return d.fresh(f"u{name}", (1, 1)).name, d.fresh(f"v{name}", (1, 1)).name


def reads(d: _Derivation) -> set[str]:
    """The matrices that a trigger reads besides what it changes itself."""
    definitions = dict(d.flat.statements)
    found = set[str]().union(*(names(expr) for _, expr in d.block)) & set(d.flat.matrices)
    for name in d.redo:
        found |= names(definitions[name]) - set(d.redo)
    return found


def stored_names(flat: Flat, strategy: str, ranks: Ranks | None = None) -> tuple[str, ...]:
    """The matrices to keep, in order: inputs, outputs, what triggers read, operands of inverses."""
    changing = [m.name for m in flat.inputs if m.name in flat.changing]
    given = {name: (ranks or {}).get(name, 1) for name in changing}
    kept = {m.name for m in flat.inputs} | set(flat.outputs)
    for some in [{name: rank} for name, rank in given.items()] + [given]:
        kept |= reads(derive(flat, some, strategy))
    if strategy != "reevaluate":
        for _, expr in flat.statements:
            if isinstance(expr, Inverse):
                kept |= names(expr)
    return tuple(name for name in flat.matrices if name in kept)


def maps(flat: Flat, stored: tuple[str, ...]) -> tuple[MapDef[Expr], ...]:
    """The stored matrices; the definition of an input is itself."""
    definitions = dict(flat.statements)
    return tuple(
        MapDef(name, (), (Kind.FLOAT,), definitions.get(name, flat.matrices[name])) for name in stored
    )


def build_trigger(flat: Flat, stored: tuple[str, ...], ranks: Ranks, strategy: str) -> Trigger[Expr]:
    """BUILDTRIGGER: the assignments of factors, the updates, and what is re-evaluated."""
    d = derive(flat, ranks, strategy)
    wanted = {
        part.name: part.name
        for name in stored
        for part in (*d.factored.get(name, ()), *((d.dense[name],) if name in d.dense else ()))
    }
    block, ended = optimize(d.block, wanted, d.taken)
    statements = [Statement(name, ":=", expr, "factor") for name, expr in block]
    for name in stored:
        if name in d.factored:
            u, v = (Matrix(ended.get(part.name, part.name), *part.shape) for part in d.factored[name])
            statements.append(Statement(name, "+=", MatMul(u, Transpose(v)), "incremental", d.notes[name]))
        elif name in d.dense:
            part = d.dense[name]
            value = Matrix(ended[part.name], *part.shape)
            statements.append(Statement(name, "+=", value, "hybrid", d.notes[name]))
    definitions = dict(flat.statements)
    statements += [
        Statement(name, ":=", definitions[name], "reevaluate", d.notes.get(name, ""))
        for name in _redone(flat, d.redo, stored)
    ]
    return Trigger(", ".join(ranks), tuple(statements))


def _redone(flat: Flat, redo: list[str], stored: tuple[str, ...]) -> list[str]:
    """What has to be re-evaluated: the statements themselves, and what they read that is not stored."""
    wanted, found = set(redo), []
    for name, expr in reversed(flat.statements):
        if name in wanted:
            found.append(name)
            wanted |= names(expr) - set(stored)
    return found[::-1]


def build_program(flat: Flat, stored: tuple[str, ...], ranks: Ranks, strategy: str) -> Program[Expr]:
    """The program: the stored matrices and a trigger per input that may change."""
    kept = maps(flat, stored)
    changing = [m.name for m in flat.inputs if m.name in flat.changing]
    triggers = tuple(build_trigger(flat, stored, {name: ranks.get(name, 1)}, strategy) for name in changing)
    program = Program(kept, triggers)
    for name, trigger in zip(changing, triggers, strict=True):
        check_trigger(program, trigger, factor_names(flat, name))
    return program
