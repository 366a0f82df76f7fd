"""A program as the user wrote it (section 6.2): inputs, statements `A := E`, and the outputs among them.

Invariant: every statement reads inputs and earlier statements only, each name is assigned once, and all
shapes fit.

>>> print(parse("B := A A; C := B B;", A=(4, 4)))
input A(4, 4);
B := A A;
C := B B;
output C;
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import TokenStream
from everfresh.linalg.lang.nodes import Expr, Matrix, Shape
from everfresh.linalg.lang.text import read_sum, to_text, tokens
from everfresh.linalg.lang.trees import names


@dataclass(frozen=True, slots=True)
class Source:
    """Inputs, statements in order, the names of the outputs, and which inputs are static."""

    inputs: tuple[Matrix, ...]
    statements: tuple[tuple[str, Expr], ...]
    outputs: tuple[str, ...]
    static: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        known = {matrix.name: matrix.shape for matrix in self.inputs}
        if unknown := self.static - known.keys():
            raise _unknown(sorted(unknown)[0], "input", known)
        for name, expr in self.statements:
            if name in known:
                raise EverfreshError(
                    Code.EXISTS, f"the matrix '{name}' is assigned twice", place=f"{name} := {expr}"
                )
            if missing := sorted(names(expr) - known.keys()):
                raise _unknown(missing[0], "matrix", known)
            known[name] = expr.shape
        for name in self.outputs:
            if name not in known:
                raise _unknown(name, "matrix", known)

    @property
    def dynamic(self) -> tuple[str, ...]:
        """The inputs that may change."""
        return tuple(m.name for m in self.inputs if m.name not in self.static)

    def shape(self, name: str) -> Shape:
        """The shape of an input or of a statement's result."""
        shapes = {m.name: m.shape for m in self.inputs} | {name: expr.shape for name, expr in self.statements}
        if name not in shapes:
            raise _unknown(name, "matrix", shapes)
        return shapes[name]

    def __str__(self) -> str:
        lines = [
            f"{'static' if m.name in self.static else 'input'} {m.name}({m.rows}, {m.columns});"
            for m in self.inputs
        ]
        lines += [f"{name} := {to_text(expr)};" for name, expr in self.statements]
        return "\n".join([*lines, f"output {', '.join(self.outputs)};"])


def _unknown(name: str, what: str, known: Iterable[str]) -> EverfreshError:
    return EverfreshError(
        Code.NOT_FOUND,
        f"there is no {what} '{name}'",
        hint="there are: " + (", ".join(sorted(known)) or "none"),
    )


def parse(
    text: str,
    shapes: Mapping[str, Shape] | None = None,
    /,
    *,
    static: Iterable[str] = (),
    outputs: Iterable[str] | None = None,
    **more: Shape,
) -> Source:
    """The program that `text` writes.

    Input shapes come from `shapes`, from keywords, or from declarations `input A(3, 4);` (`static` for
    inputs that never change). Outputs are those declared, else the matrices that no other statement reads.
    """
    stream = tokens(text)
    inputs = {name: Matrix(name, *shape) for name, shape in {**(shapes or {}), **more}.items()}
    fixed, wanted = set(static), list(outputs or ())
    env, statements = dict(inputs), list[tuple[str, Expr]]()
    while stream.peek().kind != "end":
        if stream.peek(1).matches(":="):
            name, expr = _statement(stream, env)
            statements.append((name, expr))
            env[name] = Matrix(name, *expr.shape)
        elif stream.at("input") or stream.at("static"):
            word = stream.next().text.lower()
            matrix = _declaration(stream)
            inputs[matrix.name] = env[matrix.name] = matrix
            fixed |= {matrix.name} if word == "static" else set()
        elif stream.peek(1).matches("="):
            stream.next()
            raise stream.error(
                "a matrix is defined with ':=', as in B := A A; '=' is no word of the language"
            )
        else:
            stream.expect("output")
            wanted.append(stream.name())
            while stream.accept(","):
                wanted.append(stream.name())
        if stream.peek().kind != "end":
            stream.expect(";")
    return Source(
        tuple(inputs.values()), tuple(statements), tuple(wanted) or unread(statements), frozenset(fixed)
    )


def _statement(stream: TokenStream, env: Mapping[str, Matrix]) -> tuple[str, Expr]:
    name = stream.name()
    stream.expect(":=")
    return name, read_sum(stream, env)


def _declaration(stream: TokenStream) -> Matrix:
    name = stream.name()
    stream.expect("(")
    rows = stream.integer()
    stream.expect(",")
    columns = stream.integer()
    stream.expect(")")
    return Matrix(name, rows, columns)


def unread(statements: Iterable[tuple[str, Expr]]) -> tuple[str, ...]:
    """The statements that no other one reads."""
    listed = list(statements)
    if not listed:
        raise EverfreshError(Code.SYNTAX, "a program needs a statement", hint="write for example B := A A;")
    read = set[str]().union(*(names(expr) for _, expr in listed))
    return tuple(name for name, _ in listed if name not in read)
