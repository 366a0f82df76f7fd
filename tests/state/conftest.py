"""Helpers for the tests of the state layer: small commit records, and child processes that use the layer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import everfresh.state
from everfresh.state import Commit

SOURCE = Path(everfresh.state.__file__).parents[2]


def encoded(epoch: int, size: int = 40) -> bytes:
    """A record that differs between epochs in contents and length."""
    section = bytes([epoch % 251]) * (size + epoch)
    return Commit(epoch, "", keys=(f"key-{epoch}",), sections={"t": section}).encode()


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    return SimpleNamespace(encoded=encoded)


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a Python process that runs a text; it is killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
