"""The engine suite with compiled triggers: run by Python, and in the soak by the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from native_support import run_plain

import everfresh as ef
from everfresh.testing.engine_suite import EngineSuite


class TestGenerated(EngineSuite):
    """Every trigger that has a native form runs in it, from its first change on."""

    single_changes = 1
    histories = 2
    history_size = 40

    @pytest.fixture(autouse=True)
    def _plain(self) -> Iterator[None]:
        with run_plain():
            yield

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def options(self, **changes: Any) -> ef.Options:
        return ef.Options(compile="now").with_(**changes)


@pytest.mark.soak
class TestCompiled(TestGenerated):
    """The same by the compiler."""

    @pytest.fixture(autouse=True)
    def _plain(self) -> None:  # type: ignore[override]
        """The real one."""
