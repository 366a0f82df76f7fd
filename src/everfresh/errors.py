"""The one error type a user meets, and the codes it carries.

Every mistake a user can make (in SQL, in data, in how a database is opened) raises an `EverfreshError` with
a stable `code`, the `place` in the input it is about, and a `hint` that says how to fix it. Anything else
that escapes is a bug.
"""

from __future__ import annotations

from typing import Any, Final


class Code:
    """Stable error codes: programs may compare `error.code` with them."""

    SYNTAX: Final = "syntax"  # the text does not parse
    UNSUPPORTED: Final = "unsupported"  # parses, but is outside the language
    NOT_FOUND: Final = "not-found"  # no such table, view, column, function, file
    EXISTS: Final = "exists"  # a name is taken
    TYPE: Final = "type"  # types do not fit an operation or a column
    VALUE: Final = "value"  # one value cannot be read as its column's type
    OVERFLOW: Final = "overflow"  # a value or a result is outside its type
    DIVISION_BY_ZERO: Final = "division-by-zero"  # // or % by zero
    NULL: Final = "null"  # NULL in a column that does not take it
    CHECK: Final = "check"  # a row for which a CHECK is FALSE
    DUPLICATE_KEY: Final = "duplicate-key"  # two rows with one primary key
    MISSING_ROW: Final = "missing-row"  # a delete or an update of a row that is not there
    DEPENDENCY: Final = "dependency"  # something else is built on it
    LOCKED: Final = "locked"  # another process writes the folder
    READ_ONLY: Final = "read-only"  # the database was opened for reading
    CLOSED: Final = "closed"  # the database was closed
    INTERRUPTED: Final = "interrupted"  # an exception struck in the middle of a change
    HISTORY: Final = "history"  # an epoch outside what is kept
    FORMAT: Final = "format"  # the folder is of another version, engine or kind
    DAMAGED: Final = "damaged"  # a state file fails its checks
    FENCED: Final = "fenced"  # another writer has taken over
    ENVIRONMENT: Final = "environment"  # something is missing, too old, full, or refused by the system
    CHANGED: Final = "changed"  # a file of an external array is not the one that was looked at
    STREAM: Final = "stream"  # the source of a stream failed
    ARGUMENT: Final = "argument"  # a call's arguments do not fit
    SIG_OVERLAP: Final = "E-SIG-OVERLAP"  # two events of a signal overlap, or windows that nothing merges
    SIG_LATE: Final = "E-SIG-LATE"  # an event before the watermark
    SIG_DELETE: Final = "E-SIG-DELETE"  # an event of the past is deleted or changed
    SIG_GRID: Final = "E-SIG-GRID"  # a sample off the grid of its signal
    SIG_PERIOD: Final = "E-SIG-PERIOD"  # a period, factor, shift or span that does not fit
    SIG_FILL: Final = "E-SIG-FILL"  # a gap too long to fill
    SIG_KIND: Final = "E-SIG-KIND"  # an operation that this kind of signal does not have
    SIG_TYPE: Final = "E-SIG-TYPE"  # values that no signal is made of
    SIG_SIZE: Final = "E-SIG-SIZE"  # a function of windows returned another shape
    SIG_KEYS: Final = "E-SIG-KEYS"  # keys of joined signals differ
    SIG_STATE: Final = "E-SIG-STATE"  # the state of the groups exceeds its bound


class EverfreshError(Exception):
    """A mistake that the caller can correct.

    >>> error = EverfreshError(Code.NOT_FOUND, "there is no table 'order'", place="line 1, column 15",
    ...                        hint="tables are: orders")
    >>> print(error)
    there is no table 'order' (line 1, column 15)
      hint: tables are: orders
    """

    def __init__(self, code: str, message: str, *, place: str | None = None, hint: str | None = None) -> None:
        self.code = code
        self.message = message
        self.place = place
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        text = self.message if self.place is None else f"{self.message} ({self.place})"
        return text if self.hint is None else f"{text}\n  hint: {self.hint}"

    def at(self, place: str) -> EverfreshError:
        """The same error with `place` in front of the place it already has."""
        return EverfreshError(
            self.code,
            self.message,
            place=place if self.place is None else f"{place}, {self.place}",
            hint=self.hint,
        )

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data, to cross a process boundary."""
        return {"code": self.code, "message": self.message, "place": self.place, "hint": self.hint}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> EverfreshError:
        """The inverse of `to_dict`."""
        return EverfreshError(data["code"], data["message"], place=data["place"], hint=data["hint"])

    def __reduce__(self) -> Any:
        return (EverfreshError.from_dict, (self.to_dict(),))
