"""LIKE of interned strings and LIKE as `expr` evaluates it.

Mutations that these catch: a piece looked for before the one in front of it has ended, the last piece
overlapping the first, an anchor forgotten, NULL taken for the empty string, a pattern with `_` taken.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from everfresh.expr import Call, Const, Var, evaluate_vector
from everfresh.local.interpret.frame_columns import Cells, VectorsOf
from everfresh.local.kernels.like_patterns import matched
from everfresh.local.store.strings import Interner
from everfresh.types import VARCHAR

TEXTS = st.one_of(st.none(), st.text("abé%_\\", max_size=9))


def _like(pattern: str) -> Call:
    return Call("like", (Var("x", VARCHAR), Const(pattern, VARCHAR)))


def _cells(texts: list[str | None]) -> Cells:
    interner = Interner()
    codes = interner.intern_list(texts)
    valid = codes != 0
    return Cells(VARCHAR, interner, (codes,), None if valid.all() else valid)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.text("abé%\\", max_size=6))
@example(["a", "aba", "abab", "", None], "ab%ab")
@example(["", None, "a"], "%")
@example(["", "a"], "")
@example(["aab", "ab", "abb"], "%a%ab%b")
def test_strings_match_as_they_do_in_expressions(texts: list[str | None], pattern: str) -> None:
    cells = _cells(texts)
    found = matched(_like(pattern), {"x": cells})
    assert found is not None
    expected = evaluate_vector(_like(pattern), VectorsOf({"x": cells}), len(texts))
    assert found.vector.to_pylist() == expected.to_pylist()


def test_other_conditions_are_left_to_expressions() -> None:
    cells = _cells(["ab"])
    assert matched(_like("a_"), {"x": cells}) is None
    assert matched(_like("a"), {"y": cells}) is None
    escaped = Call("like", (*_like("a!%").args, Const("!", VARCHAR)))
    assert matched(escaped, {"x": cells}) is None
    assert matched(Call("ilike", _like("A").args), {"x": cells}) is None
