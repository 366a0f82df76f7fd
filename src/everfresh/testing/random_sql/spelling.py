"""How a history is spelled, a pure function of its seed: keywords and names in random letter case, and names
that are hard to get right: those of keywords and functions, with quotes, dots and newlines in them, spelled
like what a compiler might call things.

The generator and the shrinker know plain names only; a history gets its spelling just before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

from everfresh.testing.histories import History
from everfresh.testing.letter_case import random_change, recased
from everfresh.testing.replay import DEVIATION
from everfresh.types import quoted

HOSTILE = (
    "#", "#0", "#1", "#2", "#1.x", "#1.0", "#1u", "# of orders", "$0", "$x", "$row", "$value", "@0", "@x",
    "@row", "v", "v#0", "v#1", "v#2", "v$0", "v$1", "v~2", "a~", "a~0", "a_1", "x_1", "x.y", "r1.x0", ".",
    "Δ", "Δv$0", "⟨a⟩", "temp0", "temp1", "table:v", "map:v", "lo", "hi", "0", "1", "m", "w", "row", "select",
    "From", "CASE", "null", "sum", "count", "count_star()", "rank", "date", "rows", "scalar_1", "exists_1",
    "_order1", "excluded", "value", 'q"q', '"', "it's", "new\nline", "tab\there", " ", "  ", " a", "k!", "k?",
    "{0}", "%s", "\\", "--", "/*", ";", "größe", "日本", "epoch", "weight", "Exists", "Sum_", "MAP",
    "ON CHANGE", "-1",
)  # fmt: skip
_PLAIN = re.compile(r"[a-z]\d+")  # what the generator calls things


def plain(history: History) -> History:
    """The history as the generator names things."""
    return history


def spelled(history: History) -> History:
    """The same history, spelled as its seed says."""
    rng = Random(f"{history.seed} spelling")
    names = _names(history, rng) if rng.random() < 0.5 else {}

    def new(name: str) -> str:
        return names.get(name, name)

    schemas = tuple(
        replace(
            s,
            name=new(s.name),
            columns=tuple(replace(c, name=new(c.name)) for c in s.columns),
            key=tuple(map(new, s.key)),
        )
        for s in history.schemas
    )
    views = tuple((new(name), _spelled(query, names, random_change(rng))) for name, query in history.views)
    batches = tuple(tuple(replace(c, table=new(c.table)) for c in batch) for batch in history.batches)
    return History(history.seed, schemas, views, batches)


def _names(history: History, rng: Random) -> dict[str, str]:
    """Hostile names for half of what a history names, each once."""
    found = {s.name for s in history.schemas} | {c.name for s in history.schemas for c in s.columns}
    found |= {name for name, _ in history.views}
    found |= {word for _, query in history.views for word in _PLAIN.findall(query)}
    chosen = [name for name in sorted(found) if rng.random() < 0.5]
    return dict(zip(chosen, rng.sample(HOSTILE, len(HOSTILE)), strict=False))


def _spelled(query: str, names: dict[str, str], change: Callable[[str], str]) -> str:
    def word(text: str) -> str:
        if text in names:
            return quoted(change(names[text]))
        return text if text == DEVIATION else change(text)

    return recased(query, word)
