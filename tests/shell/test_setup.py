"""Set-up for real: current environments stay untouched, half-made ones are made anew, the wheel works."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    env = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "PYTHON")
    }
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=900, **{"env": env, **options}
    )  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def clone(tmp_path: Path, root: Path) -> Path:
    """A clone with what environments need and nothing else."""
    folder = tmp_path / "clone"
    shutil.copytree(root / "scripts", folder / "scripts")
    for listing in ("venvs", "locks"):
        (folder / "scripts" / listing / "empty.txt").write_text("# nothing\n")
    return folder


def environment(clone: Path, **options: object) -> str:
    """Make the environment `empty`; returns what that said."""
    done = run(["scripts/venv.sh", "empty"], cwd=clone, **options)
    assert done.returncode == 0, done.stderr
    assert (clone / ".venvs" / "empty" / "bin" / "python").exists()
    return done.stdout


def test_setup_does_nothing_when_it_is_current(root: Path):
    if not (root / ".venv" / ".stamp").exists():
        pytest.skip("not run from an environment made by `make setup`")
    before = {path: path.stat().st_mtime_ns for path in (root / ".venv" / ".stamp", root / ".venv" / "bin")}
    done = run(["make", "--no-print-directory", "setup"], cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_environments_are_made_when_they_are_not_current(clone: Path):
    folder = clone / ".venvs" / "empty"
    assert "making .venvs/empty" in environment(clone)
    assert environment(clone) == ""

    (clone / "scripts" / "locks" / "empty.txt").write_text("# still nothing\n")
    assert "other versions: updating" in environment(clone)
    assert environment(clone) == ""

    (folder / ".stamp").unlink()  # half made
    (folder / "leftover").write_text("")
    assert "making" in environment(clone)
    assert not (folder / "leftover").exists()

    moved = clone.rename(clone.parent / "moved")  # made for another folder, and its Python is gone
    python = moved / ".venvs" / "empty" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert "making" in environment(moved)


def test_an_unknown_environment_is_a_clear_error(clone: Path):
    done = run(["scripts/venv.sh", "nope"], cwd=clone)
    assert done.returncode == 1
    assert done.stderr == "there is no environment 'nope': scripts/venvs/nope.txt is missing.\n"


def test_the_wheel_runs_the_demo_from_an_empty_environment(root: Path):
    if not (root / ".venv" / ".stamp").exists():
        pytest.skip("not run from an environment made by `make setup`")
    done = run(["scripts/wheel_test.sh"], cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("everfresh ")
