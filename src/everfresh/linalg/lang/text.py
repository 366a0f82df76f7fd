"""Linear algebra as text: `to_text` prints an expression, `parse_expr` reads it back as the same tree.

Products are written side by side (`A B`, also `A * B` and `A @ B`) and group to the left; `'` or `.T`
transposes; a number in front scales. Blocks stand in brackets, with commas side by side and with semicolons
one above the other.

>>> env = {"A": Matrix("A", 3, 3), "u": Matrix("u", 3, 1)}
>>> print(parse_expr("A*u + 2 u (u.T @ u)", env))
A u + 2 u (u' u)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import TokenStream
from everfresh.linalg.lang.nodes import (
    MODEL,
    Add,
    Constant,
    Expr,
    Eye,
    Inverse,
    Iterate,
    MatMul,
    Matrix,
    Power,
    PowerSum,
    Scale,
    Stack,
    Transpose,
    Zeros,
)

_SUM, _SCALE, _PRODUCT, _FACTOR = range(4)  # how tightly a form binds
Env = Mapping[str, Matrix]


def number(value: float) -> str:
    """A number as text that reads back as the same double.

    >>> number(2.0), number(0.1)
    ('2', '0.1')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def to_text(expr: Expr, level: int = _SUM) -> str:
    """The text of an expression, in parentheses where `level` asks for a tighter form."""
    text, binds = _show(expr)
    return text if binds >= level else f"({text})"


def _show(expr: Expr) -> tuple[str, int]:
    match expr:
        case Matrix(name):
            return name, _FACTOR
        case Add(terms):
            first, *rest = (_term(term) for term in terms)
            lead = first[1] if first[0] == "+" else f"-{first[1]}"
            return " ".join([lead, *(f"{sign} {text}" for sign, text in rest)]), _SUM
        case Scale():
            sign, text = _term(expr)
            return (text, _SCALE) if sign == "+" else (f"-{text}", _SUM)
        case MatMul(left, right):
            return f"{to_text(left, _PRODUCT)} {to_text(right, _FACTOR)}", _PRODUCT
        case Transpose(body):
            return f"{to_text(body, _FACTOR)}'", _FACTOR
        case Stack(parts, axis):
            return "[" + (", " if axis else "; ").join(to_text(part) for part in parts) + "]", _FACTOR
        case Constant(values):
            return "mat(" + "; ".join(", ".join(number(x) for x in row) for row in values) + ")", _FACTOR
        case _:
            return _call(expr), _FACTOR


def _term(expr: Expr) -> tuple[str, str]:
    """A term of a sum: its sign, and its text without the sign."""
    if not isinstance(expr, Scale):
        return "+", to_text(expr, _SCALE)
    sign = "-" if str(expr.factor).startswith("-") else "+"
    size = abs(expr.factor)
    if size == 1.0 and sign == "-":
        return sign, to_text(expr.body, _PRODUCT)
    return sign, f"{number(size)} {to_text(expr.body, _PRODUCT)}"


def _call(expr: Expr) -> str:
    match expr:
        case Eye(size):
            return f"eye({size})"
        case Zeros(height, width):
            return f"zeros({height}, {width})"
        case Inverse(body):
            return f"inv({to_text(body)})"
        case Power(body, k, model):
            return f"power({to_text(body)}, {k}{_model(model)})"
        case PowerSum(body, k, model):
            return f"sum_of_powers({to_text(body)}, {k}{_model(model)})"
        case Iterate(body, start, offset, k, model):
            parts = [to_text(body), to_text(start), *([] if offset is None else [to_text(offset)])]
            return f"iterate({', '.join(parts)}, {k}{_model(model)})"
    raise TypeError(f"{type(expr).__name__} has no text")


def _model(model: str) -> str:
    return "" if model == "auto" else f", {model}"


def parse_expr(text: str, env: Env) -> Expr:
    """The expression that `text` writes, over the matrices of `env`."""
    stream = tokens(text)
    expr = read_sum(stream, env)
    stream.end()
    return expr


def tokens(text: str) -> TokenStream:
    """The tokens of a text of this language, in which `'` is the transpose and quotes no strings."""
    return TokenStream(text.replace("'", "′"))


def read_sum(stream: TokenStream, env: Env) -> Expr:
    """Terms joined by + and -."""
    terms = [_read_product(stream, env, stream.accept("-"))]
    while stream.at("+") or stream.at("-"):
        terms.append(_read_product(stream, env, stream.next().text == "-"))
    return _placed(stream, lambda: Add(tuple(terms))) if len(terms) > 1 else terms[0]


def _read_product(stream: TokenStream, env: Env, minus: bool) -> Expr:
    scale: float | None = None
    product: Expr | None = None
    while True:
        if stream.peek().kind == "number":
            scale = (1.0 if scale is None else scale) * float(stream.next().text)
        else:
            factor = _read_factor(stream, env)
            product = factor if product is None else _multiply(stream, product, factor)
        if not (stream.accept("*") or stream.accept("@") or _starts_factor(stream)):
            break
    if product is None:
        raise stream.error("a number cannot stand alone: scale a matrix, or eye(n); a matrix is expected")
    if minus:
        scale = -1.0 if scale is None else -scale
    return product if scale is None else Scale(scale, product)


def _multiply(stream: TokenStream, left: Expr, right: Expr) -> Expr:
    return _placed(stream, lambda: MatMul(left, right))


def _placed(stream: TokenStream, build: Callable[[], Expr]) -> Expr:
    """What `build` makes; its error gets the place in the text."""
    try:
        return build()
    except EverfreshError as error:
        raise error.at(str(stream.error("").place)) from None


def _starts_factor(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.kind in ("name", "number") or (token.kind == "symbol" and token.text in ("(", "["))


def _read_factor(stream: TokenStream, env: Env) -> Expr:
    expr = _read_primary(stream, env)
    while True:
        if stream.accept("′"):
            expr = Transpose(expr)
        elif stream.at(".") and stream.peek(1).matches("T"):
            stream.accept(".", "T")
            expr = Transpose(expr)
        else:
            return expr


def _read_primary(stream: TokenStream, env: Env) -> Expr:
    if stream.accept("("):
        expr = read_sum(stream, env)
        stream.expect(")")
        return expr
    if stream.accept("["):
        return _read_stack(stream, env)
    if stream.peek().kind == "name" and stream.peek(1).matches("(") and stream.peek().text in _CALLS:
        name = stream.next().text
        stream.expect("(")
        expr = _placed(stream, lambda: _CALLS[name](stream, env))
        stream.expect(")")
        return expr
    if stream.peek().kind != "name":
        raise stream.error("a matrix is expected")
    return _read_name(stream, env)


def _read_name(stream: TokenStream, env: Env) -> Expr:
    name, *transposes = stream.peek().text.split(".")
    if name not in env:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no matrix '{name}'",
            place=stream.error("").place,
            hint="matrices are: " + (", ".join(sorted(env)) or "none"),
        )
    if any(part != "T" for part in transposes):
        raise stream.error("only .T may follow a matrix")
    stream.next()
    expr: Expr = env[name]
    for _ in transposes:
        expr = Transpose(expr)
    return expr


def _read_stack(stream: TokenStream, env: Env) -> Expr:
    parts = [read_sum(stream, env)]
    mark = ";" if stream.at(";") else ","
    while stream.accept(mark):
        parts.append(read_sum(stream, env))
    stream.expect("]")
    return (
        parts[0] if len(parts) == 1 else _placed(stream, lambda: Stack(tuple(parts), 1 if mark == "," else 0))
    )


def _read_zeros(stream: TokenStream, _env: Env) -> Expr:
    height = stream.integer()
    stream.expect(",")
    return Zeros(height, stream.integer())


def _read_constant(stream: TokenStream, _env: Env) -> Expr:
    rows: list[tuple[float, ...]] = []
    while not rows or stream.accept(";"):
        row: list[float] = []
        while not row or stream.accept(","):
            sign = -1.0 if stream.accept("-") else 1.0
            if stream.peek().kind != "number":
                raise stream.error("a number is expected")
            row.append(sign * float(stream.next().text))
        rows.append(tuple(row))
    return Constant(tuple(rows))


def _read_model(stream: TokenStream) -> str:
    if not stream.accept(","):
        return "auto"
    model = stream.name()
    if model == "skip" and stream.accept("-"):
        model = f"skip-{stream.integer()}"
    if not MODEL.fullmatch(model):
        raise stream.error("a model (linear, exponential, skip-s) is expected")
    return model


def _read_power(stream: TokenStream, env: Env) -> Expr:
    body = read_sum(stream, env)
    stream.expect(",")
    return Power(body, stream.integer(), _read_model(stream))


def _read_power_sum(stream: TokenStream, env: Env) -> Expr:
    body = read_sum(stream, env)
    stream.expect(",")
    return PowerSum(body, stream.integer(), _read_model(stream))


def _read_iterate(stream: TokenStream, env: Env) -> Expr:
    body = read_sum(stream, env)
    stream.expect(",")
    start = read_sum(stream, env)
    stream.expect(",")
    offset = None
    alone = stream.peek().kind == "number" and (stream.peek(1).matches(",") or stream.peek(1).matches(")"))
    if not alone:
        offset = read_sum(stream, env)
        stream.expect(",")
    return Iterate(body, start, offset, stream.integer(), _read_model(stream))


_CALLS: dict[str, Callable[[TokenStream, Env], Expr]] = {
    "inv": lambda stream, env: Inverse(read_sum(stream, env)),
    "eye": lambda stream, _env: Eye(stream.integer()),
    "zeros": _read_zeros,
    "mat": _read_constant,
    "power": _read_power,
    "sum_of_powers": _read_power_sum,
    "iterate": _read_iterate,
}
