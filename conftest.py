"""Runs the Python blocks of README.md and docs/ as tests, through Sybil.

The blocks of one page share a namespace and run in order, in a temporary folder; databases they leave open
are closed at the end of the page. A block below the line `<!-- spark -->` carries the marker `spark`: such
blocks stand on their own, so that the rest of the page also runs without them.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

_SPARK = "<!-- spark -->"


@cache
def _folders() -> tempfile.TemporaryDirectory[str]:
    """Removed when Python ends, not with the page: a JVM that a page started keeps its working folder."""
    return tempfile.TemporaryDirectory(prefix="everfresh-docs-", ignore_cleanup_errors=True)


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_home"] = os.getcwd()
    os.chdir(tempfile.mkdtemp(dir=_folders().name))


def _leave(namespace: dict[str, Any]) -> None:
    from everfresh.database import Database

    for value in list(namespace.values()):
        if isinstance(value, Database):
            value.close()
    os.chdir(namespace["_home"])


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/design/*.md"],
    setup=_enter,
    teardown=_leave,
).pytest()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the blocks that need Spark."""
    example = getattr(item, "example", None)
    if example is not None and example.document.text[: example.region.start].rstrip().endswith(_SPARK):
        item.add_marker("spark")
