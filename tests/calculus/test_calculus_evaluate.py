"""The reference evaluator: the worked examples of the thesis, and each rule of Figure 2.1 on its own.

Multiplicities are primes where it matters, so that a swapped or doubled term gives another number.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from everfresh.algebra import Gmr
from everfresh.calculus import Database, Query, evaluate, parse
from everfresh.calculus.nodes import Lift, MapRef, Rel, Value
from everfresh.errors import EverfreshError
from everfresh.expr import Const, Var
from everfresh.types import BIGINT, DOUBLE, INTEGER, NAN, Column

I = INTEGER  # noqa: E741  (so that 1 and 2 in the texts need no type)
A, B = Column("a", I), Column("b", I)
SCHEMA = {"R": (A, B), "S": (A, B), "T": (A,), "P": (A,), "D": (Column("d", DOUBLE), Column("n", I))}
MAPS = {"M": (Var("k", I),), "N": ()}


def query(text: str) -> Query:
    return parse(text, SCHEMA, MAPS)


def run(text: str, env: dict | None = None, maps: dict | None = None, **tables: dict) -> dict:
    gmrs = {
        name: Gmr((key, w if isinstance(w, tuple) else (w,)) for key, w in rows.items())
        for name, rows in tables.items()
    }
    deltas = {name.removeprefix("d_"): gmr for name, gmr in gmrs.items() if name.startswith("d_")}
    db = Database(gmrs, deltas, {name: Gmr(rows.items()) for name, rows in (maps or {}).items()})
    return dict(evaluate(query(text), db, env).items())


# Examples 2.2.2 and 2.2.3: a GMR with multiplicities m1, m2, m3
M1, M2, M3 = 2, 3, 5
R = {(1, 2): M1, (3, 5): M2, (4, 2): M3}


def test_example_2_2_2_a_bound_variable_selects() -> None:
    assert run("R(x, y)", {"x": 3}, R=R) == {(3, 5): (M2,)}
    assert run("R(x, y)", R=R) == {(1, 2): (M1,), (3, 5): (M2,), (4, 2): (M3,)}


def test_example_2_2_2_a_condition_is_a_factor() -> None:
    assert run("R(x, y) * [x < y]", R=R) == {(1, 2): (M1,), (3, 5): (M2,)}


def test_example_2_2_3_sum_with_group_by() -> None:
    # the relation atom carries ⟨m, m⟩, so q = m here
    expected = {(2,): (M1 + M3, 2 * M1 + 8 * M3), (5,): (M2, 6 * M2)}
    assert run("Sum_[y](R(x, y) * ⟨2 * x⟩)", R=R) == expected
    assert run("Sum_[y](R(x, y) * ⟨2⟩ * ⟨x⟩)", R=R) == expected


def test_example_2_2_4_a_correlated_nested_aggregate() -> None:
    """SELECT * FROM R WHERE B < (SELECT SUM(D) FROM S WHERE A > C)."""
    text = "Sum_[a, b](R(a, b) * (z INTEGER :=: Sum_[](S(c, d) * [a > c] * ⟨d⟩)) * [b < z])"
    tables = {"R": {(1, 0): 1, (2, 5): 2, (2, 6): 1, (9, 9): 1}, "S": {(1, 3): 2, (8, 1): 3}}
    # a = 1: nothing in S, no row; a = 2: z = 6; a = 9: z = 9
    assert run(text, **tables) == {(2, 5): (2,)}
    # closed: z = 0 over nothing, which is what COUNT and the thesis's programs mean
    assert run(text.replace(":=:", ":=!").replace("[b < z]", "[b <= z]"), **tables) == {
        (1, 0): (1,),
        (2, 5): (2,),
        (2, 6): (1,),
        (9, 9): (1,),
    }


def test_products_pass_bindings_to_the_right() -> None:
    tables = {"R": {(1, 2): 2, (2, 1): 3}, "S": {(2, 7): 5, (1, 8): 7}}
    assert run("R(x, y) * S(y, z)", **tables) == {(1, 2, 7): (10,), (2, 1, 8): (21,)}
    assert run("R(x, y) * (z := x + y) * [z = 3] * S(y, u)", **tables) == {
        (1, 2, 3, 7): (10,),
        (2, 1, 3, 8): (21,),
    }
    assert run("R(x, x)", R={(1, 1): 2, (1, 2): 1}) == {(1,): (2,)}
    # a binding of a bound variable compares
    assert run("R(x, y) * (x := y - 1)", **tables) == {(1, 2): (2,)}


@pytest.mark.parametrize(
    "text",
    ["[x > 1] * P(x)", "⟨x⟩ * P(x)", "(y := x) * P(x)", "Sum_[](⟨x⟩) * P(x)", "Exists([x = 1]) * P(x)",
     "(v INTEGER :=: ⟨x⟩) * P(x)", "(v INTEGER :=! Sum_[x](P(x))) * P(x)"],
)  # fmt: skip
def test_unbound_variables_are_refused(text: str) -> None:
    # The parser learns x from the factor on the right; the evaluator must not.
    left, right = text.rsplit(" * ", 1)
    swapped = query(f"{right} * {left}")
    assert dict(evaluate(swapped, Database({"P": Gmr([((1,), (1,))])})).items()) is not None
    wrong = type(swapped)(tuple(reversed(swapped.factors)))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"\['x'\].*not bound"):
        evaluate(wrong, Database({"P": Gmr([((1,), (1,))])}))
    assert evaluate(wrong, Database({"P": Gmr([((1,), (1,))])}), {"x": 1}) is not None


def test_ring() -> None:
    tables = {"P": {(1,): 2, (2,): 3}, "T": {(1,): 5, (3,): 7}}
    assert run("P(x) + T(x)", **tables) == {(1,): (7,), (2,): (3,), (3,): (7,)}
    assert run("P(x) + (-T(x))", **tables) == {(1,): (-3,), (2,): (3,), (3,): (-7,)}
    assert run("P(x) + (-P(x))", **tables) == {}
    assert run("P(x) * T(x)", **tables) == {(1,): (10,)}
    assert run("0", **tables) == {}
    assert run("1", **tables) == {(): (1,)}
    assert run("P(x) * 0", **tables) == {}
    assert run("ΔP(x) * P(x)", d_P={(1,): -1}, **tables) == {(1,): (-2,)}
    assert run("P(x)") == {}  # a relation without rows


def test_the_count_is_kept_apart_from_the_values() -> None:
    # values that sum to zero, and a count of zero beside a value
    assert run("Sum_[](P(x) * ⟨x⟩)", P={(1,): 2, (-2,): 1}) == {(): (3, 0)}
    assert run("Sum_[](P(x) * ⟨x⟩)", P={(1,): 1, (2,): -1}) == {(): (0, -1)}
    assert run("Sum_[](P(x) * ⟨x, x * x⟩)", P={(2,): 3, (5,): 1}) == {(): (4, 11, 37)}


def test_grouped_lift() -> None:
    tables = {"R": {(1, 2): 2, (1, 3): 1, (2, 5): 1, (2, 6): -1, (3, 0): 4}}
    found = run("(v INTEGER :=: Sum_[x](R(x, y) * ⟨y⟩))", **tables)
    # x = 2 has count 0 and is no row, whatever its value; x = 3 has value 0 and is one
    assert found == {(1, 7): (1,), (3, 0): (1,)}
    # without value terms the count is the value
    assert run("(v INTEGER :=: Sum_[x](R(x, y)))", **tables) == {(1, 3): (1,), (3, 4): (1,)}
    # a bound variable compares
    assert run("P(v) * (v INTEGER :=: Sum_[x](R(x, y) * ⟨y⟩))", P={(7,): 3}, **tables) == {(7, 1): (3,)}


def test_closed_lift_always_has_one_row() -> None:
    text = "P(x) * (v INTEGER :=! Sum_[](R(y, z) * [y = x] * ⟨z⟩))"
    tables = {"R": {(1, 2): 2, (1, 3): 1}, "P": {(1,): 1, (4,): 2}}
    assert run(text, **tables) == {(1, 7): (1,), (4, 0): (2,)}
    assert run(text.replace(":=!", ":=:"), **tables) == {(1, 7): (1,)}
    # correlated by a group variable that is bound outside: a look-up with a default
    assert run("P(x) * (v INTEGER :=! Sum_[x](R(x, z) * ⟨z⟩))", **tables) == {(1, 7): (1,), (4, 0): (2,)}


def test_lifts_have_the_type_of_their_variable() -> None:
    half = Value((Const(0.5, DOUBLE),))
    for type_, expected in ((DOUBLE, 0.5), (BIGINT, 0)):
        (key,) = dict(evaluate(Lift(Var("v", type_), half), Database()).items())
        assert (type(key[0]), key[0]) == (float if type_ == DOUBLE else int, expected)


def test_exists() -> None:
    tables = {"R": {(1, 2): 2, (1, 3): -2, (2, 5): -1, (3, 0): 4}}
    assert run("Exists(R(x, y))", **tables) == {(1, 2): (1,), (1, 3): (1,), (2, 5): (1,), (3, 0): (1,)}
    assert run("Exists(Sum_[x](R(x, y)))", **tables) == {(2,): (1,), (3,): (1,)}
    # n decides, not the values; and value terms may stand inside
    assert run("Exists(Sum_[x](R(x, y) * ⟨y⟩))", **tables) == {(2,): (1,), (3,): (1,)}
    assert run("Sum_[](Exists(Sum_[x](R(x, y) * ⟨y, x⟩)) * ⟨x⟩)", **tables) == {(): (2, 5)}


def test_maps_give_the_named_components() -> None:
    maps = {"M": {(1,): (2, 30, 40), (2,): (1, 5, 6)}, "N": {(): (7, 8)}}
    assert run("M[x](0)", maps=maps) == {(1,): (2,), (2,): (1,)}
    assert run("M[x](0, 2, 1)", maps=maps) == {(1,): (2, 40, 30), (2,): (1, 6, 5)}
    # a count beside value terms counts throughout, like a relation
    assert run("M[x](0) * ⟨x⟩", maps=maps) == {(1,): (2, 2), (2,): (1, 2)}
    assert run("M[x](2) * N[](0)", maps=maps) == {(1,): (280,), (2,): (42,)}
    assert run("P(x) * M[x](0)", maps=maps, P={(2,): 3}) == {(2,): (3,)}


# -- identity of NULL and NaN --------------------------------------------------------------------------


def test_null_is_null() -> None:
    tables = {"R": {(None, 1): 2, (1, None): 3, (None, None): 5}, "S": {(None, 4): 7}}
    assert run("R(x, y) * S(y, z)", **tables) == {(1, None, 4): (21,), (None, None, 4): (35,)}
    assert run("R(x, x)", **tables) == {(None,): (5,)}
    assert run("Sum_[x](R(x, y))", **tables) == {(None,): (7,), (1,): (3,)}
    # SQL's = is a condition and never TRUE on NULL
    assert run("Sum_[](R(x, y) * [x = y])", **tables) == {}
    assert run("Sum_[](R(x, y) * [x IS NOT DISTINCT FROM y])", **tables) == {(): (5,)}
    assert run("Sum_[](R(x, y) * [x = y IS NULL])", **tables) == {(): (10,)}


def test_nan_is_nan() -> None:
    tables = {"D": {(NAN, 1): 2, (NAN, 2): 3, (0.5, 1): 5}}
    assert run("Sum_[d](D(d, n))", **tables) == {(NAN,): (5,), (0.5,): (5,)}
    assert run("Sum_[d](D(d, n) * D(d, m))", **tables) == {(NAN,): (25,), (0.5,): (25,)}
    # computed NaNs are the same one
    assert run("Sum_[e](D(d, n) * [d IS NOT DISTINCT FROM 'nan'::DOUBLE] * (e := d + 1e0))", **tables) == {
        (NAN,): (5,)
    }


def test_doubles_enter_weights_exactly() -> None:
    found = run("Sum_[](D(d, n) * ⟨d⟩)", D={(0.1, 1): 3, (1e300, 1): 1, (-1e300, 2): 1})
    assert found == {(): (5, 3 * Fraction(0.1))}


def test_a_null_value_term_is_a_bug_and_raises() -> None:
    with pytest.raises(ValueError, match="guarded"):
        run("P(x) * ⟨x⟩", P={(None,): 1})
    assert run("P(x) * ⟨if_null_zero(x)⟩", P={(None,): 1}) == {(None,): (1, 0)}


def test_errors_of_expressions_come_through() -> None:
    with pytest.raises(EverfreshError, match="zero"):
        run("P(x) * ⟨1 // x⟩", P={(0,): 1})
    # a row that a condition has filtered out does not raise
    assert run("P(x) * [x <> 0] * ⟨1 // x⟩", P={(0,): 1}) == {}


def test_order_of_columns_is_that_of_first_appearance() -> None:
    db = Database({"R": Gmr([((1, 2), (1,))]), "S": Gmr([((2, 1), (1,))])})
    x, y = Var("x", I), Var("y", I)
    product = parse("R(x, y) * S(y, x)", SCHEMA)
    assert dict(evaluate(product, db).items()) == {(1, 2): (1,)}
    assert dict(evaluate(Rel("R", (y, x)), db).items()) == {(1, 2): (1,)}
    assert dict(evaluate(MapRef("M", (x, x)), Database(maps={"M": Gmr([((1, 1), (3,))])})).items()) == {
        (1,): (3,)
    }
