"""What a terminal shows, and what a log gets instead."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from everfresh.bench.report import Report
from everfresh.console import Column, Display, bytes_, cell, duration, number, short
from everfresh.console.report import print_report


def display(**options: Any) -> tuple[Display, io.StringIO]:
    out = io.StringIO()
    return Display(console=Console(file=out, width=100, markup=False, highlight=False, **options)), out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (0.012345, "0.0123"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (-0.5, "-0.500"),
        (float("inf"), "inf"),
        (1e-12, "0.000000000"),
    ],
)
def test_number(value: float, text: str):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (0.00000085, "0.850 µs"),
        (0.00085, "850 µs"),
        (0.0123, "12.3 ms"),
        (0.99999, "1.00 s"),
        (1.24, "1.24 s"),
        (59.99, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3720, "1 h 02 min"),
    ],
)
def test_duration(seconds: float, text: str):
    assert duration(seconds) == text


def test_short_and_bytes():
    assert [short(v) for v in (7, 950, 1234, 5_600_000)] == ["7", "950", "1.23k", "5.60M"]
    assert [bytes_(v) for v in (0, 1023, 1024, 3 << 20, 5 << 30)] == [
        "0 B",
        "1,023 B",
        "1.00 KiB",
        "3.00 MiB",
        "5.00 GiB",
    ]


def test_cells():
    assert [cell(v) for v in (None, True, 1000, "x", ["a", 1], {"k": 2.0})] == [
        "",
        "yes",
        "1,000",
        "x",
        "a, 1",
        "k: 2.00",
    ]


def test_a_table_shows_data_as_it_is():
    shown, out = display()
    shown.table(
        "A title [bold]", ["name", Column("n", "right")], [("[red]x[/red] :smile:", 1), ("y", 22_000)]
    )
    text = out.getvalue()
    assert "A title [bold]" in text
    assert "[red]x[/red] :smile:" in text
    lines = [line.rstrip() for line in text.splitlines()]
    assert len([line for line in lines if line.endswith(("      1", " 22,000"))]) == 2


def test_wide_tables_do_not_fold_in_a_log(capsys: pytest.CaptureFixture[str]):
    Display().table("", ["what", "value"], [("x" * 150, 1)])
    assert "x" * 150 in capsys.readouterr().out


def test_progress_in_a_log_is_a_few_plain_lines():
    shown, out = display(force_terminal=False)
    with shown.progress() as progress:
        task = progress.task("loading", total=100, unit="rows")
        for batch in range(100):
            task.advance(units=10, note=f"epoch {batch + 1}")
    lines = out.getvalue().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("loading: 100/100, ")
    assert "rows/s, epoch 100" in lines[0]


def test_progress_on_a_terminal_is_live():
    shown, out = display(
        force_terminal=True, color_system=None, legacy_windows=False, _environ={"TERM": "xterm"}
    )
    with shown.progress() as progress:
        task = progress.task("load [x]", total=2, unit="rows")
        task.advance(units=500)
        task.advance(units=500, note="epoch [2]")
    text = out.getvalue()
    assert "load [x]" in text
    assert "2/2" in text
    assert "epoch [2]" in text
    assert "rows/s" in text


def test_a_report_shows_rows_bars_and_what_was_skipped():
    shown, out = display()
    report = Report("example")
    report.row(what="one", seconds=0.5)
    report.row(what="two", rows=10)
    report.below("time of one", 0.5, 0.3, "s")
    report.truth("it works", True)
    report.skip("three", "no GPU here")
    print_report(shown, report)
    text = out.getvalue()
    positions = [
        text.index(part)
        for part in ("Python", "example", "seconds", "To reach", "< 0.3 s", "Skipped", "no GPU here")
    ]
    assert positions == sorted(positions)


def test_an_empty_report_prints():
    shown, out = display()
    print_report(shown, Report("nothing"))
    assert "Skipped" not in out.getvalue()
