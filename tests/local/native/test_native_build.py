"""Generated modules that several ask for at once: one runs (and so compiles) it, the others wait for what it
keeps.

Catches: a module that a thread is given before it has run to its end; processes that compile the same text
beside each other.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from everfresh.local.jit import code_cache
from everfresh.local.native.runtime import build as building

ALONE = '''
"""{}"""
import time
from pathlib import Path

here = Path(__file__).parent
(here / "busy").touch(exist_ok=False)
time.sleep(0.3)
(here / "busy").unlink()
with (here / "ran").open("a") as file:
    file.write("x")


def run(context, start, stop):
    return 0
'''


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return ALONE.format(tmp_path)


def test_threads_run_a_module_once(text: str) -> None:
    try:
        assert not building.is_loaded(text)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(building.build, [text] * 4))
        assert building.is_loaded(text)
        assert len(set(found)) == 1
        assert found[0](0, 0, 0) == 0
        assert (code_cache.generated() / "ran").read_text() == "x"
        assert not list(code_cache.generated().glob("*.tmp"))
    finally:
        sys.modules.pop(building.name_of(text), None)


def test_processes_run_a_module_one_after_the_other(text: str) -> None:
    code = f"from everfresh.local.native.runtime.build import build; build({text!r})"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert (code_cache.generated() / "ran").read_text() == "xxx"


def test_a_module_that_fails_is_not_kept(text: str) -> None:
    (code_cache.generated() / "busy").touch()
    for _ in range(2):
        with pytest.raises(FileExistsError):
            building.build(text)
        assert not building.is_loaded(text)
