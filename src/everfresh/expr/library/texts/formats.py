"""FORMAT and PRINTF: values in the places of a pattern.

`{:>10.2f}` and `%-10.2f` become one `_Spec`. A place says how wide, on which side, with which sign and
digits; integers, floats (DECIMAL, too), truths and texts are written each in its way, all else as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.library.signature import Function, Rule, Signature
from everfresh.expr.nodes import Expr
from everfresh.types import BOOLEAN, DOUBLE, VARCHAR, SqlType

_LONGEST = 1 << 24
_DIGITS_END = 1e30
"""Up to here DuckDB writes all digits of a number."""


@dataclass(frozen=True, slots=True)
class _Spec:
    """How one value is written; `width` and `precision` may be `*`: taken from an argument."""

    place: int | None = None
    fill: str = " "
    align: str = ""
    sign: str = ""
    alternate: bool = False
    zeros: bool = False
    width: int | str = 0
    separator: str = ""
    precision: int | str | None = None
    kind: str = ""
    printf: bool = False


_BRACES = re.compile(
    r"(?:(?P<fill>[\x00-\x7f])?(?P<align>[<>^=]))?(?P<sign>[+ -])?(?P<alternate>#)?(?P<zeros>0)?"
    r"(?:(?P<separator>[,_'])|t(?P<other>[\x00-\x7f]))?(?P<width>\d+|\{\})?(?:\.(?P<precision>\d+|\{\}))?"
    r"(?P<kind>[a-zA-Z])?"
)
_PERCENT = re.compile(
    r"%(?:(?P<place>\d+)\$)?(?P<flags>[-+ #0]*)(?P<width>\d+|\*)?(?P<separator>[,'_])?"
    r"(?:\.(?P<precision>\d*|\*))?(?:ll|l|j|z|t|L)?(?P<kind>[a-zA-Z])"
)


def _wrong(pattern: str, why: str) -> EverfreshError:
    return EverfreshError(Code.VALUE, f"'{pattern}' is no pattern: {why}")


def _number(text: str | None) -> Any:
    if not text:
        return None if text is None else 0
    if not text.isdigit():
        return "*"
    if int(text) > _LONGEST:
        raise EverfreshError(Code.OVERFLOW, f"a width of {text} characters is too large")
    return int(text)


@lru_cache(maxsize=1024)
def _braces(pattern: str) -> tuple[str | _Spec, ...]:
    """The parts of a pattern of FORMAT."""
    parts: list[str | _Spec] = []
    text, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c in "{}" and pattern[i + 1 : i + 2] == c:
            text, i = text + c, i + 2
        elif c == "}":
            raise _wrong(pattern, "a '}' without its '{'")
        elif c == "{":
            head = re.compile(r"(\d*)(:?)").match(pattern, i + 1)
            assert head is not None
            found = _BRACES.match(pattern, head.end()) if head[2] else None
            end = head.end() if found is None else found.end()
            if pattern[end : end + 1] != "}":
                raise _wrong(pattern, "a place is written as in {}, {0} or {:>10.2f}")
            place = int(head[1]) if head[1] else None
            if found is not None and place is not None and "{}" in (found["width"], found["precision"]):
                raise _wrong(pattern, "either all places have a number or none")
            if (
                found is not None
                and (found["separator"] or found["other"])
                and (found["width"] or found["zeros"])
            ):
                raise EverfreshError(
                    Code.UNSUPPORTED, "groups of digits in a width are not supported in a pattern"
                )
            parts += [text, _Spec(place) if found is None else _spec(found, place)]
            text, i = "", end + 1
        else:
            text, i = text + c, i + 1
    return (*parts, text)


def _spec(found: re.Match[str], place: int | None) -> _Spec:
    return _Spec(
        place, found["fill"] or " ", found["align"] or "", (found["sign"] or "").replace("-", ""),
        bool(found["alternate"]), bool(found["zeros"]), _number(found["width"]) or 0,
        found["separator"] or found["other"] or "", _number(found["precision"]), found["kind"] or "",
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _percents(pattern: str) -> tuple[str | _Spec, ...]:
    """The parts of a pattern of PRINTF."""
    parts: list[str | _Spec] = []
    last, i = "", 0
    while i < len(pattern):
        if pattern[i] != "%":
            end = pattern.find("%", i)
            end = len(pattern) if end < 0 else end
            last, i = last + pattern[i:end], end
        elif pattern[i + 1 : i + 2] == "%":
            last, i = last + "%", i + 2
        else:
            found = _PERCENT.match(pattern, i)
            if found is None:
                raise _wrong(pattern, "a place is written as in %d, %s or %-10.2f")
            flags = found["flags"]
            sign = "+" if "+" in flags else " " if " " in flags else ""
            parts += [last, _Spec(
                int(found["place"]) - 1 if found["place"] else None, " ", "<" if "-" in flags else ">", sign,
                "#" in flags, "0" in flags, _number(found["width"]) or 0,
                found["separator"] or "", _number(found["precision"]),
                found["kind"], True,
            )]  # fmt: skip
            last, i = "", found.end()
    return (*parts, last)


def _written(read: Callable[[str], tuple[str | _Spec, ...]]) -> Callable[..., str]:
    def scalar(types: Signature, pattern: str, *values: Any) -> str:
        places = iter(range(len(values)))
        of = types.args[1:]

        def next_of(given: int | None) -> int:
            at = next(places, None) if given is None else given
            if at is None or not 0 <= at < len(values):
                raise _wrong(pattern, f"it has more places than there are values ({len(values)})")
            return at

        def size(wanted: Any) -> Any:
            if wanted != "*":
                return wanted
            at = next_of(None)
            if not of[at].is_integer or not 0 <= values[at] <= _LONGEST:
                raise _wrong(pattern, "a width is a whole number from 0 on")
            return values[at]

        parts = read(pattern)
        automatic = {part.place is None for part in parts if isinstance(part, _Spec)}
        if len(automatic) > 1:
            raise _wrong(pattern, "either all places have a number or none")
        out = []
        for part in parts:
            if isinstance(part, str):
                out.append(part)
                continue
            spec = part
            if spec.printf:
                spec = replace(spec, width=size(spec.width), precision=size(spec.precision))
            at = next_of(spec.place)
            if not spec.printf:
                spec = replace(spec, width=size(spec.width), precision=size(spec.precision))
            out.append(_one(spec, values[at], of[at], pattern))
        return "".join(out)

    return scalar


def _one(spec: _Spec, value: Any, type_: SqlType, pattern: str) -> str:
    """One value by its spec."""
    if type_ == BOOLEAN and (
        (spec.kind == "" and spec.precision is None) or (spec.kind == "s" and spec.printf)
    ):
        return _text(spec, "true" if value else "false", pattern, type_)
    if type_ == VARCHAR:
        return _text(spec, value, pattern, type_)
    return _float(spec, value, pattern) if type_ == DOUBLE else _integer(spec, int(value), pattern, type_)


def _unfit(spec: _Spec, pattern: str, what: str) -> EverfreshError:
    return _wrong(pattern, f"'{spec.kind or spec.sign or spec.separator or '.'}' is not for {what}")


def _text(spec: _Spec, value: str, pattern: str, type_: SqlType) -> str:
    if spec.kind not in ("", "s"):
        raise _unfit(spec, pattern, f"a {type_}")
    if not spec.printf and (spec.sign or spec.alternate or spec.zeros or spec.separator or spec.align == "="):
        raise _unfit(spec, pattern, f"a {type_}")
    if spec.precision is not None:
        value = value[: int(spec.precision)]
    return _laid(replace(spec, zeros=False), value, "", "<")


_BASES = {"x": ("x", "0x"), "X": ("X", "0X"), "o": ("o", "0"), "b": ("b", "0b"), "B": ("b", "0B")}


def _integer(spec: _Spec, value: int, pattern: str, type_: SqlType) -> str:
    kind = spec.kind or "d"
    if spec.printf and kind == "c" and type_ != BOOLEAN:
        if not 0 < value < 128:
            raise _wrong(pattern, f"%c of {value} is no text")
        return _laid(spec, chr(value), "", ">")
    if spec.printf and kind in ("i", "u"):
        if kind == "u" and value < 0:
            value += 1 << (128 if type_.name == "HUGEINT" else 64)
        kind = "d"
    if spec.precision is not None and not spec.printf:
        raise _wrong(pattern, "digits behind the point are not for a whole number")
    if kind not in (*_BASES, "d", "n"):
        raise _unfit(replace(spec, kind=kind), pattern, f"a {type_}")
    if spec.printf and kind in _BASES and value < 0:
        value += 1 << (128 if type_.name == "HUGEINT" else 64)
    sign = "-" if value < 0 else spec.sign
    if kind in _BASES and not spec.separator:
        base, prefix = _BASES[kind]
        digits = format(abs(value), base)
        sign += prefix if spec.alternate and (value or not (base == "o" or spec.printf)) else ""
    else:
        digits = _grouped(str(abs(value)), spec.separator)
    if spec.precision is not None:
        digits, spec = digits.rjust(int(spec.precision), "0"), replace(spec, zeros=False)
    return _laid(spec, digits, sign, ">")


def _grouped(digits: str, separator: str) -> str:
    """The digits before the point in groups of three."""
    if not separator:
        return digits
    whole, point, rest = digits.partition(".")
    at = len(whole) % 3
    groups = [whole[:at]] if at else []
    groups += [whole[i : i + 3] for i in range(at, len(whole), 3)]
    return separator.join(groups) + point + rest


def _float(spec: _Spec, value: float, pattern: str) -> str:
    kind = spec.kind
    if kind not in ("", "f", "F", "e", "E", "g", "G", "a", "A", "n"):
        raise _unfit(spec, pattern, "a DOUBLE")
    if spec.alternate or kind in ("a", "A", "n") or (spec.separator and "e" in repr(value) and not kind):
        what = f"'{'#' if spec.alternate else kind or spec.separator}' of a number with a point"
        raise EverfreshError(Code.UNSUPPORTED, f"{what} is not supported in a pattern")
    sign = "-" if value < 0 else spec.sign
    size = abs(value)
    if not math.isfinite(value):
        text = "inf" if size == math.inf else "nan"
        text = text.upper() if kind.isupper() else text
        laid = replace(spec, fill="0", align=spec.align or "<") if spec.zeros else spec
        return _laid(replace(laid, zeros=False), text, sign, ">")
    if kind in ("f", "F") and size >= _DIGITS_END:
        what = f"digits of a number from {_DIGITS_END:g} on"
        raise EverfreshError(Code.UNSUPPORTED, f"{what} are not supported", hint="use {:e} or {:g}")
    if kind:
        text = format(size, f"{'' if spec.precision is None else f'.{spec.precision}'}{kind}")
    else:
        text = format(size, f"#.{spec.precision}g") if spec.precision else repr(size)
    return _laid(spec, _grouped(text, spec.separator), sign, ">")


def _laid(spec: _Spec, text: str, sign: str, side: str) -> str:
    """A text in its width: by the side that was asked for, else the usual one of its kind."""
    width, align = int(spec.width), spec.align or side
    missing = width - len(text) - len(sign)
    if missing <= 0:
        return sign + text
    if spec.zeros or align == "=":
        return sign + ("0" if spec.zeros else spec.fill) * missing + text
    if align == "<":
        return sign + text + spec.fill * missing
    if align == "^":
        return spec.fill * (missing // 2) + sign + text + spec.fill * (missing - missing // 2)
    return spec.fill * missing + sign + text


def _result(types: Sequence[SqlType]) -> SqlType | None:
    return VARCHAR if types and types[0] == VARCHAR else None


def _coerce(args: Sequence[Expr]) -> list[SqlType] | None:
    return [VARCHAR, *(_kept(arg.type) for arg in args[1:])] if args else None


def _kept(type_: SqlType) -> SqlType:
    if type_.is_float or type_.name == "DECIMAL":
        return DOUBLE
    return type_ if type_.is_integer or type_ == BOOLEAN else VARCHAR


_VALUES = Rule(_result, _coerce)

ROWS = (
    Function("format", _VALUES, _written(_braces)),
    Function("printf", _VALUES, _written(_percents)),
)
