"""The page of SQL lists the scalar functions that DuckDB has: those that are here, and those that are not,
with the reason.

What is here is tried, not looked up: a name is known if a call of it, with some number of NULLs, fails for
another reason than the name. `pytest tests/docs/test_function_list.py --update-golden` writes the list anew.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import duckdb
import pytest

from everfresh.errors import EverfreshError
from everfresh.sql.scalars import bind_select

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
START, END = "<!-- functions -->\n", "<!-- end of functions -->\n"
# Not functions of values: DuckDB's own parts, PostgreSQL's catalogs, collations, geometry and VARIANT
INTERNAL = re.compile(
    r"\W.*|__.*|(icu_)?collate_.*|icu_sort_key|pg_.*|has_.*_privilege|inet_.*|st_.*|variant_.*|txid_.*|.*_description"
    r"|.* .*|json_copy_.*|json_(de)?serialize_.*|in_search_path|current_.*|.*_byte_comparable"
)
SUBJECTS = (
    (
        "lists",
        re.compile(r"(list|array)_.*|flatten|range|generate_.*|grade_up|filter|aggregate|reduce|apply|len"),
    ),
    ("structs, maps", re.compile(r"(struct|map)_.*|map|row|cardinality|element_at")),
    ("JSON", re.compile(r".*json.*")),
)
TIME = {"DATE", "TIME", "TIMESTAMP", "INTERVAL", "TIMESTAMP WITH TIME ZONE"}


@cache
def duckdb_functions() -> dict[str, str]:
    """The names of DuckDB's scalar functions, each with its subject."""
    rows = duckdb.sql(
        "SELECT lower(function_name), list(parameter_types), list(return_type) FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'macro') GROUP BY 1"
    ).fetchall()
    found = {}
    for name, takes, gives in rows:
        if INTERNAL.fullmatch(name):
            continue
        types = {t for args in takes for t in (args or [])} | set(gives)
        subject = next((s for s, pattern in SUBJECTS if pattern.fullmatch(name)), None)
        found[name] = subject or (
            "times" if types & TIME and name not in ("hash", "isinf", "isfinite", "date")
            else "text" if types & {"VARCHAR", "BLOB"} else "numbers, all"
        )  # fmt: skip
    return found


def is_known(name: str) -> bool:
    """Whether a call by this name means a function here."""
    quoted = f'"{name}"' if name in ("row",) else name
    for count in range(5):
        try:
            bind_select(f"SELECT {quoted}({', '.join(['NULL'] * count)}) AS x", {})
        except EverfreshError as error:
            if "there is no function" in error.message or "expected near" in error.message:
                continue
            if re.search(r"(the function|the aggregate|a function of) .* is not supported", error.message):
                continue
            if "no fixed value" in error.message or "syntax" in error.message:
                continue
            return True
        return True
    return False


def written() -> str:
    """The list of what is here, as the page has it."""
    lines = ["| subject | functions |", "|---|---|"]
    known = {name: subject for name, subject in duckdb_functions().items() if is_known(name)}
    for subject in ("numbers, all", "text", "times", "lists", "structs, maps", "JSON"):
        names = ", ".join(f"`{name}`" for name in sorted(known) if known[name] == subject)
        lines.append(f"| {subject} | {names} |")
    return "\n".join(lines) + "\n"


def lacking() -> list[tuple[set[str], str]]:
    """The rows of the page that say what is not here."""
    text = PAGE.read_text(encoding="utf-8").split(END)[1].split("\n\n")[1]
    rows = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    return [(set(re.findall(r"`(\w+)`", names)), why.strip()) for names, why in rows]


def test_the_page_lists_the_functions_that_are_here(pytestconfig: pytest.Config) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(f"{before}{START}{written()}{END}{after}", encoding="utf-8")
    assert rest.split(END)[0] == written()


def test_the_page_says_what_duckdb_has_and_everfresh_lacks() -> None:
    missing = {name for name in duckdb_functions() if not is_known(name)}
    listed = [name for names, why in lacking() for name in names if why]
    assert len(listed) == len(set(listed))
    assert set(listed) == missing
