"""Products of a change with itself: what is summed first, and what stays as it is."""

from __future__ import annotations

import pytest

from everfresh.calculus import Prod, parse
from everfresh.expr import Var
from everfresh.local.interpret.self_products import apart
from everfresh.types import BIGINT, Column

RELATIONS = {"R": [Column(n, BIGINT, False) for n in "abc"]}
MAPS = {"K": (Var("a", BIGINT, False),)}


def taken(text: str, keys: str = "x") -> list[tuple[bool, str]]:
    query = parse(text, RELATIONS, MAPS)
    assert isinstance(query, Prod)
    return [(one.counted, " * ".join(map(str, one.factors))) for one in apart(query.factors, set(keys))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ΔR(x, y, z) * ΔR(x, u, v) * ⟨z * v⟩",
            [(True, "ΔR(x, y, z) * Sum_[x](ΔR(x, u, v) * ⟨v⟩) * ⟨z⟩")],
        ),
        (
            "ΔR(x, y, z) * ΔR(x, u, v) * [y > u] * ⟨z - v⟩",
            [
                (True, "ΔR(x, y, z) * [y > u] * Sum_[x, u](ΔR(x, u, v) * ⟨1::BIGINT⟩) * ⟨z⟩"),
                (False, "ΔR(x, y, z) * [y > u] * Sum_[x, u](ΔR(x, u, v) * ⟨v⟩) * ⟨-1::BIGINT⟩"),
            ],
        ),
        (
            "ΔR(x, y, z) * ΔR(x, u, v) * [u > 3::BIGINT]",
            [(True, "ΔR(x, y, z) * Sum_[x](ΔR(x, u, v) * [u > 3::BIGINT])")],
        ),
    ],
)
def test_what_is_summed(text: str, expected: list[tuple[bool, str]]) -> None:
    assert taken(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ΔR(x, y, z) * K[y](0)",  # one change
        "ΔR(x, y, z) * ΔR(x, u, v) * [u > v] * [v > y] * [u > z]",  # all of it is read
        "ΔR(x, y, z) * ΔR(x, u, v) * ⟨z // v⟩",  # does not fall apart
        "ΔR(x, y, z) * ΔR(x, u, v) * ΔR(x, u, w)",  # the others are joined with each other
    ],
)
def test_what_stays(text: str) -> None:
    assert taken(text) == []
