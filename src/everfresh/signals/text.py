"""Queries as text, and back: `parse(to_text(node)) == node`.

The text is the calls that make the query, with every argument by name; those that have their default value
are left out. A user's functions stand by name, and are given to `parse`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node
from everfresh.signals import nodes as n

_NAMES: dict[str, type[Node]] = {
    "reading": n.Reading,
    "view": n.Viewed,
    "to_signal": n.ToSignal,
    "aggregate": n.Snapshot,
    "lifetime": n.Lifetime,
    "until_next": n.UntilNext,
    "asof_left": n.AsofLeft,
    "union": n.Union,
    "anti_join": n.AntiJoin,
    "join": n.JoinReference,
    "where": n.Where,
    "select": n.Select,
    "function": n.Function,
    "scale": n.Scale,
    "shift": n.Shift,
    "combine": n.Combine,
    "as_uniform": n.AsUniform,
    "sample": n.Sample,
    "resample": n.Resample,
    "downsample": n.Downsample,
    "resample_poly": n.Polyphase,
    "session": n.Session,
    "fir": n.Fir,
    "iir": n.Iir,
    "sos": n.Sos,
    "filter": n.Filter,
    "hopping": n.Hopping,
    "window": n.Window,
    "fft": n.Fft,
    "ifft": n.Ifft,
    "multiply": n.Multiply,
    "map": n.MapWindows,
    "apply": n.Apply,
    "autocorrelate": n.Autocorrelate,
    "cross_correlate": n.CrossCorrelate,
    "reduce": n.ReduceWindows,
    "unwindow": n.Unwindow,
    "policy": n.Policy,
    "agg": n.Agg,
    "type": n.PayloadType,
}
_WORDS = {cls: name for name, cls in _NAMES.items()}


def to_text(node: Node, named: Mapping[n.Fn, str] | None = None) -> str:
    """The calls that make a query; `named` has other names for functions than their own.

    >>> from everfresh.signals import first_order, reading
    >>> print(reading("t", time="at", key="id").sample(10, interpolate=first_order(20)))
    reading(table='t', time='at', key=('id',), value=('value',)).sample(period=10, \
interpolate=policy(name='first_order', window=20))
    """
    chain: list[str] = []
    while True:
        names = [f for f in fields(node) if f.name != "input"]  # type: ignore[arg-type]
        args = [
            f"{f.name}={_value(getattr(node, f.name), named or {})}"
            for f in names
            if f.default is MISSING or not _same(getattr(node, f.name), f.default)
        ]
        chain.append(f"{_WORDS[type(node)]}({', '.join(args)})")
        if not hasattr(node, "input"):
            return ".".join(reversed(chain))
        node = node.input


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _value(value: Any, named: Mapping[n.Fn, str]) -> str:
    if isinstance(value, Node):
        return to_text(value, named)
    if isinstance(value, n.Fn):
        return f"fn({named.get(value, value.name)!r})"
    if isinstance(value, tuple):
        inside = ", ".join(_value(each, named) for each in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, complex):
        return f"complex({_value(value.real, named)}, {_value(value.imag, named)})"
    return (
        f"float({str(value)!r})" if value != value or value in (float("inf"), -float("inf")) else repr(value)
    )


def parse(text: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> Node:
    """The query that a text says; `functions` are those of users, by name."""
    try:
        tree = ast.parse(text, mode="eval")
        found = _read(tree.body, functions or {})
    except (SyntaxError, ValueError, TypeError, AttributeError) as problem:
        raise EverfreshError(Code.SYNTAX, f"this is no query over signals: {problem}") from None
    if not isinstance(found, Node):
        raise EverfreshError(Code.SYNTAX, "this is no query over signals")
    return found


def _read(tree: ast.AST, functions: Mapping[str, Callable[..., Any]]) -> Any:
    match tree:
        case ast.Call(func=ast.Name(id="fn"), args=[ast.Constant(value=str(name))]):
            if name not in functions:
                raise EverfreshError(
                    Code.NOT_FOUND, f"there is no function '{name}'",
                    hint="functions are: " + (", ".join(functions) or "none"),
                )  # fmt: skip
            return n.Fn(name.rpartition(":")[2], functions[name])
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(value))]):
            return float(value)
        case ast.Call(func=ast.Name(id="complex"), args=[real, imaginary]):
            return complex(_read(real, functions), _read(imaginary, functions))
        case ast.Call(func=func, args=[], keywords=keywords):
            args = {str(each.arg): _read(each.value, functions) for each in keywords}
            if isinstance(func, ast.Attribute):
                return _class(func.attr)(input=_read(func.value, functions), **args)  # type: ignore[call-arg]
            if isinstance(func, ast.Name):
                return _class(func.id)(**args)
        case ast.Tuple(elts=items):
            return tuple(_read(item, functions) for item in items)
        case ast.Constant() | ast.UnaryOp():
            return ast.literal_eval(tree)
    raise ValueError(f"'{ast.unparse(tree)}' may not stand here")


def _class(name: str) -> type[Node]:
    if name not in _NAMES:
        raise ValueError(f"there is no operation '{name}'")
    return _NAMES[name]
