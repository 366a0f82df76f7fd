"""What the tests of the shell share: a clean home, and a database that misbehaves on demand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import everfresh
from everfresh.errors import Code, EverfreshError
from everfresh.types import INTEGER, Column, TableSchema


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """History and state go to a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def everfresh_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own."""

    def run(*args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "everfresh", *args],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **env},
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture
def root() -> Path:
    """The folder of the clone."""
    return Path(__file__).resolve().parents[2]


class FakeDatabase:
    """Answers statements from a table of results; an exception as result is raised."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.ran: list[str] = []
        self.dialects: list[str | None] = []
        self.opened: dict[str, Any] = {}
        self.closed = 0
        schema = TableSchema("t", (Column("a", INTEGER),))
        self.tables = {"t": schema}
        self.catalog = SimpleNamespace(expect_table=lambda _: schema)
        view = SimpleNamespace(name="v", columns=schema.columns, explain=self._explain)
        self.views: dict[str, Any] = {"v": view}

    def _explain(self, format: str = "text") -> Any:
        return "v is maintained" if format == "text" else {"view": "v"}

    def connect(self, path: str | None = None, **options: Any) -> FakeDatabase:
        self.opened = {"path": path, **options}
        return self

    def sql(self, text: str, dialect: str | None = None) -> Any:
        self.ran.append(text)
        self.dialects.append(dialect)
        answer = self.answers.get(text)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def view(self, name: str) -> Any:
        if name not in self.views:
            raise EverfreshError(Code.NOT_FOUND, f"there is no view '{name}'")
        return self.views[name]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDatabase:
    """A database in place of the real one."""
    stand_in = FakeDatabase()
    monkeypatch.setitem(vars(everfresh), "connect", stand_in.connect)  # not loaded just to be replaced
    return stand_in
