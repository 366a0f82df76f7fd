"""Variables of a statement in generated code: words, and whether they are NULL, as in `cells`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everfresh.local.native.codegen.lines import Lines
from everfresh.local.native.codegen.scalars import Val, bounds_of, form
from everfresh.local.store.codec import Codec
from everfresh.types import Column, SqlType


@dataclass(frozen=True, slots=True)
class Bound:
    """The code of a variable's words (one, or high and low), which are 0 where it is NULL.

    `column` is the column of the change that it is; `lead` says that it is a function of the change alone.
    """

    type: SqlType
    words: tuple[str, ...]
    null: str | None
    lead: bool = False
    column: int | None = None


def stored(
    codec: Codec,
    column: Column,
    word: str,
    of_change: int | None = None,
    given: Callable[[str, int], object] = lambda _, number: number,
) -> Bound:
    """A column of an entry; `word` is the code of one of its words, with `{}` for its number;
    `of_change` is the number of a column of the change; `given` is what stands for a number of this kind. One
    whose strings are only kept has no code that could be compiled: nothing reads it."""
    if column.name in codec.kept:
        return Bound(column.type, ("only_kept",), None, of_change is not None, of_change)
    places, null = codec.places(column)
    words = tuple(word.format(given("word", p)) for p in places)
    code = None
    if null is not None:
        bits = word.format(given("word of NULLs", null[0]))
        code = f"((({bits} >> {given('bit', null[1])}) & 1) != 0)"
    return Bound(column.type, words, code, of_change is not None, of_change)


def value_of(out: Lines, bound: Bound) -> Val:
    """What expressions read. An integer that needs two words is `bad`."""
    type_ = bound.type
    kind = form(type_)
    word = bound.words[-1]
    if kind == "f":
        return Val(f"as_float({word})", bound.null, type_)
    if kind == "b":
        return Val(f"({word} != 0)", bound.null, type_)
    if len(bound.words) == 2:
        out.add(f"if {bound.words[0]} != ({word} >> 63): bad = 1")
    return Val(word, bound.null, type_, bounds_of(type_))


def bind(out: Lines, value: Val, lead: bool) -> Bound:
    """A variable for a value."""
    kind = form(value.type)
    code = value.code
    if kind == "f":
        code = f"words_of_float({code})"
    elif kind == "b":
        code = f"1 if {code} else 0"
    if value.null is not None:
        code = f"0 if {value.null} else ({code})"
    name = out.let(code, "w")
    words = (f"({name} >> 63)", name) if value.type.is_wide else (name,)
    null = None if value.null is None else out.let(value.null, "u")
    return Bound(value.type, words, null, lead)


def words_as(bound: Bound, type_: SqlType) -> tuple[str, ...]:
    """The words of a variable in a column of a type of the same kind."""
    words = bound.words
    if type_.is_wide and len(words) == 1:
        return f"({words[0]} >> 63)", words[0]
    return words if type_.is_wide or len(words) == 1 else words[1:]


def same(a: Bound, b: Bound) -> str:
    """Whether two variables are identical."""
    type_ = a.type if a.type.is_wide else b.type
    tests = [f"{x} == {y}" for x, y in zip(words_as(a, type_), words_as(b, type_), strict=True)]
    if a.null is not None or b.null is not None:
        tests.append(f"{a.null or 'False'} == {b.null or 'False'}")
    return " and ".join(tests)


def key_words(codec: Codec, bound: list[Bound]) -> tuple[list[str], list[str]]:
    """The words of a row in the layout of a codec, and the conditions under which it cannot be written: a
    NULL in a column that has none."""
    words: list[str] = ["0"] * codec.words
    never: list[str] = []
    for column, one in zip(codec.columns, bound, strict=True):
        places, null = codec.places(column)
        for place, word in zip(places, words_as(one, column.type), strict=True):
            words[place] = word
        if one.null is not None:
            if null is None:
                never.append(one.null)
            else:
                bit = f"({1 << null[1]} if {one.null} else 0)"
                words[null[0]] = bit if words[null[0]] == "0" else f"{words[null[0]]} | {bit}"
    return words, never
