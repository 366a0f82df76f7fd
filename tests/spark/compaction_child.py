"""A process that applies batches on a session without a JVM until a fault kills it.

Arguments: the database, the number of batches, the fault.
"""

from __future__ import annotations

import sys

import pytest
from fake_spark import install
from test_spark_compaction import OPTIONS, batch

import everfresh as ef


def main() -> None:
    path, count, fault = sys.argv[1:]
    with pytest.MonkeyPatch.context() as patched:
        session = install(patched)
        options = OPTIONS.with_(fault=fault, single_writer=True)
        with ef.connect(path, engine="spark", spark=session, options=options) as db:  # type: ignore[arg-type]
            for number in range(int(count)):
                db.apply(batch(number), key=f"batch-{number}")
                db._engine.compaction.wait()


if __name__ == "__main__":
    main()
