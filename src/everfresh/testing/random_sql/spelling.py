"""How a history is spelled: its keywords and names in random letter case, a pure function of its seed.

The generator and the shrinker know plain names only; a history gets its spelling just before it runs.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from everfresh.testing.histories import History
from everfresh.testing.letter_case import at_random
from everfresh.testing.replay import DEVIATION


def plain(history: History) -> History:
    """The history as the generator names things."""
    return history


def spelled(history: History) -> History:
    """The same history, spelled as its seed says."""
    rng = Random(f"{history.seed} spelling")
    views = tuple((name, at_random(query, rng, kept=DEVIATION)) for name, query in history.views)
    return replace(history, views=views)
