"""The local engine satisfies the suite, in memory and in a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import duckdb
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


def test_letter_case_is_that_of_ascii_as_in_duckdb() -> None:
    """Names that differ in other letters are two names everywhere: in rows, in SQL, of tables and views."""
    rows = [(1, 2, 3, 4), (1, 5, 3, 6)]
    query = 'SELECT É, SUM("é") AS "ß", COUNT("ſ") AS "SS", MAX(S) AS "ẞ" FROM "Ü" GROUP BY "É"'
    with ef.connect(engine="local") as db, duckdb.connect() as theirs:
        for one in (db.sql, theirs.execute):
            one('CREATE TABLE "Ü" (s BIGINT, "ſ" BIGINT, É BIGINT, é BIGINT)')
            one("CREATE TABLE ü (s BIGINT)")
        db.apply({"Ü": [dict(zip(("S", "ſ", "É", "é"), row, strict=True)) for row in rows], "ü": [(9,)]})
        theirs.executemany('INSERT INTO "Ü" VALUES (?, ?, ?, ?)', rows)
        db.sql(f"CREATE MATERIALIZED VIEW Größe AS {query}")
        found = theirs.execute(query)
        names = [column[0] for column in found.description]
        assert db.view("GRößE").to_pylist() == [
            dict(zip(names, row, strict=True)) for row in found.fetchall()
        ]
        assert db.views["größe"].name == db.views["GRößE"].name == "Größe"
        assert "GRÖSSE" not in db.views
        assert "GRÖßE" not in db.views
        assert [db.tables[name].to_pylist()[0]["s"] for name in ("Ü", "ü")] == [1, 9]
        with pytest.raises(ef.EverfreshError, match="no column 'ẞ'"):
            db.sql('SELECT "ẞ" FROM "Ü"')
