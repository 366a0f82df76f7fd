"""The locks: exact versions with digests, without addresses, and within the ranges of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENVIRONMENT = {"python_full_version": "3.11.0", "python_version": "3.11", "sys_platform": "linux"}


def locked(file: Path) -> list[tuple[Requirement, list[str]]]:
    """Each requirement of a lock with its digests; every other line is a comment."""
    lines = [line for line in file.read_text().replace("\\\n", "").splitlines() if not line.startswith("#")]
    found = []
    for line in lines:
        text, *digests = line.split("--hash=")
        found.append((Requirement(text), [digest.strip() for digest in digests]))
    return found


def locks(root: Path) -> list[Path]:
    return sorted((root / "scripts" / "locks").glob("*.txt"))


def test_every_environment_has_a_lock(root: Path):
    lists = {file.name for file in (root / "scripts" / "venvs").glob("*.txt")}
    assert {file.name for file in locks(root)} == lists | {"build.txt", "dev.txt"}


def test_versions_are_exact_with_digests_and_without_addresses(root: Path):
    for file in locks(root):
        requirements = locked(file)
        assert requirements, file
        for requirement, digests in requirements:
            assert requirement.url is None
            assert [s.operator for s in requirement.specifier] == ["=="], (file.name, requirement)
            assert digests, (file.name, requirement)
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)
        assert "://" not in file.read_text()
        assert "index-url" not in file.read_text()


def asked_for(root: Path) -> list[Requirement]:
    """What the package and its development tools ask for."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    texts = [*project["project"]["dependencies"], *groups["build"], *groups["dev"]]
    return [Requirement(text) for text in texts if isinstance(text, str)]


@pytest.mark.parametrize("lock", ["dev", "build", "torch"])
def test_locked_versions_are_within_the_ranges(root: Path, lock: str):
    """What goes into one environment agrees, and `make lock` was run after the ranges were changed."""
    ranges: dict[str, list[Requirement]] = {}
    for requirement in asked_for(root):
        ranges.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    versions = installed(root, lock)
    for name, version in versions.items():
        for requirement in ranges.get(name, ()):
            assert requirement.specifier.contains(version, prereleases=True), (requirement, version)
    if lock == "dev":
        assert set(ranges) <= set(versions)
    else:
        shared = installed(root, "dev")
        assert all(version == shared.get(name, version) for name, version in versions.items())


def installed(root: Path, lock: str) -> dict[str, str]:
    """The versions that a lock gives the oldest Python."""
    requirements = [requirement for requirement, _ in locked(root / "scripts" / "locks" / f"{lock}.txt")]
    return {
        canonicalize_name(r.name): str(r.specifier).removeprefix("==")
        for r in requirements
        if r.marker is None or r.marker.evaluate(ENVIRONMENT)
    }
