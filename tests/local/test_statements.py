"""Random statements: the executor equals the reference evaluator.

Catches: a join by the wrong column, a variable that stands twice in an atom, NULLs that do not meet, a factor
read before it is bound, a component taken for another, a closed sum with a count of zero dropped.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from program_support import contents

from everfresh.algebra import Gmr, Kind
from everfresh.calculus import (
    Bind,
    Cond,
    Database,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    evaluate,
    outputs,
)
from everfresh.expr import Const, Expr, Var, Vector, build
from everfresh.local.interpret.atoms import Atom, Picked, Rows
from everfresh.local.interpret.interpreter import run_terms
from everfresh.local.interpret.join_order import ordered
from everfresh.local.order import range_join as ranges
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Values
from everfresh.local.store.strings import Interner
from everfresh.program import MapDef
from everfresh.types import BIGINT, DOUBLE, VARCHAR, Column

NUMBER, TEXT = [None, 0, 1], [None, "", "a"]
RELATIONS = {
    "R": (Column("a", BIGINT), Column("b", BIGINT)),
    "S": (Column("b", BIGINT), Column("g", VARCHAR), Column("c", BIGINT)),
    "T": (Column("g", VARCHAR), Column("i", BIGINT, False)),
}
MAPS = {"M": (Column("a", BIGINT), Column("b", BIGINT)), "P": (Column("g", VARCHAR),), "Q": ()}
KINDS = (Kind.WIDE, Kind.FLOAT)
INTS = [Var(name, BIGINT) for name in "xyzu"]
TEXTS = [Var(name, VARCHAR) for name in "st"]


def variable(random: Random, column: Column) -> Var:
    return random.choice(INTS if column.type == BIGINT else TEXTS)


def row(random: Random, columns: tuple[Column, ...]) -> tuple[Any, ...]:
    return tuple(
        random.choice([v for v in (NUMBER if c.type == BIGINT else TEXT) if c.nullable or v is not None])
        for c in columns
    )


def integer(random: Random, bound: list[Var]) -> Expr:
    """A number that is never NULL."""
    numbers = [v for v in bound if v.type == BIGINT]
    if not numbers or random.random() < 0.3:
        return Const(random.choice([1, 2, -3]), BIGINT)
    return build.call("coalesce", random.choice(numbers), Const(5, BIGINT))


def scalar(random: Random, bound: list[Var], k: int) -> Query:
    choice = random.random()
    if k and choice < 0.3:
        eighths = build.call("/", build.cast(integer(random, bound), DOUBLE), Const(8.0, DOUBLE))
        return Value((integer(random, bound), eighths))
    if choice < 0.6 and bound:
        var = random.choice(bound)
        if var.type == BIGINT:
            return Cond(build.call(random.choice(["<", "<>", ">="]), var, integer(random, bound)))
        return Cond(build.call("is_null", var)) if random.random() < 0.5 else Cond(
            build.call("=", var, Const("a", VARCHAR)))  # fmt: skip
    return Bind(random.choice(INTS), integer(random, bound))


def atom(random: Random, k: int, depth: int) -> Query:
    choice = random.random()
    if choice < 0.55:
        name = random.choice(list(RELATIONS))
        vars_ = tuple(variable(random, c) for c in RELATIONS[name])
        return Rel(name, vars_, delta=random.random() < 0.5)
    if choice < 0.85 or depth == 0:
        name = random.choice(list(MAPS))
        keys = tuple(variable(random, c) for c in MAPS[name])
        whole = random.choice([(0, 1, 2), (0, 1, 1), (0, 0, 2), (0, -1, 2), (0, 1, 0)])
        return MapRef(name, keys, whole if k and random.random() < 0.6 else (0,))
    inside = [atom(random, k, 0) for _ in range(random.randrange(1, 3))]
    bound = list({v.name: v for f in inside for v in outputs(f)}.values())
    if k and random.random() < 0.5:
        inside.append(scalar(random, bound, k))
        bound = list({v.name: v for f in inside for v in outputs(f)}.values())
    group = tuple(v for v in bound if random.random() < 0.6)
    hidden = {v.name: Var(f"{v.name}_{random.randrange(10**6)}", v.type) for v in bound if v not in group}
    return Sum(group, renamed(Prod(tuple(inside)), hidden))


def renamed(node: Any, names: dict[str, Var]) -> Any:
    if isinstance(node, Var):
        return names.get(node.name, node)
    return node.map_children(lambda child: renamed(child, names))


def term(random: Random, keys: tuple[Var, ...], k: int) -> Query:
    factors: list[Query] = []
    bound: dict[str, Var] = {}
    for _ in range(random.randrange(1, 4)):
        factors.append(atom(random, k, 1))
        bound.update({v.name: v for v in outputs(factors[-1])})
        while random.random() < 0.4:
            factors.append(scalar(random, list(bound.values()), k))
            bound.update({v.name: v for v in outputs(factors[-1])})
    for key in keys:
        if key.name not in bound:
            value = Const(1, BIGINT) if key.type == BIGINT else Const("a", VARCHAR)
            factors.append(Bind(key, value))
    body: Query = Prod(tuple(factors))
    return Neg(Sum(keys, body)) if random.random() < 0.3 else Sum(keys, body)


class Scope:
    many = False

    def __init__(self, random: Random) -> None:
        self.interner, self.visited = Interner(), 0
        self.many = random.random() < 0.5
        self.tables = {n: self.gmr(random, c) for n, c in RELATIONS.items()}
        self.deltas = {n: self.gmr(random, c, signs=(1, -1, 2, -2)) for n, c in RELATIONS.items()}
        self.maps: dict[str, Gmr] = {}
        self.stores: dict[str, EntryStore] = {}
        for name, columns in MAPS.items():
            keys = tuple(Var(c.name, c.type, c.nullable) for c in columns)
            store = EntryStore(MapDef(name, keys, KINDS, None), self.interner)
            entries = Gmr()
            for key in {row(random, columns) for _ in range(6)}:
                weight = (random.choice([1, 2]), random.choice([0, 3, -(1 << 40)]), random.choice([0, 1, -6]))
                entries.add(key, weight)
            self.maps[name] = entries
            found = list(entries.items())
            values = Values.zeros(store.layout, len(found))
            values.n[:] = [w[0] for _, w in found]
            values.ints[0], values.ints[1] = (
                np.array([w[1] >> 64 for _, w in found]),
                [w[1] for _, w in found],
            )
            values.floats[0] = [w[2] for _, w in found]
            store.commit(store.add_words(self.words(store.codec, [key for key, _ in found]), values))
            self.stores[name] = store

    @staticmethod
    def gmr(random: Random, columns: tuple[Column, ...], signs: tuple[int, ...] = (1, 2)) -> Gmr:
        return Gmr((row(random, columns), (random.choice(signs),)) for _ in range(7))

    def words(self, codec: Codec, rows: list[Any]) -> Any:
        vectors = [Vector.from_pylist([r[i] for r in rows], c.type) for i, c in enumerate(codec.columns)]
        return codec.encode_vectors(vectors, len(rows))

    def atom(self, factor: Rel | MapRef) -> Atom:
        if isinstance(factor, MapRef):
            return Picked(self.stores[factor.name], factor.components)
        found = list((self.deltas if factor.delta else self.tables)[factor.name].items())
        codec = Codec(RELATIONS[factor.name], self.interner)
        weights = np.array([w[0] for _, w in found], np.int64)
        return Rows(codec, self.words(codec, [key for key, _ in found]), weights)

    def needs(self, _atom: Rel) -> None:
        return None


@pytest.mark.parametrize("seed", range(400))
def test_statements_equal_the_reference_evaluator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # every range through an index
        monkeypatch.setattr(ranges, "LONG", -1)
    random = Random(seed)
    scope = Scope(random)
    kinds = KINDS if random.random() < 0.6 else ()
    keys = tuple(random.sample([*INTS[:2], TEXTS[0]], random.randrange(3)))
    terms = [term(random, keys, len(kinds)) for _ in range(random.randrange(1, 3))]
    query: Query = terms[0] if len(terms) == 1 else Plus(tuple(terms))
    store = EntryStore(MapDef("out", keys, kinds, query), scope.interner)
    found = ordered(query, keys, scope.needs, summable=None if kinds else lambda _: True)
    delta = run_terms(found, keys, store.codec, store.layout, scope)
    assert (
        delta.values.n.astype(bool) | delta.values.ints.any(axis=0) | delta.values.floats.any(axis=0)
    ).all()
    store.add_words(delta.words, delta.values)
    actual = {key: weight for key, weight in contents(store).items() if any(weight)}
    db = Database(tables=scope.tables, deltas=scope.deltas, maps=scope.maps)
    # the evaluator takes the number of values from the query: a term without any has as many as the others
    whole = Prod((query, Value(tuple(Const(1, BIGINT) for _ in kinds)))) if kinds else query
    order = [[v.name for v in outputs(whole)].index(v.name) for v in keys]
    expected = {tuple(k[i] for i in order): w for k, w in evaluate(whole, db).items()}
    assert actual == {
        key: tuple(map(float_or_int, weight, (Kind.COUNT, *kinds))) for key, weight in expected.items()
    }


def float_or_int(value: Any, kind: Kind) -> Any:
    return float(value) if kind == Kind.FLOAT else int(value)
