"""How many entries of a map one lookup by some of its keys finds, estimated from a sample.

Of m entries drawn from n, c pairs agree on these keys. Two entries drawn at random agree with the probability
2c / m(m-1), so an entry has n times as many that agree with it: large groups count as often as they are met.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everfresh.local.interpret.atoms import Pooled
from everfresh.local.store.codec import Codec

SAMPLE = 4096
"""Entries that are drawn: enough to see groups of four among some millions."""


def fanout(stored: Pooled, places: Sequence[int]) -> float:
    """About how many entries agree with one of them on the columns at `places`, itself included."""
    live = stored.slots()
    size = len(live)
    if size < 2:
        return float(size)
    drawn = np.unique(np.random.default_rng(0).integers(0, size, SAMPLE)) if size > SAMPLE else slice(None)
    slots = live[drawn]
    part = Codec([stored.columns[i] for i in places], stored.codec.interner)
    words = stored.codec.project(stored.words(slots), part)
    _, counts = np.unique(words, axis=1, return_counts=True)
    pairs = float((counts * (counts - 1) // 2).sum())
    return max(1.0, size * 2 * pairs / (len(slots) * (len(slots) - 1)))
