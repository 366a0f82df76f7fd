"""Functions of users in folders: found where the program has them, and nothing is run to look for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import everfresh as ef
from everfresh.epochs.functions import known_function
from everfresh.errors import Code, EverfreshError

GOOD = """
def half(windows):
    return windows / 2

def turned(indices):
    return indices[::-1]
"""
EVIL = """
from pathlib import Path
Path(__file__).with_name("marker").touch()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that can be imported, and was not."""
    path = tmp_path / "modules" / "of_a_user.py"
    path.parent.mkdir()
    path.write_text(GOOD)
    monkeypatch.syspath_prepend(str(path.parent))
    yield path
    sys.modules.pop("of_a_user", None)


def make_signal(db: ef.Database) -> None:
    from of_a_user import half  # type: ignore[import-not-found]

    db.sql("CREATE TABLE a (t BIGINT, value DOUBLE)")
    db.signal("a", time="t").as_uniform(1).window(2, 2).map(half).unwindow().create_view("v")
    db.apply(a=[(t, float(t)) for t in range(4)])


def make_array(db: ef.Database) -> None:
    import of_a_user  # noqa: F401

    db.sql("CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,2]")
    db.sql(
        "CREATE ARRAY VIEW v AS SELECT COUNT(*) AS n FROM a a1 SIMILARITY JOIN a a2 "
        "ON 'of_a_user:turned/2/2' WITH SHAPE L1(1) GROUP BY a1.i, a1.j"
    )


@pytest.mark.parametrize("make", [make_signal, make_array])
def test_opening_a_folder_imports_nothing_that_it_names(
    tmp_path: Path, module: Path, make: Callable[[ef.Database], None]
) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        make(db)
        before = db.view("v").to_arrow()
    del sys.modules["of_a_user"]
    module.write_text(GOOD + EVIL)
    for read_only in (True, False):
        with (
            pytest.raises(EverfreshError, match="import the module") as refused,
            ef.connect(tmp_path / "db", engine="local", read_only=read_only) as db,
        ):
            db.view("v").verify()
        assert refused.value.code == Code.NOT_FOUND
        assert "of_a_user" not in sys.modules
        assert not module.with_name("marker").exists()
    module.write_text(GOOD)
    __import__("of_a_user")
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.view("v").to_arrow().equals(before)


@pytest.mark.parametrize(
    ("module_", "name"),
    [
        ("os", "system"),
        ("shutil", "rmtree"),
        ("subprocess", "getoutput"),
        ("everfresh.bench.parts.process", "python"),
        ("pytest", "os.remove"),
        ("pathlib", "Path"),
        ("", "print"),
        ("numpy.nothing", "sort"),
        ("numpy", "ndarray"),
    ],
)
def test_names_choose_among_the_programs_own_functions_alone(module_: str, name: str) -> None:
    assert known_function(module_, name) is None
    assert known_function("numpy", "abs") is not None
    assert known_function(__name__, "make_signal") is make_signal
