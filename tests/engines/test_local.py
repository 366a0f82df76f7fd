"""The local engine satisfies the suite, in memory and in a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import everfresh as ef
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.engine_suite import EngineSuite


class TestLocal(EngineSuite):
    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **kwargs)

    def test_it_has_no_spark(self, shop: ef.Database) -> None:
        for call in (shop.view("totals").to_spark, shop.table("items").to_spark):
            with refused(ef.Code.UNSUPPORTED, "to_arrow"):
                call()

    def test_how_it_is_opened(self, tmp_path: Path) -> None:
        with refused(ef.Code.ARGUMENT, "nope", "spark, local"):
            ef.connect(engine="nope")
        with refused(ef.Code.ARGUMENT, "session"):
            ef.connect(engine="local", spark=object())  # type: ignore[arg-type]
        with refused(ef.Code.ARGUMENT, "path"):
            ef.connect(engine="local", read_only=True)


class TestLocalInAFolder(EngineSuite):
    """Everything again with a log and frequent snapshots underneath."""

    single_changes = 1
    histories = 2
    history_size = 40
    folders: ClassVar[list[str]] = []

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _remove_folders(cls) -> Iterator[None]:
        yield
        for folder in cls.folders:
            shutil.rmtree(folder)
        cls.folders.clear()

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        if path is None:
            self.folders.append(tempfile.mkdtemp(prefix="everfresh-test-"))
            path = Path(self.folders[-1]) / "db"
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def options(self, **changes: Any) -> ef.Options:
        return ef.Options(snapshot_epochs=5, durable=False).with_(**changes)
