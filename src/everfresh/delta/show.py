"""A table as text for a prompt, and as HTML for a notebook.

Invariant: every line has the same display width (wide characters count two), and control characters never get
through.
"""

from __future__ import annotations

import html
import unicodedata
from typing import Any

import pyarrow as pa

from everfresh.types import from_arrow

_CELL = 40  # characters of one cell; longer ones are cut
_MORE = "…"


def render(table: pa.Table, limit: int = 20, width: int = 120) -> str:
    """`table` in a box: names, types, the first `limit` rows, and how many there are.

    Columns that do not fit into `width` are left out from the middle, as DuckDB does.

    >>> print(render(pa.table({"n": [1, None], "word": ["one", "two"]})))
    ┌────────┬─────────┐
    │   n    │  word   │
    │ BIGINT │ VARCHAR │
    ├────────┼─────────┤
    │      1 │ one     │
    │   NULL │ two     │
    └────────┴─────────┘
    (2 rows)
    """
    head, body = _cells(table, limit)
    if not head:
        return _count(table, limit)
    columns = _fit([[*names, *(row[i] for row in body)] for i, names in enumerate(head)], width)
    right = [_is_number(table, i) for i in columns.kept]
    widths = [max(map(_width, cells)) for cells in columns.cells]
    lines = [_rule("┌┬┐", widths)]
    for place in range(2):
        lines.append(
            _line([_pad(cells[place], w, None) for cells, w in zip(columns.cells, widths, strict=True)])
        )
    lines.append(_rule("├┼┤", widths))
    for place in range(2, 2 + len(body)):
        cells = zip(columns.cells, widths, right, strict=True)
        lines.append(_line([_pad(column[place], w, r) for column, w, r in cells]))
    lines.append(_rule("└┴┘", widths))
    return "\n".join([*lines, _count(table, limit, len(columns.kept) - columns.cut)])


def render_html(table: pa.Table, limit: int = 20) -> str:
    """`table` as an HTML table, everything escaped."""
    head, body = _cells(table, limit, cut=False)
    names = "".join(
        f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>" for name, kind in head
    )
    align = [' style="text-align: right"' if _is_number(table, i) else "" for i in range(len(head))]
    rows = "".join(
        "<tr>"
        + "".join(f"<td{a}>{html.escape(cell)}</td>" for a, cell in zip(align, row, strict=True))
        + "</tr>"
        for row in body
    )
    count = html.escape(_count(table, limit))
    return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table><small>{count}</small>"


class _Columns:
    """The columns that are shown: their numbers (-1: the gap), their cells, and 1 if some were left out."""

    def __init__(self, kept: list[int], cells: list[list[str]], cut: int) -> None:
        self.kept, self.cells, self.cut = kept, cells, cut


def _fit(columns: list[list[str]], width: int) -> _Columns:
    """As many columns from both ends as fit into `width`; at least the first."""
    widths = [max(map(_width, cells)) + 3 for cells in columns]
    if sum(widths) + 1 <= width or len(columns) == 1:
        return _Columns(list(range(len(columns))), columns, 0)
    left, right, used = 1, len(columns), widths[0] + 1 + len(_MORE) + 3
    while left < right:
        from_left = left <= len(columns) - right
        used += widths[left if from_left else right - 1]
        if used > width:
            break
        left, right = (left + 1, right) if from_left else (left, right - 1)
    gap = [_MORE] * len(columns[0])
    kept = [*range(left), -1, *range(right, len(columns))]
    return _Columns(kept, [gap if i < 0 else columns[i] for i in kept], 1)


def _cells(table: pa.Table, limit: int, cut: bool = True) -> tuple[list[tuple[str, str]], list[list[str]]]:
    head = [(_clean(field.name, cut), str(from_arrow(field.type) or field.type)) for field in table.schema]
    columns = [
        [_clean(_text(scalar), cut) for scalar in column] for column in table.slice(0, max(limit, 0)).columns
    ]
    return head, [list(row) for row in zip(*columns, strict=True)]


def _text(scalar: pa.Scalar) -> str:
    if not scalar.is_valid:
        return "NULL"
    try:
        value: Any = scalar.as_py()
    except (ValueError, OverflowError):  # nanoseconds, or a year that Python does not know
        return str(scalar.cast(pa.string()))
    if pa.types.is_interval(scalar.type):
        return f"{value.months} months {value.days} days {value.nanoseconds // 1000} us"
    if pa.types.is_decimal(scalar.type):
        return f"{value:f}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _clean(text: str, cut: bool) -> str:
    text = "".join(
        repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text
    )
    return text[: _CELL - 1] + _MORE if cut and len(text) > _CELL else text


def _is_number(table: pa.Table, index: int) -> bool:
    if index < 0:
        return False
    type_ = from_arrow(table.schema.field(index).type)
    return type_ is not None and type_.is_numeric


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _pad(text: str, width: int, right: bool | None) -> str:
    """`text` at the right, the left (False) or in the middle (None) of `width`."""
    space = width - _width(text)
    before = {True: space, False: 0, None: space // 2}[right]
    return " " * before + text + " " * (space - before)


def _line(cells: list[str]) -> str:
    return "│ " + " │ ".join(cells) + " │"


def _rule(corners: str, widths: list[int]) -> str:
    return corners[0] + corners[1].join("─" * (w + 2) for w in widths) + corners[2]


def _count(table: pa.Table, limit: int, columns: int | None = None) -> str:
    rows = table.num_rows
    text = f"{rows:,} row{'' if rows == 1 else 's'}"
    if columns is not None and columns < table.num_columns:
        text += f", {columns} of {table.num_columns} columns shown"
    return f"... ({text})" if rows > max(limit, 0) and table.num_columns else f"({text})"
