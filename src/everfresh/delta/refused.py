"""Values that a column does not take: what is said of them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from everfresh.errors import Code
from everfresh.types import SqlType


@dataclass(frozen=True)
class Unreadable:
    """An Arrow value that Python's types cannot hold; only its text is known."""

    text: str


class Refused(Exception):
    """A value that its column does not take: the code, the rest of the sentence about the value, a hint."""

    def __init__(self, code: str, reason: str, hint: str) -> None:
        self.code, self.reason, self.hint = code, reason, hint
        super().__init__(reason)


def shown(value: Any) -> str:
    """`value` as an error message shows it."""
    if isinstance(value, Unreadable):
        return value.text
    text = str(value) if isinstance(value, (Decimal, dt.date, dt.time, np.generic)) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def kind(value: Any, type_: SqlType, hint: str) -> Refused:
    """The refusal of a value whose kind does not fit, whatever the value."""
    if isinstance(value, Unreadable):
        return bad(type_, hint)
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return Refused(Code.TYPE, f"is {article} {type(value).__name__}, not a {type_}", hint)


def bad(type_: SqlType, hint: str) -> Refused:
    """The refusal of a value of a kind that fits."""
    return Refused(Code.VALUE, f"is not a {type_}", hint)
