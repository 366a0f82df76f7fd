"""Errors of Spark jobs as errors of everfresh.

A task that finds damaged state while reading, and Spark SQL when a value overflows, raise inside the JVM.
`translated` gives the caller the `EverfreshError` that the same mistake would raise on the local engine;
anything it does not know passes unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from everfresh.errors import Code, EverfreshError

_MARK = "everfresh-error:"
_CONDITIONS = {
    "DIVIDE_BY_ZERO": Code.DIVISION_BY_ZERO,
    "REMAINDER_BY_ZERO": Code.DIVISION_BY_ZERO,
    "OVERFLOW": Code.OVERFLOW,
    "OUT_OF_RANGE": Code.OVERFLOW,
    "OUT_OF_BOUNDS": Code.VALUE,
    "CAST_INVALID_INPUT": Code.VALUE,
    "NUMERIC_VALUE": Code.OVERFLOW,
}


class TaskError(RuntimeError):
    """An `EverfreshError` on its way out of a task whose output is rows, so that it cannot travel as one."""

    def __init__(self, error: EverfreshError) -> None:
        super().__init__(f"{_MARK}{json.dumps(error.to_dict())}")


@contextmanager
def translated() -> Iterator[None]:
    """Raise what a Spark job failed with as an `EverfreshError`, where it is one."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = str(error)
        found = re.search(re.escape(_MARK) + r"(\{.*\})", text)
        if found:
            raise EverfreshError.from_dict(json.loads(found[1])) from error
        condition = error.getCondition() or ""
        for part, code in _CONDITIONS.items():
            if part in condition:
                raise EverfreshError(code, text.splitlines()[0]) from error
        raise
