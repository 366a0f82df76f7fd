"""What set-up says on a machine without the right Python or Java: one sentence, and what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOOD_JAVA = """#!/bin/sh
echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2
echo 'openjdk version "21.0.2" 2024-01-16' >&2
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def python(version: str) -> str:
    """A Python that only knows its version."""
    return f"#!/bin/sh\nprintf '%s' '{version}'\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that is the whole PATH: the shell, and a Java that will do."""
    bin_ = tmp_path / "bin"
    program(bin_ / "java", GOOD_JAVA)
    sh = shutil.which("sh")
    assert sh is not None
    (bin_ / "sh").symlink_to(sh)
    return bin_


def preflight(root: Path, machine: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "sh"), str(root / "scripts" / "preflight.sh"), *args],
        env={"PATH": str(machine), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line it said."""
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert "apt install" in lines[0]
    assert "brew install" in lines[0]
    return lines[0]


def test_a_good_machine(root: Path, machine: Path):
    (machine / "python3").symlink_to(sys.executable)
    done = preflight(root, machine)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(machine / "python3")


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.9", "3.10"])
def test_an_old_python(root: Path, machine: Path, version: str):
    program(machine / "python3", python(version))
    assert f"needs Python 3.11 or newer, but python3 is Python {version}:" in sentence(
        preflight(root, machine)
    )


@pytest.mark.parametrize("version", ["3.11", "3.14", "4.0"])
def test_a_new_python(root: Path, machine: Path, version: str):
    program(machine / "python3", python(version))
    assert preflight(root, machine, "python").returncode == 0


def test_no_python(root: Path, machine: Path):
    assert "needs Python 3.11 or newer: install" in sentence(preflight(root, machine))


def test_a_newer_python_beside_an_old_one(root: Path, machine: Path):
    program(machine / "python3", python("3.9"))
    program(machine / "python3.13", "#!/bin/sh\nexit 127\n")  # a shim with nothing behind it
    program(machine / "python3.12", python("3.12"))
    assert preflight(root, machine, "python").stdout.strip() == str(machine / "python3.12")


def test_a_python_without_venv(root: Path, machine: Path):
    program(machine / "python3", '#!/bin/sh\ncase "$2" in *venv*) exit 1 ;; *) printf 3.12 ;; esac\n')
    assert "comes without its module venv" in sentence(preflight(root, machine))


def test_the_python_that_was_asked_for(root: Path, machine: Path):
    program(machine / "python3", python("3.12"))
    program(machine / "mine", python("3.8"))
    assert "but mine is Python 3.8" in sentence(preflight(root, machine, "python", PYTHON="mine"))
    assert "'other' does not run" in sentence(preflight(root, machine, "python", PYTHON="other"))


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('java version "1.8.0_292"', "1.8.0_292"),
        ('openjdk version "11.0.2" 2019-01-15', "11.0.2"),
        ('openjdk version "9-ea"', "9-ea"),
    ],
)
def test_an_old_java(root: Path, machine: Path, says: str, version: str):
    program(machine / "java", f"#!/bin/sh\necho '{says}' >&2\n")
    assert f"needs Java 17 or newer for Spark, but java is Java {version}:" in sentence(
        preflight(root, machine, "java")
    )


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "25.0.1"])
def test_a_new_java(root: Path, machine: Path, version: str):
    program(machine / "java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    assert preflight(root, machine, "java").returncode == 0


def test_no_java(root: Path, machine: Path):
    (machine / "java").unlink()
    assert "needs Java 17 or newer for Spark: install" in sentence(preflight(root, machine, "java"))


def test_a_java_that_only_asks_to_be_installed(root: Path, machine: Path):
    program(machine / "java", "#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2; exit 1\n")
    assert "needs Java 17 or newer" in sentence(preflight(root, machine, "java"))


def test_java_home_decides(root: Path, machine: Path, tmp_path: Path):
    old = tmp_path / "jdk8"
    program(old / "bin" / "java", "#!/bin/sh\necho 'java version \"1.8.0\"' >&2\n")
    assert f"{old}/bin/java is Java 1.8.0" in sentence(preflight(root, machine, "java", JAVA_HOME=str(old)))
    said = sentence(preflight(root, machine, "java", JAVA_HOME=str(tmp_path / "nothing")))
    assert "where bin/java does not run" in said


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_says_little_more(root: Path, machine: Path):
    """`make setup` stops at the sentence, with make's own last line."""
    program(machine / "java", "#!/bin/sh\necho 'java version \"1.8.0\"' >&2\n")
    path = f"{machine}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(root), "setup"],
        env={**{k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "MAKEFLAGS")}, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("everfresh needs Java 17")
    assert len(lines) <= 2
