"""One place where commands show what they do: lines, tables and progress.

On a terminal progress is live (bars, rates, elapsed time); elsewhere it becomes plain lines, a few for a log.
Invariant: nothing that is shown is ever read as markup, so SQL and data print as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from everfresh.console.format import cell, duration, short

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 240
"""Columns for output that is not a terminal: wide enough that tables do not fold."""

PLAIN_INTERVAL = 2.0
"""Seconds between two lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a shown table."""

    name: str
    align: Literal["left", "right", "center"] = "left"


@dataclass(slots=True)
class Task:
    """One bar: `done` of `total` steps, and `units` (rows, say) that give the rate."""

    title: str
    total: float
    unit: str
    show: Callable[[Task], None] = field(repr=False)
    done: float = 0
    units: float = 0
    note: str = ""
    started: float = field(default_factory=time.monotonic)

    def advance(self, steps: float = 1, units: float = 0, note: str | None = None) -> None:
        """Some steps are done; `note` replaces what stands behind the bar."""
        self.done += steps
        self.units += units
        if note is not None:
            self.note = note
        self.show(self)

    @property
    def elapsed(self) -> float:
        """Seconds since the task began."""
        return time.monotonic() - self.started

    @property
    def rate(self) -> str:
        """Units per second so far, as text; empty for a task without a unit."""
        if not self.unit or not self.elapsed:
            return ""
        return f"{short(self.units / self.elapsed)} {self.unit}/s"


@dataclass(frozen=True, slots=True)
class Progress:
    """A group of tasks shown together; made by `Display.progress`."""

    start: Callable[[Task], Callable[[Task], None]]

    def task(self, title: str, total: float, unit: str = "") -> Task:
        """A new bar of `total` steps."""
        task = Task(title, total, unit, show=lambda _: None)
        task.show = self.start(task)
        return task


class Display:
    """Standard output, or standard error, as a place to show things."""

    def __init__(self, *, stderr: bool = False, console: Console | None = None) -> None:
        self._stderr = stderr
        self._console = console

    @property
    def console(self) -> Console:
        """The rich console underneath, made on first use."""
        if self._console is None:
            from rich.console import Console

            console = Console(stderr=self._stderr, markup=False, highlight=False, emoji=False)
            if not console.is_terminal:
                console.width = PLAIN_WIDTH
            self._console = console
        return self._console

    @property
    def live(self) -> bool:
        """Whether a person is watching: a terminal that can redraw."""
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def line(self, text: str = "", style: str = "") -> None:
        """One line (or more) of text, unchanged and unfolded."""
        self.console.print(text, style=style or None, soft_wrap=True)

    def heading(self, text: str) -> None:
        """A line that opens a section."""
        self.line()
        self.line(text, style="bold")

    def table(self, title: str, columns: Sequence[Column | str], rows: Iterable[Sequence[object]]) -> None:
        """A table; a column given by name alone is aligned by what it holds."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        body = [list(row) for row in rows]
        shown = Table(
            title=Text(title, style="bold") if title else None, title_justify="left", box=SIMPLE_HEAD
        )
        for at, column in enumerate(columns):
            if isinstance(column, str):
                column = Column(column, "right" if _is_numeric([row[at] for row in body]) else "left")
            shown.add_column(Text(column.name), justify=column.align, overflow="fold")
        for row in body:
            shown.add_row(*(Text(cell(value)) for value in row))
        self.console.print(shown)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A group of tasks, shown while the block runs.

        >>> display = Display()
        >>> with display.progress() as progress:                       # doctest: +ELLIPSIS
        ...     task = progress.task("loading", total=2, unit="rows")
        ...     task.advance(units=500)
        ...     task.advance(units=500, note="epoch 2")
        loading: 2/2, ... rows/s, epoch 2, ...
        """
        if not self.live:
            yield Progress(self._plain_task)
            return
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self.console,
        )

        def start(task: Task) -> Callable[[Task], None]:
            number = bars.add_task(task.title, total=task.total, rate="", note="")
            return lambda task: bars.update(number, completed=task.done, rate=task.rate, note=task.note)

        with bars:
            yield Progress(start)

    def _plain_task(self, task: Task) -> Callable[[Task], None]:
        last = task.started

        def show(task: Task) -> None:
            nonlocal last
            now = time.monotonic()
            if task.done >= task.total or now - last >= PLAIN_INTERVAL:
                last = now
                parts = [
                    f"{cell(task.done)}/{cell(task.total)}",
                    task.rate,
                    task.note,
                    duration(task.elapsed),
                ]
                self.line(f"{task.title}: {', '.join(part for part in parts if part)}")

        return show


def _is_numeric(values: Sequence[object]) -> bool:
    given = [value for value in values if value is not None]
    return bool(given) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in given
    )
