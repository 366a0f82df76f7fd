"""`python -m everfresh.testing.random_sql --seed 17 --views 5`: one case as SQL, then what became of it.

With `--count` or `--seconds`, the seeds from there on, without printing them.
"""

from __future__ import annotations

import argparse
import sys
from itertools import count
from pathlib import Path

from everfresh.testing.random_sql.data import random_case
from everfresh.testing.random_sql.drive import drive
from everfresh.testing.random_sql.large import enlarged
from everfresh.testing.random_sql.shrinking import written
from everfresh.testing.random_sql.spelling import spelled
from everfresh.testing.random_sql.weights import never_used
from everfresh.testing.state_check import check_state


def main() -> int:
    """Run the command; 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m everfresh.testing.random_sql", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--views", type=int, default=5, help="views of each history")
    parser.add_argument("--count", type=int, default=None, help="how many histories")
    parser.add_argument("--seconds", type=float, default=None, help="for how long")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--keep", type=Path, default=None, help="folder for the failures as files")
    parser.add_argument("--state", action="store_true", help="compare every map after each batch")
    parser.add_argument("--reasons", action="store_true", help="say why views are re-evaluated")
    given = parser.parse_args()
    many = given.count is not None or given.seconds is not None
    if not many:
        sys.stdout.write(written(spelled(enlarged(random_case(given.seed, given.views).history))) + "\n")
    last = None if given.count is None else given.seed + given.count
    seeds = count(given.seed) if last is None else range(given.seed, last)
    result = drive(
        seeds if many else [given.seed],
        views=given.views,
        seconds=given.seconds if given.seconds is not None else float("inf"),
        stop_at=given.failures,
        keep=given.keep,
        check_state=check_state if given.state else None,
    )
    for failure in result.failures:
        sys.stdout.write(failure + "\n")
    sys.stdout.write(result.summary() + "\n")
    if given.reasons:
        for reason, times in result.report.reevaluated.most_common():
            sys.stdout.write(f"{times:6} {reason}\n")
    if many:
        sys.stdout.write(f"never used: {', '.join(never_used(result.used)) or 'nothing'}\n")
    return 1 if result.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
