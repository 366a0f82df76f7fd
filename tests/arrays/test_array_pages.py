"""What the page on arrays says of shapes is so, and its picture is what the code draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.arrays.evaluate import create
from everfresh.arrays.shape import parse
from everfresh.errors import EverfreshError

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "arrays.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \| .* \| (\d+) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("shape", "cells"), ROWS)
def test_shapes_have_the_cells_that_are_documented(shape: str, cells: str) -> None:
    assert parse(shape).cells(2) == int(cells)


def test_all_rows_are_read() -> None:
    assert len(ROWS) == 10


def test_the_picture_is_what_the_code_draws() -> None:
    drawn = parse("RING(3, 4) UNION [-1:1, 0:2]").svg()
    assert (DOCS / "images" / "array-shape.svg").read_text() == drawn


def test_the_picture_of_a_plan_is_what_the_page_draws() -> None:
    (code,) = re.findall(r"```python\n(from everfresh.arrays.plan import.*?)```", PAGE, re.DOTALL)
    told: dict[str, str] = {}
    exec(code, told)
    assert (DOCS / "images" / "array-plan.svg").read_text() == told["picture"]


def test_create_takes_create_only() -> None:
    with pytest.raises(EverfreshError, match="creates no array"):
        create("DROP ARRAY a")
    assert len(create("CREATE ARRAY a <> [i=1,2,1]")) == 0


def test_the_pictures_of_ten_nights_are_what_the_page_draws() -> None:
    page = (DOCS / "array-views.md").read_text()
    ten = page[page.index("## An association table") :]
    told: dict[str, Any] = {"ef": ef}
    exec(re.findall(r"```python\n(.*?)```", ten, re.DOTALL)[0], told)
    for night, name in ((4, "array-view-night-4"), (10, "array-view-sources")):
        assert (DOCS / "images" / f"{name}.svg").read_text() == told["pictures"][night]
