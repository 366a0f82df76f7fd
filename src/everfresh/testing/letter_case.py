"""The same SQL in other letter cases: keywords, functions and names without quotes mean what they meant.

What stands in quotes, numbers and comments stay as they are, and so does the length of the text, so that
places in it remain.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_PARTS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | (\$\w*\$).*?\1 | --[^\n]* | /\*.*?\*/ | \d\w*
        | (?P<word>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)


def recased(text: str, change: Callable[[str], str]) -> str:
    """The text with every word outside of quotes changed.

    >>> recased('SELECT "A" || \\'It\\' FROM t -- All', str.lower)
    'select "A" || \\'It\\' from t -- All'
    """
    return _PARTS.sub(lambda m: change(m[0]) if m["word"] and m[0].isascii() else m[0], text)


def at_random(text: str, rng: random.Random, kept: str = "") -> str:
    """The text in lower case, in upper case, as it is, or each letter of a word as it comes; the word `kept`
    stays."""
    change = rng.choice((str.lower, str.upper, str, lambda word: _mixed(word, rng)))
    return recased(text, lambda word: word if word == kept else change(word))


def _mixed(word: str, rng: random.Random) -> str:
    return "".join(rng.choice((c.lower(), c.upper())) for c in word)
