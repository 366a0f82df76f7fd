"""The SQL prompt: statements over several lines, history, and a few commands that begin with a dot, which
some know from elsewhere by another name.

A mistake never ends the prompt. Ctrl-C drops what was typed or stops the running statement; Ctrl-D leaves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.console.display import Display
from everfresh.console.format import duration
from everfresh.console.script import create_table, split
from everfresh.errors import EverfreshError

if TYPE_CHECKING:
    from everfresh.database import Database

PROMPT = "everfresh> "
MORE = "      ...> "

HELP = """\
Statements end with a semicolon and may run over several lines.

  .tables           the tables
  .views            the materialized views
  .schema [NAME]    the columns of a table or view, or of all of them
  .explain VIEW     how a view is maintained, and why
  .help             this text
  .quit             leave (also Ctrl-D)

help, exit, quit, \\d, \\d NAME, \\dt, \\dv and \\q do the same."""

SAME = {
    "help": ".help",
    "?": ".help",
    "\\?": ".help",
    "exit": ".quit",
    "quit": ".quit",
    "\\q": ".quit",
    ".exit": ".quit",
    "\\d": ".schema",
    "\\dt": ".tables",
    "\\dv": ".views",
}
"""What is typed elsewhere, without a semicolon or with one, by the command that it means."""

HISTORY_LENGTH = 10_000


class Prompt:
    """A conversation with one database."""

    def __init__(self, db: Database, display: Display, dialect: str = "duckdb") -> None:
        self._db = db
        self._display = display
        self._dialect = dialect
        self._commands: dict[str, Callable[[str], None]] = {
            ".tables": lambda _: self._names(self._db.tables),
            ".views": lambda _: self._names(self._db.views),
            ".schema": self._schema,
            ".explain": self._explain,
            ".help": lambda _: self._display.line(HELP),
        }

    def run(self, read: Callable[[str], str] | None = None) -> None:
        """Read and answer until the input ends or `.quit`; `read` takes a prompt and returns a line."""
        ask = read or input
        self._display.line("everfresh: SQL statements end with ';'. Type .help for help, .quit to leave.")
        pending = ""
        while True:
            try:
                line = ask(MORE if pending.strip() else PROMPT)
            except EOFError:
                self._display.line()
                break
            except KeyboardInterrupt:
                self._display.line()
                pending = ""
                continue
            command = "" if pending.strip() else _command(line)
            if command == ".quit":
                break
            if command:
                self._guarded(self._command, command)
                continue
            pending = self._feed(f"{pending}\n{line}" if pending else line)

    def _feed(self, text: str) -> str:
        """Run the finished statements of `text`; returns what is not finished yet."""
        script = split(text, self._dialect)
        for statement in script.statements:
            if not self._guarded(self._statement, statement.text):
                return ""
        return "" if script.rest is None else script.rest.text

    def _guarded(self, act: Callable[[str], None], text: str) -> bool:
        """Whether `act(text)` ended well; what went wrong is shown."""
        try:
            act(text)
        except EverfreshError as error:
            self._display.line(f"error: {error}", style="red")
            return False
        except KeyboardInterrupt:
            self._display.line("interrupted", style="red")
            return False
        return True

    def _statement(self, text: str) -> None:
        started = time.perf_counter()
        result = self._db.sql(text, dialect=self._dialect)
        took = duration(time.perf_counter() - started)
        if result is None:
            self._display.line(took, style="dim")
        elif isinstance(result, int):
            self._display.line(f"epoch {result}, {took}", style="dim")
        else:
            self._display.line(str(result))
            self._display.line(took, style="dim")

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        command = self._commands.get(name)
        if command is None:
            self._display.line(f"error: there is no command '{name}'\n  hint: .help lists them", style="red")
        else:
            command(argument.strip().rstrip(";"))

    def _names(self, names: Any) -> None:
        for name in names:
            self._display.line(name)

    def _schema(self, name: str) -> None:
        for one in [name] if name else [*self._db.tables, *self._db.views]:
            self._display.line(schema_text(self._db, one))

    def _explain(self, name: str) -> None:
        if not name:
            self._display.line("error: which view?\n  hint: .views lists them", style="red")
        else:
            self._display.line(str(self._db.view(name).explain()))


def _command(line: str) -> str:
    """The command that a line is, with its argument; empty if it is none."""
    first, _, argument = line.strip().rstrip(";").strip().partition(" ")
    word = SAME.get(first.lower(), first)
    if not word.startswith(".") or (argument and not first.startswith((".", "\\"))):
        return ""
    return f"{word} {argument}".strip()


def schema_text(db: Database, name: str) -> str:
    """What a table or a view looks like, as text."""
    if name in db.tables:
        return create_table(db.catalog.expect_table(name))
    view = db.view(name)
    return f"{view.name}: " + ", ".join(str(column) for column in view.columns)


def history_file() -> Path:
    """Where the lines typed so far are kept."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "everfresh" / "history"


@contextmanager
def history(names: Callable[[], list[str]]) -> Iterator[None]:
    """Line editing with history and completion of `names()`, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    file = history_file()
    with suppress(OSError):  # no history yet, or none that can be kept
        file.parent.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(file)
    readline.set_history_length(HISTORY_LENGTH)

    def complete(text: str, state: int) -> str | None:
        found = [name for name in names() if name.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()=<>+-*/")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            readline.write_history_file(file)
