"""Fresh interpreters for what cannot be measured in this one: starting, and the memory of a whole run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from everfresh.errors import Code, EverfreshError


def has_java() -> bool:
    """Whether there is a Java for Spark."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java") if home else "java") is not None


def python(*args: str, **env: str) -> str:
    """What a fresh interpreter prints; one that fails is an error with the end of what it said."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *args], env={**inherited, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EverfreshError(Code.ENVIRONMENT, f"a measured process failed: {last}", hint=done.stderr[-2000:])
    return done.stdout
