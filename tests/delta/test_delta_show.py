"""Tables as text and as HTML."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from everfresh.delta.show import _width, render, render_html

EVERYTHING = pa.table(
    {
        "i": pa.array([1, None], pa.int32()),
        "d": [Decimal("-1.50"), Decimal("100.00")],
        "f": [0.1, float("nan")],
        "s": ["a\nb", "ξ"],
        "b": [True, None],
        "t": [dt.date(2024, 1, 31), None],
        "at": pa.array([dt.datetime(2024, 1, 31, 10), None], pa.timestamp("us")),
        "v": pa.array([dt.timedelta(1, 2), None], pa.month_day_nano_interval()),
    }
)


BOX = r"""
┌─────────┬──────────────┬────────┬─────────┬─────────┬────────────┬─────────────────────┐
│    i    │      d       │   f    │    s    │    b    │     t      │         at          │
│ INTEGER │ DECIMAL(5,2) │ DOUBLE │ VARCHAR │ BOOLEAN │    DATE    │      TIMESTAMP      │
├─────────┼──────────────┼────────┼─────────┼─────────┼────────────┼─────────────────────┤
│       1 │        -1.50 │    0.1 │ a\nb    │ true    │ 2024-01-31 │ 2024-01-31 10:00:00 │
│    NULL │       100.00 │    nan │ ξ       │ NULL    │ NULL       │ NULL                │
└─────────┴──────────────┴────────┴─────────┴─────────┴────────────┴─────────────────────┘
(2 rows)"""


def test_every_type():
    assert render(EVERYTHING.drop_columns(["v"])) == BOX.strip()
    assert "│ 0 months 1 days 2000000 us │" in render(EVERYTHING.select(["v"]))


def test_rows_beyond_the_limit_are_counted():
    text = render(pa.table({"a": list(range(1234))}), limit=2)
    assert text.splitlines()[-1] == "... (1,234 rows)"
    assert len(text.splitlines()) == 8
    assert render(pa.table({"a": [1]})).endswith("\n(1 row)")
    assert render(pa.table({"a": []})).endswith("\n(0 rows)")
    assert render(pa.table({})) == "(0 rows)"


@pytest.mark.parametrize("width", [10, 40, 80, 120])
def test_lines_are_even_and_fit(width):
    words = ["東京タワー", "é" * 100, "\x1b[31m\tx"]
    wide = pa.table({f"column{i}": words for i in range(9)} | {"n": [1, 2, 3]})
    lines = render(wide, width=width).splitlines()
    assert len({_width(line) for line in lines[:-1]}) == 1
    assert "\x1b" not in "".join(lines)
    if width >= 80:
        assert _width(lines[0]) <= width
        assert "of 10 columns shown" in lines[-1]
        assert "n" in lines[1]


def test_html_is_escaped():
    page = render_html(pa.table({"<a>": ["<script>&", None], "n": [1, 2]}), limit=1)
    assert "<script>" not in page
    assert "&lt;script&gt;&amp;" in page
    assert "<th>&lt;a&gt;<br>" in page
    assert "... (2 rows)" in page
