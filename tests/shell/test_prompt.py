"""The SQL prompt and what it rests on: splitting a text into statements, history, dot commands."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import pytest

from everfresh.console import Display
from everfresh.console.prompt import MORE, PROMPT, Prompt, history_file
from everfresh.console.script import ScriptStatement, in_script, split
from everfresh.errors import Code, EverfreshError


def converse(db: Any, lines: Iterable[str | BaseException]) -> tuple[str, list[str]]:
    """What the prompt shows, and which prompts it gave, when `lines` are typed."""
    from rich.console import Console

    shown = io.StringIO()
    prompts: list[str] = []
    typed = iter(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        line = next(typed, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line

    Prompt(db, Display(console=Console(file=shown, width=200))).run(read)
    return shown.getvalue(), prompts


def test_statements_over_several_lines(fake):
    fake.answers = {"SELECT 1\n+ 1": "| 2 |", "INSERT": 4}
    shown, prompts = converse(fake, ["SELECT 1", "+ 1; INSERT", ";"])
    assert fake.ran == ["SELECT 1\n+ 1", "INSERT"]
    assert prompts == [PROMPT, MORE, MORE, PROMPT]
    assert "| 2 |" in shown
    assert "epoch 4" in shown


def test_mistakes_do_not_end_it(fake):
    fake.answers = {
        "BAD": EverfreshError(Code.SYNTAX, "that is not SQL", hint="try SELECT"),
        "SLOW": KeyboardInterrupt(),
        "SELECT 1": "| 1 |",
    }
    shown, _ = converse(
        fake, ["BAD; SELECT 0;", "SLOW;", ".nonsense", ".explain nope", ".explain", "SELECT 1;"]
    )
    assert fake.ran == ["BAD", "SLOW", "SELECT 1"]
    for text in (
        "error: that is not SQL\n  hint: try SELECT",
        "interrupted",
        ".nonsense",
        "no view 'nope'",
        "| 1 |",
    ):
        assert text in shown


def test_interrupt_drops_what_was_typed(fake):
    _, prompts = converse(fake, ["SELECT 1", KeyboardInterrupt(), "SELECT 2;"])
    assert fake.ran == ["SELECT 2"]
    assert prompts == [PROMPT, MORE, PROMPT, PROMPT]


def test_dot_commands(fake):
    shown, _ = converse(
        fake, [".tables", ".views", ".schema t", ".schema v", ".schema", ".explain v;", ".help"]
    )
    for text in (
        "\nt\n",
        "\nv\n",
        'CREATE TABLE "t" ("a" INTEGER)',
        "v: a INTEGER",
        "v is maintained",
        ".quit",
    ):
        assert text in shown


@pytest.mark.parametrize("word", [".quit", ".exit", "quit", "exit", "EXIT;", "\\q", " quit ; "])
def test_quit_leaves(fake, word: str):
    converse(fake, [word, "SELECT 1;"])
    assert fake.ran == []


def test_words_known_from_elsewhere(fake):
    shown, _ = converse(fake, ["help", "\\d", "\\d t", "\\dt", "\\dv", "help me;", "SELECT", "quit", ";"])
    assert shown.count(".schema [NAME]") == 1
    assert shown.count('CREATE TABLE "t" ("a" INTEGER)') == 2
    assert fake.ran == ["help me", "SELECT\nquit"]


def test_history_is_kept_where_xdg_says(home):
    assert history_file() == home / "state" / "everfresh" / "history"


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", [], None),
        (" ; ;; -- nothing\n /* ; */ ;", [], None),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT ';', \";\", `;`, 'it''s;';", ["SELECT ';', \";\", `;`, 'it''s;'"], None),
        ("SELECT $$a;b$$, $x$;$$;$x$; SELECT 2;", ["SELECT $$a;b$$, $x$;$$;$x$", "SELECT 2"], None),
        ("SELECT a$b$c; SELECT $1;", ["SELECT a$b$c", "SELECT $1"], None),
        ("SELECT 'open; ", [], "SELECT 'open;"),
        ("SELECT 'a''; SELECT 1;", [], "SELECT 'a''; SELECT 1;"),
        ("SELECT 1 /* open; ", [], "SELECT 1 /* open;"),
        ("SELECT 1 - -1; -- end", ["SELECT 1 - -1"], None),
    ],
)
def test_split(text: str, statements: list[str], rest: str | None):
    script = split(text)
    assert [one.text for one in script.statements] == statements
    assert (script.rest.text if script.rest else None) == rest


def test_split_knows_backslashes_where_the_dialect_does():
    text = r"SELECT 'it\'s;'; SELECT 2;"
    assert [s.text for s in split(text, "spark").statements] == [r"SELECT 'it\'s;'", "SELECT 2"]
    assert split(r"SELECT 'a\'; SELECT 2;").statements[0].text == r"SELECT 'a\'"


def test_places_are_those_of_the_script():
    script = split("SELECT 1;\n -- two\n  SELECT a\n, b;  SELECT c")
    assert script.statements[1] == ScriptStatement("SELECT a\n, b", 3, 3)
    assert script.rest == ScriptStatement("SELECT c", 4, 7)

    def place(at: str | None, statement: ScriptStatement) -> str | None:
        return in_script(EverfreshError(Code.SYNTAX, "no", place=at), statement, "x.sql").place

    assert place("line 1, column 8", script.statements[1]) == "x.sql, line 3, column 10"
    assert place("line 2, column 3", script.statements[1]) == "x.sql, line 4, column 3"
    assert place("row 7", script.rest) == "x.sql, line 4, row 7"
    assert place(None, script.rest) == "x.sql, line 4"


def test_a_terminal_for_real(home):
    """A person at a terminal: a mistake, a result, Ctrl-D; the lines are in the history."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "everfresh", "sql"],
        stdin=child,
        stdout=child,
        stderr=child,
        close_fds=True,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(child)
    shown = ""

    def wait_for(text: str) -> None:
        nonlocal shown
        deadline = time.monotonic() + 120
        while text not in shown:
            ready, _, _ = select.select([parent], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} does not come after {shown!r}"
            shown += os.read(parent, 4096).decode()
        shown = shown.partition(text)[2]

    try:
        wait_for(PROMPT)
        os.write(parent, b"SELEC 1;\n")
        wait_for("error: ")
        wait_for(PROMPT)
        os.write(parent, b"CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (41);\n")
        wait_for("epoch")
        wait_for(PROMPT)
        os.write(parent, b"SELECT a + 1 AS answer FROM t;\n")
        wait_for("answer FROM t;")
        wait_for("42")
        wait_for(PROMPT)
        os.write(parent, b"\x04")
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        os.close(parent)
    assert "SELECT a + 1 AS answer FROM t;" in (home / "state" / "everfresh" / "history").read_text()
