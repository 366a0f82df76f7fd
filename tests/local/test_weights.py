"""Weights against exact fractions: products of integers of any size and of sums of doubles.

Catches: a 64-bit product that wraps, a 128-bit sum read by its low word, a double multiplied with a rounded
integer, compensation lost in a product, a product at the edge of the doubles that becomes NaN.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.local.interpret.weights import Cascade, Number, Weights, from_vector, from_words, times
from everfresh.local.store.components import float_total, wide_from_python, wide_to_python
from everfresh.local.store.pool import Layout
from everfresh.types import BIGINT, DOUBLE, HUGEINT

INTS = [0, 1, -1, 3, -7, (1 << 31) + 5, (1 << 53) + 1, (1 << 62) - 1, (1 << 63) - 1, -(1 << 63)]
BIG = [*INTS, 1 << 64, -(10**30), (1 << 100) + 1]
FLOATS = [0.0, 1.0, 0.1, -0.3, 1e17, 5e-324, 1e-200, 1e300, -1.7e308]


def exact(number: Number) -> list[Fraction]:
    if isinstance(number, Cascade):
        return [sum(map(Fraction, column), Fraction(0)) for column in number.terms.T.tolist()]
    return [Fraction(int(x)) for x in number.tolist()]


def objects(values: list[int]) -> Any:
    out = np.empty(len(values), object)
    out[:] = values
    return out


@pytest.mark.parametrize("seed", range(5))
def test_products_of_integers_are_exact(seed: int) -> None:
    random = Random(seed)
    for choices in (INTS, BIG, INTS[:5]):
        a, b = ([random.choice(choices) for _ in range(20)] for _ in range(2))
        x, y = (
            from_words(Kind.WIDE, wide_from_python(values))
            if random.random() < 0.5 and max(map(abs, values)) < 1 << 127
            else from_vector(Vector(HUGEINT, objects(values)))
            for values in (a, b)
        )
        made = times(x, y)
        assert made is not None
        assert exact(made) == [Fraction(p * q) for p, q in zip(a, b, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_doubles_times_integers_have_no_error(seed: int) -> None:
    random = Random(seed)
    a = [random.choice(FLOATS[:-2]) for _ in range(40)]
    b = [random.choice(INTS) for _ in range(40)]
    made = times(from_vector(Vector.from_pylist(a, DOUBLE)), np.array(b, np.int64))
    assert isinstance(made, Cascade)
    for found, x, m in zip(exact(made), a, b, strict=True):
        expected = Fraction(x) * m
        assert abs(found - expected) <= abs(expected) * Fraction(1, 1 << 140), (x, m)


def test_sums_of_doubles_times_sums_of_doubles() -> None:
    random = Random(1)
    terms = [
        np.array([[random.choice(FLOATS[:5]) * 2.0 ** (-53 * j) for _ in range(30)] for j in range(3)])
        for _ in "ab"
    ]
    made = times(Cascade(terms[0]), Cascade(terms[1]))
    assert made is not None
    expected = [p * q for p, q in zip(exact(Cascade(terms[0])), exact(Cascade(terms[1])), strict=True)]
    assert all(
        abs(x - y) <= abs(y) * Fraction(1, 1 << 100) for x, y in zip(exact(made), expected, strict=True)
    )


def test_integers_beyond_64_bits_times_doubles() -> None:
    made = times(objects(BIG), from_vector(Vector.from_pylist([0.1] * len(BIG), DOUBLE)))
    assert made is not None
    expected = [Fraction(0.1) * x for x in BIG]
    assert all(
        abs(x - y) <= abs(y) * Fraction(1, 1 << 140) for x, y in zip(exact(made), expected, strict=True)
    )


def test_a_product_beyond_the_doubles_is_infinite_and_no_nan() -> None:
    made = times(from_vector(Vector.from_pylist([1.7e308, -1e300], DOUBLE)), np.array([10, 1 << 62]))
    assert isinstance(made, Cascade)
    assert made.terms[0].tolist() == [float("inf"), float("-inf")]
    assert not np.isnan(made.terms).any()
    edge = times(from_vector(Vector.from_pylist([1.7e308], DOUBLE)), np.array([1]))
    assert isinstance(edge, Cascade)
    assert float_total(edge.terms).tolist() == [1.7e308]


def test_each_number_goes_to_its_kind() -> None:
    weights = Weights(2, np.array([2, -3]), np.array([5, 1]), [None, np.array([1 << 62, 7]), None])
    weights.times_each(
        np.array([1, 2]), [np.array([4, 4]), None, from_vector(Vector.from_pylist([0.5, 0.1], DOUBLE))]
    )
    values = weights.pool_values(Layout((Kind.COUNT, Kind.WIDE, Kind.FLOAT)))
    assert values.n.tolist() == [10, -6]
    assert values.ints[0].tolist() == [8, -12]
    assert wide_to_python(values.ints[1], values.ints[2]) == [2 << 62, -21]
    assert exact(Cascade(values.floats)) == [Fraction(1), Fraction(0.1) * -3]


def test_values_default_to_the_count() -> None:
    """A product without values weighs the same in every component."""
    values = Weights(1, np.array([3]), None, [None, None]).pool_values(Layout((Kind.WIDE, Kind.FLOAT)))
    assert (values.n.tolist(), values.ints[1].tolist(), values.floats[0].tolist()) == ([3], [3], [3.0])


@pytest.mark.parametrize(
    ("kind", "number"),
    [(Kind.COUNT, objects([1 << 64])), (Kind.WIDE, objects([1 << 127])), (Kind.WIDE, objects([-(1 << 128)]))],
)
def test_what_does_not_fit_is_refused(kind: Kind, number: Any) -> None:
    with pytest.raises(EverfreshError) as caught:
        Weights(1, None, None, [number]).pool_values(Layout((kind,)))
    assert caught.value.code == Code.OVERFLOW


def test_a_null_value_and_a_double_in_a_count_are_bugs() -> None:
    with pytest.raises(ValueError, match="guarded"):
        from_vector(Vector.from_pylist([None], BIGINT))
    half = from_vector(Vector.from_pylist([0.5], DOUBLE))
    for kind in (Kind.COUNT, Kind.WIDE):
        with pytest.raises(TypeError):
            Weights(1, None, None, [half]).pool_values(Layout((kind,)))
