"""The programs of the thesis's queries as text: `programs/VIEW.txt` is what `explain` prints.

To accept a change: `pytest tests/listings --update-golden`, then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from everfresh.compiler import explain
from everfresh.workloads import WORKLOADS, Query, compiled

PROGRAMS = Path(__file__).parent / "programs"
QUERIES = [query for name in ("thesis", "finance", "condensed") for query in WORKLOADS[name].queries]


def shown(query: Query) -> str:
    return explain(compiled(query), query.text) + "\n"


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.view)
def test_program(query: Query, request: pytest.FixtureRequest) -> None:
    file = PROGRAMS / f"{query.view}.txt"
    if request.config.getoption("--update-golden"):
        PROGRAMS.mkdir(exist_ok=True)
        file.write_text(shown(query), "utf-8")
    assert file.read_text("utf-8") == shown(query)


def test_no_file_is_left_over() -> None:
    assert sorted(file.stem for file in PROGRAMS.glob("*")) == sorted(query.view for query in QUERIES)
