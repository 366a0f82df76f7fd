"""Golden files: a line with a statement, and what the binder makes of it in indented lines below.

`python tests/sql/golden.py` writes what the binder says now; read the difference before you commit it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from small_tables import CATALOG
from sql_support import bind_all, bind_one

from everfresh.errors import EverfreshError

PLANS = Path(__file__).parent / "golden_plans.txt"
REFUSALS = Path(__file__).parent / "golden_refusals.txt"


def read(path: Path) -> list[tuple[str, str]]:
    """The statements of a file with their results."""
    found: list[tuple[str, str]] = []
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            statement, result = found.pop()
            found.append((statement, f"{result}\n{line[4:]}" if result else line[4:]))
        elif line and not line.startswith("#"):
            found.append((line, ""))
    return found


def plan_of(statement: str) -> str:
    """The plan as text."""
    return str(bind_one(statement, CATALOG).plan)


def refusal_of(statement: str) -> str:
    """The error as one line: code, column, message; all statements are one line long."""
    try:
        bind_all(statement, CATALOG)
    except EverfreshError as error:
        return f"{error.code}, {str(error.place).removeprefix('line 1, ')}: {error.message}"
    return "not refused"


def write(path: Path, result: Callable[[str], str]) -> None:
    """Bring a file up to date, comments and blank lines kept."""
    lines: list[str] = []
    for line in path.read_text().splitlines():
        if not line.startswith("    "):
            lines.append(line)
            if line and not line.startswith("#"):
                lines += [f"    {part}" for part in result(line).splitlines()]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write(PLANS, plan_of)
    write(REFUSALS, refusal_of)
