"""Binding patterns (section 2.2.4): the input and the output variables of a query.

An *input* must be given from outside before the query can be evaluated; an *output* is a column of its
result. In a product bindings flow from left to right, so an input of a later factor may be an output of an
earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from everfresh.calculus.nodes import (
    Bind,
    Cond,
    Each,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
)
from everfresh.expr.nodes import Expr, Var, variables
from everfresh.rewrite import remembered

Pattern = tuple[tuple[Var, ...], tuple[Var, ...]]


@remembered
def pattern(query: Query) -> Pattern:
    """`(inputs, outputs)` of a query, each in order of first appearance."""
    return binding(query)


@singledispatch
def binding(query: Query) -> Pattern:
    """`pattern` of one class of nodes: a rule for each is registered here."""
    raise TypeError(f"no binding pattern for {type(query).__name__}")


def inputs(query: Query) -> tuple[Var, ...]:
    """The variables that must be bound before `query` is evaluated."""
    return pattern(query)[0]


def outputs(query: Query) -> tuple[Var, ...]:
    """The columns of the result of `query`."""
    return pattern(query)[1]


@remembered
def hidden(query: Query) -> frozenset[str]:
    """The names that some aggregate inside of `query` sums over."""
    sums = (n for n in query.walk() if isinstance(n, Sum))
    return frozenset(v.name for n in sums for v in _minus(outputs(n.body), n.group))


def _unique(items: Iterable[Var]) -> tuple[Var, ...]:
    found: dict[str, Var] = {}
    for var in items:
        found.setdefault(var.name, var)
    return tuple(found.values())


def _minus(items: Iterable[Var], names: Iterable[Var]) -> tuple[Var, ...]:
    taken = {var.name for var in names}
    return tuple(var for var in items if var.name not in taken)


@binding.register
def _(query: Rel) -> Pattern:
    return (), _unique(query.vars)


@binding.register
def _(query: MapRef) -> Pattern:
    return (), _unique(query.keys)


@binding.register
def _(query: Cond) -> Pattern:
    return variables(query.condition), ()


@binding.register
def _(query: Value) -> Pattern:
    return _unique(v for item in query.items for v in _vars(item)), ()


def _vars(expr: Expr) -> tuple[Var, ...]:
    return variables(expr)


@binding.register
def _(query: Bind) -> Pattern:
    return variables(query.expr), (query.var,)


@binding.register
def _(query: Each) -> Pattern:
    return _unique(v for item in query.lists for v in _vars(item)), query.vars


@binding.register
def _(query: Prod) -> Pattern:
    ins: list[Var] = []
    outs: list[Var] = []
    for factor in query.factors:
        factor_in, factor_out = pattern(factor)
        ins.extend(_minus(factor_in, outs))
        outs.extend(factor_out)
    return _unique(ins), _unique(outs)


@binding.register
def _(query: Plus) -> Pattern:
    patterns = [pattern(term) for term in query.terms]
    ins = _unique(v for term_in, _ in patterns for v in term_in)
    outs = _unique(v for _, term_out in patterns for v in term_out)
    return ins, outs


@binding.register
def _(query: Neg) -> Pattern:
    return pattern(query.body)


@binding.register
def _(query: Sum) -> Pattern:
    ins, outs = pattern(query.body)
    bound = {var.name for var in outs}
    # A group variable that the body does not bind is itself an input: it must come from outside.
    return _unique([*ins, *(v for v in query.group if v.name not in bound)]), query.group


@binding.register
def _(query: Lift) -> Pattern:
    ins, outs = pattern(query.body)
    # A closed lift has a row whatever its body holds, so the body's columns must come from outside.
    return _unique([*ins, *outs]) if query.closed else ins, _unique([*outs, query.var])


@binding.register
def _(query: Exists) -> Pattern:
    return pattern(query.body)
