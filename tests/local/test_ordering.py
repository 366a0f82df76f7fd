"""The order of a product: joined and not crossed, guarded and not raised, and only what is read is kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from everfresh.calculus import MapRef, Query, Rel, Sum, parse
from everfresh.expr import Var
from everfresh.local.interpret.atoms import TableRows
from everfresh.local.interpret.determined import determining
from everfresh.local.interpret.fanout import fanout
from everfresh.local.interpret.join_order import ordered
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Table
from everfresh.types import BIGINT, Column, TableSchema

NUMBER = [Column("a", BIGINT), Column("b", BIGINT)]
RELATIONS = {"R": NUMBER, "S": NUMBER, "P": NUMBER}
MAPS = {"M": (Var("a", BIGINT), Var("b", BIGINT)), "K": (Var("a", BIGINT),), "Z": ()}
X = Var("x", BIGINT)


def order(text: str) -> list[str]:
    (term,) = ordered(parse(text, RELATIONS, MAPS), (X,), lambda atom: (0,) if atom.name == "P" else None)
    return [str(step.factor) for step in term.steps]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S(y, z) * ΔR(x, y)", "ΔR(x, y) S(y, z)"),
        ("ΔR(x, y) * S(u, v) * M[y, u](0)", "ΔR(x, y) M[y, u](0) S(u, v)"),  # S alone would be crossed
        ("ΔR(x, y) * S(y, z) * K[x](0)", "ΔR(x, y) K[x](0) S(y, z)"),  # a look-up adds no rows
        ("ΔR(x, y) * S(y, z) * [x > y]", "ΔR(x, y) [x > y] S(y, z)"),  # cannot fail: filters first
        ("ΔR(x, y) * S(y, z) * [1::BIGINT // x = y]", "ΔR(x, y) S(y, z) [1::BIGINT // x = y]"),
        ("ΔR(x, y) * (u := y + y) * S(u, z)", "ΔR(x, y) (u := y + y) S(u, z)"),
        ("ΔR(x, y) * S(u, z) * (u := y + y)", "ΔR(x, y) (u := y + y) S(u, z)"),  # bound ahead: not crossed
        ("ΔR(x, y) * S(y, z) * (u := y + y)", "ΔR(x, y) S(y, z) (u := y + y)"),
        ("P(y, z) * ΔR(x, y)", "ΔR(x, y) P(y, z)"),  # a row for every key: only looked up
        (
            "ΔR(x, y) * [1::BIGINT // y > x] * ⟨1::BIGINT // y⟩",
            "ΔR(x, y) [1::BIGINT // y > x] ⟨1::BIGINT // y⟩",
        ),
        ("ΔR(x, y) * Z[](0) * S(y, z)", "ΔR(x, y) Z[](0) S(y, z)"),
    ],
)
def test_the_order_of_factors(text: str, expected: str) -> None:
    assert " ".join(order(text)) == expected


def test_rows_that_are_bound_by_their_key_come_before_others() -> None:
    query = parse("ΔR(x, y) * S(y, z) * P(x, u)", RELATIONS, MAPS)

    def steps(key: str) -> list[str]:
        keyed = lambda atom: (0,) if atom.name == key else ()  # noqa: E731
        (term,) = ordered(query, (X,), lambda _: None, keyed=keyed)
        return [str(step.factor) for step in term.steps]

    assert steps("P") == ["ΔR(x, y)", "P(x, u)", "S(y, z)"]
    assert steps("S") == ["ΔR(x, y)", "S(y, z)", "P(x, u)"]


def test_entries_that_a_key_determines_come_before_others() -> None:
    query = parse("ΔR(x, y) * S(y, z) * M[x, u](0)", RELATIONS, MAPS)
    keyed = lambda atom: (0,) if atom.name == "M" else ()  # noqa: E731
    (term,) = ordered(query, (X,), lambda _: None, keyed=keyed)
    assert [str(step.factor) for step in term.steps] == ["ΔR(x, y)", "M[x, u](0)", "S(y, z)"]


def test_of_what_is_joined_the_fewest_come_first() -> None:
    query = parse("ΔR(x, y) * S(y, z) * M[x, u](0)", RELATIONS, MAPS)

    def steps(**entries: float) -> list[str]:
        (term,) = ordered(query, (X,), lambda _: None, fanout=lambda atom, _: entries.get(atom.name))
        return [str(step.factor) for step in term.steps[1:]]

    assert steps(S=10.0, M=2.0) == ["M[x, u](0)", "S(y, z)"]
    assert steps(S=2.0, M=10.0) == ["S(y, z)", "M[x, u](0)"]
    assert steps(M=2.0) == ["S(y, z)", "M[x, u](0)"]  # nobody knows of S


@pytest.mark.parametrize(("groups", "rows"), [(1, 3000), (50, 3000), (3000, 3000), (1000, 60_000)])
def test_the_entries_that_a_lookup_finds_are_estimated_from_some(groups: int, rows: int) -> None:
    table = Table(TableSchema("t", (Column("a", BIGINT), Column("b", BIGINT)), ("a",)), Interner())
    numbers = np.arange(rows, dtype=np.int64)
    table.pool.enter(table.codec.encode(pa.table({"a": numbers, "b": numbers % groups})))
    found = fanout(TableRows(table), [1])
    assert rows / groups * 0.7 <= found <= max(rows / groups * 1.4, 1.0)
    assert fanout(TableRows(table), [0]) == 1.0


@pytest.mark.parametrize(
    ("definition", "keys", "expected"),
    [
        ("S(a, b)", "a b", (0,)),  # by the primary key of S
        ("S(a, b)", "b a", (1,)),
        ("S(a, b)", "b", ()),  # the key is not among them
        ("S(a, b)", "a", ()),  # it takes all of them anyway
        ("S(a, b) * R(b, c)", "a b", (0,)),
        ("S(a, b) * R(b, c)", "a c", ()),  # R has many rows for a b
        ("S(a, b) * P(b, c)", "a c", (0,)),  # one P for the one S
        ("S(a, b) * (c := b + b)", "a c", (0,)),
        ("S(a, b) * P(c, d) * [b = c]", "a d", (0,)),
        ("S(a, b) * P(c, d) * [b > c]", "a d", ()),
        ("S(a, b) + P(a, b)", "a b", ()),  # one of each
    ],
)
def test_what_determines_an_entry(definition: str, keys: str, expected: tuple[int, ...]) -> None:
    keyed = lambda atom: (0,) if atom.name in ("S", "P") else ()  # noqa: E731
    found = determining(
        parse(definition, RELATIONS, MAPS), [Var(name, BIGINT) for name in keys.split()], keyed
    )
    assert found == expected


def test_only_what_is_read_later_is_kept() -> None:
    query: Query = Sum((X,), parse("ΔR(x, y) * M[y, z](0) * [z + z > x]", RELATIONS, MAPS))
    (term,) = ordered(query, (X,), lambda _: None)
    assert [sorted(step.keep) for step in term.steps] == [["x", "y", "z"], ["x"]]
    assert [sorted(step.keep) for step in term.steps[1].slow] == [["x", "z"], ["x"]]


def ranges(text: str) -> list[tuple[str, bool, list[str]]]:
    """The ranges of the steps of a product: of what, whether the sums over it do, what is compared."""
    (term,) = ordered(parse(text, RELATIONS, MAPS), (X,), lambda _: None, summable=lambda _: True)
    return [
        (str(s.factor), s.summed, [f"{s.range.value} {c.op} {c.limit}" for c in s.range.comparisons])
        for s in term.steps
        if s.range is not None
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ΔR(x, y) * K[z](0) * [z < y]", [("K[z](0)", True, ["z < y"])]),
        ("ΔR(x, y) * K[z](0) * [z < y] * ⟨z⟩", [("K[z](0)", False, ["z < y"])]),  # visited: z is read
        ("ΔR(x, y) * M[x, z](0) * [y >= z] * [z > x]", [("M[x, z](0)", True, ["z <= y", "z > x"])]),
        ("ΔR(x, y) * M[x, z](0) * [y - z < x]", [("M[x, z](0)", True, ["z > y - x"])]),
        ("ΔR(x, y) * M[x, z](0) * [z < x OR z > y]", [("M[x, z](0)", True, ["z < x", "z > y"])]),
        ("ΔR(x, y) * K[z](0) * [z <> y]", [("K[z](0)", True, ["z < y", "z > y"])]),
        ("ΔR(x, y) * M[x, z](0) * [z <> y]", []),  # of the entries that agree with x all but one are read
        ("ΔR(x, y) * M[x, z](0) * [z <> y] * [z > x]", [("M[x, z](0)", True, ["z < y", "z > y", "z > x"])]),
        ("ΔR(x, y) * M[x, z](0) * [z + z < y OR z > y]", []),  # two values: no index has both orders
        ("ΔR(x, y) * M[x, z](0) * [z * y < x]", []),  # not solved for z
        ("ΔR(x, y) * M[z, z](0) * [z < x]", []),
        ("ΔR(x, y) * ΔS(u, z) * [z < x]", []),  # a change has no index
        ("ΔR(x, y) * Sum_[z](ΔS(u, z)) * [z < x]", [("Sum_[z](ΔS(u, z))", True, ["z < x"])]),
        ("ΔR(x, y) * K[z](0) * (u := y + y) * [z < u]", [("K[z](0)", True, ["z < u"])]),
    ],
)
def test_inequalities_are_ranges(text: str, expected: list[tuple[str, bool, list[str]]]) -> None:
    assert ranges(text) == expected


def test_signs_and_sums_are_taken_apart() -> None:
    text = "Sum_[x](ΔR(x, y)) + -(Sum_[x](K[x](0) + -ΔS(x, y)))"
    terms = ordered(parse(text, RELATIONS, MAPS), (X,), lambda _: None)
    assert [(term.sign, type(term.steps[0].factor)) for term in terms] == [(1, Rel), (-1, MapRef), (1, Rel)]


@pytest.mark.parametrize("text", ["P(x, y)", "P(y, x) * S(x, z)", "Exists(ΔR(x, y))"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(TypeError):
        order(text)
