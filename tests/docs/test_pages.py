"""What the pages say in tables is what the code says: expressions, codes, options, commands, links."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import duckdb
import pytest

import everfresh as ef
from everfresh.cli import cli
from everfresh.database import connect

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def table(page: str, *columns: str) -> list[tuple[str, ...]]:
    """The rows of all tables on a page with these columns, without code marks."""
    rows: list[tuple[str, ...]] = []
    reading = False
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        cells = tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        if cells == columns:
            reading = True
        elif not cells:
            reading = False
        elif reading and not set(cells[0]) <= set("-:"):
            rows.append(tuple(cell.replace("\\|", "|").strip("`") for cell in cells))
    return rows


EXPRESSIONS = table("sql.md", "expression", "value", "note")


@pytest.mark.parametrize(("expression", "value", "note"), EXPRESSIONS, ids=[row[0] for row in EXPRESSIONS])
def test_expressions_have_the_values_that_are_documented(expression: str, value: str, note: str) -> None:
    query = f"SELECT CAST({expression} AS VARCHAR) AS x"
    with connect(engine="local") as db:
        result = db.sql(query)
        assert isinstance(result, ef.Result)
        assert result.to_pylist() == [{"x": value}]
    assert duckdb.sql(query).fetchall() == [(value,)]


def test_every_error_code_is_documented() -> None:
    codes = {value for name, value in vars(ef.Code).items() if name.isupper()}
    assert {row[0] for row in table("errors.md", "code", "when", "what to do")} == codes


def test_every_option_is_documented() -> None:
    defaults = {field.name: str(field.default) for field in fields(ef.Options)}
    found = {row[0]: row[1] for row in table("durability.md", "option", "default", "meaning")}
    assert set(found) == set(defaults)
    assert {name: re.match(r"\w+", value)[0] for name, value in found.items()} == defaults  # type: ignore[index]


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in cli.commands.items():
        assert f"everfresh {name}" in text
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}" in text, f"{option} of {name}"


def anchors(page: Path) -> set[str]:
    """What links may name behind a '#': the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for file, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)]*)\)", text):
        if "://" in file:
            continue
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"
