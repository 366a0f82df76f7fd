"""Shapes as text, and back: `parse_shape(text_of(s)) == s` for every shape.

shape := term { (UNION | EXCEPT | INTERSECT) term }        from left to right
term  := atom { WITH CENTER | WITHOUT CENTER }
atom  := L0 | L1(e) | L2(e) | LINF(e) | HAMMING(e) | EMD(e) | TVD(e) | RING(r1, r2) | ELLIPSE(a, b, ...)
       | [first:last, offset, *, ...] | {(i, j), ...} | ( shape )
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everfresh.arrays.shape.base import Shape
from everfresh.arrays.shape.combined import Difference, Intersection, Union, WithCenter, WithoutCenter
from everfresh.arrays.shape.norms import EMD, L0, L1, L2, TVD, Hamming, Linf
from everfresh.arrays.shape.sets import Cuboid, Ellipse, Offsets, Ring, offsets_of
from everfresh.expr.tokens import TokenStream

_NORMS: dict[str, type[Any]] = {
    "L1": L1, "L2": L2, "LINF": Linf, "HAMMING": Hamming, "EMD": EMD, "TVD": TVD,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _NORMS.items()}
_OPERATORS: dict[str, type[Any]] = {"UNION": Union, "EXCEPT": Difference, "INTERSECT": Intersection}
_WORDS = {kind: word for word, kind in _OPERATORS.items()}


def text_of(shape: Shape) -> str:
    """A shape as text.

    >>> text_of((L1(1) | L2(2)).without_center() & Linf(1))
    '(L1(1) UNION L2(2)) WITHOUT CENTER INTERSECT LINF(1)'
    """
    match shape:
        case L0():
            return "L0"
        case Ring():
            return f"RING({_number(shape.inner)}, {_number(shape.outer)})"
        case Ellipse():
            return f"ELLIPSE({', '.join(map(_number, shape.axes))})"
        case Cuboid():
            return f"[{', '.join(_range(lo, hi) for lo, hi in shape.ranges)}]"
        case Offsets():
            members = (f"({', '.join(map(str, member))})" for member in shape.members)
            return "{" + ", ".join(members) + "}"
        case WithCenter():
            return f"{_atom(shape.of)} WITH CENTER"
        case WithoutCenter():
            return f"{_atom(shape.of)} WITHOUT CENTER"
        case Union() | Difference() | Intersection():
            right = text_of(shape.right)
            if type(shape.right) in _WORDS:
                right = f"({right})"
            return f"{text_of(shape.left)} {_WORDS[type(shape)]} {right}"
        case _ if type(shape) in _NAMES:
            return f"{_NAMES[type(shape)]}({_number(shape.e)})"  # type: ignore[attr-defined]
        case _:
            raise AssertionError(f"a shape without text: {type(shape).__name__}")


def _atom(shape: Shape) -> str:
    text = text_of(shape)
    return f"({text})" if type(shape) in _WORDS else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _range(lo: int | None, hi: int | None) -> str:
    return "*" if lo is None else str(lo) if lo == hi else f"{lo}:{hi}"


def parse_shape(text: str) -> Shape:
    """The shape that a text describes.

    >>> print(parse_shape("[-60:-1, 0, *] union {(0, 0, 1)} with centre"))
    [-60:-1, 0, *] UNION {(0, 0, 1)} WITH CENTER
    """
    stream = TokenStream(text)
    shape = read_shape(stream)
    stream.end()
    return shape


def read_shape(stream: TokenStream) -> Shape:
    """The shape at the position of a stream."""
    found = _term(stream)
    while True:
        word = next((word for word in _OPERATORS if stream.accept(word)), None)
        if word is None:
            return found
        found = _OPERATORS[word](found, _term(stream))


def _term(stream: TokenStream) -> Shape:
    found = _read_atom(stream)
    for_word = {"WITH": Shape.with_center, "WITHOUT": Shape.without_center}
    while True:
        word = next((w for w in for_word if stream.at(w, "CENTER") or stream.at(w, "CENTRE")), None)
        if word is None:
            return found
        stream.next()
        stream.next()
        found = for_word[word](found)


def _read_atom(stream: TokenStream) -> Shape:
    if stream.accept("("):
        found = read_shape(stream)
        stream.expect(")")
        return found
    if stream.accept("["):
        return Cuboid(tuple(stream.listed(lambda: _read_range(stream), "]")))
    if stream.accept("{"):
        return offsets_of(stream.listed(lambda: _read_member(stream), "}"))
    if stream.accept("L0"):
        return L0()
    if stream.accept("RING", "("):
        radii = stream.listed(lambda: _read_number(stream), ")")
        if len(radii) != 2:
            raise stream.error("RING needs an inner and an outer radius")
        return Ring(*radii)
    if stream.accept("ELLIPSE", "("):
        return Ellipse(tuple(stream.listed(lambda: _read_number(stream), ")")))
    for name, kind in _NORMS.items():
        if stream.accept(name, "("):
            norm: Callable[[float], Shape] = kind
            found = norm(_read_number(stream))
            stream.expect(")")
            return found
    raise stream.error(
        "a shape is expected: L0, L1(e), L2(e), LINF(e), HAMMING(e), EMD(e), TVD(e), RING(r, s), "
        "ELLIPSE(a, b), [first:last, ...] or {(i, j), ...}"
    )


def _read_range(stream: TokenStream) -> tuple[int | None, int | None]:
    if stream.accept("*"):
        return None, None
    lo = stream.integer()
    return (lo, stream.integer()) if stream.accept(":") else (lo, lo)


def _read_member(stream: TokenStream) -> tuple[int, ...]:
    if stream.accept("("):
        return tuple(stream.listed(stream.integer, ")"))
    return (stream.integer(),)


def _read_number(stream: TokenStream) -> float:
    token = stream.peek()
    if token.kind != "number":
        raise stream.error("a number is expected")
    stream.next()
    return int(token.text) if token.text.isdigit() else float(token.text)
