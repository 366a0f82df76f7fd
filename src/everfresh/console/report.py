"""A benchmark's report on a terminal: what it measured, what it has to reach, what it could not measure."""

from __future__ import annotations

from everfresh.bench.report import Report
from everfresh.console.display import Column, Display


def print_report(display: Display, report: Report) -> None:
    """Show the rows (a table for each `section`, where rows have one), the bars, then what was skipped."""
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    display.line(f"{machine['cpus']} × {machine['cpu']}, {machine['memory_gib']} GiB, {machine['platform']}")
    display.line(f"Python {machine['python']}, {versions}")
    for section in dict.fromkeys(row.get("section", report.name) for row in report.rows):
        rows = [row for row in report.rows if row.get("section", report.name) == section]
        columns = list(dict.fromkeys(name for row in rows for name in row if name != "section"))
        display.table(section, columns, [[row.get(name) for name in columns] for row in rows])
    if report.bars:
        display.table(
            "To reach",
            [
                Column("what"),
                Column("to reach", "right"),
                Column("measured", "right"),
                Column("holds"),
            ],
            [(bar.what, bar.target, bar.value, bar.holds) for bar in report.bars],
        )
    if report.skipped:
        display.table("Skipped", ["what", "reason"], [(skip.what, skip.reason) for skip in report.skipped])
