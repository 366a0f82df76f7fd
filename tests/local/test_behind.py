"""Compiling in another process: what is asked for comes, once for all, and nothing is left behind.

Catches: a process that outlives the one that started it, or runs the user's script; a batch that waits for a
compiler; a compiler in the process itself, whose lock a batch would wait for; a cache folder that cannot be
written; a fork that leaves nobody to work; a failure that is asked for again and again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everfresh.local.jit import background as behind
from everfresh.local.jit import code_cache, compiler_process
from everfresh.local.jit.code_cache import Item

PRELUDE = """
import json, os, sys, threading
import numpy as np
from everfresh.local.jit import background as behind
from everfresh.local.kernels import incoming as incoming_kernels
from everfresh.local.jit import code_cache
slots = np.array([3, 4, -1])
"""


def run(code: str, cache: Path, **more: Any) -> Any:
    """What a script prints last, run from a file with a user's cache of its own."""
    script = cache / "script.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(PRELUDE + textwrap.dedent(code))
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), **more}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=env, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def gone(pid: int) -> bool:
    """Whether a process has ended, soon."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
            status = Path(f"/proc/{pid}/stat")
            if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_a_kernel_is_compiled_by_another_process_and_kept(tmp_path: Path) -> None:
    found = run(
        """
        print("the script runs once", file=sys.stderr)
        first = incoming_kernels.lacking(slots)
        before = "numba" in sys.modules
        behind.join()
        compiled = type(incoming_kernels.lacking).__name__
        loaded = incoming_kernels.lacking.stats.cache_hits
        pid = behind._workshop()._process.pid
        second = incoming_kernels.lacking(slots)
        print(json.dumps([first, before, compiled, sum(loaded.values()), second, pid]))
        """,
        tmp_path,
    )
    assert found[:5] == [2, False, "CPUDispatcher", 1, 2]
    assert gone(found[5])
    again = run(
        """
        first = incoming_kernels.lacking(slots)
        behind.join()
        print(json.dumps([first, behind._workshop()._process is None, incoming_kernels.lacking(slots)]))
        """,
        tmp_path,
    )
    assert again == [2, True, 2]


def test_the_process_ends_with_one_that_is_killed(tmp_path: Path) -> None:
    code = PRELUDE + textwrap.dedent(
        """
        incoming_kernels.lacking(slots)
        while behind._workshop()._process is None:
            pass
        print(behind._workshop()._process.pid, flush=True)
        import time; time.sleep(60)
        """
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    found = run(
        """
        first = incoming_kernels.lacking(slots)
        behind.join()
        print(json.dumps([first, type(incoming_kernels.lacking).__name__, str(code_cache.root())]))
        """,
        tmp_path,
        XDG_CACHE_HOME=str(tmp_path / "file"),
    )
    assert found[:2] == [2, "CPUDispatcher"]
    assert not Path(found[2]).exists()


def test_without_another_process_it_is_compiled_here(tmp_path: Path) -> None:
    found = run(
        """
        def no(): raise FileNotFoundError
        behind.start = no
        first = incoming_kernels.lacking(slots)
        behind.join()
        print(json.dumps([first, type(incoming_kernels.lacking).__name__]))
        """,
        tmp_path,
    )
    assert found == [2, "CPUDispatcher"]


def test_after_a_fork_each_has_it(tmp_path: Path) -> None:
    found = run(
        """
        import warnings
        warnings.simplefilter("ignore")
        incoming_kernels.lacking(slots)
        child = os.fork()
        incoming_kernels.lacking(slots)
        behind.join()
        ok = type(incoming_kernels.lacking).__name__ == "CPUDispatcher"
        if not child:
            behind._close()
            os._exit(0 if ok else 1)
        print(json.dumps([ok, os.waitpid(child, 0)[1]]))
        """,
        tmp_path,
    )
    assert found == [True, 0]


def test_a_fork_waits_for_a_turn(tmp_path: Path) -> None:
    """What the thread imports in its turn would stay half imported in a child."""
    found = run(
        """
        seen = []
        real = code_cache.settled
        def settled():
            def other():
                free = behind._loading.acquire(blocking=False)
                if free:
                    behind._loading.release()
                seen.append(free)
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return real()
        code_cache.settled = settled
        incoming_kernels.lacking(slots)
        behind.join()
        behind._close()
        print(json.dumps(sorted(set(seen))))
        """,
        tmp_path,
    )
    assert found == [False]


def test_a_turn_that_fails_leaves_nobody_waiting(tmp_path: Path) -> None:
    found = run(
        """
        import logging
        logging.disable(logging.CRITICAL)
        def settled():
            raise RuntimeError("no")
        code_cache.settled = settled
        incoming_kernels.lacking(slots)
        behind.join()
        print(json.dumps(type(incoming_kernels.lacking).__name__))
        """,
        tmp_path,
    )
    assert found == "CPUDispatcher"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("cache")
def test_what_is_wanted_is_made_once_and_in_order() -> None:
    some = Item("", "ef_generated"), Item("everfresh.local.kernels.hashing", "find", "l1C")
    for item in (*some, *some):
        code_cache.want(item)
    assert code_cache.wanted() == [some[1], some[0]]
    code_cache.settle(some[1])
    assert code_cache.is_done(some[1])
    assert code_cache.wanted() == [some[0]]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "item", [Item("os", "system", "l"), Item("everfresh.local.kernels.hashing", "none", "l")]
)
def test_what_cannot_be_made_says_so_and_is_left(item: Item, caplog: pytest.LogCaptureFixture) -> None:
    code_cache.want(item)
    compiler_process.make(item)
    assert not code_cache.wanted()
    assert code_cache.failure(item)
    asked = behind.Compilation(item, lambda here: True)
    assert asked.take()
    assert asked.failed
    assert not asked.is_needed
    assert "could not be compiled" in caplog.text


@pytest.mark.usefixtures("cache")
def test_what_was_made_for_another_processor_is_made_again() -> None:
    item = Item("everfresh.local.kernels.hashing", "find", "l1C")
    code_cache.settle(item)
    asked = behind.Compilation(item, lambda here: False)
    assert not asked.take()
    assert not code_cache.is_done(item)
    assert code_cache.wanted() == [item]


@pytest.mark.usefixtures("cache")
def test_one_process_compiles_at_a_time() -> None:
    held = code_cache.try_lock()
    assert held is not None
    assert code_cache.try_lock() is None
    held.close()
    again = code_cache.try_lock()
    assert again is not None
    again.close()


def test_numba_does_not_fill_a_log_of_everything() -> None:
    code = "import logging; logging.basicConfig(level=logging.DEBUG)\n" + PRELUDE
    code += "incoming_kernels.lacking.native(slots)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numba" not in done.stderr


def test_types_other_than_the_first_are_compiled_too() -> None:
    from everfresh.local.jit.kernel import kernel_of
    from everfresh.local.kernels import pool_values

    kernel = kernel_of(pool_values.gather)
    for kind in (np.int64, np.float64):
        matrix, out = np.arange(6, dtype=kind).reshape(2, 3), np.empty((2, 2), kind)
        kernel.native(matrix, np.array([2, -1]), 3, out)
        assert out.tolist() == [[2, 0], [5, 0]]


@pytest.mark.usefixtures("cache", "all_is_kept")
def test_what_is_asked_for_later_comes_too() -> None:
    for number in range(3):
        asked = behind.ask(Item("", f"some {number}"), lambda here: True)
        assert asked._settled.wait(60)
        time.sleep(2 * behind.POLL)  # the thread has gone to sleep


@pytest.mark.usefixtures("cache")
def test_a_process_that_is_killed_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sleep", "60"])
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(behind, "start", killed)
    shop = behind.Workshop()
    asked = behind.Compilation(Item("everfresh.local.kernels.hashing", "find", "l1C"), lambda here: True)
    shop.add(asked)
    assert asked._settled.wait(60)
    assert asked.failed
    shop.close()


def test_folders_of_earlier_digests_go(tmp_path: Path) -> None:
    """All but the last few, unless somebody uses one, or has today."""
    cache = tmp_path / "everfresh"
    folders = [cache / f"kernels-{i:024d}" for i in range(9)]
    for age, folder in enumerate(folders, 2):
        folder.mkdir(parents=True)
        (folder / "some.nbc").touch()
        if age % 2:
            (folder / "used").touch()
    today = cache / "kernels-today"
    today.mkdir()
    code = "import json, sys, time; from everfresh.local.jit import code_cache; from pathlib import Path\n"
    code += "code_cache._held(Path(sys.argv[1])); print(json.dumps(1), flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code, str(folders[8])], stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline()
        for age, folder in enumerate(folders, 2):
            times = (time.time() - 86_400 * age,) * 2
            for path in (*folder.iterdir(), folder):
                os.utime(path, times)
        left = run("print(json.dumps(os.path.basename(code_cache.kernels())))", tmp_path)
        names = {path.name for path in cache.glob("kernels-*")}
        user.kill()
    assert left in names
    kept = {today, *folders[: code_cache.KEPT - 2], folders[8]}
    assert names - {left} == {path.name for path in kept}
