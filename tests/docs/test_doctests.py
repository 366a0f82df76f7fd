"""Every example in a docstring of everfresh runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import everfresh


def _modules() -> Iterator[Any]:
    yield "everfresh"
    for found in pkgutil.walk_packages(everfresh.__path__, "everfresh."):
        if found.name != "everfresh.__main__":
            marks = [pytest.mark.spark] if "spark" in found.name.split(".") else []
            yield pytest.param(found.name, marks=marks)


@pytest.mark.parametrize("name", list(_modules()))
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    said: list[str] = []
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
